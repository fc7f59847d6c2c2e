"""How near two entities came, and why an event of one of them does not count for the pair.

The operator of pairs runs again, with a reach around the earth and everything fresh: it gives all events of the
two, each with the distance and with the age of both entities' newest events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.arrays import I64
from wayeb_py.compiler.describe import amount_text, quantity_text
from wayeb_py.dsl import meaning as m
from wayeb_py.why.explanation import Apart
from wayeb_py.why.pairs.encounters import Encounters, Two, encounters_of

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns

AROUND_THE_EARTH_M = Fraction(20_100_000)  # more than half of a great circle
ALWAYS_S = Fraction(2**62, 10**9)  # 146 years, which is as many nanoseconds as a clock can count


@dataclass(frozen=True, slots=True)
class TwoTracks:
    """All events of two entities, from the moment when both have reported."""

    events: Encounters
    two: Two
    each: m.EachPair

    @property
    def _ages(self) -> tuple[I64, I64]:
        """How old the newest event of a and of b is, in ticks; [row]."""
        return self.events.age("a"), self.events.age("b")

    @property
    def _is_fresh(self) -> npt.NDArray[np.bool_]:
        return np.maximum(*self._ages) <= floor(self.each.fresh_s * self.events.chunk.ticks_per_s)

    def row_at(self, ticks: int) -> int | None:
        """The last event at or before a time."""
        after = int(np.searchsorted(self.events.chunk.ts, ticks, "right"))
        return after - 1 if after else None

    def apart_at(self, row: int, n_encounters: int) -> Apart:
        """Why the event does not count for the pair, which met `n_encounters` times."""
        distance_m, is_fresh = self.events.pairs.distance_m, self._is_fresh
        older = np.maximum(*self._ages)
        closest = int(np.argmin(np.where(is_fresh, distance_m, np.inf)))
        freshest = int(np.argmin(older))
        time = self.events.time_text
        a_s, b_s, least_s = (self._seconds(ages[at]) for ages, at in ((self._ages[0], row), (self._ages[1], row),
                                                                    (older, freshest)))  # fmt: skip
        return Apart(
            self._reason(row), float(self.each.reach_m), float(self.each.fresh_s),
            float(distance_m[row]) if is_fresh[row] else None, (a_s, b_s),
            float(distance_m[closest]) if is_fresh[closest] else None, time(closest) if is_fresh[closest] else None,
            least_s, time(freshest), n_encounters,
        )  # fmt: skip

    def _reason(self, row: int) -> str:
        fresh = floor(self.each.fresh_s * self.events.chunk.ticks_per_s)
        stale = [
            f"the newest event of {key} is {too_old_text(self._seconds(ages[row]), self.each.fresh_s)}"
            for key, ages in zip(self.two, self._ages, strict=True)
            if ages[row] > fresh
        ]
        if stale:
            return " and ".join(stale)
        too_far = too_far_text(float(self.events.pairs.distance_m[row]), self.each.reach_m, " apart")
        return f"they are {too_far}"

    def _seconds(self, ticks: np.int64) -> float:
        return int(ticks) / self.events.chunk.ticks_per_s


def too_far_text(distance_m: float, reach_m: Fraction, apart: str) -> str:
    """A distance and by how much it is more than the reach."""
    more = amount_text(distance_m - float(reach_m), " m")
    return f"{amount_text(distance_m, ' m')}{apart}, {more} more than the reach of {quantity_text(reach_m, ' m')}"


def too_old_text(age_s: float, fresh_s: Fraction) -> str:
    """An age and by how much it is more than the freshness."""
    more = amount_text(age_s - float(fresh_s), " s")
    return f"{amount_text(age_s, ' s')} old, {more} more than the freshness of {quantity_text(fresh_s, ' s')}"


def tracks_of_two(patterns: CompiledPatterns, name: str, tables: Mapping[str, pa.Table], two: Two) -> TwoTracks:
    """All events of two entities, near each other or not; the keys, or the streams, may decide which is a."""
    patterns = patterns.select([name])
    pattern = patterns.meaning.patterns[0]
    assert pattern.pair is not None
    wide = replace(pattern, pair=replace(pattern.pair, reach_m=AROUND_THE_EARTH_M, fresh_s=ALWAYS_S))
    meaning = replace(patterns.meaning, patterns=(wide, *patterns.meaning.patterns[1:]))
    wanted = [two] if pattern.pair.ordered else [two, (two[1], two[0])]
    events = encounters_of(replace(patterns, meaning=meaning), name, tables, wanted)
    return TwoTracks(events, next(iter(events.first), two), pattern.pair)
