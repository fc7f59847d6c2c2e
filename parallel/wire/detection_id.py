"""A detection gets an id that depends on nothing but itself, so that a receiver notices repeats.

It is a hash of pattern, place, entity, and the times and places in the word of its last and first event; an episode's
is of both its ends. Batches, workers and restarts do not enter, nor do emitted columns.
"""

from __future__ import annotations

from hashlib import blake2b

import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.engine.rows.detection_schema import NAMED_BY

DETECTION_ID = "detection_id"


def with_ids(table: pa.Table) -> pa.Table:
    """The table of detections or of episodes with `detection_id` as its first column."""
    parts = [_texts(table.column(name)) for name in NAMED_BY if name in table.column_names]
    joined = pc.binary_join_element_wise(*parts, "\x1f").to_pylist()
    ids = [blake2b(text.encode(), digest_size=16).hexdigest() for text in joined]
    return table.add_column(0, DETECTION_ID, pa.array(ids, pa.string()))


def with_id_first(schema: pa.Schema) -> pa.Schema:
    """The schema of a table after `with_ids`."""
    return schema.insert(0, pa.field(DETECTION_ID, pa.string()))


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return pc.fill_null(column.cast(pa.string()), "\x1e")
