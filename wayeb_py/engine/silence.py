"""Detects patterns that end in `; silence D` or `; $`: a match that no event of its entity follows for D.

    events that the clock has passed ──▶ matches of R at an entity's last event ──▶ wait for t + D ──▶ detected

At an event of time t, the operator looks for R as any other pattern does. A match waits until the clock has passed t +
D, and is detected then unless an event of its entity has a time in (t, t + D]; among several events at one time, only
the last can be followed by a silence. At the end of the input it detects those that end before the greatest time of
their stream: the data say nothing about the others.

`; $`, the end of an entity's word, is the silence after which the stream forgets its entities, or the end of the input:
at that end all that still wait are detected.
"""

from __future__ import annotations

from math import floor

import numpy as np
import pyarrow as pa

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.engine.arrival.entities import Entities
from wayeb_py.engine.arrival.file_clock import Passed
from wayeb_py.engine.arrival.reorder import Rows
from wayeb_py.engine.clocked_recogniser import ClockedRecogniser
from wayeb_py.engine.rows.detection_rows import BatchDetections, DetectionRows
from wayeb_py.engine.rows.detections import Detections
from wayeb_py.engine.saved.operators import ENTITIES, OperatorState, pack_operators, unpack_operators
from wayeb_py.engine.waiting_matches import Waiting
from wayeb_py.kernels.ticks import FOREVER

WAITING = "waiting"
LONGEST = int(FOREVER) // 2  # ticks, so that a time and a silence fit into 64 bits


class SilenceRecogniser(ClockedRecogniser):
    """Recognises the patterns of one stream that end in a silence."""

    kind = "silence"

    def __init__(self, patterns: CompiledPatterns, stream: str, is_only: bool) -> None:
        super().__init__(patterns, stream, is_only)
        self._waiting: list[Waiting] = []  # one for each pattern
        self._saved_waiting: dict[str, bytes] = {}
        self._reached: int | None = None  # the greatest time that has arrived in the stream

    def bind(self, stream: str, schema: pa.Schema, entities: Entities) -> None:
        """Learns the types of its stream's events, and the numbering of its entities."""
        if stream == self.stream:
            self.read(entities)
            self._bind(schema)
            self._prepare()

    def feed(self, passed: Passed) -> Detections:
        """The matches whose silence has ended by the clock."""
        binding = self._binding
        if binding is None:
            return self.nothing()
        rows = self.numbered(passed)
        if rows is not None:
            self._recognise(rows)
        if self.stream in passed.reached_s:
            self._reached = floor(passed.reached_s[self.stream] * binding.ticks_per_s)
        return self._over(passed.until(binding.ticks_per_s))

    def finish(self) -> Detections:
        """The matches whose silence ends before the greatest time, since the data say nothing about the others; and
        those that wait for the end of a word, which this is."""
        return self._over(self._reached, ends=True)

    def _over(self, clock: int | None, ends: bool = False) -> Detections:
        if self._binding is None or clock is None:
            return self.nothing()
        tables = [
            table
            for waiting, pattern in zip(self._waiting, self.patterns.meaning.patterns, strict=False)
            for table in self._decided(waiting, clock, ends and pattern.ends_word)
        ]
        if not tables:
            return self.nothing()
        return Detections(pa.concat_tables(tables), self._binding.rows.episode_table([]))

    def save(self) -> bytes:
        """The state of the entities, and of the waiting matches."""
        if self._binding is None:
            return b""
        states = [OperatorState(ENTITIES, "", super().save())]
        for compiled, waiting in zip(self.patterns.compiled, self._waiting, strict=False):
            states.append(OperatorState(WAITING, compiled.fingerprint, waiting.save(self._binding.no_detections)))
        return pack_operators(states)

    def restore(self, data: bytes) -> None:
        """Continues from a saved state; patterns that are not in it start empty."""
        states = unpack_operators(data)
        self._saved_waiting = {state.fingerprint: state.data for state in states if state.kind == WAITING}
        self._waiting = []
        for state in states:
            if state.kind == ENTITIES:
                super().restore(state.data)
        if self._binding is not None:
            self._prepare()

    def _prepare(self) -> None:
        binding = self._binding
        assert binding is not None
        if self._waiting:
            return
        for pattern, compiled in zip(self.patterns.meaning.patterns[: self.patterns.n_reported], self.patterns.compiled,
                                     strict=False):  # fmt: skip
            assert pattern.silence_s is not None
            waiting = Waiting(min(floor(pattern.silence_s * binding.ticks_per_s), LONGEST))
            saved = self._saved_waiting.get(compiled.fingerprint)
            if saved is not None:
                waiting.restore(saved, binding.no_detections.schema, len(binding.entities))
            self._waiting.append(waiting)
        self._saved_waiting = {}

    def _recognise(self, rows: Rows) -> pa.Table:
        binding = self._binding
        assert binding is not None
        found, rows = self._find(rows)
        if len(rows):
            self._wait(found, rows, binding.rows)
        return binding.no_detections

    def _wait(self, found: BatchDetections | None, rows: Rows, maker: DetectionRows) -> None:
        """Notes which entities have sent something, and which matches wait from here on."""
        assert self._binding is not None
        entity, ts = rows.entity, rows.ts
        by_entity = np.argsort(entity, kind="stable")
        again = entity[by_entity][1:] == entity[by_entity][:-1]
        next_ts = np.full(len(entity), FOREVER, dtype=np.int64)  # [row]: when the entity's next event comes
        next_ts[by_entity[:-1][again]] = ts[by_entity[1:][again]]
        firsts = by_entity[np.concatenate([[True], ~again])]
        for number, waiting in enumerate(self._waiting):
            waiting.hear(entity[firsts], ts[firsts], len(self._binding.entities))
            if found is None:
                continue
            own = np.flatnonzero(found.pattern == number)
            after = next_ts[found.row[own]]
            silence_ends = np.minimum(ts[found.row[own]], FOREVER - waiting.silence) + waiting.silence
            own = own[(after > silence_ends) | (after == FOREVER)]
            if len(own):
                part = found.at(own)
                events, at = np.unique(part.row, return_inverse=True)
                table = maker.detection_table(part, rows)
                waiting.add(
                    table, at.reshape(-1).astype(np.int64), ts[events], next_ts[events], entity[events].reshape(-1, 1)
                )

    def _decided(self, waiting: Waiting, clock: int, ends: bool) -> list[pa.Table]:
        assert self._binding is not None
        tables, decided = waiting.over(clock, ends)
        maker = self._binding.rows
        return [
            table.set_column(table.schema.get_field_index("decided_ts"), "decided_ts", maker.times(at))
            for table, at in zip(tables, decided, strict=True)
        ]
