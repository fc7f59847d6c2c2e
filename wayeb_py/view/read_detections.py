"""A file of detections or episodes becomes episodes: pattern, place, entity, from when to when.

Detections at consecutive events are joined as the engine joins them, so that a map of detections and a map of
episodes show the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from wayeb_py.errors import DataError
from wayeb_py.view.tracks import seconds_of, texts_of

TIMES = ("ts", "start_ts", "end_ts")


@dataclass(frozen=True, slots=True)
class Episode:
    """A stretch of an entity's events in which a pattern was detected again and again."""

    pattern: str
    place: str | None
    entity: str
    start_s: float
    end_s: float
    n_detections: int
    first_s: float  # of the first detection, where it is known


def read_found(path: Path) -> pa.Table:
    """The table of a file of detections or episodes, as `wayeb run` writes it, or of a folder of them from Spark."""
    suffix = path.suffix.lower()
    if not path.exists():
        raise DataError(f"there is no file `{path}`")
    try:
        if path.is_dir():
            import pyarrow.dataset as pds

            table = pds.dataset(path, format="parquet", partitioning="hive").to_table()
        elif suffix == ".parquet":
            import pyarrow.parquet as pq

            table = pq.read_table(path)
        elif suffix == ".csv":
            import pyarrow.csv as pcsv

            words = {name: pa.string() for name in ("pattern", "place", "entity", *TIMES)}
            options = pcsv.ConvertOptions(column_types=words, strings_can_be_null=True)
            table = pcsv.read_csv(path, convert_options=options)
        elif suffix == ".ndjson":
            import pyarrow.json as pjson

            table = pjson.read_json(path) if path.stat().st_size else pa.table({})
        else:
            raise DataError(
                f"it is not clear in which format `{path}` is", hint="detections are .parquet, .csv or .ndjson files"
            )
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(f"cannot be read as detections: {_first_line(error)}", str(path)) from error
    if not table.num_rows:
        return table
    lacking = {"pattern", "entity", "start_ts"} - set(table.column_names)
    if lacking:
        raise DataError(f"this is no file of detections: it has no column `{sorted(lacking)[0]}`", str(path))
    return table


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def episodes_of(found: pa.Table, time_unit: str | None) -> list[Episode]:
    """The episodes of a table of detections or of episodes, by start."""
    if not found.num_rows:
        return []
    names = found.column_names
    place = texts_of(found.column("place")).to_pylist() if "place" in names else [None] * found.num_rows
    identity = list(
        zip(texts_of(found.column("pattern")).to_pylist(), place, texts_of(found.column("entity")).to_pylist(),
            strict=True)
    )  # fmt: skip
    start = seconds_of(found.column("start_ts"), time_unit).tolist()
    if "end_ts" in names:
        end = seconds_of(found.column("end_ts"), time_unit).tolist()
        counts = found.column("n_detections").to_pylist() if "n_detections" in names else [1] * found.num_rows
        episodes = [
            Episode(*who, begin, last, n, last)
            for who, begin, last, n in zip(identity, start, end, counts, strict=True)
        ]
    else:
        at = seconds_of(found.column("ts"), time_unit).tolist()
        seq = found.column("seq").to_pylist()
        episodes = _joined(sorted(zip(identity, at, seq, start, strict=True), key=_by_entity_and_event))
    return sorted(episodes, key=lambda episode: (episode.start_s, episode.end_s, episode.pattern, episode.entity))


Row = tuple[tuple[str, str | None, str], float, int, float]


def _by_entity_and_event(row: Row) -> tuple[str, str, str, float, int]:
    (pattern, place, entity), at, seq, _ = row
    return pattern, place or "", entity, at, seq


def _joined(rows: list[Row]) -> list[Episode]:
    episodes: list[Episode] = []
    last_seq = -2
    for who, at, seq, start in rows:
        before = episodes[-1] if episodes else None
        follows = before is not None and (before.pattern, before.place, before.entity) == who and seq == last_seq + 1
        if follows and before is not None:
            first_start = min(before.start_s, start)
            episodes[-1] = Episode(*who, first_start, at, before.n_detections + 1, before.first_s)
        else:
            episodes.append(Episode(*who, start, at, 1, at))
        last_seq = seq
    return episodes
