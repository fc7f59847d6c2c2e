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
            # Columns whose types nothing has told yet take those of the others.
            assert pa.concat_tables([found, typed], promote_options="default").schema == typed.schema
            assert found.column_names == typed.column_names
