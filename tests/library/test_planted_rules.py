"""Rules in traffic: what a generator records, and scenes planted among its messages, are all found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import wayeb_py
from tests.library import test_fleet_rules as road
from tests.library import test_maritime_rules as sea
from tests.library.scenes import BEGIN, Event, vehicles, vessels
from wayeb_py.simulate.generated_files import read_occurrences

ROOT = Path(__file__).parents[2]
KEYS = 1000  # apart, from scene to scene
Planted = tuple[str, tuple[int, ...]]  # a rule, and the entities that it emits in their order


def moved(tracks: Iterable[Sequence[Event]], begin: datetime, n: int) -> list[list[Event]]:
    """The tracks of a scene at another time, under numbers of its own."""
    by = begin - BEGIN
    return [[{**one, "key": KEYS * n + one["key"], "ts": one["ts"] + by} for one in track] for track in tracks]


def among(traffic: pa.Table, planted: pa.Table) -> pa.Table:
    """Both together, in order of time."""
    names = [name for name in planted.column_names if name in traffic.column_names]
    fields = [traffic.schema.field(name) for name in names]
    together = pa.concat_tables([traffic, planted.select(names).cast(pa.schema(fields))], promote_options="default")
    return together.sort_by("ts")


def found_in(library: str, rules: Sequence[str], events: pa.Table, emitted: Sequence[str]) -> set[Planted]:
    """What rules detect: each with those of its emitted columns that it has."""
    patterns = wayeb_py.compile(ROOT / f"patterns/{library}/rules.sre").select(rules)
    rows: list[dict[str, Any]] = patterns.recognise(events).to_arrow().to_pylist()
    return {(row["pattern"], tuple(row[name] for name in emitted if row[name] is not None)) for row in rows}


def test_meetings_and_port_calls_that_a_generator_records_are_transshipments_among_planted_scenes() -> None:
    traffic = pq.read_table(ROOT / "data/maritime_sample.parquet")
    first: datetime = traffic["ts"][0].as_py()
    rules = ("Transshipment", "Relay", "SearchPattern", "GhostFleet", "SmugglingRun")
    sweeps = [sea.sweeps(1, 0, 0), sea.sweeps(2, 1000, 1000), sea.sweeps(3, 2000, 2000)]
    ghosts = [sea.falls_silent(1, 30, 0), sea.falls_silent(2, 40, 1000), sea.falls_silent(3, 20, 2000)]
    run = [sea.runs(0), sea.stays(2, until=30)]
    scenes: list[tuple[str, list[list[Event]], tuple[int, ...], tuple[float, ...]]] = [
        ("Transshipment", [sea.caller(), sea.stays(2)], (1, 2, 1), (1.0, 4.3)),
        ("Relay", [sea.stays(1, until=21), sea.carrier(), sea.receiver()], (1, 3, 2), (2.1, 6.7)),
        ("SearchPattern", sweeps, (1, 3, 2), (0.4, 5.5)),
        ("GhostFleet", ghosts, (1, 2, 3), (3.2, 7.9)),
        ("SmugglingRun", run, (1, 1, 2), (0.1, 0.4)),  # it is one o'clock in Paris
    ]
    planted: list[Planted] = []
    tracks: list[list[Event]] = []
    for rule, own, keys, hours in scenes:
        for hour in hours:
            n = len(planted) + 1
            tracks += moved(own, first + timedelta(hours=hour), n)
            planted.append((rule, tuple(KEYS * n + key for key in keys)))
    emitted = ("entity", "other", "caller", "carrier", "middle", "second", "third", "one", "another")
    found = found_in("maritime", rules, among(traffic, vessels(*tracks)), emitted)
    assert set(planted) - found == set()
    recorded = recorded_transshipments()
    assert recorded
    assert recorded - found == set()


def recorded_transshipments() -> set[Planted]:
    """Meetings and the first port calls after them, as the generator of the sample has taken them down."""
    rows = read_occurrences(ROOT / "data/maritime_sample.occurrences.csv").to_pylist()
    found: set[Planted] = set()
    for meeting in (row for row in rows if row["pattern"] == "Rendezvous"):
        two = (meeting["entity"], meeting["other"])
        calls = [
            (call["end_ts"], call["entity"])
            for call in rows
            if call["pattern"] == "PortCall"
            and call["entity"] in two
            and timedelta(minutes=30) < call["end_ts"] - meeting["end_ts"] < timedelta(hours=11)
        ]
        if calls:
            found.add(("Transshipment", (*two, min(calls)[1])))
    return found


def test_scenes_that_are_planted_among_vehicles_are_found() -> None:
    traffic = pq.read_table(ROOT / "data/fleet_sample.parquet")
    first: datetime = traffic["ts"][0].as_py()
    rules = ("ReplacementMissing", "TheftRing", "DepotCongestion", "UnassignedTrip")
    thefts = [road.loses_fuel(1, 10), road.loses_fuel(2, 100, 2000), road.loses_fuel(3, 40, -2000)]
    queue = [road.comes(1, 10), road.comes(2, 14), road.comes(3, 20)]
    scenes: list[tuple[str, list[list[Event]], tuple[int, ...], tuple[float, ...]]] = [
        ("ReplacementMissing", [road.breaks_down(route="P")], (1,), (1.0, 7.3, 15.1)),
        ("TheftRing", thefts, (1, 2, 3), (0.5, 8.8, 14.2)),
        ("DepotCongestion", queue, (1, 2, 3), (2.2, 9.9, 16.6)),
        ("UnassignedTrip", [road.leaves(9, 10, route="P")], (9,), (3.3, 6.1, 12.9)),
    ]
    planted: list[Planted] = []
    tracks: list[list[Event]] = []
    for rule, own, keys, hours in scenes:
        for hour in hours:
            n = len(planted) + 1
            tracks += moved(own, first + timedelta(hours=hour), n)
            planted.append((rule, tuple(KEYS * n + key for key in keys)))
    found = found_in("fleet", rules, among(traffic, vehicles(*tracks)), ("entity", "second", "third"))
    assert set(planted) - found == set()
