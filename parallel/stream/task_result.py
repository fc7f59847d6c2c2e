"""Blocks of events fed to a recogniser become parcels of detections, and one of counts at the end.

    block ──▶ recogniser ──▶ detections or episodes (with their ids) · aside (packed NDJSON) · counts (JSON)

Counts belong to this result alone, whatever the recogniser has seen before: added up over the committed results they
are exact, however often Spark repeated a task. `entities` and `state_bytes` are gauges, not increments: the last one of
a partition and group holds.

Where several groups of patterns read the same events, only the first counts events, late and bad ones.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from wayeb_py.clock import SYSTEM, Clock
from wayeb_py.columns import ticks_in
from wayeb_py.engine.rows.detection_id import with_ids
from wayeb_py.files.formats.block import AsideRow, Block, values_of_rows
from wayeb_py.files.output.set_aside import kind_of, render_aside
from wayeb_py.parallel.wire.parcel import Kind, Parcel, pack, pack_lines
from wayeb_py.tally import Tally

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns
    from wayeb_py.dsl import meaning as m
    from wayeb_py.engine.recogniser import Recogniser
    from wayeb_py.engine.rows.detection_schema import DetectionSchema
    from wayeb_py.engine.rows.detections import Detections

# The stages of a batch: tasks that read (and recognise, where nothing is moved), shards, parts of rules.
Stage = Literal["reading", "shards", "parts"]

PARCEL_ROWS = 1 << 16
MOST_PARCEL_ROWS = 2 * PARCEL_ROWS
MOST_FOUND = 1 << 21  # detections found at once
ASIDE_BYTES = 1 << 20


def most_an_event(patterns: CompiledPatterns) -> int:
    """How many detections an event can complete: one for each pattern, and one for each place of patterns over
    places."""
    places = (pattern.each for pattern in patterns.meaning.patterns)
    return sum(1 if each is None else len(patterns.places(each[1]).names) for each in places)


def count_block(tally: Tally, block: Block) -> None:
    """Counts the rows that were read, and the unreadable ones."""
    tally.rows += block.n_rows
    tally.bad.update(kind_of(row.reason) for row in block.aside)
    for column, unreadable in block.unreadable.items():
        tally.unreadable[column] += unreadable.count


def task_counts(partition: str, group: int, tally: Tally) -> dict[str, Any]:
    """The counts of a task, as they travel to the driver, perhaps with times and offsets in the log."""
    return {"partition": partition, "group": group, **tally.to_json(), "set_aside": tally.set_aside}


def time_of_task(stage: Stage, began_s: float, clock: Clock = SYSTEM) -> dict[str, Any]:
    """When a task ran, by the wall clock: a batch waits for a stage from the first begin to the last end."""
    return {"stage": stage, "ran_s": [began_s, clock.wall_s()]}


class TaskResult:
    """Feeds a recogniser and packs the results; `split` distinguishes the parcels of one result from another's."""

    def __init__(
        self,
        recogniser: Recogniser,
        partition: str,
        group: int,
        split: int,
        episodes: bool,
        clock: Clock = SYSTEM,
        joined: DetectionSchema | None = None,  # the schema of all patterns, where the recogniser has only some
    ) -> None:
        from wayeb_py.engine.eviction import AHEAD_S  # for start-up time, as in `task`

        self._joined = joined
        self.recogniser = recogniser
        self.partition, self.group, self.split, self.episodes = partition, group, split, episodes
        self.recognise_s = 0.0
        self._clock = clock
        self._before = recogniser.counts.copy()
        self._tally = Tally()  # counts that the recogniser does not keep itself
        self._n_episodes = 0
        self._tables: list[pa.Table] = []
        self._aside = bytearray()
        self._number = 0
        self._n_ahead, self._ahead_s = 0, AHEAD_S
        self._most, self._n_found = most_an_event(recogniser.patterns), 0
        self._first_s: float | None = None
        self._last_s: float | None = None

    @property
    def leads(self) -> bool:
        """Whether events are counted, and set aside, here: of several groups of patterns the first does it."""
        return self.group == 0

    def feed(self, block: Block, partition: str | None = None, stream: str | None = None) -> Iterator[Parcel]:
        """The parcels that are full after some more events; `partition` is theirs, where a clock has to know it, and
        `stream`, where there are several."""
        count_block(self._tally, block)
        for row in block.aside:
            self._set_aside(row)
        for batch in block.batches:
            self._see_times(batch, stream)
            for some in self._cut(batch):
                began = time.perf_counter()
                detections = self.recogniser.feed(some, stream, partition)
                self.recognise_s += time.perf_counter() - began
                yield from self.take(detections)

    def _cut(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batch in slices whose detections fit the memory: near thousands of places an event finds thousands."""
        if self._most * batch.num_rows <= MOST_FOUND:
            yield batch
            return
        at, n_rows, n_before = 0, max(1, MOST_FOUND // self._most), self._n_found
        while at < batch.num_rows:
            some = batch.slice(at, n_rows)
            yield some
            at += some.num_rows
            an_event = max(1.0, (self._n_found - n_before) / at)
            n_rows = min(16 * n_rows, max(1, int(MOST_FOUND / an_event)))

    def take(self, detections: Detections) -> Iterator[Parcel]:
        """The parcels that are full after detections without events: at the end, or for silence."""
        counts = detections.counts()
        self._tally.detections.update(counts)
        self._n_found += sum(counts.values())
        table = detections.episodes() if self.episodes else detections.to_arrow()
        if self._joined is not None and table.num_rows:
            from wayeb_py.engine.rows.joined_schema import fit  # for start-up time, as in `task`

            table = fit(table, self.recogniser.schema, self._joined, episodes=self.episodes)
        if table.num_rows:
            self._n_episodes += table.num_rows if self.episodes else 0
            self._tables.append(table)
        from wayeb_py.engine.arrival.reorder import ARRIVED  # for start-up time, as in `task`

        for reason, batch in self.recogniser.aside:
            if ARRIVED in batch.schema.names:
                batch = batch.drop_columns([ARRIVED])
            for values in values_of_rows(batch):
                self._set_aside(AsideRow(None, None, reason, values))
        self.recogniser.aside.clear()
        if sum(table.num_rows for table in self._tables) >= PARCEL_ROWS:
            yield from self._pack_tables()
        if len(self._aside) >= ASIDE_BYTES:
            yield from self._pack_aside()

    def finish(self, **levels: Any) -> Iterator[Parcel]:
        """The remaining parcels, and last of all the counts."""
        yield from self._pack_tables()
        yield from self._pack_aside()
        yield self._parcel("counts", json.dumps(self.counts() | levels).encode())

    def counts(self) -> dict[str, Any]:
        """What was counted in this result."""
        tally = self.recogniser.counts.since(self._before)
        tally.add(self._tally)
        tally.episodes = self._n_episodes
        times = {"first_s": self._first_s, "last_s": self._last_s, "recognise_s": self.recognise_s}
        counted = task_counts(self.partition, self.group, tally if self.leads else tally.of_patterns())
        return counted | {"ahead": self._n_ahead if self.leads else 0} | times

    def _set_aside(self, row: AsideRow) -> None:
        if self.leads:
            self._aside += render_aside(row)

    def _see_times(self, batch: pa.RecordBatch, name: str | None) -> None:
        stream = self._stream_of(name)
        assert stream.time is not None
        ticks = ticks_in(batch.column(stream.time), stream.time_unit, stream.time)
        values, per_s = ticks.values, ticks.per_unit
        if not len(values):
            return
        now = self._clock.wall_s() * per_s
        first, last = (values[0], values[0]) if len(values) == 1 else (values.min(), values.max())
        if last > now:  # a time ahead of the clock says nothing, and would hide all others for years
            self._n_ahead += int((values > now + self._ahead_s * per_s).sum())
            last = values[values <= now].max(initial=first)
        first_s, last_s = float(first) / per_s, float(last) / per_s
        if self._first_s is None or first_s < self._first_s:
            self._first_s = first_s
        if last <= now and (self._last_s is None or last_s > self._last_s):
            self._last_s = last_s

    def _stream_of(self, name: str | None) -> m.Stream:
        meaning = self.recogniser.patterns.meaning
        if len(meaning.streams) == 1:
            return meaning.streams[0]
        return next((one for one in meaning.streams if one.name == name), meaning.stream)

    def _pack_tables(self) -> Iterator[Parcel]:
        if self._tables:
            table = pa.concat_tables(self._tables).unify_dictionaries().combine_chunks()
            self._tables = []
            table = with_ids(table, self.recogniser.patterns.rule_names)
            for start in range(0, table.num_rows, MOST_PARCEL_ROWS):  # a few events may find millions
                some = table.slice(start, MOST_PARCEL_ROWS)
                yield self._parcel("episodes" if self.episodes else "detections", pack(some))

    def _pack_aside(self) -> Iterator[Parcel]:
        if self._aside:
            payload, self._aside = pack_lines(self._aside), bytearray()
            yield self._parcel("aside", payload)

    def _parcel(self, kind: Kind, payload: bytes) -> Parcel:
        self._number += 1
        return Parcel(kind, self.split, self._number, payload)
