"""Measures six patterns over a stream of files on Spark, checkpoints on: three ways from files to the same detections.

- *chained source*: what `wayeb stream` does by default; a partition is recognised where it is read.
- *stateful, parcels*: `recognise_stream`, for streams that are any data frame; events cross a shuffle as parcels.
- *stateful, rows*: `applyInPandasWithState` as a Spark user would write it, keyed by shard, with our recogniser inside;
  a shard for each core, under keys that Spark's hash sends to different tasks.

The stream lies in two partitions by vehicle, as many as there are cores. RocksDB is the state store of both stateful
ways. Every way runs once over a short stream before anything is measured, so that neither the start of Python workers
nor the JVM's compiling is part of a side; the quick size does without that, and without parcels. A batch has the same
events in all three; the first one of a run compiles plans and is reported apart. A rate is that of the batches after
it, by the time that Spark reports for its triggers; processor seconds are of the whole run, and say most on a busy
machine. A batch costs some tenths of a second however small it is, on all ways: small ones are measured, not judged.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import wayeb_py
from benchmarks.harness.measure import Experiment, Figure, start
from benchmarks.harness.processor_seconds import tree_cpu_s
from benchmarks.inputs.fleet_events import FOLDER, QUICK_EVENTS, SIX_PATTERNS, fleet_file
from wayeb_py.parallel.logs.folders.folder import FolderLog
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.sinks.sinks import Batch, ParquetSink
from wayeb_py.parallel.spark.session import open_session
from wayeb_py.parallel.stream.dataframe import recognise_stream
from wayeb_py.parallel.stream.shard_operator import STATE_SETTINGS
from wayeb_py.parallel.stream.stream import stream
from wayeb_py.parallel.wire.shards import routes, shard_of

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.state import GroupState

    from wayeb_py.patterns import Patterns

N_CORES = 2
LEAST = 5  # the least factor over rows, in batches of
JUDGED_EVENTS = 1_000_000  # at least this many: by default a batch takes up to two million
CHAINED, PARCELS, ROWS = "chained source", "stateful, parcels", "stateful, rows"


@dataclass(frozen=True, slots=True)
class Setting:
    """What one size of the experiment runs on."""

    n_events: int
    batch_sizes: tuple[int, ...]
    n_rounds: int
    file_events: int
    warm_events: int = QUICK_EVENTS  # events of the stream that only warms up
    ways: tuple[str, ...] = (CHAINED, PARCELS, ROWS)


SETTINGS = {
    "quick": Setting(QUICK_EVENTS // 4, (QUICK_EVENTS // 8,), 1, QUICK_EVENTS // 16, 0, (CHAINED, ROWS)),
    "usual": Setting(4_000_000, (500_000, 1_000_000), 3, 125_000),
    "full": Setting(20_000_000, (1_000_000, 2_000_000, 5_000_000), 3, 125_000),
}
COLUMNS = ["pattern", "entity", "ts", "seq", "start_ts", "start_seq"]


@dataclass(frozen=True, slots=True)
class Went:
    """How a run went: (events, seconds) of its batches, and its processor seconds in all."""

    batches: list[tuple[int, float]]
    cpu_s: float = 0.0

    @property
    def first_s(self) -> float:
        return self.batches[0][1]

    @property
    def events_per_s(self) -> float:
        return sum(n for n, _ in self.batches[1:]) / sum(seconds for _, seconds in self.batches[1:])


def stream_files(n_events: int, file_events: int) -> Path:
    """The events of `fleet_file` in files of two partitions by vehicle, those of one time written together."""
    folder = FOLDER / f"fleet-stream-{n_events}-by-{file_events}"
    if folder.exists():
        return folder
    print(f"making {folder.name} ...", flush=True)
    events = pq.read_table(fleet_file(n_events))
    made = folder.with_suffix(".making")
    shutil.rmtree(made, ignore_errors=True)
    partition_of = pa.array(shard_of(events["vehicle_id"], N_CORES))
    for partition in range(N_CORES):
        own = events.filter(pc.equal(partition_of, partition))
        (made / f"part={partition}").mkdir(parents=True)
        n_files = -(-n_events // (N_CORES * file_events))
        for number in range(n_files):
            path = made / f"part={partition}" / f"{number:05}.parquet"
            begin, end = (len(own) * n // n_files for n in (number, number + 1))
            pq.write_table(own.slice(begin, end - begin), path)
            os.utime(path, (1_700_000_000 + number,) * 2)
    made.rename(folder)
    return folder


@dataclass(frozen=True, slots=True)
class Ways:
    """The three ways over one stream."""

    spark: SparkSession
    patterns: Patterns
    source: Path
    file_events: int

    def all(self) -> dict[str, Callable[[int, Path], Went]]:
        return {CHAINED: self.chained, PARCELS: self.parcels, ROWS: self.rows}

    def warm_up(self, n_events: int) -> None:
        """Runs every way over a short stream."""
        short = replace(self, source=stream_files(n_events, self.file_events))
        for way in short.all().values():
            with tempfile.TemporaryDirectory(prefix="wayeb-stream-") as folder:
                way(N_CORES * self.file_events, Path(folder))

    def chained(self, batch_events: int, folder: Path) -> Went:
        observer = BatchObserver()
        with Checkpoint(folder / "checkpoint") as checkpoint:
            log = FolderLog(self.source, checkpoint.journal)
            sink = ParquetSink(folder / "out")
            stream(
                self.spark, self.patterns, log, sink, checkpoint,
                scheme="source", once=True, max_rows=batch_events, observers=[observer],
            )  # fmt: skip
        return observer.went()

    def parcels(self, batch_events: int, folder: Path) -> Went:
        return self._run(recognise_stream(self._rows(batch_events), self.patterns, shards=N_CORES), folder)

    def rows(self, batch_events: int, folder: Path) -> Went:
        return self._run(by_rows(self._rows(batch_events), self.patterns), folder)

    def _rows(self, batch_events: int) -> DataFrame:
        schema = self.spark.read.parquet(str(self.source)).schema
        reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", batch_events // self.file_events)
        return reader.parquet(str(self.source))

    def _run(self, found: DataFrame, folder: Path) -> Went:
        writer = found.writeStream.format("parquet").option("path", str(folder / "out"))
        query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()
        progress = [one for one in query.recentProgress if one["numInputRows"]]
        return Went([(one["numInputRows"], one["durationMs"]["triggerExecution"] / 1000) for one in progress])


class BatchObserver:
    """Keeps what the batches of a chained source read: Spark counts the detections instead."""

    def __init__(self) -> None:
        self._query: StreamingQuery | None = None
        self._n_events: dict[int, int] = {}

    def began(self, query: StreamingQuery | None = None) -> None:
        self._query = query

    def took(self, batch: Batch) -> None:
        self._n_events[batch.number] = sum(counts["rows"] for counts in batch.counts)

    def timed(self, batch_s: float) -> None:
        """Spark times its batches itself."""

    def ended(self, summary: Any) -> None:
        """Does nothing: progress is read afterwards."""

    def went(self) -> Went:
        assert self._query is not None
        took_s = {one["batchId"]: one["durationMs"]["triggerExecution"] / 1000 for one in self._query.recentProgress}
        return Went([(n, took_s[batch]) for batch, n in sorted(self._n_events.items()) if n])


def by_rows(events: DataFrame, patterns: Patterns) -> DataFrame:
    """The stateful operator as a user would write it: rows by a hash of the key, the state as one blob."""
    from pyspark.sql import functions as sql

    needed = list(dict.fromkeys(need.column for need in patterns.needs))

    def step(_shard: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        import pandas

        warnings.simplefilter("ignore", FutureWarning)  # pyspark warns of empty frames
        saved = bytes(state.get[0]) if state.exists else None
        recogniser = wayeb_py.Recogniser(patterns, saved=saved)
        # A shuffle keeps no order, and a batch comes in pieces.
        together = pandas.concat(list(frames)).sort_values("ts", kind="stable")
        found = recogniser.feed(pa.Table.from_pandas(together[needed], preserve_index=False))
        state.update((recogniser.save(),))
        yield found.to_arrow().select(COLUMNS).to_pandas().astype({"pattern": "str"})

    # By their own numbers both shards would go to one task, and the other core would have nothing to do.
    keys = sql.array(*(sql.lit(key) for key in routes(N_CORES)))
    keyed = events.select(*needed, sql.get(keys, sql.pmod(sql.hash("vehicle_id"), sql.lit(N_CORES))).alias("shard"))
    return keyed.groupBy("shard").applyInPandasWithState(
        step,
        "pattern string, entity bigint, ts timestamp, seq bigint, start_ts timestamp, start_seq bigint",
        "saved binary",
        "append",
        "NoTimeout",
    )


def in_one_order(table: pa.Table) -> pa.Table:
    times = pa.timestamp("us", tz="UTC")
    types = [pa.string(), pa.int64(), times, pa.int64(), times, pa.int64()]
    plain = table.select(COLUMNS).cast(pa.schema(list(zip(COLUMNS, types, strict=True))))
    return plain.sort_by([(column, "ascending") for column in COLUMNS]).combine_chunks()


def measure(experiment: Experiment, ways: Ways, expected: pa.Table, setting: Setting, batch_events: int) -> None:
    """The rates of all ways, in turn; every single answer is checked."""
    went: dict[str, list[Went]] = {name: [] for name in setting.ways}
    n_runs = setting.n_rounds * len(went)
    for number in range(setting.n_rounds):
        names = list(went)
        for place, name in enumerate(names[number % len(names) :] + names[: number % len(names)]):
            experiment.progress.step(number * len(went) + place + 1, n_runs, f"batches of {batch_events:,}: run")
            with tempfile.TemporaryDirectory(prefix="wayeb-stream-") as folder, experiment.watched():
                before_s = tree_cpu_s()
                run = ways.all()[name](batch_events, Path(folder))
                went[name].append(replace(run, cpu_s=tree_cpu_s() - before_s))
                found = in_one_order(pq.read_table(Path(folder) / "out"))
            experiment.check(f"{len(found):,} detections of the {name}, equal to one process", found.equals(expected))
    for name, runs in went.items():
        rates = [run.events_per_s / 1e6 for run in runs]
        experiment.record.repeats_s[task_name(name, batch_events)] = [1 / rate for rate in rates]
        experiment.row(
            way=name,
            **{"events a batch": batch_events, "million events/s": statistics.median(rates)},
            low=min(rates),
            high=max(rates),
            **{"first batch in s": statistics.median(run.first_s for run in runs), "batches": len(runs[0].batches)},
            **{"CPU s": statistics.median(run.cpu_s for run in runs), "repeats": len(runs)},
        )


def task_name(way: str, batch_events: int) -> str:
    return f"{way}, a million events in batches of {batch_events:,}"


def main() -> None:
    experiment = start("spark_stream", f"a stream of files, six patterns, checkpoints on, local[{N_CORES}]")
    setting = SETTINGS[experiment.size]
    source = stream_files(setting.n_events, setting.file_events)
    patterns = wayeb_py.compile(SIX_PATTERNS)
    settings = STATE_SETTINGS | {
        "spark.sql.shuffle.partitions": str(N_CORES),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",  # Spark's default: our sessions set it for parcels
        "spark.driver.memory": "3g",
    }
    spark = open_session(f"local[{N_CORES}]", settings=settings, quick=experiment.size == "quick")
    ways = Ways(spark, patterns, source, setting.file_events)
    expected = in_one_order(patterns.recognise(pq.read_table(fleet_file(setting.n_events))).to_arrow())
    experiment.report("events", setting.n_events, "events")
    if setting.warm_events:
        ways.warm_up(setting.warm_events)
    for batch_events in setting.batch_sizes:
        measure(experiment, ways, expected, setting, batch_events)
    spark.stop()
    for batch_events in setting.batch_sizes:
        chained, rows = task_name(CHAINED, batch_events), task_name(ROWS, batch_events)
        what = f"chained source over applyInPandasWithState, batches of {batch_events:,}"
        experiment.yardsticks([rows])
        if batch_events >= JUDGED_EVENTS:
            experiment.bound_ratio(what, rows, chained, LEAST, "at least")
    title, x, y = "Streaming from files", "events a batch", "million events/s"
    experiment.figure(Figure(title, x, y, series="way", low="low", high="high", log="xy"))
    experiment.finish()


if __name__ == "__main__":
    main()
