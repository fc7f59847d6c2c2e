"""Several logs become one: their partitions side by side, each under the number of its log, or under its stream.

All events of an entity are in one partition, as in any log; which of the logs has it does not matter. Where an entity
may come from several of them, the stream is repartitioned by entity (`stream.plan`), and a lateness says how late one
source may be against another. Where a pattern file has several streams, each has a log of its own.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from wayeb_py.errors import DataError
from wayeb_py.files.formats.arrow_types import plain
from wayeb_py.files.formats.block import Block
from wayeb_py.files.projection import Wanted
from wayeb_py.files.stores import StorePath
from wayeb_py.parallel.logs.log import Log, NoEventsError, OffsetRange, Offsets


class SeveralLogs(Log):
    """A log of logs; partition `0/west` is partition `west` of the first. Other labels than numbers may be given."""

    def __init__(self, logs: Sequence[Log], labels: Sequence[str] = ()) -> None:
        self.logs = tuple(logs)
        self.labels = tuple(labels) or tuple(map(str, range(len(logs))))
        names = [log.name for log in logs]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise DataError("this source is given twice: each of its events would be read twice", twice)

    @property
    def name(self) -> str:
        return " + ".join(log.name for log in self.logs)

    def identity(self) -> dict[str, str]:
        """What distinguishes each of the logs from others of its name."""
        facts = [(label, log.identity()) for label, log in zip(self.labels, self.logs, strict=True)]
        return {f"{what} (source {label})": value for label, own in facts for what, value in own.items()}

    def schema(self, wanted: Wanted) -> pa.Schema | None:
        """The types that hold the events of all logs; empty logs are read in the others' types."""
        schemas: list[tuple[str, pa.Schema]] = []
        without_events: list[NoEventsError] = []
        for log in self.logs:
            try:
                schema = log.schema(wanted)
            except NoEventsError as error:
                without_events.append(error)
            else:
                schemas += [] if schema is None else [(log.name, schema)]
        if not schemas:
            if without_events:
                raise without_events[0]
            return None
        return pa.schema([(name, _common_type(name, schemas)) for name in wanted.names])

    def earliest(self) -> Offsets:
        return self._joined([log.earliest() for log in self.logs])

    def latest(self) -> Offsets:
        return self._joined([log.latest() for log in self.logs])

    def ends(self) -> Offsets | None:
        """Where all partitions end for good; None as long as one of the logs may have more."""
        ends = [end for log in self.logs if (end := log.ends()) is not None]
        return self._joined(ends) if len(ends) == len(self.logs) else None

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(file for log in self.logs for file in log.files)

    def with_files_in(self, folder: StorePath) -> SeveralLogs:
        moved = copy.copy(self)
        moved.logs = tuple(log.with_files_in(folder) for log in self.logs)
        return moved

    def settle(self) -> None:
        for log in self.logs:
            log.settle()

    def read(self, offsets: OffsetRange, wanted: Wanted, schema: pa.Schema) -> Iterator[Block]:
        log, partition = self.find(offsets.partition)
        return log.read(OffsetRange(partition, offsets.start, offsets.end), wanted, schema)

    def forget(self, before: Offsets) -> None:
        for label, log in zip(self.labels, self.logs, strict=True):
            log.forget(_own(label, before))

    def refuse_lost(self, taken: Offsets) -> None:
        for label, log in zip(self.labels, self.logs, strict=True):
            log.refuse_lost(_own(label, taken))

    def resume(self, taken: Offsets) -> None:
        for label, log in zip(self.labels, self.logs, strict=True):
            log.resume(_own(label, taken))

    def wake(self, arrived: threading.Event) -> bool:
        woken = [log.wake(arrived) for log in self.logs]  # each log must know the event
        return all(woken)

    @property
    def keeps(self) -> bool:
        return all(log.keeps for log in self.logs)

    def hang_up(self) -> None:
        for log in self.logs:
            log.hang_up()

    def close(self) -> None:
        for log in self.logs:
            log.close()

    def _joined(self, offsets: Sequence[Offsets]) -> Offsets:
        labelled = zip(self.labels, offsets, strict=True)
        return {f"{label}/{name}": offset for label, own in labelled for name, offset in own.items()}

    def find(self, partition: str) -> tuple[Log, str]:
        """The log that a partition belongs to, and its name there."""
        label, _, name = partition.partition("/")
        return self.logs[self.labels.index(label)], name


class StreamLogs(SeveralLogs):
    """The logs of a file's streams; partition `radar/west` is partition `west` of the stream `radar`."""

    def __init__(self, logs: Mapping[str, Log]) -> None:
        self.logs, self.labels = tuple(logs.values()), tuple(logs)  # two streams may read the same events

    @property
    def name(self) -> str:
        return " + ".join(f"{label}={log.name}" for label, log in zip(self.labels, self.logs, strict=True))

    def stream_of(self, partition: str) -> str:
        return stream_of(partition)

    def of_stream(self, stream: str | None) -> Log:
        return self.logs[self.labels.index(stream or "")]

    def schema(self, wanted: Wanted) -> pa.Schema | None:
        """Fails: streams have types of their own, which the log of each one gives."""
        raise TypeError("the logs of several streams have no schema in common")


def stream_of(partition: str) -> str:
    """The stream whose events a partition of `StreamLogs` holds."""
    return partition.partition("/")[0]


def _own(label: str, offsets: Offsets) -> Offsets:
    """The offsets of one of the logs."""
    own = f"{label}/"
    return {name.removeprefix(own): offset for name, offset in offsets.items() if name.startswith(own)}


def _common_type(name: str, schemas: Sequence[tuple[str, pa.Schema]]) -> pa.DataType:
    """The type of a column that can hold the values of each log."""
    types = [schema.field(name).type for _, schema in schemas]
    if all(type_ == types[0] for type_ in types):
        return types[0]
    single = [pa.schema([(name, plain(type_))]) for type_ in types]
    try:
        return pa.unify_schemas(single, promote_options="permissive").field(0).type
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        told = ", ".join(f"{type_} in {log}" for type_, (log, _) in zip(types, schemas, strict=True))
        raise DataError(
            f"the column `{name}` is of types that have nothing in common: {told}",
            hint="declare its type in the stream block (attr), or run the sources as streams of their own",
        ) from None
