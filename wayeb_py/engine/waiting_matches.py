"""Matches wait for a silence: found at an event of time t, they are detected once the clock is past t + D, or dropped.

A match is dropped if one of the entities whose silence counts sends an event with a time in (t, t + D]. Events come in
the order of time, and so do the ends of their silences: a queue holds them. Each entity knows the events that wait for
it, newest first, and releases them when it sends something; so an event costs the same however many matches wait. Rows
are made when a match is found, since the events are gone later.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.arrays import I32, I64
from wayeb_py.engine.saved.packing import ipc, pack_arrays, unpack_state
from wayeb_py.engine.saved.state_checks import expect, misfit, read_arrays, read_batch, telling_misfits
from wayeb_py.growing_arrays import lengthened, with_room
from wayeb_py.kernels.ticks import FOREVER


@dataclass(slots=True)
class _Matches:
    """Rows of matches that wait, and the number of the event that each is at."""

    table: pa.Table
    event: I64


class Waiting:
    """The matches of one pattern whose silence is not over yet, in the order of their times.

    `silence` is in ticks; `n_watched` entities must be silent after each match.
    """

    def __init__(self, silence: int, n_watched: int = 1) -> None:
        self.silence, self.n_watched = silence, n_watched
        self._first = 0  # the number of the first event that waits; events before it are decided
        self._ts: I64 = np.zeros(0, dtype=np.int64)  # the times of the events that wait
        self._followed: I64 = np.zeros(0, dtype=np.int64)  # when one of its entities sent again; FOREVER if not yet
        self._entity: I32 = np.zeros((0, n_watched), dtype=np.int32)  # [event that waits, which]
        # A watch is an event and one of its entities: event * n_watched + which.
        self._newest: I64 = np.zeros(0, dtype=np.int64)  # [entity]: the newest watch that nothing has followed, or -1
        self._before: I64 = np.zeros(0, dtype=np.int64)  # [watch that waits]: the entity's watch before it, or -1
        self._matches: deque[_Matches] = deque()

    def hear(self, entity: I32, ts: I64, n_entities: int) -> None:
        """Records the first event of each entity that follows the earlier events."""
        if n_entities > len(self._newest):
            self._newest = lengthened(self._newest, with_room(n_entities), -1)
        watch = self._newest[entity]
        self._newest[entity] = -1
        first = self._first * self.n_watched
        while len(watch):
            waits = watch >= first
            watch, ts = watch[waits], ts[waits]
            np.minimum.at(self._followed, watch // self.n_watched - self._first, ts)
            watch = self._before[watch - first]

    def add(self, table: pa.Table, at: I64, ts: I64, followed: I64, entity: I32) -> None:
        """Adds matches, each at one of some events, which have `ts`, `followed` and `entity[event, which]`."""
        first = self._first + len(self._ts)
        self._ts = np.concatenate([self._ts, ts])
        self._followed = np.concatenate([self._followed, followed])
        self._entity = np.concatenate([self._entity, entity])
        self._before = np.concatenate([self._before, np.full(entity.size, -1, dtype=np.int64)])
        self._watch(first)
        self._matches.append(_Matches(table, at + first))

    def _watch(self, first: int) -> None:
        """Notes for their entities that the events from a number on wait for them."""
        begin, n = first - self._first, self.n_watched
        which = np.flatnonzero(np.repeat(self._followed[begin:] == FOREVER, n))
        entity = self._entity[begin:].reshape(-1)[which]
        order = np.argsort(entity, kind="stable")
        entity, watch = entity[order], which[order] + first * n
        again = entity[1:] == entity[:-1]
        before = self._newest[entity]
        before[1:][again] = watch[:-1][again]
        self._before[watch - self._first * n] = before
        self._newest[entity] = watch  # the entity's last one wins

    def over(self, clock: int, at_end: bool = False) -> tuple[list[pa.Table], list[I64]]:
        """Matches whose silence is over before this time, and when each of them was decided.

        `at_end`: nothing more comes, which decides all matches that nothing has followed, at this time at the latest.
        """
        n = len(self._ts) if at_end else int(np.searchsorted(self._ts, clock - self.silence, side="left"))
        if n == 0:
            return [], []
        ends = np.minimum(self._ts[:n], FOREVER - self.silence) + self.silence
        silent = (self._followed[:n] > ends) | (self._followed[:n] == FOREVER)
        ends = np.minimum(ends, clock) if at_end else ends
        until = self._first + n
        tables, decided = [], []
        while self._matches and (len(self._matches[0].event) == 0 or self._matches[0].event[0] < until):
            matches = self._matches.popleft()
            passed = matches.event < until
            rows = np.flatnonzero(passed)[silent[matches.event[passed] - self._first]]
            if len(rows):
                tables.append(matches.table.take(pa.array(rows)))
                decided.append(ends[matches.event[rows] - self._first])
            if not passed.all():
                self._matches.appendleft(_Matches(matches.table.filter(pa.array(~passed)), matches.event[~passed]))
                break
        self._ts, self._followed, self._entity = self._ts[n:], self._followed[n:], self._entity[n:]
        self._before, self._first = self._before[n * self.n_watched :], until
        return tables, decided

    # State.

    @property
    def entities(self) -> I32:
        """The entities that matches wait for."""
        return np.unique(self._entity)

    def save(self, empty: pa.Table, number: I32 | None = None) -> bytes:
        """The waiting matches, counted from the first; `number[entity]` where entities are saved under other
        numbers."""
        rows = pa.concat_tables([empty, *(one.table for one in self._matches)])
        event = np.concatenate([np.zeros(0, dtype=np.int64), *(one.event for one in self._matches)])
        self._matches = deque([_Matches(rows, event)])
        entity = self._entity if number is None else number[self._entity]
        arrays: dict[str, npt.NDArray[Any]] = {
            "ts": self._ts, "followed": self._followed, "event": event - self._first, "entity": entity.reshape(-1),
        }  # fmt: skip
        (batch,) = rows.cast(_plain_schema(empty.schema)).combine_chunks().to_batches() or [
            pa.RecordBatch.from_pylist([], _plain_schema(empty.schema))
        ]
        return pack_arrays({"silence": self.silence, "watched": self.n_watched}, arrays, {"rows": ipc(batch)})

    def restore(self, data: bytes, schema: pa.Schema, n_entities: int) -> None:
        """Continues from a saved state."""
        with telling_misfits():
            header, blobs = unpack_state(data)
            arrays = read_arrays(blobs["arrays"])
            table = pa.Table.from_batches([read_batch(blobs["rows"])]).cast(schema)
            n, event, entity = len(arrays["ts"]), arrays["event"], arrays["entity"]
            for name, length in (("ts", n), ("followed", n), ("event", table.num_rows)):
                expect(arrays[name], name, np.int64, length)
            expect(entity, "entity", np.int32, n * self.n_watched)
            is_sorted = not (np.diff(arrays["ts"]) < 0).any() and not (np.diff(event) < 0).any()
            within = [not len(one) or (one.min() >= 0 and one.max() < high) for one, high in
                      ((event, n), (entity, n_entities))]  # fmt: skip
            same = (header["silence"], header["watched"]) == (self.silence, self.n_watched)
            if not same or not is_sorted or not all(within):
                raise misfit("what waits for a silence")
            self._first, self._ts, self._followed = 0, arrays["ts"], arrays["followed"]
            self._entity = entity.reshape(n, self.n_watched)
            self._newest = np.full(n_entities, -1, dtype=np.int64)
            self._before = np.full(entity.size, -1, dtype=np.int64)
            self._matches = deque([_Matches(table, event)])
            self._watch(0)


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with names of patterns as text, as a state keeps them."""

    def plain_type(type_: Any) -> Any:
        return type_.value_type if pa.types.is_dictionary(type_) else type_

    return pa.schema([pa.field(field.name, plain_type(field.type)) for field in schema])
