"""Levels change when something is detected and nothing else; shedding misses and never invents; late answers are
marked; and what the clock decided can be decided again."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any, cast
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wayeb_py
from tests.cases import KEY, TIME
from tests.engine.test_properties import SCHEMA, Scene, scenes
from tests.strategies import ALL_ATOMS, PLAIN_ATOMS, examples
from wayeb_py.clock import Clock
from wayeb_py.dsl.rules import Level
from wayeb_py.engine.few.few_events import FewEvents
from wayeb_py.engine.priority_levels.decisions import Decision, DecisionLog, Decisions, Made, StaleFound, made_of
from wayeb_py.engine.priority_levels.lanes import without_patterns
from wayeb_py.engine.priority_levels.leveled_recogniser import Left, LeveledRecogniser
from wayeb_py.engine.priority_levels.slice_sizes import SliceSizes
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.engine.rows.detection_id import with_ids
from wayeb_py.errors import DataError

Row = tuple[Any, ...]
PLAIN = (*PLAIN_ATOMS, *ALL_ATOMS[2:4])  # nothing that looks back


class Hand:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.clock = Clock(lambda: self.now_s, lambda: self.now_s, self.pass_time)

    def pass_time(self, s: float) -> None:
        self.now_s += s


def in_order(scene: Scene) -> Scene:
    """The scene with its events in the order of time as they arrive, none of which is late or dropped."""
    events = sorted(scene.events, key=lambda event: cast(int, event[TIME]))
    return replace(scene, arrival=True, events=events, lateness_s=Fraction(0), dedupe=False, order=None)


def with_clauses(source: str, clauses: list[str]) -> str:
    """The patterns of a text, each with clauses of its own."""
    lines = source.rstrip("\n").split("\n")
    own = iter(clauses)
    return "\n".join(f"{line} {next(own)}" if line.startswith("pattern ") else line for line in lines)


def rows_of(left: list[Left]) -> list[Row]:
    names = ("pattern", "entity", "ts", "seq", "start_seq", "start_ts")
    return [tuple(row[name] for name in names) for one in left for row in one.found.to_pylist()]


def run(
    recogniser: LeveledRecogniser, scene: Scene, draw: Callable[[st.SearchStrategy[int]], int], hand: Hand
) -> tuple[list[Left], list[Made]]:
    """Feeds a scene in random portions, with random work and time between them."""
    left: list[Left] = []
    decisions: list[Made] = []
    at, events = 0, pa.Table.from_pylist(scene.events, schema=SCHEMA)
    while at < len(events):
        size = draw(st.integers(1, 4))
        decisions += recogniser.arrive(events.slice(at, size))
        at += size
        hand.pass_time(draw(st.integers(0, 3)))
        for _ in range(draw(st.integers(0, 4))):
            if (one := recogniser.work()) is not None:
                left.append(one)
    left += recogniser.finish()
    return left, [*decisions, *(decision for one in left for decision in one.decisions)]


@settings(max_examples=examples(40))
@given(scenes(), st.data())
def test_priorities_change_nothing_that_is_detected(scene: Scene, data: st.DataObject) -> None:
    scene = in_order(scene)
    levels = [data.draw(st.sampled_from(("high", "normal", "low"))) for _ in scene.patterns]
    source = with_clauses(scene.job().source, [f"priority {level}" for level in levels])
    hand = Hand()
    recogniser = LeveledRecogniser(wayeb_py.compile(source, longest=scene.longest), clock=hand.clock)
    left, decisions = run(recogniser, scene, data.draw, hand)
    expected = [
        (one.pattern, one.entity, one.ts, one.seq, one.start_seq, one.start_ts) for one in scene.answer().detections
    ]
    assert sorted(rows_of(left), key=repr) == sorted(expected, key=repr)
    assert decisions == []
    assert all(tally.done == tally.arrived and tally.waiting == 0 for tally in recogniser.tallies.values())


def cut(scene: Scene, shed: set[int]) -> Scene:
    """The scene without some events, in which an entity is another one after each of them."""
    part: dict[Any, int] = {}
    events = []
    for number, event in enumerate(scene.events):
        if number in shed:
            part[event[KEY]] = part.get(event[KEY], 0) + 1
        else:
            events.append({**event, KEY: f"{event[KEY]}{part.get(event[KEY], 0)}"})
    return replace(scene, events=events)


def shed_run(scene: Scene, data: st.DataObject) -> tuple[list[Left], set[int]]:
    source = with_clauses(scene.job().source, ["shed after 1 s" for _ in scene.patterns])
    hand = Hand()
    recogniser = LeveledRecogniser(wayeb_py.compile(source, longest=scene.longest), clock=hand.clock)
    left, decisions = run(recogniser, scene, data.draw, hand)
    shed = {number for one in decisions if isinstance(one, Decision) for number in range(one.first, one.end)}
    assert recogniser.tallies["normal"].shed == len(shed)
    return left, shed


@settings(max_examples=examples(60))
@given(scenes(atoms=PLAIN), st.data())
def test_shedding_never_invents_a_match(scene: Scene, data: st.DataObject) -> None:
    scene = in_order(replace(scene, forget_after_s=None))
    left, _ = shed_run(scene, data)
    full = {(one.pattern, one.entity, one.ts) for one in scene.answer().detections}
    assert {row[:3] for row in rows_of(left)} <= full


@settings(max_examples=examples(60))
@given(scenes(), st.data())
def test_a_word_begins_anew_behind_what_was_shed(scene: Scene, data: st.DataObject) -> None:
    # This is what `prev`, `held` and `elapsed()` mean after a gap: nothing lies before the first event.
    scene = in_order(scene)
    left, shed = shed_run(scene, data)
    expected = [
        (d.pattern, str(d.entity)[0], d.ts, d.seq, d.start_seq, d.start_ts)
        for d in cut(scene, shed).answer().detections
    ]
    assert sorted(rows_of(left), key=repr) == sorted(expected, key=repr)


@settings(max_examples=examples(60))
@given(scenes(atoms=PLAIN_ATOMS), st.data())
def test_what_changes_nothing_is_no_gap(scene: Scene, data: st.DataObject) -> None:
    # Everything that was not shed has been recognised, also what was passed over because it changes nothing.
    scene = in_order(replace(scene, forget_after_s=None))
    left, shed = shed_run(scene, data)
    expected = [
        (d.pattern, str(d.entity)[0], d.ts, d.seq, d.start_seq, d.start_ts)
        for d in cut(scene, shed).answer().detections
    ]
    assert sorted(rows_of(left), key=repr) == sorted(expected, key=repr)


def test_an_event_that_changes_nothing_is_passed_over_before_any_is_shed() -> None:
    # Both have waited too long: between the two events of the match nothing is lost, elsewhere a first one is.
    source = STREAM + "pattern A := @((x = 1), (x = 2)) shed after 1 s\n"
    hand = Hand()
    recogniser = LeveledRecogniser(wayeb_py.compile(source), clock=hand.clock)
    recogniser.arrive(events((1, 1, 1.0)))
    recogniser.work()
    recogniser.arrive(events((1, 2, 3.0), (2, 2, 1.0), (2, 3, 3.0), (3, 3, 7.0)))
    hand.pass_time(5)
    first = cast(Left, recogniser.work())
    assert first.decisions == (Decision("shed", "s", 0, 2, 3),)
    recogniser.arrive(events((1, 4, 2.0), (2, 4, 2.0), (2, 5, 1.0), (2, 6, 2.0)))
    rows = cast(Left, recogniser.work()).found.to_pylist()
    found = [(row["entity"], row["ts"], row["seq"], row["start_seq"]) for row in rows]
    assert found == [(1, 4, 2, 0), (2, 6, 3, 2)]
    tally = recogniser.tallies["normal"]
    assert (tally.done, tally.shed, tally.waiting) == (8, 1, 0)


@pytest.mark.parametrize("by_columns", [True, False])
def test_a_match_begins_when_an_event_that_was_passed_over_came(by_columns: bool) -> None:
    # After two ones a further one changes nothing, and yet the match begins at one of these.
    source = STREAM + "pattern A := (x = 1) ; (x = 1) ; (x = 2) within 5 s shed after 1 s\n"
    hand = Hand()
    recogniser = LeveledRecogniser(wayeb_py.compile(source), clock=hand.clock)
    recogniser.arrive(events((1, 0, 1.0), (1, 1, 1.0)))
    recogniser.work()
    passed_over, patience = events((1, 98, 1.0), (1, 99, 1.0), (1, 100, 1.0)), 5
    with patch.object(FewEvents, "skips", by_columns):
        recogniser.arrive(passed_over)
        hand.pass_time(patience)
        assert cast(Left, recogniser.work()).decisions == ()
    recogniser.arrive(events((1, 101, 2.0)))
    assert rows_of([cast(Left, recogniser.work())]) == [("A", 1, 101, 5, 3, 99)]


@pytest.mark.parametrize("first", [0.0, -7.5])
def test_seconds_with_fractions_wait_as_they_are(first: float) -> None:
    source = STREAM + "pattern A := (x = 1) ; (x = 1 and elapsed() < 1 s)\n"
    patterns, table = wayeb_py.compile(source), {"id": [1] * 6, "x": [1.0] * 6}
    times = [first, first + 0.5, first + 4, first + 4.75, first + 6, first + 8]
    events_ = pa.table({**table, "ts": times})
    recogniser, left = LeveledRecogniser(patterns), []
    for number in range(len(events_)):
        recogniser.arrive(events_.slice(number, 1))
        left.append(cast(Left, recogniser.work()))
    alone = Recogniser(patterns).feed(events_).to_arrow().to_pylist()
    assert rows_of(left) == [(row["pattern"], row["entity"], row["ts"], row["seq"], row["start_seq"], row["start_ts"])
                             for row in alone] != []  # fmt: skip


def test_what_lanes_of_different_streams_find_has_one_schema_and_the_ids_of_the_whole_file() -> None:
    source = (
        "stream s { key id time ts in s attr x number }\nstream r { key track time t attr x number }\n"
        "pattern A on s := (x > 1) emit x priority high\npattern B on r := (x > 1) emit x priority low\n"
    )
    patterns = wayeb_py.compile(source)
    at = pa.array([2_000, 3_000], pa.timestamp("ms", "UTC"))
    tables = {
        "s": pa.table({"id": [7, 8], "ts": [1, 2], "x": [2, 3]}),
        "r": pa.table({"track": ["p", "q"], "t": at, "x": [2.5, 3.5]}),
    }
    expected = with_ids(patterns.recognise(tables).to_arrow())
    recogniser = LeveledRecogniser(patterns)
    for name, own in zip(tables, recogniser.recognisers, strict=True):
        own.bind(tables[name].schema, name)
    for name, table in tables.items():
        recogniser.arrive(table, name)
    found = pa.concat_tables([left.found for left in recogniser.finish() if left.found.num_rows])
    assert found.schema == expected.schema
    assert sorted(found.to_pylist(), key=repr) == sorted(expected.to_pylist(), key=repr)


@settings(max_examples=examples(25))
@given(scenes(atoms=PLAIN), st.data())
def test_what_was_decided_can_be_decided_again(scene: Scene, data: st.DataObject) -> None:
    scene = in_order(scene)
    clauses = ["valid for 2 s else drop shed after 1 s" for _ in scene.patterns]
    source = with_clauses(scene.job().source.replace("dedupe", ""), clauses).replace("{", "{ replace", 1)
    patterns, hand = wayeb_py.compile(source, longest=scene.longest), Hand()
    left, decisions = run(LeveledRecogniser(patterns, clock=hand.clock), scene, data.draw, hand)
    kept = Decisions.from_json(logged(decisions))
    later = Hand()
    later.pass_time(1e9)
    again, _ = run(LeveledRecogniser(patterns, decided=kept, clock=later.clock), scene, data.draw, later)
    assert sorted(rows_of(again), key=repr) == sorted(rows_of(left), key=repr)


def test_decisions_are_kept_in_few_words_and_those_of_an_earlier_release_are_read() -> None:
    made: list[Made] = [
        Decision("shed", "0", 1, 3, 4), Decision("shed", "0", 1, 7, 9), StaleFound(0, ("a", "b")),
        Decision("shed", "0", 1, 9, 10), Decision("replace", "0", -1, 2, 3),
    ]  # fmt: skip
    kept = [
        ["shed", "0", 1, "3 1 3 2"],
        ["stale", 0, ["a", "b"]],
        ["shed", "0", 1, "9 1"],
        ["replace", "0", -1, "2 1"],
    ]
    assert logged(made) == kept
    assert made_of(kept) == made
    assert made_of([["shed", "0", 1, 3, 4], ["stale", 0, ["a"]]]) == [made[0], StaleFound(0, ("a",))]
    assert made_of([["shed", "0", 1, [3, 4, 7, 9]]]) == made[:2]


def logged(made: Sequence[Made]) -> list[list[Any]]:
    """Decisions as a log keeps them, some of them taken before the others are made."""
    log, half = DecisionLog(), len(made) // 2
    log.add(made[:half])
    before = log.take_new()
    log.add(made[half:])
    after = log.take_new()
    assert log.every() == [*before, *after]
    return log.every()


STREAM = "stream s { key id time ts in s attr x number }\n"


def events(*rows: tuple[int, int, float]) -> list[dict[str, Any]]:
    return [{"id": key, "ts": ts, "x": x} for key, ts, x in rows]


@contextmanager
def slowed(hand: Hand, s_an_event: float) -> Iterator[None]:
    """A recogniser that takes `s_an_event` for each event, by the test's clock."""
    feed = Recogniser.feed

    def slow(recogniser: Recogniser, batch: Any, *others: Any) -> Any:
        hand.pass_time(s_an_event * len(batch))
        return feed(recogniser, batch, *others)

    with patch.object(Recogniser, "feed", slow):
        yield


def test_an_overload_hurts_the_lowest_level_and_no_other() -> None:
    # An event comes each millisecond and takes 0.4 ms at each level: together 1.2 times what there is time for.
    source = STREAM + "".join(
        f"pattern {level.capitalize()} := (x > 0) priority {level} shed after {shed}\n"
        for level, shed in (("high", "1 h"), ("normal", "1 h"), ("low", "50 ms"))
    )
    hand = Hand()
    recogniser = LeveledRecogniser(wayeb_py.compile(source), clock=hand.clock)
    n, left = 0, []
    with slowed(hand, 0.0004):
        while n < 2_000:
            due = min(int(hand.now_s * 1_000) + 1, 2_000)
            for number in range(n, due):
                recogniser.arrive(events((1, number, 1.0)), arrived_s=number / 1_000)
            n = max(n, due)
            one = recogniser.work()
            if one is None:
                hand.pass_time(0.0001)
            else:
                left.append(one)
    high, normal, low = (recogniser.tallies[level] for level in ("high", "normal", "low"))
    assert cast(float, high.latency.quantile_s(0.99)) < 0.0025
    assert cast(float, normal.latency.quantile_s(0.99)) < 0.005
    assert high.shed == normal.shed == 0
    assert low.shed > 200
    assert cast(float, low.latency.quantile_s(0.99)) < 0.06  # what is done at all is done before it is old
    assert low.arrived == low.done + low.shed + low.waiting == 2_000


def overloaded(source: str, s_an_event: float) -> tuple[LeveledRecogniser, list[Left]]:
    """Two seconds in which an event of one of nine entities comes each millisecond."""
    hand, n, left = Hand(), 0, []
    recogniser = LeveledRecogniser(wayeb_py.compile(STREAM + source), clock=hand.clock)
    with slowed(hand, s_an_event):
        while n < 2_000:
            due = min(int(hand.now_s * 1_000) + 1, 2_000)
            for number in range(n, due):
                recogniser.arrive(events((number % 9, number, 1.0)), arrived_s=number / 1_000)
            n = max(n, due)
            if (one := recogniser.work()) is None:
                hand.pass_time(0.0001)
            else:
                left.append(one)
    return recogniser, left


def test_a_level_that_never_gets_its_turn_sheds_all_the_same() -> None:
    source = "pattern A := (x > 0) priority high\npattern B := (x > 0) priority low shed after 50 ms\n"
    recogniser, _ = overloaded(source, 0.0011)
    low = recogniser.tallies["low"]
    assert low.done == 0
    assert low.shed >= 1_800
    assert low.waiting < 200


def test_an_event_counts_once_for_its_level_and_as_done_after_the_last_lane() -> None:
    source = "pattern A := (x > 0) priority low\npattern B := (x > 0) priority low shed after 50 ms\n"
    recogniser, _ = overloaded(source + "pattern C := (x > 0) priority low shed after 1 h\n", 0.0006)
    low = recogniser.tallies["low"]
    assert len(recogniser.lanes) == 3
    assert low.arrived == low.done + low.shed + low.waiting == 2_000
    assert low.waiting == recogniser.n_waiting > 0
    recogniser.finish()
    assert (low.arrived, low.waiting) == (2_000, 0)
    assert low.shed > 200
    assert low.latency.n == low.done == 2_000 - low.shed


def test_what_is_urgent_does_not_wait_while_others_shed() -> None:
    source = "pattern A := (x > 0) priority high\npattern B := (x > 0) priority low shed after 50 ms\n"
    hand = Hand()
    recogniser = LeveledRecogniser(wayeb_py.compile(STREAM + source), clock=hand.clock)
    recogniser.arrive(events((1, 1, 1.0)))
    assert cast(Left, recogniser.work()).level == "high"
    hand.pass_time(0.2)
    assert cast(Left, recogniser.work()).decisions  # what is old has been shed, and the level has had its turn
    recogniser.arrive(events((1, 2, 1.0)), arrived_s=0.0)
    levels = [cast(Left, recogniser.work()).level for _ in range(2)]
    assert levels == ["high", "low"]


def test_shedding_leaves_most_of_the_time_to_the_levels_above() -> None:
    # Passing over an event of the low level takes as long as recognising it, and all of them have waited too long.
    source = STREAM + "".join(
        f"pattern {level.capitalize()} := (x > 0) priority {level} {sheds}\n"
        for level, sheds in (("high", ""), ("normal", ""), ("low", "shed after 50 ms"))
    )
    hand, skip = Hand(), Recogniser.skip_unneeded
    recogniser = LeveledRecogniser(wayeb_py.compile(source), clock=hand.clock, slice_s=0.001)
    recogniser.arrive([{"id": n % 7, "ts": n, "x": 1} for n in range(4_000)])
    hand.pass_time(1.0)

    def slow(own: Recogniser, events: Any, *others: Any) -> Any:
        hand.pass_time(0.0002 * len(events))
        return skip(own, events, *others)

    done_s = [0.0, 0.0]
    with slowed(hand, 0.0002), patch.object(Recogniser, "skip_unneeded", slow):
        while recogniser.work() is not None:
            done_s = [at or (0.0 if recogniser.is_behind(lane) else hand.now_s) for lane, at in enumerate(done_s)]
    high_s, normal_s = done_s
    assert 0.8 <= normal_s - high_s <= 0.8 * 1.35  # alone it takes 0.8 s
    assert recogniser.tallies["low"].shed > 3_000


def test_gaps_of_shedding_leave_events_in_a_row() -> None:
    _, left = overloaded("pattern P := (x > 0){3} priority normal shed after 200 ms\n", 0.002)
    n_done = 1_000  # half of the events, as many as there is time for
    assert len(rows_of(left)) > 0.6 * n_done


def test_a_lower_level_gives_way_within_its_slice() -> None:
    hand = Hand()
    source = STREAM + "pattern A := (x > 0) priority high\npattern B := (x > 0) priority low\n"
    recogniser = LeveledRecogniser(wayeb_py.compile(source), clock=hand.clock)
    with slowed(hand, 0.0001):
        recogniser.arrive(events(*((1, ts, 1.0) for ts in range(1_000))))
        assert cast(Left, recogniser.work()).level == "high"
        took: list[float] = []
        while not recogniser.is_idle:
            began_s = hand.now_s
            recogniser.work()
            took.append(hand.now_s - began_s)
    assert max(took[1:]) <= 0.001 + 1e-9


def test_events_whose_columns_have_other_types_wait_side_by_side() -> None:
    source = 'stream s { key id time ts in s attr k text attr x number }\npattern A := (k = "a") ; (x > 1) emit x\n'
    recogniser = LeveledRecogniser(wayeb_py.compile(source))
    table = pa.table({"id": [1] * 6, "ts": range(6), "k": ["a", "b"] * 3, "x": [0.0, 2.0] * 3})
    encoded = table.set_column(2, "k", table["k"].dictionary_encode())
    for some in (table.slice(0, 1), encoded.slice(1, 2), table.slice(3, 1), [{"id": 1, "ts": 4, "k": "a", "x": None}]):
        recogniser.arrive(some)
    recogniser.arrive(encoded.slice(5))
    found = [(row["ts"], row["x"]) for left in recogniser.finish() for row in left.found.to_pylist()]
    assert found == [(1, 2.0), (3, 2.0), (5, 2.0)]


@pytest.mark.parametrize("n", [100, 3_000])
def test_events_that_are_read_again_and_were_taken_are_passed(n: int) -> None:
    # A start reads from the first event that waits in its batch; this lane was further.
    recogniser = LeveledRecogniser(wayeb_py.compile(STREAM + "pattern A := (x > 0) emit x\n"))
    rows = pa.Table.from_pylist(events(*((1, 7, float(number)) for number in range(n + 1))))
    recogniser.recognisers[0].feed(rows.slice(0, n - 50))
    recogniser.source("s", "s").at[0] = n - 50
    recogniser.arrive(rows.slice(0, n))
    recogniser.arrive(rows.slice(n))
    found = [row["x"] for left in recogniser.finish() for row in left.found.to_pylist()]
    assert found == [float(number) for number in range(n - 50, n + 1)]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("pattern P := (x > 0) ; silence 5 s", "a missing event would look like a silence"),
        ("pattern P := (not detected(Q))\npattern Q := (x > 1)", "it reads what another pattern"),
    ],
)
def test_a_pattern_that_could_invent_a_match_cannot_shed_with_its_level(pattern: str, why: str) -> None:
    with pytest.raises(DataError, match=f"`P` cannot shed: {why}"):
        LeveledRecogniser(wayeb_py.compile(STREAM + pattern + "\n"), shed_s={"normal": Fraction(1)})


def test_a_level_that_no_pattern_sheds_by_is_told() -> None:
    source = STREAM + (
        "pattern A := (x > 0) priority high\npattern B := (x > 1) priority low shed after 1 s\n"
        "rule R := a: A, b: A where a.entity = b.entity and b.ts - a.ts in 0 s .. 10 s and a.start_ts = b.start_ts\n"
    )
    shed_s: dict[Level, Fraction] = {"low": Fraction(1), "normal": Fraction(1), "high": Fraction(1)}
    assert without_patterns(wayeb_py.compile(source), shed_s) == ["normal", "low"]


@pytest.mark.parametrize(
    ("itself_s", "an_event_s", "most_s"), [(0.0, 1e-5, 0.001), (2e-4, 1e-6, 0.001), (2e-3, 1e-6, 0.004)]
)
def test_slices_are_as_long_as_they_may_be_whatever_they_cost_for_themselves(
    itself_s: float, an_event_s: float, most_s: float
) -> None:
    # One that takes two milliseconds without any event takes two more for events: shorter ones would do nearly nothing.
    sizes = SliceSizes(0.001, 1, 1 << 16)
    for _ in range(60):
        sizes.note(sizes.rows, itself_s + an_event_s * sizes.rows)
    took_s = []
    for _ in range(8):
        took_s.append(itself_s + an_event_s * sizes.rows)
        sizes.note(sizes.rows, took_s[-1])
    assert 0.7 * most_s <= max(took_s) <= 1.05 * most_s


@pytest.mark.parametrize("seed", range(7))
def test_slices_grow_though_a_machine_is_uneven_and_the_first_took_long(seed: int) -> None:
    dice, sizes, rows = random.Random(seed), SliceSizes(0.00015, 1, 1 << 16), list[int]()
    sizes.note(sizes.rows, 1.6)
    for _ in range(3000):
        took_s = (1e-4 + 5e-6 * sizes.rows) * dice.uniform(0.8, 1.5)
        rows.append(sizes.rows)
        sizes.note(sizes.rows, took_s * (20 if dice.random() < 0.02 else 1))
    assert 14 <= statistics.median(rows[500:]) <= 26  # 20 on an even machine
