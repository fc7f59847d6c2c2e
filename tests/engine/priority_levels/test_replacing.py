"""An entity's events that wait give way to newer ones, and what was decided about them holds in a repeated run."""

from __future__ import annotations

from unittest.mock import patch

import pyarrow as pa
import pytest

import wayeb_py
from tests.engine.priority_levels.test_levels import STREAM, Hand, events, logged, rows_of
from wayeb_py.engine.priority_levels.decisions import Decision, Decisions, Made
from wayeb_py.engine.priority_levels.leveled_recogniser import LeveledRecogniser


def test_a_newer_event_takes_the_place_of_one_that_waits() -> None:
    source = STREAM.replace("{", "{ replace") + "pattern A := (x > 0)\n"
    recogniser = LeveledRecogniser(wayeb_py.compile(source), clock=Hand().clock)
    recogniser.arrive(events((1, 1, 1.0)))
    recogniser.work()  # what has been taken stays
    decided = recogniser.arrive(events((1, 2, 2.0), (2, 2, 2.0)))
    decided += recogniser.arrive(events((1, 3, 3.0)))
    assert [row[2] for row in rows_of(recogniser.finish())] == [2, 3]
    assert decided == [Decision("replace", "s", -1, 1, 2)]
    assert recogniser.tallies["normal"].to_json()["replaced"] == 1


def test_an_event_takes_the_places_of_all_older_ones_that_wait_and_of_no_newer_one() -> None:
    source = STREAM.replace("{", "{ replace") + "pattern A := (x > 0)\n"
    recogniser = LeveledRecogniser(wayeb_py.compile(source), clock=Hand().clock)
    decided = recogniser.arrive(events((1, 10, 1.0), (1, 5, 1.0), (1, 7, 1.0), (1, 6, 1.0)))
    assert decided == [Decision("replace", "s", -1, 1, 2)]
    decided = recogniser.arrive(events((1, 12, 1.0), (1, 12, 2.0)))
    assert decided == [Decision("replace", "s", -1, 0, 1), Decision("replace", "s", -1, 2, 5)]
    assert [row[2] for row in rows_of(recogniser.finish())] == [12]
    assert recogniser.tallies["normal"].to_json()["replaced"] == 5


@pytest.mark.parametrize(("line", "found"), [("", 2.0), ("dedupe", 3.0), ("order x", 3.0), ("dedupe order x", 1.0)])
def test_which_of_two_events_of_one_time_is_newer(line: str, found: float) -> None:
    # `dedupe` keeps the first of them, and `order` says which that is.
    source = STREAM.replace("{", f"{{ replace {line} ") + "pattern A := (x > 0) emit x\n"
    recogniser = LeveledRecogniser(wayeb_py.compile(source), clock=Hand().clock)
    for x in (3.0, 1.0, 2.0):
        recogniser.arrive(events((1, 7, x)))
    assert [row["x"] for left in recogniser.finish() for row in left.found.to_pylist()][-1] == found


@pytest.mark.parametrize(
    "times",
    [
        pa.array([1.0, float("nan"), 2.0, 1.5, 3.0]),
        pa.array([10**9 + 1, None, 10**9 + 3, 10**9 + 2, 10**9 + 4], pa.timestamp("ns")),
    ],
)
def test_an_event_without_a_time_replaces_nothing_whatever_the_type_of_times(times: pa.Array) -> None:
    unit = "" if pa.types.is_timestamp(times.type) else "in s"
    source = STREAM.replace("in s", unit).replace("{", "{ replace") + "pattern A := (x > 0)\n"
    recogniser = LeveledRecogniser(wayeb_py.compile(source), clock=Hand().clock)
    table = pa.table({"id": [1] * 5, "ts": times, "x": [1.0] * 5})
    with patch.dict("sys.modules", {"pandas": None}):  # Arrow asks it for nanoseconds
        decided = [one for row in range(5) for one in recogniser.arrive(table.slice(row, 1))]
    assert decided == [Decision("replace", "s", -1, first, last) for first, last in ((0, 1), (2, 4))]


def test_what_was_replaced_or_dropped_is_so_again_in_a_run_that_does_neither() -> None:
    source = STREAM.replace("{", "{ replace") + "pattern A := (x > 0) valid for 2 s else drop\n"
    patterns, hand = wayeb_py.compile(source), Hand()
    hand.now_s = 103.0
    some = events((1, 100, 1.0), (2, 102, 1.0), (2, 103, 1.0))
    for sheds, found in ((True, [103]), (False, [100, 102, 103])):
        recogniser = LeveledRecogniser(patterns, clock=hand.clock, sheds=sheds)
        decided: list[Made] = [*recogniser.arrive(some)]
        left = recogniser.finish()
        decided += [made for one in left for made in one.decisions]
        assert sorted(row[2] for row in rows_of(left)) == found
        kept = Decisions.from_json(logged(decided))
        again = LeveledRecogniser(patterns, clock=Hand().clock, sheds=not sheds, decided=kept)
        again.arrive(some)
        assert sorted(row[2] for row in rows_of(again.finish())) == found


def test_events_that_were_taken_are_not_kept_though_others_always_wait() -> None:
    source = STREAM.replace("{", "{ replace") + "pattern A := (x > 0)\n"
    recogniser = LeveledRecogniser(wayeb_py.compile(source))
    for ts in range(3_000):
        recogniser.arrive(events((2 * ts, ts, 1.0), (2 * ts + 1, ts, 1.0)))
        recogniser.work_until(0, "s", 2 * ts + 1)
    assert not recogniser.is_idle
    assert len(recogniser.sources["s"].newest) < 1_100
