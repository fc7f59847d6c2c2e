"""Defines what can happen on a voyage over the invented sea: where, for how long, and how a vessel moves meanwhile.

A scene is a number, and what belongs to it stands in tables by scene: the patterns of `patterns/maritime` that occur in
it, its sites, its length, the status that the crew sets, how often vessels of each type play it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import F64, I64
from wayeb_py.simulate.invented_sea import ANCHORAGES, METRES_A_DEGREE, WEST

TYPES = ("cargo", "tanker", "passenger", "fishing", "sar", "pleasure", "pilot", "tug")
FISHER = TYPES.index("fishing")
TYPE_SHARES = (0.29, 0.14, 0.12, 0.25, 0.06, 0.14, 0.0, 0.0)  # shares of the types among vessels that sail alone
CRUISE_KN = ((9, 16), (8, 13), (12, 20), (6, 10), (14, 22), (6, 16), (12, 17), (5, 7))  # by type
STATUSES = ("under way", "at anchor", "moored", "fishing", "not under command")
UNDER_WAY, AT_ANCHOR, MOORED, FISHING, NOT_UNDER_COMMAND = range(5)

N_SCENES = 15
(
    NONE, ANCHORED, DRIFTING, TRAWLING, SEARCHING, LOITERING, TRESPASSING, COASTING, TURNING, STOPPING, DRAGGING,
    SPEEDING, OVER_CABLE, MEETING, HANDING_OVER,
) = range(N_SCENES)  # fmt: skip
# [scene]: the patterns that occur, complete with the scene's last message.
SCENE_PATTERNS: tuple[tuple[str, ...], ...] = (
    (),
    ("Anchored", "CarefulAnchored"),
    ("Drifting", "CarefulDrifting"),
    ("Trawling", "CarefulTrawling"),
    ("SearchAndRescue", "CarefulSearchAndRescue", "ZigZag"),
    ("Loitering", "CarefulLoitering"),
    ("ProtectedArea", "CarefulProtectedArea"),
    ("HighSpeedNearCoast", "CarefulHighSpeedNearCoast"),
    ("UTurn",),
    ("SuddenStop",),
    ("DraggingAnchor",),
    ("SpeedingInZone",),
    ("StoppedOverCable",),
    (),  # `sea.duos` says what two vessels do at a meeting
    (),
)
SCENE_SHARES = np.array(  # [type, scene]: share among voyages of vessels that sail alone
    [
        [0.20, 0.26, 0.06, 0.00, 0.00, 0.08, 0.04, 0.02, 0.06, 0.06, 0.08, 0.06, 0.08, 0.00, 0.00],
        [0.16, 0.32, 0.06, 0.00, 0.00, 0.08, 0.02, 0.02, 0.06, 0.06, 0.12, 0.04, 0.06, 0.00, 0.00],
        [0.46, 0.06, 0.04, 0.00, 0.00, 0.02, 0.02, 0.12, 0.04, 0.10, 0.02, 0.12, 0.00, 0.00, 0.00],
        [0.06, 0.02, 0.04, 0.60, 0.00, 0.04, 0.16, 0.00, 0.04, 0.00, 0.02, 0.00, 0.02, 0.00, 0.00],
        [0.16, 0.02, 0.02, 0.00, 0.72, 0.02, 0.00, 0.04, 0.00, 0.00, 0.00, 0.02, 0.00, 0.00, 0.00],
        [0.10, 0.10, 0.06, 0.00, 0.00, 0.12, 0.12, 0.24, 0.08, 0.06, 0.04, 0.04, 0.04, 0.00, 0.00],
        [1.00] + 14 * [0.00],
        [1.00] + 14 * [0.00],
    ]
)
COASTING_TICKS = (10, 16)
SCENE_TICKS = np.array(  # [scene]: least and most ticks
    [
        [0, 1], [42, 180], [6, 25], [20, 120], [6, 30], [13, 60], [6, 7], [*COASTING_TICKS], [8, 9], [9, 10], [8, 20],
        [5, 6], [6, 20], [25, 60], [128, 150],
    ]
)  # fmt: skip
DIRECT = (DRIFTING, TRAWLING, SEARCHING, LOITERING, TURNING, STOPPING, SPEEDING)  # on the open sea, far from lanes
SCENE_STATUS = np.full(N_SCENES, UNDER_WAY)
SCENE_STATUS[[ANCHORED, DRAGGING]] = AT_ANCHOR
SCENE_STATUS[TRAWLING], SCENE_STATUS[DRIFTING] = FISHING, NOT_UNDER_COMMAND

TRAWLING_SITES = np.array(
    [(-4.45, 48.80), (-4.55, 48.80), (-4.86, 48.86), (-4.84, 48.88), (-4.14, 48.87), (-4.11, 48.95)]
)
TRAWLING_RADIUS_M = 1900.0
# The southern end of each crossing, and the area that is crossed.
TRESPASSING_SITES = np.array([(-4.56, 48.575), (-4.57, 48.60), (-4.93, 48.611)])
TRESPASSED = ("Seagrass Corner", "Seagrass Corner", "Bird Rock")
SPEEDING_SITES = np.array([(-4.65, 48.915)])
SPED_THROUGH = "Whale Water"
CABLE_SITES = np.array([(-4.795, 48.47), (-4.018, 48.60)])

TICK_S = 60
KN_IN_M_S = 1852 / 3600


def coast_lats(lon: F64) -> tuple[F64, F64]:
    """Latitude and slope of the mainland's shore at longitudes; `invented_sea.coast_lat` for arrays."""
    turn = 2 * np.pi * (lon - WEST)
    lat = 48.32 + 0.045 * np.sin(1.3 * turn + 0.4) + 0.02 * np.sin(4.1 * turn) + 0.005 * np.sin(17 * turn)
    slope = 0.045 * 1.3 * np.cos(1.3 * turn + 0.4) + 0.02 * 4.1 * np.cos(4.1 * turn) + 0.005 * 17 * np.cos(17 * turn)
    return lat, 2 * np.pi * slope


def choose_scenes(random: np.random.Generator, types: I64) -> I64:
    """What happens on the voyages of vessels of these types."""
    limits = np.cumsum(SCENE_SHARES, axis=1)[types]
    return np.asarray(np.minimum((random.random(len(types))[:, None] >= limits).sum(axis=1), N_SCENES - 1))


def choose_sites(random: np.random.Generator, scene: I64) -> tuple[F64, F64, I64]:
    """Where a scene happens, and the number of the site among those of its scene."""
    k = len(scene)
    lot = random.uniform(-1, 1, (2, k))
    # The open sea, far from ports and shores.
    lon, lat = -4.47 + 0.11 * lot[0], 48.70 + 0.03 * lot[1]
    meets = np.isin(scene, (MEETING, HANDING_OVER))  # further from islands
    lon = np.where(meets, -4.49 + 0.06 * lot[0], lon)
    which = random.integers(0, 1 << 30, k)
    number = np.zeros(k, np.int64)

    def put(kind: int, sites: npt.NDArray[Any], reach_lon: F64 | float, reach_lat: F64 | float) -> None:
        mine, site = scene == kind, sites[which % len(sites)]
        lon[:] = np.where(mine, site[:, 0] + reach_lon * lot[0], lon)
        lat[:] = np.where(mine, site[:, 1] + reach_lat * lot[1], lat)
        number[mine] = (which % len(sites))[mine]

    anchorages = np.array([row[1:5] for row in ANCHORAGES])
    reach = anchorages[which % len(anchorages)]
    for kind in (ANCHORED, DRAGGING):
        put(kind, anchorages[:, :2], 0.6 * reach[:, 2], 0.6 * reach[:, 3])
    put(TRAWLING, TRAWLING_SITES, 0.003, 0.002)
    put(TRESPASSING, TRESPASSING_SITES, 0.004, 0.001)
    put(SPEEDING, SPEEDING_SITES, 0.004, 0.002)
    put(OVER_CABLE, CABLE_SITES, 0.001, 0.001)
    return lon, lat, number


def play(
    random: np.random.Generator,
    scene: I64,
    remaining: I64,
    vessel: tuple[F64, F64, F64],
    skew: F64,
    is_fisher: npt.NDArray[np.bool_],
    to_site: tuple[F64, F64],
) -> tuple[F64, F64, F64]:
    """Course, heading and speed of vessels that play their scenes, with `remaining` ticks to go.

    `vessel` is course, heading and speed until now, `to_site` the way back to the site's middle in metres east and
    north, `skew` an angle that each vessel keeps through its scene.
    """
    course, heading, speed_kn = vessel
    lot = random.random((2, len(scene)))
    east_m, north_m = to_site

    def put(kind: int, kn: F64, towards: F64) -> None:
        nonlocal course, speed_kn
        speed_kn, course = np.where(scene == kind, kn, speed_kn), np.where(scene == kind, towards, course)

    drifting, dragging = scene == DRIFTING, scene == DRAGGING
    heading = heading + np.where(drifting, 6 * (lot[1] - 0.5), 0.0)
    put(DRIFTING, 0.8 + 1.4 * lot[0], heading + skew)
    strayed = np.hypot(east_m, north_m) > TRAWLING_RADIUS_M - 300
    back = np.where(strayed, np.degrees(np.arctan2(east_m, north_m)) + 38 * np.sign(skew), course)
    put(TRAWLING, 2.5 + 2.0 * lot[0], back + 14 * (lot[1] - 0.5))
    odd = np.where(remaining % 2 == 1, 60.0, -60.0)
    put(SEARCHING, 7 + 4 * lot[0], skew + 30 * remaining + odd)
    put(TRESPASSING, np.where(is_fisher, 3.0, 5.0) + 2 * lot[0], 4 * (lot[1] - 0.5))
    for kind in (LOITERING, MEETING, HANDING_OVER):
        put(kind, 0.05 + 0.35 * lot[0], 360 * lot[1])
    put(TURNING, 5 + 3 * lot[0], skew + np.where(remaining < 4, 180.0, 0.0))
    slowing = np.where(remaining > 5, 9 + 2 * lot[0], np.where(remaining == 5, 4.0, 0.1 + 0.6 * lot[0]))
    put(STOPPING, slowing, skew)
    put(DRAGGING, 0.8 + 1.4 * lot[0], skew)
    put(SPEEDING, 12 + 2 * lot[0], 4 * (lot[1] - 0.5))
    put(OVER_CABLE, 0.1 + 0.6 * lot[0], 360 * lot[1])
    keeps = np.isin(scene, (ANCHORED, LOITERING, OVER_CABLE, MEETING, HANDING_OVER)) | drifting
    heading = np.where(keeps, heading, course + 4 * (lot[0] - 0.5))
    return course, np.where(dragging, course + 180 + 20 * (lot[1] - 0.5), heading), speed_kn


def shift(lon: F64, lat: F64, course: F64, step_m: F64) -> tuple[F64, F64]:
    """Positions after a step on a course."""
    scale = np.cos(np.radians(lat)) * METRES_A_DEGREE
    angle = np.radians(course)
    return lon + step_m * np.sin(angle) / scale, lat + step_m * np.cos(angle) / METRES_A_DEGREE
