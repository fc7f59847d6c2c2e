"""A detection gets an id that depends on nothing but itself, so that a receiver notices repeats.

The id is a hash of pattern, place, entity, and the times and numbers in the word of its last and first event; that of
an episode hashes both its ends. Batches, workers and restarts do not enter, nor emitted columns or the rest of a file.

A match of a rule has only times and what the rule emits: its id is a hash of all that. Matches that are alike in
everything are decided at one time and so come out together: the second and every further one gets its number too.
Where several tasks match a rule, each numbers its own, and who gathers them numbers them again (`apart_from`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.engine.rows.detection_schema import NAMED_BY, STALE

DETECTION_ID = "detection_id"
FEW_ROWS = 32


def with_ids(table: pa.Table, rules: Collection[str] = ()) -> pa.Table:
    """The table of detections or of episodes with `detection_id` as its first column; `rules` are those of the file."""
    if not rules and table.num_rows <= FEW_ROWS and (few := _few(table)) is not None:
        return _with(table, few)
    if not rules:
        return _with(table, _joined(table, None))
    of_rule = pc.is_in(table.column("pattern").cast(pa.string()), value_set=pa.array(list(rules)))
    return _with(table, _told_apart(_joined(table, of_rule), of_rule.to_pylist()))


def apart_from(table: pa.Table, known: set[str]) -> pa.Table:
    """The table with ids, in which no match of a rule has an id that is known; adds the ids of its matches.

    The ids of all tables of a batch are then those that one table of all their rows would have.
    """
    of_rule = table.column("seq").is_null() if "seq" in table.column_names else None  # matches have no word
    if of_rule is None or not pc.any(of_rule).as_py():
        return table
    ids, is_one = table.column(DETECTION_ID).to_pylist(), of_rule.to_pylist()
    own = {text for text, is_match in zip(ids, is_one, strict=True) if is_match}
    if known.isdisjoint(own):
        known |= own
        return table
    bare = table.drop_columns([DETECTION_ID])
    for row, (text, is_match) in enumerate(zip(_joined(bare, of_rule), is_one, strict=True)):
        if is_match:
            number, ids[row] = 1, _id(text)
            while ids[row] in known:
                number += 1
                ids[row] = _id(f"{text}\x1f{number}")
            known.add(ids[row])
    return bare.add_column(0, DETECTION_ID, pa.array(ids, pa.string()))


def _joined(table: pa.Table, of_rule: pa.ChunkedArray | None) -> list[str]:
    """The texts that name rows; of the rows of rules, where there are some, all that they have."""
    parts = [_texts(table.column(name), name == "other") for name in NAMED_BY if name in table.column_names]
    if of_rule is not None:
        own = [name for name in table.column_names if name not in NAMED_BY and name != STALE]
        parts += [_only(of_rule, name, table.column(name)) for name in own]
    joined: list[str] = pc.binary_join_element_wise(*parts, "\x1f", null_handling="skip").to_pylist()
    return joined


def _with(table: pa.Table, texts: list[str]) -> pa.Table:
    return table.add_column(0, DETECTION_ID, pa.array(map(_id, texts), pa.string()))


def _id(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()


def ids_of_values(columns: Mapping[str, list[Any]]) -> list[str]:
    """The ids of detections of patterns that are given as values by column, times in ticks of their type."""
    return [_id(text) for text in _named([(name, columns[name]) for name in NAMED_BY if name in columns])]


def _named(columns: list[tuple[str, list[Any]]]) -> list[str]:
    """The texts that name rows, of the columns that identify them."""
    texts = [
        [(None if name == "other" else "\x1e") if value is None else str(value) for value in values]
        for name, values in columns
    ]
    return ["\x1f".join([text for text in row if text is not None]) for row in zip(*texts, strict=True)]


def _few(table: pa.Table) -> list[str] | None:
    """The texts that name a few rows, made value by value, which costs less than Arrow's calls; None where a type needs
    Arrow."""
    columns: list[tuple[str, list[Any]]] = []
    own = dict(zip(table.column_names, table.columns, strict=True))
    for name in NAMED_BY:
        column = own.get(name)
        if column is None:
            continue
        type_ = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if pa.types.is_timestamp(type_):
            values = [value for chunk in column.chunks for value in chunk.view(pa.int64()).to_pylist()]
        elif pa.types.is_integer(type_) or pa.types.is_string(type_):
            values = column.to_pylist()
        else:
            return None
        columns.append((name, values))
    return _named(columns)


def with_id_first(schema: pa.Schema) -> pa.Schema:
    """The schema of a table after `with_ids`."""
    return schema.insert(0, pa.field(DETECTION_ID, pa.string()))


def _texts(column: pa.ChunkedArray, may_lack: bool = False) -> pa.ChunkedArray:
    """The values as text; a missing value becomes a sign of its own, or, in a column that most files lack, nothing."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    texts = column.cast(pa.string())
    return texts if may_lack else pc.fill_null(texts, "\x1e")


def _only(of_rule: pa.ChunkedArray, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """`name=value` in the rows of rules that have a value."""
    told = pc.binary_join_element_wise(f"{name}=", _texts(column, may_lack=True), "")
    return pc.if_else(of_rule, told, pa.scalar(None, pa.string()))


def _told_apart(texts: list[str], of_rule: list[bool]) -> list[str]:
    """The texts; among equal texts of rules, the second and further ones get their number."""
    seen: Counter[str] = Counter()
    apart = []
    for text, is_one in zip(texts, of_rule, strict=True):
        seen[text] += is_one
        apart.append(f"{text}\x1f{seen[text]}" if seen[text] > 1 else text)
    return apart
