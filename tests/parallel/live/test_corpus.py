"""Every case of the corpus through the loop of a live stream: the same detections, however its batches are cut."""

from __future__ import annotations

import pytest

from tests.engine.test_corpus import CASES, compare
from tests.engines import live, random_cuts

# Of what a match remembers, measures and reports always some, and the rest where `soak` is asked for.
ALWAYS = {
    "registers/a-rising-run-by-the-newest-name",
    "registers/without-overlap",
    "measures/arithmetic-of-measures-and-what-stands-outside-of-them",
    "matches/from-all-starts",
    "matches/once-from-each-start",
    "peers/flink-a-mean-that-is-passed",
}
PARAMETERS = [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.soak) for name in CASES]


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_live_stream_detects_what_the_case_says(name: str) -> None:
    compare(name, lambda job: live(job, random_cuts(job)))
