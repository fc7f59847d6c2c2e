"""The rules that keep regexes similar change no language: each against sets of words, written out.

An expression is built twice: by the constructors, whose automaton is walked, and as the plain set of its words up to a
length, straight from the definition.
"""

from __future__ import annotations

from itertools import product

import pytest

from wayeb_py.compiler.automata.derivatives import Derivatives, determinize
from wayeb_py.compiler.automata.regex import Regexes, RegexNode

LONGEST = 5
LETTERS = (0, 1, 2)
WORDS = frozenset(word for length in range(LONGEST + 1) for word in product(LETTERS, repeat=length))
Words = frozenset[tuple[int, ...]]


class Both:
    """An expression as a node and as its words."""

    regexes = Regexes(0b111)

    def __init__(self, node: RegexNode, words: Words) -> None:
        self.node, self.words = node, words

    def __rshift__(self, other: Both) -> Both:
        words = frozenset(a + b for a in self.words for b in other.words if len(a) + len(b) <= LONGEST)
        return Both(self.regexes.sequence(self.node, other.node), words)

    def __or__(self, other: Both) -> Both:
        return Both(self.regexes.union([self.node, other.node]), self.words | other.words)

    def __and__(self, other: Both) -> Both:
        return Both(self.regexes.intersection([self.node, other.node]), self.words & other.words)

    def __invert__(self) -> Both:
        return Both(self.regexes.complement(self.node), WORDS - self.words)

    def times(self, at_least: int, at_most: int | None = None) -> Both:
        words: set[tuple[int, ...]] = set()
        power: Words = frozenset({()})
        for n in range((LONGEST if at_most is None else at_most) + LONGEST + 1):
            if at_least <= n and (at_most is None or n <= at_most):
                words |= power
            power = frozenset(a + b for a in power for b in self.words if len(a) + len(b) <= LONGEST)
        return Both(self.regexes.iteration(self.node, at_least, at_most), frozenset(words))


r = Both.regexes
a, b, c = (Both(r.letter(1 << letter), frozenset({(letter,)})) for letter in LETTERS)
ANY = Both(r.letter(0b111), frozenset({(letter,) for letter in LETTERS}))
EMPTY = Both(r.empty, frozenset({()}))
NOTHING = Both(r.nothing, frozenset())
ALL = Both(r.everything, WORDS)

EXPRESSIONS = {
    "bounds of the same body with different ends": (a.times(2) >> b) | (a.times(3) >> c),
    "bounds of the same body with the same end": (a.times(2) >> b) | (a.times(3) >> b),
    "a bound of another body": (a.times(3) >> b) | (b.times(1) >> b),
    "a closed bound beside an open one": a.times(1, 2) | a.times(3),
    "any before, and a suffix of it": (ALL >> b) | (c >> a >> b),
    "any before, and another suffix": (ALL >> b) | (c >> a),
    "any before a sequence, and its tail": (ALL >> b >> c) | (a >> c),
    "any before a sequence, and the sequence": (ALL >> b >> c) | (b >> c) | (a >> ALL >> b >> c),
    "any before two": (ALL >> a) | (ALL >> b) | (c >> b),
    "any twice": ALL >> ALL >> a,
    "the empty word beside what holds it": EMPTY | a.times(0),
    "the empty word beside what does not": EMPTY | (a >> b),
    "a body that may be empty, at least twice": (a.times(0, 1)).times(2, 3),
    "a body that may be empty, exactly thrice": (a | EMPTY).times(3, 3),
    "a body that may be empty, without end": (EMPTY | (a >> b)).times(2),
    "plus of plus": a.times(1).times(1),
    "plus at least twice": a.times(1).times(2),
    "plus at most twice": a.times(1).times(0, 2),
    "plus twice to three times": a.times(1).times(2, 3),
    "star at least twice": (a >> b).times(0).times(2),
    "at least two, twice": a.times(2).times(2),
    "at least two, or none": a.times(2).times(0, 1),
    "two to three, at most twice": a.times(2, 3).times(0, 2),
    "complement of complement": ~~(a >> b),
    "complement of nothing and of all": ~NOTHING | ~ALL,
    "an intersection with a complement": (a.times(1) | b) & ~a.times(2),
    "an expression and its complement": (a >> b) & ~(a >> b),
    "an intersection with the empty word": (a.times(0)) & EMPTY,
    "a letter and the empty word": a & EMPTY,
    "letters that share an event": (a | b) & (b | c),
    "any, in a bound": ANY.times(2, 3) & (ALL >> a),
    "nothing in a sequence": (a >> NOTHING) | b,
    "nothing repeated": NOTHING.times(0) | NOTHING.times(1),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_a_constructed_expression_has_the_words_of_its_definition(name: str) -> None:
    expression = EXPRESSIONS[name]
    automaton = determinize(Derivatives(r), expression.node, len(LETTERS))
    accepted = set()
    for word in WORDS:
        state = 0
        for letter in word:
            state = int(automaton.next_state[state, letter])
        if automaton.accepting[state]:
            accepted.add(word)
    assert accepted == expression.words


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_says_whether_it_holds_the_empty_word(name: str) -> None:
    assert EXPRESSIONS[name].node.nullable == (() in EXPRESSIONS[name].words)


def test_equal_expressions_are_the_same_node() -> None:
    assert ((a | b) | c).node is ANY.node
    assert (b | a).node is (a | b).node
    assert ((a >> b) >> c).node is (a >> (b >> c)).node
    assert ANY.times(0).node is ALL.node
    assert ((ALL >> b) | (c >> a >> b)).node is (ALL >> b).node
    assert ((a.times(2) >> b) | (a.times(3) >> b)).node is (a.times(2) >> b).node
