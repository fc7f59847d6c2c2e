"""The oracle of `several.md` says what the page says: each sentence by a few events, computed by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from tests.oracle import Arrived, Column, Settings, Word
from tests.oracle_several import (
    Pairing,
    Sent,
    Stream,
    pairs_of,
    put_in_order,
    recognise_pairs,
    silences,
    since_detected,
    where_detected,
    words_of_pair,
)
from wayeb_py.dsl import meaning as m
from wayeb_py.errors import SourceText

COLUMNS = {"x": Column("integer")}
STREAM = Stream("id", "t", motion=("speed", "course"), columns=COLUMNS)
DEGREE_M = 111_195.08  # of a meridian
NEAR = Pairing(1_000.0, Fraction(60))


def sent(t: int, key: Any, north_m: float | None = 0.0, stream: int = 0, partition: int = 0, **more: Any) -> Sent:
    """An event of an entity `north_m` metres north of the equator."""
    lat = None if north_m is None else north_m / DEGREE_M
    event = {"id": key, "t": t, "lon": 0.0, "lat": lat, "speed": None, "course": None, "x": 0, **more}
    return Sent(event, stream, partition)


def seqs(events: list[Sent], pairing: Pairing = NEAR, streams: tuple[Stream, ...] = (STREAM,)) -> dict[Any, list[Any]]:
    """{(a, b): the times of the events of each word}."""
    ordered = put_in_order(events, streams).events
    return {
        (x[1], y[1]): [[int(one.e.time_s) for one in word] for word in words]
        for x, y in pairs_of(ordered, pairing)
        if (words := list(words_of_pair(ordered, streams, pairing, x, y)))
    }


# The clock.


def test_late_for_the_clock_is_a_matter_of_the_own_partition() -> None:
    stream = Stream("id", "t", lateness_s=Fraction(10), columns=COLUMNS)
    events = [sent(100, 1), sent(90, 2), sent(89, 2), sent(0, 3, partition=1), sent(95, 1)]
    ordered = put_in_order(events, [stream], in_order=False)
    assert [(int(timed.time_s), timed.key) for timed in ordered.events] == [(0, 3), (90, 2), (95, 1), (100, 1)]
    assert ordered.n_late == 1
    assert put_in_order(events, [stream]).n_late == 0


def test_the_order_is_time_stream_key_arrival() -> None:
    events = [sent(5, 2, x=1), sent(5, 1, stream=1, x=2), sent(5, 1, x=3), sent(5, 1, x=4), sent(4, 9, x=5)]
    ordered = put_in_order(events, [STREAM, STREAM]).events
    assert [timed.event["x"] for timed in ordered] == [5, 3, 4, 1, 2]


# Pairs.


def test_a_word_lasts_while_every_event_is_one_of_the_pair() -> None:
    events = [sent(0, 1), sent(1, 2, 500), sent(2, 1), sent(3, 2, 5_000), sent(4, 2, 500), sent(5, 1)]
    assert seqs(events) == {(1, 2): [[1, 2], [4, 5]]}


def test_who_is_not_fresh_ends_the_word() -> None:
    events = [sent(0, 1), sent(1, 2), sent(61, 1), sent(62, 1), sent(63, 2)]
    assert seqs(events) == {(1, 2): [[1, 61], [63]]}


def test_an_event_without_a_position_is_none_of_the_pair_and_ends_nothing() -> None:
    events = [sent(0, 1), sent(1, 2), sent(2, 1, None), sent(3, 2), sent(4, 1, 91 * DEGREE_M), sent(5, 2)]
    assert seqs(events) == {(1, 2): [[1, 3, 5]]}


def test_the_reach_and_the_freshness_are_still_near() -> None:
    events = [sent(0, 1), sent(60, 2, 999.999)]
    assert seqs(events) == {(1, 2): [[60]]}
    assert seqs([sent(0, 1), sent(61, 2)]) == {}
    assert seqs([sent(0, 1), sent(0, 2, 1_000.1)]) == {}


def test_both_orders_and_two_streams() -> None:
    events = [sent(0, 1), sent(1, 2)]
    assert set(seqs(events, Pairing(1_000.0, Fraction(60), ordered=True))) == {(1, 2), (2, 1)}
    across = Pairing(1_000.0, Fraction(60), 0, 1)
    events = [sent(0, 7), sent(0, 3, stream=1), sent(0, 7, stream=1), sent(0, 8)]
    assert set(seqs(events, across, (STREAM, STREAM))) == {(7, 3), (7, 7), (8, 3), (8, 7)}


def test_projected_moves_what_has_reported_before() -> None:
    north: dict[str, Any] = {"speed": 10.0, "course": 0.0}
    events = [sent(0, 1, 0, **north), sent(50, 2, 1_400)]
    assert seqs(events) == {}
    assert seqs(events, Pairing(1_000.0, Fraction(60), projected=True)) == {(1, 2): [[50]]}
    # Without a course it is not moved; standing still it needs none.
    events = [sent(0, 1, 0, speed=10.0), sent(50, 2, 400), sent(51, 3, 400, speed=0.0)]
    assert set(seqs(events, Pairing(1_000.0, Fraction(60), projected=True))) == {(1, 2), (1, 3), (2, 3)}


def test_what_a_letter_can_ask() -> None:
    events = [
        sent(0, 1, 0, speed=10.0, course=0.0, x=4),
        sent(20, 2, 600, speed=10.0, course=180.0, x=5),
        sent(25, 1, 100, speed=0.0, x=6),
    ]
    ordered = put_in_order(events, [STREAM]).events
    ((first, second),) = words_of_pair(ordered, [STREAM], NEAR, (0, 1), (0, 2))
    assert (first["a.x"], first["b.x"], first["age(a)"], first["reports(a)"], first["reports(b)"]) == (
        4, 5, 20, False, True,
    )  # fmt: skip
    assert first["distance(a, b)"] == pytest.approx(600, rel=1e-6)
    assert first["bearing(a, b)"] == pytest.approx(0)
    assert first["closing(a, b)"] == pytest.approx(20)
    assert (first["cpa(a, b)"], first["tcpa(a, b)"]) == (pytest.approx(0, abs=1e-3), pytest.approx(30, rel=1e-6))
    assert second["tcpa(a, b)"] == pytest.approx(50, rel=1e-6)


def pattern(regex: m.Regex, name: str = "P", window: m.Window | None = None) -> m.Pattern:
    return m.Pattern(name, regex, SourceText("test", ""), window=window)


def letter(name: str, comparator: m.Comparator, value: int) -> m.Letter:
    return m.Letter(m.Compare(comparator, m.Attribute(name, "number"), m.Constant(Fraction(value), "number")))


def test_detections_of_pairs_and_what_looks_back() -> None:
    events = [sent(0, 1), sent(1, 2, 500), sent(2, 1, 100), sent(3, 2, 5_000), sent(4, 2, 300), sent(9, 1)]
    twice = m.Iteration(letter("distance(a, b)", "<", 450), 2, None)
    found = recognise_pairs(pattern(twice), events, [STREAM], NEAR).detections
    assert [(one.ts, one.seq, one.start_ts) for one in found] == [(9, 1, 4)]  # and none from one word into the next
    once = recognise_pairs(pattern(letter("distance(a, b)", "<", 450)), events, [STREAM], NEAR).detections
    assert [(one.ts, one.seq) for one in once] == [(2, 1), (4, 0), (9, 1)]
    assert {str(one.entity) for one in once} == {"(1, 2)"}
    later = m.Letter(m.Compare(">", m.Elapsed(), m.Constant(Fraction(4), "number")))
    found = recognise_pairs(pattern(later), events, [STREAM], NEAR).detections
    assert [(one.ts, one.seq) for one in found] == [(9, 1)]


# Tiers and silence.


def word(*events: tuple[int, int]) -> Word:
    arrived = [Arrived({"id": 1, "t": t, "x": x}, Fraction(t), None) for t, x in events]
    return Word(COLUMNS, arrived, Settings("id", "t", 1))


def test_detected_and_since() -> None:
    high = pattern(m.Iteration(letter("x", ">", 5), 2, None))
    seen = word((0, 1), (10, 6), (20, 7), (30, 8), (45, 0))
    assert where_detected(high, seen) == [False, False, True, True, False]
    assert since_detected(high, seen) == [None, None, 0, 0, 15]


def test_silence() -> None:
    seen = word((0, 6), (10, 6), (71, 6), (71, 0), (200, 6))
    regex = letter("x", ">", 5)
    found = silences(regex, None, Fraction(60), [seen], Fraction(1_000))
    assert [(int(one.ts), one.seq, int(one.decided_ts)) for one in found] == [(10, 1, 70), (200, 4, 260)]
    # A silence that ends with the data or later is not decided.
    assert [one.ts for one in silences(regex, None, Fraction(60), [seen], Fraction(260))] == [10]
    # A message at the very end of the silence breaks it.
    assert silences(regex, None, Fraction(61), [seen], Fraction(100)) == []
