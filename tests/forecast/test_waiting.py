"""The waiting times of a chain: equal to the sum over all words that may follow, and to what simulation gives."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.forecast.enumeration import Word, by_longest_suffix, first_detections
from tests.strategies import examples
from wayeb_py.arrays import F64, I64
from wayeb_py.forecast.automaton import DetectingAutomaton
from wayeb_py.forecast.chain import Chain, make_chain, reach_nodes
from wayeb_py.forecast.contexts import by_suffix, grow_tree, kept_contexts, smoothed
from wayeb_py.forecast.counts import Counts
from wayeb_py.forecast.waiting_times import smallest_intervals, wait_in_events, wait_in_time


@dataclass(frozen=True)
class Case:
    """A random automaton, random counts of what follows what, and contexts."""

    automaton: DetectingAutomaton
    counts: Counts
    contexts: tuple[Word, ...]

    def state(self, word: Word) -> int:
        state = 0
        for symbol in word:
            state = int(self.automaton.next_state[state, symbol])
        return state

    def detects(self, word: Word) -> bool:
        return bool(self.automaton.detects[self.state(word)])

    @property
    def n(self) -> int:
        return self.automaton.n_symbols

    def rows(self) -> dict[Word, list[Fraction]]:
        """The exact probabilities of every context."""
        numbers: dict[Word, I64] = {}
        for (_, _, context, symbol), k in self.counts.follows.items():
            numbers.setdefault(context, np.zeros(self.n + 1, dtype=np.int64))[symbol] += k
        for (_, _, context), k in self.counts.ends.items():
            numbers.setdefault(context, np.zeros(self.n + 1, dtype=np.int64))[self.n] += k
        return smoothed(by_suffix(numbers), self.contexts, self.n)

    def chain(self) -> Chain:
        tree = grow_tree(self.counts, self.contexts, self.n)
        nodes = reach_nodes(self.automaton, tree.next_context, 10_000)
        assert nodes is not None
        return make_chain(nodes, tree, self.automaton.detects.astype(np.float64))

    def node(self, chain: Chain, word: Word) -> int:
        node = 0
        for symbol in word:
            node = int(chain.next_node[node, symbol])
        return node


def automaton(next_state: list[list[int]], detects: list[bool]) -> DetectingAutomaton:
    table = np.array(next_state, dtype=np.int64)
    return DetectingAutomaton("P", "", (), np.zeros(0, dtype=np.int64), table, np.array(detects), False)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    n_states, n = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    states = st.integers(0, n_states - 1)
    table = draw(st.lists(st.lists(states, min_size=n, max_size=n), min_size=n_states, max_size=n_states))
    detects = draw(st.lists(st.booleans(), min_size=n_states, max_size=n_states))
    symbols = st.integers(0, n - 1)
    counts = Counts(2)
    for context in (c for length in range(3) for c in product(range(n), repeat=length)):
        for symbol in range(n):
            counts.follows["", 0, context, symbol] = draw(st.integers(0, 9))
        counts.ends["", 0, context] = draw(st.sampled_from((0, 0, 1)))
    kept = draw(st.sets(st.tuples(symbols, symbols) | st.tuples(symbols), max_size=4))
    closed = {()} | kept | {c[1:] for c in kept} | {c[:-1] for c in kept}
    contexts = tuple(sorted(closed, key=lambda c: (len(c), c)))
    return Case(automaton(table, detects), counts, contexts)


@settings(max_examples=examples(60))
@given(cases(), st.lists(st.integers(0, 2), max_size=3))
def test_the_wait_in_events_is_the_sum_over_all_words_that_may_follow(case: Case, word: list[int]) -> None:
    history = tuple(symbol % case.n for symbol in word)
    chain = case.chain()
    expected = [Fraction(0)] * 5
    after = by_longest_suffix(case.rows())
    for found, probability in first_detections(case.detects, after, history, case.n, 4):
        expected[len(found)] += probability
    wait = wait_in_events(chain, 4)[case.node(chain, history)]
    assert wait == pytest.approx([float(p) for p in expected], abs=1e-12)


@settings(max_examples=examples(40))
@given(cases(), st.lists(st.integers(0, 2), min_size=1, max_size=2), st.randoms(use_true_random=False))
def test_the_wait_in_time_is_the_sum_over_all_words_and_times(case: Case, word: list[int], random: object) -> None:
    """Every event takes a step at least, so that three steps hold three events at most."""
    history = tuple(symbol % case.n for symbol in word)
    chain, n_steps = case.chain(), 3
    rng = np.random.default_rng(random.randrange(2**32))  # type: ignore[attr-defined]
    gaps = np.zeros((case.n + 1, case.n, n_steps + 1))
    gaps[:, :, 1:] = rng.integers(0, 5, size=(case.n + 1, case.n, n_steps)) / 16  # exact; the rest is beyond
    expected = [Fraction(0)] * (n_steps + 1)
    after = by_longest_suffix(case.rows())
    for found, probability in first_detections(case.detects, after, history, case.n, n_steps):
        pairs = list(zip((history[-1], *found), found, strict=False))
        for steps in product(range(1, n_steps + 1), repeat=len(found)):
            if sum(steps) <= n_steps:
                share = Fraction(1)
                for (before, symbol), step in zip(pairs, steps, strict=True):
                    share *= Fraction(gaps[before, symbol, step])
                expected[sum(steps)] += probability * share
    wait = wait_in_time(chain, gaps)[case.node(chain, history)]
    assert wait == pytest.approx([float(p) for p in expected], abs=1e-12)


def larger() -> tuple[Chain, F64]:
    """A chain of 60 nodes over 4 symbols, and times between events of which many are of the same step."""
    rng = np.random.default_rng(7)
    n_nodes, n, n_steps = 60, 4, 12
    probability = rng.dirichlet(np.ones(n), size=n_nodes) * 0.98  # one word in fifty ends
    detection = np.where(rng.random(n_nodes) < 0.4, rng.random(n_nodes), 0.0)
    chain = Chain(rng.integers(0, n_nodes, size=(n_nodes, n)), probability, detection, rng.integers(0, n, size=n_nodes))
    gaps = rng.dirichlet(np.ones(n_steps + 3), size=(n + 1, n))[:, :, : n_steps + 1]
    gaps[:, :, 0] += 0.3
    return chain, gaps / 1.4


def simulate(chain: Chain, gaps: F64, node: int, n_words: int, n_steps: int) -> tuple[Counter[int], Counter[int]]:
    """How many of some words detect first after each number of events, and of steps."""
    rng = np.random.default_rng(11)
    by_events: Counter[int] = Counter()
    by_steps: Counter[int] = Counter()
    n = chain.next_node.shape[1]
    cumulative, of_gaps = chain.probability.cumsum(axis=1), gaps.cumsum(axis=2)
    for _ in range(n_words):
        now, steps, events = node, 0, 0
        while steps <= n_steps and events < 400:
            symbol = int(np.searchsorted(cumulative[now], rng.random(), "right"))
            if symbol == n:
                break
            gap = int(np.searchsorted(of_gaps[chain.last[now], symbol], rng.random(), "right"))
            steps, events, now = steps + gap, events + 1, int(chain.next_node[now, symbol])
            if rng.random() < chain.detection[now]:
                by_events[events] += 1
                if steps <= n_steps:
                    by_steps[steps] += 1
                break
    return by_events, by_steps


def test_the_waits_of_a_larger_chain_are_those_of_simulated_words() -> None:
    """4,000 words: four standard deviations of a share are at most 4 * sqrt(0.25 / 4000) = 0.032."""
    chain, gaps = larger()
    n_words, n_steps = 4_000, gaps.shape[2] - 1
    in_time = wait_in_time(chain, gaps)
    for node in (0, 17):
        _, by_steps = simulate(chain, gaps, node, n_words, n_steps)
        simulated = np.cumsum([by_steps[k] / n_words for k in range(n_steps + 1)])
        assert np.cumsum(in_time[node]) == pytest.approx(simulated, abs=0.032)
        assert simulated[-1] > 0.1
        by_events, _ = simulate(chain, np.zeros_like(gaps) + (np.arange(n_steps + 1) == 0), node, n_words, n_steps)
        in_events = np.cumsum(wait_in_events(chain, 20)[node])
        assert in_events == pytest.approx(np.cumsum([by_events[e] / n_words for e in range(21)]), abs=0.032)


def test_a_pattern_that_cannot_come_any_more_is_never_waited_for() -> None:
    chain = Chain(np.array([[1], [1]]), np.ones((2, 1)), np.zeros(2), np.zeros(2, dtype=np.int64))
    gaps = np.zeros((2, 1, 4))
    gaps[:, :, 0] = 1.0  # all events at the same time, for ever
    assert not wait_in_time(chain, gaps).any()


@settings(max_examples=examples(60))
@given(st.lists(st.integers(0, 8), min_size=1, max_size=9), st.sampled_from((0.1, 0.5, 0.7)))
def test_an_interval_is_the_smallest_that_holds_enough(eighths: list[int], confidence: float) -> None:
    wait = np.array([eighths]) / 8 / max(1, len(eighths))
    (first,), (last,) = smallest_intervals(wait, confidence)
    held = {
        (b - a, a): wait[0, a : b + 1].sum()
        for a in range(len(eighths))
        for b in range(a, len(eighths))
        if wait[0, a : b + 1].sum() >= confidence - 1e-12
    }
    widths = {width for width, _ in held}
    assert (first == -1) == (last == -1) == (not held)
    assert not held or (last - first == min(widths) and wait[0, first : last + 1].sum() >= confidence - 1e-9)


def test_contexts_that_say_nothing_new_are_not_kept() -> None:
    """The next symbol repeats the last but one; the last alone says nothing."""
    numbers: dict[Word, I64] = {
        (a, b): np.array([95 if a == s else 5 for s in (0, 1)] + [0], dtype=np.int64) for a in (0, 1) for b in (0, 1)
    }
    assert kept_contexts(numbers, 1, 2) == ((),)
    assert set(kept_contexts(numbers, 2, 2)) == {(), (0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)}


def test_a_kept_context_keeps_its_beginnings_without_which_it_would_never_be_reached() -> None:
    """After 1 it matters what came before; 0 by itself says nothing, but leads to 0 1."""
    told = {(0, 1): (90, 10), (1, 1): (10, 90), (0, 0): (50, 50), (1, 0): (50, 50)}
    numbers: dict[Word, I64] = {context: np.array([*own, 0], dtype=np.int64) for context, own in told.items()}
    assert set(kept_contexts(numbers, 2, 2)) == {(), (0,), (1,), (0, 1), (1, 1)}
