"""The patterns of a stream, kept with its checkpoint: each exchange of patterns or knowledge begins an era.

Every batch names its era in its offsets. So a batch that was planned before a restart is repeated with the patterns it
was planned with, though others go on from there, and what was used can be looked up later.

    NNNNNN.era        a line of JSON (groups, names, who wrote it), then the types of the events as an Arrow schema
    NNNNNN.patterns   the patterns, pickled: only what wrote them, or something that is made alike, can open them

Another release, or another Python, begins an era too. So pickles of an older one are opened only to repeat a batch that
was planned with them, and a start needs nothing but the first file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

import wayeb_py
from wayeb_py.errors import DataError
from wayeb_py.files.wanted import Wanted
from wayeb_py.files.write import WholeFile
from wayeb_py.parallel.bundle import open_patterns, pack_patterns, select
from wayeb_py.patterns import Patterns

FORMAT = 1  # of the pickles: one more whenever patterns are made otherwise than before, so that older ones do not fit


def this_release() -> dict[str, Any]:
    """What decides whether patterns that were pickled can be opened."""
    return {
        "release": wayeb_py.__version__,
        "format": FORMAT,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",  # functions are pickled as its byte code
    }


@dataclass(frozen=True, slots=True)
class Era:
    """Patterns with all the knowledge they ask for, in the groups that are run apart, and the types of their events."""

    groups: tuple[Patterns, ...]
    schema: pa.Schema

    def wanted(self, group: int) -> Wanted:
        """The columns that a group reads."""
        patterns = self.groups[group]
        return Wanted.from_needs(patterns.needs, patterns.meaning.stream.time_unit)

    def schema_of(self, group: int) -> pa.Schema:
        """Their types."""
        return pa.schema([self.schema.field(name) for name in self.wanted(group).names])


def keep_era(folder: Path, number: int, patterns: Patterns, groups: Sequence[Sequence[str]], schema: pa.Schema) -> None:
    """Writes an era beside the checkpoint; groups are lists of patterns' names."""
    payload = pack_patterns(patterns)
    folder.mkdir(parents=True, exist_ok=True)
    _replace(folder / f"{number:06}.patterns", payload)
    head = json.dumps({"groups": groups, "names": list(patterns.names), "by": this_release()}).encode()
    _replace(folder / f"{number:06}.era", head + b"\n" + bytes(schema.serialize()))


def _replace(path: Path, content: bytes) -> None:
    whole = WholeFile(path)
    try:
        whole.write(content)
        whole.commit()
    finally:
        whole.discard()


@lru_cache(maxsize=4)
def load_era(folder: Path, number: int, stream_id: str = "") -> Era:
    """The era of a number; the stream's name is only there to be remembered by."""
    head, schema = _read_head(folder, number)
    groups = head["groups"]
    whole = _open(folder / f"{number:06}.patterns", head["by"])
    if len(groups) == 1:
        opened: tuple[Patterns, ...] = (whole,)
    else:
        opened = tuple(select(whole, tuple(names), accounts=place == 0) for place, names in enumerate(groups))
    return Era(opened, schema)


def _read_head(folder: Path, number: int) -> tuple[dict[str, Any], pa.Schema]:
    head, _, schema = (folder / f"{number:06}.era").read_bytes().partition(b"\n")
    return json.loads(head), pa.ipc.read_schema(pa.py_buffer(schema))


def load_schema(folder: Path, number: int) -> pa.Schema:
    """The types of an era's events, whoever wrote it."""
    return _read_head(folder, number)[1]


@lru_cache(maxsize=4)
def count_groups(folder: Path, number: int, stream_id: str = "") -> int:
    """How many groups of patterns an era has, whoever wrote it."""
    return len(_read_head(folder, number)[0]["groups"])


def _open(path: Path, by: dict[str, Any]) -> Patterns:
    """The patterns of an era; DataError where they were pickled by something that we are not alike."""
    now = this_release()
    reason = "" if by["format"] == now["format"] else "the formats differ"
    if not reason:
        try:
            return open_patterns(path.read_bytes())
        except OSError:
            raise
        except Exception as error:  # a pickle that does not fit raises whatever the code meets first
            reason = f"{type(error).__name__}: {error}"
    told = [f"{one['release']} (format {one['format']}, Python {one['python']})" for one in (by, now)]
    raise DataError(
        f"a batch has to be repeated with the patterns of release {told[0]}, which are incompatible with {told[1]}: "
        f"{reason}",
        str(path),
        hint=f"start release {by['release']} once more with --once, so that the batch is done, then this one; or give "
        "up the state: --restart beginning, or --restart now",
    )
