"""Bound patterns become the arrays of `step_few`; None where they need more than one call can do.

One call suffices where the patterns of a stream have read the same events since the same moment, use attributes and the
time since the previous event, and need neither places, nor other patterns' tiers, nor events in another order than
their arrival. Everything else takes the batch path.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from wayeb_py.arrays import F64, I64, U8, U16
from wayeb_py.columns import Column, kind_of
from wayeb_py.compiler.axes import Axis
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.binding import Binding
from wayeb_py.engine.few import ROOM
from wayeb_py.engine.few.python_values import Take, range_of, take_bool, take_integer, take_key, take_number, take_text
from wayeb_py.engine.few.python_values import take_time as take_ticks
from wayeb_py.engine.rows.detection_schema import value_type
from wayeb_py.engine.stepping.cohort import Cohort
from wayeb_py.engine.stepping.encode import Encoder
from wayeb_py.engine.stepping.steppers import TableStepper
from wayeb_py.kernels.few.step_few import ELAPSED, GIVEN, INTEGER, NUMBER, AxisCells

if TYPE_CHECKING:
    from wayeb_py.engine.stepping.live_starts import Stepper



@dataclass(frozen=True, slots=True)
class FewColumns:
    """The arrays that values of events are put into, `ROOM` numbers for each column."""

    key: I64
    ts: I64
    numbers: F64
    integers: I64
    absent: U8


@dataclass(frozen=True, slots=True)
class Layout:
    """What one call needs besides the state: columns and how to fill them, axes, the group that it steps, the rest."""

    cohort: Cohort
    columns: FewColumns
    takes: dict[str, Take] | None  # for every column that the patterns need; None where some cannot take Python values
    axes: AxisCells
    cells: U16  # [axis, row]: written
    group: TableStepper | None
    others: tuple[Stepper, ...]


def lay_out_few(binding: Binding) -> Layout | None:
    """The layout of bound patterns; None where they are not for one call."""
    stream = binding.patterns.meaning.stream
    if len(binding.cohorts) != 1 or binding.has_tiers or binding.cleaner is not None or binding.ties is not None:
        return None
    cohort = binding.cohorts[0]
    if cohort.measures or cohort.disjoint:
        return None
    if any(pattern.has_each_start or pattern.memory is not None for pattern in cohort.patterns.values()):
        return None
    if cohort.seen is not None or cohort.placed:
        return None
    if stream.order is not None or binding.reorderer.lateness or binding.key == binding.time:
        return None
    axes = [_AxisSource.of(encoder, binding) for encoder in cohort.encoders]
    if any(axis is None for axis in axes):
        return None
    sources = [axis for axis in axes if axis is not None]
    n_needed = len(binding.schema)
    columns = FewColumns(
        np.zeros(ROOM, dtype=np.int64),
        np.zeros(ROOM, dtype=np.int64),
        np.zeros(ROOM * n_needed),
        np.zeros(ROOM * n_needed, dtype=np.int64),
        np.zeros(ROOM * n_needed, dtype=np.uint8),
    )
    tables = [stepper for stepper in cohort.steppers if isinstance(stepper, TableStepper)]
    group = tables[0] if tables else None
    cells = np.zeros((max(1, len(sources)), ROOM), dtype=np.uint16)
    return Layout(
        cohort,
        columns,
        _takes(binding, columns, {axis.name: axis for axis in sources}),
        _axis_cells(sources, group, cells),
        cells,
        group,
        tuple(stepper for stepper in cohort.steppers if stepper is not group),
    )


@dataclass(frozen=True, slots=True)
class _AxisSource:
    """Where an axis finds its cell."""

    axis: Axis
    name: str  # the attribute's name; empty for `elapsed()`
    source: int
    column: int
    always: int
    some: list[float] | list[int]

    @classmethod
    def of(cls, encoder: Encoder, binding: Binding) -> _AxisSource | None:
        axis = encoder.axis
        match axis.subject:
            case m.Elapsed():
                column = Column("number", np.zeros(0, dtype=np.int64), per_unit=binding.ticks_per_s, has_never=True)
                bound = encoder.thresholds(column)
                return cls(axis, "", ELAPSED, 0, bound.always, bound.some.tolist())
            case m.Attribute(name) if name in binding.schema.names:
                place = binding.schema.get_field_index(name)
                if name == binding.time:
                    column = Column("time", np.zeros(0, dtype=np.int64), per_unit=binding.ticks_per_s)
                else:
                    found = _empty_column(value_type(binding.schema.field(place).type))
                    if found is None:
                        return None
                    column = found
                if column.kind in ("text", "bool"):
                    return cls(axis, name, GIVEN, place, 0, [])
                bound = encoder.thresholds(column)
                source = NUMBER if column.values.dtype.kind == "f" else INTEGER
                return cls(axis, name, source, place, bound.always, bound.some.tolist())
            case _:
                return None


def _empty_column(type_: pa.DataType) -> Column | None:
    """A column of the type without rows, as `columns.column_of` gives it; None for types that are not for one call."""
    if pa.types.is_float64(type_) or pa.types.is_float32(type_):
        dtype = np.dtype(type_.to_pandas_dtype())
        return Column("number", np.zeros(0, dtype=dtype), own=dtype.type)
    if pa.types.is_integer(type_):
        dtype = np.dtype(type_.to_pandas_dtype())
        return Column("number", np.zeros(0, dtype=np.int64 if dtype in (np.uint32, np.uint64) else dtype))
    kind = kind_of(type_)
    if kind in ("text", "bool"):
        return Column(kind, np.zeros(0, dtype=np.int32))
    return None


def _axis_cells(sources: list[_AxisSource], group: TableStepper | None, cells: U16) -> AxisCells:
    first = np.cumsum([0, *(len(axis.some) for axis in sources)], dtype=np.int64).astype(np.int32)
    flat = [threshold for axis in sources for threshold in axis.some]
    whole = [threshold if axis.source != NUMBER else 0 for axis in sources for threshold in axis.some]
    nothing = np.zeros(0, dtype=np.int32)
    return AxisCells(
        np.array([axis.source for axis in sources], dtype=np.int32),
        np.array([axis.column for axis in sources], dtype=np.int32),
        first,
        np.array([axis.always for axis in sources], dtype=np.int32),
        np.array([axis.axis.n_cells - 1 for axis in sources], dtype=np.int32),
        np.array(flat, dtype=np.float64),
        np.array(whole, dtype=np.int64),
        nothing if group is None else group.coder.axes,
        nothing if group is None else group.coder.first,
        np.zeros(0, dtype=np.uint16) if group is None else group.coder.maps,
        cells.reshape(-1),
        group is not None,
    )


def _takes(binding: Binding, columns: FewColumns, axis_of: dict[str, _AxisSource]) -> dict[str, Take] | None:
    takes: dict[str, Take] = {}
    for place, field in enumerate(binding.schema):
        own_part = slice(place * ROOM, (place + 1) * ROOM)
        numbers, integers, absent = columns.numbers[own_part], columns.integers[own_part], columns.absent[own_part]
        source = axis_of.get(field.name)
        take = _take_attribute(field.type, source, numbers, integers, absent)
        if field.name == binding.key:
            key = _take_key(binding, field.type, columns.key)
            own = _both(key, take) if source is not None and key is not None and take is not None else key
        elif field.name == binding.time:
            ticks = take_ticks(columns.ts, field.type, binding.time_unit)
            own = ticks if source is None or ticks is None else _copied(ticks, columns.ts, integers)
        else:
            own = take
        if own is None:
            return None
        takes[field.name] = own
    return takes


def _copied(take_one: Take, taken: I64, copy: I64) -> Take:
    def take(value: object, row: int) -> None:
        take_one(value, row)
        copy[row] = taken[row]

    return take


def _both(first: Take, second: Take) -> Take:
    def take(value: object, row: int) -> None:
        first(value, row)
        second(value, row)

    return take


def _take_key(binding: Binding, type_: pa.DataType, column: I64) -> Take | None:
    words = binding.entities.number_of_word
    if words is not None:
        return take_key(column, words, 0, 0)
    return take_key(column, None, *range_of(value_type(type_))) if pa.types.is_integer(value_type(type_)) else None


def _take_attribute(
    type_: pa.DataType, source: _AxisSource | None, numbers: F64, integers: I64, absent: U8
) -> Take | None:
    type_ = value_type(type_)
    if pa.types.is_floating(type_):
        return None if pa.types.is_float16(type_) else take_number(numbers, pa.types.is_float32(type_))
    if pa.types.is_integer(type_):
        return take_integer(integers, absent, *range_of(type_))
    axis = None if source is None else source.axis
    kind = kind_of(type_)
    if kind == "bool":
        return take_bool(integers, cells_of_truths(axis))
    if kind == "text":
        return take_text_of(axis, integers)
    return None


def cells_of_truths(axis: Axis | None) -> tuple[int, int, int]:
    """The cells of false, true and missing."""
    return (0, 0, 1) if axis is None or axis.sort == "presence" else (0, 1, 2)


def take_text_of(axis: Axis | None, integers: I64) -> Take:
    """Takes texts as the cells of an axis; without an axis it only checks them."""
    if axis is None or axis.sort == "presence":
        return take_text(integers, {}, lambda word: 0, 1)
    cell_of = {word: axis.cell_of_word(word) for word in axis.words}
    words = axis.words
    if axis.sort == "words":
        return take_text(integers, cell_of, lambda word: len(words), axis.n_cells - 1)
    return take_text(integers, cell_of, lambda word: 2 * bisect_left(words, word), axis.n_cells - 1)
