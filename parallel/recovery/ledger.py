"""A second copy of Spark's batch offsets, commits and metadata, forced to the disk before the batch runs.

    spark/metadata · spark/offsets/N · spark/commits/N-1 ──▶ a line of batches.ndjson, on the disk ──▶ batch N runs

Spark's files are not on the disk when a batch writes its output (it never forces them there). A line of ours is: after
a power cut Spark's files are made again from it, and if it is lost, it is made again from Spark's files. The first line
holds the manifest, as `stream.json` does, for the same reason.

*Not taken*: forcing Spark's files themselves to the disk at every batch, which waits four times as long for the disk,
and leaves nothing to restore a damaged one from.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wayeb_py.errors import DataError
from wayeb_py.files.output.whole_file import telling_faults, write_whole
from wayeb_py.parallel.durable.sealed_files import seal, unseal
from wayeb_py.parallel.recovery.spark_log import SparkFile, SparkLog

FILE = "batches.ndjson"
KEPT = 4  # batches at the beginning of a rewritten ledger
MOST = 1000  # entries after which it is rewritten


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What Spark had written when a batch began."""

    batch: int
    offsets: str  # the batch's offsets
    commit: str | None  # the commit of the batch before it
    query: str | None


@dataclass(frozen=True, slots=True)
class LedgerContent:
    """The legible part of a ledger."""

    manifest: dict[str, Any] | None = None
    entries: tuple[LedgerEntry, ...] = ()
    is_whole: bool = False  # everything was legible except the end of the last line


class Ledger:
    """The ledger of a stream whose checkpoint is in the folder."""

    def __init__(self, folder: Path) -> None:
        self.path, self.spark = folder / FILE, SparkLog(folder / "spark")
        self._manifest: Mapping[str, Any] = {}
        self._entries: list[LedgerEntry] = []
        self._n_lines = 0

    def load(self) -> LedgerContent:
        """The entries of the file."""
        return read_ledger(self.path)

    def begin(self, manifest: Mapping[str, Any], entries: Sequence[LedgerEntry]) -> None:
        """Rewrites it with the last of the entries."""
        self._manifest, self._entries = manifest, list(entries[-KEPT:])
        lines = [seal(json.dumps({"stream": manifest})), *(seal(json.dumps(asdict(one))) for one in self._entries)]
        write_whole(self.path, "".join(f"{line}\n" for line in lines).encode())
        self._n_lines = len(lines)

    def note(self, batch: int) -> None:
        """Copies what Spark has written about a batch that is about to begin, and about the previous one."""
        offsets, before = _text(self.spark.read("offsets", batch)), _text(self.spark.read("commits", batch - 1))
        if offsets is None:
            raise DataError(
                f"the offsets of batch {batch} cannot be read, though it has just been planned",
                str(self.spark.path("offsets", batch)),
                hint="look whether the disk is at fault, then start the stream again: it goes on where it was",
            )
        entry = LedgerEntry(batch, offsets, before, _text(self.spark.read_query()))
        if entry in self._entries:
            return
        self._entries = [*self._entries, entry][-KEPT:]
        if self._n_lines >= MOST:
            self.begin(self._manifest, self._entries)
            return
        self._n_lines += 1
        with telling_faults(self.path), open(self.path, "ab") as file:
            file.write(seal(json.dumps(asdict(entry))).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def _text(found: SparkFile | None) -> str | None:
    return None if found is None else found.text


def read_ledger(path: Path) -> LedgerContent:
    """The legible part of a ledger; a line that is not whole is ignored."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return LedgerContent()
    lines = content.split(b"\n")
    manifest: dict[str, Any] | None = None
    entries: dict[int, LedgerEntry] = {}
    n_damaged = 0
    for line in lines[:-1]:  # half a line comes from a writer that died before its batch began
        try:
            facts = unseal(line)
            if "stream" in facts:
                manifest = dict(facts["stream"])
            else:
                entry = LedgerEntry(**facts)
                entries[entry.batch] = entry
        except (ValueError, TypeError):
            n_damaged += 1
    known = tuple(entries[batch] for batch in sorted(entries))
    return LedgerContent(manifest, known, is_whole=manifest is not None and not n_damaged)
