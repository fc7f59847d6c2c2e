"""Files with several streams find what the definitions say, however their events come, are cut and are saved."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.several.files import (
    DARK,
    OF_ONE,
    PAIRS,
    SILENCES,
    WITH_TIERS,
    WITH_WAYS,
    batch_of,
    make_world,
    rows_of,
    run,
)
from tests.strategies import examples

QUIETLY = [HealthCheck.function_scoped_fixture]
KINDS = {
    "of one entity": OF_ONE,
    "silences": {**OF_ONE, **SILENCES},
    "pairs": {**SILENCES, **PAIRS},
    "pairs that read patterns": WITH_TIERS,
    "pairs that ask for ways": {**WITH_WAYS, **WITH_TIERS},
    "pairs that end in a silence": DARK,
    "all of them": {**OF_ONE, **SILENCES, **PAIRS, **WITH_TIERS, **WITH_WAYS, **DARK},
}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(12), suppress_health_check=QUIETLY)
@given(seed=st.integers(0, 2**32))
def test_a_file_finds_what_its_definition_says(tmp_path: Path, kind: str, seed: int) -> None:
    world = make_world(seed, KINDS[kind])
    patterns = world.compile(tmp_path)
    expected = world.expect(patterns)
    dice = random.Random(seed)
    for saves in (False, True):
        found = run(world, patterns, dice, saves=saves)
        assert found.rows == [row for row in expected.rows if row.pattern in patterns.names]
        assert found.n_late == {name: expected.n_late[name] for name in patterns.by_stream}
        if patterns.clocked:
            read_by_a_clock = [name for name, part in patterns.by_stream.items() if part.clocked_needs]
            for name in read_by_a_clock:
                assert found.n_late_for_clock[name] == expected.n_late_for_clock[name]
    tables = {name: batch_of(name, world.sent[name]) for name in patterns.by_stream}
    assert sorted(rows_of(patterns.recognise(tables).to_arrow(), patterns)) == expected.rows
