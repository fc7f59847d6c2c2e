"""Loads kernels before a live stream begins, and settles what places answer where: its first events would else wait a
second for the kernels, and events of some seconds later another one for the cells around a coast.

A recogniser of the same patterns is fed some made-up events, few by themselves and many together, and dropped.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from wayeb_py.engine.few import ROOM
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.files.kernels import scan_json
from wayeb_py.kernels.compiled import load_kernels_of
from wayeb_py.patterns import Patterns

N = ROOM + 8  # more events than the path for a few takes


def warm(patterns: Patterns, schemas: Mapping[str, pa.Schema], *, once: bool = False) -> None:
    """Loads what reading lines needs, and patterns, unless they call a user's functions, whose calls may count. A
    stream that reads `once` makes cells only when it has looked up as many positions as pay for them."""
    load_kernels_of(scan_json.__name__)
    if patterns.functions:
        return
    recogniser = Recogniser(patterns, saves=False, listens=False)
    for stream, schema in schemas.items():
        batch = pa.RecordBatch.from_arrays([made_up(field.type) for field in schema], schema=schema)
        for begin, end in ((0, 1), (1, 2), (2, N)):
            recogniser.feed(batch.slice(begin, end - begin), stream)
    if not once:
        patterns.knowledge.settle()


def made_up(type_: pa.DataType) -> pa.Array:
    """Some values of a type, ascending where they can be; nothing where it has none that is known here."""
    if pa.types.is_dictionary(type_):
        return made_up(type_.value_type).dictionary_encode().cast(type_)
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return pa.array(["a"] * N, type_)
    if pa.types.is_boolean(type_):
        return pa.array([False] * N)
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return pa.array(np.arange(N)).cast(type_)
    if pa.types.is_timestamp(type_):
        return pa.array(np.arange(N)).cast(type_)
    return pa.nulls(N, type_)
