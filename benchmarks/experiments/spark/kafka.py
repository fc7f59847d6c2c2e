"""Measures six patterns over a Kafka topic, checkpoints on: how fast events go in and out, and what it costs the
broker.

A real broker on this machine shares its two cores with the writer and the reader, so a rate here is that of all of them
together; the broker's CPU time is reported beside it, and what reading and parsing costs a core without Spark.

- *replay*: `wayeb replay --speed max` sends the events, as JSON keyed by vehicle.
- *log alone*: the topic's partitions are read and parsed one after the other, in this process.
- *chained source*: what `wayeb stream` does; a partition is recognised where it is read. The first batch starts Python
  workers and is reported apart.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

import wayeb_py
from benchmarks.experiments.spark.spark_stream import BatchObserver, in_one_order
from benchmarks.harness.measure import Experiment, start
from benchmarks.harness.processor_seconds import tree_cpu_s
from benchmarks.inputs.fleet_events import QUICK_EVENTS, SIX_PATTERNS, fleet_file
from tools.kafka.broker import Broker
from tools.kafka.broker_jars import broker_jars
from wayeb_py.parallel.logs.kafka import KafkaLog
from wayeb_py.parallel.logs.log import OffsetRange
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.replay.recorded import open_recorded
from wayeb_py.parallel.replay.replay import replay
from wayeb_py.parallel.replay.replay_sinks import TopicReplaySink
from wayeb_py.parallel.sinks.sinks import ParquetSink
from wayeb_py.parallel.spark.jars import MissingJarsError
from wayeb_py.parallel.spark.session import open_session
from wayeb_py.parallel.stream.stream import stream
from wayeb_py.patterns import Patterns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

N_CORES = 2
USUAL = (2_000_000, 500_000, 3)  # events, events of a batch, rounds
SIZES = {"quick": (QUICK_EVENTS // 4, QUICK_EVENTS // 16, 1), "usual": USUAL, "full": (10_000_000, 1_000_000, 3)}


@dataclass(frozen=True, slots=True)
class Taken:
    """The cost of one pass over the events: the clock, the broker's processor time and that of the writer or reader."""

    seconds: float
    broker_cpu_s: float
    client_cpu_s: float
    first_batch_s: float | None = None


@dataclass(frozen=True, slots=True)
class Passes:
    """The three ways over the same events; checks each."""

    experiment: Experiment
    broker: Broker
    spark: SparkSession
    patterns: Patterns
    expected: pa.Table
    n_events: int
    batch_events: int

    def replay(self, topic: str) -> Taken:
        """The events of `fleet_file` into a topic of two partitions."""
        recorded = open_recorded([fleet_file(self.n_events)], "vehicle_id", "ts")
        cpu_s, broker_s = tree_cpu_s(), self.broker.cpu_s()
        summary = replay(recorded, TopicReplaySink(self.broker.url(topic), N_CORES), None)
        self.experiment.check(f"{self.n_events:,} events sent", summary.events == self.n_events)
        return self._taken(summary.seconds, broker_s, cpu_s)

    def log_alone(self, topic: str) -> Taken:
        """Reads and parses every message, without recognising anything."""
        log = KafkaLog.open(self.broker.url(topic))
        wanted = self.patterns.wanted
        schema = log.schema(wanted)
        assert schema is not None
        began, cpu_s, broker_s = time.perf_counter(), tree_cpu_s(), self.broker.cpu_s()
        n_events = 0
        for partition, end in log.latest().items():
            for block in log.read(OffsetRange(partition, 0, end), wanted, schema):
                n_events += sum(batch.num_rows for batch in block.batches)
        taken = self._taken(time.perf_counter() - began, broker_s, cpu_s)
        self.experiment.check(f"{n_events:,} events read", n_events == self.n_events)
        return taken

    def chained(self, topic: str) -> Taken:
        """Streams the topic once."""
        observer = BatchObserver()
        cpu_s, broker_s = tree_cpu_s(), self.broker.cpu_s()
        with tempfile.TemporaryDirectory(prefix="wayeb-kafka-") as folder:
            with Checkpoint(Path(folder) / "checkpoint") as checkpoint:
                log, sink = KafkaLog.open(self.broker.url(topic)), ParquetSink(Path(folder) / "out")
                stream(
                    self.spark, self.patterns, log, sink, checkpoint,
                    scheme="source", once=True, max_rows=self.batch_events, observers=[observer],
                )  # fmt: skip
            found = in_one_order(pq.read_table(Path(folder) / "out"))
        went = observer.went()
        taken = self._taken(self.n_events / went.events_per_s, broker_s, cpu_s, went.first_s)
        self.experiment.check(f"{len(found):,} detections, equal to one process", found.equals(self.expected))
        return taken

    def _taken(self, seconds: float, broker_s: float, cpu_s: float, first_s: float | None = None) -> Taken:
        """What was taken since the two processor times were read; the broker is a child of this process, not a
        client."""
        broker_s = self.broker.cpu_s() - broker_s
        return Taken(seconds, broker_s, max(0.0, tree_cpu_s() - cpu_s - broker_s), first_s)


def measure(passes: Passes, n_rounds: int) -> None:
    """Measures all ways in turn, each round over a topic of its own."""
    experiment = passes.experiment
    ways: dict[str, Callable[[str], Taken]] = {
        "replay": passes.replay, "log alone": passes.log_alone, "chained source": passes.chained,
    }  # fmt: skip
    taken: dict[str, list[Taken]] = {name: [] for name in ways}
    for number in range(n_rounds):
        for place, (name, way) in enumerate(ways.items()):
            experiment.progress.step(number * len(ways) + place + 1, n_rounds * len(ways), "pass")
            with experiment.watched():
                taken[name].append(way(f"fleet{number}"))
    for name, runs in taken.items():
        seconds = [run.seconds for run in runs]
        experiment.record.repeats_s[name] = seconds
        rates = [passes.n_events / value / 1e6 for value in seconds]
        per_event_us = 1e6 / passes.n_events
        experiment.row(
            way=name,
            **{"million events/s": statistics.median(rates), "low": min(rates), "high": max(rates)},
            **{"broker's CPU in µs an event": statistics.median(run.broker_cpu_s for run in runs) * per_event_us},
            **{"client's CPU in µs an event": statistics.median(run.client_cpu_s for run in runs) * per_event_us},
            **{"first batch in s": runs[0].first_batch_s, "repeats": len(runs)},
        )
    experiment.rate_figure("Over a Kafka topic, the broker on the same two cores")


def main() -> None:
    experiment = start("kafka", f"a Kafka topic of {N_CORES} partitions, six patterns, checkpoints on")
    n_events, batch_events, n_rounds = SIZES[experiment.size]
    patterns = wayeb_py.compile(SIX_PATTERNS)
    experiment.report("events", n_events, "events")
    try:
        broker_jars()
    except MissingJarsError as error:
        experiment.missing(str(error))
    expected = in_one_order(patterns.recognise(pq.read_table(fleet_file(n_events))).to_arrow())
    quick = experiment.size == "quick"
    with Broker(heap_mb=512, optimised=not quick) as broker:
        spark = open_session(f"local[{N_CORES}]", quick=quick)
        measure(Passes(experiment, broker, spark, patterns, expected, n_events, batch_events), n_rounds)
        spark.stop()
    experiment.finish()


if __name__ == "__main__":
    main()
