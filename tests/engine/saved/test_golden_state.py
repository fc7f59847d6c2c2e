"""A state that an earlier release saved is read, and continues as it did then, or is refused with a message."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import wayeb_py
from tests.golden.states import FOLDER, go_on
from wayeb_py.engine.saved.operators import MAGIC, OperatorState, pack_operators, unpack_operators
from wayeb_py.errors import DataError

STATES = sorted(FOLDER.glob("*.state"))


@pytest.mark.parametrize("path", STATES, ids=lambda path: path.stem)
def test_a_state_of_a_release_continues_as_it_did(path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text())
    assert {row["pattern"] for row in expected["detections"]} == {"Rising", "Held", "Changed", "Long", "Moved", "Near"}
    assert go_on(path.read_bytes()) == expected


def test_there_is_a_golden_state_of_the_format_that_is_written_now() -> None:
    recogniser = wayeb_py.Recogniser(wayeb_py.compile("stream s { key k time t in s }\npattern P := (v > 0)\n"))
    recogniser.feed({"k": [1], "t": [1], "v": [1]})
    head = recogniser.save()[: len(MAGIC) + 2]
    assert head in {path.read_bytes()[: len(head)] for path in STATES}


def test_a_state_of_a_later_release_is_refused() -> None:
    newer = MAGIC + (99).to_bytes(2, "little") + STATES[-1].read_bytes()[len(MAGIC) + 2 :]
    with pytest.raises(DataError, match="the saved state has version 99, and this release reads versions up to"):
        go_on(newer)


def test_the_state_of_an_operator_that_no_pattern_needs_any_more_is_dropped() -> None:
    known = unpack_operators(STATES[-1].read_bytes())
    with_another = pack_operators([OperatorState("rules", "of another file", b"something"), *known])
    assert go_on(with_another) == go_on(STATES[-1].read_bytes())
