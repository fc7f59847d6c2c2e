"""How much a pattern may cost before the compiler takes another path or stops with an error that gives both numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the compiler; every limit error names the field that raises it.

    A pattern past `dfa_states` or `dfa_steps`, or past `table_states` or `table_steps`, is not put into tables. The
    engine simulates it run by run over at most `nfa_states` states, found in at most `nfa_steps`, which gives the same
    detections more slowly. Past these it is an error. Steps count work (`budget`), at about a million a second, and not
    time: the same text compiles to the same automata everywhere.
    """

    cells: int = 65_536  # combinations of cells of the attributes of one pattern, and of one group of patterns
    dfa_states: int = 6_000
    dfa_steps: int = 4_000_000
    table_states: int = 1_024  # states of one pattern's automaton with its starts tracked
    table_steps: int = 10_000_000
    nfa_states: int = 20_000
    nfa_steps: int = 10_000_000
    group_states: int = 4_096  # states of the product automaton of a group of patterns
    group_entries: int = 131_072  # states times symbols of a group: what should stay in a core's own cache
    live_runs: int = 100_000  # runs of an entity in a pattern that remembers events; more are an error, or counted
    known_age: int = 16  # starts this many events back need no register


DEFAULT_LIMITS = Limits()
