"""The maritime rules through the whole engine: small scenes in which each is found, and the same with one thing changed
in which it is not."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

import wayeb_py
from tests.library.scenes import Event, at, off, track, vessels

MARITIME = Path(__file__).parents[2] / "patterns/maritime"
SITE = (-4.49, 48.70)  # far from ports and shores
TREIZH = (-4.694, 48.357)
FAR = (-4.30, 48.95)


@cache
def rule_of(name: str) -> wayeb_py.Patterns:
    return wayeb_py.compile(MARITIME / "rules.sre").select([name])


def found(name: str, *tracks: list[Event], columns: tuple[str, ...] = ("entity", "other")) -> list[tuple[Any, ...]]:
    """What a rule detects in the messages of some vessels."""
    table = rule_of(name).recognise(vessels(*tracks)).to_arrow()
    table = table.filter(pa.compute.equal(table["pattern"].cast(pa.string()), name))
    return sorted(tuple(row[column] for column in columns) for row in table.to_pylist())


# Transshipment.


def caller(sails_at: float = 30, key: int = 1) -> list[Event]:
    """Lies at the site, then calls at Treizh."""
    return track(key, (0, *SITE), (sails_at, *SITE), (sails_at + 90, *TREIZH), (sails_at + 110, *TREIZH))


def stays(key: int, until: float = 30, begin: float = 0, **more: Any) -> list[Event]:
    """Lies 100 m from the site, then sails away."""
    place = off(*SITE, 100, 0)
    return track(key, (begin, *place), (until, *place), (until + 90, *FAR), **more)


def test_a_meeting_and_then_a_port_call_is_a_transshipment() -> None:
    columns = ("entity", "other", "caller", "place")
    assert found("Transshipment", caller(), stays(2), columns=columns) == [(1, 2, 1, "Treizh")]


def test_a_port_call_after_more_than_twelve_hours_is_none() -> None:
    late = track(1, (0, *SITE), (30, *SITE), (60, *FAR), (800, *FAR), (900, *TREIZH), (920, *TREIZH))
    assert found("Transshipment", late, stays(2)) == []


def test_a_port_call_after_an_inspection_is_none() -> None:
    officer = stays(3, until=80, begin=45, type="law enforcement")
    assert found("Transshipment", caller(sails_at=80), stays(2), officer) == []
    other = stays(3, until=80, begin=45, type="cargo")
    assert (1, 2) in found("Transshipment", caller(sails_at=80), stays(2), other)


def test_a_port_call_without_a_meeting_is_none() -> None:
    apart = track(2, (0, *off(*SITE, 600, 0)), (30, *off(*SITE, 600, 0)))
    assert found("Transshipment", caller(), apart) == []


# Relay.

NEXT_SITE = off(*SITE, 10_000, 0)


def carrier(second_at: float = 60) -> list[Event]:
    """Lies at the site, then 10 km to the east."""
    return track(2, (0, *SITE), (20, *SITE), (second_at, *NEXT_SITE), (second_at + 20, *NEXT_SITE))


def receiver(second_at: float = 60, key: int = 3) -> list[Event]:
    place = off(*NEXT_SITE, 100, 0)
    return track(key, (second_at - 30, *place), (second_at + 21, *place), (second_at + 81, *FAR))


def test_goods_go_from_the_first_over_the_second_to_the_third() -> None:
    columns = ("entity", "carrier", "other")
    assert found("Relay", stays(1, until=21), carrier(), receiver(), columns=columns) == [(1, 2, 3)]


def test_goods_that_go_back_are_no_relay() -> None:
    again = track(1, (0, *off(*SITE, 100, 0)), (20, *off(*SITE, 100, 0)), (60, *off(*NEXT_SITE, 100, 0)))
    again += track(1, (61, *off(*NEXT_SITE, 100, 0)), (80, *off(*NEXT_SITE, 100, 0)))
    assert found("Relay", again, carrier(), listener()) == []


def test_three_at_one_meeting_are_no_relay() -> None:
    third = track(3, (0, *off(*SITE, 0, 100)), (20, *off(*SITE, 0, 100)), (80, *TREIZH))
    assert found("Relay", stays(1, until=20), stays(2, until=20), third, listener()) == []


def test_a_meeting_more_than_a_day_later_is_no_relay() -> None:
    assert found("Relay", stays(1, until=21), carrier(1600), receiver(1600)) == []


# SearchPattern.


def sweeps(key: int, east_m: float, back_m: float | None = None) -> list[Event]:
    """North for 20 minutes at 10 knots, and back, in a lane `east_m` metres to the east."""
    begin, end = off(*SITE, east_m, 0), off(*SITE, east_m, 6173)
    legs: list[tuple[float, float, float]] = [(0, *begin), (20, *end)]
    if back_m is not None:
        legs += [(24, *off(*SITE, back_m, 6173)), (44, *off(*SITE, back_m, 0))]
    return track(key, *legs)


def test_three_that_sweep_there_and_back_search() -> None:
    three = sweeps(1, 0, 0), sweeps(2, 1000, 1000), sweeps(3, 2000, 2000)
    columns = ("entity", "middle", "other")
    assert found("LineAbreast", *three, listener(), columns=columns) == [(1, 2, 3), (3, 2, 1)]
    assert found("SearchPattern", *three, listener(), columns=columns) == [(1, 2, 3)]


def test_two_that_sweep_and_three_on_one_leg_do_not() -> None:
    assert found("SearchPattern", sweeps(1, 0, 0), sweeps(2, 1000, 1000), listener()) == []
    assert found("SearchPattern", sweeps(1, 0), sweeps(2, 1000), sweeps(3, 2000), listener()) == []


def test_three_behind_each_other_do_not_sweep() -> None:
    line = [track(key, (0, *off(*SITE, 0, 1000 * key)), (40, *off(*SITE, 0, 1000 * key + 12_346))) for key in (1, 2, 3)]
    assert found("LineAbreast", *line, listener()) == []


# GhostFleet.


def falls_silent(key: int, minute: float, east_m: float) -> list[Event]:
    return track(key, (0, *off(*SITE, east_m, 0)), (minute, *off(*SITE, east_m, 150 * minute)))


def listener() -> list[Event]:
    """Is heard all the time, elsewhere."""
    return track(9, (0, *FAR), (240, *TREIZH))


def test_three_that_fall_silent_at_one_place_within_an_hour_are_a_ghost_fleet() -> None:
    three = falls_silent(1, 30, 0), falls_silent(2, 40, 1000), falls_silent(3, 20, 2000)
    assert found("GhostFleet", *three, listener(), columns=("entity", "second", "third")) == [(1, 2, 3)]
    fourth = falls_silent(4, 25, 1500)
    each = [(1, 2, 3), (1, 2, 4), (1, 3, 4), (2, 3, 4)]
    assert found("GhostFleet", *three, fourth, listener(), columns=("entity", "second", "third")) == each


def test_two_or_three_far_apart_or_at_other_times_are_none() -> None:
    two = falls_silent(1, 30, 0), falls_silent(2, 40, 1000)
    assert found("GhostFleet", *two, listener()) == []
    assert found("GhostFleet", *two, falls_silent(3, 30, 20_000), listener()) == []
    assert found("GhostFleet", *two, falls_silent(3, 100, 0), listener()) == []


# SmugglingRun.


def runs(begin: float, by: tuple[float, float] | None = None) -> list[Event]:
    """From the site to the shore, perhaps by way of a port."""
    way = [(begin, *SITE), (begin + 30, *SITE)]
    if by is not None:
        way += [(begin + 120, *by), (begin + 140, *by)]
    last = way[-1][0] + 100
    return track(1, *way, (last, -4.9, 48.40), (last + 18, -4.9, 48.3697))


EVENING, MORNING = 540.0, -240.0  # 22 o'clock, 9 o'clock in Paris


def test_from_a_meeting_to_the_shore_by_night_is_a_smuggling_run() -> None:
    met = stays(2, begin=EVENING, until=EVENING + 30)
    columns = ("entity", "one", "another")
    assert found("SmugglingRun", runs(EVENING), met, columns=columns) == [(1, 1, 2)]


def test_by_day_by_way_of_a_port_or_without_a_meeting_it_is_none() -> None:
    assert found("SmugglingRun", runs(MORNING), stays(2, begin=MORNING, until=MORNING + 30)) == []
    assert found("SmugglingRun", runs(EVENING, TREIZH), stays(2, begin=EVENING, until=EVENING + 30)) == []
    assert found("SmugglingRun", runs(EVENING)) == []


# SanctionedContact.


def contacts(*changes: tuple[float, int, str]) -> list[tuple[Any, ...]]:
    """(entity, other, list) where the registry changes so: minute, vessel, op."""
    patterns = wayeb_py.compile(MARITIME / "sanctions.sre")
    rows = [{"mmsi": mmsi, "ts": at(minute), "list": "arms", "op": op} for minute, mmsi, op in changes]
    registry = pa.Table.from_pylist(rows)
    table = patterns.recognise({"vessels": vessels(caller(), stays(2)), "registry": registry}).to_arrow()
    rows = table.filter(pa.compute.equal(table["pattern"].cast(pa.string()), "SanctionedContact")).to_pylist()
    return sorted((row["entity"], row["other"], row["list"]) for row in rows)


def test_a_meeting_with_a_listed_vessel_is_a_contact_while_it_is_listed() -> None:
    assert contacts((-60, 2, "+")) == [(1, 2, "arms")]
    assert contacts((-60, 2, "+"), (10, 2, "-")) == []  # no more at the end of the meeting
    assert contacts((10, 2, "+")) == [(1, 2, "arms")]
    assert contacts((60, 2, "+")) == []


def test_two_listed_vessels_are_no_contact() -> None:
    assert contacts((-60, 1, "+"), (-60, 2, "+")) == []
    assert contacts((-60, 7, "+")) == []
