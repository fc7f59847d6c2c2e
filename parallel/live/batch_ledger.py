"""The batches of a live stream become lines of one file: where each ends, before it is written, and that it is done.

    {"stream": manifest}   {"batch": 7, "planned": offset}   {"batch": 7, "done": true, "snapshot": true}
    begun-1.ndjson         {"batch": 7, "begun": offset}

A batch that is planned and not done is repeated after a crash, up to the same end. Batches that are done and have no
snapshot are read again silently, from the last one that has. A line is on the disk before anything that depends on it;
half a line at the end comes from a writer that died.

Where detections leave before their batch ends, and depend on what was decided by the clock, a `begun` line records how
far the batch was when they left and what it had decided since the previous line. After a kill the stream repeats the
batch up to that line, as if the line were its plan. These lines are not forced to the disk: a killed process loses
none, a power cut the last ones. They have files of their own, one for batches of even and one for those of odd numbers,
which are emptied once their batch is planned: the loop adds a line while another thread forces the previous batch to
the disk, and must not wait for that.

*Not taken*: a file a batch, as Spark has it: a live stream has a batch a second, and forces two lines to the disk where
Spark writes four files.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wayeb_py.files.output.whole_file import telling_faults, write_whole
from wayeb_py.parallel.durable.sealed_files import seal, unseal
from wayeb_py.parallel.recovery.ledger import FILE
from wayeb_py.parallel.recovery.offset import Offset

BEGUN = ("begun-0.ndjson", "begun-1.ndjson")  # of batches with even and with odd numbers
MOST_LINES = 2000  # a longer file is written again


@dataclass(slots=True)
class KnownBatches:
    """What a ledger says about the batches that are still of use."""

    manifest: dict[str, Any] | None = None
    planned: dict[int, Offset] = field(default_factory=dict)
    begun: dict[int, list[dict[str, Any]]] = field(default_factory=dict)  # the lines of each batch that is not planned
    done: dict[int, bool] = field(default_factory=dict)  # whether its state was kept
    n_damaged: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is no ledger, or nothing in it."""
        return self.manifest is None and not (self.planned or self.begun or self.done or self.n_damaged)

    @property
    def last_done(self) -> int:
        return max(self.done, default=-1)

    @property
    def last(self) -> int:
        """The last batch that may have written something."""
        return max((*self.planned, *self.begun), default=-1)

    def after(self, batch: int) -> list[Offset]:
        """The batches after one that were planned or begun, in order."""
        found: list[Offset] = []
        while (one := self.planned.get(batch + 1 + len(found)) or self._begun(batch + 1 + len(found))) is not None:
            found.append(one)
        return found

    def _begun(self, batch: int) -> Offset | None:
        """How far a batch was, with everything that it had decided."""
        if batch not in self.begun:
            return None
        *before, last = self.begun[batch]
        decided = [one for begun in (*before, last) for one in begun["levels"]["decided"]]
        return Offset.from_json(last | {"levels": last["levels"] | {"decided": decided}})

    def forget(self, before: int) -> None:
        """Drops the batches before one."""
        self.planned = {batch: offset for batch, offset in self.planned.items() if batch >= before}
        self.done = {batch: kept for batch, kept in self.done.items() if batch >= before}


class BatchLedger:
    """The ledger of the stream whose checkpoint is in the folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.known = KnownBatches()
        self._manifest: Mapping[str, Any] = {}
        self._n_lines = 0
        self._begun_paths = [folder / name for name in BEGUN]
        self._begun_files: list[int] = []

    def load(self) -> KnownBatches:
        """Everything legible in the files."""
        self.known = read_batches(self.path, *self._begun_paths)
        return self.known

    def begin(self, manifest: Mapping[str, Any]) -> None:
        """Writes the files again with the batches that are known, and has those of begun ones at hand."""
        for parity, path in enumerate(self._begun_paths):
            own = [(batch, some) for batch, some in sorted(self.known.begun.items()) if batch % 2 == parity]
            write_whole(path, b"".join(_line({"batch": batch, "begun": one}) for batch, some in own for one in some))
        self._write_again(manifest)
        self.close()
        self._begun_files = [os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC) for path in self._begun_paths]

    def close(self) -> None:
        """Called once no batch begins any more."""
        files, self._begun_files = self._begun_files, []
        for file in files:
            os.close(file)

    def _write_again(self, manifest: Mapping[str, Any]) -> None:
        self._manifest = manifest
        lines: list[dict[str, Any]] = [{"stream": dict(manifest)}]
        for batch, offset in sorted(self.known.planned.items()):
            lines.append(_planned(batch, offset))
            if batch in self.known.done:
                lines.append(_done(batch, self.known.done[batch]))
        write_whole(self.path, b"".join(map(_line, lines)))
        self._n_lines = len(lines)

    def note(self, batch: int, offset: Offset) -> None:
        """Notes how far a batch is, before anything that depends on it leaves."""
        with telling_faults(self._begun_paths[batch % 2]):
            line = _line({"batch": batch, "begun": offset.to_json()})
            if os.write(self._begun_files[batch % 2], line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def plan(self, batch: int, offset: Offset) -> None:
        """Notes where a batch ends, before any of it is written."""
        self.known.begun.pop(batch, None)
        self.known.planned[batch] = offset
        self._add(_planned(batch, offset))
        # The loop is at the next batch by now, or waits; it begins the one after that once this one is done.
        os.ftruncate(self._begun_files[batch % 2], 0)

    def finish(self, batch: int, kept: bool) -> None:
        """Notes that a batch is written, and whether its state is kept."""
        self.known.done[batch] = kept
        self._add(_done(batch, kept))

    def forget(self, before: int) -> None:
        """Drops the batches before one; writes a long file again without them."""
        self.known.forget(before)
        if self._n_lines >= MOST_LINES:
            self._write_again(self._manifest)

    def _add(self, facts: dict[str, Any]) -> None:
        self._n_lines += 1
        with telling_faults(self.path), open(self.path, "ab") as file:
            file.write(_line(facts))
            file.flush()
            os.fsync(file.fileno())


def _planned(batch: int, offset: Offset) -> dict[str, Any]:
    return {"batch": batch, "planned": offset.to_json()}


def _done(batch: int, kept: bool) -> dict[str, Any]:
    return {"batch": batch, "done": True, "snapshot": kept}


def _line(facts: dict[str, Any]) -> bytes:
    return seal(json.dumps(facts)).encode() + b"\n"


def read_batches(path: Path, *unforced: Path) -> KnownBatches:
    """The legible part of a ledger; lines that are not whole are counted, but at the end of files that are not forced
    to the disk. A batch that is planned is begun no more."""
    known = KnownBatches()
    known.n_damaged = sum(not _take_line(line, known) for line in _lines_of(path))
    for own in unforced:
        legible = [_take_line(line, known) for line in _lines_of(own)]
        while legible and not legible[-1]:
            legible.pop()
        known.n_damaged += legible.count(False)
    for batch in known.planned:
        known.begun.pop(batch, None)
    return known


def _lines_of(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []


def _take_line(line: bytes, known: KnownBatches) -> bool:
    """Notes what a line says; False if it is not whole."""
    try:
        facts = unseal(line)
        if "stream" in facts:
            known.manifest = dict(facts["stream"])
        elif "planned" in facts:
            known.planned[facts["batch"]] = Offset.from_json(facts["planned"])
        elif "begun" in facts:
            known.begun.setdefault(facts["batch"], []).append(facts["begun"])
        else:
            known.done[facts["batch"]] = bool(facts["snapshot"])
    except (ValueError, TypeError, KeyError):
        return False
    return True
