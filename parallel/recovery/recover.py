"""Resumes a stream: checks its checkpoint as a whole, then its source and its output, before the first batch runs.

    traces (totals, output, states) ──▶ survey (Spark's files, the ledger) ──▶ does the source still reach that far?
                                                                          └──▶ output of later batches is put away

A power cut, a full disk or a slip of the hand costs a batch or two that are done again, or gives a message that names
the file and the choice that is left. It never gives a stream that begins again and finds everything twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from wayeb_py.errors import DataError
from wayeb_py.parallel.durable.sealed_files import CHOICE
from wayeb_py.parallel.health.gauge import FOLDER
from wayeb_py.parallel.health.totals import load_totals
from wayeb_py.parallel.logs.log import Log
from wayeb_py.parallel.recovery.checkpoint import Manifest
from wayeb_py.parallel.recovery.ledger import Ledger, LedgerEntry
from wayeb_py.parallel.recovery.repair import put_right, survey
from wayeb_py.parallel.sinks.sinks import AsideFolder, Replaceable, Sink


def recover(
    folder: Path,
    ledger: Ledger,
    manifest: Manifest,
    log: Log,
    sink: Sink,
    aside: AsideFolder,
    say: Callable[[str], None],
) -> tuple[LedgerEntry, ...]:
    """The first entries of the ledger; DataError where the stream cannot continue."""
    stream_id = manifest.stream_id
    kept = ledger.load()
    if kept.manifest is not None and kept.manifest.get("stream_id") != stream_id:
        raise DataError(
            f"the ledger is of the stream {kept.manifest.get('stream_id')}, and the checkpoint of {stream_id}",
            str(ledger.path),
            hint=CHOICE,
        )
    written = sink.last(stream_id) if isinstance(sink, Replaceable) else -1
    spread = manifest.spread
    n_in_spark = 0 if spread.get("in_store") else spread.get("n_shards", 0)  # shards whose state is Spark's
    known = survey(ledger.spark, kept, _traces(folder), n_in_spark, written)
    refuse_unknown_version([offset["era"] for offset in known.bounds], known.last, manifest, folder)
    log.refuse_lost(known.taken)
    entries = put_right(ledger.spark, kept, known)
    for note in known.notes:
        say(note)
    put_away_later(sink, aside, stream_id, known.last, say)
    return entries


def _traces(folder: Path) -> int:
    """The last batch that other files of the checkpoint show to have begun, -1 if none does."""
    try:
        counted = load_totals(folder / FOLDER).batch
    except DataError:  # the later count reports it
        counted = -1
    has_state = any((folder / "snapshots").rglob("*.state"))
    return max(counted, 0 if has_state else -1)


def refuse_unknown_version(versions: Iterable[int], last: int, manifest: Manifest, folder: Path) -> None:
    """Raises DataError where batches, of which `last` is the newest, have a version that the checkpoint lacks."""
    n_versions = len(manifest.pattern_versions)
    unknown = next((version for version in versions if version >= n_versions), None)
    if unknown is not None:
        raise DataError(
            f"batch {last} is of version {unknown} of the patterns, and stream.json knows of {n_versions}",
            str(folder / "stream.json"),
            hint=CHOICE,
        )


def put_away_later(sink: Sink, aside: AsideFolder, stream_id: str, last: int, say: Callable[[str], None]) -> None:
    """Moves away what batches after the last one have written: their events are read again."""
    places = [sink.put_away(stream_id, last)] if isinstance(sink, Replaceable) else []
    for place in [*places, aside.put_away(stream_id, last)]:
        if place is not None:
            say(f"what later batches had written is in {place}: their events are read again")
