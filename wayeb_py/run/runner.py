"""Patterns and paths become a file of detections: reading, recognising and writing, on one machine.

Files are recognised as they come, hoping that each entity's events are in the order of time. If they turn out not to
be, nothing that was found is visible yet: the run starts again from the events sorted on disk. Sorting first would
cost every run what few need. Standard input, and files for which a lateness is given, are taken in the order of
arrival instead: there events that are late are set aside.

With a state folder a run goes on where the last one ended (`files.saved` says why the detections are put in place
first). Episodes still open and events still held back are kept for the next run, unless this is the final one.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from wayeb_py.errors import DataError, EventsError
from wayeb_py.files.background_write import WrittenBehind
from wayeb_py.files.block import values_of_rows
from wayeb_py.files.discover import STDIN, find_files
from wayeb_py.files.projection import Wanted
from wayeb_py.files.read import EventReader, open_events
from wayeb_py.files.set_aside import DEFAULT_LIMIT, Aside, BadLimit
from wayeb_py.files.sort import sort_events
from wayeb_py.files.state_folder import StateFolder
from wayeb_py.files.write import Output, Target, find_target, open_output

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns
    from wayeb_py.engine.recogniser import Recogniser
    from wayeb_py.tally import Tally

Phase = Literal["starting Spark", "recognising", "sorting", "recognising, sorted"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is; `n_bytes` of `total_bytes` are read in this phase, where the total is known (else 0)."""

    phase: Phase
    n_events: int
    n_bytes: int
    total_bytes: int


@dataclass(slots=True)
class Summary:
    """What a run did."""

    events: int = 0
    entities: int = 0
    detections: dict[str, int] = field(default_factory=dict)  # by pattern, in the order of the file
    episodes: int | None = None
    aside: dict[str, int] = field(default_factory=dict)  # rows, by reason
    unreadable: dict[str, dict[str, Any]] = field(default_factory=dict)  # values, by column
    duplicates: int = 0
    cleaned: dict[str, int] = field(default_factory=dict)  # values taken as missing, by what was wrong with them
    warnings: list[str] = field(default_factory=list)  # sentences, each to be said on a line of its own
    notes: list[str] = field(default_factory=list)  # on places, and on what no event satisfies
    left_out: dict[str, tuple[str, ...]] = field(default_factory=dict)  # patterns, and the columns that they lack
    sorted_on_disk: bool = False
    seconds: float = 0.0
    recognition_s: float | None = None  # of a processor, all tasks together; on Spark
    out: str | None = None
    aside_file: str | None = None
    engine: str | None = None  # where it ran and why, if there was a choice

    @property
    def read_nothing(self) -> bool:
        """Whether there was not one row to read: neither an event nor one to set aside."""
        return self.events == 0 and not self.aside

    @property
    def events_per_s(self) -> float:
        return self.events / self.seconds if self.seconds > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON can hold it."""
        return asdict(self) | {"events_per_s": round(self.events_per_s)}


def run(
    patterns: CompiledPatterns,
    paths: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    episodes: bool = False,
    since_s: Fraction | None = None,
    until_s: Fraction | None = None,
    state_dir: str | os.PathLike[str] | None = None,
    final: bool = False,
    workers: int = 1,
    max_bad: BadLimit | None = None,
    aside: str | os.PathLike[str] | None = None,
    csv_safe: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> Summary:
    """Recognises the patterns in the events of the paths, and writes what they find to `out`.

    `final` closes what a state folder would keep open for the next run.
    """
    began = time.perf_counter()
    with ExitStack() as stack:
        state = None if state_dir is None else stack.enter_context(StateFolder(Path(state_dir)))
        stem = "episodes" if episodes else "detections"
        target = find_target(out, stem if state is None else f"{stem}-{state.n_runs + 1:06}", csv_safe)
        refuse_own_input(target, paths)
        wanted = Wanted.from_needs(patterns.needs, patterns.meaning.stream.time_unit)
        reader = open_events(
            paths, wanted, since_s=since_s, until_s=until_s, threads=max(1, workers), before=_schema_before(state)
        )
        aside_path = target.aside_path if aside is None else Path(aside)
        positions = Positions(patterns, paths, since_s, until_s) if target.format in ("geojson", "kml") else None
        job = _Job(
            patterns, reader, target, aside_path, max_bad or DEFAULT_LIMIT, episodes, workers, on_progress, state,
            positions,
        )  # fmt: skip
        summary = job.run(ends=state is None or final)
    summary.seconds = time.perf_counter() - began
    return summary


def _schema_before(state: StateFolder | None) -> pa.Schema | None:
    """The types that the state's events had: texts that could be read as several types are read as that one again."""
    if state is None or not state.saved:
        return None
    from wayeb_py.engine.recogniser import saved_schema  # for start-up time: most runs have no state

    return saved_schema(state.saved)


def refuse_own_input(target: Target, paths: Sequence[str | os.PathLike[str]]) -> None:
    """Raises DataError where the output is one of the files that are read."""
    if target.path is None or not target.path.exists():
        return
    for file in find_files(paths):
        if os.path.exists(file.path) and os.path.samefile(file.path, target.path):
            raise DataError("the output would replace its own input", file.path)


class Positions:
    """Where the events were: read once more, when it is known whose are wanted."""

    def __init__(
        self,
        patterns: CompiledPatterns,
        paths: Sequence[str | os.PathLike[str]],
        since_s: Fraction | None,
        until_s: Fraction | None,
    ) -> None:
        self.layout = patterns.meaning.stream
        self._paths, self._range = paths, (since_s, until_s)
        if self.layout.position is None:
            raise EventsError(
                "an output with positions needs to know where events are",
                hint="write `position lon, lat` into the stream block",
            )
        if any(file.path == STDIN for file in find_files(paths)):
            raise DataError(
                "an output with positions reads the events twice, which standard input does not allow",
                hint="keep the events in a file",
            )

    def read(self, entities: set[str]) -> pa.Table:
        """Key, time and position of all events of these entities."""
        from wayeb_py.view.tracks import read_events

        return read_events(self._paths, self.layout, [], entities, *self._range)


@dataclass(slots=True)
class _Job:
    patterns: CompiledPatterns
    reader: EventReader
    target: Target
    aside_path: Path | None
    max_bad: BadLimit
    episodes: bool
    workers: int
    on_progress: Callable[[Progress], None] | None
    state: StateFolder | None
    positions: Positions | None

    def run(self, ends: bool) -> Summary:
        """One attempt; if the events turn out to be in disorder, a second one over the sorted events."""
        from wayeb_py.engine.tie_order import Disorder

        if self.reader.is_stdin or self.patterns.meaning.stream.lateness_s is not None:
            return self._attempt("arrival", ends, self._recognising, may_restart=False)
        try:
            return self._attempt("sorted", ends, self._recognising, may_restart=True)
        except Disorder:
            summary = self._attempt("sorted", ends, self._recognising_sorted, may_restart=True)
            summary.sorted_on_disk = True
            return summary

    def _attempt(
        self,
        order: Literal["arrival", "sorted"],
        ends: bool,
        batches: Callable[[Aside], Iterator[pa.RecordBatch]],
        may_restart: bool,
    ) -> Summary:
        from wayeb_py.engine.recogniser import Recogniser
        from wayeb_py.run.hindsight import FirstEvents, look_back

        saved = None if self.state is None else self.state.saved
        recogniser = Recogniser(
            self.patterns, order=order, episodes=self.episodes, workers=self.workers, saved=saved,
            own_input=self.state is not None,
        )  # fmt: skip
        output = self._open_output(may_restart)
        aside = Aside(self.aside_path, self.max_bad)
        found: Counter[str] = Counter()
        n_episodes = 0
        first = FirstEvents()
        try:
            output.open()
            # An empty batch binds the patterns to the schema: a fault is told before anything is read, and an input
            # without events still gives an output with columns.
            nothing = pa.RecordBatch.from_pylist([], schema=self.reader.schema)
            n_episodes += self._take(recogniser.feed(nothing), output, found)
            events = batches(aside)
            try:
                for batch in events:
                    first.add(batch)
                    n_episodes += self._take(recogniser.feed(batch), output, found)
                    _set_aside(recogniser, aside)
            finally:
                events.close()  # type: ignore[attr-defined]
            if ends:
                n_episodes += self._take(recogniser.finish(), output, found)
                _set_aside(recogniser, aside)
            aside.settle()
            output.commit()
            aside.commit()
            if self.state is not None:
                self.state.save(recogniser.save())
        except DataError:
            output.discard()
            if aside.n_bad:  # too many bad rows are best understood by looking at them
                aside.commit()
            raise
        finally:
            output.discard()
            aside.discard()
        recogniser.counts.detections, recogniser.counts.episodes = found, n_episodes
        summary = summarise(recogniser.counts, self.patterns, aside, self.target.path, self.episodes)
        summary.notes += [*_rerun_note(recogniser.counts), *look_back(self.patterns, first, summary.events, found)]
        return summary

    def _open_output(self, may_restart: bool) -> Output:
        if self.positions is None:
            output = open_output(self.target, held=may_restart)
            return output if self.target.path is None or self.workers == 1 else WrittenBehind(output)
        from wayeb_py.view.geojson_kml import GeoOutput

        assert self.target.path is not None
        return GeoOutput(self.target.path, self.target.format, self.positions.layout, self.positions.read)

    def _take(self, detections: Any, output: Output, found: Counter[str]) -> int:
        """Writes what was found; the number of episodes among it."""
        found.update(detections.counts())
        if not self.episodes:
            output.write(detections.to_arrow())
            return 0
        table = detections.episodes()
        output.write(table)
        return int(table.num_rows)

    # ---- where the events come from

    def _recognising(self, aside: Aside, phase: Phase = "recognising") -> Iterator[pa.RecordBatch]:
        n_events = n_bytes = 0
        blocks = self.reader.blocks()
        try:
            for block in blocks:
                aside.add_block(block)
                yield from block.batches
                n_events += sum(batch.num_rows for batch in block.batches)
                n_bytes += block.n_bytes
                self._tell(phase, n_events, n_bytes, self.reader.n_bytes)
        finally:
            blocks.close()  # type: ignore[attr-defined]

    def _recognising_sorted(self, aside: Aside) -> Iterator[pa.RecordBatch]:
        wanted = self.reader.wanted
        order = None if wanted.order is None else wanted.order.name
        unsorted = self._recognising(aside, "sorting")
        n_events = 0
        for batch in sort_events(unsorted, self.reader.schema, wanted.time.name, order):
            yield batch
            n_events += batch.num_rows
            self._tell("recognising, sorted", n_events, n_events, aside.n_rows - aside.n_bad)

    def _tell(self, phase: Phase, n_events: int, n_bytes: int, total: int) -> None:
        if self.on_progress is not None:
            self.on_progress(Progress(phase, n_events, n_bytes, total))


def summarise(tally: Tally, patterns: CompiledPatterns, aside: Aside, out: Path | None, episodes: bool) -> Summary:
    """What was counted, by whichever engine, as a summary."""
    from wayeb_py.engine.clean import losses

    return Summary(
        events=tally.events,
        entities=tally.entities,
        detections={name: tally.detections[name] for name in patterns.names},
        episodes=tally.episodes if episodes else None,
        aside=dict(aside.reasons),
        unreadable={name: asdict(unreadable) for name, unreadable in aside.unreadable.items()},
        duplicates=tally.duplicates,
        cleaned=dict(tally.cleaned),
        warnings=losses(tally.cleaned, tally.events, patterns.meaning.stream.clean),
        notes=list(patterns.knowledge.notes),
        out=None if out is None else str(out),
        aside_file=str(aside.path) if aside.path is not None and aside.reasons else None,
    )


def _rerun_note(counts: Tally) -> Iterator[str]:
    """Says that an input had nothing new, which is what a night that is run twice looks like."""
    n_old = counts.late + counts.recognised_before
    if counts.recognised_before and not counts.events:
        yield (
            f"none of the {n_old:,} events is newer than what this --state has recognised: "
            "this input has been run before, and nothing is detected twice"
        )


def _set_aside(recogniser: Recogniser, aside: Aside) -> None:
    for reason, batch in recogniser.aside:
        aside.add_rows(reason, values_of_rows(batch))
    recogniser.aside.clear()
