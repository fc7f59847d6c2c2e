"""The patterns of a stream, kept with its checkpoint: each exchange of patterns or knowledge begins an era.

Every batch names its era in its offsets. So a batch that was planned before a restart is repeated with the patterns it
was planned with, though others go on from there, and what was used can be looked up later.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from wayeb_py.files.wanted import Wanted
from wayeb_py.files.write import WholeFile
from wayeb_py.parallel.bundle import open_patterns, pack_patterns, select
from wayeb_py.patterns import Patterns


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
    head = json.dumps({"groups": groups, "names": list(patterns.names)}).encode()
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
    head, _, schema = (folder / f"{number:06}.era").read_bytes().partition(b"\n")
    payload = (folder / f"{number:06}.patterns").read_bytes()
    groups = json.loads(head)["groups"]
    whole = open_patterns(payload)
    if len(groups) == 1:
        opened: tuple[Patterns, ...] = (whole,)
    else:
        opened = tuple(select(whole, tuple(names), accounts=place == 0) for place, names in enumerate(groups))
    return Era(opened, pa.ipc.read_schema(pa.py_buffer(schema)))
