"""A size and a seed become a railway network: tables of its parts and their ties, some of them wrong on purpose.

It is the model of the Train Benchmark (Szárnyas, Izsó, Ráth, Varró: SoSyM 2017), made again from its description: a
ring of routes, each with an entry and an exit semaphore; a route follows switch positions, each with its switch; a
switch has sensors, each with five segments in a row; tracks are connected one after the other around the ring. The
generator leaves out ties and sets wrong values at the rates of the benchmark's repair scenario; each fault breaks one
of its six constraints.

Parts are numbered in the order in which a train meets them. The generator computes whole columns at a time: size 1024
has 5,120 routes and 1.4 million segments, and takes a second. *Not taken*: making one object after the other, which
would read like the description and take minutes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

from wayeb_py.arrays import I64, Bool

ROUTES_A_SIZE = 5
MOST_SWITCHES, MOST_SENSORS, SEGMENTS = 20, 10, 5  # below 20 in a route, below 10 in a switch, 5 in a sensor
LONGEST_M = 1000
POSITIONS = np.array(["FAILURE", "STRAIGHT", "DIVERGING"])
PARTS = ("Route", "Region", "Semaphore", "Switch", "SwitchPosition", "Sensor", "Segment")
TIES = ("follows", "target", "monitoredBy", "requires", "entry", "exit", "connectsTo")


@dataclass(frozen=True, slots=True)
class Shares:
    """How often each constraint is broken where it could be; those of the repair scenario unless others are given."""

    connected_segments: float = 0.05  # a sensor has a segment too many
    pos_length: float = 0.10  # a segment has a length of 0 or less
    route_sensor: float = 0.10  # a route does not require a sensor of its switch
    semaphore_neighbor: float = 0.25  # a route lacks its entry semaphore
    switch_monitored: float = 0.18  # a switch lacks one of its sensors
    switch_set: float = 0.15  # a switch is not in the position that the route needs


REPAIR = Shares()
SOUND = Shares(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def make_railway(size: int, seed: int = 1, shares: Shares = REPAIR) -> dict[str, pa.Table]:
    """The tables of a railway, by the names of `PARTS` and `TIES`; the same for the same seed."""
    dice = np.random.default_rng(seed)
    n_routes = ROUTES_A_SIZE * size
    n_switches = dice.integers(1, MOST_SWITCHES, n_routes)
    route_of = np.repeat(np.arange(n_routes), n_switches)
    n_sensors = dice.integers(1, MOST_SENSORS, len(route_of))
    switch_of = np.repeat(np.arange(len(route_of)), n_sensors)
    n_segments = SEGMENTS + (dice.random(len(switch_of)) < shares.connected_segments)
    sensor_of = np.repeat(np.arange(len(switch_of)), n_segments)

    # Number 1 is the semaphore at the seam of the ring. A switch comes first, then its sensors, each
    # followed by its segments, and last its position.
    of_switch = np.bincount(switch_of, weights=1 + n_segments).astype(np.int64) + 2
    n_semaphores = np.where(np.arange(n_routes) < n_routes - 1, 1, 0)  # the last route leaves by the seam's
    of_route = np.bincount(route_of, weights=of_switch).astype(np.int64) + 2 + n_semaphores
    first_of_route = 2 + _before(of_route)
    semaphore = np.where(n_semaphores > 0, first_of_route, 1)
    route = first_of_route + n_semaphores
    switch = (route + 2)[route_of] + _before_in(of_switch, route_of)
    sensor = (switch + 1)[switch_of] + _before_in(1 + n_segments, switch_of)
    segment = (sensor + 1)[sensor_of] + _before_in(np.ones(len(sensor_of), dtype=np.int64), sensor_of)
    position = switch + of_switch - 1

    stands = dice.integers(0, len(POSITIONS), len(switch))
    wanted = np.where(_share(dice, shares.switch_set, len(switch)), (stands + 1) % len(POSITIONS), stands)
    length = dice.integers(1, LONGEST_M + 1, len(segment))
    length = np.where(_share(dice, shares.pos_length, len(segment)), 1 - length, length)
    watched = ~_share(dice, shares.switch_monitored, len(sensor))
    required = watched & ~_share(dice, shares.route_sensor, len(sensor))
    entered = ~_share(dice, shares.semaphore_neighbor, n_routes)
    track = np.sort(np.concatenate([switch, segment]))
    return {
        "Route": _parts(route, **{"active:BOOLEAN": np.full(n_routes, "true")}),
        "Region": _parts(route + 1),
        "Semaphore": _parts(np.sort(semaphore), signal=np.full(n_routes, "GO")),
        "Switch": _parts(switch, currentPosition=POSITIONS[stands]),
        "SwitchPosition": _parts(position, position=POSITIONS[wanted]),
        "Sensor": _parts(sensor),
        "Segment": _parts(segment, **{"length:INT": length}),
        "follows": _ties(route[route_of], position),
        "target": _ties(position, switch),
        "monitoredBy": _ties(
            np.concatenate([switch[switch_of][watched], segment]), np.concatenate([sensor[watched], sensor[sensor_of]])
        ),
        "requires": _ties(route[route_of[switch_of]][required], sensor[required]),
        "entry": _ties(route[entered], np.roll(semaphore, 1)[entered]),
        "exit": _ties(route, semaphore),
        "connectsTo": _ties(track, np.roll(track, -1)),
    }


def write_railway(tables: dict[str, pa.Table], folder: Path, name: str) -> None:
    """A file for each table, `NAME-TABLE.csv`, every value in quotes as the benchmark's own have it."""
    folder.mkdir(parents=True, exist_ok=True)
    for label, table in tables.items():
        texts = pa.table({column: table[column].cast(pa.string()) for column in table.column_names})
        quoted = pcsv.WriteOptions(quoting_style="all_valid")
        pcsv.write_csv(texts, folder / f"{name}-{label}.csv", quoted)


def _before(counts: I64) -> I64:
    """The sum of all counts before each."""
    return np.cumsum(counts) - counts


def _before_in(counts: I64, group: I64) -> I64:
    """The sum of the counts before each in its group; groups come one after the other."""
    before = _before(counts)
    first = np.flatnonzero(np.diff(group, prepend=-1))
    return before - np.repeat(before[first], np.diff(first, append=len(group)))


def _share(dice: np.random.Generator, share: float, n: int) -> Bool:
    return dice.random(n) < share


def _parts(ids: I64, **columns: np.ndarray) -> pa.Table:
    return pa.table({":ID": ids, **columns})


def _ties(start: I64, end: I64) -> pa.Table:
    return pa.table({":START_ID": start, ":END_ID": end})
