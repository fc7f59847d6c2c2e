"""Files with rules, from text to detections: those of nested loops, in any cuts, by any plan, from any state."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rules.random_files import canonical, forced_plans, make_world, run, told_by_engine, told_by_oracle
from tests.strategies import examples
from wayeb_py.engine.rules import bound_rules, operator
from wayeb_py.engine.rules.operator import MOST_WORDS
from wayeb_py.engine.rules.plans import FEWEST_SAMPLED


@settings(deadline=None, max_examples=examples(40))
@given(st.integers(0, 2**32))
def test_the_matches_of_a_file_are_those_of_nested_loops(seed: int) -> None:
    dice = Random(seed)
    world = make_world(dice)
    fewest = dice.choice([0, 5, FEWEST_SAMPLED])  # rows by which a run plans
    n_words = dice.choice([0, 3, MOST_WORDS])  # texts that rules hold before they look them through
    with (
        TemporaryDirectory() as folder,
        patch.object(bound_rules, "FEWEST_SAMPLED", fewest),
        patch.object(operator, "MOST_WORDS", n_words),
    ):
        patterns = world.compile(Path(folder))
        plans = forced_plans(patterns, dice) if dice.random() < 0.5 else {}
        rows = run(world, patterns, dice, saves=dice.random() < 0.6, plans=plans)
        found, expected = told_by_engine(rows, patterns), told_by_oracle(world.expect(patterns))
    for rule in patterns.meaning.rules:
        assert canonical(found[rule.name]) == canonical(expected[rule.name]), world.text


@settings(deadline=None, max_examples=examples(15))
@given(st.integers(0, 2**32))
def test_matches_come_in_the_order_in_which_they_are_decided_whatever_the_cuts(seed: int) -> None:
    dice = Random(seed)
    world = make_world(dice)
    with TemporaryDirectory() as folder:
        patterns = world.compile(Path(folder))
        rows, again = (run(world, patterns, dice) for _ in range(2))
    assert rows == again
    decided = [row["decided_ts"] for row in rows if row["decided_ts"] is not None]
    assert all(one <= other for one, other in pairwise(decided))
    assert [row["decided_ts"] for row in rows][len(rows) - len(decided) :] == decided  # files come before all times
