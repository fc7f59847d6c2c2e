"""A table of values that change with place and time becomes attributes of events: weather at stations, or on a grid.

Every row has a position and a time; an event gets the row of the nearest place that has one valid at its time. A row is
valid from its time on, never before, so that a replay sees what was known at that time. Interpolating between places or
times was not taken: ice is there or not, and text has no mean.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from wayeb_py.arrays import F64, I64
from wayeb_py.columns import Column, column_of, kind_of, to_float
from wayeb_py.dsl.meaning import Kind
from wayeb_py.errors import DataError
from wayeb_py.files.stores import Location, open_input
from wayeb_py.spatial.index import PlaceIndex
from wayeb_py.spatial.kernels import tables as table_kernels
from wayeb_py.spatial.read_places import LAT, LON
from wayeb_py.spatial.shapes import Shapes

TIME = ("time", "ts", "timestamp", "datetime", "date", "t")
PER_S = 1_000_000


class Table:
    """The rows of a file, by place and time."""

    def __init__(self, path: Location, valid_s: Fraction, nearest_m: Fraction) -> None:
        self.path = path
        self.valid, self.nearest_m = floor(valid_s * PER_S), float(nearest_m)
        rows = _read(path)
        lon, lat = self._role(rows, LON, "longitude"), self._role(rows, LAT, "latitude")
        time = self._role(rows, TIME, "time")
        x, y = (self._degrees(rows.column(name), name) for name in (lon, lat))
        self._refuse_impossible(x, y)
        ticks = _microseconds(rows.column(time), time, path)
        places, place_of = np.unique(np.column_stack([x, y]), axis=0, return_inverse=True)
        place_of = place_of.reshape(-1)
        order = np.lexsort((ticks, place_of))
        self.rows = rows.drop_columns([lon, lat, time]).take(pa.array(order))
        self.time: I64 = np.ascontiguousarray(ticks[order])
        self.time_first = np.searchsorted(place_of[order], np.arange(len(places) + 1)).astype(np.int64)
        no_edges, no_places = np.empty((0, 4)), np.empty(0, dtype=np.int32)
        everyone = np.arange(len(places), dtype=np.int32)
        self.index = PlaceIndex(Shapes(len(places), np.ascontiguousarray(places), everyone, no_edges, no_places, False))

    def _role(self, rows: pa.Table, spellings: tuple[str, ...], what: str) -> str:
        lower: dict[str, str] = {name.strip().lower(): name for name in rows.column_names}
        for spelling in spellings:
            if spelling in lower:
                return lower[spelling]
        raise DataError(
            f"no column is the {what}: there are {', '.join(rows.column_names)}",
            str(self.path),
            hint=f"name it one of {', '.join(spellings)}",
        )

    def _degrees(self, array: pa.ChunkedArray, name: str) -> F64:
        if not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
            raise DataError(f"the column `{name}` is {array.type}, not a number", str(self.path))
        return np.asarray(array.cast(pa.float64()).to_numpy())

    def _refuse_impossible(self, lon: F64, lat: F64) -> None:
        wrong = np.flatnonzero(~((np.abs(lat) <= 90) & (np.abs(lon) <= 360)))
        if len(wrong):
            row = int(wrong[0])
            raise DataError(
                f"longitude {lon[row]:g} and latitude {lat[row]:g} are not on the earth", str(self.path), row + 2
            )

    def find(self, lon: F64, lat: F64, ts: I64, ticks_per_s: int) -> I64:
        """The number of each event's row, -1 where there is none."""
        first, place, distance_m = self.index.within(lon, lat, self.nearest_m)
        found = np.empty(len(lon), dtype=np.int64)
        at = ts * (PER_S // ticks_per_s) if ticks_per_s <= PER_S else ts // (ticks_per_s // PER_S)
        table_kernels.find_rows(at, first, place, distance_m, self.time_first, self.time, self.valid, found)
        return found

    def column(self, name: str, found: I64, kind: Kind | None) -> Column:
        """The column's values in the found rows, missing where none was found; of the kind that a pattern gives it."""
        if name not in self.rows.column_names:
            from difflib import get_close_matches

            near = get_close_matches(name, self.rows.column_names, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(self.rows.column_names)}"
            raise DataError(f"the table has no column `{name}`", str(self.path), hint=hint)
        values = self.rows.column(name).take(pa.array(found, mask=found < 0))
        own = kind_of(values.type)
        if kind is not None and own != kind and not pa.types.is_null(values.type):
            raise DataError(
                f"the column `{name}` is {own or values.type}, and the pattern uses it as {kind}",
                str(self.path),
                hint="convert the column, or change the pattern",
            )
        array = values.combine_chunks()
        return column_of(array.chunk(0) if isinstance(array, pa.ChunkedArray) else array, name)


def _read(path: Location) -> pa.Table:
    if not path.is_file():
        raise DataError("there is no such file", str(path))
    try:
        is_parquet = path.suffix.lower() in (".parquet", ".geoparquet")
        with open_input(str(path)) as file:
            rows = pq.read_table(file) if is_parquet else pyarrow.csv.read_csv(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"the table cannot be read: {error}", str(path)) from None
    if not rows.num_rows:
        raise DataError("the table has no rows", str(path))
    return rows


def _microseconds(array: pa.ChunkedArray, name: str, path: Location) -> I64:
    """Times since 1970: timestamps, or numbers in seconds."""
    if array.null_count:
        row = pc.index(pc.is_null(array), True).as_py()
        raise DataError(f"a row has no time, in the column `{name}`", str(path), row + 2)
    type_ = array.type
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        ticks: Any = array.cast(pa.timestamp("us", getattr(type_, "tz", None))).cast(pa.int64()).to_numpy()
        return np.asarray(ticks, dtype=np.int64)
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        seconds = to_float(column_of(array.combine_chunks(), name))
        return np.asarray(np.rint(seconds * PER_S), dtype=np.int64)
    raise DataError(f"the column `{name}` is {type_}, neither a timestamp nor seconds since 1970", str(path))
