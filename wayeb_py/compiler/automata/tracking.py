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

from wayeb_py.arrays import I64, Bool
from wayeb_py.compiler.automata.budget import Budget
from wayeb_py.compiler.automata.derivatives import Dfa
from wayeb_py.compiler.automata.minimize import coarsest_partition
from wayeb_py.compiler.automata.transitions import Transitions

Moves = tuple[tuple[int, int], ...]
"""(register, source) in the order in which they are made; a source below 0 is the event that is -source events old,
this event being 1 event old, and otherwise a register."""


@dataclass(frozen=True, slots=True)
class Tracker(Transitions):
    """State 0 is initial and has no runs."""

    next_state: I64  # [state, symbol]
    moves: I64  # [state, symbol] -> number in move_lists; 0 is no move
    move_lists: tuple[Moves, ...]
    start: I64  # [state]: 0 no detection, a > 0 the match is a events long, -r - 1 its start is in register r
    n_registers: int

    @property
    def max_age(self) -> int:
        ages = [-source for moves in self.move_lists for _, source in moves if source < 0]
        return max([1, int(self.start.max()), *ages])

    def live_registers(self) -> Bool:
        """live[state, register]: whether what the register holds in this state may still be the start of a match."""
        live = np.zeros((self.n_states, self.n_registers), dtype=bool)
        reports = np.flatnonzero(self.start < 0)
        live[reports, -1 - self.start[reports]] = True
        origin = np.tile(np.arange(self.n_registers), (len(self.move_lists), 1))  # [list, register]: -1 is an event
        for number, moves in enumerate(self.move_lists):
            for register, source in moves:
                origin[number, register] = origin[number, source] if source >= 0 else -1
        while True:
            before = live.copy()
            for register in range(self.n_registers):
                source = origin[self.moves, register]
                state, symbol = np.nonzero(live[self.next_state, register] & (source >= 0))
                live[state, source[state, symbol]] = True
            if (live == before).all():
                return live

    def live_ages(self) -> I64:
        """[state]: how many events old (this event is 1 event old) a start may be that no register holds and that
        may still begin a match; 0 where there is none."""
        taken = np.array([max((-source for _, source in moves if source < 0), default=0) for moves in self.move_lists])
        ages = np.maximum(self.start, 0)
        while True:
            older = np.maximum(ages, np.maximum(taken[self.moves], ages[self.next_state]).max(axis=1, initial=0) - 1)
            if (older == ages).all():
                return ages
            ages = older


@dataclass(slots=True)
class _Step:
    target: int
    origins: tuple[int, ...]  # the index of each run of the target in the previous state, -1 for the new run


@dataclass(slots=True)
class _Row:
    """The distinct steps of a state, and which of them each symbol makes."""

    steps: list[_Step]
    of_symbol: list[int]


VARIES = 0
INCLUSION_STATES = 256  # in larger automata comparing what states accept would take too long


def track(dfa: Dfa, longest: bool, known_age: int, budget: Budget) -> Tracker:
    """The tracking automaton of a minimal automaton; OverBudgetError past the budget."""
    holds = inclusion(dfa, budget) if dfa.n_states <= INCLUSION_STATES else np.eye(dfa.n_states, dtype=bool)
    tuples, rows = _walk(dfa, longest, holds, hopeless_states(dfa), budget)
    ages = _settle_ages(tuples, rows, known_age, budget)
    return _minimize(_assemble(dfa, tuples, rows, ages))


def hopeless_states(dfa: Dfa) -> Bool:
    """States from which no accepting one is reached."""
    before: list[set[int]] = [set() for _ in range(dfa.n_states)]
    for state, row in enumerate(dfa.next_state.tolist()):
        for target in set(row):
            before[target].add(state)
    waiting = np.flatnonzero(dfa.accepting).tolist()
    hopeless = ~dfa.accepting
    while waiting:
        for state in before[waiting.pop()]:
            if hopeless[state]:
                hopeless[state] = False
                waiting.append(state)
    return hopeless


def inclusion(dfa: Dfa, budget: Budget) -> Bool:
    """holds[p, q]: all that q accepts, p accepts."""
    n_pairs = dfa.n_states**2
    holds = dfa.accepting[:, None] | ~dfa.accepting[None, :]
    n_holding = -1
    while (n_now := int(holds.sum())) != n_holding:
        n_holding = n_now
        # The next symbol sees what one symbol rules out: a chain of letters takes a few rounds.
        for symbol in range(dfa.n_symbols):
            budget.spend(1 + n_pairs // 256)
            target = dfa.next_state[:, symbol]
            holds &= holds[target[:, None], target]
    return holds


def _walk(
    dfa: Dfa, longest: bool, holds: Bool, hopeless: Bool, budget: Budget
) -> tuple[list[tuple[int, ...]], list[_Row]]:
    next_state = dfa.next_state.tolist()
    hopeless_list = hopeless.tolist()
    holders = _as_bits(holds)  # [state]: the states that accept all that it accepts
    number_of: dict[tuple[int, ...], int] = {(): 0}
    tuples: list[tuple[int, ...]] = [()]
    rows: list[_Row] = []
    for runs in tuples:  # grows while it is walked
        before = (*runs, 0) if longest else (0, *runs)
        run_of = (*range(len(runs)), -1) if longest else (-1, *range(len(runs)))
        budget.spend(dfa.n_symbols * (1 + len(before) // 16))
        steps: list[_Step] = []
        of_symbol: list[int] = []
        step_of: dict[tuple[int, ...], int] = {}
        for reached in zip(*[next_state[state] for state in before], strict=True):  # by symbol
            made = step_of.get(reached)
            if made is None:
                budget.spend(len(reached))
                states: list[int] = []
                origins: list[int] = []
                kept = 0
                for state, origin in zip(reached, run_of, strict=True):
                    if not hopeless_list[state] and not kept & holders[state]:
                        kept |= 1 << state
                        states.append(state)
                        origins.append(origin)
                key = tuple(states)
                number = number_of.setdefault(key, len(tuples))
                if number == len(tuples):
                    tuples.append(key)
                    budget.reach(len(tuples))
                made = step_of[reached] = len(steps)
                steps.append(_Step(number, tuple(origins)))
            of_symbol.append(made)
        rows.append(_Row(steps, of_symbol))
    return tuples, rows


def _as_bits(holds: Bool) -> list[int]:
    """[q]: the p with holds[p, q], as bits of one number."""
    packed = np.packbits(holds.T, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


def _settle_ages(tuples: list[tuple[int, ...]], rows: list[_Row], known_age: int, budget: Budget) -> list[list[int]]:
    """The age in events of each run of each state where it is always the same and at most `known_age`, else VARIES."""
    unknown = -1
    ages = [[unknown] * len(runs) for runs in tuples]
    waiting = list(range(len(tuples)))
    while waiting:
        state = waiting.pop()
        before = ages[state]
        if unknown in before:
            continue  # not reached yet: the state that reaches it puts it back
        for step in rows[state].steps:
            budget.spend(1 + len(step.origins))
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


def _assemble(dfa: Dfa, tuples: list[tuple[int, ...]], rows: list[_Row], ages: list[list[int]]) -> Tracker:
    registers = [_registers(state_ages) for state_ages in ages]
    lists: dict[Moves, int] = {(): 0}
    next_state = np.zeros((len(tuples), dfa.n_symbols), dtype=np.int64)
    moves = np.zeros_like(next_state)
    for state, row in enumerate(rows):
        made = [_moves(ages[state], registers[state], step.origins, registers[step.target]) for step in row.steps]
        numbers = [lists.setdefault(list_, len(lists)) for list_ in made]
        next_state[state] = np.array([step.target for step in row.steps])[row.of_symbol]
        moves[state] = np.array(numbers)[row.of_symbol]
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
    """States that detect, move and continue alike become one, numbered as a breadth-first walk meets them."""
    acts = np.unique(np.column_stack([tracker.start, tracker.moves]), axis=0, return_inverse=True)[1].reshape(-1)
    block_of = coarsest_partition(tracker.next_state, acts)
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
