"""Patterns that end in `; silence D` as an operator: a match that no event of its entity follows for so long.

    events in the clock's order ──▶ matches of R at an entity's last event ──▶ wait for t + D ──▶ detected, or dropped

At an event of time t, R is looked for as by any other pattern. A match waits until the clock has passed t + D, and is
detected then unless an event of its entity has a time in (t, t + D]; of several events at one time only the last can be
followed by a silence. At the end of the input those are detected that end before its greatest time: of the others
the data do not tell.

Matches of a pattern come in the order of time, and so do the ends of their silences: a queue holds them, and an event
costs the same however many entities wait. The rows are made when a match is found, since the events are gone later.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import floor
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.engine.detection_rows import DetectionRows, Part
from wayeb_py.engine.detections import Detections
from wayeb_py.engine.entity_recogniser import Aside, EntityRecogniser
from wayeb_py.engine.event_clock import LATE, EventClock
from wayeb_py.engine.reorder import Rows
from wayeb_py.engine.saved.operators import ENTITIES, OperatorState, pack_operators, unpack_operators
from wayeb_py.engine.saved.packing import pack_arrays, unpack_state
from wayeb_py.engine.saved.state_checks import expect, misfit, read_arrays, read_batch, telling_misfits
from wayeb_py.engine.stepping.pooled_lists import grown
from wayeb_py.kernels.arrival import FOREVER, NEVER
from wayeb_py.tally import Tally

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

CLOCK, WAITING = "clock", "waiting"


@dataclass(slots=True)
class _Matches:
    """Rows of matches that wait, and the number of the event that each is at."""

    table: pa.Table
    event: I64


class Waiting:
    """The matches of one pattern whose silence is not over yet, in the order of their times."""

    def __init__(self, pattern: int, silence: int) -> None:
        self.pattern, self.silence = pattern, silence
        self._first = 0  # the number of the first event that waits; events before it are decided
        self._ts: I64 = np.zeros(0, dtype=np.int64)  # of the events that wait
        self._followed: I64 = np.zeros(0, dtype=np.int64)  # when the entity's next event was; NEVER if not yet
        self._of_entity: I64 = np.zeros(0, dtype=np.int64)  # the event of each entity that nothing has followed, or -1
        self._matches: deque[_Matches] = deque()

    def hear(self, entity: I32, ts: I64, n_entities: int) -> None:
        """Notes the first events, one an entity, that follow what has been heard before."""
        if n_entities > len(self._of_entity):
            self._of_entity = grown(self._of_entity, n_entities + n_entities // 2, -1)
        event = self._of_entity[entity]
        known = event >= self._first
        self._followed[event[known] - self._first] = ts[known]
        self._of_entity[entity] = -1

    def add(self, table: pa.Table, at: I64, ts: I64, followed: I64, entity: I32) -> None:
        """Matches, each at one of some events, of which there are the times, what followed, and whose they are."""
        first = self._first + len(self._ts)
        self._ts = np.concatenate([self._ts, ts])
        self._followed = np.concatenate([self._followed, followed])
        is_last = followed == NEVER
        self._of_entity[entity[is_last]] = first + np.flatnonzero(is_last)
        self._matches.append(_Matches(table, at + first))

    def over(self, clock: int) -> tuple[list[pa.Table], list[I64]]:
        """Matches whose silence is over before this time, and when each of them was decided."""
        n = int(np.searchsorted(self._ts, clock - self.silence, side="left"))
        if n == 0:
            return [], []
        ends = self._ts[:n] + self.silence
        silent = (self._followed[:n] == NEVER) | (self._followed[:n] > ends)
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
        self._ts, self._followed, self._first = self._ts[n:], self._followed[n:], until
        return tables, decided

    def save(self, empty: pa.Table) -> bytes:
        """What waits, counted from the first."""
        rows = pa.concat_tables([empty, *(one.table for one in self._matches)])
        self._matches = deque([_Matches(rows, self._events())])
        event = np.where(self._of_entity >= self._first, self._of_entity - self._first, -1)
        arrays = {"ts": self._ts, "followed": self._followed, "event": self._events() - self._first, "of": event}
        sink = pa.BufferOutputStream()
        table = rows.cast(_plain_schema(empty.schema))
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return pack_arrays({"silence": self.silence}, arrays, {"rows": bytes(sink.getvalue())})

    def _events(self) -> I64:
        return np.concatenate([np.zeros(0, dtype=np.int64), *(one.event for one in self._matches)])

    def restore(self, data: bytes, schema: pa.Schema) -> None:
        with telling_misfits():
            header, blobs = unpack_state(data)
            arrays = read_arrays(blobs["arrays"])
            table = pa.Table.from_batches([read_batch(blobs["rows"])]).cast(schema)
            n = len(arrays["ts"])
            for name, length in (("ts", n), ("followed", n), ("event", table.num_rows), ("of", len(arrays["of"]))):
                expect(arrays[name], name, np.int64, length)
            event, of = arrays["event"], arrays["of"]
            is_sorted = not (np.diff(arrays["ts"]) < 0).any() and not (np.diff(event) < 0).any()
            within = [not len(one) or (one.min() >= low and one.max() < n) for one, low in ((event, 0), (of, -1))]
            if header["silence"] != self.silence or not is_sorted or not all(within):
                raise misfit("what waits for a silence")
            self._first, self._ts, self._followed, self._of_entity = 0, arrays["ts"], arrays["followed"], of
            self._matches = deque([_Matches(table, event)])


class SilenceRecogniser(EntityRecogniser):
    """Recognises the patterns that end in a silence; fed in the clock's order."""

    kind = "silence"

    def __init__(
        self,
        patterns: CompiledPatterns,
        *,
        order: Literal["arrival", "sorted"] = "arrival",
        counts: Tally | None = None,
        aside: Aside | None = None,
    ) -> None:
        # What is wrong with events is counted by those who read them all; here they come a second time.
        super().__init__(patterns, order="sorted")
        self._clock = EventClock(patterns, order)
        self._of_all = Tally() if counts is None else counts
        self._aside_of_all: Aside = [] if aside is None else aside
        self._waiting: list[Waiting] = []
        self._saved_waiting: dict[str, bytes] = {}

    def bind(self, schema: pa.Schema) -> None:
        """Binds the patterns, and the clock, to the types of the events."""
        self._clock.bind(schema)
        self._bind(schema)
        self._prepare()

    def feed(self, batch: pa.RecordBatch) -> Detections:
        """The matches whose silence has ended by the clock that these events have moved on."""
        self.bind(batch.schema)
        passed, late = self._clock.take(batch)
        if late.num_rows:
            self._of_all.late_for_clock += late.num_rows
            self._aside_of_all.append((LATE, late))
        self._recognise_passed(passed)
        return self._over(self._clock.now)

    def advance(self, clock: int) -> Detections:
        """The matches whose silence ended before this time, which no event before it can break any more."""
        self._recognise_passed(self._clock.advance(clock))
        return self._over(clock)

    def _recognise_passed(self, passed: pa.RecordBatch | None) -> None:
        if passed is not None and passed.num_rows:
            super().feed(passed)

    def _over(self, clock: int) -> Detections:
        if self._binding is None or clock == NEVER:
            return self.nothing()
        tables = [table for waiting in self._waiting for table in self._decided(waiting, clock)]
        if not tables:
            return self.nothing()
        return Detections(pa.concat_tables(tables), self._binding.rows.episode_table([]))

    def finish(self) -> Detections:
        """The matches whose silence ends before the greatest time: of the others the data do not tell."""
        self._recognise_passed(self._clock.finish())
        return self._over(self._clock.greatest)

    def save(self) -> bytes:
        """The state of the entities, of the clock, and of what waits."""
        if self._binding is None:
            return b""
        states = [OperatorState(ENTITIES, "", super().save()), OperatorState(CLOCK, "", self._clock.save())]
        for waiting in self._waiting:
            fingerprint = self.patterns.compiled[waiting.pattern].fingerprint
            states.append(OperatorState(WAITING, fingerprint, waiting.save(self._binding.no_detections)))
        return pack_operators(states)

    def restore(self, data: bytes) -> None:
        """Goes on from a saved state; patterns that are not in it begin afresh."""
        states = unpack_operators(data)
        self._saved_waiting = {state.fingerprint: state.data for state in states if state.kind == WAITING}
        self._waiting = []
        for state in states:
            if state.kind == ENTITIES:
                super().restore(state.data)
            elif state.kind == CLOCK and state.data:
                self._clock.restore(state.data)
        if self._binding is not None:
            self._prepare()

    def _prepare(self) -> None:
        binding = self._binding
        assert binding is not None
        if self._waiting:
            return
        for number, pattern in enumerate(self.patterns.meaning.patterns[: self.patterns.n_reported]):
            assert pattern.silence_s is not None
            waiting = Waiting(number, floor(pattern.silence_s * binding.ticks_per_s))
            saved = self._saved_waiting.get(self.patterns.compiled[number].fingerprint)
            if saved is not None:
                waiting.restore(saved, binding.no_detections.schema)
            self._waiting.append(waiting)
        self._saved_waiting = {}

    def _recognise(self, rows: Rows) -> pa.Table:
        binding = self._binding
        assert binding is not None
        found, rows = self._find(rows)
        if len(rows):
            self._wait(found, rows, binding.rows)
        return binding.no_detections

    def _wait(self, found: Part | None, rows: Rows, maker: DetectionRows) -> None:
        """Notes which entities have sent something, and which matches wait from here on."""
        assert self._binding is not None
        entity, ts = rows.entity, rows.ts
        by_entity = np.argsort(entity, kind="stable")
        again = entity[by_entity][1:] == entity[by_entity][:-1]
        next_ts = np.full(len(entity), NEVER, dtype=np.int64)  # of the entity's next event among these
        next_ts[by_entity[:-1][again]] = ts[by_entity[1:][again]]
        firsts = by_entity[np.concatenate([[True], ~again])]
        for waiting in self._waiting:
            waiting.hear(entity[firsts], ts[firsts], len(self._binding.entities))
            if found is None:
                continue
            own = np.flatnonzero(found.pattern == waiting.pattern)
            after = next_ts[found.row[own]]
            silence_ends = np.minimum(ts[found.row[own]], FOREVER - waiting.silence) + waiting.silence
            own = own[(after == NEVER) | (after > silence_ends)]
            if len(own):
                part = Part(*(getattr(found, name)[own] for name in Part.__slots__))
                events, at = np.unique(part.row, return_inverse=True)
                table = maker.detection_table(part, rows)
                waiting.add(table, at.reshape(-1).astype(np.int64), ts[events], next_ts[events], entity[events])

    def _decided(self, waiting: Waiting, clock: int) -> list[pa.Table]:
        assert self._binding is not None
        tables, decided = waiting.over(clock)
        maker = self._binding.rows
        return [
            table.set_column(table.schema.get_field_index("decided_ts"), "decided_ts", maker.times(at))
            for table, at in zip(tables, decided, strict=True)
        ]


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with names of patterns as text, which is what a state keeps of them."""

    def plain_type(type_: Any) -> Any:
        return type_.value_type if pa.types.is_dictionary(type_) else type_

    return pa.schema([pa.field(field.name, plain_type(field.type)) for field in schema])
