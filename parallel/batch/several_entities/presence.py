"""Events become presence: rows (entity, cell, span of time), each with the number of events that it stands for.

Cells are cubes laid through the globe, so that neither poles nor the antimeridian are special; spans are as long as the
freshness. Two entities that make an event of a pair are, at that time, in the same cell or in neighbouring cells, and
in the same or in neighbouring spans: a great circle is no shorter than the straight way. In pairs that are `projected`
an entity also counts wherever its course takes it while it is fresh.

The table uses events as read. Cleaning, deduplication and lateness only remove events, so the table never misses a
meeting. A table that grows too long is made coarser: cells and spans of twice the size say less, and nothing wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.arrays import F64, I64
from wayeb_py.columns import column_of, ticks_of, to_float
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.units import UNITS
from wayeb_py.engine.arrow_values import plain
from wayeb_py.pairs import geometry_kernels as geometry
from wayeb_py.pairs.layout import points_of
from wayeb_py.spatial.kernels.index import EARTH_RADIUS_M

MOST_ROWS = 1 << 19  # rows of one task
LEAST_SIDE_M, LEAST_SPAN_S = 500.0, 60.0
MOST_STEPS = 64  # marks on the way that a course takes
AXIS_BITS = 21
COARSEST = AXIS_BITS - 1  # then everything is in one cell, and there are as many rows as entities
COLUMNS = ("entity", "cell", "span", "n")


@dataclass(frozen=True, slots=True)
class Raster:
    """How large cells and spans are, for all pairs of a file."""

    side_m: float
    span_s: float
    projected_s: float  # how long a course may be followed; 0 where none is
    followed: frozenset[str]  # the streams whose entities are followed

    @classmethod
    def of(cls, pairs: list[m.EachPair]) -> Raster:
        reach_m = max(float(each.reach_m) for each in pairs)
        projected = [each for each in pairs if each.projected]
        projected_s = max((float(each.fresh_s) for each in projected), default=0.0)
        # A way that is marked at every half side is nowhere farther than a quarter of a side from a mark.
        side_m = max(LEAST_SIDE_M, 2 * reach_m if projected_s else reach_m)
        span_s = max(LEAST_SPAN_S, max(float(each.fresh_s) for each in pairs))
        followed = frozenset(name for each in projected for name in each.streams)
        return cls(side_m * (1 + 1e-6), span_s, projected_s, followed)

    def motion_of(self, stream: m.Stream) -> tuple[str, ...]:
        """The speed and the course that are followed in a stream; none where no pair of it is projected: its events
        are then read without them."""
        return (stream.motion or ()) if (stream.name or "") in self.followed else ()


def pairs_of(patterns: CompiledPatterns) -> list[m.EachPair]:
    """The `for each pair` of some patterns."""
    return [one.pair for one in patterns.meaning.patterns if one.pair is not None]


def columns_of(stream: m.Stream, raster: Raster) -> list[str]:
    """The columns that presence needs."""
    assert stream.key is not None
    assert stream.time is not None
    return list(dict.fromkeys([stream.key, stream.time, *(stream.position or ()), *raster.motion_of(stream)]))


@dataclass(slots=True)
class Presence:
    """Where the entities of one stream were, as far as one task has read it."""

    stream: m.Stream
    raster: Raster
    level: int = 0  # how often cells and spans have been doubled
    is_anywhere: bool = False  # a course that is followed leads around the globe
    _tables: list[pa.Table] = field(default_factory=list)
    _n_rows: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        stream, raster = self.stream, self.raster
        assert stream.key is not None
        assert stream.time is not None
        assert stream.position is not None
        ticks = ticks_of(column_of(batch.column(stream.time), stream.time), stream.time_unit, stream.time)
        keys = plain(batch.column(stream.key))
        lon, lat = (_floats(batch, name) for name in stream.position)
        with np.errstate(invalid="ignore"):
            somewhere = (np.abs(lat) <= 90.0) & (np.abs(lon) <= 360.0)
        somewhere &= ~keys.is_null().to_numpy(zero_copy_only=False)
        if ticks.missing is not None:
            somewhere &= ticks.missing == 0
        at = np.flatnonzero(somewhere)
        span = np.floor(ticks.values[at] / (raster.span_s * ticks.per_unit)).astype(np.int64) >> self.level
        lon, lat = lon[at], lat[at]
        rows = [(at, _cells(lon, lat, raster.side_m) if len(at) else np.zeros(0, np.int64), span)]
        if raster.motion_of(stream):
            rows += self._ahead(batch, at, lon, lat, span)
        for whose, cell, when in rows:
            coarse = _coarser(cell, self.level)
            arrays = [
                keys.take(pa.array(whose)),
                pa.array(coarse),
                pa.array(when),
                pa.array(np.ones(len(whose), np.int64)),
            ]
            table = pa.Table.from_arrays(arrays, names=list(COLUMNS))
            self._tables.append(grouped(table))
            self._n_rows += self._tables[-1].num_rows
        if self._n_rows > MOST_ROWS:
            self._shrink()

    def _ahead(
        self, batch: pa.RecordBatch, at: I64, lon: F64, lat: F64, span: I64
    ) -> list[tuple[npt.NDArray[np.intp], I64, I64]]:
        """The marks on the ways that courses take."""
        assert self.stream.motion is not None
        speed_name, course_name = self.stream.motion
        attribute = self.stream.attribute(speed_name)
        unit = None if attribute is None else attribute.unit
        speed = _floats(batch, speed_name)[at] * (1.0 if unit is None else float(UNITS[unit].factor))
        course = _floats(batch, course_name)[at]
        raster = self.raster
        moves = np.isfinite(speed) & np.isfinite(course) & (speed != 0)
        way_m = np.abs(np.where(moves, speed, 0.0)) * raster.projected_s
        n_steps = ceil(float(way_m.max(initial=0.0)) / (raster.side_m / 2))
        if n_steps > MOST_STEPS:
            self.is_anywhere = True
            return []
        found = []
        for step in range(1, n_steps + 1):
            own = np.flatnonzero(way_m > (step - 1) * raster.side_m / 2)
            with np.errstate(divide="ignore", invalid="ignore"):
                age_s = np.minimum(raster.projected_s, step * (raster.side_m / 2) / np.abs(speed[own]))
            there = np.empty(len(own)), np.empty(len(own))
            geometry.project(lon[own], lat[own], speed[own], course[own], age_s, *there)
            found.append((at[own], _cells(*there, raster.side_m), span[own]))
        return found

    def _shrink(self) -> None:
        table = grouped(pa.concat_tables(self._tables))
        while table.num_rows > MOST_ROWS // 2 and self.level < COARSEST:
            self.level += 1
            table = coarser(table, 1)
        self._tables, self._n_rows = [table], table.num_rows

    def table(self) -> pa.Table | None:
        """All rows; None where nothing was anywhere."""
        return grouped(pa.concat_tables(self._tables)) if self._tables else None


def grouped(table: pa.Table) -> pa.Table:
    """The rows of a table, each once."""
    found = table.group_by(list(COLUMNS[:3]), use_threads=False).aggregate([("n", "sum")])
    return found.rename_columns(list(COLUMNS)).combine_chunks()


def coarser(table: pa.Table, n: int) -> pa.Table:
    """The table with the size of cells and spans doubled `n` times."""
    cell, span = (table.column(name).to_numpy() for name in ("cell", "span"))
    arrays = [table.column("entity"), pa.array(_coarser(cell, n)), pa.array(span >> n), table.column("n")]
    return grouped(pa.Table.from_arrays(arrays, names=list(COLUMNS)))


def axes_of(cell: I64) -> tuple[I64, I64, I64]:
    """The three numbers of a cell."""
    mask = (1 << AXIS_BITS) - 1
    return cell >> (2 * AXIS_BITS), (cell >> AXIS_BITS) & mask, cell & mask


def cell_of(x: I64, y: I64, z: I64) -> I64:
    """The cell of three numbers."""
    return (x << (2 * AXIS_BITS)) | (y << AXIS_BITS) | z


def _coarser(cell: I64, n: int) -> I64:
    return cell if not n else cell_of(*(axis >> n for axis in axes_of(cell)))


def _cells(lon: F64, lat: F64, side_m: float) -> I64:
    points = points_of(np.ascontiguousarray(lon), np.ascontiguousarray(lat))
    # Never below 1: a neighbour is always a number.
    axes = np.floor((points + 1.0) * (EARTH_RADIUS_M / side_m)).astype(np.int64) + 2
    return cell_of(axes[:, 0], axes[:, 1], axes[:, 2])


def _floats(batch: pa.RecordBatch, name: str) -> F64:
    return np.ascontiguousarray(to_float(column_of(batch.column(name), name)))
