"""Values that cannot be true become missing, and are counted: what `clean ais` and `clean gps` do.

    clean ais   speed        below 0, or the 102.3 knots that mean "not available"
                course       below 0, or 360 (not available) and beyond
                heading      below 0, or beyond 360 (511: not available)
                position     a latitude beyond 90 (91: not available) or a longitude beyond 180 (181)
                             a jump: farther from the last position that was kept than 102.2 knots allow, and 100 m
    clean gps   speed        below 0, or over 300 km/h
                course, heading   below 0, or beyond 360
                position     out of range, or exactly 0, 0
                             a jump: farther from the last position that was kept than 300 km/h allow, and 100 m

A position becomes missing as a whole, in both columns. Speed, course and heading are known by their usual names
(`speed`, `sog`, `cog`, …); a speed is in the unit that its attribute declares, else in knots for `ais` and km/h for
`gps`. Only columns that some pattern looks at are cleaned and counted. Nothing is repaired: a value that a cleaner
makes up would be false as well. The numbers that AIS uses for "not available" are counted apart from values out of
range: the former are as they should be, and many of the latter are a warning, since good values may be among them
(NOAA's negative courses are).

A first position that is wrong makes the true ones after it look like jumps, until enough time has passed that the
distance is possible: for 100 km half an hour. Looking ahead would show which of two is wrong, and would make the answer
depend on events that have not arrived yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from wayeb_py.arrays import F64, Bool
from wayeb_py.column_names import COMMON_SPELLINGS, find_spelling
from wayeb_py.dsl.meaning import Stream
from wayeb_py.dsl.units import UNITS
from wayeb_py.engine.arrival.reorder import Rows
from wayeb_py.growing_arrays import lengthened, with_room
from wayeb_py.kernels.clean import KeptPositions, mark_jumps
from wayeb_py.kernels.ticks import NEVER

KN_IN_M_S = 1852 / 3600
KMH_IN_M_S = 1 / 3.6
SLACK_M = 100.0  # error of two receivers, or of one that has just been switched on

SPEED, COURSE, HEADING = "speed out of range", "course out of range", "heading out of range"
UNKNOWN = "not available"  # the end of the reason for a number that means "not available"
POSITION, JUMP = "position out of range", "impossible jump"


MANY = 0.03  # the share of events whose loss is worth a warning


def unknown_reason(reason: str) -> str:
    """`course not available` for `course out of range`."""
    return f"{reason.partition(' ')[0]} {UNKNOWN}"


def losses(cleaned: Mapping[str, int], n_events: int, what: str | None) -> list[str]:
    """A sentence for each reason for which `clean` took more than a few per cent of the values as missing."""
    found = []
    for reason, count in sorted(cleaned.items()):
        if not reason.endswith(UNKNOWN) and count > MANY * n_events:
            column = {POSITION: "position", JUMP: "position"}.get(reason, reason.partition(" ")[0])
            found.append(
                f"clean {what} took the {column} of {count / n_events:.0%} of the events as missing ({count:,} of "
                f"{n_events:,}: {reason}); look at some before you trust it, or run without it"
            )
    return found


@dataclass(frozen=True, slots=True)
class _Limit:
    """The values of a column that are out of range, and the one that says "not available"."""

    column: str
    reason: str
    limit: float
    limit_is_out: bool
    unknown: float | None
    slack: float  # for a number that was converted from tenths


@dataclass(frozen=True, slots=True)
class Rules:
    """What counts as impossible."""

    unit: str  # the unit of a speed that declares none
    speed_m_s: float  # greater values are no speed
    course_end: float  # courses are below this
    heading_last: float  # headings are at most this
    jump_m_s: float
    null_island: bool  # a position of exactly 0, 0 is none
    has_unknowns: bool  # 102.3 kn, a course of 360, a heading of 511, a longitude of 181, a latitude of 91


RULES: dict[str, Rules] = {
    "ais": Rules("kn", 102.25 * KN_IN_M_S, 360.0, 360.0, 102.2 * KN_IN_M_S, False, True),
    "gps": Rules("km/h", 300 * KMH_IN_M_S, np.nextafter(360.0, 361.0), 360.0, 300 * KMH_IN_M_S, True, False),
}


class Cleaner:
    """Cleans the events of one stream, in the order of each entity's time; remembers positions by entity."""

    def __init__(self, stream: Stream, schema: pa.Schema, ticks_per_s: int, forget: int) -> None:
        assert stream.clean is not None
        self.what: Literal["ais", "gps"] = stream.clean
        self.rules = rules = RULES[stream.clean]
        self.counts: Counter[str] = Counter()
        self._forget = forget
        self._jump_m_per_tick = rules.jump_m_s / ticks_per_s
        numbers = tuple(field.name for field in schema if _is_number(field.type))
        units = {attribute.name: attribute.unit for attribute in stream.attributes}
        self._limits: list[_Limit] = []
        ais = rules.has_unknowns
        if (speed := find_spelling(numbers, COMMON_SPELLINGS["speed"])) is not None:
            per_unit = float(UNITS[units.get(speed) or rules.unit].factor)
            kn = KN_IN_M_S / per_unit
            unknown = 102.3 * kn if ais else None
            self._limits.append(_Limit(speed, SPEED, rules.speed_m_s / per_unit, False, unknown, 0.05 * kn))
        if (course := find_spelling(numbers, COMMON_SPELLINGS["course"])) is not None:
            self._limits.append(_Limit(course, COURSE, rules.course_end, True, 360.0 if ais else None, 0.05))
        if (heading := find_spelling(numbers, COMMON_SPELLINGS["heading"])) is not None:
            self._limits.append(_Limit(heading, HEADING, rules.heading_last, False, 511.0 if ais else None, 0.05))
        position = stream.position
        self._position = position if position is not None and set(position) <= set(numbers) else None
        # [entity]: the last position that was kept and its time, NaN where there is none; the last event's time.
        self.arrays: dict[str, npt.NDArray[Any]] = {
            "lon": np.zeros(0),
            "lat": np.zeros(0),
            "kept_ts": np.zeros(0, dtype=np.int64),
            "event_ts": np.zeros(0, dtype=np.int64),
        }

    def grow(self, n_entities: int) -> None:
        """Makes room for entities up to this number."""
        if n_entities <= len(self.arrays["lon"]):
            return
        for name, array in self.arrays.items():
            fill = np.nan if array.dtype == np.float64 else NEVER
            self.arrays[name] = lengthened(array, with_room(n_entities), fill)

    def clean(self, rows: Rows) -> Rows:
        """The rows, with values that cannot be true missing."""
        batch = rows.batch
        for limit in self._limits:
            values = _floats(batch.column(limit.column))
            with np.errstate(invalid="ignore"):
                beyond = values >= limit.limit if limit.limit_is_out else values > limit.limit
                out = (values < 0) | beyond
            if out.any():
                batch = self._mark(batch, (limit.column,), out, limit.reason)
                if limit.unknown is not None:
                    self._count_unknown(limit.reason, np.abs(values[out] - limit.unknown) <= limit.slack)
        if self._position is not None:
            batch = self._clean_positions(batch, rows, self._position)
        return rows if batch is rows.batch else Rows(batch, rows.entity, rows.ts)

    def _clean_positions(self, batch: pa.RecordBatch, rows: Rows, position: tuple[str, str]) -> pa.RecordBatch:
        lon, lat = (_floats(batch.column(column)) for column in position)
        with np.errstate(invalid="ignore"):
            out = (np.abs(lon) > 180) | (np.abs(lat) > 90)
            if self.rules.null_island:
                out |= (lon == 0) & (lat == 0)
        batch = self._mark(batch, position, out, POSITION)
        if self.rules.has_unknowns and out.any():
            self._count_unknown(POSITION, (lon[out] == 181) | (lat[out] == 91))
        unknown = out | np.isnan(lon) | np.isnan(lat)
        jumps = np.zeros(len(rows), dtype=np.uint8)
        self.grow(int(rows.entity.max()) + 1 if len(rows) else 0)
        mark_jumps(
            rows.entity,
            rows.ts,
            np.where(unknown, np.nan, lon),
            np.where(unknown, np.nan, lat),
            self._forget,
            self._jump_m_per_tick,
            SLACK_M,
            tuple(KeptPositions(**self.arrays)),
            jumps,
        )
        return self._mark(batch, position, jumps != 0, JUMP)

    def _count_unknown(self, reason: str, told: Bool) -> None:
        """Moves the values that mean "not available" from the count of values out of range to a count of their own."""
        n_told = int(told.sum())
        if n_told:
            self.counts[unknown_reason(reason)] += n_told
            self.counts[reason] -= n_told
            if not self.counts[reason]:
                del self.counts[reason]

    def _mark(self, batch: pa.RecordBatch, columns: tuple[str, ...], out: Bool, reason: str) -> pa.RecordBatch:
        n_out = int(out.sum())
        if n_out == 0:
            return batch
        self.counts[reason] += n_out
        mask = pa.array(out)
        for column in columns:
            at = batch.schema.get_field_index(column)
            values = batch.column(at)
            missing = pc.if_else(mask, pa.scalar(None, values.type), values)
            batch = batch.set_column(at, batch.schema.field(at).with_nullable(True), missing)
        return batch


def _is_number(type_: pa.DataType) -> bool:
    return bool(pt.is_integer(type_) or pt.is_floating(type_) or pt.is_decimal(type_))


def _floats(array: pa.Array) -> F64:
    """The values as floats, missing as NaN."""
    values: F64 = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values
