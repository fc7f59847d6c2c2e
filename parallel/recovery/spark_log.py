"""Reads and mends Spark's notes about a query as files: which offsets a batch covers, which batches are done.

    spark/metadata         the query's id
    spark/offsets/N        before batch N begins            spark/commits/N    when it is done
    spark/.metadata.crc    checksums that Hadoop's file system writes beside each

Spark never forces these files to the disk: after a power cut they have their names, and nothing in them. A file is
*proven* if its checksum fits, *plausible* if it can be read and nothing contradicts it, and otherwise damaged.
"""

from __future__ import annotations

import contextlib
import json
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from wayeb_py.files.output.whole_file import make_folder, sync, write_whole

Kind = Literal["offsets", "commits"]
_CRC_HEAD = b"crc\0"


@dataclass(frozen=True, slots=True)
class SparkFile:
    """A file of Spark's; without a text it is damaged."""

    text: str | None
    is_proven: bool


class SparkLog:
    """The files of one query."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._settled: set[Path] = set()  # files of the state that are on the disk

    def batches(self, kind: Kind) -> list[int]:
        """The batches that have a file, damaged or not."""
        try:
            names = [path.name for path in (self.folder / kind).iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(int(name) for name in names if name.isdecimal())

    def read(self, kind: Kind, batch: int) -> SparkFile | None:
        """The file of a batch; None if there is none."""
        return _read(self.path(kind, batch), offset_of if kind == "offsets" else _commit)

    def read_query(self) -> SparkFile | None:
        """The file with the query's id."""
        return _read(self.folder / "metadata", _query)

    def path(self, kind: Kind, batch: int) -> Path:
        return self.folder / kind / str(batch)

    def write(self, kind: Kind, batch: int, text: str) -> None:
        """Puts a file in its place, on the disk."""
        self._put(self.path(kind, batch), text)

    def write_query(self, text: str) -> None:
        self._put(self.folder / "metadata", text)

    def _put(self, path: Path, text: str) -> None:
        make_folder(path.parent)
        drop_checksum(path)  # the checksum of what was there before
        write_whole(path, text.encode())

    def remove(self, kind: Kind, batch: int) -> None:
        path = self.path(kind, batch)
        path.unlink(missing_ok=True)
        drop_checksum(path)

    def sync_commits(self) -> None:
        """Forces the newest commit to the disk: a power cut does not undo it."""
        done = self.batches("commits")
        if done:
            sync(self.path("commits", done[-1]))
            sync(self.folder / "commits")

    def clear_temporary(self) -> None:
        """Removes the temporary files of a killed query."""
        for folder in (self.folder, self.folder / "offsets", self.folder / "commits"):
            for left in folder.glob(".*.tmp*"):
                left.unlink(missing_ok=True)

    # The state of shards, which Spark keeps by operator, shard and version: version N + 1 is after batch N.

    @property
    def state_folder(self) -> Path:
        return self.folder / "state"

    def states(self) -> Iterator[tuple[int, Path]]:
        """Version and file of everything that holds the state of a shard."""
        for path in self.state_folder.glob("*/*/*"):
            version = re.fullmatch(r"\.?(\d+)[._].*", path.name)
            if version is not None and path.is_file():
                yield int(version[1]), path

    def settle_state(self) -> None:
        """Forces to the disk everything that shards have written since the last time."""
        new = {path for path in self.state_folder.rglob("*") if path not in self._settled}
        for path in sorted(new):
            with contextlib.suppress(FileNotFoundError):  # Spark clears old versions away
                sync(path)
        for folder in {path.parent for path in new}:
            sync(folder)
        self._settled |= {path for path in new if path.is_file()}


def _read(path: Path, parse: Any) -> SparkFile | None:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    fits = _checksum_fits(path, content)
    try:
        text = content.decode()
        parse(text)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return SparkFile(None, False)
    return SparkFile(text if fits is not False else None, fits is True)


def offset_of(text: str) -> dict[str, Any]:
    """Our own offset, of the one source, in Spark's notes of a batch."""
    version, about, offset = text.split("\n")
    if re.fullmatch(r"v\d+", version) is None or not isinstance(json.loads(about), dict):
        raise ValueError("it is no entry of Spark's")
    ours = json.loads(offset)
    numbers = [ours["era"], ours["tick"], ours["ended_at"], ours["clock_s"], *ours["at"].values()]
    if not all(type(number) is int for number in numbers):
        raise ValueError("it is no offset of ours")
    return dict(ours)


def _commit(text: str) -> None:
    version, about = text.split("\n")
    if re.fullmatch(r"v\d+", version) is None or not isinstance(json.loads(about), dict):
        raise ValueError("it is no entry of Spark's")


def _query(text: str) -> None:
    if not isinstance(json.loads(text)["id"], str):
        raise ValueError("it is no id of Spark's")


def is_whole(path: Path) -> bool:
    """Whether a file has content that its checksums, if there are any, do not contradict."""
    content = path.read_bytes()
    return bool(content) and _checksum_fits(path, content) is not False


def checksum_of(path: Path) -> Path:
    """Where Hadoop keeps the checksums of a file."""
    return path.with_name(f".{path.name}.crc")


def drop_checksum(path: Path) -> None:
    checksum_of(path).unlink(missing_ok=True)


def _checksum_fits(path: Path, content: bytes) -> bool | None:
    """Whether the checksums beside a file fit; None where there are none that could be compared."""
    try:
        sums = checksum_of(path).read_bytes()
    except OSError:
        return None
    if len(sums) < 8 or not sums.startswith(_CRC_HEAD):
        return None
    (step,) = struct.unpack(">i", sums[4:8])
    if step <= 0:
        return None
    mine = b"".join(
        struct.pack(">I", zlib.crc32(content[start : start + step])) for start in range(0, len(content), step)
    )
    return sums[8:] == mine
