"""The automaton that looks for a pattern from every start at once and knows where each match began.

A run is a start and the state its pattern's automaton has reached since. The runs that are alive make a state of the
tracking automaton: their states, the preferred start first (the latest for shortest matches, the earliest for
longest). A run falls away when it cannot accept any more, or when everything it could still accept is accepted by a
run with a preferred start too.

Most starts need no memory: where every way into a state makes a run the same number of events old, that age is a fact
of the state. Only runs of varying age hold their start in a register, and a transition carries the moves between
registers, so an event that changes nothing costs nothing. Running the reversed automaton back from each detection
costs nothing per event either, but needs the events as far back as a match may reach, which in a stream has no bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wayeb_py.derivatives import BoolArray, Dfa, IntArray, OverBudgetError

Moves = tuple[tuple[int, int], ...]
"""(register, source) in the order in which they are made; a source below 0 is the event that is -source events old,
this event being 1 event old, and otherwise a register."""


@dataclass(frozen=True, slots=True)
class Tracker:
    """State 0 is initial and has no runs."""

    next_state: IntArray  # [state, symbol]
    moves: IntArray  # [state, symbol] -> number in move_lists; 0 is no move
    move_lists: tuple[Moves, ...]
    start: IntArray  # [state]: 0 no detection, a > 0 the match is a events long, -r - 1 its start is in register r
    n_registers: int

    @property
    def n_states(self) -> int:
        return int(self.next_state.shape[0])

    @property
    def n_symbols(self) -> int:
        return int(self.next_state.shape[1])

    @property
    def max_age(self) -> int:
        ages = [-source for moves in self.move_lists for _, source in moves if source < 0]
        return max([1, int(self.start.max()), *ages])


@dataclass(slots=True)
class _Step:
    target: int
    origins: tuple[int, ...]  # for each run of the target its index in the state before, -1 for the new run


VARIES = 0


def track(dfa: Dfa, longest: bool, known_age: int, max_states: int) -> Tracker:
    """The tracking automaton of a minimal automaton."""
    holds = _inclusion(dfa)
    hopeless = _hopeless(dfa)
    tuples, steps = _walk(dfa, longest, holds, hopeless, max_states)
    ages = _settle_ages(tuples, steps, known_age)
    return _minimize(_assemble(dfa, tuples, steps, ages))


def _hopeless(dfa: Dfa) -> BoolArray:
    """States from which no accepting one is reached."""
    alive = dfa.accepting.copy()
    while True:
        more = alive | alive[dfa.next_state].any(axis=1)
        if (more == alive).all():
            return ~alive
        alive = more


def _inclusion(dfa: Dfa) -> BoolArray:
    """holds[p, q]: all that q accepts, p accepts; only what is cheap to know for large automata."""
    n = dfa.n_states
    if n > 256:
        return np.eye(n, dtype=bool)
    holds = dfa.accepting[:, None] | ~dfa.accepting[None, :]
    while True:
        still = holds.copy()
        for symbol in range(dfa.n_symbols):
            target = dfa.next_state[:, symbol]
            still &= holds[np.ix_(target, target)]
        if (still == holds).all():
            return holds
        holds = still


def _walk(
    dfa: Dfa, longest: bool, holds: BoolArray, hopeless: BoolArray, max_states: int
) -> tuple[list[tuple[int, ...]], list[list[_Step]]]:
    next_state = dfa.next_state.tolist()
    holds_rows = holds.tolist()
    hopeless_list = hopeless.tolist()
    number_of: dict[tuple[int, ...], int] = {(): 0}
    tuples: list[tuple[int, ...]] = [()]
    steps: list[list[_Step]] = []
    for runs in tuples:  # grows while it is walked
        row = []
        order = [*enumerate(runs), (-1, 0)] if longest else [(-1, 0), *enumerate(runs)]
        for symbol in range(dfa.n_symbols):
            states: list[int] = []
            origins: list[int] = []
            for origin, before in order:
                state = next_state[before][symbol]
                if hopeless_list[state] or any(holds_rows[kept][state] for kept in states):
                    continue
                states.append(state)
                origins.append(origin)
            key = tuple(states)
            number = number_of.setdefault(key, len(tuples))
            if number == len(tuples):
                if number >= max_states:
                    raise OverBudgetError(number)
                tuples.append(key)
            row.append(_Step(number, tuple(origins)))
        steps.append(row)
    return tuples, steps


def _settle_ages(tuples: list[tuple[int, ...]], steps: list[list[_Step]], known_age: int) -> list[list[int]]:
    """The age in events of each run of each state where it is always the same and at most `known_age`, else VARIES."""
    unknown = -1
    ages = [[unknown] * len(runs) for runs in tuples]
    waiting = list(range(len(tuples)))
    while waiting:
        state = waiting.pop()
        before = ages[state]
        if unknown in before:
            continue  # not reached yet: whoever reaches it puts it back
        for step in steps[state]:
            target = ages[step.target]
            changed = False
            for run, origin in enumerate(step.origins):
                age = 1 if origin < 0 else before[origin] + 1 if before[origin] != VARIES else VARIES
                if age > known_age:
                    age = VARIES
                if target[run] == unknown:
                    target[run] = age
                    changed = True
                elif target[run] not in (age, VARIES):
                    target[run] = VARIES
                    changed = True
            if changed:
                waiting.append(step.target)
    return ages


def _assemble(dfa: Dfa, tuples: list[tuple[int, ...]], steps: list[list[_Step]], ages: list[list[int]]) -> Tracker:
    registers = [_registers(state_ages) for state_ages in ages]
    lists: dict[Moves, int] = {(): 0}
    next_state = np.zeros((len(tuples), dfa.n_symbols), dtype=np.int64)
    moves = np.zeros_like(next_state)
    for state, row in enumerate(steps):
        for symbol, step in enumerate(row):
            next_state[state, symbol] = step.target
            made = _moves(ages[state], registers[state], step.origins, registers[step.target])
            moves[state, symbol] = lists.setdefault(made, len(lists))
    start = np.zeros(len(tuples), dtype=np.int64)
    for state, runs in enumerate(tuples):
        accepting = next((run for run, reached in enumerate(runs) if dfa.accepting[reached]), None)
        if accepting is not None:
            age = ages[state][accepting]
            start[state] = age if age != VARIES else -registers[state][accepting] - 1
    n_registers = max((sum(age == VARIES for age in state_ages) for state_ages in ages), default=0)
    return Tracker(next_state, moves, tuple(lists), start, n_registers)


def _registers(ages: list[int]) -> list[int]:
    """The register of each run that needs one, else -1."""
    registers = []
    used = 0
    for age in ages:
        registers.append(used if age == VARIES else -1)
        used += age == VARIES
    return registers


def _moves(ages: list[int], before: list[int], origins: tuple[int, ...], after: list[int]) -> Moves:
    """Moves that overwrite no register that is still to be read.

    Runs keep their order, so those that move to a lower register go first, ascending, then those that move to a
    higher one, descending, then those that begin to need one.
    """
    lower, higher, begin = [], [], []
    for run, origin in enumerate(origins):
        register = after[run]
        if register < 0:
            continue
        if origin < 0:
            begin.append((register, -1))
        elif before[origin] < 0:
            begin.append((register, -(ages[origin] + 1)))
        elif before[origin] > register:
            lower.append((register, before[origin]))
        elif before[origin] < register:
            higher.append((register, before[origin]))
    return (*sorted(lower), *sorted(higher, reverse=True), *begin)


def _minimize(tracker: Tracker) -> Tracker:
    """States that detect, move and go on alike are one; numbered as a breadth-first walk meets them."""
    _, block_of = np.unique(tracker.start, return_inverse=True)
    block_of = block_of.reshape(-1)
    n_blocks = int(block_of.max()) + 1
    while True:
        signature = np.column_stack([block_of, block_of[tracker.next_state], tracker.moves])
        block_of = np.unique(signature, axis=0, return_inverse=True)[1].reshape(-1)
        if int(block_of.max()) + 1 == n_blocks:
            break
        n_blocks = int(block_of.max()) + 1
    representative = np.zeros(n_blocks, dtype=np.int64)
    representative[block_of[::-1]] = np.arange(tracker.n_states)[::-1]
    rows = block_of[tracker.next_state[representative]].tolist()
    order = [int(block_of[0])]
    number_of = {order[0]: 0}
    for block in order:  # grows while it is walked
        for target in rows[block]:
            if target not in number_of:
                number_of[target] = len(order)
                order.append(target)
    new = np.zeros(n_blocks, dtype=np.int64)
    new[order] = np.arange(len(order))
    kept = representative[order]
    return Tracker(
        new[block_of[tracker.next_state[kept]]],
        tracker.moves[kept],
        tracker.move_lists,
        tracker.start[kept],
        tracker.n_registers,
    )
