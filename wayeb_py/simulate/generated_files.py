"""Events and what is known to happen in them become files: Parquet, and a side file of occurrences.

An occurrence is a row `pattern, place, entity, other, start_ts, end_ts`: the pattern is to be detected for that entity
(for a pair, for the two) at least once from `start_ts` to `end_ts`. Generators know what they let happen, so recall can
be checked without asking the recogniser. The side file is CSV, since people look into it. In a folder of events its
name begins with `_`, so that readers skip it; otherwise it lies beside the single file of events.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from wayeb_py.files.output.whole_file import whole_file
from wayeb_py.files.prefetch import in_background

GROUP_ROWS = 1 << 18

OCCURRENCES = pa.schema(
    [
        ("pattern", pa.string()),
        ("place", pa.string()),
        ("entity", pa.int64()),
        ("other", pa.int64()),  # the second of a pair; where the order means nothing, the greater number
        ("start_ts", pa.timestamp("ms", tz="UTC")),
        ("end_ts", pa.timestamp("ms", tz="UTC")),
    ]
)


@dataclass(frozen=True, slots=True)
class Generated:
    """Some generated events in order of time, and the occurrences that end among them."""

    events: pa.RecordBatch
    occurrences: pa.RecordBatch
    lies: Mapping[str, int]  # values that are false on purpose, by what they are


def write_generated(
    pieces: Iterator[Generated],
    schema: pa.Schema,
    events_path: Path,
    occurrences_path: Path,
    on_events: Callable[[int], None] | None = None,
) -> dict[str, int]:
    """Writes both files, whole or not at all, and returns how often each pattern occurs.

    It also writes the counts into the Parquet file's metadata, as JSON under `injected`, and the counts of lies under
    `lies`.
    """
    events_path.parent.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    lies: Counter[str] = Counter()
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    dictionary = [schema.names[0], *texts]
    n_events = 0
    with (
        whole_file(events_path) as whole_events,
        whole_file(occurrences_path) as whole_occurrences,
        pq.ParquetWriter(whole_events.open(), schema, compression="zstd", use_dictionary=dictionary) as events,
        pcsv.CSVWriter(whole_occurrences.open(), OCCURRENCES) as occurrences,
    ):
        for piece in in_background(pieces):
            events.write_batch(piece.events, row_group_size=GROUP_ROWS)
            occurrences.write_batch(piece.occurrences)
            counts.update(piece.occurrences.column("pattern").to_pylist())
            lies.update(piece.lies)
            n_events += piece.events.num_rows
            if on_events is not None:
                on_events(n_events)
        ordered = dict(sorted(counts.items()))
        events.add_key_value_metadata({"injected": json.dumps(ordered), "lies": json.dumps(dict(lies))})
    return ordered


def read_occurrences(path: Path) -> pa.Table:
    """The occurrences of a side file."""
    types = {field.name: field.type for field in OCCURRENCES}
    options = pcsv.ConvertOptions(column_types=types, strings_can_be_null=True)
    return pcsv.read_csv(path, convert_options=options)


def read_injected(path: Path) -> dict[str, int]:
    """How often each pattern occurs in a generated Parquet file."""
    counts: dict[str, int] = json.loads(pq.read_metadata(path).metadata[b"injected"])
    return counts
