"""The events that the benchmarks run on: made once by `data/fleet.py` and kept below benchmarks/data."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks import BENCHMARKS
from data.fleet import STATUSES, write_fleet
from wayeb_py.parallel.wire.shards import shard_of

FOLDER = BENCHMARKS / "data"
SEED = 1  # seed of everything that the fleet does
QUICK_EVENTS = 500_000  # for all quick experiments, so that they are made once
SIX_PATTERNS = Path(__file__).parent / "six.sre"


def fleet_file(n_events: int) -> Path:
    """A Parquet file of `n_events` events, made if it is not there yet."""
    path = FOLDER / f"fleet-{n_events}.parquet"
    if not path.exists():
        print(f"making {path.name} ...", flush=True)
        write_fleet(path, n_events, seed=SEED)
    return path


def fleet_parts(n_events: int, n_parts: int) -> Path:
    """A folder of the same events in parts by vehicle, each in the order of time; made if it is not there yet."""
    folder = FOLDER / f"fleet-{n_events}-in-{n_parts}-by-vehicle"
    if folder.exists():
        return folder
    source = pq.ParquetFile(fleet_file(n_events))
    print(f"making {folder.name} ...", flush=True)
    unfinished = folder.with_name(f"{folder.name}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    writers = [
        pq.ParquetWriter(unfinished / f"part-{part:05}.parquet", source.schema_arrow, compression="zstd")
        for part in range(n_parts)
    ]
    for batch in source.iter_batches(batch_size=1 << 20):
        shard = shard_of(batch.column(0), n_parts)
        for part, writer in enumerate(writers):
            writer.write_batch(batch.take(pa.array(np.flatnonzero(shard == part))))
    for writer in writers:
        writer.close()
    unfinished.rename(folder)
    return folder


def as_numpy(table: pa.Table) -> dict[str, np.ndarray]:
    """The columns as plain arrays: text as its index in STATUSES, Booleans as 0 and 1; missing is NaN, or else -1."""
    columns: dict[str, np.ndarray] = {}
    for name in table.column_names:
        column = table[name].combine_chunks()
        if pa.types.is_timestamp(column.type):
            columns["ts_s"] = column.cast(pa.int64()).to_numpy() / 1000
        elif pa.types.is_string(column.type):
            codes = pc.index_in(column, pa.array(STATUSES))
            columns[name] = pc.fill_null(codes, -1).to_numpy().astype(np.int8)
        elif pa.types.is_boolean(column.type):
            columns[name] = pc.fill_null(column.cast(pa.int8()), -1).to_numpy()
        elif name == "satellites":
            columns[name] = column.cast(pa.float32()).to_numpy(zero_copy_only=False)
        else:
            columns[name] = column.to_numpy(zero_copy_only=False)
    return columns


def read_fleet(n_events: int, columns: list[str] | None = None) -> pa.Table:
    """The events of `fleet_file` in memory, each column in one piece."""
    return pq.read_table(fleet_file(n_events), columns=columns).combine_chunks()
