"""Paths become event files, in the order in which their events arrive.

A path is a file, a folder (all event files below it, sorted by path; `name=value` folders add a column, as Hive does),
a glob, an address of a store (`stores`) that names any of these, a table (`tables`), or `-` for NDJSON on standard
input. A folder's files with names that begin with `_` or `.` are bookkeeping of other tools and are skipped. The
extension gives the format, and the first bytes do where the extension says nothing.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal
from urllib.parse import unquote

from wayeb_py.errors import DataError
from wayeb_py.files.stores import StorePath, has_magic, is_address, manifest_parts, open_input
from wayeb_py.files.tables import find_table_files, is_table

Format = Literal["parquet", "arrow", "arrows", "csv", "ndjson"]

STDIN = "-"

_FORMATS: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".arrows": "arrows",
    ".csv": "csv",
    ".tsv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "ndjson",
}
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class EventFile:
    """A file of events: how it is read, and what its folders' names say about all its rows."""

    path: str
    format: Format
    compression: str | None = None  # the compression of the whole file; Parquet and Arrow compress inside
    partitions: tuple[tuple[str, str | None], ...] = ()
    n_bytes: int = 0
    header: tuple[str, ...] = ()  # the columns of a CSV file that does not begin with their names
    groups: tuple[int, int] | None = None  # row groups of a Parquet file, from the first to before the second


def find_files(paths: Sequence[str | os.PathLike[str]]) -> list[EventFile]:
    """All event files that the paths name, in arrival order."""
    texts = [os.fspath(path) for path in paths]
    if STDIN in texts and len(texts) > 1:
        raise DataError("standard input stands alone: it cannot be read together with files")
    if texts == [STDIN]:
        return [EventFile(STDIN, "ndjson")]
    if not texts:
        raise DataError("no data is named", hint="give --data PATH")
    return [file for text in texts for file in _find_at(text)]


def _find_at(text: str) -> Iterator[EventFile]:
    if is_table(text):
        yield from find_table_files(text)
    elif is_address(text):
        yield from _find_in_store(StorePath.parse(text))
    elif os.path.isdir(text):
        yield from _find_below(text)
    elif os.path.lexists(text):
        yield _describe(text)
    elif glob.has_magic(text):
        matches = sorted(glob.glob(text, recursive=True))
        if not matches:
            raise DataError(f"no file matches `{text}`")
        for match in matches:
            if os.path.isdir(match):
                # `data/**` matches folders and the files in them: the files are found through their folders.
                if "**" not in text:
                    yield from _find_below(match)
            else:
                yield _describe(match)
    else:
        raise DataError(f"`{text}` does not exist")


def _find_below(folder: str) -> Iterator[EventFile]:
    found = passed_over = 0
    for path in sorted(_walk(Path(folder))):
        name_format, compression = told_by_name(path.name)
        if name_format is None:
            passed_over += 1
            continue
        found += 1
        partitions = tuple(partitions_of(path.parent.relative_to(folder)))
        yield EventFile(str(path), name_format, compression, partitions, require_file(str(path)).st_size)
    if not found:
        other = f" ({passed_over} of other kinds)" if passed_over else ""
        raise DataError(f"the folder has no event files{other}", folder, hint=f"known: {', '.join(_FORMATS)}")


def _find_in_store(path: StorePath) -> Iterator[EventFile]:
    if path.is_file():
        yield _describe_stored(path, path.size())
    elif path.is_dir():
        parts = manifest_parts(path)  # where there is a manifest, an object that it does not name does not count
        listed = ((file, size) for file, size in path.below() if parts is None or _inside(path, file) in parts)
        yield from _find_stored(path, ((path, file, size) for file, size in listed))
    elif has_magic(str(path.key)):
        yield from _find_stored(path, path.matching())
    else:
        raise DataError("there is no such file or folder", str(path))


def _find_stored(
    asked: StorePath, files: Iterable[tuple[StorePath, StorePath, int]]
) -> Iterator[EventFile]:
    """The event files among (folder or the file itself, file, bytes): named files, and files in folders."""
    found = passed_over = 0
    for folder, path, size in files:
        if path == folder:
            found += 1
            yield _describe_stored(path, size)
            continue
        inside = path.key.relative_to(folder.key)
        name_format, compression = told_by_name(path.name)
        if any(part.startswith(("_", ".")) for part in inside.parts) or path.name.endswith(".aside.ndjson"):
            continue
        if name_format is None:
            passed_over += 1
            continue
        found += 1
        yield EventFile(str(path), name_format, compression, tuple(partitions_of(inside.parent)), size)
    if not found:
        other = f" ({passed_over} of other kinds)" if passed_over else ""
        raise DataError(f"there are no event files{other}", str(asked), hint=f"known: {', '.join(_FORMATS)}")


def _inside(folder: StorePath, file: StorePath) -> str:
    return str(file.key.relative_to(folder.key))


def _describe_stored(path: StorePath, size: int) -> EventFile:
    told, compression = told_by_name(path.name)
    return EventFile(str(path), told or _told_by_bytes(str(path)), compression, (), size)


def require_file(path: str) -> os.stat_result:
    """The facts of a file; raises DataError for something that is no file, or has a name that no record could hold.

    Opening a pipe would wait for its writer, and a device has no end.
    """
    refuse_unspeakable(path)
    try:
        facts = os.stat(path)
    except OSError as error:
        hint = "remove the link, or make what it leads to" if os.path.islink(path) else None
        raise DataError(f"cannot be read: {error.strerror}", path, hint=hint) from error
    kind = next((name for is_kind, name in _KINDS if is_kind(facts.st_mode)), None)
    if kind is not None:
        hint = "write what it gives to a file; NDJSON can be piped to `--data -`"
        raise DataError(f"cannot be read: it is {kind}, not a file", path, hint=hint)
    return facts


_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def refuse_unspeakable(path: str) -> None:
    """Raises DataError for a name that is no text."""
    try:
        path.encode()
    except UnicodeEncodeError:
        shown = os.fsencode(path).decode("utf-8", "backslashreplace")
        raise DataError("cannot be read: its name is not UTF-8", shown, hint="give it another name") from None


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise DataError(f"the folder cannot be read: {error.strerror}", str(folder)) from error


def _walk(folder: Path) -> Iterator[Path]:
    for entry in _entries(folder):
        if entry.name.startswith(("_", ".")) or entry.name.endswith(".aside.ndjson"):
            continue
        if entry.is_dir():
            refuse_unspeakable(str(entry))
            yield from _walk(entry)
        else:
            yield entry


def partitions_of(folders: PurePath) -> Iterator[tuple[str, str | None]]:
    """The columns that folders named `name=value` add."""
    for part in folders.parts:
        name, equals, value = part.partition("=")
        if equals:
            yield unquote(name), None if value == _HIVE_NULL else unquote(value)


def compression_of(name: str) -> str | None:
    """How a file of this name is compressed as a whole, by its extension."""
    return _COMPRESSIONS.get(os.path.splitext(name.lower())[1])


def told_by_name(name: str) -> tuple[Format | None, str | None]:
    """Format and compression by the extension; no format where it says nothing."""
    stem, extension = os.path.splitext(name.lower())
    compression = _COMPRESSIONS.get(extension)
    if compression is not None:
        inner = _FORMATS.get(os.path.splitext(stem)[1])
        # `x.parquet.gz` would have to be unpacked whole: its footer is at the end.
        return (inner, compression) if inner in ("csv", "ndjson") else (None, None)
    return _FORMATS.get(extension), None


def _describe(path: str) -> EventFile:
    facts = require_file(path)
    told, compression = told_by_name(path)
    if told is None:
        told = _told_by_bytes(path)
    return EventFile(path, told, compression, (), facts.st_size)


def _told_by_bytes(path: str) -> Format:
    try:
        with open_input(path) as file:
            head = file.read(8)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path) from error
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"ARROW1"):
        return "arrow"
    if head.startswith(b"\xff\xff\xff\xff"):
        return "arrows"
    if head.lstrip().startswith(b"{"):
        return "ndjson"
    raise DataError("it is not clear what kind of file this is", path, hint=f"known: {', '.join(_FORMATS)}")
