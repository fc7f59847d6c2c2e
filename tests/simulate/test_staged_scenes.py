"""Scenes among traffic: every rule of the libraries occurs, each recorded occurrence is detected, traffic stays."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import wayeb_py
from tests.simulate.test_generators import joined, missed
from wayeb_py.simulate.fleet import generate_fleet
from wayeb_py.simulate.maritime import generate_maritime
from wayeb_py.simulate.staged_roads import ROAD_STAGE
from wayeb_py.simulate.staged_scenes import Stage, with_scenes
from wayeb_py.simulate.staged_sea import SEA_STAGE

pytestmark = pytest.mark.xdist_group("staged scenes")  # which share what is generated and what is found in it

ROOT = Path(__file__).parents[2]
STAGES = {"maritime": SEA_STAGE, "fleet": ROAD_STAGE}
EVERY_RULE = [(library, scene.rule) for library, stage in STAGES.items() for scene in stage.scenes]


def generated(library: str, n_events: int, batch_rows: int = 1 << 18) -> tuple[pa.Table, pa.Table]:
    generate = generate_maritime if library == "maritime" else generate_fleet
    return joined(with_scenes(generate(n_events, 30, 3, batch_rows), STAGES[library]))


@cache
def run(library: str) -> tuple[pa.Table, pa.Table]:
    """What the rules of a library detect in traffic with scenes, and what is recorded of them."""
    events, occurrences = generated(library, 30_000)
    rules = [scene.rule for scene in STAGES[library].scenes]
    patterns = wayeb_py.compile(ROOT / f"patterns/{library}/rules.sre").select(rules)
    return patterns.recognise(events).to_arrow(), occurrences


@pytest.mark.parametrize(("library", "rule"), EVERY_RULE)
def test_every_rule_of_the_libraries_occurs_and_each_occurrence_is_detected(library: str, rule: str) -> None:
    detections, occurrences = run(library)
    recorded = occurrences.filter(pc.equal(occurrences["pattern"], rule))
    assert len(recorded) > 0
    found = detections.filter(pc.equal(detections["pattern"].cast(pa.string()), rule))
    assert missed(found, recorded) == []


def test_all_rules_of_the_libraries_that_run_alone_have_a_scene() -> None:
    for library, stage in STAGES.items():
        rules = wayeb_py.compile(ROOT / f"patterns/{library}/rules.sre").rule_names
        assert {scene.rule for scene in stage.scenes} == set(rules) - {"LineAbreast"}  # a part of SearchPattern


@pytest.mark.parametrize("library", STAGES)
def test_traffic_stays_as_it_is_and_scenes_are_the_same_however_it_is_cut(library: str) -> None:
    generate = generate_maritime if library == "maritime" else generate_fleet
    stage: Stage = STAGES[library]
    n_events = 10_000  # hours enough for scenes to be played, and to be cut
    events, occurrences = generated(library, n_events)
    traffic, told = joined(generate(n_events, 30, 3))
    is_actor = pc.greater_equal(events[stage.key], stage.first_key)
    assert events.filter(pc.invert(is_actor)).combine_chunks() == traffic.combine_chunks()
    assert bool(np.all(np.diff(events["ts"].cast(pa.int64()).to_numpy()) >= 0))
    assert len(occurrences) > len(told)
    again, told_again = generated(library, n_events, 700)
    assert again.combine_chunks() == events.combine_chunks()
    order = [(name, "ascending") for name in ("end_ts", "pattern", "entity", "start_ts", "other", "place")]
    assert told_again.sort_by(order).equals(occurrences.sort_by(order))
