"""Facts that a stream changes are numbered by their values, and matches that stand know when they began: as Python's
dictionaries would say, however they come in batches; and what has ended is forgotten."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import wayeb_py
from wayeb_py.engine.rules.fact_rules import Begun
from wayeb_py.engine.rules.standing_rows import FEW_FACTS, FactNumbers

FACTS = """
stream told { key id  time t in s  attr op text  attr x number }
facts listed(id, x) from changes told
rule Listed := f: listed emit f.id, f.x
"""
ROWS = st.lists(st.tuples(st.integers(-2, 2), st.sampled_from([-(2**63), 0, 2**63 - 1])), max_size=40)


@settings(deadline=None)
@given(st.lists(st.tuples(ROWS, st.booleans()), max_size=6))
def test_equal_rows_have_one_number(batches: list[tuple[list[tuple[int, int]], bool]]) -> None:
    facts, known = FactNumbers(2), dict[tuple[int, int], int]()
    for rows, keeps_even in batches:
        wanted = [known.setdefault(row, len(known)) for row in rows]
        assert facts.of(np.array(rows, dtype=np.int64).reshape(-1, 2)).tolist() == wanted
        if keeps_even:
            facts.keep(np.arange(0, facts.n, 2))
            known = {row: number // 2 for row, number in known.items() if number % 2 == 0}
        assert [tuple(row) for row in facts.values.tolist()] == sorted(known, key=known.__getitem__)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 90), st.sets(st.integers(0, 200))), max_size=8))
def test_matches_know_when_they_began(steps: list[tuple[int, set[int]]]) -> None:
    begun, known, n = Begun(), dict[int, int](), 0
    for time, (n_begin, ending) in enumerate(steps):
        going = sorted(ending & known.keys(), reverse=True)
        assert begun.end(np.array(going, dtype=np.int64)).tolist() == [known.pop(number) for number in going]
        begun.begin(np.arange(n, n + n_begin), time)
        known |= dict.fromkeys(range(n, n + n_begin), time)
        n += n_begin
        assert begun.pairs().tolist() == [list(pair) for pair in known.items()]
        begun = Begun(*np.ascontiguousarray(begun.pairs().T)) if time % 3 == 2 else begun


def test_facts_that_have_ended_are_forgotten() -> None:
    recogniser = wayeb_py.Recogniser(wayeb_py.compile(FACTS), order="sorted")
    n_facts = 0
    for batch in range(12):
        rows = [
            {"id": 1000 * batch + nth // 2, "t": 2 * batch + nth % 2, "x": 7.5, "op": "+-"[nth % 2]}
            for nth in range(1000)
        ]
        found = recogniser.feed(sorted(rows, key=lambda row: row["t"]))
        n_facts += len(found)
    assert n_facts == 12 * 1000 - 500  # the clock has not passed the last second
    running, _ = recogniser._rules._make()  # type: ignore[union-attr]
    assert running.changed["facts listed"]._facts.n <= FEW_FACTS + 500
