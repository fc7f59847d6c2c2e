"""A file of detections or episodes becomes episodes: pattern, place, one entity or two, from when to when.

Detections at consecutive events are joined as the engine joins them, so that a map of detections and a map of
episodes show the same. A detection that waited for a silence stands alone, and lasts until it was decided.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.errors import DataError
from wayeb_py.files.discover import find_files
from wayeb_py.files.stores import Location, StorePath, size_of
from wayeb_py.view.tracks import seconds_of, texts_of

TEXTS = (  # text columns of a CSV file
    "pattern", "place", "entity", "other", "ts", "start_ts", "end_ts", "decided_ts", "from", "until",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ShownEpisode:
    """Consecutive events of an entity, or of two, at which a pattern was detected again and again."""

    pattern: str
    place: str | None
    entity: str
    start_s: float
    end_s: float
    n_detections: int
    first_s: float  # time of the first detection, where it is known
    other: str | None = None  # the second of a pair
    decided_s: float | None = None  # until when nothing came, after a match that a silence had to follow

    @property
    def who(self) -> tuple[str, ...]:
        """The entity, or both of a pair."""
        return (self.entity,) if self.other is None else (self.entity, self.other)

    @property
    def until_s(self) -> float:
        """When it was over: at its last event, or at the end of the silence."""
        return self.end_s if self.decided_s is None else self.decided_s


def read_found(path: Location) -> pa.Table:
    """The table of a file of detections or episodes, as `wayeb run` writes it, or of a folder of them from Spark."""
    table = read_rows(path)
    lacking = {"pattern", "entity", "start_ts"} - set(table.column_names)
    if lacking and table.num_rows:
        raise DataError(f"this is no file of detections: it has no column `{sorted(lacking)[0]}`", str(path))
    return table


def read_rows(path: Location) -> pa.Table:
    """The table of a file that a run has written, whatever its columns."""
    suffix = path.suffix.lower()
    if not path.exists():
        raise DataError(f"there is no file `{path}`")
    try:
        if path.is_dir():
            table = _read_folder(path)
        elif suffix == ".parquet":
            import pyarrow.parquet as pq

            table = pq.read_table(_source(path))
        elif suffix == ".csv":
            import pyarrow.csv as pcsv

            words = {name: pa.string() for name in TEXTS}
            options = pcsv.ConvertOptions(column_types=words, strings_can_be_null=True)
            table = pcsv.read_csv(_source(path), convert_options=options)
        elif suffix == ".ndjson":
            import pyarrow.json as pjson

            table = pjson.read_json(_source(path)) if size_of(path) else pa.table({})
        else:
            raise DataError(
                f"it is not clear in which format `{path}` is", hint="detections are .parquet, .csv or .ndjson files"
            )
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(f"cannot be read as detections: {_first_line(error)}", str(path)) from error
    return table


def _source(path: Location) -> Path | pa.NativeFile:
    """What Arrow reads: the file, or what a store has of it, which is no more than a map can show."""
    return path if isinstance(path, Path) else pa.BufferReader(path.read_bytes())


def _read_folder(folder: Location) -> pa.Table:
    """The rows of all parts of an output; in a store, of those that its manifest names."""
    if isinstance(folder, Path):
        import pyarrow.dataset as pds

        return pds.dataset(folder, format="parquet", partitioning="hive").to_table()
    import pyarrow.parquet as pq

    parts = []
    for file in find_files([str(folder)]):
        part = pq.read_table(_source(StorePath.parse(file.path)))
        for name, value in file.partitions:
            part = part.append_column(name, pa.repeat(pa.scalar(value, pa.string()), part.num_rows))
        parts.append(part)
    return pa.concat_tables(parts, promote_options="permissive")


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


@dataclass(frozen=True, slots=True)
class _Found:
    """A detection of the table."""

    identity: tuple[str, str | None, str, str | None]  # pattern, place, entity, other
    at_s: float
    seq: int
    start_s: float
    start_seq: int
    decided_s: float | None


def episodes_of(found: pa.Table, time_unit: str | None) -> list[ShownEpisode]:
    """The episodes of a table of detections or of episodes, by start; matches of rules are no events of an entity."""
    if "seq" in found.column_names:
        found = found.filter(pc.is_valid(found.column("seq")))
    if not found.num_rows:
        return []
    pattern, place, entity, other = (_texts(found, name) for name in ("pattern", "place", "entity", "other"))
    start = seconds_of(found.column("start_ts"), time_unit).tolist()
    if "end_ts" in found.column_names:
        end = seconds_of(found.column("end_ts"), time_unit).tolist()
        counts = found.column("n_detections").to_pylist() if "n_detections" in found.column_names else [1] * len(end)
        episodes = list(map(ShownEpisode, pattern, place, entity, start, end, counts, end, other))
    else:
        at = seconds_of(found.column("ts"), time_unit).tolist()
        seq, start_seq = (found.column(name).to_pylist() for name in ("seq", "start_seq"))
        identity = zip(pattern, place, entity, other, strict=True)
        rows = map(_Found, identity, at, seq, start, start_seq, waited_until(found, time_unit))
        episodes = _joined(sorted(rows, key=_by_entity_and_event))
    return sorted(episodes, key=lambda e: (e.start_s, e.end_s, e.pattern, e.entity, e.other or ""))


def _texts(found: pa.Table, name: str) -> list[Any]:
    return texts_of(found.column(name)).to_pylist() if name in found.column_names else [None] * found.num_rows


def waited_until(found: pa.Table, time_unit: str | None) -> list[float | None]:
    """When each detection was known, where that was after its last event."""
    if "decided_ts" not in found.column_names:
        return [None] * found.num_rows
    at, decided = (seconds_of(found.column(name), time_unit).tolist() for name in ("ts", "decided_ts"))
    return [known_s if known_s > at_s else None for at_s, known_s in zip(at, decided, strict=True)]


def _by_entity_and_event(row: _Found) -> tuple[Any, ...]:
    pattern, place, entity, other = row.identity
    return pattern, place or "", entity, other or "", row.at_s, row.seq


def _joined(rows: list[_Found]) -> list[ShownEpisode]:
    episodes: list[ShownEpisode] = []
    last: _Found | None = None
    for row in rows:
        pattern, place, entity, other = row.identity
        if last is not None and _follows(last, row):
            before = episodes[-1]
            episodes[-1] = replace(
                before, start_s=min(before.start_s, row.start_s), end_s=row.at_s, n_detections=before.n_detections + 1
            )
        else:
            start_s = row.start_s
            episodes.append(ShownEpisode(pattern, place, entity, start_s, row.at_s, 1, row.at_s, other, row.decided_s))
        last = row
    return episodes


def _follows(last: _Found, row: _Found) -> bool:
    """Whether a detection is at the event right after another's, in the same word.

    Numbers begin again with every word, so the next number may belong to a later word. The start of a match decides: a
    match that begins at the other's event or before it lies in the same word.
    """
    if row.identity != last.identity or row.seq != last.seq + 1:
        return False
    if row.decided_s is not None or last.decided_s is not None:
        return False
    return row.start_seq > last.seq or row.start_s <= last.at_s
