"""A table of what can happen to a vehicle of the made-up fleet: each scene takes over a vehicle for some minutes.

A scene says which patterns of `patterns/fleet` occur in it, where it can begin, what the vehicle really does meanwhile,
and what its messages say, minute by minute; a value that a scene leaves out is what the box would have sent anyway. The
table becomes arrays by scene and step, so that a tick looks up all scenes at once. *Not taken*: a function for each
scene, which would say the same in ten times the code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wayeb_py.arrays import F64, I64, Bool

STATUSES = ("parked", "idle", "moving")
PARKED, IDLE, MOVING = range(3)

# Where a scene can begin.
ANYWHERE = "anywhere"
EARLY = "early in the minute"  # there is time for a second message in it
FULL, COUNTRY, COUNTRY_LOW = "with fuel", "away from all places", "away from all places, with little fuel"
WILDS, CITY, DEPOT = "where there is room beside the road", "in the middle of a city", "near a depot"
ICE, STORM = "where a station reports ice", "where a station reports a storm"
NOWHERE = "only where it is called for"
COMPANY, LONG_ROAD = "in company", "with a long road ahead"

Range = tuple[float, float]
FAR_M: Range = (31, 900)


@dataclass(frozen=True, slots=True)
class Scene:
    """One row of the table; a list of steps that is shorter than its scene begins again."""

    patterns: tuple[str, ...]
    n_ticks: int
    weight: float = 1.0  # how often it is tried, relative to the others
    where: str = ANYWHERE
    goes: int | None = None  # what the vehicle really does: parked, idle or moving
    kmh: Range | None = None  # how fast it really goes
    then: int | None = None  # what it does afterwards
    frozen: bool = False  # positions without noise
    silent: tuple[int, int] = (0, 0)  # (first, end): in these steps the vehicle sends nothing
    away: tuple[float, ...] = (0.0,)  # share of the way to the scene's aim
    status: tuple[int | None, ...] = (None,)
    ignition: bool | tuple[bool, ...] | None = None
    satellites: int | None = None
    accelerating: bool | None = None
    ice: bool | None = None
    speed: tuple[Range | None, ...] = (None,)
    above_limit: Range | None = None  # speed over the limit, in km/h
    late_speed: tuple[Range | None, ...] = (None,)  # in a second message, 4 s after the first
    travelled: Range | None = None
    fuel: tuple[float, ...] = (0.0,)  # fuel added in each step
    gap_m: float | None = None  # for two that play it together: how far behind the second is


STILL: Range = (0, 0)
SCENES = (
    Scene(("ParkedMovingSwing", "QuickParkedMovingSwing"), 4, status=(PARKED, MOVING)),
    Scene(("IdleParkedSwing", "QuickIdleParkedSwing"), 4, status=(IDLE, PARKED)),
    Scene(("SpeedSwing",), 4, speed=((51, 130), STILL)),
    Scene(
        ("SpeedSwing", "QuickSpeedSwing", "HarshBraking"), 2, where=EARLY, status=(MOVING,), speed=((60, 120),),
        late_speed=(STILL,),
    ),
    Scene(
        ("HarshBraking",), 2, where=EARLY, status=(MOVING,), speed=((80, 120), (10, 30)), late_speed=((20, 40), None),
    ),
    Scene(("HarshStops",), 4, status=(MOVING,), speed=((81, 120), (0, 4))),
    Scene(
        ("MovingWithZeroSpeed", "CarefulMovingWithZeroSpeed"), 4, status=(MOVING,), speed=(STILL,), travelled=FAR_M,
    ),
    Scene(("MovingWithBadSignal",), 4, satellites=0, accelerating=True, travelled=FAR_M),
    Scene(
        ("MovingWithBadSignal", "CarefulMovingWithBadSignal"), 17, 0.6, satellites=0, accelerating=True,
        travelled=FAR_M,
    ),
    Scene(("PossibleTheft",), 4, status=(PARKED,), speed=(STILL,), travelled=FAR_M),
    Scene(
        ("CarefulTheft",), 5, 3.0, COUNTRY, goes=MOVING, kmh=(20, 30), status=(PARKED,), ignition=False,
        speed=(STILL,), travelled=STILL,
    ),
    Scene(
        ("FuelDrop",), 3, 1.5, FULL, goes=PARKED, status=(PARKED,), ignition=False, speed=(STILL,), travelled=STILL,
        fuel=(0, -0.15, 0),
    ),
    Scene(("SilentWhileMoving",), 36, 0.4, goes=MOVING, status=(MOVING,), ignition=True, silent=(1, 35)),
    Scene(
        ("SilentWhileMoving", "MovedInSilence", "SilentVehicle"), 67, 0.3, goes=MOVING, status=(MOVING,), ignition=True,
        silent=(1, 66),
    ),
    Scene(("FrozenPosition",), 6, goes=IDLE, frozen=True, status=(MOVING,), ignition=True, speed=((25, 60),)),
    Scene(("JumpingPosition",), 3, goes=IDLE, away=(0, 1, 0), status=(IDLE,), ignition=True, speed=(STILL,)),
    Scene(("LongIdling",), 23, 0.7, goes=IDLE, status=(IDLE,), ignition=True, speed=(STILL,)),
    Scene(("TooFast", "Speeding"), 4, status=(MOVING,), speed=((131, 170),)),
    Scene(("Speeding",), 4, status=(MOVING,), above_limit=(15, 29)),
    Scene(("DangerousDriving", "CarefulDangerousDriving"), 4, status=(MOVING,), ice=True, above_limit=(4, 30)),
    Scene(("IcySpeeding",), 3, 3.0, ICE, status=(MOVING,), above_limit=(4, 30)),
    Scene(("StormDriving",), 4, 8.0, STORM, status=(MOVING,), speed=((65, 95),)),
    Scene(("RefuelOpportunity", "CarefulRefuelOpportunity"), 4, where=NOWHERE, goes=IDLE, status=(IDLE,)),
    Scene(
        ("RefuelElsewhere",), 3, 8.0, COUNTRY_LOW, goes=IDLE, status=(IDLE,), speed=(STILL,), fuel=(0, 0.3, 0),
    ),
    Scene(
        ("StopOutside",), 20, 2.0, COUNTRY, goes=PARKED, status=(PARKED,), ignition=False, speed=(STILL,),
        silent=(1, 19),
    ),
    Scene(
        ("RouteDeviation",), 8, 2.0, WILDS, goes=IDLE, status=(MOVING,), ignition=True, speed=((60, 80),),
        away=(0, 0.25, 0.5, 0.75, 1, 0.75, 0.5, 0.25),
    ),
    Scene(("SpeedingInCity",), 2, 30.0, CITY, goes=MOVING, kmh=(62, 64), status=(MOVING,), speed=((61, 65),)),
    Scene(
        ("DepotVisit",), 9, 40.0, DEPOT, goes=IDLE, away=(0, 0.33, 0.67, 1, 1, 1, 1, 1, 0.5),
        ignition=(True, True, True, True, False, False, False, False, True),
        status=(MOVING, MOVING, MOVING, MOVING, PARKED, PARKED, PARKED, PARKED, MOVING),
        speed=((20, 50), (40, 70), (40, 70), (5, 15), STILL, STILL, STILL, STILL, (20, 50)),
    ),
    Scene(
        ("ShortTrip",), 5, where=NOWHERE, goes=MOVING, kmh=(25, 40), then=PARKED,
        ignition=(True, True, True, True, False), status=(MOVING, MOVING, MOVING, MOVING, PARKED),
    ),
    Scene(
        ("Bunching", "CarefulBunching"), 11, 8.0, COMPANY, goes=MOVING, kmh=(14, 18), status=(MOVING,), ignition=True,
        gap_m=90,
    ),
    Scene(
        ("Tailgating",), 8, 12.0, LONG_ROAD, goes=MOVING, kmh=(75, 85), frozen=True, status=(MOVING,), ignition=True,
        gap_m=8,
    ),
    Scene(
        ("Handover",), 9, 30.0, COUNTRY, goes=IDLE, frozen=True, status=(IDLE,), ignition=True, speed=(STILL,),
        gap_m=12,
    ),
    Scene(
        ("Convoy",), 20, 12.0, LONG_ROAD, goes=MOVING, kmh=(55, 62), status=(MOVING,), ignition=True, gap_m=400,
    ),
)  # fmt: skip


def _scene_of(pattern: str) -> int:
    return next(number for number, scene in enumerate(SCENES) if pattern in scene.patterns)


REFUELLING, SHORT_TRIP = _scene_of("RefuelOpportunity"), _scene_of("ShortTrip")
SPEEDING_IN_CITY, DEPOT_VISIT = _scene_of("SpeedingInCity"), _scene_of("DepotVisit")


class SceneTables:
    """The table as arrays: [scene], or [scene, step]; not a number, or -1, where the box sends its own value."""

    def __init__(self) -> None:
        most = max(scene.n_ticks for scene in SCENES)
        steps = range(most)
        self.n_ticks: I64 = np.array([scene.n_ticks for scene in SCENES])
        chosen = np.array([0.0 if scene.where == NOWHERE else scene.weight for scene in SCENES])
        self.weight = float(chosen.sum())
        self.choice: F64 = np.cumsum(chosen) / self.weight
        self.goes = _or_minus_one([scene.goes for scene in SCENES])
        self.then = _or_minus_one([scene.then for scene in SCENES])
        self.kmh: F64 = np.array([_range(scene.kmh) for scene in SCENES])
        self.frozen: Bool = np.array([scene.frozen for scene in SCENES])
        self.silent: Bool = np.array(
            [[scene.silent[0] <= step < scene.silent[1] for step in steps] for scene in SCENES]
        )
        self.away: F64 = np.array([[scene.away[step % len(scene.away)] for step in steps] for scene in SCENES])
        self.fuel: F64 = np.array([[scene.fuel[step % len(scene.fuel)] for step in steps] for scene in SCENES])
        self.status = np.stack([_or_minus_one([s.status[step % len(s.status)] for step in steps]) for s in SCENES])
        on = [(s.ignition,) if s.ignition is None or isinstance(s.ignition, bool) else s.ignition for s in SCENES]
        self.ignition = np.stack([_or_minus_one([by[step % len(by)] for step in steps]) for by in on])
        self.satellites = _or_minus_one([scene.satellites for scene in SCENES])
        self.accelerating = _or_minus_one([scene.accelerating for scene in SCENES])
        self.ice = _or_minus_one([scene.ice for scene in SCENES])
        self.speed: F64 = np.array([[_range(s.speed[step % len(s.speed)]) for step in steps] for s in SCENES])
        self.late: F64 = np.array([[_range(s.late_speed[step % len(s.late_speed)]) for step in steps] for s in SCENES])
        self.above_limit: F64 = np.array([_range(scene.above_limit) for scene in SCENES])
        self.gap_m: F64 = np.array([np.nan if scene.gap_m is None else scene.gap_m for scene in SCENES])
        self.travelled: F64 = np.array([_range(scene.travelled) for scene in SCENES])


def _range(given: Range | None) -> Range:
    return (np.nan, np.nan) if given is None else given


def _or_minus_one(given: list[int | None] | list[bool | None]) -> I64:
    return np.array([-1 if value is None else int(value) for value in given])
