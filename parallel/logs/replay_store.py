"""The events of a data set become partitions that can be read from any offset, each event with the time it is due.

    files ──▶ rows with `__due` (the greatest time so far in its file) ──▶ cut by entity ──▶ merged by `__due`
          ──▶ FOLDER/0.arrow, 0.due.npy; 1.arrow …; replay.json

An event is due when its own time comes or, where a file is not in the order of time, as soon as the events before it
are: disorder and late events are replayed as they are. Files are merged by due time, so a data set cut by day, or by
entity, is one stream. Which event has which offset depends on the files, the key, the time and the number of
partitions, and on nothing else: after a restart offsets mean the same, and changed files are reported.

A row that is no event keeps its place: a row whose `__note` says what is wrong with it.

*Not taken*: reading the data set where it is. A CSV file has no rows to seek to, a Parquet file no less than a row
group, and events by entity from files by day would be read once for every partition.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.lib.format
import pyarrow as pa
import pyarrow.ipc

from wayeb_py.arrays import F64
from wayeb_py.columns import column_of, ticks_of
from wayeb_py.errors import DataError
from wayeb_py.files.discover import STDIN, EventFile, find_files
from wayeb_py.files.formats.block import AsideRow, Block, Unreadable
from wayeb_py.files.output.whole_file import make_folder, sync, write_whole
from wayeb_py.files.projection import Wanted
from wayeb_py.files.read import open_events
from wayeb_py.files.sort import sort_events
from wayeb_py.parallel.durable.sealed_files import seal, unseal
from wayeb_py.parallel.wire.shards import cut_by_shard

DUE, NOTE = "__due", "__note"
STORED_ROWS = 1 << 14  # a batch of the stored file, but the last one: division gives the place of an offset
RECORD = "replay.json"


@dataclass(frozen=True, slots=True)
class Stored:
    """The content of a store: the number of rows of each partition, and when the first event of all is due."""

    name: str
    rows: tuple[int, ...]
    began_s: float
    data: dict[str, Any]  # the facts that offsets depend on
    columns: list[str]
    time_unit: str | None
    sizes: dict[str, int] = field(default_factory=dict)  # sizes of its files, in bytes

    @property
    def digest(self) -> str:
        """A digest that identifies the data set."""
        return hashlib.sha256(json.dumps(self.data).encode()).hexdigest()[:16]

    def is_whole(self, folder: Path) -> bool:
        """Whether every file is there, as long as it was written."""
        paths = {folder / name: n_bytes for name, n_bytes in self.sizes.items()}
        return all(path.is_file() and path.stat().st_size == n_bytes for path, n_bytes in paths.items())


def store_events(paths: Sequence[str | os.PathLike[str]], wanted: Wanted, folder: Path, partitions: int = 1) -> Stored:
    """Stores the events of the paths, or finds that they are already stored there."""
    files = find_files(paths)
    if any(file.path == STDIN for file in files):
        raise DataError("standard input cannot be replayed: a restart could not read it again")
    data = {
        "files": [[os.path.abspath(file.path), file.n_bytes, os.stat(file.path).st_mtime_ns] for file in files],
        "key": wanted.key.name,
        "time": wanted.time.name,
        "partitions": partitions,
    }
    known = read_store(folder)
    if known is not None:
        if known.data != data:
            raise _changed(known.data, data, folder)
        if set(wanted.names) <= set(known.columns) and known.time_unit == wanted.time_unit and known.is_whole(folder):
            return known
    make_folder(folder)
    unfinished = folder / "unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    rows, began_s = _write_partitions(files, wanted, unfinished, partitions)
    sizes = {path.name: path.stat().st_size for path in unfinished.iterdir()}
    for path in unfinished.iterdir():
        sync(path)  # on the disk before the record that says so
        path.replace(folder / path.name)
    unfinished.rmdir()
    name = "replay:" + ",".join(os.path.abspath(path) for path in paths)
    stored = Stored(name, rows, began_s, data, list(wanted.names), wanted.time_unit, sizes)
    write_whole(folder / RECORD, seal(json.dumps(asdict(stored))).encode())
    return stored


def read_store(folder: Path) -> Stored | None:
    """What a folder stores, if anything; a damaged record counts as none, and the data set is stored again: the
    checkpoint knows which it was."""
    try:
        fields = unseal((folder / RECORD).read_bytes(), must=False)
        return Stored(rows=tuple(fields.pop("rows")), **fields)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _changed(known: dict[str, Any], data: dict[str, Any], folder: Path) -> DataError:
    what = next(name for name in ("partitions", "key", "time", "files") if known[name] != data[name])
    if what == "files":
        before = {path: facts for path, *facts in known["files"]}
        now = {path: facts for path, *facts in data["files"]}
        gone = [path for path in before if path not in now]
        first = next(path for path in [*gone, *now] if before.get(path) != now.get(path))
        message = f"the data set is not the one that this replay began with: {first} has changed"
    elif what == "partitions":
        message = f"this replay began with {known[what]} source partitions, not {data[what]}"
    else:
        message = f"this replay began with the {what} column `{known[what]}`, not `{data[what]}`"
    return DataError(message, str(folder), hint="offsets would mean other events: begin with a new checkpoint folder")


def _write_partitions(
    files: list[EventFile], wanted: Wanted, folder: Path, partitions: int
) -> tuple[tuple[int, ...], float]:
    schema = _stored_schema(files, wanted)
    with ExitStack() as stack:
        spilled = [folder / f"{partition}.spilled" for partition in range(partitions)]
        writers = []
        for path in spilled:
            sink = stack.enter_context(pa.OSFile(str(path), "wb"))
            writers.append(stack.enter_context(pa.ipc.new_stream(sink, schema)))
        for batch in _due_rows(files, wanted, schema):
            for partition, part in cut_by_shard(batch, wanted.key.name, partitions):
                writers[partition].write_batch(part)
    rows, firsts = [], []
    for partition, path in enumerate(spilled):
        due_s = _write_partition(path, schema, folder / f"{partition}.arrow")
        np.save(folder / f"{partition}.due.npy", due_s)
        path.unlink()
        rows.append(len(due_s))
        firsts += due_s[:1].tolist()
    return tuple(rows), min(firsts, default=0.0)


def _stored_schema(files: list[EventFile], wanted: Wanted) -> pa.Schema:
    events = open_events(files, wanted).schema
    return pa.schema([*events, pa.field(DUE, pa.float64()), pa.field(NOTE, pa.string())])


def _due_rows(files: list[EventFile], wanted: Wanted, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of all files, one file after the other, with when they are due and their faults."""
    events_schema = pa.schema(list(schema)[:-2])
    for file in files:
        due_s = -np.inf
        reader = open_events([file], wanted, before=events_schema)
        blocks = reader.blocks()
        try:
            for block in blocks:
                parts = [batch.cast(events_schema) for batch in block.batches]
                times = [seconds_of(batch.column(wanted.time.name), wanted) for batch in parts]
                notes: list[list[str | None]] = [[None] * batch.num_rows for batch in parts]
                if block.aside:
                    parts.append(_nothing(events_schema, len(block.aside)))
                    times.append(np.full(len(block.aside), np.nan))
                    notes.append([json.dumps({"aside": asdict(row)}, default=str) for row in block.aside])
                if block.unreadable and notes:
                    known = json.loads(notes[-1][-1] or "{}")
                    unreadable = {name: asdict(facts) for name, facts in block.unreadable.items()}
                    notes[-1][-1] = json.dumps(known | {"unreadable": unreadable})
                for batch, seconds, said in zip(parts, times, notes, strict=True):
                    running_s = np.maximum.accumulate(np.concatenate([[due_s], np.nan_to_num(seconds, nan=-np.inf)]))
                    due_s = running_s[-1]
                    # Rows before the first time of a file are due when the file begins.
                    shown = np.where(np.isneginf(running_s[1:]), _first(seconds), running_s[1:])
                    yield pa.RecordBatch.from_arrays(
                        [*batch.columns, pa.array(shown), pa.array(said, pa.string())], schema=schema
                    )
        finally:
            blocks.close()  # type: ignore[attr-defined]


def _first(seconds: F64) -> float:
    known = seconds[~np.isnan(seconds)]
    return float(known[0]) if len(known) else 0.0


def seconds_of(times: pa.Array, wanted: Wanted) -> F64:
    """Times in seconds since 1970; NaN where a time is missing."""
    ticks = ticks_of(column_of(times, wanted.time.name), wanted.time_unit, wanted.time.name)
    seconds = ticks.values.astype(np.float64) / ticks.per_unit
    return seconds if ticks.missing is None else np.where(ticks.missing != 0, np.nan, seconds)


def _nothing(schema: pa.Schema, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(count, field.type) for field in schema], schema=schema)


def _write_partition(spilled: Path, schema: pa.Schema, target: Path) -> F64:
    """Writes the rows in the order in which they are due, in batches of one size; returns when each is due."""
    due: list[F64] = []
    with ExitStack() as stack:
        source = stack.enter_context(pa.OSFile(str(spilled)))
        merged = sort_events(pa.ipc.open_stream(source), schema, DUE)
        sink = stack.enter_context(pa.OSFile(str(target), "wb"))
        writer = None
        for batch in _in_batches(merged):
            if writer is None:  # its schema is known now: a text of too many words is no dictionary any more
                options = pa.ipc.IpcWriteOptions(compression="lz4", unify_dictionaries=True)
                writer = stack.enter_context(pa.ipc.new_file(sink, batch.schema, options=options))
            due.append(batch.column(DUE).to_numpy())
            writer.write_batch(batch)
        if writer is None:
            stack.enter_context(pa.ipc.new_file(sink, schema))
    return np.concatenate(due) if due else np.zeros(0)


def _in_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of `STORED_ROWS`, the last one shorter."""
    waiting: list[pa.RecordBatch] = []
    n_waiting = 0
    for batch in batches:
        waiting.append(batch)
        n_waiting += batch.num_rows
        if n_waiting < STORED_ROWS:
            continue
        table = pa.Table.from_batches(waiting).combine_chunks()
        whole = n_waiting - n_waiting % STORED_ROWS
        yield from table.slice(0, whole).to_batches(max_chunksize=STORED_ROWS)
        n_waiting -= whole
        waiting = table.slice(whole).to_batches() if n_waiting else []
    if n_waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


def read_rows(folder: Path, partition: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """The stored rows from an offset on and before another."""
    with pa.memory_map(str(folder / f"{partition}.arrow")) as source:
        reader = pa.ipc.open_file(source)
        for number in range(start // STORED_ROWS, -(-end // STORED_ROWS)):
            first = number * STORED_ROWS
            batch = reader.get_batch(number)
            yield batch.slice(max(0, start - first), min(end - first, batch.num_rows) - max(0, start - first))


def to_block(rows: pa.RecordBatch) -> Block:
    """Stored rows as the block that a reader of the files would give."""
    block = Block(n_rows=rows.num_rows)
    notes = rows.column(NOTE)
    events = rows.drop_columns([DUE, NOTE])
    if notes.null_count < len(notes):
        bad = np.zeros(len(notes), dtype=bool)
        for place in np.flatnonzero(notes.is_valid().to_numpy(zero_copy_only=False)).tolist():
            said = json.loads(notes[place].as_py())
            if "aside" in said:
                bad[place] = True
                block.aside.append(AsideRow(**said["aside"]))
            block.unreadable |= {name: Unreadable(**facts) for name, facts in said.get("unreadable", {}).items()}
        events = events.filter(pa.array(~bad))
    if events.num_rows:
        block.batches.append(events)
    return block
