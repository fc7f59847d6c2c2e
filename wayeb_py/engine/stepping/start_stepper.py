"""Steps one pattern from every start, and drops matches that overlap: which of its matches a pattern reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wayeb_py.arrays import I64, U16, Bool
from wayeb_py.compiler.automata.derivatives import Dfa
from wayeb_py.compiler.axes import Axis
from wayeb_py.compiler.pattern import CompiledPattern
from wayeb_py.engine.stepping.pooled_steppers import PooledStepper
from wayeb_py.engine.stepping.steppers import DetectionBuffer, Found
from wayeb_py.engine.values import Chunk
from wayeb_py.growing_arrays import lengthened, with_room
from wayeb_py.kernels.step_runs import RunLists
from wayeb_py.kernels.step_tables import Windows
from wayeb_py.matches.kernels.step_starts import StartAutomaton, keep_disjoint, step_starts


class StartStepper(PooledStepper):
    """Steps one pattern from every start: a run each, through its automaton, until its window ends."""

    def __init__(
        self, number: int, pattern: CompiledPattern, axes: Sequence[Axis], direct: bool, windows: Windows
    ) -> None:
        assert pattern.dfa is not None
        super().__init__(number, pattern, axes, direct)
        dfa = pattern.dfa
        self.n_states = dfa.n_states
        self._automaton = tuple(
            StartAutomaton(
                symbol_of_code=np.ascontiguousarray(pattern.symbol_of_cell.reshape(-1), dtype=np.uint16),
                next_state=np.ascontiguousarray(dfa.next_state.reshape(-1), dtype=np.int32),
                accepting=dfa.accepting.astype(np.uint8),
                is_live=live_states(dfa).astype(np.uint8),
                n_symbols=pattern.n_symbols,
                pattern=number,
                once=pattern.which == "once from each start",
                window_ticks=int(windows.ticks[number]),
                window_events=int(windows.events[number]),
            )
        )

    def _call(self, row: int, code: U16, rows: tuple[Any, ...], values: tuple[Any, ...]) -> tuple[int, int]:
        slots = self.slots
        runs = tuple(RunLists(slots.first, slots.room, slots.length, **slots.arrays))
        stopped: tuple[int, int] = step_starts(row, code, rows, self._automaton, runs, self._buffer.arrays)
        return stopped

    def _make_room(self, entity: int) -> None:
        needed = int(self.slots.length[entity]) + 1
        if needed > self.slots.room[entity]:
            self.slots.give_room(entity, needed)
        if needed > self._buffer.room:
            self._buffer = DetectionBuffer(2 * needed)


def live_states(dfa: Dfa) -> Bool:
    """The states from which some event leads to a match sooner or later."""
    live: Bool = np.zeros(dfa.n_states, dtype=bool)
    while True:
        reaches: Bool = np.asarray((live | dfa.accepting)[dfa.next_state].any(axis=1))
        if (reaches == live).all():
            return live
        live = reaches


class Disjoint:
    """Keeps those detections of one pattern that begin after the last event of the previous kept one."""

    def __init__(self, number: int, pattern: CompiledPattern) -> None:
        self.number, self._longest = number, pattern.longest
        self.behind: I64 = np.zeros(0, dtype=np.int64)  # [entity]: the number of the event after its last match

    def grow(self, n_entities: int) -> None:
        if n_entities > len(self.behind):
            self.behind = lengthened(self.behind, with_room(n_entities))

    def keep(self, found: Found, chunk: Chunk) -> Found:
        """The detections that stay."""
        kept = np.zeros(len(found.row), dtype=np.uint8)
        keep_disjoint(
            chunk.entity, chunk.fresh, chunk.seq, found.row, found.start_seq, self.behind, self._longest, kept
        )
        return found.where(kept != 0)
