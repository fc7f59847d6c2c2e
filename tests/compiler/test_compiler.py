"""The compiler's pieces keep the language: minterms, derivatives, minimal automata and tracked starts equal the oracle.

Automata are walked here in plain Python over one word at a time, without encoding and without kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

import numpy as np
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tests.oracle import Arrived, Column, Event, Settings, SpanFinder, Word
from tests.strategies import PLAIN_ATOMS, WORDS, event_lists, examples, regexes
from wayeb_py.compiler.alphabet import Alphabet, build_alphabet
from wayeb_py.compiler.automata.budget import Budget, OverBudgetError
from wayeb_py.compiler.automata.derivatives import Derivatives, Dfa, Nfa, determinize, linearize
from wayeb_py.compiler.automata.minimize import join_symbols, minimize
from wayeb_py.compiler.automata.regex import Regexes, letters_of
from wayeb_py.compiler.automata.tracking import track
from wayeb_py.compiler.limits import DEFAULT_LIMITS
from wayeb_py.dsl import meaning as m

COLUMNS = {"k": Column("text"), "x": Column("float")}
EVENT_LISTS = event_lists(
    {"k": (*WORDS, *WORDS, *WORDS, None), "x": (0.0, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, None)}, min_size=4
)
REGEXES = regexes(PLAIN_ATOMS)


def word_of(events: list[Event]) -> Word:
    """The events as the word of one entity."""
    settings = Settings(key="id", time="ts", ticks_per_s=1)
    arrived = [Arrived({"id": "e", "ts": n, **event}, Fraction(n), None) for n, event in enumerate(events)]
    return Word(COLUMNS, arrived, settings)


def minterms_in(word: Word, alphabet: Alphabet, letters: list[m.Predicate]) -> list[int]:
    """The minterm of each event; that there is exactly one is what makes them a partition."""
    found = []
    for k in range(len(word)):
        holds = [word.holds(letter, k) for letter in letters]
        of_event = [
            minterm
            for minterm in range(alphabet.n_minterms)
            if all(bool(alphabet.mask_of[letter] >> minterm & 1) == h for letter, h in zip(letters, holds, strict=True))
        ]
        assert len(of_event) == 1, f"event {k} has the minterms {of_event}"
        found += of_event
    return found


def spans_accepted(dfa: Dfa, symbols: list[int]) -> tuple[int, ...]:
    """The spans of a word that an automaton accepts, as the oracle writes them."""
    accepted = []
    for i in range(len(symbols) + 1):
        state, ends = 0, int(dfa.accepting[0]) << i
        for j in range(i, len(symbols)):
            state = int(dfa.next_state[state, symbols[j]])
            ends |= int(dfa.accepting[state]) << (j + 1)
        accepted.append(ends)
    return tuple(accepted)


def spans_reached(nfa: Nfa, symbols: list[int]) -> tuple[int, ...]:
    """The same for a nondeterministic automaton."""
    accepted = []
    for i in range(len(symbols) + 1):
        states, ends = {0}, int(nfa.accepting[0]) << i
        for j in range(i, len(symbols)):
            s = symbols[j]
            states = {int(t) for q in states for t in nfa.successors[nfa.first[q, s] : nfa.first[q, s + 1]]}
            ends |= int(any(nfa.accepting[q] for q in states)) << (j + 1)
        accepted.append(ends)
    return tuple(accepted)


class Compiled:
    """A regex on its way to a minimal automaton."""

    def __init__(self, regex: m.Regex) -> None:
        self.letters = list(dict.fromkeys(letter.predicate for letter in letters_of(regex)))
        self.alphabet = build_alphabet(self.letters, DEFAULT_LIMITS)
        self.budget = Budget()
        regexes = Regexes(self.alphabet.full, self.budget)
        self.node = regexes.from_meaning(regex, self.alphabet.mask_of)
        self.derivatives = Derivatives(regexes)

    def dfa(self) -> Dfa:
        self.budget.begin(2_000, 2_000_000)
        return determinize(self.derivatives, self.node, self.alphabet.n_minterms)

    def nfa(self) -> Nfa:
        self.budget.begin(2_000, 2_000_000)
        return linearize(self.derivatives, self.node, self.alphabet.n_minterms)


@contextmanager
def over_budget_is_another_example() -> Iterator[None]:
    """An automaton that grows too large is not judged: Hypothesis draws another, and fails where it draws too many
    such."""
    try:
        yield
    except OverBudgetError:
        reject()


@settings(max_examples=examples(400))
@given(REGEXES, EVENT_LISTS)
def test_automata_accept_the_spans_that_the_regex_holds(regex: m.Regex, events: list[Event]) -> None:
    compiled, word = Compiled(regex), word_of(events)
    symbols = minterms_in(word, compiled.alphabet, compiled.letters)
    expected = SpanFinder(word).spans(regex)
    with over_budget_is_another_example():
        nfa, dfa = compiled.nfa(), compiled.dfa()
    assert spans_reached(nfa, symbols) == expected
    assert spans_accepted(dfa, symbols) == expected
    small = minimize(dfa)
    assert spans_accepted(small, symbols) == expected
    joined, class_of = join_symbols(small)
    assert spans_accepted(joined, [int(class_of[symbol]) for symbol in symbols]) == expected


@settings(max_examples=examples(200))
@given(REGEXES)
def test_minimal_automata_have_no_two_states_alike(regex: m.Regex) -> None:
    with over_budget_is_another_example():
        dfa = Compiled(regex).dfa()
    small = minimize(dfa)
    assert small.n_states <= dfa.n_states
    # Moore's refinement, the slow way: states stay together while no symbol tells them apart.
    classes = small.accepting.astype(int)
    for _ in range(small.n_states):
        signature = np.column_stack([classes, classes[small.next_state]])
        classes = np.unique(signature, axis=0, return_inverse=True)[1].reshape(-1)
    assert len(set(classes.tolist())) == small.n_states
    again = minimize(small)
    assert (again.next_state == small.next_state).all()
    assert (again.accepting == small.accepting).all()


@settings(max_examples=examples(400))
@given(REGEXES, EVENT_LISTS, st.booleans(), st.sampled_from((0, 1, 3, 16)))
def test_tracked_starts_are_those_of_the_shortest_and_the_longest_match(
    regex: m.Regex, events: list[Event], longest: bool, known_age: int
) -> None:
    compiled, word = Compiled(regex), word_of(events)
    with over_budget_is_another_example():
        tracker = track(minimize(compiled.dfa()), longest, known_age, Budget(2_000, 2_000_000))
    ends = SpanFinder(word).spans(regex)
    state, registers = 0, [-1] * tracker.n_registers
    for k, symbol in enumerate(minterms_in(word, compiled.alphabet, compiled.letters)):
        moves = tracker.move_lists[tracker.moves[state, symbol]]
        for register, source in moves:
            registers[register] = registers[source] if source >= 0 else k + source + 1
        state = int(tracker.next_state[state, symbol])
        start = int(tracker.start[state])
        found = None if start == 0 else k - start + 1 if start > 0 else registers[-start - 1]
        starts = [s for s in range(k + 1) if ends[s] >> (k + 1) & 1]
        assert found == (None if not starts else min(starts) if longest else max(starts))
