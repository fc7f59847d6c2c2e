"""Steps one pattern from every start, and drops matches that overlap: which of its matches a pattern reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wayeb_py.arrays import I64, U16, Bool
from wayeb_py.compiler.automata.derivatives import Dfa
from wayeb_py.compiler.axes import Axis
from wayeb_py.compiler.pattern import CompiledPattern
from wayeb_py.engine.stepping.pooled_lists import PooledLists, grown
from wayeb_py.engine.stepping.steppers import OUT_ROOM, Coder, DetectionBuffer, Found, RunStepper, in_one
from wayeb_py.engine.values import Chunk
from wayeb_py.kernels.step_runs import RunLists
from wayeb_py.kernels.step_tables import Windows
from wayeb_py.matches.kernels.step_starts import StartAutomaton, keep_disjoint, step_starts


class StartStepper(RunStepper):
    """Steps one pattern from every start: a run each, through its automaton, until its window ends."""

    def __init__(
        self, number: int, pattern: CompiledPattern, axes: Sequence[Axis], direct: bool, windows: Windows
    ) -> None:
        assert pattern.dfa is not None
        self.number, self.pattern = number, pattern
        self._coder = Coder(pattern.axes, axes, direct)
        self.strides = self._coder.strides
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
        self.slots = PooledLists(state=(np.int32, 1), seq=(np.int64, 1), ts=(np.int64, 1))
        self._buffer = DetectionBuffer(OUT_ROOM)

    def step(self, cells: U16, n: int, chunk: Chunk, rows: tuple[Any, ...]) -> list[Found]:
        """The detections of a chunk; `rows` are its events as kernels read them."""
        code = self._coder.codes(cells, n)
        slots = self.slots
        found: list[Found] = []
        row = 0
        while row < n:
            runs = tuple(RunLists(slots.first, slots.room, slots.length, **slots.arrays))
            row, n_out = step_starts(row, code, rows, self._automaton, runs, self._buffer.arrays)
            if n_out:
                found.append(self._buffer.take(n_out))
            if row < 0:
                row = -1 - row
                entity = int(chunk.entity[row])
                needed = int(slots.length[entity]) + 1
                if needed > slots.room[entity]:
                    slots.give_room(entity, needed)
                if needed > self._buffer.room:
                    self._buffer = DetectionBuffer(2 * needed)
        return in_one(found)


def live_states(dfa: Dfa) -> Bool:
    """The states from which some event leads to a match sooner or later."""
    live: Bool = np.zeros(dfa.n_states, dtype=bool)
    while True:
        reaches: Bool = np.asarray((live | dfa.accepting)[dfa.next_state].any(axis=1))
        if (reaches == live).all():
            return live
        live = reaches


class Disjoint:
    """Keeps of one pattern's detections those that begin behind the last event of the one kept before."""

    def __init__(self, number: int, pattern: CompiledPattern) -> None:
        self.number, self._longest = number, pattern.longest
        self.behind: I64 = np.zeros(0, dtype=np.int64)  # [entity]: the number of the event behind its last match

    def grow(self, n_entities: int) -> None:
        if n_entities > len(self.behind):
            self.behind = grown(self.behind, max(64, n_entities + n_entities // 2))

    def keep(self, found: Found, chunk: Chunk) -> Found:
        """The detections that stay."""
        kept = np.zeros(len(found.row), dtype=np.uint8)
        keep_disjoint(
            chunk.entity, chunk.fresh, chunk.seq, found.row, found.start_seq, self.behind, self._longest, kept
        )
        return found.where(kept != 0)
