"""Every case of the corpus through the loop of a live stream: the same detections, however its batches are cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.engine.test_corpus import CASES, compare
from tests.engines import live, random_cuts
from tests.parallel.live.live_loops import run_loop
from tests.several.test_sentences import CASES as SENTENCES
from tests.several.test_sentences import batch_of, compile_case, name_of, sent_in, shown

# Of what a match remembers, measures and reports always some, and the rest with `soak`.
ALWAYS = {
    "registers/a-rising-run-by-the-newest-name",
    "registers/without-overlap",
    "measures/arithmetic-of-measures-and-what-stands-outside-of-them",
    "episodes/measures-are-those-of-the-whole-episode",
    "matches/from-all-starts",
    "matches/once-from-each-start",
    "peers/flink-a-mean-that-is-passed",
}
PARAMETERS = [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.soak) for name in CASES]


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_live_stream_detects_what_the_case_says(name: str) -> None:
    compare(name, lambda job: live(job, random_cuts(job)))


WORD_ENDS = [case for case in SENTENCES if "$" in case["text"]]


@pytest.mark.parametrize("case", WORD_ENDS, ids=name_of)
def test_a_live_stream_knows_when_words_end(tmp_path: Path, case: dict[str, Any]) -> None:
    patterns = compile_case(case, tmp_path)
    (rows,) = sent_in(case).values()
    for cuts in ([], [1, 3], list(range(1, len(rows)))):
        found, _ = run_loop(patterns, pa.Table.from_batches([batch_of(rows)]), cuts, episodes=False)
        assert shown(found, "seq" in case) == sorted(case["detects"])
