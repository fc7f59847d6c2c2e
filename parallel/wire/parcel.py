"""Tables travel through Spark as parcels: a few rows that each hold a whole Arrow table as bytes.

Spark's cost is turning rows into its own form and back, some microseconds each; a parcel is one row for thousands of
events, so a shuffle moves bytes and no more. Nothing is lost on the way either: Spark has no nanoseconds, unsigned
integers or dictionaries, and never looks inside.

*Not taken*: Spark's columns for events and detections (ten times the time of recognising them). The DataFrame API opens
parcels into rows at its very end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

Kind = Literal[
    "events", "detections", "episodes", "aside", "counts", "entities", "reached", "presence", "epoch", "elsewhere",
    "rows", "ended", "packed",
]

SCHEMA = pa.schema([("kind", pa.string()), ("split", pa.int64()), ("number", pa.int64()), ("payload", pa.binary())])
DDL = "kind string, split bigint, number bigint, payload binary"

_IPC = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True)
class Parcel:
    """Its content, where it belongs (a shard, a split, a group) and its number in the order there."""

    kind: Kind
    split: int
    number: int
    payload: bytes  # an Arrow stream; for counts JSON; for aside what sender and receiver agree on; see `overflow`


def pack(table: pa.Table | pa.RecordBatch) -> bytes:
    """A table as bytes that any of our processes can open."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_IPC) as writer:
        writer.write(table)
    payload: bytes = sink.getvalue().to_pybytes()
    return payload


def unpack(payload: bytes | pa.Buffer) -> pa.Table:
    """The table that was packed."""
    with pa.ipc.open_stream(payload) as reader:
        return reader.read_all()


def pack_lines(lines: bytes | bytearray) -> bytes:
    """Lines of text, which are much alike, in a tenth of their size: the driver's JVM holds those of a whole batch."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(lines)
    payload: bytes = sink.getvalue().to_pybytes()
    return payload


def unpack_lines(payload: bytes) -> bytes:
    """The lines that were packed."""
    with pa.CompressedInputStream(pa.BufferReader(payload), "zstd") as stream:
        lines: bytes = stream.read()
    return lines


def to_batch(parcels: list[Parcel]) -> pa.RecordBatch:
    """Parcels as Spark takes them from `mapInArrow` and from data sources."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array([parcel.kind for parcel in parcels], pa.string()),
            pa.array([parcel.split for parcel in parcels], pa.int64()),
            pa.array([parcel.number for parcel in parcels], pa.int64()),
            pa.array([parcel.payload for parcel in parcels], pa.binary()),
        ],
        schema=SCHEMA,
    )


def from_batch(batch: pa.RecordBatch) -> Iterator[Parcel]:
    """The parcels that `to_batch` made a batch of."""
    for row in batch.to_pylist():
        yield Parcel(row["kind"], row["split"], row["number"], row["payload"])
