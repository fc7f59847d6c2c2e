"""Lists the event files of a watched folder by name, without opening them or reading their sizes and times.

A stream looks several times a second for months. So a look lists names and reads no file's facts; it skips names of
temporary files, of bookkeeping (`_…`, `.…`) and of rows set aside.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from contextlib import suppress

from wayeb_py.files.discover import told_by_name
from wayeb_py.files.stores import StorePath

_TEMPORARY = (".tmp", ".temp", ".part", ".partial", ".crdownload", ".inprogress", ".swp", "~")


def event_files(folder: str, below: str, seen: Container[str]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """The event files of a folder and its sub-folders, by their paths below the topmost; reads nothing but names."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            path = below + entry.name
            if path in seen or _is_event_file(entry):
                yield path, entry
            elif not entry.name.startswith(("_", ".")) and _is_folder(entry) and not entry.is_symlink():
                yield from event_files(entry.path, path + os.sep, seen)


def event_objects(folder: StorePath) -> Iterator[tuple[str, int]]:
    """The event files of a folder in a store, by their paths below it, with their bytes."""
    for file, n_bytes in folder.below():
        path = file.key.relative_to(folder.key)
        if _is_event_name(path.name) and not any(part.startswith(("_", ".")) for part in path.parts[:-1]):
            yield str(path), n_bytes


def _is_event_file(entry: os.DirEntry[str]) -> bool:
    return _is_event_name(entry.name) and not _is_folder(entry)


def _is_event_name(name: str) -> bool:
    is_other = name.startswith(("_", ".")) or name.lower().endswith(_TEMPORARY) or name.endswith(".aside.ndjson")
    return not is_other and told_by_name(name)[0] is not None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def facts_of(path: str) -> os.stat_result:
    """The facts of a file, or of a link that leads nowhere."""
    try:
        return os.stat(path)
    except OSError:
        return os.lstat(path)
