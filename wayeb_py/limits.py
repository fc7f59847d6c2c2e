"""How much a pattern may cost before the compiler takes another way or stops with an error that gives both numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the compiler; every limit error names the field that raises it.

    Past `dfa_states` or `dfa_seconds`, or past `table_states`, a pattern is not put into tables but simulated run by
    run over at most `nfa_states` states, which gives the same detections more slowly. Past that it is an error.
    """

    cells: int = 65_536  # combinations of cells of the attributes of one pattern, and of one group of patterns
    dfa_states: int = 6_000
    dfa_seconds: float = 2.0
    table_states: int = 1_024  # states of one pattern's automaton with its starts tracked
    nfa_states: int = 20_000
    nfa_seconds: float = 5.0
    group_states: int = 4_096  # states of the product automaton of a group of patterns
    group_entries: int = 131_072  # states times symbols of a group: what should stay in a core's own cache
    known_age: int = 16  # starts this many events back need no register


DEFAULT_LIMITS = Limits()
