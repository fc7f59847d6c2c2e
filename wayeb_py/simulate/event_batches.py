"""A simulation that ticks becomes batches of events, and what its author knows to have happened becomes occurrences.

A tick returns the columns of one minute's messages. While it makes them, an `OccurrenceBuffer` records which pattern
occurs, which of these messages completes it, and since when it has gone on. *Not taken*: occurrences as columns of the
messages, since one message may complete several patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from wayeb_py.arrays import F64, I64, Bool
from wayeb_py.simulate.generated_files import OCCURRENCES, Generated
from wayeb_py.simulate.invented_sea import METRES_A_DEGREE

Columns = dict[str, Any]
Texts = dict[str, Sequence[str | None]]  # the words that a column's numbers stand for, by column


class OccurrenceBuffer:
    """The occurrences of the messages since the last `tear_off`."""

    def __init__(self, patterns: Sequence[str], places: Sequence[str], ordered: Collection[str] = ()) -> None:
        """`ordered` are the patterns over pairs whose two have roles of their own."""
        self.number = {name: code for code, name in enumerate(patterns)}
        self._has_roles: Bool = np.array([name in ordered for name in patterns])
        self.patterns, self.places = pa.array(patterns), pa.array(places, pa.string())
        self._tick: list[tuple[I64, I64, I64, I64, I64]] = []
        self._notes: list[I64] = []  # [pattern, place, row, since_ms, other] by note
        self._n_rows = 0

    def note(self, pattern: str, rows: I64, since_ms: I64, place: I64 | None = None, other: I64 | None = None) -> None:
        """Records that the messages in these rows of the tick complete an occurrence of the pattern.

        `place` is the number of a place, `other` the key of a pair's second entity; the first sends the message.
        """
        if len(rows):
            none = np.full(len(rows), -1)
            where, whom = none if place is None else place, none if other is None else other
            self._tick.append((np.full(len(rows), self.number[pattern]), where, rows, since_ms, whom))

    def end_tick(self, rank: I64) -> None:
        """Follows the sorting of the tick's messages: row i moves to rank[i]."""
        for pattern, place, rows, since_ms, other in self._tick:
            self._notes.append(np.stack([pattern, place, rank[rows] + self._n_rows, since_ms, other]))
        self._tick.clear()
        self._n_rows += len(rank)

    def tear_off(self, entity: I64, ts_ms: I64) -> pa.RecordBatch:
        """The occurrences that these messages complete, in their order; drops those of later messages."""
        notes = np.concatenate([np.empty((5, 0), np.int64), *self._notes], axis=1)
        self._notes.clear()
        self._n_rows = 0
        notes = notes[:, notes[2] < len(ts_ms)]
        pattern, place, row, since_ms, other = notes[:, np.argsort(notes[2], kind="stable")]
        first = entity[row]
        swap = (other >= 0) & (other < first) & ~self._has_roles[pattern]
        columns = [
            self.patterns.take(pa.array(pattern)),
            self.places.take(pa.array(place, mask=place < 0)),
            pa.array(np.where(swap, other, first)),
            pa.array(np.where(swap, first, other), mask=other < 0),
            pa.array(since_ms, type=OCCURRENCES.field("start_ts").type),
            pa.array(ts_ms[row], type=OCCURRENCES.field("end_ts").type),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=OCCURRENCES)


def in_batches(
    tick: Callable[[], Columns], to_generated: Callable[[Columns], Generated], n_events: int, batch_rows: int
) -> Iterator[Generated]:
    """Exactly `n_events` messages, ticks put together until there are at least `batch_rows` of them."""
    kept: list[Columns] = []
    n_kept = n_done = 0
    while n_done < n_events:
        kept.append(tick())
        n_kept += len(kept[-1]["ts"])
        if n_kept >= batch_rows or n_done + n_kept >= n_events:
            take = min(n_kept, n_events - n_done)
            yield to_generated({name: np.concatenate([columns[name] for columns in kept])[:take] for name in kept[0]})
            n_done += take
            kept, n_kept = [], 0


def to_events(columns: Columns, schema: pa.Schema, texts: Texts, nulls: Columns) -> pa.RecordBatch:
    """Columns of numbers as events; a text is the number of a word, and some values are missing."""
    arrays = []
    for field in schema:
        values = columns[field.name]
        if field.name in texts:
            arrays.append(pa.array(texts[field.name], pa.string()).take(pa.array(values)))
        else:
            arrays.append(pa.array(values, type=field.type, mask=nulls.get(field.name)))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def metres_between(lon: F64, lat: F64, other_lon: F64, other_lat: F64) -> F64:
    """Distances over a few dozen kilometres, as on a plane: [..., place] if positions have one more axis."""
    east = (lon - other_lon) * np.cos(np.radians(lat))
    return np.asarray(METRES_A_DEGREE * np.hypot(east, lat - other_lat))
