"""The fleet's rules through the whole engine: small scenes in which each is found, and the same with one thing changed
in which it is not."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

import wayeb_py
from tests.library.scenes import BEGIN, Event, off, track, vehicles

FLEET = Path(__file__).parents[2] / "patterns/fleet"
ROADSIDE = (7.0, 47.4)  # far from depots and gas stations
YARD = (6.15, 47.2)


@cache
def rule_of(name: str) -> wayeb_py.Patterns:
    return wayeb_py.compile(FLEET / "rules.sre").select([name])


def found(name: str, *tracks: list[Event], columns: tuple[str, ...] = ("entity",)) -> list[tuple[Any, ...]]:
    """What a rule detects in the messages of some vehicles."""
    table = rule_of(name).recognise(vehicles(*tracks)).to_arrow()
    table = table.filter(pa.compute.equal(table["pattern"].cast(pa.string()), name))
    return sorted(tuple(row[column] for column in columns) for row in table.to_pylist())


# ReplacementMissing.


def breaks_down(until: float = 60, route: str | None = "7") -> list[Event]:
    """Drives for five minutes and stands; a breakdown ten minutes later."""
    return track(1, (0, *off(*ROADSIDE, -4000, 0)), (5, *ROADSIDE), (until, *ROADSIDE), route=route)


def passes(minute: float, route: str = "7", key: int = 2, north_m: float = 0) -> list[Event]:
    """Drives by the place at a minute, from west to east."""
    begin, end = off(*ROADSIDE, -4000, north_m), off(*ROADSIDE, 4000, north_m)
    return track(key, (minute - 5, *begin), (minute + 5, *end), route=route)


def test_a_breakdown_without_another_of_the_route_misses_its_replacement() -> None:
    assert found("ReplacementMissing", breaks_down(), passes(50), columns=("entity", "route")) == [(1, "7")]
    assert found("ReplacementMissing", breaks_down(), passes(25, route="20")) == [(1,)]
    assert found("ReplacementMissing", breaks_down(), passes(25, north_m=1000)) == [(1,)]


def test_a_replacement_within_twenty_minutes_is_enough() -> None:
    assert found("ReplacementMissing", breaks_down(), passes(25)) == []
    assert found("ReplacementMissing", breaks_down(), passes(34)) == []
    assert found("ReplacementMissing", breaks_down(), passes(35)) == [(1,)]  # twenty minutes later, no earlier


def test_what_serves_no_route_or_drives_on_breaks_not_down() -> None:
    assert found("ReplacementMissing", breaks_down(route=None)) == []
    assert found("ReplacementMissing", track(1, (0, *ROADSIDE), (60, *off(*ROADSIDE, 40_000, 0)), route="7")) == []


def test_at_the_end_of_the_data_nobody_knows() -> None:
    assert found("ReplacementMissing", breaks_down(until=34)) == []
    assert found("ReplacementMissing", breaks_down(until=35)) == [(1,)]


# TheftRing.


def loses_fuel(key: int, minute: int, east_m: float = 0, level: float = 0.5) -> list[Event]:
    place = off(*ROADSIDE, east_m, 0)
    events = track(key, (minute - 5, *place), (minute + 5, *place))
    return [{**one, "fuel": 0.8 if (one["ts"] - BEGIN).total_seconds() < 60 * minute else level} for one in events]


def test_three_that_lose_fuel_near_each_other_are_a_ring() -> None:
    three = loses_fuel(1, 10), loses_fuel(2, 100, 2000), loses_fuel(3, 40, -2000)
    assert found("TheftRing", *three, columns=("entity", "second", "third")) == [(1, 2, 3)]


def test_two_or_three_far_apart_or_within_a_day_are_none() -> None:
    two = loses_fuel(1, 10), loses_fuel(2, 100, 2000)
    assert found("TheftRing", *two) == []
    assert found("TheftRing", *two, loses_fuel(3, 40, -4000)) == []  # 6 km from the second
    assert found("TheftRing", *two, loses_fuel(3, 400)) == []
    assert found("TheftRing", *two, loses_fuel(3, 40, level=0.75)) == []
    assert found("TheftRing", *two, loses_fuel(1, 50)) == []  # one of them again


# DepotCongestion.


def comes(key: int, minute: float, leaves_at: float | None = None) -> list[Event]:
    """Reaches the yard at a minute, and perhaps leaves it."""
    way = [(minute - 5, *off(*YARD, 3000, 0)), (minute, *YARD), (leaves_at or minute + 10, *YARD)]
    if leaves_at is not None:
        way.append((leaves_at + 5, *off(*YARD, -3000, 0)))
    return track(key, *way)


def test_three_that_come_to_a_depot_within_a_quarter_of_an_hour_crowd_it() -> None:
    three = comes(1, 10), comes(2, 14), comes(3, 20)
    columns = ("entity", "second", "third", "place")
    assert found("DepotCongestion", *three, columns=columns) == [(1, 2, 3, "Altenfels Yard")]
    assert len(found("DepotCongestion", *three, comes(4, 22))) == 2  # one for each that comes to a queue


def test_two_or_three_over_a_longer_time_or_where_one_leaves_do_not() -> None:
    assert found("DepotCongestion", comes(1, 10), comes(2, 14)) == []
    assert found("DepotCongestion", comes(1, 10), comes(2, 14), comes(3, 26)) == []
    assert found("DepotCongestion", comes(1, 10, leaves_at=15), comes(2, 14), comes(3, 20)) == []


# UnassignedTrip.


def leaves(key: int, minute: float, route: str | None = "7") -> list[Event]:
    return track(key, (minute - 5, *YARD), (minute, *YARD), (minute + 5, *off(*YARD, 5000, 0)), route=route)


def test_a_trip_that_the_plan_has_not_is_unassigned() -> None:
    assert found("UnassignedTrip", leaves(3, 10), columns=("entity", "route")) == [(3, "7")]  # from 13 o'clock on
    assert found("UnassignedTrip", leaves(1, 10, route="20"), columns=("entity", "route")) == [(1, "20")]
    assert found("UnassignedTrip", leaves(1, 70)) == [(1,)]


def test_a_planned_trip_and_one_without_a_route_are_not() -> None:
    assert found("UnassignedTrip", leaves(1, 10)) == []
    assert found("UnassignedTrip", leaves(3, 70)) == []
    assert found("UnassignedTrip", leaves(9, 10, route=None)) == []
