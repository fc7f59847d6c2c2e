"""A few events become detections by one call of a kernel, and leave the same state as the batch path.

    rows, a batch, or arrays ──▶ columns of numbers ──step_few──▶ found, by row ──▶ Detections, made at first use

The batch path makes some dozen Arrow arrays and calls some dozen kernels for a batch, which costs the same for one
event and for a thousand. Here Python touches each value once. The kernel stops at an event that it does not understand
(a new entity, one that is late): the caller hands the rest to the batch path.

*Not taken*: a separate state for this path, which would have to be moved over whenever a large batch comes between.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.arrays import I32, I64, U8, U16
from wayeb_py.columns import column_of, kind_of, ticks_in
from wayeb_py.compiler.axes import Axis
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.arrival.reorder import Rows
from wayeb_py.engine.arrow_values import has_null_word
from wayeb_py.engine.binding import Binding
from wayeb_py.engine.few import MOST_EACH, ROOM
from wayeb_py.engine.few.layout import Layout, cells_of_truths, lay_out_few
from wayeb_py.engine.few.python_values import Unusual
from wayeb_py.engine.rows.detection_rows import BatchDetections, BatchOf
from wayeb_py.engine.rows.detection_schema import value_type
from wayeb_py.engine.rows.detections import Detections
from wayeb_py.engine.rows.few_detections import MOST, FewDetections
from wayeb_py.engine.stepping.steppers import DetectionBuffer, Found
from wayeb_py.engine.values import Chunk
from wayeb_py.kernels.few.step_few import GIVEN, INTEGER, NUMBER, FewRows, KeptWords, skip_few, step_few
from wayeb_py.kernels.step_parts import ChunkRows, RegisterMoves
from wayeb_py.kernels.step_tables import KeptStates, ProductTables, ReportLists, Windows

MOST_TEXTS = 1 << 12  # whose cells are remembered


class FewEvents:
    """The fast path for a few events, over the state of one binding."""

    def __init__(self, binding: Binding, layout: Layout, *, is_sorted: bool) -> None:
        self._binding, self._layout, self._is_sorted = binding, layout, is_sorted
        self._takes = None if layout.takes is None else list(layout.takes.items())
        columns = layout.columns
        self._entity: I32 = np.zeros(ROOM, dtype=np.int32)
        self._seq: I64 = np.zeros(ROOM, dtype=np.int64)
        self._link = np.full(ROOM, -1, dtype=np.int32)
        self._fresh, self._changes = np.zeros(ROOM, dtype=np.uint8), np.zeros(ROOM, dtype=np.uint8)
        self._buffer = DetectionBuffer(1 << 12)
        self._few = tuple(FewRows(columns.key, columns.numbers, columns.integers, columns.absent, ROOM))
        self._axes = tuple(layout.axes)
        self._nothing = Detections(binding.no_detections, binding.rows.episode_table([]))
        self._integers_absent: list[U8] = []  # the marks of missing values in columns that `fill_arrays` fills
        self._seen: tuple[Any, ...] = (None,) * 8
        self._arguments: tuple[Any, ...] = ()

    @classmethod
    def of(cls, binding: Binding, *, is_sorted: bool) -> FewEvents | None:
        """The fast path for these patterns; None where a few events take the batch path."""
        layout = lay_out_few(binding)
        return None if layout is None else cls(binding, layout, is_sorted=is_sorted)

    @property
    def most(self) -> int:
        """The most events of a call."""
        return MOST_EACH if self._layout.others else ROOM

    # From what is given to columns.

    def fill_rows(self, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Takes events as Python values; False where a value is for the batch path."""
        takes = self._takes
        if takes is None or len(rows) > self.most:
            return False
        try:
            for number, row in enumerate(rows):
                for name, take in takes:
                    take(row[name], number)
        except (Unusual, KeyError):
            return False
        return True

    def fill_batch(self, batch: pa.RecordBatch) -> bool:
        """Takes events as a conformed batch; False where a value is for the batch path."""
        binding, columns, n = self._binding, self._layout.columns, batch.num_rows
        if n > self.most:
            return False
        key = batch.column(binding.key)
        if key.null_count or has_null_word(key):
            return False
        words = binding.entities.number_of_word
        if words is None:
            values = key.to_numpy(zero_copy_only=False)
            columns.key[:n] = values.view(np.int64) if values.dtype == np.uint64 else values
        else:
            columns.key[:n] = [words.get(word, -1) for word in key.to_pylist()]
        time = batch.column(binding.time)
        ticks = ticks_in(time, binding.time_unit, binding.time)
        if ticks.missing is not None:
            return False
        columns.ts[:n] = ticks.values
        return all(self._fill_column(name, batch, axis, n) for name, axis in self._asked)

    def fill_arrays(self, arrays: Mapping[str, Any], n: int) -> bool:
        """Takes events as arrays by column: numbers as they are, times as ticks, texts as lists, nothing missing but
        NaN and None."""
        if n > self.most:
            return False
        try:
            if n == 1:  # a number put into an array costs a third of an array that is copied there
                for name, column, number_of in self._fills:
                    value = arrays[name][0]
                    column[0] = value if number_of is None else number_of(value)
            else:
                for name, column, number_of in self._fills:
                    some = arrays[name]
                    if number_of is None or (number_of is _whole and type(some) is np.ndarray and some.dtype == _I64):
                        column[:n] = some
                    else:
                        column[:n] = [*map(number_of, some)]
            for absent in self._integers_absent:
                absent[:n] = 0
        except (KeyError, TypeError, ValueError, OverflowError):
            return False
        return True

    @cached_property
    def _fills(self) -> list[tuple[str, npt.NDArray[Any], Callable[[Any], int] | None]]:
        """(column, the array that its values are put into, what each becomes first)."""
        binding, columns, layout = self._binding, self._layout.columns, self._layout
        words = binding.entities.number_of_word
        fills: list[tuple[str, npt.NDArray[Any], Callable[[Any], int] | None]] = [
            (binding.key, columns.key, None if words is None else lambda word: words.get(word, -1)),
            (binding.time, columns.ts, None),
        ]
        missing = self._integers_absent
        for encoder, source in zip(layout.cohort.encoders, layout.axes.source, strict=True):
            axis = encoder.axis
            if not isinstance(axis.subject, m.Attribute):
                continue
            place = binding.schema.get_field_index(axis.subject.name)
            kept = (columns.numbers if source == NUMBER else columns.integers)[place * ROOM : (place + 1) * ROOM]
            cell: Callable[[Any], int] | None = None
            if source == INTEGER:
                cell = _whole
                missing.append(columns.absent[place * ROOM : (place + 1) * ROOM])
            elif source == GIVEN:
                is_text = kind_of(value_type(binding.schema.field(place).type)) == "text"
                cell = _cells_of_texts(axis) if is_text else _cells_of_truths(axis)
            fills.append((axis.subject.name, kept, cell))
        return fills

    @property
    def types(self) -> dict[str, pa.DataType] | None:
        """The types of the columns that `fill_arrays` takes; None where times are no ticks: seconds with fractions."""
        types = {name: value_type(self._binding.schema.field(name).type) for name, _, _ in self._fills}
        time = types[self._binding.time]
        return types if pa.types.is_timestamp(time) or pa.types.is_integer(time) else None

    @cached_property
    def _asked(self) -> list[tuple[str, Axis]]:
        """The attributes that predicates look at, each with its axis."""
        axes = [encoder.axis for encoder in self._layout.cohort.encoders]
        return [(axis.subject.name, axis) for axis in axes if isinstance(axis.subject, m.Attribute)]

    @cached_property
    def _cell_of(self) -> dict[str, Callable[[str | None], int]]:
        """What finds the cells of texts, by attribute."""
        return {name: _cells_of_texts(axis) for name, axis in self._asked if axis.words is not None}

    def _fill_column(self, name: str, batch: pa.RecordBatch, axis: Axis, n: int) -> bool:
        columns, place = self._layout.columns, self._binding.schema.get_field_index(name)
        at = slice(place * ROOM, place * ROOM + n)
        if name == self._binding.time:
            columns.integers[at] = columns.ts[:n]
            return True
        array = batch.column(place)
        type_ = array.type
        # Most columns are of these types, with all values; the others take the way of a large batch.
        if type_ == _DOUBLE and not array.null_count:
            columns.numbers[at] = array.to_numpy()
            return True
        if type_ == _WHOLE and not array.null_count:
            columns.integers[at], columns.absent[at] = array.to_numpy(), 0
            return True
        if type_ == _TEXT and n <= FEW_TEXTS:
            columns.integers[at] = [*map(self._cell_of[name], array.to_pylist())]
            return True
        column = column_of(array, name)
        if column.kind == "text":
            words = [*map(self._cell_of[name], (*(column.words or ()), None))]
            columns.integers[at] = np.array(words, dtype=np.int64)[column.values]
        elif column.kind == "bool":
            columns.integers[at] = np.array(cells_of_truths(axis))[column.values]
        elif column.values.dtype.kind == "f":
            columns.numbers[at] = column.values
            if column.missing is not None:
                columns.numbers[at][column.missing != 0] = np.nan
        elif column.values.dtype == object:
            return False
        else:
            columns.integers[at] = column.values
            columns.absent[at] = 0 if column.missing is None else column.missing
        return True

    # From columns to found.

    def step(self, n: int) -> tuple[int, list[Found]]:
        """(how many of the n events that were taken are done, what was found in them)."""
        if self._has_moved():
            self._look_again(n)
        found: list[Found] = []
        if self._layout.others:
            return self._step_each(n, found), found
        done, n_out = self._call(0, n, *self._arguments)
        if n_out:
            found.append(self._buffer.take(n_out))
        return done, found

    def entities(self, n: int) -> I32:
        """The entities of the first n events of the last step."""
        return self._entity[:n].copy()

    @property
    def skips(self) -> bool:
        """Whether `skip` does for these patterns; the caller knows that they look at the event alone."""
        return self._layout.group is not None and not self._layout.others

    def skip(self, n: int) -> tuple[int, U8]:
        """(how many of the n events that were taken are done, which of them would have changed a state)."""
        if self._has_moved():
            self._look_again(n)
        *before, _moves, _reports, _windows, kept, _out = self._arguments
        done: int = skip_few(0, n, *before, kept, self._changes)
        return done, self._changes[:done]

    def _step_each(self, n: int, found: list[Found]) -> int:
        """One event after the other through all steppers: the kernel has kept its time when the others look back."""
        ts = self._layout.columns.ts
        for row in range(n):
            done, n_out = self._call(row, row + 1, *self._arguments)
            if n_out:
                found.append(self._buffer.take(n_out))
            if done == row:
                return row
            at = slice(row, row + 1)
            entity, seq, fresh = self._entity[at], self._seq[at], self._fresh[at]
            binding, link = self._binding, self._link[at]
            rows = tuple(ChunkRows(entity, ts[at], seq, link, fresh, binding.tail_ts, binding.tail))
            chunk = Chunk({}, binding.time, ts[at], binding.ticks_per_s, entity, link, seq, seq, fresh)
            cells = np.ascontiguousarray(self._layout.cells[:, at])
            if not self._layout.cohort.has_cells:
                cells = self._strides @ cells
            for stepper in self._layout.others:
                for part in stepper.step(cells, 1, chunk, rows):
                    part.row[:] = row
                    found.append(part)
        return n

    @cached_property
    def _strides(self) -> U16:
        """[1, axis]: what a cell counts in the codes that a single pattern reads which goes run by run."""
        strides = self._layout.cohort.steppers[0].strides
        return np.array([strides or [0]], dtype=np.uint16)

    @cached_property
    def _call(self) -> Callable[..., tuple[int, int]]:
        # Past the dispatcher, which would look at the type of every array at every call: `_look_again` has it look once
        # at each array that is new.
        return step_few.entry_point

    def _has_moved(self) -> bool:
        """Whether an array was replaced since the last call, as happens when it grows."""
        binding, group = self._binding, self._layout.group
        count, last_ts, tail_ts, last_seen, floor_ts, greatest, n_entities, state = self._seen
        now_state = None if group is None else group.state
        if (
            binding.count is count and binding.last_ts is last_ts and binding.tail_ts is tail_ts
            and binding.last_seen is last_seen and binding.floor_ts is floor_ts
            and binding.reorderer.greatest is greatest and len(binding.entities) == n_entities and now_state is state
        ):  # fmt: skip
            return False
        self._seen = (
            binding.count, binding.last_ts, binding.tail_ts, binding.last_seen, binding.floor_ts,
            binding.reorderer.greatest, len(binding.entities), now_state,
        )  # fmt: skip
        return True

    def _look_again(self, n: int) -> None:
        binding, group, ts = self._binding, self._layout.group, self._layout.columns.ts
        words = KeptWords(
            binding.count, binding.last_ts, binding.last_seen, binding.reorderer.greatest, binding.floor_ts,
            binding.forget, bool(binding.patterns.meaning.stream.dedupe), self._is_sorted,
        )  # fmt: skip
        rows = ChunkRows(self._entity, ts, self._seq, self._link, self._fresh, binding.tail_ts, binding.tail)
        if group is None:
            automaton: tuple[Any, ...] = _NO_GROUP
            kept = KeptStates(np.zeros(0, dtype=np.uint16), _NO_I64, _NO_I64, 0)
        else:
            automaton = group.automaton
            kept = KeptStates(group.state, group.register_seq, group.register_ts, group.group.n_registers)
        self._arguments = (
            self._few, tuple(binding.entities.known_keys()), tuple(words), self._axes, tuple(rows), *automaton,
            tuple(kept), self._buffer.arrays,
        )  # fmt: skip
        step_few(0, 0, *self._arguments)  # no event: the dispatcher refuses an array of another type or layout

    # From found to detections.

    def detections(self, found: list[Found], n: int, batch_of: BatchOf) -> Detections:
        """What was found in the first n events, whose batch is made only if a caller takes the rows."""
        if not found:
            return self._nothing
        binding = self._binding
        parts = [
            BatchDetections(
                part.row.astype(np.int64), part.pattern, binding.rows.places_of(part), self._seq[part.row],
                part.start_seq, part.start_ts, np.full(len(part.row), -1, dtype=np.int64),
            )
            for part in found
        ]  # fmt: skip
        joined = binding.rows.join(parts)
        entity, ts = self._entity[:n].copy(), self._layout.columns.ts[:n].copy()
        return FoundInFew(
            len(joined.row),
            lambda: binding.rows.detection_table(joined, Rows(batch_of(), entity, ts)),
            lambda: binding.rows.few(joined, entity, ts, batch_of),
            self._nothing.episodes(),
        )


class FoundInFew(Detections):
    """Detections whose table is made at its first use."""

    def __init__(
        self, n: int, make: Callable[[], pa.Table], make_few: Callable[[], FewDetections | None], episodes: pa.Table
    ) -> None:
        self._n, self._make, self._make_few = n, make, make_few
        self._episodes = episodes

    def few(self) -> FewDetections | None:
        return self._make_few() if self._n <= MOST else None

    @cached_property
    def _table(self) -> pa.Table:
        return self._make()

    def __len__(self) -> int:
        return self._n


def _whole(value: Any) -> int:
    return int(operator.index(value))  # a number with a fraction, or one that may be missing, is for the batch path


def _cell_of_text(axis: Axis, word: str | None) -> int:
    if word is None:
        return axis.n_cells - 1
    return 0 if axis.sort == "presence" else axis.cell_of_word(word)


def _cells_of_truths(axis: Axis) -> Callable[[Any], int]:
    cells = cells_of_truths(axis)
    return lambda truth: cells[2] if truth is None else cells[bool(truth)]


class _CellsOfTexts(dict[str | None, int]):
    """The cells of texts, each found once: most events have one of a few texts."""

    def __init__(self, axis: Axis) -> None:
        super().__init__()
        self._axis = axis

    def __missing__(self, word: str | None) -> int:
        if len(self) >= MOST_TEXTS:
            self.clear()
        cell = self[word] = _cell_of_text(self._axis, word)
        return cell


def _cells_of_texts(axis: Axis) -> Callable[[str | None], int]:
    return _CellsOfTexts(axis).__getitem__


_DOUBLE, _WHOLE, _TEXT = pa.float64(), pa.int64(), pa.string()
_I64 = np.dtype(np.int64)
FEW_TEXTS = 64  # up to this many texts are looked up one by one, sooner than Arrow makes a dictionary of them
_NO_I32, _NO_I64 = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)
_NO_U16 = np.zeros(0, dtype=np.uint16)
_NO_GROUP = (
    tuple(ProductTables(_NO_U16, _NO_U16, 0)),
    tuple(RegisterMoves(_NO_I32, _NO_I32, _NO_I32, _NO_I32)),
    tuple(ReportLists(_NO_I32, _NO_I32, _NO_I32, _NO_I32)),
    tuple(Windows(_NO_I64, _NO_I64)),
)
