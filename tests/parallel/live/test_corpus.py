"""Every case of the corpus through the loop of a live stream: the same detections, however its batches are cut."""

from __future__ import annotations

import pytest

from tests.engine.test_corpus import CASES, compare
from tests.engines import live, random_cuts


@pytest.mark.soak
@pytest.mark.parametrize("name", CASES)
def test_a_live_stream_detects_what_the_case_says(name: str) -> None:
    compare(name, lambda job: live(job, random_cuts(job)))
