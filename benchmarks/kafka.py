"""Six patterns over a Kafka topic, checkpoints on: how fast events go in and come out, and what the broker pays for it.

A real broker on this machine shares its two cores with whoever writes and reads, so a rate here is that of all of them
together; the broker's CPU time is reported beside it, and what reading and parsing costs a core without Spark.

- *replay*: `wayeb replay --speed max` sends the events, as JSON keyed by vehicle.
- *log alone*: the topic's partitions are read and parsed one after the other, in this process.
- *chained source*: what `wayeb stream` does; a partition is recognised where it is read.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

import wayeb_py
from benchmarks.events import SIX_PATTERNS, fleet_file
from benchmarks.measure import Experiment, start
from benchmarks.spark_stream import BatchWatcher, in_one_order
from wayeb_py.files.wanted import Wanted
from wayeb_py.parallel.broker import Broker
from wayeb_py.parallel.checkpoint import Checkpoint
from wayeb_py.parallel.jars import MissingJarsError, broker_jars
from wayeb_py.parallel.kafka_log import KafkaLog
from wayeb_py.parallel.log import Stretch
from wayeb_py.parallel.recorded import open_recorded
from wayeb_py.parallel.replay import replay
from wayeb_py.parallel.replay_targets import TopicTarget
from wayeb_py.parallel.session import open_session
from wayeb_py.parallel.sinks import ParquetSink
from wayeb_py.parallel.stream import stream
from wayeb_py.patterns import Patterns

N_CORES = 2
SIZES = {"quick": (300_000, 100_000), "usual": (2_000_000, 500_000), "full": (10_000_000, 1_000_000)}


def fill(experiment: Experiment, broker: Broker, n_events: int) -> str:
    """The events of `fleet_file` in a topic of two partitions."""
    url = broker.url("fleet")
    recorded = open_recorded([fleet_file(n_events)], "vehicle_id", "ts")
    cpu_s, broker_s = time.process_time(), broker.cpu_s()
    with experiment.watched():
        summary = replay(recorded, TopicTarget(url, N_CORES), None)
    experiment.check(f"{n_events:,} events sent", summary.events == n_events)
    _row(experiment, "replay", n_events, summary.seconds, broker.cpu_s() - broker_s, time.process_time() - cpu_s)
    return url


def read(experiment: Experiment, broker: Broker, url: str, patterns: Patterns) -> None:
    """Reads and parses every message, without recognising anything."""
    log, wanted = KafkaLog.open(url), Wanted.from_needs(patterns.needs, patterns.meaning.stream.time_unit)
    schema = log.schema(wanted)
    assert schema is not None
    began, cpu_s, broker_s = time.perf_counter(), time.process_time(), broker.cpu_s()
    n_events = 0
    with experiment.watched():
        for partition, end in log.latest().items():
            for block in log.read(Stretch(partition, 0, end), wanted, schema):
                n_events += sum(batch.num_rows for batch in block.batches)
    seconds = time.perf_counter() - began
    _row(experiment, "log alone", n_events, seconds, broker.cpu_s() - broker_s, time.process_time() - cpu_s)


def recognise(
    experiment: Experiment, broker: Broker, url: str, patterns: Patterns, n_events: int, batch_events: int
) -> None:
    """Streams the topic once; the first batch starts Python workers and is reported apart."""
    expected = in_one_order(patterns.recognise(pq.read_table(fleet_file(n_events))).to_arrow())
    spark = open_session(f"local[{N_CORES}]", quick=False)
    watcher = BatchWatcher()
    broker_s = broker.cpu_s()
    with tempfile.TemporaryDirectory(prefix="wayeb-kafka-") as folder, experiment.watched():
        with Checkpoint(Path(folder) / "checkpoint") as checkpoint:
            stream(
                spark, patterns, KafkaLog.open(url), ParquetSink(Path(folder) / "out"), checkpoint,
                scheme="source", once=True, max_rows=batch_events, watchers=[watcher],
            )  # fmt: skip
        found = in_one_order(pq.read_table(Path(folder) / "out"))
    broker_s = broker.cpu_s() - broker_s
    spark.stop()
    experiment.check(f"{len(found):,} detections, equal to one process", found.equals(expected))
    went = watcher.went()
    _row(experiment, "chained source", n_events, n_events / went.events_per_s, broker_s, None)
    experiment.report("first batch of the chained source", went.first_s, "s")


def _row(experiment: Experiment, way: str, n_events: int, seconds: float, broker_s: float, cpu_s: float | None) -> None:
    per_event = {"broker's CPU in µs an event": broker_s / n_events * 1e6}
    if cpu_s is not None:
        per_event["client's CPU in µs an event"] = cpu_s / n_events * 1e6
    experiment.row(
        way=way, **{"million events/s": n_events / seconds / 1e6, "broker's CPU in s": broker_s}, **per_event
    )


def main() -> None:
    experiment = start("kafka", f"a Kafka topic of {N_CORES} partitions, six patterns, checkpoints on")
    n_events, batch_events = SIZES[experiment.size]
    patterns = wayeb_py.compile(SIX_PATTERNS)
    experiment.report("events", n_events, "events")
    try:
        broker_jars()
    except MissingJarsError as error:
        raise SystemExit(f"kafka: not run: {error}") from error
    with Broker(heap_mb=512, optimised=True) as broker:
        url = fill(experiment, broker, n_events)
        read(experiment, broker, url, patterns)
        recognise(experiment, broker, url, patterns, n_events, batch_events)
    experiment.finish()


if __name__ == "__main__":
    main()
