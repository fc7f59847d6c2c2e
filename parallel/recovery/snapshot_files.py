"""The files of snapshots lie in a folder that the driver and all tasks see; `run_objects` keeps them in a store.

    GROUP/PARTITION/POINT.state     each group of patterns has a folder for each partition; `snapshots` names the files
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from wayeb_py.files.output.whole_file import make_folder
from wayeb_py.files.stores import Location
from wayeb_py.parallel.durable import failpoints
from wayeb_py.parallel.durable.sealed_files import put_sealed


class SnapshotFiles(Protocol):
    """Files by the folder of their partition, which is a relative path, and by name."""

    @property
    def folder(self) -> Location:
        """Where files are put."""

    def names(self, folder: str) -> list[str]:
        """The files that the stream may use."""

    def read(self, folder: str, name: str) -> bytes:
        """The content of one of `names`; FileNotFoundError where it has been removed since."""

    def put(self, folder: str, name: str, what: dict[str, Any], *content: bytes) -> str:
        """Puts a sealed file in its place, whole or not at all; returns its checksum."""

    def remove(self, folder: str, is_old: Callable[[str], bool]) -> None:
        """Removes the files whose names are old, in order."""

    def remove_unfinished(self, folder: str, is_done: Callable[[str], bool]) -> None:
        """Removes what killed tasks have half written, by the names that the files would have had."""

    def at_once(self) -> AbstractContextManager[SnapshotFiles]:
        """The files for work on all partitions: what takes a request is done for all together."""


class FolderFiles:
    """Files in a folder: written under a temporary name, forced to the disk and renamed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def folder(self) -> Location:
        return self._folder

    def names(self, folder: str) -> list[str]:
        try:
            return os.listdir(self._folder / folder)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, folder: str, name: str) -> bytes:
        return (self._folder / folder / name).read_bytes()

    def put(self, folder: str, name: str, what: dict[str, Any], *content: bytes) -> str:
        place = self._folder / folder
        make_folder(place)
        return put_sealed(place / name, what, *content, before=partial(failpoints.reach, "snapshot:before"))

    def remove(self, folder: str, is_old: Callable[[str], bool]) -> None:
        for name in sorted(self.names(folder)):
            if is_old(name):
                failpoints.reach("collect")
                (self._folder / folder / name).unlink(missing_ok=True)

    def remove_unfinished(self, folder: str, is_done: Callable[[str], bool]) -> None:
        for left in (self._folder / folder).glob(".*.tmp"):
            if is_done(left.name[1:]):
                left.unlink(missing_ok=True)

    def at_once(self) -> AbstractContextManager[FolderFiles]:
        return nullcontext(self)
