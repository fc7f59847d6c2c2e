"""A pattern becomes the automaton that forecasts walk: after every symbol it knows whether the pattern is detected.

The tracking automaton looks for a pattern from every start at once, and knows where each match began. A forecast does
not ask where: without its starts the automaton is that of `any* ; R`, made as small as it can be. A window in events is
part of the language (`R & any{1,n}`), so the automaton keeps it exactly. A window in time depends on the times of
events, which no automaton over symbols sees, and whether a start has had its match depends on all starts at once: the
automaton is that of the pattern without these, and a model says how many of its matches were detections
(`counts.Counts.matches`). Without overlap a detection leads back to where words begin, unless a window in time decides
whether it is one. *Not taken*: times as further symbols, which would make another alphabet for each window.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from wayeb_py.arrays import I64, Bool
from wayeb_py.compiler.automata.derivatives import Dfa
from wayeb_py.compiler.automata.minimize import minimize
from wayeb_py.compiler.axes import Axis
from wayeb_py.compiler.describe import symbol_texts
from wayeb_py.compiler.for_each import ForEachPlan, measures_places, plan_for_each, plan_of, why_written_out
from wayeb_py.compiler.limits import Limits
from wayeb_py.compiler.pattern import CompiledPattern, compile_pattern
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.forecasts import without_forecasts
from wayeb_py.errors import LimitError, UsageError


@dataclass(frozen=True, slots=True)
class DetectingAutomaton:
    """State 0 is where every word begins; `detects[state]`: the pattern is detected at the event that led there."""

    name: str
    fingerprint: str  # of the pattern, including its window
    axes: tuple[Axis, ...]
    symbol_of_cell: I64  # [cell of axis 0, cell of axis 1, …]
    next_state: I64  # [state, symbol]
    detects: Bool  # [state]
    detects_more: bool  # `detects` is that of the pattern without a window in time and without `once from each start`
    plan: ForEachPlan | None = None  # of a pattern `for each` place: the symbols of places near and far
    pair: m.EachPair | None = None  # of a pattern over pairs

    @property
    def n_states(self) -> int:
        return len(self.detects)

    @property
    def n_symbols(self) -> int:
        return int(self.next_state.shape[1])

    def symbol_texts(self) -> list[str]:
        """The events that each symbol stands for, in the words of the pattern."""
        names = ("a", "b") if self.pair is None else self.pair.variables
        return symbol_texts(self.axes, self.symbol_of_cell, self.n_symbols, names)


def detecting_automaton(pattern: m.Pattern, compiled: CompiledPattern, limits: Limits) -> DetectingAutomaton:
    """The automaton of a pattern of one entity, of one entity and each place, or of a pair; UsageError for other
    patterns, LimitError for one that is too large."""
    _refuse(pattern)
    window = pattern.window
    has_time_window = window is not None and window.seconds is not None
    to_walk = replace(pattern, window=None, which="every end")
    if window is not None and window.events is not None:
        any_event = m.Letter(m.Always())
        bounded = m.Intersection((pattern.regex, m.Iteration(any_event, 1, window.events)))
        to_walk = replace(to_walk, regex=bounded)
    is_compiled = to_walk == pattern and not compiled.longest
    walked = compiled if is_compiled else compile_pattern(to_walk, False, limits)
    if walked.tracker is None:
        raise LimitError(
            f"the automaton of `{pattern.name}` is too large to forecast with",
            given=f"more than {limits.table_states:,} states",
            limit=f"{limits.table_states:,} states",
            knob="Limits.table_states, or a pattern with smaller bounds",
        )
    tracker = walked.tracker
    plan = None if pattern.each is None else _plan(pattern, compiled, walked)
    next_state, detects = tracker.next_state, tracker.start != 0
    starts_again = pattern.which == "without overlap" and not has_time_window
    if starts_again:
        next_state = np.where(detects[:, None], next_state[0], next_state)
    smallest = minimize(Dfa(next_state, detects))
    return DetectingAutomaton(
        pattern.name,
        _fingerprint(pattern, compiled),
        walked.axes,
        walked.symbol_of_cell,
        np.ascontiguousarray(smallest.next_state),
        smallest.accepting,
        has_time_window or pattern.which == "once from each start",
        plan,
        pattern.pair,
    )


def _fingerprint(pattern: m.Pattern, compiled: CompiledPattern) -> str:
    """A digest of the pattern, and of what makes the words of pairs: other encounters follow other chains."""
    if pattern.pair is None:
        return compiled.fingerprint
    search = repr(replace(pattern.pair, variables=("a", "b")))
    return hashlib.sha256(f"{compiled.fingerprint} {search}".encode()).hexdigest()[:32]


def _plan(pattern: m.Pattern, compiled: CompiledPattern, walked: CompiledPattern) -> ForEachPlan:
    """How the words of an entity's places are read; UsageError where each place would need symbols of its own."""
    is_plain = pattern.which == "every end" and not measures_places(pattern)
    plan = plan_of(walked.axes, walked.symbol_of_cell) if is_plain and walked.axes == compiled.axes else None
    if plan is None or plan_for_each(compiled) is None:
        why = why_written_out(compiled) or "it is recognised for each place by itself"
        raise UsageError(
            f"there are no forecasts of `{pattern.name}` for each place: {why}",
            hint=f'write it for one place: `distance({pattern.each[1]}["NAME"])`' if pattern.each else None,
        )
    return plan


def _refuse(pattern: m.Pattern) -> None:
    why = without_forecasts(pattern)
    if why is not None:
        raise UsageError(f"there are no forecasts of `{pattern.name}`: {why[0]}", hint=why[1])
