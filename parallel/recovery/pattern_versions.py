"""The patterns of a stream become files of its checkpoint: each exchange of patterns or knowledge begins a version.

Every batch names its version in its offsets. After a restart the stream repeats a planned batch with the patterns of
that version, though others continue after it; and a user can look up which patterns a batch ran with.

    NNNNNN.era        a line of JSON (groups, names, who wrote it), then the types of the events as an Arrow schema
    NNNNNN.patterns   the patterns as text, with the files that they name; compiled when read
    NNNNNN.functions  a user's functions, if there are any, pickled: there is no other way to keep code

All three are sealed with their stream and number. A stream runs nothing of them but the functions, and these only where
no other user can write (`file_owner`), and never with `--no-pickle`. What Spark sends from its driver to its workers is
pickled too (`pattern_bundle`, the options of `source`), but it goes from process to process and lies in no folder.

Another release, or another Python, begins a version too. So a stream opens an older one only to repeat a batch that was
planned with it, and a start needs nothing but the first file. Versions of format 1 were pickles: a stream reads their
first file and refuses their patterns. The folder and the files keep the name `era` that the first release gave them.
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

import wayeb_py
from wayeb_py.errors import DamagedError, DataError
from wayeb_py.files.output.whole_file import make_folder
from wayeb_py.files.projection import Wanted
from wayeb_py.files.stores import Location
from wayeb_py.functions import UserFunction
from wayeb_py.parallel.durable.sealed_files import open_sealed, put_sealed
from wayeb_py.parallel.recovery.file_owner import require_private
from wayeb_py.parallel.spark.pattern_bundle import pack_functions, select
from wayeb_py.parallel.wire.event_schemas import by_stream, wanted_by_stream
from wayeb_py.patterns import Patterns
from wayeb_py.stored_patterns import functions_of, open_stored, store_patterns

FORMAT = 2  # one more whenever the files' format changes, so that older ones do not fit
_CHOICE = (
    "start with the patterns that were run last, which are then written again, restore the checkpoint from a copy, or "
    "give up its state: --restart beginning, or --restart now"
)


def this_release() -> dict[str, Any]:
    """What decides whether a kept version can be opened."""
    return {
        "release": wayeb_py.__version__,
        "format": FORMAT,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",  # functions are pickled as its byte code
    }


@dataclass(frozen=True, slots=True)
class PatternVersion:
    """Patterns with all the knowledge they use, in the groups that run apart, and the types of their events: see
    `event_schemas`."""

    groups: tuple[Patterns, ...]
    schema: pa.Schema

    def wanted(self, group: int, stream: str | None = None) -> Wanted:
        """The columns that a group reads, of one stream where the file has several."""
        patterns = self.groups[group]
        return patterns.wanted if stream is None else wanted_by_stream(patterns)[stream]

    def schema_of(self, group: int, stream: str | None = None) -> pa.Schema:
        """The types of the columns that a group reads."""
        if stream is not None:
            return by_stream(self.groups[group], self.schema)[stream]
        return pa.schema([self.schema.field(name) for name in self.wanted(group).names])


def keep_version(
    folder: Path,
    number: int,
    patterns: Patterns,
    groups: Sequence[Sequence[str]],
    schema: pa.Schema,
    stream_id: str = "",
) -> None:
    """Writes a version beside the checkpoint; groups are lists of patterns' names."""
    stored = store_patterns(patterns)
    make_folder(folder)
    if patterns.functions:
        require_private(folder)
        put_sealed(_path(folder, number, "functions"), _what("functions", stream_id, number), pack_functions(patterns))
    put_sealed(_path(folder, number, "patterns"), _what("patterns", stream_id, number), stored)
    head = json.dumps({"groups": groups, "names": list(patterns.names), "by": this_release()}).encode()
    put_sealed(_path(folder, number, "era"), _what("era", stream_id, number), head, b"\n", bytes(schema.serialize()))


@lru_cache(maxsize=4)
def load_version(folder: Location, number: int, stream_id: str = "", no_pickle: bool = False) -> PatternVersion:
    """The version with this number; DamagedError or DataError where it cannot be opened."""
    head, schema = _read_head(folder, number, stream_id)
    groups = head["groups"]
    whole = read_saved_patterns(folder, number, stream_id, no_pickle)
    if len(groups) == 1:
        opened: tuple[Patterns, ...] = (whole,)
    else:
        opened = tuple(select(whole, tuple(names), accounts=place == 0) for place, names in enumerate(groups))
    return PatternVersion(opened, schema)


def load_schema(folder: Path, number: int, stream_id: str = "") -> pa.Schema:
    """The types of a version's events, for versions of every release."""
    return _read_head(folder, number, stream_id)[1]


@lru_cache(maxsize=4)
def count_groups(folder: Path, number: int, stream_id: str = "") -> int:
    """How many groups of patterns a version has, for versions of every release."""
    return len(_read_head(folder, number, stream_id)[0]["groups"])


def read_saved_patterns(folder: Location, number: int, stream_id: str = "", no_pickle: bool = False) -> Patterns:
    """All patterns of a version; DamagedError where they are damaged, DataError where this release cannot open them."""
    by, now = _read_head(folder, number, stream_id)[0]["by"], this_release()
    path = _path(folder, number, "patterns")
    reason = "" if by["format"] == now["format"] else "the formats differ"
    if not reason:
        stored = _open_file(folder, number, "patterns", stream_id)
        try:
            functions = _functions(folder, number, stream_id, no_pickle) if functions_of(stored) else {}
            return open_stored(stored, functions)
        except DamagedError as error:
            raise DamagedError(error.message, error.file or str(path), hint=error.hint or _CHOICE) from error
        except DataError as error:
            if error.hint is not None:
                raise
            reason = error.message
    told = [f"{one['release']} (format {one['format']}, Python {one['python']})" for one in (by, now)]
    raise DataError(
        f"a batch has to be repeated with the patterns of release {told[0]}, which are incompatible with {told[1]}: "
        f"{reason}",
        str(path),
        hint=f"start release {by['release']} once more with --once, so that the batch is done, then this one; or give "
        "up the state: --restart beginning, or --restart now",
    )


def refuse_damaged(folder: Path, number: int, stream_id: str = "") -> None:
    """Raises DamagedError where a file of a version of this format is missing or damaged; opens nothing."""
    if _read_head(folder, number, stream_id)[0]["by"]["format"] != FORMAT:
        return
    stored = _open_file(folder, number, "patterns", stream_id)
    if functions_of(stored):
        _open_file(folder, number, "functions", stream_id)


def _functions(folder: Location, number: int, stream_id: str, no_pickle: bool) -> dict[str, UserFunction]:
    path = _path(folder, number, "functions")
    if no_pickle:
        raise DataError(
            "the patterns call functions written in Python, which are kept as a pickle, and --no-pickle refuses these",
            str(path),
            hint="start without --no-pickle if you trust anyone who can write to the checkpoint",
        )
    if isinstance(path, Path):  # a store has no owners: who may write to the checkpoint there may run code
        require_private(path)
    payload = _open_file(folder, number, "functions", stream_id)
    try:
        functions: dict[str, UserFunction] = pickle.loads(payload)
    except Exception as error:  # a pickle that does not fit may raise any error
        raise DataError(f"the functions cannot be opened: {type(error).__name__}: {error}") from error
    return functions


def _read_head(folder: Location, number: int, stream_id: str) -> tuple[dict[str, Any], pa.Schema]:
    path = _path(folder, number, "era")
    data = _read(path, number)
    try:
        content = data if data[:1] == b"{" else _open_file(folder, number, "era", stream_id)  # format 1
        head, _, schema = content.partition(b"\n")
        facts = json.loads(head)
        if not {"groups", "names", "by"} <= set(facts):
            raise ValueError("something is missing")
        return facts, pa.ipc.read_schema(pa.py_buffer(schema))
    except (ValueError, TypeError, pa.ArrowException, OSError) as error:
        message = f"what is kept of version {number} of the patterns is damaged"
        raise DamagedError(message, str(path), hint=_CHOICE) from error


def _open_file(folder: Location, number: int, kind: str, stream_id: str) -> bytes:
    path = _path(folder, number, kind)
    data = _read(path, number)
    try:
        return bytes(open_sealed(path, _what(kind, stream_id, number), data))
    except DamagedError as error:
        raise DamagedError(
            f"what is kept of version {number} of the patterns is damaged: {error.message}", str(path), hint=_CHOICE
        ) from error


def _read(path: Location, number: int) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DamagedError(
            f"what is kept of version {number} of the patterns cannot be read: {error.strerror or error}", str(path),
            hint=_CHOICE,
        ) from error  # fmt: skip


def version_files(folder: Path, number: int) -> list[Path]:
    """The files of a version."""
    return sorted(folder.glob(f"{number:06}.*"))


def _path(folder: Location, number: int, kind: str) -> Location:
    return folder / f"{number:06}.{kind}"


def _what(kind: str, stream_id: str, number: int) -> dict[str, Any]:
    return {"what": kind, "stream": stream_id, "era": number}
