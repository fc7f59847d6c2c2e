"""Events that wait become arrays by column, side by side: a slice of any lane is a view, however the events came.

    batches of some events ──▶ columns of all that wait ──▶ [first:end] for each lane ──▶ `few.fill_arrays`

Each lane would otherwise join small Arrow batches and take their columns apart again, which costs some dozen of Arrow's
calls even for a slice of one event. Here a column is taken apart once, when a lane first takes a few of its events:
lanes that take many at a time take batches. Only what a few events need is kept: key, time, and the attributes that
predicates look at, where their values are of plain types and are there. Of other events a lane takes the batches.

*Not taken*: to receive events as columns at once. Logs, files and users give Arrow batches, and most streams have no
levels.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from wayeb_py.engine.rows.detection_schema import value_type

LEAST_ROOM = 1024

TakeApart = Callable[[pa.Array], "npt.NDArray[Any] | list[Any] | None"]


class _Numbers:
    """Numbers by the number of their event; new ones come at the end, old ones leave at the front."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._room: npt.NDArray[Any] = np.empty(LEAST_ROOM, dtype=dtype)
        self._first = self._end = 0  # the numbers of the first event in the room, and of the next

    def begin(self, number: int) -> None:
        self._first = self._end = number

    def add(self, values: npt.NDArray[Any], lowest: int) -> None:
        """Appends values; those of events before `lowest` may go."""
        at, n = self._end - self._first, len(values)
        if at + n > len(self._room):
            kept = self._room[lowest - self._first : at]
            if 2 * (len(kept) + n) > len(self._room):
                self._room = np.empty(4 * (len(kept) + n), dtype=kept.dtype)
            self._room[: len(kept)] = kept.copy()
            self._first, at = lowest, len(kept)
        self._room[at : at + n] = values
        self._end += n

    def slice(self, first: int, end: int) -> npt.NDArray[Any]:
        return self._room[first - self._first : end - self._first]


class _Words:
    """The same for texts and truths, as Python values."""

    def __init__(self) -> None:
        self._kept: list[Any] = []
        self._first = 0

    def begin(self, number: int) -> None:
        self._kept, self._first = [], number

    def add(self, values: list[Any], lowest: int) -> None:
        n_gone = lowest - self._first
        if n_gone > LEAST_ROOM and 2 * n_gone > len(self._kept):
            del self._kept[:n_gone]
            self._first = lowest
        self._kept += values

    def slice(self, first: int, end: int) -> list[Any]:
        return self._kept[first - self._first : end - self._first]


class WaitingColumns:
    """The columns of a source's events that wait, as far as they are plain."""

    def __init__(self, types: Mapping[str, pa.DataType], needed: frozenset[str], first: int) -> None:
        """`types` are those of the columns that patterns read; a value of the `needed` ones is never missing."""
        self._types, self._needed = types, needed
        self._columns: dict[str, _Numbers | _Words] = {name: _column_of(own) for name, own in types.items()}
        self._schema: pa.Schema | None = None  # of the last batch, and where the columns are in it
        self._places: list[tuple[int, TakeApart, bool]] | None = None
        self._whole: deque[pa.RecordBatch] = deque()  # the batches that come after the columns
        self._first = self._end = first  # the numbers of the first event in the columns, and of the next
        self._forget(first)

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds the next events."""
        self._whole.append(batch)

    def forget(self, lowest: int) -> None:
        """Drops the events before a number, which every lane has taken."""
        while self._whole and self._end + self._whole[0].num_rows <= lowest:
            self._forget(self._end + self._whole.popleft().num_rows)
        self._first = max(self._first, min(lowest, self._end))

    def slice(self, first: int, end: int) -> dict[str, Any] | None:
        """The values of some events by column; None where not all of them are plain."""
        while self._end < end and self._whole:
            self._take_apart(self._whole.popleft())
        if first < self._first or end > self._end:
            return None
        return {name: column.slice(first, end) for name, column in self._columns.items()}

    def _take_apart(self, batch: pa.RecordBatch) -> None:
        taken = self._taken_apart(batch)
        if taken is None:
            self._forget(self._end + batch.num_rows)
            return
        for column, values in zip(self._columns.values(), taken, strict=True):
            column.add(values, self._first)
        self._end += batch.num_rows

    def _forget(self, until: int) -> None:
        self._first = self._end = until
        for column in self._columns.values():
            column.begin(until)

    def _taken_apart(self, batch: pa.RecordBatch) -> list[Any] | None:
        if self._schema is None or not batch.schema.equals(self._schema):
            self._schema, self._places = batch.schema, self._find(batch.schema)
        taken: list[Any] = []
        for place, take_apart, is_needed in self._places or ():
            array = batch.column(place)
            values = None if is_needed and array.null_count else take_apart(array)
            if values is None:
                return None
            taken.append(values)
        return taken or None

    def _find(self, schema: pa.Schema) -> list[tuple[int, TakeApart, bool]] | None:
        """(place, what takes the column apart, whether no value may be missing), by column; None where a batch of the
        schema has other types."""
        places = []
        for name, own in self._types.items():
            place = schema.get_field_index(name)
            if place < 0 or value_type(schema.field(place).type) != own:
                return None
            places.append((place, _take_apart_of(schema.field(place).type), name in self._needed))
        return places


def is_plain(type_: pa.DataType) -> bool:
    """Whether values of a type wait as numbers or words."""
    return bool(
        pt.is_int64(type_) or pt.is_int32(type_) or pt.is_int16(type_) or pt.is_int8(type_) or pt.is_uint8(type_)
        or pt.is_uint16(type_) or pt.is_uint32(type_) or pt.is_float64(type_) or pt.is_float32(type_)
        or pt.is_timestamp(type_) or pt.is_string(type_) or pt.is_boolean(type_)
    )  # fmt: skip


def _column_of(type_: pa.DataType) -> _Numbers | _Words:
    if pt.is_string(type_) or pt.is_boolean(type_):
        return _Words()
    return _Numbers(np.float64 if pt.is_floating(type_) else np.int64)


def _take_apart_of(type_: pa.DataType) -> TakeApart:
    """What takes a column of a type apart; its result is None where a whole number is missing."""
    if pt.is_dictionary(type_):
        return _looked_up
    if pt.is_string(type_) or pt.is_boolean(type_):
        return _python_values
    if pt.is_floating(type_):
        return _floats
    return _ticks if pt.is_timestamp(type_) else _whole


def _looked_up(array: pa.DictionaryArray) -> list[Any] | None:
    words = [*array.dictionary.to_pylist(), None]
    places = array.indices if not array.null_count else array.indices.fill_null(len(words) - 1)
    return [words[place] for place in places.to_numpy().tolist()]


def _python_values(array: pa.Array) -> list[Any] | None:
    return list(array.to_pylist())


def _floats(array: pa.Array) -> npt.NDArray[Any] | None:
    return np.asarray(array.to_numpy(zero_copy_only=False))  # what is missing is NaN


def _ticks(array: pa.Array) -> npt.NDArray[Any] | None:
    return None if array.null_count else np.asarray(array.view(_INT64).to_numpy())


def _whole(array: pa.Array) -> npt.NDArray[Any] | None:
    return None if array.null_count else np.asarray(array.to_numpy())


_INT64 = pa.int64()
