"""A provider's files become Parquet that is partitioned by entity and ordered in time.

First every input file is split, part by part: its events go to one spilled file a partition, by a hash of the key. Then
every partition is sorted by time, ties as they arrived, and written as `part-00000.parquet` and so on. Both steps work
in bounded memory, and their files take their names when they are complete; a conversion that was killed finds these
files and continues with the rest. Sorting everything at once would need one merge of all entities, and could not be
resumed.

Rows that are set aside on the way are kept, with their reasons, in `_aside.ndjson`; `_conversion.json` says what was
done.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pyarrow.types as pt

from wayeb_py.errors import DataError
from wayeb_py.files.discover import EventFile
from wayeb_py.files.formats.block import Block, Unreadable, merge_unreadable
from wayeb_py.files.output.set_aside import DEFAULT_LIMIT, Aside, BadLimit
from wayeb_py.files.output.whole_file import whole_file, write_whole
from wayeb_py.files.projection import TimeUnit
from wayeb_py.files.sort import sort_events
from wayeb_py.files.stores import absolute, located, written_ns
from wayeb_py.providers.event_sources import EventSource, find_provider_files, open_source, shared_schema

WORK = "_unfinished"
RECORD = "_conversion.json"
ASIDE = "_aside.ndjson"
PARTITION_BYTES = 128 << 20  # input for each partition, where their number is not given
MOST_PARTITIONS = 64
GROUP_ROWS = 1 << 17
PART_BYTES = 256 << 20  # input that is split at a time: the most that is lost when a conversion is killed

Phase = Literal["splitting", "sorting"]
OnProgress = Callable[[Phase, int, int], None]  # phase, done, total


@dataclass(slots=True)
class Conversion:
    """What a conversion did."""

    provider: str
    rows: int = 0
    events: int = 0
    entities: int = 0
    partitions: int = 0
    aside: dict[str, int] = field(default_factory=dict)  # rows set aside, by reason
    unreadable: dict[str, dict[str, Any]] = field(default_factory=dict)  # values that could not be read, by column
    resumed: bool = False
    out: str = ""


def convert(
    paths: Sequence[str | os.PathLike[str]],
    provider: str,
    out: Path,
    *,
    partitions: int | None = None,
    mapping: Mapping[str, str] | None = None,
    time_unit: TimeUnit | None = None,
    header: Sequence[str] = (),
    max_bad: BadLimit | None = None,
    on_progress: OnProgress | None = None,
) -> Conversion:
    """Converts all files of the paths into the folder, or continues a conversion that was interrupted there."""
    files = find_provider_files(paths, provider)
    n_partitions = partitions or min(MOST_PARTITIONS, 1 + sum(file.n_bytes for file in files) // PARTITION_BYTES)
    plan = {
        "provider": provider,
        "partitions": n_partitions,
        "mapping": dict(mapping or {}),
        "time_unit": time_unit,
        "header": list(header),
        "inputs": [_fingerprint(file) for file in files],
    }
    done = _done_before(out, plan)
    if done is not None:
        return done
    sources = [open_source(file, provider, mapping, time_unit, header) for file in files]
    schema = shared_schema(sources)  # a missing column is reported before a folder is made for a conversion
    work = out / WORK
    resumed = _begin(out, work, plan)
    total = sum(source.n_bytes for source in sources)
    tell = on_progress or (lambda phase, done, of: None)

    limit = max_bad or DEFAULT_LIMIT
    done_bytes = 0
    for number, source in enumerate(sources):
        if not (work / f"{number:05}.split").exists():
            progress = partial(_tell_more, tell, done_bytes, total)
            _split(source, schema, n_partitions, work, number, limit, progress)
        done_bytes += source.n_bytes
        tell("splitting", done_bytes, total)

    conversion = _summed(work, provider, limit)
    for partition in range(n_partitions):
        target = out / f"part-{partition:05}.parquet"
        if not (work / f"{partition:05}.sorted").exists():
            n_entities = _sort(work, partition, schema, target)
            (work / f"{partition:05}.sorted").write_text(str(n_entities))
        conversion.entities += int((work / f"{partition:05}.sorted").read_text())
        tell("sorting", partition + 1, n_partitions)
    conversion.partitions, conversion.resumed, conversion.out = n_partitions, resumed, str(out)
    _finish(out, work, plan, conversion)
    return conversion


def _tell_more(tell: OnProgress, before: int, total: int, n_bytes: int) -> None:
    tell("splitting", before + n_bytes, total)


def _fingerprint(file: EventFile) -> list[Any]:
    place = located(absolute(file.path))
    return [str(place), file.n_bytes, written_ns(place)]


def _done_before(out: Path, plan: dict[str, Any]) -> Conversion | None:
    """The result of the same conversion, when it was finished here before."""
    if not (out / RECORD).exists():
        return None
    record = json.loads((out / RECORD).read_text())
    return Conversion(**record["done"]) if record["plan"] == plan else None


def _begin(out: Path, work: Path, plan: dict[str, Any]) -> bool:
    """Makes the folders; true if the same conversion was begun here before. Another one in the way is an error."""
    out.mkdir(parents=True, exist_ok=True)
    if (work / "plan.json").exists():
        if json.loads((work / "plan.json").read_text()) == plan:
            return True
        raise DataError(
            "another conversion was begun here and not finished",
            str(out),
            hint=f"give the same inputs and options to finish it, or remove {work}",
        )
    if any(out.glob("part-*.parquet")):
        raise DataError("the folder holds a conversion already", str(out), hint="choose another, or empty it")
    work.mkdir(exist_ok=True)
    write_whole(work / "plan.json", json.dumps(plan).encode())
    return False


def partition_of(keys: pa.Array, n_partitions: int) -> npt.NDArray[np.int64]:
    """The partition of each key: by its value alone, so that it is the same in every file and every run."""
    if pt.is_integer(keys.type):
        mixed = keys.cast(pa.int64(), safe=False).to_numpy(zero_copy_only=False).astype(np.uint64)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
        return np.asarray(mixed % np.uint64(n_partitions), dtype=np.int64)
    encoded = keys.dictionary_encode()
    hashes = np.array([zlib.crc32(key.encode()) % n_partitions for key in encoded.dictionary.to_pylist()], np.int64)
    return np.asarray(hashes[encoded.indices.to_numpy(zero_copy_only=False)])


def _split(
    source: EventSource,
    schema: pa.Schema,
    n_partitions: int,
    work: Path,
    number: int,
    limit: BadLimit,
    tell: Callable[[int], None],
) -> None:
    """One file's events as one spilled file a partition and part, after the parts that are there already."""
    before = [folder for folder in _parts(work) if folder.name.startswith(f"{number:05}-")]
    if before and not source.skips:  # a file that cannot skip has one part, and only its mark is missing
        (work / f"{number:05}.split").touch()
        return
    counted = [json.loads((folder / "counted.json").read_text()) for folder in before]
    blocks = source.blocks(sum(one["blocks"] for one in counted))
    n_bytes = sum(one["bytes"] for one in counted)
    part = len(before)
    try:
        while True:
            taken = _split_part(blocks, schema, n_partitions, work, f"{number:05}-{part:05}", limit, source.skips)
            n_bytes += taken
            part += 1
            if taken == 0:
                break
            tell(n_bytes)
    finally:
        blocks.close()  # type: ignore[attr-defined]
    (work / f"{number:05}.split").touch()


def _parts(work: Path) -> list[Path]:
    """The parts that are split, in the order in which their events arrived."""
    return sorted(folder for folder in work.glob("?????-?????") if folder.is_dir())


def _split_part(
    blocks: Iterator[Block],
    schema: pa.Schema,
    n_partitions: int,
    work: Path,
    name: str,
    limit: BadLimit,
    may_end: bool,
) -> int:
    """Splits some of the blocks, all of them unless it may end; returns the number of their bytes, 0 at the end.

    The folder takes its name when all of it is there.
    """
    unfinished = work / f"{name}.part"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    aside = Aside(unfinished / "aside.ndjson", limit)
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    n_events = n_bytes = n_blocks = 0
    sinks = [pa.OSFile(str(unfinished / f"{partition:05}.arrows"), "wb") for partition in range(n_partitions)]
    writers = [pa.ipc.new_stream(sink, schema, options=options) for sink in sinks]
    try:
        for block in blocks:
            aside.add_block(block)
            n_bytes += block.n_bytes
            n_blocks += 1
            for batch in block.batches:
                n_events += batch.num_rows
                for partition, part in _parted(batch, n_partitions):
                    writers[partition].write_batch(part)
            if may_end and n_bytes >= PART_BYTES:
                break
        for writer in writers:
            writer.close()
        aside.commit()
    finally:
        aside.discard()
        for sink in sinks:
            sink.close()
    counted = {
        "blocks": n_blocks,
        "bytes": n_bytes,
        "rows": aside.n_rows,
        "events": n_events,
        "bad": aside.n_bad,
        "reasons": dict(aside.reasons),
        "unreadable": {name: asdict(unreadable) for name, unreadable in aside.unreadable.items()},
    }
    (unfinished / "counted.json").write_text(json.dumps(counted))
    unfinished.rename(work / name)
    return n_bytes if n_blocks else 0


def _parted(batch: pa.RecordBatch, n_partitions: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    if n_partitions == 1:
        yield 0, batch
        return
    partition = partition_of(batch.column(0), n_partitions)
    order = np.argsort(partition, kind="stable")
    ends = np.searchsorted(partition[order], np.arange(n_partitions + 1))
    arranged = batch.take(pa.array(order))
    for one in range(n_partitions):
        if ends[one] < ends[one + 1]:
            yield one, arranged.slice(ends[one], ends[one + 1] - ends[one])


def _summed(work: Path, provider: str, limit: BadLimit) -> Conversion:
    """The counts of all parts together; too many bad rows are an error here, as in a single part."""
    conversion = Conversion(provider)
    reasons: Counter[str] = Counter()
    unreadable: dict[str, Unreadable] = {}
    n_bad = 0
    for folder in _parts(work):
        counted = json.loads((folder / "counted.json").read_text())
        conversion.rows += counted["rows"]
        conversion.events += counted["events"]
        n_bad += counted["bad"]
        reasons.update(counted["reasons"])
        merge_unreadable(unreadable, {name: Unreadable(**facts) for name, facts in counted["unreadable"].items()})
    if not limit.allows_at_end(n_bad, conversion.rows):
        too_many = f"--max-bad allows ({limit})" if not limit.allows(n_bad, conversion.rows) else "half"
        reason, count = reasons.most_common(1)[0]
        raise DataError(
            f"{n_bad:,} of {conversion.rows:,} rows cannot be read, more than {too_many}; of {count:,}: {reason}",
            hint="look at what `wayeb data describe` says of the files; --max-bad 100% converts the rest all the same",
        )
    conversion.aside = dict(reasons)
    conversion.unreadable = {name: asdict(facts) for name, facts in unreadable.items()}
    return conversion


def _sort(work: Path, partition: int, schema: pa.Schema, target: Path) -> int:
    """Writes a partition in order of time; returns the number of its entities."""
    keys: set[Any] = set()
    with whole_file(target) as whole, pq.ParquetWriter(whole.open(), schema, compression="zstd") as writer:
        pending: list[pa.RecordBatch] = []
        n_pending = 0
        for batch in sort_events(_spilled(work, partition), schema, schema.names[1]):
            keys.update(batch.column(0).unique().to_pylist())
            pending.append(batch)
            n_pending += batch.num_rows
            if n_pending >= GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(pending, schema), row_group_size=n_pending)
                pending, n_pending = [], 0
        if pending:
            writer.write_table(pa.Table.from_batches(pending, schema), row_group_size=n_pending)
    return len(keys)


def _spilled(work: Path, partition: int) -> Iterator[pa.RecordBatch]:
    for folder in _parts(work):
        with pa.OSFile(str(folder / f"{partition:05}.arrows")) as source:
            yield from pa.ipc.open_stream(source)


def _finish(out: Path, work: Path, plan: dict[str, Any], conversion: Conversion) -> None:
    if conversion.aside:
        with whole_file(out / ASIDE) as whole:
            for folder in _parts(work):
                path = folder / "aside.ndjson"
                if path.exists():
                    whole.write(path.read_bytes())
    write_whole(out / RECORD, json.dumps({"plan": plan, "done": asdict(conversion)}, indent=2).encode())
    shutil.rmtree(work)
