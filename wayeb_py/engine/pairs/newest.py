"""The memory of each entity's newest event: values of single events become columns of a pair's events.

An event of a pair holds the rows of both its entities. One of the rows is in the current batch; the other may be too,
or it came long before, and its values were kept by entity. So a value of a, say its speed, is computed once for each
event and then picked by row, however many pairs read it.

*Not taken*: a table of newest rows, rebuilt with every batch, which costs time for all entities even where the batch
holds one event. Only emitted columns are kept in such a table, which is rarely rebuilt.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.arrays import F64, I32, I64
from wayeb_py.columns import Column, to_float
from wayeb_py.engine.arrow_values import plain
from wayeb_py.engine.values import Memory
from wayeb_py.errors import EventsError
from wayeb_py.growing_arrays import lengthened, on_lines, widened, with_room
from wayeb_py.pairs import geometry_kernels as geometry
from wayeb_py.pairs.layout import flat

MOST_PIECES = 64


def pick(values: npt.NDArray[Any], kept: npt.NDArray[Any], at: I64) -> npt.NDArray[Any]:
    """The value of each row, or the kept value of an entity where `at` is -1 - entity."""
    out = np.empty(len(at), dtype=kept.dtype)
    geometry.gather(np.ascontiguousarray(values), kept, at, out)
    return out


class NewestValue:
    """One value of the newest event of each entity."""

    def __init__(self) -> None:
        self.memory = Memory()  # the words of a text, numbered
        self.kept: dict[str, npt.NDArray[Any]] = {}  # [entity]: "value", and "missing" of whole numbers
        self._kind: Any = "number"
        self._own: Any = None
        self._per_unit = 1
        self._values: dict[str, npt.NDArray[Any]] = {}

    def begin(self, column: Column, n_entities: int) -> None:
        """Takes the values of a batch's events."""
        self._kind, self._own, self._per_unit = column.kind, column.own, column.per_unit
        if column.values.dtype == object:
            raise EventsError("a pair cannot read numbers beyond 64 bits")
        if column.kind == "text":
            self._values = {"value": self.memory.intern(column)}
        elif column.kind == "bool":
            self._values = {"value": column.values.astype(np.int64)}
        elif column.values.dtype.kind == "f":
            self._values = {"value": np.ascontiguousarray(to_float(column))}
        else:
            missing = np.zeros(len(column.values), np.int64) if column.missing is None else column.missing
            self._values = {"value": column.values.astype(np.int64, copy=False), "missing": missing.astype(np.int64)}
        for name, values in self._values.items():
            kept = self.kept.get(name)
            if kept is None:
                kept = np.zeros(0, dtype=values.dtype)
            elif kept.dtype != values.dtype:  # whole numbers so far; this batch has fractions
                kept = kept.astype(values.dtype)
            if len(kept) < n_entities:
                kept = lengthened(kept, with_room(n_entities))
            self.kept[name] = kept

    def at(self, rows: I64) -> Column:
        """The values of these rows, as a column like that of the events."""
        picked = {name: pick(values, self.kept[name], rows) for name, values in self._values.items()}
        value = picked["value"]
        if self._kind == "text":
            words = self.memory.words
            codes = np.where(value < 0, len(words), value).astype(np.int32)
            return Column("text", codes, words=words)
        if self._kind == "bool":
            return Column("bool", value.astype(np.uint8))
        if "missing" in picked:
            return Column(self._kind, value, picked["missing"].astype(np.uint8), per_unit=self._per_unit)
        return Column("number", value, own=self._own)

    def settle(self, entity: I32) -> None:
        """Keeps the values of the batch's events; the last of each entity wins."""
        for name, values in self._values.items():
            geometry.keep(np.ascontiguousarray(values), entity, self.kept[name])

    def save(self, entities: I32) -> tuple[dict[str, npt.NDArray[Any]], list[str | None]]:
        """The kept values of some entities, and the words."""
        n = int(entities.max()) + 1 if len(entities) else 0
        kept = {name: lengthened(array, max(n, len(array)))[entities] for name, array in self.kept.items()}
        return kept, list(self.memory.words)

    def restore(self, kept: dict[str, npt.NDArray[Any]], words: list[str | None]) -> None:
        """Continues from what was saved of entities 0, 1, 2, …"""
        self.kept = {name: array.copy() for name, array in kept.items()}
        self.memory.words = list(words)
        self.memory.code_of = {word: code for code, word in enumerate(words) if word is not None}


class NewestSteering:
    """Where each entity is and how it moves, as vectors: the input of every approach."""

    def __init__(self) -> None:
        self.here: F64 = np.zeros((0, geometry.STEERING))
        self.kept: F64 = np.zeros((0, geometry.STEERING))  # [entity]

    def begin(self, lon: F64, points: F64, speed_m_s: F64, course: F64, n_entities: int) -> None:
        """Takes the positions and motions of a batch's events."""
        self.here = on_lines((len(lon), geometry.STEERING), np.float64)
        geometry.steer(lon, flat(points), speed_m_s, course, flat(self.here))
        if len(self.kept) < n_entities:
            self._make_room(with_room(n_entities))

    def _make_room(self, room: int) -> None:
        n_kept = len(self.kept)
        self.kept = widened(self.kept, room)
        self.kept[n_kept:] = np.nan

    def save(self, entities: I32) -> F64:
        """What is kept of these."""
        return self.kept[entities, :6] if len(self.kept) else np.zeros((len(entities), 6))

    def restore(self, kept: F64, first: int) -> None:
        """Takes up what is kept of entities from a number on."""
        self._make_room(first + len(kept))
        self.kept[first : first + len(kept), :6] = kept

    def settle(self, entity: I32) -> None:
        """Keeps the positions and motions of the batch's events; the last of each entity wins."""
        geometry.keep_steering(self.here, entity, self.kept)


class NewestRows:
    """Some columns of the newest event of each entity, as Arrow has them: for emitted values."""

    def __init__(self, columns: list[str]) -> None:
        self.columns = columns
        self._pieces: list[pa.RecordBatch] = []
        self._n_rows = 0
        self._n_moved = 0  # rows that were left when others were last dropped
        self._begin = 0
        self._row_of: I64 = np.zeros(0, dtype=np.int64)  # [entity], -1 where there is none

    def begin(self, batch: pa.RecordBatch, n_entities: int) -> None:
        """Takes the events of a batch."""
        if n_entities > len(self._row_of):
            self._row_of = lengthened(self._row_of, with_room(n_entities), -1)
        self._begin = self._n_rows
        self._pieces.append(
            pa.RecordBatch.from_arrays([plain(batch.column(name)) for name in self.columns], names=self.columns)
        )
        self._n_rows += batch.num_rows

    def take(self, column: str, rows: I64) -> pa.Array:
        """The column's values at these rows."""
        at = np.where(rows >= 0, self._begin + rows, self._row_of[np.where(rows >= 0, 0, -1 - rows)])
        taken = pa.chunked_array([piece.column(column) for piece in self._pieces]).take(pa.array(at))
        return taken.combine_chunks()

    def settle(self, entity: I32) -> None:
        """Keeps the newest events; drops the others now and then."""
        self._row_of[entity] = self._begin + np.arange(len(entity))
        if len(self._pieces) > MOST_PIECES or self._n_rows > 4 * self._n_moved + (1 << 17):
            known = np.flatnonzero(self._row_of >= 0)
            rows = self.rows_of(known.astype(np.int32))
            self._pieces, self._n_rows, self._n_moved = [rows], rows.num_rows, rows.num_rows
            self._row_of[known] = np.arange(len(known))

    def rows_of(self, entities: I32) -> pa.RecordBatch:
        """The newest rows of these entities."""
        if not self._pieces:
            return pa.RecordBatch.from_pylist([])
        at = self._row_of[entities]
        table = pa.Table.from_batches(self._pieces).take(pa.array(at, mask=at < 0))
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else self._pieces[0].slice(0, 0)

    def restore(self, rows: pa.RecordBatch, first: int) -> None:
        """Restores the rows of entities from a number on."""
        if rows.num_columns:
            self._pieces, self._n_rows = [rows], rows.num_rows
            self._row_of = np.concatenate([np.full(first, -1, dtype=np.int64), np.arange(rows.num_rows)])
