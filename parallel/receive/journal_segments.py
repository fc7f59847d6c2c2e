"""The files of a journal become records: each has a first line, with the journal's name, and then records one by one
(`journal`).
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from wayeb_py.errors import DamagedError
from wayeb_py.parallel.receive.received_buffer import Fault, Note, Record, bytes_of

MAGIC = b"wayeb-journal-1 "
HEAD = struct.Struct("<IIB")
_KINDS: list[Any] = [bytes, Fault, Note]  # by the number that a record has on the disk
_BEGIN = re.compile(rb"[\0-\2][\[{]")  # a kind, and what nearly all records begin with


def segments_in(folder: Path) -> list[tuple[int, Path]]:
    """The offset of the first record of each segment, and the segment."""
    return sorted((int(path.stem), path) for path in folder.glob("*.journal"))


def framed(record: Record) -> bytes:
    """A record as it is on the disk."""
    data, kind = bytes_of(record), _KINDS.index(type(record))
    return HEAD.pack(len(data), zlib.crc32(data, kind), kind) + data


def parts_of(records: Sequence[Record], most_bytes: int) -> Iterator[list[Record]]:
    """Records in parts, each of which fits into a segment, or is one record."""
    part: list[Record] = []
    n_bytes = 0
    for record in records:
        part.append(record)
        n_bytes += HEAD.size + len(bytes_of(record))
        if n_bytes >= most_bytes:
            yield part
            part, n_bytes = [], 0
    if part:
        yield part


def has_head(path: Path) -> bool:
    """Whether the first line of a segment is whole, or is another file's."""
    with open(path, "rb") as file:
        head = file.readline(100)
    return head.endswith(b"\n") or not (head + MAGIC[len(head) :]).startswith(MAGIC)


def head_of(path: Path) -> str:
    """The name of the journal that a segment belongs to."""
    with open(path, "rb") as file:
        head = file.readline(100)
    if not head.startswith(MAGIC) or not head.endswith(b"\n"):
        raise DamagedError("this is no journal of wayeb", str(path))
    return head[len(MAGIC) : -1].decode("ascii", "replace")


def has_records_after(path: Path, place: int) -> bool:
    """Whether whole records follow a place where there is none: a writer that died leaves none after half a record."""
    data = path.read_bytes()
    for found in _BEGIN.finditer(data, place + HEAD.size):
        at = found.start() + 1
        length, checksum, kind = HEAD.unpack_from(data, at - HEAD.size)
        if at + length <= len(data) and zlib.crc32(data[at : at + length], kind) == checksum:
            return True
    return False


def records_of(path: Path, place: int = 0, strict: bool = False) -> Iterator[tuple[Record, int]]:
    """The whole records of a segment from a place in it on, each with the place after it. It ends before half a record,
    and before one that is not what was written; `strict` raises DamagedError there."""
    with open(path, "rb") as file:
        file.seek(place)
        data = file.read()
    at = 0 if place else data.index(b"\n") + 1
    while at + HEAD.size <= len(data):
        length, checksum, kind = HEAD.unpack_from(data, at)
        payload = data[at + HEAD.size : at + HEAD.size + length]
        if len(payload) < length:
            return
        if kind >= len(_KINDS) or zlib.crc32(payload, kind) != checksum:
            if strict:
                raise DamagedError(
                    f"the journal is damaged at byte {place + at:,}", str(path),
                    hint="restore it from a copy; or begin again with another --journal, and --restart now",
                )  # fmt: skip
            return
        at += HEAD.size + length
        yield _KINDS[kind](payload), place + at
