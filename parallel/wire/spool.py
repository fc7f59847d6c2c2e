"""Keeps bytes that may be needed again: in memory while they are few, on disk beyond."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterable, Iterator

IN_MEMORY_BYTES = 64 << 20

_LENGTH = struct.Struct("<q")


class Spool:
    """Pieces of bytes in the order in which they were added."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES, prefix="wayeb-spool-")  # noqa: SIM115

    def add(self, piece: bytes) -> None:
        self._file.write(_LENGTH.pack(len(piece)))
        self._file.write(piece)

    def __iter__(self) -> Iterator[bytes]:
        self._file.seek(0)
        while head := self._file.read(_LENGTH.size):
            yield self._file.read(_LENGTH.unpack(head)[0])

    def clear(self) -> None:
        self._file.seek(0)
        self._file.truncate()

    def close(self) -> None:
        self._file.close()


class Rereadable:
    """An iterator of pieces that can start again from the beginning, before its end or after."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._rest = iter(pieces)
        self._seen = Spool()

    def __iter__(self) -> Iterator[bytes]:
        yield from self._seen
        for piece in self._rest:
            self._seen.add(piece)
            yield piece

    def close(self) -> None:
        self._seen.close()
