"""The files of a sink name their batches: which batch is the last, and which files come after a given one.

detections-STREAM-000007.parquet ──▶ batch 7 of that stream
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from wayeb_py.clock import SYSTEM
from wayeb_py.files.output.whole_file import sync, telling_faults
from wayeb_py.files.stores import Location, StorePath


def batch_of(path: Location, stem: str, stream_id: str) -> int | None:
    """The batch that a file of a sink holds; None where it belongs to another stream, or is no such file."""
    found = re.fullmatch(rf"{re.escape(stem)}-{re.escape(stream_id)}-(\d+)\.\w+", path.name)
    return None if found is None else int(found[1])


def last_batch(folder: Path, stem: str, stream_id: str) -> int:
    """The last batch that has a file in a folder, -1 if none has."""
    paths = folder.iterdir() if folder.is_dir() else ()
    return max((batch for path in paths if (batch := batch_of(path, stem, stream_id)) is not None), default=-1)


def put_away_in_store(folder: StorePath, stem: str, stream_id: str, after: int) -> StorePath | None:
    """The same in a store, file by file. A start that dies in between does it again."""
    paths = [path for path, _ in folder.below() if path.parent == folder]
    later = [path for path in paths if (batch := batch_of(path, stem, stream_id)) is not None and batch > after]
    place = folder / _superseded()
    for path in later:
        path.move_to(place / path.name)
    return place if later else None


def put_away(folder: Path, stem: str, stream_id: str, after: int) -> Path | None:
    """Moves the files of later batches out of readers' sight; returns where to, or None if there are none."""
    paths: Iterable[Path] = sorted(folder.iterdir()) if folder.is_dir() else ()
    later = [path for path in paths if (batch := batch_of(path, stem, stream_id)) is not None and batch > after]
    if not later:
        return None
    place = folder / _superseded()
    with telling_faults(folder):
        place.mkdir(exist_ok=True)
        for path in later:
            path.rename(place / path.name)
        sync(place)
        sync(folder)
    return place


def _superseded() -> str:
    """The name of a folder for what is put away now."""
    return f"_superseded-{SYSTEM.utc():%Y%m%dT%H%M%S}"
