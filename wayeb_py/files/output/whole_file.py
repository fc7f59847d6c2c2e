"""Bytes become a file that appears whole or not at all.

The bytes go to a temporary file beside the target, which takes the target's name once everything is on the disk: a
reader sees the old file or the new one, and a process that fails leaves nothing behind. A store has no such rename;
there the bytes go to a nameless file of this machine first and are uploaded at the end, since an object appears when
its upload is complete. Everything that wayeb writes as a whole goes through `write_whole` or `whole_file`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Protocol

from wayeb_py.errors import DataError, PassingError
from wayeb_py.files.output.leftovers import hold
from wayeb_py.files.stores import Location, StorePath

MAKE_ROOM = "make room, then give the same command again: a stream goes on where it was"


@contextlib.contextmanager
def telling_faults(path: Location | None) -> Iterator[None]:
    """Makes a failing disk or a closed pipe an error of one line; a pipe without a reader passes as it is."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        where = "standard output" if path is None else f"`{path}`"
        raise write_error(f"cannot write {where}", error) from error


def write_error(what: str, error: OSError) -> DataError:
    """What a failing disk means for a user: where there is no room, the same command can do better later."""
    message = f"{what}: {error.strerror or error}"
    return PassingError(message, hint=MAKE_ROOM) if is_full(error) else DataError(message)


def is_full(error: BaseException) -> bool:
    """Whether a disk, or what a user may have of it, is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def sync(path: Path) -> None:
    """Forces a file, or a folder's list of files, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(path: Path) -> None:
    """Makes a folder and its parents, with their names on the disk: a file in them could vanish with them."""
    if path.is_dir():
        return
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in reversed(missing):
        sync(folder.parent)


class WholeFile(Protocol):
    """A file that takes its name only when it is complete."""

    path: Location

    def open(self) -> IO[bytes]:
        """The file to write to, made if it is not there yet."""

    def write(self, data: bytes) -> None: ...

    def commit(self, durable: bool = True) -> None:
        """Puts the file in its place; if it is to be `durable`, on the disk before its name is."""

    def discard(self) -> None:
        """Leaves nothing behind; after `commit` there is nothing to discard."""


def begin_whole(path: Location) -> WholeFile:
    """A file that takes its name at `commit`, on a disk or in a store."""
    return _Uploaded(path) if isinstance(path, StorePath) else _Renamed(path)


class _Uploaded:
    """A file that is uploaded when it is complete; what it has until then has no name, and ends with the process."""

    def __init__(self, path: StorePath) -> None:
        self.path: Location = path
        self._target = path
        self._file: IO[bytes] | None = None

    def open(self) -> IO[bytes]:
        if self._file is None:
            with telling_faults(self._target):
                self._file = tempfile.TemporaryFile(prefix="wayeb-upload-")  # noqa: SIM115 (closed by commit or discard)
        return self._file

    def write(self, data: bytes) -> None:
        with telling_faults(self._target):
            self.open().write(data)

    def commit(self, durable: bool = True) -> None:
        file = self.open()
        with telling_faults(self._target):
            file.flush()
        self._target.upload(file)
        file.close()

    def discard(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()


class _Renamed:
    """A file that is written beside its place and renamed.

    Its temporary name is settled before anything is on the disk, so that a signal at any moment leaves something to
    discard by name, or nothing at all.
    """

    def __init__(self, path: Path) -> None:
        self.path: Location = path
        self._target = path
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
        self._file: IO[bytes] | None = None
        self._is_there = False  # whether it has its name

    def open(self) -> IO[bytes]:
        if self._file is None:
            with telling_faults(self._target):
                self._target.parent.mkdir(exist_ok=True)
                self._file = open(self._temporary, "xb")  # noqa: SIM115 (closed by commit or discard)
                hold(self._file.fileno())
        return self._file

    def write(self, data: bytes) -> None:
        with telling_faults(self._target):
            self.open().write(data)

    def commit(self, durable: bool = True) -> None:
        with telling_faults(self._target):
            file = self.open()
            file.flush()
            if durable:
                os.fsync(file.fileno())
            # While the file is held: no other run may take it for left behind.
            os.replace(self._temporary, self._target)
            self._is_there = True
            file.close()
            if durable:
                sync(self._target.parent)

    def discard(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        if not self._is_there:
            self._temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def whole_file(path: Location, durable: bool = True) -> Iterator[WholeFile]:
    """A file that takes its name at the end of the block; where the block fails it leaves nothing behind."""
    whole = begin_whole(path)
    try:
        yield whole
        whole.commit(durable)
    finally:
        whole.discard()


def write_whole(path: Location, *content: bytes, durable: bool = True) -> None:
    """Replaces a file as a whole; a file that is worth nothing after a crash need not be `durable`."""
    with whole_file(path, durable) as whole:
        for piece in content:
            whole.write(piece)
