"""The logs of a file's streams become one log with all of their partitions, and each partition knows its stream.

A file with one stream has one log, whose partitions keep their names. Where it has several, partition `radar/0` is
partition `0` of the stream `radar`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from wayeb_py.files.formats.block import Block
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.logs.log import Log, OffsetRange, Offsets
from wayeb_py.parallel.logs.several_logs import SeveralLogs
from wayeb_py.parallel.recovery.first_start import extend_schemas
from wayeb_py.parallel.wire.event_schemas import wanted_by_stream
from wayeb_py.patterns import Patterns


@dataclass(frozen=True, slots=True)
class Inputs:
    """The streams that patterns read, by name, each with its log."""

    logs: Mapping[str, Log]

    @property
    def log(self) -> Log:
        """All logs as one."""
        if len(self.logs) == 1:
            return next(iter(self.logs.values()))
        return SeveralLogs(list(self.logs.values()), list(self.logs))

    def stream_of(self, partition: str) -> str:
        """The stream that a partition belongs to."""
        return next(iter(self.logs)) if len(self.logs) == 1 else partition.partition("/")[0]

    def of_stream(self, name: str, partitions: Offsets | Mapping[str, int]) -> list[str]:
        """The partitions among these that belong to a stream."""
        return [partition for partition in partitions if self.stream_of(partition) == name]

    def read(self, offsets: OffsetRange, types: StreamTypes) -> Iterator[Block]:
        """The events of a range in the types of their stream."""
        stream = self.stream_of(offsets.partition)
        if len(self.logs) > 1:
            offsets = OffsetRange(offsets.partition.partition("/")[2], offsets.start, offsets.end)
        return self.logs[stream].read(offsets, types.wanted[stream], types.bound[stream])

    def find_types(
        self, patterns: Patterns, before: pa.Schema, once: bool, stop: threading.Event, say: Callable[[str], None]
    ) -> StreamTypes | None:
        """The types of the events of every stream, as far as they are known from `before`, else from samples; None
        where there is nothing to sample."""
        types = StreamTypes.of(patterns, before)
        schemas = extend_schemas(types.schemas, types.wanted, self.logs.__getitem__, once, stop, say)
        return None if schemas is None else StreamTypes(types.wanted, schemas)


@dataclass(frozen=True)
class StreamTypes:
    """The columns that are read of each stream, and their types."""

    wanted: dict[str, Wanted]
    schemas: dict[str, pa.Schema]

    @classmethod
    def of(cls, patterns: Patterns, joint: pa.Schema) -> StreamTypes:
        """The types for some patterns, from those that a version of them keeps."""
        parts = patterns.by_stream
        wanted = wanted_by_stream(patterns)
        if len(parts) == 1:
            return cls(wanted, dict.fromkeys(parts, joint))
        schemas = {
            name: pa.schema([field.with_name(field.name[len(name) + 1 :]) for field in joint if _is_of(field, name)])
            for name in parts
        }
        return cls(wanted, schemas)

    @property
    def joint(self) -> pa.Schema:
        """All streams as one schema, which a version keeps: column `speed` of the stream `radar` is `radar.speed`."""
        if len(self.schemas) == 1:
            return next(iter(self.schemas.values()))
        return pa.schema(
            [field.with_name(f"{name}.{field.name}") for name, schema in self.schemas.items() for field in schema]
        )

    @cached_property
    def bound(self) -> dict[str, pa.Schema]:
        """The types of the wanted columns alone, in their order."""
        return {
            name: pa.schema([schema.field(column) for column in self.wanted[name].names])
            for name, schema in self.schemas.items()
        }


def _is_of(field: pa.Field, stream: str) -> bool:
    return bool(field.name.startswith(f"{stream}."))
