"""Patterns and paths become an output and a summary, as `wayeb_py.run.runner` does it, on Spark.

    open all files ──▶ plan ──▶ scheme: parcels ──▶ part files below the output folder, or the driver's own writer

A job reports faults that concern the whole input before it asks Spark for anything. The tasks write a folder; the
driver writes a single file, in the order of time, from parcels that Spark keeps until the driver takes them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.errors import DataError
from wayeb_py.files.discover import STDIN
from wayeb_py.files.formats.block import Block, TimeRange
from wayeb_py.files.output.set_aside import DEFAULT_LIMIT, Aside, BadLimit
from wayeb_py.files.projection import Wanted
from wayeb_py.files.read import EventReader, open_events
from wayeb_py.files.stores import Location, absolute, located
from wayeb_py.parallel.batch import schemes
from wayeb_py.parallel.batch.job_output import FileSink, FolderSink, find_place, open_single
from wayeb_py.parallel.batch.plan import Plan, make_plan
from wayeb_py.parallel.batch.several_entities.plan import SeveralPlan, make_several_plan, streams_of, with_places
from wayeb_py.parallel.batch.several_entities.spec import (
    SeveralSpec,
    looks_at_several,
    require_partition,
    schema_of_all,
)
from wayeb_py.parallel.batch.task import JobSpec, SetAside, TaskTally
from wayeb_py.parallel.batch.task_output import By
from wayeb_py.parallel.spark.interruption import Interruption
from wayeb_py.parallel.spark.launch import hush
from wayeb_py.parallel.spark.pattern_bundle import pack_patterns
from wayeb_py.parallel.spark.session import open_session
from wayeb_py.parallel.spark.shared import require_context
from wayeb_py.parallel.spark.task_errors import watched
from wayeb_py.parallel.spark.task_slots import count_task_slots
from wayeb_py.parallel.wire.output_schema import output_schema
from wayeb_py.parallel.wire.parcel import Parcel, unpack
from wayeb_py.run.sources import Positions, paths_by_stream, refuse_own_input
from wayeb_py.run.summary import Progress, Summary, summarise
from wayeb_py.run.unused_conditions import FirstEvents, is_worth_looking_back, look_back
from wayeb_py.tally import Tally

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

    from wayeb_py.patterns import Patterns

AT_ONCE_BYTES = 64 << 20  # parcels that the driver takes at a time

Paths = Sequence[str | os.PathLike[str]]


def run(
    patterns: Patterns,
    paths: Paths | Mapping[str, Paths],
    out: str | os.PathLike[str],
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    scheme: Literal["auto", "source", "partition", "pattern"] = "auto",
    workers: int | None = None,
    by: Sequence[By] = (),
    episodes: bool = False,
    since_s: Fraction | None = None,
    until_s: Fraction | None = None,
    max_bad: BadLimit | None = None,
    aside: str | os.PathLike[str] | None = None,
    csv_safe: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    on_plan: Callable[[str], None] | None = None,
    plans: Mapping[str, str] | None = None,
) -> Summary:
    """Recognises the patterns in the events of the paths on Spark, and writes the detections to `out`.

    Where the file has several streams, `paths` maps their names to paths; `plans` are as in a run in one process.
    Without a session it opens one, on the given or configured master, and stops it at the end. It passes `on_plan`
    one line that says what it chose and why.
    """
    began_s = time.perf_counter()
    if spark is not None:
        require_context(spark, "a run over files")
    schemes.require_known(scheme)
    target, folder = find_place(out, by, "episodes" if episodes else "detections", csv_safe)
    by_stream = paths_by_stream(patterns, paths)
    every = [path for own in by_stream.values() for path in own]
    refuse_own_input(target, every)
    if any(os.fspath(path) == STDIN for path in every):
        raise DataError(
            "Spark cannot read standard input", hint="keep the events in a file, or run with --engine local"
        )
    readers = {
        name: open_events(
            by_stream[name], Wanted.from_needs(part.needs, part.stream.time_unit), since_s=since_s, until_s=until_s
        )
        for name, part in patterns.by_stream.items()
    }
    if looks_at_several(patterns):
        require_partition(scheme, patterns)
        joined = schema_of_all(patterns, {name: reader.schema for name, reader in readers.items()})
        found = joined.episodes if episodes else joined.detections
    else:
        found = output_schema(patterns, next(iter(readers.values())).schema, episodes)
    positions = Positions(patterns, by_stream, since_s, until_s) if target.format in ("geojson", "kml") else None
    with ExitStack() as stack:
        if spark is None:
            spark = _session(stack, master, workers, on_progress)
            require_context(spark, "a run over files")
        n_workers = workers or count_task_slots(spark.sparkContext)
        plan: Plan | SeveralPlan
        spec: JobSpec
        if looks_at_several(patterns):
            plan = several = make_several_plan(patterns, readers, n_workers)
            spec = with_places(
                SeveralSpec(
                    pack_patterns(patterns), pa.schema([]), found, TimeRange(), episodes, streams=streams_of(readers),
                    joined=joined, plans=dict(plans or {}),
                ),
                several,
            )  # fmt: skip
        else:
            (reader,) = readers.values()
            plan = make_plan(patterns, reader, scheme, n_workers)
            time_range = reader.selection.time_range
            spec = JobSpec(pack_patterns(patterns), reader.schema, found, time_range, episodes, plan.groups)
        if on_plan is not None:
            on_plan(str(plan))
        in_parts = None if folder is None else FolderSink(folder, by, found)
        sink = in_parts or FileSink(open_single(target, positions), found)
        stack.callback(sink.discard)
        aside_path = target.aside_path if aside is None else located(aside)
        job = _Job(
            spark, patterns, readers, plan, sink.prepared(spec), Aside(aside_path, max_bad or DEFAULT_LIMIT), sink
        )
        job.out, job.began_s, job.on_progress = target.path, began_s, on_progress
        summary = job.run()
    summary.seconds = time.perf_counter() - began_s
    return summary


def _session(
    stack: ExitStack, master: str | None, workers: int | None, on_progress: Callable[[Progress], None] | None
) -> SparkSession:
    """The caller's session, or one that ends with the stack."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if on_progress is not None:  # otherwise the terminal stays blank for some seconds
        on_progress(Progress("starting Spark", 0, 0, 0))
    opened = open_session(master, workers=workers)

    def stop(kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not issubclass(kind, Exception):
            hush()
        opened.stop()

    stack.push(stop)
    return opened


@dataclass(slots=True)
class _Job:
    spark: SparkSession
    patterns: Patterns
    readers: dict[str, EventReader]
    plan: Plan | SeveralPlan
    spec: JobSpec
    aside: Aside
    sink: FolderSink | FileSink
    out: Location | None = None
    began_s: float = 0.0
    on_progress: Callable[[Progress], None] | None = None
    _given: dict[str, str] = field(default_factory=dict)

    def run(self) -> Summary:
        context = self.spark.sparkContext
        interruption = Interruption(context)
        with interruption.watching():
            return self._run(context, interruption)

    def _run(self, context: SparkContext, interruption: Interruption) -> Summary:
        frame: DataFrame | None = None
        job_context: schemes.JobContext | None = None
        try:
            job_context = schemes.JobContext.make(self.spark, self.spec)
            tell = partial(self._tell, job_context)
            with watched(context, interruption, job_context.errors, tell):
                frame = self.plan.start(self.spark, job_context).persist()
                sent, tally = self._recognise(frame)
            with watched(context, interruption, job_context.errors, lambda: None):
                summary = self._conclude(tally, _Others(frame, sent))
        except DataError as error:
            self.sink.discard()
            if self.aside.n_bad:  # a user looks at them to understand why there are too many
                self.aside.commit()
            raise type(error)(error.message, self._as_given(error.file), error.row, error.hint) from None
        finally:
            self.sink.discard()
            self.aside.discard()
            if frame is not None:
                frame.unpersist()
            if job_context is not None:
                job_context.spec.unpersist()
        return summary

    def _recognise(self, frame: DataFrame) -> tuple[dict[str, list[_Sent]], TaskTally]:
        """Runs all tasks; returns their counts, and the number and size of every other parcel."""
        from pyspark.sql import functions as f

        counted = f.when(f.col("kind") == "counts", f.col("payload"))
        n_bytes = f.length("payload").alias("n_bytes")
        rows = frame.select("kind", "split", "number", n_bytes, counted.alias("counted")).collect()
        sent: dict[str, list[_Sent]] = {}
        total = TaskTally()
        for row in rows:
            if row.kind == "counts":
                total.add(TaskTally.from_parcel(Parcel("counts", row.split, 0, bytes(row.counted))))
            else:
                sent.setdefault(row.kind, []).append(_Sent(row.split, row.number, row.n_bytes))
        return sent, total

    def _conclude(self, tally: TaskTally, others: _Others) -> Summary:
        self.aside.add_block(Block(n_rows=tally.rows))
        for parcel in others.of("aside"):
            self._set_aside(SetAside.from_parcel(parcel))
        self.aside.settle()
        self._refuse_scattered(others)
        kind: Any = "episodes" if self.spec.episodes else "detections"
        self.sink.write(unpack(parcel.payload) for parcel in others.of(kind))
        summary = self._summarise(tally)
        summary.notes += self._look_back(tally)
        self.sink.commit(tally, summary)
        self.aside.commit()
        return summary

    def _set_aside(self, note: SetAside) -> None:
        rows = [replace(row, file=self._as_given(row.file)) for row in note.rows]
        unreadable = {
            name: replace(facts, file=self._as_given(facts.file) or "") for name, facts in note.unreadable.items()
        }
        self.aside.add_block(Block(aside=rows, unreadable=unreadable))
        for reason, values in note.refused:
            self.aside.add_rows(reason, [values])

    def _as_given(self, path: str | None) -> str | None:
        """The path as the caller wrote it; tasks get absolute paths."""
        if not self._given:
            self._given |= {
                absolute(opened.file.path): opened.file.path
                for reader in self.readers.values()
                for opened in reader.files
            }
        return None if path is None else self._given.get(path, path)

    def _refuse_scattered(self, others: _Others) -> None:
        """Raises DataError where two tasks saw the same entity: neither recognised all of its events."""
        seen = [(parcel.split, unpack(parcel.payload).column(0)) for parcel in others.of("entities")]
        if not seen:
            return
        keys = pa.chunked_array([chunk for _, column in seen for chunk in column.chunks], seen[0][1].type)
        if len(pc.unique(keys)) == len(keys):
            return
        counted = pc.value_counts(keys)
        twice = counted.field("values").filter(pc.greater(counted.field("counts"), 1))[0]
        places = [split for split, column in seen if pc.is_in(twice, value_set=column.combine_chunks()).as_py()]
        assert isinstance(self.plan, Plan)  # a plan over several entities recognises nothing where it is read
        (reader,) = self.readers.values()
        splits = self.plan.splits
        found = (splits[split].file_with(twice.as_py(), reader) for split in places[:2])
        first, second = (self._as_given(file.path) for file in found)
        raise DataError(
            f"--scheme source needs each entity in one split, and `{twice.as_py()}` is in {first} and in {second}",
            hint="use --scheme partition, or partition the files by entity once: wayeb data convert",
        )

    def _summarise(self, tally: TaskTally) -> Summary:
        by_stream = {name: Tally.from_json(tally.streams[name]) for name in self.readers if name in tally.streams}
        summary = summarise(tally, self.patterns, self.aside, self.out, self.spec.episodes, by_stream)
        summary.sorted_on_disk, summary.recognition_s = tally.sorted, tally.recognition_s
        summary.engine = f"spark: {self.plan}"
        summary.seconds = time.perf_counter() - self.began_s  # the manifest is not written yet
        return summary

    def _look_back(self, tally: TaskTally) -> list[str]:
        """The notes that a run in one process ends with. The driver reads the first events again, since each task saw
        only a part of them."""
        if not is_worth_looking_back(self.patterns, tally.detections):
            return []
        first = {name: FirstEvents() for name in self.readers}
        for name, reader in self.readers.items():
            first[name].take(reader)
        return look_back(self.patterns, first, tally.events, tally.detections)

    def _tell(self, job_context: schemes.JobContext) -> None:
        if self.on_progress is not None:
            n_bytes = sum(reader.n_bytes for reader in self.readers.values()) * self.plan.n_readings
            self.on_progress(Progress("recognising", job_context.n_events.value, job_context.n_bytes.value, n_bytes))


@dataclass(frozen=True, slots=True)
class _Sent:
    """A parcel that a task sends to the driver."""

    split: int
    number: int
    n_bytes: int


@dataclass(frozen=True, slots=True)
class _Others:
    """The parcels other than counts, kind by kind."""

    frame: DataFrame
    sent: dict[str, list[_Sent]]  # by kind, in the order of tasks

    def of(self, kind: str) -> Iterator[Parcel]:
        """The parcels of a kind in the order of their tasks, as many at a time as Java's heap holds without trouble."""
        sent = self.sent.get(kind, [])
        if not sent:
            return
        chosen = self.frame.where(self.frame["kind"] == kind)
        if sum(one.n_bytes for one in sent) <= AT_ONCE_BYTES:
            rows: Iterable[Any] = chosen.collect()
        elif _are_numbered(sent):
            split, number = self.frame["split"], self.frame["number"]
            rows = (
                row
                for some in _at_once(sent)
                for row in chosen.where(
                    (split == some[0].split) & number.between(some[0].number, some[-1].number)
                ).collect()
            )
        else:
            rows = chosen.toLocalIterator(prefetchPartitions=True)
        for row in rows:
            yield Parcel(row.kind, row.split, row.number, bytes(row.payload))


def _are_numbered(sent: list[_Sent]) -> bool:
    """Whether a range of a task's numbers holds exactly the parcels between its ends."""
    last: dict[int, int] = {}
    for one in sent:
        if one.number <= last.get(one.split, -1):
            return False
        last[one.split] = one.number
    return True


def _at_once(sent: list[_Sent]) -> Iterator[list[_Sent]]:
    """Splits consecutive parcels of one task into runs that stay below the size limit where they can."""
    run: list[_Sent] = []
    n_bytes = 0
    for one in sent:
        if run and (one.split != run[0].split or n_bytes + one.n_bytes > AT_ONCE_BYTES):
            yield run
            run, n_bytes = [], 0
        run.append(one)
        n_bytes += one.n_bytes
    yield run
