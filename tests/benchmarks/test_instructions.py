"""Counting instructions: callgrind's files are read, and the marks that it looks for are harmless without it."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from benchmarks.experiments.process.instructions import read_counts
from benchmarks.experiments.process.instructions_work import Marks

DUMP = """# callgrind format
version: 1
part: {part}

desc: Timerange: Basic block 0 - 1893
desc: Trigger: {trigger}

events: Ir
summary: {total}

fn=(0) kernel
0 7
totals: {total}
"""


def test_a_count_has_the_name_that_its_end_was_marked_with(tmp_path: Path) -> None:
    for part, (trigger, total) in enumerate(
        {
            "Client Request: six patterns of 20000": 14462544,
            "Client Request: six patterns of 40000": 20175436,
            "Program termination": 7,
        }.items()
    ):
        (tmp_path / f"counts.{part}").write_text(DUMP.format(part=part, trigger=trigger, total=total))
    assert read_counts(tmp_path) == {"six patterns of 20000": 14462544, "six patterns of 40000": 20175436}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the marks are of x86-64")
def test_marks_change_no_result_and_leave_no_file_without_valgrind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where callgrind would leave its counts
    marks = Marks()
    marks.begin()
    total = sum(range(1000))
    marks.end("nothing")
    assert total == 499_500
    assert list(tmp_path.iterdir()) == []
