"""Detections that leave too late are marked `stale`, or dropped: `valid for 2 s [else mark | else drop]`.

The lateness of a detection counts from its last event (`ts`); the lateness of a rule's match counts from its earliest
member (`start_ts`). A kept rule says that a match begins or ends, and the lateness of that counts from then (`ts`).
What files say holds from the beginning of time, and is never stale.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.arrays import F64, Bool
from wayeb_py.columns import column_of, ticks_of
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.rows.detection_schema import STALE
from wayeb_py.errors import DataError

DAY_S = 86_400.0
Ages = tuple[Collection[str], Collection[str]]  # names of what left a day after it was stale, and of what left before


@dataclass(frozen=True, slots=True)
class Judged:
    """Detections without the dropped ones, and which of all were stale."""

    table: pa.Table
    is_stale: Bool
    n_marked: int
    n_dropped: int
    ages: Ages = ((), ())


class Validity:
    """How long the detections of each pattern and rule are valid."""

    def __init__(self, patterns: CompiledPatterns) -> None:
        meaning = patterns.meaning
        every: list[m.Pattern | m.Rule] = [*meaning.patterns, *meaning.rules]
        services = {one.name: one.service for one in every}
        self._valid_s = {name: float(one.valid_s) for name, one in services.items() if one.valid_s is not None}
        self._dropping = {name for name, one in services.items() if one.valid_s is not None and one.drops_stale}
        kept = {rule.name for rule in meaning.rules if rule.kept}
        self._from_start = set(patterns.rule_names) - kept
        self._time_unit = meaning.stream.time_unit
        self.marks = bool(self._valid_s.keys() - self._dropping)
        if self.marks and STALE in patterns.emitted:
            raise DataError(
                f"detections that leave too late have `{STALE}` true, and something emits a column of that name",
                hint=f"call it otherwise: emit x as {STALE}_x",
            )

    @property
    def asks(self) -> bool:
        """Whether any detection can be stale."""
        return bool(self._valid_s)

    def asks_of(self, names: Iterable[str]) -> bool:
        """Whether any detection of these patterns and rules can be stale."""
        return any(name in self._valid_s for name in names)

    def judge(self, table: pa.Table, now_s: float, decided: Bool | None = None, drops: bool | Bool = True) -> Judged:
        """What leaves now; `decided` says which are stale in place of the clock. drops=False drops nothing, and rows
        for which it is false stay."""
        n = table.num_rows
        is_stale = np.zeros(n, dtype=bool)
        ages: Ages = ((), ())
        if n and self._valid_s:
            names = table.column("pattern").cast(pa.string()).to_pylist()
            if decided is None:
                last = "ts" if "ts" in table.column_names else "end_ts"
                valid_s = np.array([self._valid_s.get(name, np.inf) for name in names])
                of_rule = np.array([name in self._from_start for name in names], dtype=bool)
                last_s = np.where(of_rule, self._seconds(table, "start_ts"), self._seconds(table, last))
                late_s = now_s - last_s - valid_s
                is_stale = late_s > 0
                old = {name for name, one_s in zip(names, late_s.tolist(), strict=True) if one_s > DAY_S}
                ages = old, {name for name, one_s in zip(names, late_s.tolist(), strict=True) if one_s <= DAY_S}
            else:
                is_stale = decided
            dropped = is_stale & drops & np.array([name in self._dropping for name in names], dtype=bool)
        else:
            dropped = is_stale
        if self.marks:
            table = table.append_column(STALE, pa.array(is_stale))
        if dropped.any():
            table = table.filter(pc.invert(pa.array(dropped)))
        return Judged(table, is_stale, int((is_stale & ~dropped).sum()), int(dropped.sum()), ages)

    def _seconds(self, table: pa.Table, name: str) -> F64:
        ticks = ticks_of(column_of(table.column(name).combine_chunks(), name), self._time_unit, name)
        seconds = np.asarray(ticks.values / ticks.per_unit, dtype=np.float64)
        return seconds if ticks.missing is None else np.where(ticks.missing != 0, np.inf, seconds)
