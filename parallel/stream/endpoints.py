"""Words of the command line become the two ends of a stream: a log to read, a sink to write to.

--source   kafka://HOST:PORT/TOPIC     a folder     replay:PATH[,PATH…] (a data set by its own time, speeded up)
           delta:PATH  iceberg:CATALOG.TABLE            what others append to a table
           journal:DIR                  what another stream has received, in its journal
           -  tcp://  unix:  nmea+tcp://  nmea+udp://  mqtt://   what is received by one process (`receive.address`)
--out      kafka://HOST:PORT/TOPIC     a folder, here or in a store     - (NDJSON)     delta:PATH     iceberg:NAME
           tcp://  sse://  webhook:URL  mqtt://         what is delivered as it is found (`sinks.deliveries`)
either     python:FILE.py (the user's own: `user_endpoints`)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from wayeb_py.errors import DataError
from wayeb_py.files.stores import Location, StorePath, is_store, located
from wayeb_py.files.stores import is_address as is_stored
from wayeb_py.files.tables import is_table
from wayeb_py.parallel.logs.back_pressure import Capacity
from wayeb_py.parallel.logs.log import Log
from wayeb_py.parallel.receive.address import is_address, parse_address
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.sinks.deliveries import is_delivered, open_delivery
from wayeb_py.parallel.sinks.sinks import NdjsonSink, ParquetSink, Sink, StoreSink
from wayeb_py.parallel.stream.user_endpoints import PYTHON, open_own_log, open_own_sink
from wayeb_py.patterns import Patterns

KAFKA, REPLAY, FOLDER, JOURNAL = "kafka://", "replay:", "folder:", "journal:"


def open_streams(
    sources: Mapping[str, Sequence[str]],
    checkpoint: Checkpoint,
    patterns: Patterns,
    *,
    speed: float = 1.0,
    capacity: Capacity | None = None,
    journal: JournalOptions | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Log]:
    """The log of each stream, by its name; with several streams none can be a replay, which has a clock of its own."""
    if len(sources) == 1:
        name, own = next(iter(sources.items()))
        if len(own) == 1 and not is_address(own[0]):
            return {name: open_log(own[0], checkpoint, patterns, speed=speed, capacity=capacity)}
    logs: dict[str, Log] = {}
    number = 0
    for name, own in sources.items():
        _refuse_replay(own)
        opened = [
            open_received(source, checkpoint, journal, number + n, say)
            if is_address(source)
            else open_log(source, checkpoint, patterns, number=number + n)
            for n, source in enumerate(own)
        ]
        number += len(own)
        logs[name] = opened[0] if len(opened) == 1 else _several(opened)
    return logs


def open_spark_log(
    sources: Mapping[str, Sequence[str]],
    checkpoint: Checkpoint,
    patterns: Patterns,
    *,
    speed: float = 1.0,
    partitions: int | None = None,
    capacity: Capacity | None = None,
) -> Log:
    """All sources as one log, as Spark reads it: `sources` are by stream."""
    if len(patterns.meaning.streams) == 1:
        (own,) = sources.values() or ([],)
        return open_logs(own, checkpoint, patterns, speed=speed, partitions=partitions, capacity=capacity)
    from wayeb_py.parallel.logs.several_logs import StreamLogs  # for start-up time

    for own in sources.values():
        _refuse_replay(own)
        _refuse_received(own)
    return StreamLogs(open_streams(sources, checkpoint, patterns))


@dataclass(frozen=True, slots=True)
class JournalOptions:
    """Where received events are kept, and how much of them and for how long once they are not needed."""

    folder: Path
    most_bytes: int | None = None
    most_age_s: float | None = None


def open_received(
    source: str, checkpoint: Checkpoint, journal: JournalOptions | None, number: int, say: Callable[[str], None]
) -> Log:
    """The log of a source that is received: from a socket, standard input, or a broker of MQTT."""
    from wayeb_py.parallel.receive.journal import MOST_AGE_S, MOST_BYTES, Journal  # for start-up time
    from wayeb_py.parallel.receive.received_buffer import ReceivedBuffer  # for start-up time
    from wayeb_py.parallel.receive.received_log import ReceivedLog, Receiver  # for start-up time
    from wayeb_py.parallel.receive.sockets import SocketReceiver  # for start-up time
    from wayeb_py.parallel.receive.stdin import StdinReceiver  # for start-up time

    address = parse_address(source)
    if address.acknowledges and journal is None:
        raise DataError(
            "?ack tells a sender what is safe, and without a journal nothing is", source,
            hint="keep what is received: --journal DIR; or leave ?ack out",
        )  # fmt: skip
    receiver: Receiver
    if address.kind == "mqtt":
        from wayeb_py.parallel.receive.mqtt import MqttReceiver  # for start-up time

        receiver = MqttReceiver(address, say)
    elif address.kind == "stdin":
        receiver = StdinReceiver(address)
    else:
        receiver = SocketReceiver(address, say=say)
    if journal is None:
        return ReceivedLog(receiver, ReceivedBuffer())
    store = Journal(
        journal.folder / str(number),
        most_bytes=journal.most_bytes or MOST_BYTES,
        most_age_s=MOST_AGE_S if journal.most_age_s is None else journal.most_age_s,
    )
    if checkpoint.read() is None and checkpoint.restart is None and store.safe_end > store.first:
        say(f"the journal {store.folder} has events already: they are read first")
    return ReceivedLog(receiver, store)


def open_logs(
    sources: Sequence[str],
    checkpoint: Checkpoint,
    patterns: Patterns,
    *,
    speed: float = 1.0,
    partitions: int | None = None,
    capacity: Capacity | None = None,
) -> Log:
    """The log that one `--source` means, or several of them together."""
    if len(sources) == 1:
        return open_log(sources[0], checkpoint, patterns, speed=speed, partitions=partitions, capacity=capacity)
    _refuse_replay(sources)
    return _several([open_log(source, checkpoint, patterns, number=n) for n, source in enumerate(sources)])


def _refuse_replay(sources: Sequence[str]) -> None:
    replayed = next((source for source in sources if source.startswith(REPLAY)), None)
    if replayed is not None:
        raise DataError(
            "a replay has a clock of its own, and cannot be one of several sources", replayed,
            hint="replay several files as one (replay:A,B), or replay to folders or topics and read those",
        )  # fmt: skip


def _refuse_received(sources: Sequence[str]) -> None:
    received = next((source for source in sources if is_address(source)), None)
    if received is not None:
        raise DataError(
            "Spark can only read what can be read again, and this is received by one process", received,
            hint="run it in this process: --engine local",
        )  # fmt: skip


def _several(logs: Sequence[Log]) -> Log:
    from wayeb_py.parallel.logs.several_logs import SeveralLogs  # for start-up time

    return SeveralLogs(logs)


def open_log(
    source: str,
    checkpoint: Checkpoint,
    patterns: Patterns,
    *,
    speed: float = 1.0,
    partitions: int | None = None,
    capacity: Capacity | None = None,
    number: int = 0,
) -> Log:
    """The log that a `--source` means, by its number among them; `speed`, `partitions` and `capacity` are for a replay
    that has none of its own."""
    _refuse_received([source])
    if source.startswith(KAFKA):
        from wayeb_py.parallel.logs.kafka import KafkaLog  # for start-up time

        return KafkaLog.open(source)
    if source.startswith(PYTHON):
        return open_own_log(source)
    if source.startswith(REPLAY):
        from wayeb_py.parallel.logs.replay import ReplayLog  # for start-up time
        from wayeb_py.parallel.logs.replay_store import store_events  # for start-up time

        if checkpoint.restart == "now":
            raise DataError("a replay has no now to begin from", source, hint="use --restart beginning")
        wanted = patterns.wanted
        folder = checkpoint.folder / "replay"
        store_events(source.removeprefix(REPLAY).split(","), wanted, folder, partitions or 1)
        return ReplayLog(folder, speed, capacity)
    if source.startswith(JOURNAL):
        from wayeb_py.parallel.receive.journal_log import JournalLog  # for start-up time

        return JournalLog(Path(source.removeprefix(JOURNAL)))
    path = Path(source.removeprefix(FOLDER))
    stored = stored_folder(source)
    if stored is None and not is_table(source) and not path.is_dir():
        raise DataError(
            f"`{source.removeprefix(FOLDER)}` is not a folder",
            hint="name a folder, here or in a store (s3://BUCKET/FOLDER), a table (delta:PATH), "
            "kafka://HOST:PORT/TOPIC, journal:DIR, replay:PATH with a data set, or with "
            "--engine local what is received: -, tcp://HOST:PORT, nmea+udp://HOST:PORT, mqtt://HOST/TOPIC",
        )
    journal = checkpoint.journal.with_stem(f"{checkpoint.journal.stem}-{number}") if number else checkpoint.journal
    if checkpoint.read() is None:  # left by a failed start: no offset belongs to it yet, and files may have gone since
        journal.unlink(missing_ok=True)
    if is_table(source):
        from wayeb_py.parallel.logs.table import TableLog  # for start-up time

        return TableLog(source, journal)
    if stored is not None:
        from wayeb_py.parallel.logs.folders.stored_folder import StoredFolderLog  # for start-up time

        if not stored.exists() and not StorePath(stored.root, PurePosixPath()).exists():
            raise DataError(f"there is no bucket `{stored.root.partition('://')[2]}` to read from", source)
        return StoredFolderLog(stored, journal)
    from wayeb_py.parallel.logs.folders.folder import FolderLog  # for start-up time

    return FolderLog(path, journal)


def stored_folder(source: str) -> StorePath | None:
    """The folder of a store that a `--source` names; None where it names something else."""
    text = source.removeprefix(FOLDER)
    scheme, separator, _ = text.partition("://")
    return StorePath.parse(text) if separator and is_store(scheme) and is_stored(text) else None


def open_sink(out: str, episodes: bool, say: Callable[[str], None] = lambda text: None) -> Sink:
    """The sink that an `--out` means."""
    if out.startswith(KAFKA):
        from wayeb_py.parallel.sinks.kafka import KafkaSink  # for start-up time

        return KafkaSink(out)
    if out.startswith(PYTHON):
        return open_own_sink(out)
    if out == "-":
        return NdjsonSink()
    if is_delivered(out):
        return open_delivery(out, say)
    if is_table(out):
        from wayeb_py.parallel.sinks.table import TableSink  # for start-up time

        return TableSink(out)
    place = located(out)
    if isinstance(place, StorePath):
        return StoreSink(place, "episodes" if episodes else "detections")
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


def refuse_mixed_up(sources: Sequence[str], out: str, checkpoint: Location, aside: Path | None = None) -> None:
    """Raises DataError where a stream would read what it writes, or would write where no reader looks for it."""
    folders = {} if isinstance(checkpoint, StorePath) else {"--checkpoint": str(checkpoint)}
    place = out.removeprefix("delta:")
    elsewhere = out == "-" or out.startswith((KAFKA, PYTHON, "iceberg:")) or is_delivered(out)
    if not elsewhere and not isinstance(located(place), StorePath):
        folders["--out"] = place
    if aside is not None:
        folders["--aside"] = str(aside)
    for option, folder in folders.items():
        scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", folder)
        if scheme is not None:
            raise DataError(
                f"{option} `{folder}`: nothing can be kept at {scheme[1]}://, only in folders",
                hint="mount it, and name the folder" if scheme[1] != "file" else "name the folder without file://",
            )
    for source in sources:
        if source.startswith(KAFKA):
            _refuse_same_topic(source, out)
            continue
        if is_table(source) and source == out:
            raise DataError(
                "the table is source and destination: what is found would be read as events", source,
                hint="write detections to a table of their own",
            )  # fmt: skip
        if source.startswith((PYTHON, "iceberg:", JOURNAL)) or is_address(source):
            continue
        stored = stored_folder(source)
        if stored is not None:
            _refuse_inside(stored, {"--out": place, "--checkpoint": str(checkpoint)})
            continue
        source = source.removeprefix("delta:")
        is_replay = source.startswith(REPLAY)
        for read in source.removeprefix(REPLAY).split(",") if is_replay else [source.removeprefix(FOLDER)]:
            for option, folder in folders.items():
                if _is_read_with(Path(folder), Path(read)):
                    raise DataError(
                        f"{option} `{folder}` is in the source `{read}`: its files would be read as events",
                        hint="name a folder elsewhere, or one whose name begins with _, which is not read",
                    )
    inside = (
        place == str(checkpoint) or place.startswith(f"{checkpoint}/")
        if isinstance(checkpoint, StorePath)
        else "--out" in folders and _is_within(Path(place), checkpoint)
    )
    if inside:
        raise DataError(
            f"--out `{out}` is in the checkpoint: a restart would move it away", hint="name a folder elsewhere"
        )


def _refuse_inside(source: StorePath, places: Mapping[str, str]) -> None:
    """Raises DataError where objects that a stream writes would be read as its events."""
    for option, text in places.items():
        place = stored_folder(text)
        if place is not None and place.is_below(source) and not _is_hidden(place.key.relative_to(source.key)):
            raise DataError(
                f"{option} `{text}` is in the source `{source}`: its objects would be read as events",
                hint="name a folder elsewhere, or one whose name begins with _, which is not read",
            )


def _is_hidden(path: PurePosixPath) -> bool:
    return any(part.startswith(("_", ".")) for part in path.parts)


def _refuse_same_topic(source: str, out: str) -> None:
    from wayeb_py.parallel.logs.kafka_topic import KafkaTopic  # for start-up time

    if not out.startswith(KAFKA):
        return
    one, other = KafkaTopic.parse(source), KafkaTopic.parse(out)
    if one.name == other.name and set(one.servers.split(",")) & set(other.servers.split(",")):
        raise DataError(
            "the topic is source and destination: what is found would be read as events", one.url,
            hint="send detections to a topic of their own",
        )  # fmt: skip


def _is_within(folder: Path, other: Path) -> bool:
    return folder.resolve().is_relative_to(other.resolve())


def _is_read_with(folder: Path, source: Path) -> bool:
    """Whether a source would read the files of a folder; it skips those below names of bookkeeping."""
    if not _is_within(folder, source):
        return False
    below = folder.resolve().relative_to(source.resolve()).parts
    return not any(name.startswith(("_", ".")) for name in below)


def aside_folder(out: str) -> Location | None:
    """Where rows set aside go by default: into the output's folder, hidden from its readers."""
    elsewhere = out == "-" or out.startswith((KAFKA, PYTHON)) or is_delivered(out) or is_table(out)
    return None if elsewhere else located(out) / "_aside"
