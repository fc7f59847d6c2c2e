"""A target's task: the events of its streams, in the order of arrival, become detections, bad rows and counts.

It runs the recogniser of the in-process engine over what was sent to it, as a run over files does: as the events come,
and again from the beginning, sorted, where they turn out to be in disorder. Where only some entities are here, what
had arrived in a stream and how far it reaches is that of the whole stream.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from wayeb_py.compiler.placement import Where
from wayeb_py.compiler.rule_keys import readers
from wayeb_py.engine.arrival.reorder import ARRIVED
from wayeb_py.engine.arrival.tie_order import Disorder
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.engine.rows.joined_schema import fit
from wayeb_py.files.sort import sort_events
from wayeb_py.kernels.ticks import NEVER
from wayeb_py.parallel.batch.several_entities.event_sender import Reached, task_of
from wayeb_py.parallel.batch.several_entities.rule_rows import RowSender
from wayeb_py.parallel.batch.several_entities.spec import STREAM_BITS, SeveralSpec
from wayeb_py.parallel.batch.task import AsideLog, TaskTally, conformed, finish
from wayeb_py.parallel.batch.task_output import TaskOutput
from wayeb_py.parallel.wire.packer import joined
from wayeb_py.parallel.wire.parcel import Parcel, unpack
from wayeb_py.parallel.wire.spool import Spool


class Received:
    """What was sent to a target: events by stream, kept until the task ends, and how far each stream reaches."""

    def __init__(self, spec: SeveralSpec, parcels: Iterable[Parcel]) -> None:
        self._spec = spec
        self._events = {stream.name: Spool() for stream in spec.streams}
        self._tasks: dict[str, list[int]] = {stream.name: [] for stream in spec.streams}  # of each piece
        self._reached: list[Reached] = []
        for parcel in parcels:
            if parcel.kind == "reached":
                self._reached.append(Reached.from_parcel(parcel))
            else:
                self._take(parcel)

    def _take(self, parcel: Parcel) -> None:
        name = self._spec.streams[task_of(parcel) >> STREAM_BITS].name
        self._events[name].add(parcel.payload)
        self._tasks[name].append(task_of(parcel))

    def events(self, name: str) -> Iterator[pa.RecordBatch]:
        """The events of a stream in the order of arrival, with the greatest time before each where that is needed."""
        opened = zip(map(unpack, self._events[name]), self._tasks[name], strict=True)
        return joined(self._with_earlier(table, task) for table, task in opened)

    def _with_earlier(self, table: pa.Table, task: int) -> pa.Table:
        place = table.schema.get_field_index(ARRIVED)
        if place < 0:
            return table
        before = np.maximum(table.column(place).to_numpy(), self._before(task))
        return table.set_column(place, ARRIVED, pa.array(before))

    def _before(self, task: int) -> int:
        """The greatest time that earlier tasks of the same stream have read; they were all sent before any event."""
        earlier = (one.greatest for one in self._reached if one.stream == task >> STREAM_BITS and one.task < task)
        return max((one for one in earlier if one is not None), default=int(NEVER))

    @property
    def reached_s(self) -> dict[str, Fraction]:
        found: dict[str, Fraction] = {}
        for one in self._reached:
            if one.greatest is not None:
                name = self._spec.streams[one.stream].name
                time_s = Fraction(one.greatest, one.per_s)
                found[name] = max(found.get(name, time_s), time_s)
        return found

    def close(self) -> None:
        for spool in self._events.values():
            spool.close()


def run_target(spec: SeveralSpec, target: int, parcels: Iterable[Parcel]) -> Iterator[Parcel]:
    """What a target's task reports, its tally last."""
    received = Received(spec, parcels)
    where = spec.where(target)
    output, aside, rows = spec.output(target, _time_unit(spec)), AsideLog(), RowSender(spec, target)
    try:
        tally = _recognise(spec, target, received, output, aside, rows)
    finally:
        received.close()
    yield from rows.finish(received.reached_s)
    yield from finish(target, tally, output, aside, accounts=spec.accounts(where))


def _time_unit(spec: SeveralSpec) -> Any:
    return None if spec.joined is None else spec.joined.time_unit


def _recognise(
    spec: SeveralSpec, target: int, received: Received, output: TaskOutput, aside: AsideLog, rows: RowSender
) -> TaskTally:
    try:
        return _attempt(spec, target, received, (), output, aside, rows)
    except Disorder:
        output.forget()
        aside.forget()
        rows.forget()
        in_order = [name for name, order in spec.orders().items() if order == "sorted"]
        tally = _attempt(spec, target, received, in_order, output, aside, rows)
        tally.sorted = True
        return tally


def _attempt(
    spec: SeveralSpec,
    target: int,
    received: Received,
    to_sort: Collection[str],
    output: TaskOutput,
    aside: AsideLog,
    rows: RowSender,
) -> TaskTally:
    assert spec.joined is not None
    where = spec.where(target)
    patterns, accounts = spec.patterns_at(where), spec.accounts(where)
    recogniser = Recogniser(
        patterns, order=spec.orders(), episodes=spec.episodes, saves=False, listens=False,
        whole=spec.whole if accounts else None, plans=spec.plans, share=spec.share(target),
        elsewhere=readers(spec.moved(where)),
    )  # fmt: skip
    streams = {one.name: one for one in spec.streams if spec.columns(where, one)}
    for name, stream in streams.items():
        recogniser.bind(pa.schema([stream.schema.field(column) for column in spec.columns(where, stream)]), name)
    tally = TaskTally()
    n_episodes = 0

    def take(detections: Any) -> None:
        nonlocal n_episodes
        tally.detections.update(detections.counts())
        table = detections.episodes() if spec.episodes else detections.to_arrow()
        n_episodes += table.num_rows if spec.episodes else 0
        if table.num_rows:
            output.write(fit(table, recogniser.schema, spec.joined, episodes=spec.episodes))  # type: ignore[arg-type]
        aside.add_refused(recogniser)
        if recogniser.rules is not None and recogniser.rules.leaving:
            rows.add(recogniser.rules.leaving, recogniser.rules.ticks_per_s)
            recogniser.rules.leaving.clear()

    left = {name: _read(spec, name, _events(spec, where, name, received), name in to_sort) for name in streams}
    while left:
        name = recogniser.behind if recogniser.behind in left else next(iter(left))
        batch = next(left[name], None)
        if batch is None:
            del left[name]
            continue
        began_s = time.thread_time()
        found = recogniser.feed(batch, name)
        tally.recognition_s += time.thread_time() - began_s
        take(found)
    began_s = time.thread_time()
    found = recogniser.finish(received.reached_s)
    tally.recognition_s += time.thread_time() - began_s
    take(found)
    tally.episodes = n_episodes
    if accounts:
        tally.add(recogniser.counts)
        tally.streams = {name: counts.to_json() for name, counts in recogniser.counts_of.items()}
    return tally


def _events(spec: SeveralSpec, where: Where, name: str, received: Received) -> Iterator[pa.RecordBatch]:
    """The events of a stream as a kind of task gets them: from files, or from what was sent to it."""
    if not spec.reads_itself(where):
        return received.events(name)
    stream = next(number for number, one in enumerate(spec.streams) if one.name == name)
    columns = spec.columns(where, spec.streams[stream])
    return (batch.select(columns) for batch in spec.read(stream))


def _read(spec: SeveralSpec, name: str, batches: Iterator[pa.RecordBatch], is_sorted: bool) -> Iterator[pa.RecordBatch]:
    if not is_sorted:
        yield from batches
        return
    stream = spec.whole.by_stream[name].stream
    assert stream.time is not None
    first = next(batches, None)
    if first is None:
        return
    schema = pa.schema([field for one in spec.streams if one.name == name for field in one.schema
                        if field.name in first.schema.names])  # fmt: skip

    def every() -> Iterator[pa.RecordBatch]:
        yield first
        yield from batches

    in_types = (conformed(one.select(schema.names), schema) for one in every())
    yield from sort_events(in_types, schema, stream.time, stream.order)
