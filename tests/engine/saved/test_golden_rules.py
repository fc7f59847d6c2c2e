"""A state of rules that an earlier release saved continues as it did then, or is refused with a message."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.golden.rules_states import FOLDER, N_EVENTS, RULES, fed, go_on, matches_of, recogniser
from wayeb_py.engine.rules import saved as saved_rules
from wayeb_py.engine.saved.operators import unpack_operators
from wayeb_py.engine.saved.packing import unpack_state
from wayeb_py.errors import DataError

STATES = sorted(FOLDER.glob("*.state"))


@pytest.mark.parametrize("path", STATES, ids=lambda path: path.stem)
def test_a_state_of_a_release_continues_as_it_did(path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text())
    found = Counter(row["pattern"] for row in expected)
    assert min(found[rule] for rule in RULES) >= 3
    assert go_on(path.read_bytes()) == expected


def test_a_state_of_rules_gives_what_a_run_without_a_pause_gives() -> None:
    whole = recogniser()
    rows = [*fed(whole, 0, N_EVENTS), *matches_of(whole.finish())]
    first = recogniser()
    before = fed(first, 0, N_EVENTS // 2)
    assert [*before, *go_on(first.save())] == rows


def test_there_is_a_golden_state_of_the_version_that_is_written_now() -> None:
    versions = {
        unpack_state(one.data)[0]["version"]
        for path in STATES for one in unpack_operators(path.read_bytes()) if one.kind == "rules"
    }  # fmt: skip
    assert saved_rules.VERSION in versions


def test_a_state_of_rules_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    first = recogniser()
    fed(first, 0, 60)
    monkeypatch.setattr(saved_rules, "VERSION", 99)
    later = first.save()
    monkeypatch.undo()
    with pytest.raises(DataError, match="the saved state of the rules has version 99, and this release reads 1"):
        go_on(later)
