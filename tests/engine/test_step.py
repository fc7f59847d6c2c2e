"""`step(batch, state)` gives detections and the next state, and nothing else is kept between two batches."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

import wayeb_py

SOURCE = """
stream vehicles {
    key  id
    time t in s
    attr speed number
}
pattern Twice  := (speed > 100) ; (speed > 100)
pattern Rising := (speed > prev(speed)){3}
pattern Stop   := #((speed > 90), (speed = 0)) within 1 min
"""
EVENTS = pa.table(
    {
        "id": [7, 7, 8, 7, 8, 7, 7, 8, 8, 7],
        "t": [0, 10, 10, 20, 25, 30, 40, 45, 60, 99],
        "speed": [85, 93, 120, 99, 130, 104, 111, 0, 0, 0],
    }
)


def rows_of(found: pa.Table) -> list[dict[str, object]]:
    return sorted(found.to_pylist(), key=repr)


@pytest.mark.parametrize("size", [1, 2, 3, 10])
def test_any_cuts_give_the_same_detections(size: int) -> None:
    patterns = wayeb_py.compile(SOURCE)
    state, found = b"", []
    for begin in range(0, EVENTS.num_rows, size):
        # Patterns and state cross a process boundary between two batches.
        patterns = pickle.loads(pickle.dumps(patterns))
        detections, state = patterns.step(EVENTS.slice(begin, size), state)
        found.append(detections.to_arrow())
    expected = rows_of(patterns.recognise(EVENTS).to_arrow())
    assert {row["pattern"] for row in expected} == {"Twice", "Rising", "Stop"}
    assert rows_of(pa.concat_tables(found)) == expected


def test_a_step_does_not_change_the_state_that_it_was_given() -> None:
    patterns = wayeb_py.compile(SOURCE)
    _, state = patterns.step(EVENTS.slice(0, 6))
    kept = bytes(state)
    first, after = patterns.step(EVENTS.slice(6), state)
    again, after_again = patterns.step(EVENTS.slice(6), kept)
    assert (rows_of(first.to_arrow()), after) == (rows_of(again.to_arrow()), after_again)


def test_events_held_back_for_a_silent_entity_are_recognised_when_it_is_given_up() -> None:
    patterns = wayeb_py.compile(SOURCE, lateness_s=60)
    recogniser = wayeb_py.Recogniser(patterns)
    held = recogniser.feed(EVENTS.slice(0, 7))
    silent = recogniser.flush_idle(pa.array([7]))
    assert len(held) == 0
    assert {row["entity"] for row in silent.to_arrow().to_pylist()} == {7}
    assert {row["pattern"] for row in silent.to_arrow().to_pylist()} == {"Twice", "Rising"}
    assert {row["entity"] for row in recogniser.finish().to_arrow().to_pylist()} == {8}


def test_the_end_of_an_input_that_never_began_has_the_columns_of_any_other() -> None:
    patterns = wayeb_py.compile(SOURCE + "pattern Fast := (speed > 1) emit speed\n")
    after_nothing = wayeb_py.Recogniser(patterns).feed(EVENTS.slice(0, 0))
    for early in (wayeb_py.Recogniser(patterns).finish(), wayeb_py.Recogniser(patterns).flush_idle(pa.array([7]))):
        assert early.counts() == after_nothing.counts()
        for found, typed in (
            (early.to_arrow(), after_nothing.to_arrow()),
            (early.episodes(), after_nothing.episodes()),
        ):
            assert found.num_rows == 0
            # Columns without a known type take those of the others.
            assert pa.concat_tables([found, typed], promote_options="default").schema == typed.schema
            assert found.column_names == typed.column_names


def test_what_was_recognised_is_not_revised_by_a_row_that_comes_before_it_by_order() -> None:
    source = "stream s {\n key id\n time t in s\n order n\n dedupe\n}\npattern P := (x = 1) ; (x = 2)\n"
    recogniser = wayeb_py.Recogniser(wayeb_py.compile(source))

    def feed(*rows: tuple[int, int, int]) -> list[tuple[int, int]]:
        t, n, x = zip(*rows, strict=True)
        found = recogniser.feed(pa.table({"id": [7] * len(t), "t": t, "n": n, "x": x})).to_arrow()
        return list(zip(found["ts"].to_pylist(), found["seq"].to_pylist(), strict=True))

    assert feed((1, 5, 1), (1, 4, 0), (1, 3, 1)) == []  # they wait, and the last of them is the first by order
    recogniser.flush_idle(pa.array([7]))
    assert feed((1, 1, 0), (2, 9, 0)) == []  # too late to be the first
    assert feed((2, 8, 2), (3, 1, 0)) == [(2, 1)]
    assert (recogniser.counts.duplicates, recogniser.counts.late) == (4, 0)


@pytest.mark.parametrize("fed_as", ["arrival", "sorted"])
def test_an_order_that_is_text_is_refused_before_anything_is_read(fed_as: str) -> None:
    source = "stream s {\n key id\n time t in s\n order n\n}\npattern P := (x = 1)\n"
    recogniser = wayeb_py.Recogniser(wayeb_py.compile(source), order=fed_as)  # type: ignore[arg-type]
    with pytest.raises(wayeb_py.errors.EventsError, match="the order column `n` is text"):
        recogniser.feed(pa.table({"id": [1], "t": [1], "n": ["a"], "x": [1]}))
