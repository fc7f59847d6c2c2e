"""A compiled pattern becomes the least that a match needs, in events and in time, so that the compiler can warn of a
window that no match fits into.

The events are those of the shortest word: a walk over the automaton. The time is the sum of what `elapsed()` must at
least be at every event after a match's first, by Dijkstra's algorithm over the same automaton; the search assumes
nothing of other predicates about time (`held`, `hour`). A warning appears only where it is certain.

Sets of states are flags or Python's sets: `np.unique` without indices loads numpy's masked arrays, at every start.
"""

from __future__ import annotations

import heapq
from fractions import Fraction

import numpy as np

from wayeb_py.arrays import I64
from wayeb_py.compiler.automata.derivatives import Dfa
from wayeb_py.compiler.axes import Axis
from wayeb_py.compiler.pattern import CompiledPattern
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.units import UNITS

# Larger tables are not searched for the least time: compiling would take longer for a rare warning.
MOST_TRANSITIONS = 20_000

Least = tuple[Fraction, bool]
"""A lower bound of a time in seconds, and whether the bound itself is excluded; they order as they should."""


def never_detected(compiled: CompiledPattern) -> tuple[str, str | None] | None:
    """Why no event can complete a match, and a remedy; None where one can, or where the search cannot tell."""
    window = compiled.window
    if not compiled.holds_empty_sequence and window is None:
        return None
    fewest = fewest_events(compiled)
    if fewest is None:
        return "only the empty sequence matches it", "an iteration needs an upper bound of at least 1"
    if window is not None and window.events is not None and fewest > window.events:
        return f"a match has at least {fewest} events", f"write `within {fewest} events` or more"
    if window is not None and window.seconds is not None:
        least = least_time(compiled)
        if least is not None and least > (window.seconds, False):
            more = "more than" if least[1] else "at least"
            return f"a match takes {more} {_time_text(least[0])}", "write a longer window"
    return None


def fewest_events(compiled: CompiledPattern) -> int | None:
    """How many events the shortest match has; None if nothing but the empty sequence, or nothing at all, matches."""
    accepting = compiled.dfa.accepting if compiled.dfa is not None else None
    if accepting is None:
        assert compiled.nfa is not None
        accepting = compiled.nfa.accepting
    seen = np.zeros(len(accepting), dtype=bool)
    front = np.zeros(1, dtype=np.int64)
    length = 0
    while len(front):
        length += 1
        is_reached = np.zeros(len(accepting), dtype=bool)
        is_reached[_successors(compiled, front)] = True
        reached = np.flatnonzero(is_reached)
        if accepting[reached].any():
            return length
        front = reached[~seen[reached]]
        seen[front] = True
    return None


def _successors(compiled: CompiledPattern, states: I64) -> I64:
    if compiled.dfa is not None:
        return compiled.dfa.next_state[states].reshape(-1)
    assert compiled.nfa is not None
    first, successors = compiled.nfa.first, compiled.nfa.successors
    return np.concatenate([successors[first[state, 0] : first[state, -1]] for state in states.tolist()])


def least_time(compiled: CompiledPattern) -> Least | None:
    """The least time from the first to the last event of a match; None where the search would take too long."""
    number = next((i for i, axis in enumerate(compiled.axes) if isinstance(axis.subject, m.Elapsed)), None)
    dfa = compiled.dfa
    if number is None or dfa is None or compiled.memory is not None or dfa.next_state.size > MOST_TRANSITIONS:
        return None
    return _shortest_way(dfa, _least_elapsed(compiled, number))


def _least_elapsed(compiled: CompiledPattern, number: int) -> list[Least | None]:
    """The least `elapsed()` of an event with each symbol that is not its entity's first; None where there is none."""
    axis = compiled.axes[number]
    least: list[Least | None] = [None] * compiled.n_symbols
    # Cells come in rising order, and missing, the last, is only an entity's first event.
    for cell in range(axis.n_cells - 1):
        for symbol in set(np.take(compiled.symbol_of_cell, cell, axis=number).reshape(-1).tolist()):
            if least[symbol] is None:
                least[symbol] = _lower_end(axis, cell)
    return least


def _lower_end(axis: Axis, cell: int) -> Least:
    if axis.sort != "numbers" or cell == 0 or axis.cuts[cell - 1].value < 0:
        return (Fraction(0), False)
    cut = axis.cuts[cell - 1]
    return (cut.value, cut.after)


def _shortest_way(dfa: Dfa, least: list[Least | None]) -> Least | None:
    best: dict[int, Least] = {}
    heap: list[tuple[Least, int]] = [((Fraction(0), False), state) for state in set(dfa.next_state[0].tolist())]
    heapq.heapify(heap)
    while heap:
        so_far, state = heapq.heappop(heap)
        if state in best:
            continue
        best[state] = so_far
        if dfa.accepting[state]:
            return so_far
        for symbol, target in enumerate(dfa.next_state[state].tolist()):
            step = least[symbol]
            if step is not None and target not in best:
                heapq.heappush(heap, ((so_far[0] + step[0], so_far[1] or step[1]), target))
    return None


def _time_text(seconds: Fraction) -> str:
    for name in ("d", "h", "min"):
        amount = seconds / UNITS[name].factor
        if amount >= 1 and amount.denominator == 1:
            return f"{amount} {name}"
    return f"{float(seconds):g} s"
