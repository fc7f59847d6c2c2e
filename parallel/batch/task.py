"""What a task does: events become detections, bad rows and counts, by the same rules as a run in one process.

A task recognises events as they come, on the assumption that each entity's are in the order of time; if they are not,
it sorts its events and begins again. With a lateness it takes them in the order of arrival instead.
"""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from wayeb_py.engine.arrival.reorder import ARRIVED
from wayeb_py.engine.arrival.tie_order import Disorder
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.files.formats.arrow_types import conform
from wayeb_py.files.formats.block import AsideRow, Block, TimeRange, Unreadable, values_of_rows
from wayeb_py.files.projection import Wanted
from wayeb_py.files.sort import sort_events
from wayeb_py.files.stores import located
from wayeb_py.parallel.batch.task_output import By, ParcelOutput, PartOutput, TaskOutput
from wayeb_py.parallel.spark.pattern_bundle import open_patterns
from wayeb_py.parallel.wire.parcel import Parcel, pack
from wayeb_py.parallel.wire.spool import Spool
from wayeb_py.patterns import Patterns
from wayeb_py.tally import Tally

ASIDE_ROWS = 5_000  # rows in a parcel


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What all tasks of a job share: sent to every executor once."""

    patterns: bytes
    schema: pa.Schema  # the types of the events
    found: pa.Schema  # the types of the detections, or the episodes
    time_range: TimeRange
    episodes: bool
    groups: tuple[tuple[str, ...], ...] = ()  # groups of patterns, where they are split
    folder: str | None = None  # where parts go; None: to the driver
    by: tuple[By, ...] = ()

    def patterns_of(self, group: int | None) -> Patterns:
        """The patterns of a group, the first of which accounts for the events; no group means all of them."""
        return open_patterns(self.patterns, () if group is None else self.groups[group], group in (None, 0))

    def wanted(self, group: int | None) -> Wanted:
        patterns = self.patterns_of(group)
        return patterns.wanted

    def schema_of(self, wanted: Wanted) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in wanted.names])

    def output(self, task: int, unit: Any) -> TaskOutput:
        if self.folder is None:
            return ParcelOutput("episodes" if self.episodes else "detections", task)
        return PartOutput(located(self.folder), task, self.by, unit)


@dataclass(slots=True)
class TaskTally(Tally):
    """What a task, or a part of one, did; the tallies of all tasks add up to the run's."""

    sorted: bool = False
    recognition_s: float = 0.0  # processor time, without reading, packing and writing
    parts: dict[str, int] = field(default_factory=dict)  # rows, by path below the output folder
    streams: dict[str, dict[str, Any]] = field(default_factory=dict)  # tallies of several streams, as JSON

    def to_parcel(self, task: int) -> Parcel:
        return Parcel("counts", task, 0, json.dumps(self.to_json()).encode())

    @classmethod
    def from_parcel(cls, parcel: Parcel) -> TaskTally:
        return cls.from_json(json.loads(parcel.payload))

    def add(self, other: Tally) -> None:
        Tally.add(self, other)  # `slots=True` makes a new class, which a bare `super()` does not know
        if isinstance(other, TaskTally):
            self.sorted |= other.sorted
            self.recognition_s += other.recognition_s
            self.parts |= other.parts
            for name, kept in other.streams.items():
                sum_of = Tally.from_json(self.streams.get(name, {}))
                sum_of.add(Tally.from_json(kept))
                self.streams[name] = sum_of.to_json()


@dataclass(slots=True)
class SetAside:
    """Rows left out of some events: by the reader, or by the recogniser."""

    rows: list[AsideRow] = field(default_factory=list)
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    refused: list[tuple[str, dict[str, Any]]] = field(default_factory=list)  # reason and values

    @classmethod
    def from_parcel(cls, parcel: Parcel) -> SetAside:
        aside: SetAside = pickle.loads(parcel.payload)
        return aside


class AsideLog:
    """Notes what blocks of rows and a recogniser leave out, in pieces that fit a parcel; keeps larger amounts on
    disk."""

    def __init__(self) -> None:
        self.n_rows = 0
        self._notes = Spool()

    def forget(self) -> None:
        self.n_rows = 0
        self._notes.clear()

    def add_block(self, block: Block) -> None:
        self.n_rows += block.n_rows
        if block.unreadable:
            self._note(SetAside(unreadable=block.unreadable))
        for start in range(0, len(block.aside), ASIDE_ROWS):
            self._note(SetAside(block.aside[start : start + ASIDE_ROWS]))

    def add_refused(self, recogniser: Recogniser) -> None:
        for reason, batch in recogniser.aside:
            if ARRIVED in batch.schema.names:
                batch = batch.drop_columns([ARRIVED])
            for start in range(0, batch.num_rows, ASIDE_ROWS):
                rows = values_of_rows(batch.slice(start, ASIDE_ROWS))
                self._note(SetAside(refused=[(reason, values) for values in rows]))
        recogniser.aside.clear()

    def _note(self, note: SetAside) -> None:
        self._notes.add(pickle.dumps(note))

    def parcels(self, split: int, first: int = 0) -> Iterator[Parcel]:
        for number, note in enumerate(self._notes, first):
            yield Parcel("aside", split, number, note)
        self.close()

    def close(self) -> None:
        """Drops what was noted."""
        self._notes.close()


def recognise_events(
    spec: JobSpec,
    group: int | None,
    read: Callable[[], Iterable[pa.RecordBatch]],
    output: TaskOutput,
    aside: AsideLog,
    keys: list[pa.Array] | None = None,
) -> TaskTally:
    """Recognises the events of `read`, and begins again if they are in disorder; fills `keys` if it is given."""
    stream = spec.patterns_of(group).meaning.stream
    assert stream.time is not None
    if stream.lateness_s is not None:
        return _attempt(spec, group, read(), "arrival", output, aside, keys)
    try:
        return _attempt(spec, group, read(), "sorted", output, aside, keys)
    except Disorder:
        output.forget()
        aside.forget()
        schema = spec.schema_of(spec.wanted(group))
        events = sort_events((batch.select(schema.names) for batch in read()), schema, stream.time, stream.order)
        tally = _attempt(spec, group, events, "sorted", output, aside, keys)
        tally.sorted = True
        return tally


def _attempt(
    spec: JobSpec,
    group: int | None,
    batches: Iterable[pa.RecordBatch],
    order: Literal["arrival", "sorted"],
    output: TaskOutput,
    aside: AsideLog,
    keys: list[pa.Array] | None,
) -> TaskTally:
    episodes = spec.episodes
    recogniser = Recogniser(spec.patterns_of(group), order=order, episodes=episodes)
    tally = TaskTally()

    n_episodes = 0

    def take(detections: Any) -> None:
        nonlocal n_episodes
        tally.detections.update(detections.counts())
        table = detections.episodes() if episodes else detections.to_arrow()
        n_episodes += table.num_rows if episodes else 0
        output.write(_conform(table, spec.found))
        aside.add_refused(recogniser)

    recogniser.bind(spec.schema)
    for batch in batches:
        began_s = time.thread_time()
        detections = recogniser.feed(batch)
        tally.recognition_s += time.thread_time() - began_s
        take(detections)
    take(recogniser.finish())
    tally.episodes = n_episodes
    tally.add(recogniser.counts)
    if keys is not None:
        keys.append(recogniser.of().entities.keys())
    return tally


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in the types of a schema, which can hold its values."""
    arrays = [conform(array, field.type) for array, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Adds the columns that only other patterns emit, as missing values."""
    if table.schema.names == schema.names:
        return table
    columns = [
        table.column(field.name) if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def finish(task: int, tally: TaskTally, output: TaskOutput, aside: AsideLog, accounts: bool) -> Iterator[Parcel]:
    """Everything that a task reports, its tally last: the driver ignores a task without one.

    Where several tasks see the same events with different patterns, only the one that `accounts` counts the events.
    """
    yield from output.finish()
    tally.parts = output.parts if isinstance(output, PartOutput) else {}
    if accounts:
        tally.rows = aside.n_rows
        yield from aside.parcels(task)
    else:
        aside.close()
        own = TaskTally(sorted=tally.sorted, recognition_s=tally.recognition_s, parts=tally.parts)
        own.add(tally.of_patterns())
        tally = own
    yield tally.to_parcel(task)


def entities_parcel(task: int, keys: list[pa.Array]) -> Parcel:
    """The keys that a task has seen."""
    return Parcel("entities", task, 0, pack(pa.table({"key": pa.concat_arrays(keys)})))
