"""A few detections become values by column, with their ids: what leaves at once needs no table.

    found, by row ──▶ values by column ──▶ ids ──▶ lines (`files.output.table_text`), or the table after all

A table of one row costs dozens of Arrow's calls to make and to read; here Python touches each value once. The values,
the ids and the lines are those of the table, whose types therefore have to be among `WRITTEN`: for others, and for
columns that are computed, there is only the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from wayeb_py.engine.rows.detection_id import DETECTION_ID, ids_of_values
from wayeb_py.engine.rows.detection_schema import value_type

MOST = 32  # detections: of more, Arrow makes a table sooner


@dataclass(frozen=True, slots=True)
class FewDetections:
    """Detections as values by column; times are ticks of the column's type."""

    types: Mapping[str, pa.DataType]
    columns: Mapping[str, list[Any]]

    def __len__(self) -> int:
        return len(self.columns["pattern"])

    def with_ids(self) -> FewDetections:
        """The detections with `detection_id` as the first column."""
        types = {DETECTION_ID: pa.string(), **self.types}
        return FewDetections(types, {DETECTION_ID: ids_of_values(self.columns), **self.columns})

    def aligned(self, columns: pa.Schema) -> FewDetections:
        """The detections with a stream's columns, which are missing where they have none."""
        if [*self.columns] == columns.names:
            return self
        nothing = [None] * len(self)
        types = {field.name: value_type(field.type) for field in columns} | dict(self.types)
        return FewDetections(types, {name: self.columns.get(name, nothing) for name in types})

    def to_arrow(self) -> pa.Table:
        """The same as a table, with plain columns."""
        arrays = [_array(values, self.types[name]) for name, values in self.columns.items()]
        return pa.table(arrays, names=[*self.columns])


def is_written(type_: pa.DataType) -> bool:
    """Whether values of a type can be among a few detections."""
    return bool(
        pa.types.is_integer(type_) or pa.types.is_float64(type_) or pa.types.is_boolean(type_)
        or pa.types.is_string(type_) or pa.types.is_timestamp(type_)
    )  # fmt: skip


def value_at(column: pa.Array, row: int) -> Any:
    """A value of a column of such a type."""
    scalar = column[row]
    return scalar.value if isinstance(scalar, pa.TimestampScalar) else scalar.as_py()


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(type_):
        return pa.array(values, pa.int64()).view(type_)
    return pa.array(values, type_)
