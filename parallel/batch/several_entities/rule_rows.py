"""Deals the rows that tasks make for rules to the parts of the rules' groups, and matches them there.

    a target's rows by table ──by the value of the key, or to every part──▶ parcels ──▶ in the order of time ──▶ matches

Every part puts the rows of a table in the order in which one process has them: by the time at which they are known, by
the keys of their entities, and for one entity as its task made them. Equal numbers have equal keys whatever their type.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.arrays import I64
from wayeb_py.compiler.rule_query import KNOWN
from wayeb_py.engine.arrival.entities import Entities
from wayeb_py.engine.arrival.stream_clock import ranks_of_keys
from wayeb_py.engine.rows.detections import Detections
from wayeb_py.engine.rows.joined_schema import fit
from wayeb_py.engine.rules.column_types import plain_array
from wayeb_py.engine.rules.operator import RuleOperator
from wayeb_py.engine.rules.row_batches import SEQ, RowBatch, together
from wayeb_py.parallel.batch.several_entities.event_sender import FIRST
from wayeb_py.parallel.batch.several_entities.rule_groups import RuleGroup
from wayeb_py.parallel.batch.several_entities.spec import SeveralSpec
from wayeb_py.parallel.batch.task import AsideLog, TaskTally, finish
from wayeb_py.parallel.wire.parcel import Parcel, pack, unpack
from wayeb_py.parallel.wire.shards import shard_of
from wayeb_py.parallel.wire.spool import Spool

GATHERED_ROWS = 1 << 16  # rows of a table that are gathered before they are packed
STEP_ROWS = 1 << 17  # rows that enter a network at a time
TARGET_BITS = 40  # below the number of a target, the number of its parcel
_TABLE, _TICKS = b"table", b"ticks_per_s"
_TIME, _VALUE = "t ", "v "


def part_of(values: pa.Array, n_parts: int) -> I64:
    """The part of each row by the value of its key; -1 where it is missing: such a row is in no match."""
    values = plain_array(values)
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        parts = shard_of(values, n_parts).astype(np.int64)
        missing = values.is_null().to_numpy(zero_copy_only=False)
    else:
        numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False) + 0.0  # -0.0 becomes 0.0
        missing = np.isnan(numbers)
        bits: npt.NDArray[np.int64] = np.where(missing, 0.0, numbers).view(np.int64)
        parts = shard_of(pa.array(bits), n_parts).astype(np.int64)
    return np.where(missing, -1, parts)


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
                    for part, own in _dealt(batch, group, table):
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
        tables = [_as_table(batch) for batch in batches]
        packed = pa.concat_tables(tables).combine_chunks()
        self._splits.append(split)
        self._spool.add(pack(packed.replace_schema_metadata({_TABLE: table, _TICKS: str(self._ticks)})))

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


def _dealt(batch: RowBatch, group: RuleGroup, table: str) -> Iterator[tuple[int, RowBatch]]:
    column = group.routes[table]
    if column is None:
        yield from ((part, batch) for part in range(group.n_parts))
        return
    parts = part_of(batch.arrays[column], group.n_parts)
    for part in np.unique(parts[parts >= 0]).tolist():
        yield part, batch.take(np.flatnonzero(parts == part))


def _as_table(batch: RowBatch) -> pa.Table:
    columns = {_TIME + name: pa.array(times) for name, times in batch.times.items()}
    columns |= {_VALUE + name: plain_array(array) for name, array in batch.arrays.items()}
    return pa.table(columns)


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
            tables.setdefault(table.schema.metadata[_TABLE].decode(), []).append(table)
    operator = _operator(spec, split)
    ticks = operator.ticks_per_s
    rows = {name: _in_order(own, ticks) for name, own in tables.items()}
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
    when = {table: _when(batch) for table, batch in rows.items()}
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


def _when(batch: RowBatch) -> I64:
    return batch.times.get(KNOWN, batch.times["ts"])


def _in_order(tables: Sequence[pa.Table], ticks_per_s: int) -> RowBatch:
    """The rows of a table as one process has them, with times in these ticks."""
    own = []
    for table in tables:
        factor = ticks_per_s // int(table.schema.metadata[_TICKS])
        own.append(
            RowBatch(
                table.num_rows,
                {name[2:]: _ticks(table, name, factor) for name in table.column_names if name.startswith(_TIME)},
                {name[2:]: plain_array(table.column(name)) for name in table.column_names if name.startswith(_VALUE)},
            )
        )
    batch = together(own)
    assert batch is not None
    keys = [batch.arrays[name] for name in ("other", "entity") if name in batch.arrays]
    batch = batch.take(np.lexsort((*map(ranks_of_keys, keys), _when(batch))))
    _, numbers = np.unique(ranks_of_keys(batch.arrays["entity"]), return_inverse=True)
    return replace(batch, held={"@number": numbers.reshape(-1).astype(np.int64)})


def _ticks(table: pa.Table, name: str, factor: int) -> I64:
    times: I64 = plain_array(table.column(name)).to_numpy()
    return times if name == _TIME + SEQ else times * factor
