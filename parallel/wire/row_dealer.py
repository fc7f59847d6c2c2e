"""A shard deals the rows that it makes for rules to the parts in which they meet, and says how far the clock is.

    rows that the clock has passed, by table ──▶ gathered by part, rule and table ──▶ parcels
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from wayeb_py.engine.rules.operator import RuleOperator
from wayeb_py.engine.rules.row_batches import RowBatch
from wayeb_py.parallel.wire.keyed_rows import KeyedRule, dealt, pack_rows
from wayeb_py.parallel.wire.packer import NUMBER_BITS
from wayeb_py.parallel.wire.parcel import Parcel

GATHERED_ROWS = 1 << 18  # rows that a shard gathers before it packs them


@dataclass(frozen=True, slots=True)
class Told:
    """What the first shard tells all parts of a batch: the version of the patterns, that of the batch before, the time
    that the clock has passed, how far each stream reached where the input has ended, and the batch that they have their
    states by, where these are objects."""

    version: int
    before: int
    passed_s: Fraction | None
    ended_s: Mapping[str, Fraction] | None = None
    span: Sequence[Any] | None = None  # as JSON

    def to_json(self) -> bytes:
        ended = None if self.ended_s is None else {name: str(time_s) for name, time_s in self.ended_s.items()}
        passed = None if self.passed_s is None else str(self.passed_s)
        return json.dumps([self.version, self.before, passed, ended, self.span]).encode()

    @classmethod
    def from_json(cls, payload: bytes) -> Told:
        version, before, passed, ended, span = json.loads(payload)
        passed_s = None if passed is None else Fraction(passed)
        reached_s = None if ended is None else {name: Fraction(time_s) for name, time_s in ended.items()}
        return cls(version, before, passed_s, reached_s, span)


class RowDealer:
    """Deals the rows of one shard and batch; a part has the number of a shard after all others."""

    def __init__(
        self, keyed: Sequence[KeyedRule], n_parts: int, n_shards: int, shard: int, rules: RuleOperator
    ) -> None:
        self._keyed, self._n_parts, self._n_shards = keyed, n_parts, n_shards
        self._shard, self._rules = shard, rules
        self._gathered: dict[tuple[int, str, str], list[RowBatch]] = {}
        self._n_rows = self._n_parcels = 0

    def deal(self) -> Iterator[Parcel]:
        """Takes the rows that the clock has passed, and returns the parcels that are full."""
        for table, batch in self._rules.leaving:
            for rule in self._keyed:
                if batch.n and table in rule.routes:
                    for part, own in dealt(batch, rule.routes[table], self._n_parts):
                        self._gathered.setdefault((part, rule.name, table), []).append(own)
                        self._n_rows += own.n
        self._rules.leaving.clear()
        if self._n_rows >= GATHERED_ROWS:
            yield from self._pack()

    def finish(
        self, version: int, before: int, *, ended: bool, span: Sequence[Any] | None = None
    ) -> Iterator[Parcel]:
        """The parcels of the rows that remain; the first shard says how far the clock is."""
        yield from self.deal()
        yield from self._pack()
        if self._shard == 0:
            told = Told(version, before, self._rules.passed_s, self._rules.reached_s if ended else None, span)
            for part in range(self._n_parts):
                yield Parcel("reached", self._n_shards + part, 0, told.to_json())

    def _pack(self) -> Iterator[Parcel]:
        for (part, rule, table), batches in self._gathered.items():
            payload = pack_rows(batches, table, self._rules.ticks_per_s, rule)
            yield Parcel("rows", self._n_shards + part, self._shard << NUMBER_BITS | self._n_parcels, payload)
            self._n_parcels += 1
        self._gathered, self._n_rows = {}, 0
