"""Decides which of two runs can do all that the other can: the answers that are better for a match, and what makes them
so.

Suppose that from a state no match is lost when a test holds more often. Then a run whose test holds whenever another
run's does makes the other superfluous: in `(any) as x ; any* ; (altitude > x.altitude + 300 m)`, the run with the lower
x wins. A language is closed under better answers iff, wherever a run may get to, the state after a better answer
accepts all that the state after the other answer accepts; inclusion of languages is a walk backward over pairs of
states.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from wayeb_py.arrays import I64, Bool
from wayeb_py.compiler.automata.derivatives import Dfa
from wayeb_py.dsl import meaning as m

MOST_PAIRS = 4_000_000  # pairs of states times symbols; larger automata keep every run


def symbol_pairs(table: I64, n_tests: int, test: int) -> tuple[I64, I64]:
    """The pairs of symbols that differ in the answer to one test alone: where it fails, and where it holds."""
    codes = np.arange(table.shape[1])
    bit = 1 << (n_tests - 1 - test)
    without = codes[codes & bit == 0]
    pairs = np.stack([table[:, without].reshape(-1), table[:, without | bit].reshape(-1)], axis=1)
    fails, holds = np.unique(pairs, axis=0).T
    return fails, holds


def better_answers(table: I64, n_tests: int, dfa: Dfa) -> I64:
    """[state, test]: 1 where it is better for a match that the test holds, -1 that it does not, 0 where it depends."""
    better = np.zeros((dfa.n_states, n_tests), dtype=np.int64)
    if dfa.n_states**2 * dfa.n_symbols > MOST_PAIRS:
        return better
    lacks = _lacks(dfa)
    for test in range(n_tests):
        fails, holds = symbol_pairs(table, n_tests, test)
        if_fails, if_holds = dfa.next_state[:, fails], dfa.next_state[:, holds]
        better[~_reaches(np.asarray(lacks[if_holds, if_fails].any(axis=1)), dfa), test] = -1
        better[~_reaches(np.asarray(lacks[if_fails, if_holds].any(axis=1)), dfa), test] = 1
    return better


def _lacks(dfa: Dfa) -> Bool:
    """[p, q]: something is accepted from p and not from q."""
    lacks: Bool = dfa.accepting[:, None] & ~dfa.accepting[None, :]
    while True:
        more = lacks.copy()
        for symbol in range(dfa.n_symbols):
            after = dfa.next_state[:, symbol]
            more |= lacks[after[:, None], after[None, :]]
        if (more == lacks).all():
            return lacks
        lacks = more


def _reaches(some: Bool, dfa: Dfa) -> Bool:
    """The states from which one of `some` is reached, these included."""
    while True:
        more: Bool = some | np.asarray(some[dfa.next_state].any(axis=1))
        if (more == some).all():
            return some
        some = more


def directions_of(test: m.Predicate) -> list[int]:
    """For each slot of a comparison: 1 if greater values make the test hold more often, -1 if smaller ones do.

    0 where neither is so. The slots are in the order in which a walk over the test meets them.
    """
    if not isinstance(test, m.Compare) or test.comparator in ("=", "!="):
        return []
    sign = 1 if test.comparator in (">", ">=") else -1
    return [*_directions(test.left, sign), *_directions(test.right, -sign)]


def _directions(value: m.Value, sign: int) -> list[int]:
    match value:
        case m.At() | m.Measure(function="first"):
            return [sign]
        case m.ElapsedSince():
            return [-sign]
        case m.DistanceFrom() | m.Measure():
            is_plain = isinstance(value, m.Measure) and (
                value.function == "duration" or (value.function == "count" and value.operand is None)
            )
            return [] if is_plain else [0, 0]
        case m.Arithmetic("+" | "min" | "max", operands):
            return [direction for operand in operands for direction in _directions(operand, sign)]
        case m.Arithmetic("-", (left, right)):
            return [*_directions(left, sign), *_directions(right, -sign)]
        case m.Arithmetic("neg", (operand,)):
            return _directions(operand, -sign)
        case m.Arithmetic("*" | "/", (left, m.Constant(factor))):
            return _directions(left, sign if isinstance(factor, Fraction) and factor > 0 else 0)
        case m.Arithmetic("*", (m.Constant(factor), right)):
            return _directions(right, sign if isinstance(factor, Fraction) and factor > 0 else 0)
        case m.Arithmetic(_, operands):
            return [direction for operand in operands for direction in _directions(operand, 0)]
        case _:
            return []
