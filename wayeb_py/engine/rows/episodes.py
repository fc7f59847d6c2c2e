"""Detections become episodes: those of one pattern, place and entity at consecutive events are one.

An episode is open while its entity's last event had a detection. The entity's next event without one, a new word, or
the end of the input closes it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import I64


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
    ) -> list[Episode]:
        """The episodes that a chunk closes; `last_row[i]` is the last row of entity `present[i]` in it."""
        order = np.lexsort((found.row, found.place, found.pattern, found.entity))
        row, place = found.row[order], found.place[order]
        pattern, entity = found.pattern[order], found.entity[order]
        follows = np.zeros(len(order), dtype=bool)
        if len(order):
            same = (pattern[1:] == pattern[:-1]) & (place[1:] == place[:-1]) & (entity[1:] == entity[:-1])
            follows[1:] = same & ((link[row[1:]] == row[:-1]) | (row[1:] == row[:-1]))
        first = np.flatnonzero(~follows)
        ends = np.append(first[1:], len(order)) if len(order) else first
        closed: list[Episode] = []
        ended_at: dict[tuple[int, int, int], int] = {}
        parts = self._parts(found, order, first, ends)
        for part, at, end in zip(parts, first.tolist(), ends.tolist(), strict=True):
            key = (part.entity, part.pattern, part.place)
            before = self.open.get(key)
            begins_at = int(row[at])
            # The open one ended at the entity's last event before the chunk, so the entity's first event in the chunk
            # continues it.
            goes_on = before is not None and link[begins_at] < 0 and not fresh[begins_at] and key not in ended_at
            if before is not None and goes_on:
                before.end_ts, before.end_seq = part.end_ts, part.end_seq
                before.n_detections += part.n_detections
                if part.start_seq < before.start_seq:
                    before.start_seq, before.start_ts = part.start_seq, part.start_ts
            else:
                if before is not None:
                    closed.append(before)
                self.open[key] = part
            ended_at[key] = int(row[end - 1])
        if self.open:
            last = dict(zip(present.tolist(), last_row.tolist(), strict=True))
            for key in [k for k in self.open if k[0] in last and ended_at.get(k) != last[k[0]]]:
                closed.append(self.open.pop(key))
        return closed

    @staticmethod
    def _parts(found: ChunkDetections, order: I64, first: I64, ends: I64) -> list[Episode]:
        if not len(order):
            return []
        start_seq = np.minimum.reduceat(found.start_seq[order], first)
        start_ts = np.minimum.reduceat(found.start_ts[order], first)
        head, tail = order[first], order[ends - 1]
        return [
            Episode(*fields)
            for fields in zip(
                found.pattern[head].tolist(),
                found.place[head].tolist(),
                found.entity[head].tolist(),
                start_ts.tolist(),
                start_seq.tolist(),
                found.ts[tail].tolist(),
                found.seq[tail].tolist(),
                (ends - first).tolist(),
                strict=True,
            )
        ]

    def finish(self) -> list[Episode]:
        """Closes all open episodes."""
        closed = list(self.open.values())
        self.open.clear()
        return closed
