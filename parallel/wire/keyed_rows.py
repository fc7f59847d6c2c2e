"""Rows of rules are dealt to parts by the value of a key, travel as parcels, and are put in order where they meet.

    rows by table ──by the value of the key, or to every part──▶ parcels ──▶ in the order of time, by table

Every part puts the rows of a table in the order in which one process has them: by the time at which they are known, by
their own times (words that the input ends are all known then), by the keys of their entities, and for one entity as its
task made them. Equal numbers go to one part whatever their type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.arrays import I64
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.compiler.placement import place_rule
from wayeb_py.compiler.rule_keys import RuleKey, key_in_streams, routes_by
from wayeb_py.compiler.rule_query import KNOWN
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.arrival.entities import Entities
from wayeb_py.engine.arrival.stream_clock import ranks_of_keys
from wayeb_py.engine.rules.column_types import plain_array
from wayeb_py.engine.rules.inputs import RuleInputs
from wayeb_py.engine.rules.row_batches import SEQ, RowBatch, together
from wayeb_py.parallel.wire.parcel import pack
from wayeb_py.parallel.wire.shards import shard_of

_TABLE, _TICKS, _RULE = b"table", b"ticks_per_s", b"rule"
_TIME, _VALUE = "t ", "v "

Routes = Mapping[str, str | None]  # by table, the column that says in which part a row is needed; None: in all of them


# Keys.


@dataclass(frozen=True, slots=True)
class KeyedRule:
    """A rule all of whose rows share a key: they meet in the part of its value."""

    name: str
    key: RuleKey
    routes: Routes


def keyed_rules(patterns: CompiledPatterns, schemas: Mapping[str, pa.Schema]) -> tuple[KeyedRule, ...]:
    """The reported rules of a stream whose rows meet by a key, though not by entity."""
    meaning = patterns.meaning
    rules = [one for one in meaning.rules if one.name in patterns.rule_names]
    apart = (rule for rule in rules if place_rule(rule, meaning).where != "by entity")
    found = [(rule, key) for rule in apart if (key := key_in_streams(rule, meaning)) is not None]
    if not found:
        return ()
    inputs = bound_inputs(patterns, schemas)
    return tuple(
        KeyedRule(rule.name, key, routes_by(rule, key, meaning) or {})
        for rule, key in found
        if are_dealt_alike(rule, key, inputs)
    )


def bound_inputs(patterns: CompiledPatterns, schemas: Mapping[str, pa.Schema]) -> RuleInputs:
    """What rules range over, bound to the types of the streams' events."""
    inputs = RuleInputs(patterns, {})
    for name, schema in schemas.items():
        key = patterns.by_stream[name].stream.key
        assert key is not None
        inputs.bind(name, schema, Entities(schema.field(key).type, key))
    return inputs


def are_dealt_alike(rule: m.Rule, key: RuleKey, inputs: RuleInputs) -> bool:
    """Whether values of a key that are equal are dealt to the same part: numbers, texts and truth values are."""
    types = [inputs.type_of(rule.member(name), column) for name, column in key.columns.items()]
    types = [one.value_type if pa.types.is_dictionary(one) else one for one in types]
    are_text = {pa.types.is_string(one) or pa.types.is_large_string(one) for one in types}
    return len(are_text) == 1 and (
        True in are_text
        or all(pa.types.is_integer(one) or pa.types.is_floating(one) or pa.types.is_boolean(one) for one in types)
    )


# To the parts.


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


def dealt(batch: RowBatch, column: str | None, n_parts: int) -> Iterator[tuple[int, RowBatch]]:
    """The rows of each part that has some, by the column that says in which they are needed."""
    if column is None:
        yield from ((part, batch) for part in range(n_parts))
        return
    parts = part_of(batch.arrays[column], n_parts)
    for part in np.unique(parts[parts >= 0]).tolist():
        yield part, batch.take(np.flatnonzero(parts == part))


def pack_rows(batches: Sequence[RowBatch], table: str, ticks_per_s: int, rule: str = "") -> bytes:
    """Rows of a table as bytes, with the unit of their times, and the rule that they are for, where others have rows of
    their own."""
    packed = pa.concat_tables([_as_table(batch) for batch in batches]).combine_chunks()
    return pack(packed.replace_schema_metadata({_TABLE: table, _TICKS: str(ticks_per_s), _RULE: rule}))


def _as_table(batch: RowBatch) -> pa.Table:
    columns = {_TIME + name: pa.array(times) for name, times in batch.times.items()}
    columns |= {_VALUE + name: plain_array(array) for name, array in batch.arrays.items()}
    return pa.table(columns)


# In a part.


def rule_and_table(packed: pa.Table) -> tuple[str, str]:
    """Whose rows these are: the rule, empty where none was named, and the table."""
    return packed.schema.metadata[_RULE].decode(), packed.schema.metadata[_TABLE].decode()


def in_order(
    tables: Sequence[pa.Table], ticks_per_s: int, number: Callable[[pa.Array], I64] | None = None
) -> RowBatch:
    """The rows of a table as one process has them, with times in these ticks.

    `number` gives the numbers of entities by their keys, where rows still come; otherwise these rows are all.
    """
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
    batch = batch.take(np.lexsort((*map(ranks_of_keys, keys), batch.times["ts"], when_known(batch))))
    if number is not None:
        return replace(batch, held={"@number": number(batch.arrays["entity"])})
    _, numbers = np.unique(ranks_of_keys(batch.arrays["entity"]), return_inverse=True)
    return replace(batch, held={"@number": numbers.reshape(-1).astype(np.int64)})


def when_known(batch: RowBatch) -> I64:
    """The time at which each row is known."""
    return batch.times.get(KNOWN, batch.times["ts"])


def _ticks(table: pa.Table, name: str, factor: int) -> I64:
    times: I64 = plain_array(table.column(name)).to_numpy()
    return times if name == _TIME + SEQ else times * factor
