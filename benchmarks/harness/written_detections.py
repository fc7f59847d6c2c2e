"""Written detections, whichever engine wrote them, become one table that can be compared."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

COLUMNS = ["pattern", "entity", "ts", "seq", "start_ts", "start_seq"]


def read_found(path: Path) -> pa.Table:
    """The detections of a file or a folder in an order of their own, in the types that Spark has too."""
    table = ds.dataset(path, format="parquet").to_table(columns=COLUMNS)
    types = {"ts": pa.timestamp("ms", "UTC"), "start_ts": pa.timestamp("ms", "UTC"), "pattern": pa.string()}
    schema = pa.schema([pa.field(f.name, types.get(f.name, f.type)) for f in table.schema])
    return table.cast(schema).sort_by([(name, "ascending") for name in ("pattern", "entity", "seq")]).combine_chunks()
