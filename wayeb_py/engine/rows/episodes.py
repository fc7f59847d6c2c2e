"""Detections become episodes: those of one pattern, place and entity at consecutive events are one.

An episode is open while its entity's last event had a detection. The entity's next event without one, a new word, or
the end of the input closes it. What its pattern emits is that of all its events so far, as of its last detection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.arrays import I64
from wayeb_py.engine.arrow_values import takeable

EmittedRow = tuple[pa.RecordBatch, int]  # a row of a batch that has the emitted columns


@dataclass(slots=True)
class Episode:
    """Consecutive detections of one pattern, place and entity; times in ticks."""

    pattern: int
    place: int
    entity: int
    start_ts: int
    start_seq: int
    end_ts: int
    end_seq: int
    n_detections: int
    emitted: EmittedRow | None = None  # None where nothing is emitted, or an older state did not keep it


@dataclass(frozen=True, slots=True)
class ChunkDetections:
    """Detections of one chunk in the order of their rows."""

    row: I64
    pattern: I64
    place: I64
    entity: I64
    ts: I64
    seq: I64
    start_ts: I64
    start_seq: I64


@dataclass(frozen=True, slots=True)
class EpisodeParts:
    """What the detections of a chunk add to episodes: for each part the index of its last detection, and its start."""

    last: I64
    start_ts: I64
    start_seq: I64
    goes_on: npt.NDArray[np.bool_]  # continues an open episode, whose start it then has unless its own is earlier
    head_row: I64
    n_detections: I64


OpenOf = Callable[[int, int, int], Episode | None]
Emit = Callable[[EpisodeParts], pa.RecordBatch]


def parts_of(found: ChunkDetections, link: npt.NDArray[Any], fresh: npt.NDArray[Any], open_of: OpenOf) -> EpisodeParts:
    """The parts of episodes in a chunk, by entity, pattern, place and row; `open_of` gives the open episodes by entity,
    pattern and place."""
    order = np.lexsort((found.row, found.place, found.pattern, found.entity))
    row, place = found.row[order], found.place[order]
    pattern, entity = found.pattern[order], found.entity[order]
    follows = np.zeros(len(order), dtype=bool)
    if len(order):
        same = (pattern[1:] == pattern[:-1]) & (place[1:] == place[:-1]) & (entity[1:] == entity[:-1])
        follows[1:] = same & ((link[row[1:]] == row[:-1]) | (row[1:] == row[:-1]))
    first = np.flatnonzero(~follows)
    ends = np.append(first[1:], len(order)) if len(order) else first
    start_seq, start_ts = found.start_seq[order], found.start_ts[order]
    if len(order):
        start_seq, start_ts = np.minimum.reduceat(start_seq, first), np.minimum.reduceat(start_ts, first)
    # An open episode ended at its entity's last event before the chunk, so the entity's first event in the chunk
    # continues it.
    goes_on = (link[row[first]] < 0) & (fresh[row[first]] == 0)
    for nth in np.flatnonzero(goes_on).tolist():
        at = first[nth]
        before = open_of(int(entity[at]), int(pattern[at]), int(place[at]))
        if before is None:
            goes_on[nth] = False
        elif before.start_seq < start_seq[nth]:
            start_seq[nth], start_ts[nth] = before.start_seq, before.start_ts
    return EpisodeParts(order[ends - 1], start_ts, start_seq, goes_on, row[first], ends - first)


class EpisodeJoiner:
    """Joins detections chunk by chunk and gives episodes when they are closed."""

    def __init__(self) -> None:
        self.open: dict[tuple[int, int, int], Episode] = {}  # by (entity, pattern, place)

    def take(
        self,
        found: ChunkDetections,
        link: npt.NDArray[np.int32],
        fresh: npt.NDArray[np.uint8],
        present: npt.NDArray[np.int32],
        last_row: npt.NDArray[np.int32],
        emit: Emit | None = None,
    ) -> list[Episode]:
        """The episodes that a chunk closes; `last_row[i]` is the last row of entity `present[i]` in it; `emit` gives
        what patterns emit over parts."""
        parts = parts_of(found, link, fresh, lambda *key: self.open.get(key))
        emitted = emit(parts) if emit is not None and len(parts.last) else None
        closed: list[Episode] = []
        ended_at: dict[tuple[int, int, int], int] = {}
        for nth, (part, goes_on) in enumerate(zip(_episodes(found, parts), parts.goes_on.tolist(), strict=True)):
            part.emitted = None if emitted is None else (emitted, nth)
            key = (part.entity, part.pattern, part.place)
            before = self.open.get(key)
            if before is not None and goes_on:
                part.n_detections += before.n_detections
                if before.emitted is None:
                    part.emitted = None
            elif before is not None:
                closed.append(before)
            self.open[key] = part
            ended_at[key] = int(found.row[parts.last[nth]])
        if self.open:
            last = dict(zip(present.tolist(), last_row.tolist(), strict=True))
            for key in [k for k in self.open if k[0] in last and ended_at.get(k) != last[k[0]]]:
                closed.append(self.open.pop(key))
        if emitted is not None:
            keep_rows([self.open[key] for key in ended_at if key in self.open], emitted.num_rows)
        return closed

    def finish(self) -> list[Episode]:
        """Closes all open episodes."""
        closed = list(self.open.values())
        self.open.clear()
        return closed


def _episodes(found: ChunkDetections, parts: EpisodeParts) -> list[Episode]:
    last = parts.last
    columns = (
        found.pattern[last], found.place[last], found.entity[last], parts.start_ts, parts.start_seq,
        found.ts[last], found.seq[last], parts.n_detections,
    )  # fmt: skip
    return [Episode(*fields) for fields in zip(*(column.tolist() for column in columns), strict=True)]


def keep_rows(episodes: Sequence[Episode], n_rows: int) -> None:
    """Gives open episodes a batch of their own, where they would hold one with many rows of others."""
    own = [one for one in episodes if one.emitted is not None]
    if own and 2 * len(own) < n_rows:
        batch = emitted_rows(own)
        assert batch is not None
        for nth, one in enumerate(own):
            one.emitted = batch, nth


def fit_emitted(batch: pa.RecordBatch, types: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    """Saved rows with the columns that are emitted now; null where one was not emitted, or had another type."""
    columns = {
        name: batch.column(name)
        if name in batch.schema.names and batch.schema.field(name).type == type_
        else pa.nulls(batch.num_rows, type_)
        for name, type_ in types.items()
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(types.items()))


def emitted_rows(episodes: Sequence[Episode]) -> pa.RecordBatch | None:
    """What episodes emit, a row each, with nulls where one has nothing; None where none has anything."""
    batches: dict[int, tuple[pa.RecordBatch, list[int], list[int]]] = {}
    for nth, one in enumerate(episodes):
        if one.emitted is not None:
            batch, row = one.emitted
            _, rows, at = batches.setdefault(id(batch), (batch, [], []))
            rows.append(row)
            at.append(nth)
    if not batches:
        return None
    schema = next(iter(batches.values()))[0].schema
    place: I64 = np.full(len(episodes), -1, dtype=np.int64)  # among the taken rows, batch after batch
    order = [nth for _, _, at in batches.values() for nth in at]
    place[order] = np.arange(len(order))
    at = pa.array(place, mask=place < 0)
    columns = []
    for number, field in enumerate(schema):
        own = takeable(field.type)
        taken = [batch.column(number).cast(own).take(pa.array(rows)) for batch, rows, _ in batches.values()]
        columns.append(pa.concat_arrays(taken).take(at).cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
