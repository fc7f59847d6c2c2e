"""Deals the rows that tasks make for rules to the parts of the rules' groups, and matches them there.

    a target's rows by table ──`keyed_rows`──▶ parcels ──▶ in the order of time ──▶ matches
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

import numpy as np
import pyarrow as pa

from wayeb_py.arrays import I64
from wayeb_py.engine.arrival.entities import Entities
from wayeb_py.engine.rows.detections import Detections
from wayeb_py.engine.rows.joined_schema import fit
from wayeb_py.engine.rules.operator import RuleOperator
from wayeb_py.engine.rules.row_batches import RowBatch
from wayeb_py.parallel.batch.several_entities.event_sender import FIRST
from wayeb_py.parallel.batch.several_entities.spec import SeveralSpec
from wayeb_py.parallel.batch.task import AsideLog, TaskTally, finish
from wayeb_py.parallel.wire.keyed_rows import dealt, in_order, pack_rows, rule_and_table, when_known
from wayeb_py.parallel.wire.parcel import Parcel, unpack
from wayeb_py.parallel.wire.spool import Spool

GATHERED_ROWS = 1 << 16  # rows of a table that are gathered before they are packed
STEP_ROWS = 1 << 17  # rows that enter a network at a time
TARGET_BITS = 40  # below the number of a target, the number of its parcel


class RowSender:
    """Deals the rows of one target to the parts of all groups; keeps the parcels until the target has ended."""

    def __init__(self, spec: SeveralSpec, target: int) -> None:
        self._spec, self._target = spec, target
        self._gathered: dict[tuple[int, str], list[RowBatch]] = {}
        self._n_gathered: dict[tuple[int, str], int] = {}
        self._splits: list[int] = []
        self._spool = Spool()
        self._ticks = 1

    def add(self, rows: Iterable[tuple[str, RowBatch]], ticks_per_s: int) -> None:
        """Takes rows by table, with their times in these ticks."""
        self._ticks = ticks_per_s
        for table, batch in rows:
            for number, group in enumerate(self._spec.rule_groups):
                if batch.n and table in group.routes:
                    for part, own in dealt(batch, group.routes[table], group.n_parts):
                        self._gather(self._spec.first_part(number) + part, table, own)

    def _gather(self, split: int, table: str, batch: RowBatch) -> None:
        place = split, table
        self._gathered.setdefault(place, []).append(batch)
        self._n_gathered[place] = self._n_gathered.get(place, 0) + batch.n
        if self._n_gathered[place] >= GATHERED_ROWS:
            self._flush(place)

    def _flush(self, place: tuple[int, str]) -> None:
        split, table = place
        batches = self._gathered.pop(place)
        del self._n_gathered[place]
        self._splits.append(split)
        self._spool.add(pack_rows(batches, table, self._ticks))

    def forget(self) -> None:
        self._gathered, self._n_gathered, self._splits = {}, {}, []
        self._spool.clear()

    def finish(self, reached_s: Mapping[str, Fraction]) -> Iterator[Parcel]:
        """All parcels; the first target says how far each stream reaches."""
        for place in list(self._gathered):
            self._flush(place)
        if self._target == 0:
            told = json.dumps({name: str(time_s) for name, time_s in reached_s.items()}).encode()
            for part in range(self._spec.n_parts):
                yield Parcel("ended", self._spec.first_part(0) + part, FIRST, told)
        for number, (split, payload) in enumerate(zip(self._splits, self._spool, strict=True)):
            yield Parcel("rows", split, self._target << TARGET_BITS | number, payload)
        self._spool.close()


def run_rules(spec: SeveralSpec, split: int, parcels: Iterable[Parcel]) -> Iterator[Parcel]:
    """What a part of a group of rules reports, its tally last."""
    assert spec.joined is not None
    reached_s: dict[str, Fraction] = {}
    tables: dict[str, list[pa.Table]] = {}
    for parcel in parcels:
        if parcel.kind == "ended":
            reached_s = {name: Fraction(time_s) for name, time_s in json.loads(parcel.payload).items()}
        else:
            table = unpack(parcel.payload)
            tables.setdefault(rule_and_table(table)[1], []).append(table)
    operator = _operator(spec, split)
    ticks = operator.ticks_per_s
    rows = {name: in_order(own, ticks) for name, own in tables.items()}
    output, aside, tally = spec.output(split, spec.joined.time_unit), AsideLog(), TaskTally()
    for found in _matches(operator, rows, reached_s):
        tally.detections.update(found.counts())
        table = found.episodes() if spec.episodes else found.to_arrow()
        if table.num_rows:
            output.write(fit(table, operator.schema, spec.joined, episodes=spec.episodes))
    yield from finish(split, tally, output, aside, accounts=False)


def _operator(spec: SeveralSpec, split: int) -> RuleOperator:
    group = spec.group_at(split)
    patterns = spec.patterns_matched(group)
    others = [rule.name for rule in patterns.meaning.rules if rule.name not in group.read]
    plans = {name: plan for name, plan in spec.plans.items() if name in group.read}
    operator = RuleOperator(patterns, {}, plans, others)
    for stream in spec.streams:
        key = patterns.by_stream[stream.name].stream.key
        assert key is not None
        operator.bind(stream.name, stream.schema, Entities(stream.schema.field(key).type, key))
    return operator


def _matches(
    operator: RuleOperator, rows: Mapping[str, RowBatch], reached_s: Mapping[str, Fraction]
) -> Iterator[Detections]:
    """The matches of all rows, some steps of time at a time."""
    when = {table: when_known(batch) for table, batch in rows.items()}
    every = np.sort(np.concatenate([np.zeros(0, np.int64), *when.values()]))
    done = dict.fromkeys(rows, 0)
    for until in np.unique(every[STEP_ROWS::STEP_ROWS]).tolist():
        yield operator.take(_slices(rows, when, done, until), until)
    rest = ((table, batch.take(np.arange(done[table], batch.n))) for table, batch in rows.items())
    yield operator.end(rest, reached_s)


def _slices(
    rows: Mapping[str, RowBatch], when: Mapping[str, I64], done: dict[str, int], until: int
) -> Iterator[tuple[str, RowBatch]]:
    """The rows that became known before a time and have not been taken; notes that they are."""
    for table, batch in rows.items():
        end = int(np.searchsorted(when[table], until, side="left"))
        if end > done[table]:
            yield table, batch.take(np.arange(done[table], end))
            done[table] = end
