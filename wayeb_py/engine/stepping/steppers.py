"""What steps patterns over the codes of a chunk: a group by its tables, or one pattern run by run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from wayeb_py.compiler.axes import Axis, coarsen
from wayeb_py.compiler.pattern import CompiledPattern
from wayeb_py.compiler.product import Group, Tables, lay_out
from wayeb_py.engine.stepping.pooled_lists import Slots, grown
from wayeb_py.engine.values import Chunk
from wayeb_py.kernels import arrival, step

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U16 = npt.NDArray[np.uint16]

OUT_ROOM = 1 << 16


@dataclass(frozen=True, slots=True)
class Found:
    """Detections of one chunk: row, member number, start, and the place's number where there is one."""

    row: I32
    pattern: I32
    start_seq: I64
    start_ts: I64
    place: I32 | None = None


class Coder:
    """A stepper's codes from the cells of all axes."""

    def __init__(self, own: tuple[Axis, ...], axes: Sequence[Axis], direct: bool) -> None:
        self.direct = direct
        sizes = [axis.n_cells for axis in own]
        stride_of = {axis.subject: prod(sizes[i + 1 :]) for i, axis in enumerate(own)}
        self.strides = [stride_of.get(axis.subject, 0) for axis in axes]
        mine = {axis.subject: axis for axis in own}
        numbers: list[int] = []
        maps: list[U16] = []
        first = [0]
        for number, axis in enumerate(axes):
            if axis.subject in mine:
                numbers.append(number)
                coarse = np.array(coarsen(axis, mine[axis.subject])) * stride_of[axis.subject]
                maps.append(coarse.astype(np.uint16))
                first.append(first[-1] + len(coarse))
        self._axes = np.array(numbers, dtype=np.int32)
        self._first = np.array(first, dtype=np.int32)
        self._maps = np.concatenate(maps) if maps else np.zeros(0, dtype=np.uint16)
        self._code: U16 = np.empty(0, dtype=np.uint16)

    def codes(self, cells: U16, n: int) -> U16:
        if self.direct:
            return cells[0, :n]
        if len(self._code) < n:
            self._code = np.zeros(n, dtype=np.uint16)
        code = self._code[:n]
        if len(self._axes):
            arrival.combine(cells, n, self._axes, self._first, self._maps, code)
        return code


class TableStepper:
    """Steps a group of patterns by its tables."""

    def __init__(self, group: Group, axes: Sequence[Axis], direct: bool, windows: tuple[I64, I64]) -> None:
        self.group = group
        self.tables: Tables = lay_out(group)
        self._coder = Coder(group.axes, axes, direct)
        self.strides = self._coder.strides
        self._windows = windows
        self.state: U16 = np.zeros(0, dtype=np.uint16)  # [entity]
        self.register_seq: I64 = np.zeros(0, dtype=np.int64)  # [entity * n_registers + register]
        self.register_ts: I64 = np.zeros(0, dtype=np.int64)
        longest_report = int(np.diff(self.tables.report_first).max(initial=0))
        self._out = Out(max(OUT_ROOM, longest_report))

    def grow(self, n_entities: int) -> None:
        if n_entities > len(self.state):
            room = max(64, n_entities + n_entities // 2)
            self.state = grown(self.state, room)
            self.register_seq = grown(self.register_seq, room * self.group.n_registers)
            self.register_ts = grown(self.register_ts, room * self.group.n_registers)

    def step(self, cells: U16, n: int, chunk: Chunk, tail_ts: I64, tail: int) -> list[Found]:
        code = self._coder.codes(cells, n)
        tables, out = self.tables, self._out
        found: list[Found] = []
        row = 0
        while row < n:
            row, n_out = step.step_tables(
                row, code, chunk.entity, chunk.ts, chunk.seq, chunk.link, chunk.fresh, tail_ts, tail,
                tables.symbol_of_code, tables.next_state, tables.n_symbols,
                tables.moves, tables.move_first, tables.move_register, tables.move_source,
                tables.report, tables.report_first, tables.report_pattern, tables.report_start,
                *self._windows, self.state, self.register_seq, self.register_ts, self.group.n_registers,
                *out.arrays,
            )  # fmt: skip
            if n_out:
                found.append(out.take(n_out))
        return found


class RunStepper:
    """Steps one pattern run by run."""

    def __init__(
        self, number: int, pattern: CompiledPattern, axes: Sequence[Axis], direct: bool, windows: tuple[I64, I64]
    ) -> None:
        assert pattern.nfa is not None
        self.number = number
        self.pattern = pattern
        self._coder = Coder(pattern.axes, axes, direct)
        self.strides = self._coder.strides
        nfa = pattern.nfa
        self._symbols = np.ascontiguousarray(pattern.symbol_of_cell.reshape(-1), dtype=np.uint16)
        self._first = np.ascontiguousarray(nfa.first.reshape(-1))
        self._successors = np.ascontiguousarray(nfa.successors)
        self._accepting = nfa.accepting.astype(np.uint8)
        self._window_ticks = int(windows[0][number])
        self._window_events = int(windows[1][number])
        # Of runs in the same state only the preferred one matters, unless it can fall out of a window before the
        # others.
        self.n_states = nfa.n_states
        self._joined = not (pattern.longest and pattern.window is not None)
        self.slots = Slots(state=(np.int32, 1), seq=(np.int64, 1), ts=(np.int64, 1))
        self._seen = np.zeros(nfa.n_states, dtype=np.int64)
        self._epoch = np.zeros(1, dtype=np.int64)
        self._scratch = _runs(64)
        self._out = Out(OUT_ROOM)

    def grow(self, n_entities: int) -> None:
        self.slots.grow(n_entities)

    def step(self, cells: U16, n: int, chunk: Chunk, tail_ts: I64, tail: int) -> list[Found]:
        code = self._coder.codes(cells, n)
        out, slots = self._out, self.slots
        found: list[Found] = []
        row = 0
        while row < n:
            row, n_out = step.step_runs(
                row, code, chunk.entity, chunk.ts, chunk.seq, chunk.link, chunk.fresh, tail_ts, tail,
                self._symbols, self._first, self._successors, self._accepting,
                self.pattern.n_symbols, self.number, self.pattern.longest, self._joined,
                self._window_ticks, self._window_events, slots.first, slots.room, slots.length,
                slots.arrays["state"], slots.arrays["seq"], slots.arrays["ts"],
                self._seen, *self._scratch, self._epoch, *out.arrays,
            )  # fmt: skip
            if n_out:
                found.append(out.take(n_out))
            if row < 0:
                row = -1 - row
                entity = int(chunk.entity[row])
                slots.give_room(entity, 0)
                if slots.room[entity] > len(self._scratch[0]):
                    self._scratch = _runs(2 * int(slots.room[entity]))
        return found


def _runs(size: int) -> tuple[I32, I64, I64]:
    return np.zeros(size, dtype=np.int32), np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)


class Out:
    """Arrays that a kernel writes detections to."""

    def __init__(self, room: int) -> None:
        self.arrays: tuple[I32, I32, I64, I64] = (
            np.empty(room, dtype=np.int32),
            np.empty(room, dtype=np.int32),
            np.empty(room, dtype=np.int64),
            np.empty(room, dtype=np.int64),
        )

    def take(self, n: int) -> Found:
        row, pattern, start_seq, start_ts = self.arrays
        return Found(row[:n].copy(), pattern[:n].copy(), start_seq[:n].copy(), start_ts[:n].copy())
