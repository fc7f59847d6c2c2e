"""Words of the command line become the two ends of a stream: a log to read, a sink to write to.

--source   kafka://HOST:PORT/TOPIC     a folder     replay:PATH[,PATH…] (a data set by its own time, speeded up)
--out      kafka://HOST:PORT/TOPIC     a folder     - (NDJSON on standard output)
"""

from __future__ import annotations

from pathlib import Path

from wayeb_py.errors import DataError
from wayeb_py.files.wanted import Wanted
from wayeb_py.parallel.checkpoint import Checkpoint
from wayeb_py.parallel.log import Log
from wayeb_py.parallel.pressure import Capacity
from wayeb_py.parallel.sinks import NdjsonSink, ParquetSink, Sink
from wayeb_py.patterns import Patterns

KAFKA, REPLAY, FOLDER = "kafka://", "replay:", "folder:"


def open_log(
    source: str,
    checkpoint: Checkpoint,
    patterns: Patterns,
    *,
    speed: float = 1.0,
    partitions: int | None = None,
    capacity: Capacity | None = None,
) -> Log:
    """The log that a `--source` means; `speed`, `partitions` and `capacity` are for a replay, which has none."""
    if source.startswith(KAFKA):
        from wayeb_py.parallel.kafka_log import KafkaLog

        return KafkaLog.open(source)
    if source.startswith(REPLAY):
        from wayeb_py.parallel.replay_log import CAPACITY, ReplayLog
        from wayeb_py.parallel.replay_store import store_events

        wanted = Wanted.from_needs(patterns.needs, patterns.meaning.stream.time_unit)
        folder = checkpoint.folder / "replay"
        store_events(source.removeprefix(REPLAY).split(","), wanted, folder, partitions or 1)
        return ReplayLog(folder, speed, capacity or CAPACITY)
    from wayeb_py.parallel.folder_log import FolderLog

    path = Path(source.removeprefix(FOLDER))
    if not path.is_dir():
        raise DataError(
            f"`{path}` is not a folder", hint="name a folder, kafka://HOST:PORT/TOPIC, or replay:PATH with a data set"
        )
    return FolderLog(path, checkpoint.journal)


def open_sink(out: str, episodes: bool) -> Sink:
    """The sink that an `--out` means."""
    if out.startswith(KAFKA):
        from wayeb_py.parallel.kafka_sink import KafkaSink

        return KafkaSink(out)
    if out == "-":
        return NdjsonSink()
    path = Path(out)
    if path.exists() and not path.is_dir():
        raise DataError(
            f"`{out}` is a file, and a stream writes a folder of Parquet files", hint="name a folder; - is NDJSON"
        )
    if path.suffix and not path.is_dir() and not out.endswith("/"):
        raise DataError(
            f"`{out}` looks like a file, and a stream writes a folder of Parquet files",
            hint="name a folder, ending in / if its name has a dot; - is NDJSON on standard output",
        )
    return ParquetSink(path, "episodes" if episodes else "detections")


def aside_folder(out: str) -> Path | None:
    """Where rows set aside go unless said otherwise: into the output's folder, hidden from whoever reads it."""
    return None if out == "-" or out.startswith(KAFKA) else Path(out) / "_aside"
