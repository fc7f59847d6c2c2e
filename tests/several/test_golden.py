"""A state of pairs, silences and two streams that a release has saved goes on as it did then."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from tests.golden.several_states import FOLDER, N_EVENTS, events, go_on, plain, recogniser
from wayeb_py.engine.saved.operators import OperatorState, pack_operators, unpack_operators
from wayeb_py.errors import DataError

STATES = sorted(FOLDER.glob("*.state"))
NAMES = {"Slow", "After", "Quiet", "Track", "Meeting", "Course", "Dark", "Seen", "Lost"}


@pytest.mark.parametrize("path", STATES, ids=lambda path: path.stem)
def test_a_state_of_a_release_goes_on_as_it_did(path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text())
    assert {row["pattern"] for row in expected["detections"]} == NAMES
    assert {row["pattern"] for row in expected["episodes"]} >= {"Meeting", "Course", "Seen"}
    assert go_on(path.read_bytes()) == expected


def test_the_halves_give_what_the_whole_does() -> None:
    """So that what is noted is right, and not only the same as ever."""
    at_once = recogniser()
    tables = [at_once.feed(table, name).to_arrow() for name, table in events().items()]
    tables.append(at_once.finish().to_arrow())
    first = recogniser()
    halves = [first.feed(table.slice(0, N_EVENTS // 2), name).to_arrow() for name, table in events().items()]
    found = [plain(row) for row in pa.concat_tables(halves).to_pylist()] + go_on(first.save())["detections"]
    assert sorted(found, key=repr) == sorted(map(plain, pa.concat_tables(tables).to_pylist()), key=repr)


@pytest.mark.parametrize("kind", ["pairs", "clock", "silence"])
def test_a_state_whose_bytes_are_cut_is_refused_with_a_message(kind: str) -> None:
    states = []
    for one in unpack_operators(STATES[-1].read_bytes()):
        data = one.data[: len(one.data) // 2] if one.kind == kind else one.data
        states.append(OperatorState(one.kind, one.fingerprint, data, one.stream))
    assert any(one.kind == kind for one in states)
    with pytest.raises(DataError, match="state"):
        go_on(pack_operators(states))
