"""Cases that follow the clock, which the oracle of the corpus does not know; other engines are asked the same."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.cases import Case, read_case
from tests.engines import Found, Job, fed, in_one_call

FILE = Path(__file__).with_name("silences_and_ends.toml")
CASES = {fields["name"]: read_case(fields) for fields in tomllib.loads(FILE.read_text())["case"]}


def check(found: Found, case: Case) -> None:
    rows = {(row.pattern, row.entity, row.seq, row.start_seq): row.emitted for row in found.detections}
    assert sorted(rows) == sorted(case.detects)
    if case.emits is not None:
        assert [rows[place] for place in case.detects] == case.emits


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_every_cut_finds_what_other_engines_find(case: Case) -> None:
    job = Job(case.source, case.table(), case.longest, case.arrival, None)
    check(in_one_call(job), case)
    for cut in range(1, job.table.num_rows):
        check(fed(job, [cut]), case)
        check(fed(job, [cut], restored=True), case)
