"""Spark's loop of micro-batches in this process, with the files that it writes: enough of a session for `stream`.

Shards that keep their state in a store run too, if a test takes `small_stages`: a shuffle keeps no order, some tasks
run twice, and some in a process that remembers nothing.

So a stream is driven as a whole, its checkpoint damaged or its power cut at any place, in milliseconds. It follows
`MicroBatchExecution`: offsets before a batch, the source's commit of the batch before, the batch, its commit; files
appear by renaming, with Hadoop's checksums beside them, and nothing is ever forced to the disk. Where Spark cannot read
one of its files it fails, and so does this. `stream/test_on_spark.py` has Spark itself.
"""

from __future__ import annotations

import json
import random
import struct
import uuid
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pytest

from wayeb_py.parallel.stream import part_operator, shard_operator
from wayeb_py.parallel.stream import task as stream_task
from wayeb_py.parallel.stream.source import SourceOptions, StreamReader
from wayeb_py.parallel.stream.stored_shards import stateless_stage, stored_state
from wayeb_py.parallel.stream.stored_shards.stateless_stage import Step
from wayeb_py.parallel.wire.parcel import SCHEMA, Parcel, from_batch, to_batch


class SmallSpark:
    """Stands for a session; it can run only streams that read everything that is there.

    With the master of a cluster its tasks see no file of their driver's folder.
    """

    def __init__(self, master: str = "local[2]") -> None:
        self.conf = SimpleNamespace(set=lambda name, value: None)
        self.dataSource = SimpleNamespace(register=lambda source: None)
        self.readStream = self
        conf = SimpleNamespace(getAll=list)
        self.sparkContext = SimpleNamespace(master=master, getConf=lambda: conf, defaultParallelism=1)
        self.stages: list[tuple[int, Step]] = []
        self._options: dict[str, str] = {}
        self._take: Callable[[Any, int], None] | None = None

    def format(self, name: str) -> SmallSpark:
        return self

    def option(self, name: str, value: str) -> SmallSpark:
        self._options[name] = value
        return self

    def load(self) -> SmallSpark:
        return self

    @property
    def writeStream(self) -> SmallSpark:  # noqa: N802 (Spark's name)
        return self

    def foreachBatch(self, take: Callable[[Any, int], None]) -> SmallSpark:  # noqa: N802
        self._take = take
        return self

    def trigger(self, availableNow: bool) -> SmallSpark:  # noqa: N803
        assert availableNow
        return self

    def start(self) -> _Query:
        assert self._take is not None
        _forget()  # a process that has just started remembers nothing
        options = SourceOptions.decode(self._options["source"])
        is_apart = not self.sparkContext.master.startswith("local")
        readers = StreamReader(options), StreamReader(_elsewhere(options) if is_apart else options)
        folder = Path(unquote(urlparse(self._options["checkpointLocation"]).path))
        query = _Query()
        try:
            _run(*readers, folder, self._take, Stages(self.stages))
        except Exception as error:
            query.failure = error
        return query


class _Query:
    """A query that has ended."""

    failure: Exception | None = None

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802
        return True

    def exception(self) -> Exception | None:
        return self.failure


class _Parcels:
    """A batch whose tasks run when it is read."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches

    def toArrow(self) -> pa.Table:  # noqa: N802
        return pa.Table.from_batches(list(self._batches), schema=SCHEMA)


def _elsewhere(options: SourceOptions) -> SourceOptions:
    """The options as an executor on another machine has them: paths of the driver's checkpoint lead nowhere."""
    nowhere = Path("/nowhere")
    log: Any = SourceOptions.decode(options.encode()).context.log
    for one in getattr(log, "logs", [log]):
        one.journal = nowhere / one.journal.name
    return replace(options, context=replace(options.context, log=log, folder=nowhere))


def _forget() -> None:
    stream_task._alive.clear()
    shard_operator._alive.clear()
    part_operator._alive.clear()
    stored_state._put.clear()


def small_stages(patch: pytest.MonkeyPatch) -> None:
    """Lets shards run that keep their state in a store."""

    def spread(frame: SmallSpark, n_tasks: int, step: Step, *, last_first: bool = False) -> SmallSpark:
        frame.stages.append((n_tasks, step))
        return frame

    patch.setattr(stateless_stage, "spread", spread)


class Stages:
    """The stages after the source."""

    def __init__(self, stages: list[tuple[int, Step]]) -> None:
        self._stages, self._dice = stages, random.Random(len(stages))

    def take(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What the last stage makes of what the tasks of the source give."""
        if not self._stages:
            yield from batches
            return
        parcels = [parcel for batch in batches for parcel in from_batch(batch)]
        for n_tasks, step in self._stages:
            found: list[Parcel] = []
            for task in range(n_tasks):
                own = [one for one in parcels if one.split % n_tasks == task]
                found += self._run(step, own) if own else []
            parcels = found
        yield to_batch(parcels)

    def _run(self, step: Step, arrived: list[Parcel]) -> list[Parcel]:
        """A task, after others that were lost or are not needed."""
        found: list[Parcel] = []
        for _ in range(self._dice.choice((1, 1, 2))):
            if self._dice.random() < 0.4:
                _forget()
            self._dice.shuffle(arrived)
            found = list(step(list(arrived)))
        return found


def _run(
    reader: StreamReader, executor: StreamReader, folder: Path, take: Callable[[Any, int], None], stages: Stages
) -> None:
    if not (folder / "metadata").exists():
        _put(folder / "metadata", json.dumps({"id": str(uuid.uuid4())}))
    json.loads(_get(folder / "metadata"))["id"]
    number, start, planned = _resume(folder, reader.initialOffset())
    reader.prepareForTriggerAvailableNow()
    while True:
        end = planned or reader.latestOffset(start, reader.getDefaultReadLimit())
        if end == start:
            return
        if planned is None:
            about = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}})
            path = folder / "offsets" / str(number)
            assert not path.exists(), "Spark takes it for another query that is running"
            _put(path, f"v1\n{about}\n{json.dumps(end)}")
            if number:
                reader.commit(_offset(folder, number - 1))
        tasks = reader.partitions(start, end)
        take(_Parcels(stages.take(batch for task in tasks for batch in executor.read(task))), number)
        path = folder / "commits" / str(number)
        assert not path.exists(), "Spark takes it for another query that is running"
        _put(path, 'v1\n{"nextBatchWatermarkMs":0}')
        number, start, planned = number + 1, end, None


def _resume(folder: Path, origin: dict[str, Any]) -> tuple[int, dict[str, Any], dict[str, Any] | None]:
    """The number of the batch that is next, where it begins, and where it ends if it was planned before."""
    offsets, commits = (_numbers(folder / kind) for kind in ("offsets", "commits"))
    if not offsets:
        return 0, origin, None
    last = offsets[-1]
    end = _offset(folder, last)
    start = _offset(folder, last - 1) if last else origin
    if commits:
        version, about = _get(folder / "commits" / str(commits[-1])).split("\n")
        assert version == "v1"
        assert isinstance(json.loads(about), dict)
        if commits[-1] == last:
            return last + 1, end, None
    return last, start, end


def _numbers(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal()) if folder.is_dir() else []


def _offset(folder: Path, number: int) -> dict[str, Any]:
    version, _, offset = _get(folder / "offsets" / str(number)).split("\n")
    assert version == "v1"
    found: dict[str, Any] = json.loads(offset)
    return found


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = text.encode()
    sums = b"".join(struct.pack(">I", zlib.crc32(content[at : at + 512])) for at in range(0, len(content), 512))
    for place, data in ((path, content), (_crc(path), b"crc\0" + struct.pack(">i", 512) + sums)):
        temporary = place.with_name(f".{place.name}.{uuid.uuid4()}.tmp")
        temporary.write_bytes(data)
        temporary.rename(place)


def _get(path: Path) -> str:
    """A file's text; like Hadoop, it ignores checksums that cannot be read at all."""
    content = path.read_bytes()
    sums = _crc(path).read_bytes() if _crc(path).exists() else b""
    if sums.startswith(b"crc\0") and len(sums) >= 8:
        mine = b"".join(struct.pack(">I", zlib.crc32(content[at : at + 512])) for at in range(0, len(content), 512))
        if sums[8:] != mine:
            raise ValueError(f"Checksum error: {path}")
    return content.decode()


def _crc(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")
