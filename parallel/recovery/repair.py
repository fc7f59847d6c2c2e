"""Repairs a damaged checkpoint from its second copy, or names the damaged file and the user's choices.

    spark/ (offsets, commits, metadata) ─┐
    batches.ndjson (the same, by us) ────┼──▶ which batches are known, and done (`survey`) ──▶ both whole (`put_right`)
    output, totals (what must have been) ┘         └──▶ output beyond them is put away, since its events come again

Spark's files and the ledger hold the same. Where one of the two is damaged it is made again from the other; where both
are proven and differ, they are of different streams, and nothing is touched. Offsets of a batch that never began may
go: it is planned again. Where nothing is left to know a batch from, a stream says so and never guesses: a stream that
begins again by mistake gives every detection twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wayeb_py.errors import DataError
from wayeb_py.files.output.whole_file import sync, telling_faults
from wayeb_py.parallel.durable.sealed_files import CHOICE
from wayeb_py.parallel.logs.log import Offsets
from wayeb_py.parallel.recovery.ledger import LedgerContent, LedgerEntry
from wayeb_py.parallel.recovery.spark_log import Kind, SparkLog, drop_checksum, is_whole, offset_of

MOST_BACK = 3  # batches that may be done again: as many older states are kept


@dataclass(slots=True)
class KnownBatches:
    """Which batches are known, and which files must be made again."""

    last: int = -1  # the last batch that has been planned
    is_done: bool = False  # whether it is in the sink, as far as the files show
    offsets: dict[int, str] = field(default_factory=dict)  # what Spark wrote of batches before they began
    commits: dict[int, str] = field(default_factory=dict)  # what Spark wrote of batches when they were done
    notes: list[str] = field(default_factory=list)  # the repairs, in words

    @property
    def bounds(self) -> list[dict[str, Any]]:
        """The offset at which the last batch ends, and that at which it begins."""
        return [offset_of(self.offsets[batch]) for batch in (self.last, self.last - 1) if batch in self.offsets]

    @property
    def taken(self) -> Offsets:
        """How far the source has been read, or was about to be."""
        return dict(self.bounds[0]["at"]) if self.last >= 0 else {}


def survey(spark: SparkLog, kept: LedgerContent, begun: int, shards: int = 0, written: int = -1) -> KnownBatches:
    """What is known of the batches of a stream; `begun` is the last that has left a trace elsewhere in the checkpoint,
    `written` the last in the output, -1 if none has. The output may be ahead of everything else: then the checkpoint
    was restored from a copy. `shards` is how many keep their state in Spark's files.

    Raises DataError where no file shows what was done. Changes nothing.
    """
    known = KnownBatches()
    copies = {entry.batch: entry for entry in kept.entries}
    offsets, damaged = known.offsets, set[int]()
    _find_offsets(spark, copies, known, damaged)
    _find_commits(spark, copies, known)
    top = max((begun, *known.commits, *offsets))
    # A batch is repeated from where the one before it ended, so both have to be known.
    usable = [batch for batch in offsets if batch == 0 or batch - 1 in offsets]
    stateful = max(_usable_state(spark, shards), 0 if top <= 0 else -1) if shards else top
    known.last = max((batch for batch in usable if batch <= stateful), default=-1)
    if top - known.last > MOST_BACK or known.last < 0 <= max(top, written):
        raise _lost(spark, known.last, max(top, written), lacks_state=stateful < top)
    known.is_done = known.last in known.commits and (not shards or known.last < stateful)
    if top > known.last:
        told = f"batch {top}" if top == known.last + 1 else f"batches {known.last + 1} to {top}"
        known.notes.append(f"what is known of {told} was lost or damaged: its events are read again")
    elif damaged and max(damaged) > known.last:
        known.notes.append(f"the plan of batch {max(damaged)}, which never began, was damaged: it is made anew")
    return known


def put_right(spark: SparkLog, kept: LedgerContent, known: KnownBatches) -> tuple[LedgerEntry, ...]:
    """Makes Spark's files whole again, without those that are damaged or of batches to come; returns the first entries
    of the ledger."""
    last, done = known.last, known.last if known.is_done else known.last - 1
    with telling_faults(spark.folder):
        _put_right_kind(spark, "offsets", known.offsets, last)
        _put_right_kind(spark, "commits", known.commits, done)
        for version, path in list(spark.states()):
            if version > done + 1:  # these batches may be others when they come again
                path.unlink(missing_ok=True)
        spark.clear_temporary()
        query = _mend_query(spark, kept, known)
    return tuple(
        LedgerEntry(batch, known.offsets[batch], known.commits.get(batch - 1), query)
        for batch in (last - 1, last)
        if batch in known.offsets
    )


def _find_offsets(spark: SparkLog, copies: dict[int, LedgerEntry], known: KnownBatches, damaged: set[int]) -> None:
    """The offsets of all batches that can be known, and the batches whose files are damaged and have no copy."""
    known.offsets |= {batch: entry.offsets for batch, entry in copies.items()}
    lost = []
    for batch in sorted({*spark.batches("offsets"), *copies}):
        found, copy = spark.read("offsets", batch), copies.get(batch)
        text = None if found is None else found.text
        if copy is None and text is not None:
            known.offsets[batch] = text
        elif copy is None:
            damaged.add(batch)
        elif text is None:
            lost.append(batch)
        elif found is not None and found.is_proven and text != copy.offsets:
            raise DataError(
                f"the offsets of batch {batch} are others in {spark.folder.name}/ than in the stream's own ledger: the "
                "two are not of the same stream",
                str(spark.path("offsets", batch)),
                hint=CHOICE,
            )
    lost = [batch for batch in lost if batch >= max(known.offsets) - 1]  # Spark itself clears older ones away
    if lost:
        told = f"batch {lost[0]}" if len(lost) == 1 else f"batches {lost[0]} and {lost[-1]}"
        known.notes.append(f"Spark's notes of {told} were lost or damaged: they are made again from the ledger")


def _find_commits(spark: SparkLog, copies: dict[int, LedgerEntry], known: KnownBatches) -> None:
    """What is known of finished batches: a batch began after them, or Spark has noted it."""
    texts = known.commits
    texts |= {batch - 1: entry.commit for batch, entry in copies.items() if entry.commit is not None}
    for batch in spark.batches("commits"):
        found = spark.read("commits", batch)
        if found is not None and found.text is not None:
            texts[batch] = found.text
        elif batch not in texts:
            known.notes.append(f"the note that batch {batch} is done was damaged: it is done again if it was the last")


def _put_right_kind(spark: SparkLog, kind: Kind, texts: dict[int, str], last: int) -> None:
    for batch in {*spark.batches(kind), *texts}:
        path, text = spark.path(kind, batch), texts.get(batch)
        is_there = path.is_file()
        if batch > last or text is None:
            spark.remove(kind, batch)
        elif is_there and path.read_bytes() == text.encode():
            found = spark.read(kind, batch)
            if found is not None and not found.is_proven:
                drop_checksum(path)  # Spark would take the file for damaged
        elif is_there or batch >= last - 1:
            spark.write(kind, batch, text)
    if (spark.folder / kind).is_dir():  # Spark's files that were not forced to the disk are relied on from here on
        for batch in (last - 1, last):
            if spark.path(kind, batch).is_file():
                sync(spark.path(kind, batch))
        sync(spark.folder / kind)


def _mend_query(spark: SparkLog, kept: LedgerContent, known: KnownBatches) -> str | None:
    """The query's id: as it is, as the ledger has it, or a new one, which changes nothing but its name."""
    path = spark.folder / "metadata"
    found = spark.read_query()
    copy = kept.entries[-1].query if kept.entries else None
    if found is not None and found.text is not None:
        if not found.is_proven:
            drop_checksum(path)
        return found.text
    if found is None and copy is None:
        return None
    if copy is not None:
        spark.write_query(copy)
        known.notes.append("the query's id was lost or damaged: it is made again from the ledger")
    else:
        path.unlink(missing_ok=True)
        drop_checksum(path)
        known.notes.append("the query's id was damaged: Spark makes another")
    return copy


def _usable_state(spark: SparkLog, n_shards: int) -> int:
    """The last version of the shards' state that is whole in all of them; only Spark has a copy of it.

    A version is made from a whole state and the changes since; older files are not looked at.
    """
    shards: dict[Path, tuple[dict[int, Path], dict[int, Path]]] = {}
    for version, path in spark.states():
        if path.suffix != ".crc":
            wholes, changes = shards.setdefault(path.parent, ({}, {}))
            (wholes if path.suffix in (".zip", ".snapshot") else changes)[version] = path
    about = [path for path in spark.state_folder.rglob("_metadata/*") if path.is_file() and path.suffix != ".crc"]
    if len(shards) < n_shards or not all(map(is_whole, about)):
        return -1
    return min(_last_version(wholes, changes) for wholes, changes in shards.values())


def _last_version(wholes: dict[int, Path], changes: dict[int, Path]) -> int:
    last, top = -1, max((*wholes, *changes))
    for start in sorted((0, *wholes), reverse=True):
        if start and not is_whole(wholes[start]):
            continue
        version = start
        while version + 1 in changes and is_whole(changes[version + 1]):
            version += 1
        last = max(last, version)
        if last >= top:
            break
    return last


def _lost(spark: SparkLog, last: int, top: int, lacks_state: bool) -> DataError:
    if lacks_state:
        what, place = "the state of the shards is gone", spark.state_folder
    elif last < 0:
        what, place = "which batches are done is not known any more", spark.folder
    else:
        what, place = f"what was planned after batch {last} is not known any more", spark.folder / "offsets"
    return DataError(
        f"{what}, and {top + 1} were begun: to go on from there would give detections twice", str(place), hint=CHOICE
    )
