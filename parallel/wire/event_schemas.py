"""The types of the events of a file's streams become one schema, and come apart again.

    one stream        mmsi: int64, ts: int64, …                            its columns
    several streams   vessels: struct<mmsi, ts, …>, radar: struct<…>       a struct for each

So a checkpoint keeps one schema, whatever the file. *Not taken*: columns with the name of their stream before a dot,
which a column of one stream may have as well (`weather.ice`).
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.files.projection import Wanted


def has_several(patterns: CompiledPatterns) -> bool:
    """Whether the file of these patterns has several streams."""
    return len(patterns.meaning.streams) > 1


def wanted_by_stream(patterns: CompiledPatterns) -> dict[str, Wanted]:
    """The columns that are read of each stream."""
    parts = patterns.by_stream
    return {name: Wanted.from_needs(part.needs, part.stream.time_unit) for name, part in parts.items()}


def join_streams(patterns: CompiledPatterns, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
    """The types of the events of all streams."""
    if not has_several(patterns):
        (schema,) = schemas.values()
        return schema
    return pa.schema([(name, pa.struct(list(schema))) for name, schema in schemas.items()])


def by_stream(patterns: CompiledPatterns, schema: pa.Schema) -> dict[str, pa.Schema]:
    """The types of the columns that are read of each stream, as far as they are known."""
    found = {}
    for name, wanted in wanted_by_stream(patterns).items():
        if not has_several(patterns):
            known = {field.name: field for field in schema}
        elif name in schema.names:
            known = {field.name: field for field in schema.field(name).type}
        else:
            known = {}
        found[name] = pa.schema([known[column] for column in wanted.names if column in known])
    return found
