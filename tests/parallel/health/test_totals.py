"""Totals continue over restarts, and count each batch once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parallel.health.watched_stream import counted
from wayeb_py.errors import DataError
from wayeb_py.parallel.health.totals import Totals, load_totals, save_totals


def test_totals_add_up_and_levels_hold_the_last() -> None:
    totals = Totals()
    totals.count(0, [counted("0"), counted("1", entities=5, state_bytes=300)])
    totals.count(1, [counted("0", entities=12, end=200), counted("1", rows=0, events=0, detections={"Slow": 2})])
    assert totals.sum("events") == 98 * 3
    assert totals.sums["detections"] == {"Fast": 9, "Slow": 2}
    assert totals.sums["bad"] == {"no time": 4}
    assert totals.level("entities") == 22
    assert totals.levels["end"] == {"0": 200, "1": 100}
    assert totals.sums["batches"] == {"": 2}


def test_groups_of_patterns_have_states_of_their_own_and_entities_in_common() -> None:
    totals = Totals()
    totals.count(0, [counted(state_bytes=100), counted(group=1, rows=0, events=0, entities=0, state_bytes=50)])
    assert totals.level("state_bytes") == 150
    assert totals.level("entities") == 10


def test_a_range_read_in_parts_is_done_up_to_its_last() -> None:
    totals = Totals()
    totals.count(0, [counted(start=50, end=100), counted(start=0, end=50)])
    assert totals.levels["end"] == {"0": 100}


def test_a_batch_without_a_row_is_empty() -> None:
    totals = Totals()
    totals.count(0, [counted(rows=0)])
    totals.count(1, [])
    totals.count(2, [counted()])
    assert totals.sums["empty_batches"] == {"": 2}


@pytest.mark.parametrize("n_kept", [1, 2], ids=["before the totals are kept", "after the totals are kept"])
def test_a_batch_that_is_repeated_after_a_crash_counts_once(tmp_path: Path, n_kept: int) -> None:
    totals = Totals()
    for batch in range(n_kept):
        totals.count(batch, [counted()])
    save_totals(tmp_path, totals)
    again = load_totals(tmp_path)
    again.count(1, [counted()])
    again.count(2, [counted()])
    assert again.sum("events") == 3 * 98


def test_totals_that_cannot_be_read_say_so(tmp_path: Path) -> None:
    (tmp_path / "totals.json").write_text("{")
    with pytest.raises(DataError, match="remove the file"):
        load_totals(tmp_path)
