"""Patterns and paths become a file of detections: reading, recognising and writing, on one machine.

The runner recognises files as they come, hoping that each entity's events are in the order of time. If they turn out
not to be, no detection is visible yet: the run starts again from the events sorted on disk. Sorting first would cost
every run what few need. Standard input, and files with a lateness, are read in the order of arrival instead: there
late events are set aside. Each stream of a file is handled by itself (`sources`).

With a state folder a run continues where the last one ended (`files.state_folder` says why the detections take their
place first). Episodes still open and events still held back are kept for the next run, unless this is the final one.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from wayeb_py.errors import DataError
from wayeb_py.files.formats.block import values_of_rows
from wayeb_py.files.output.background_write import WrittenBehind
from wayeb_py.files.output.set_aside import DEFAULT_LIMIT, Aside, BadLimit
from wayeb_py.files.output.write import Output, OutputFile, find_output_file, open_output
from wayeb_py.files.state_folder import StateFolder
from wayeb_py.files.stores import Location, located
from wayeb_py.run.sources import Paths, Positions, Sources, paths_by_stream, refuse_own_input
from wayeb_py.run.summary import Progress, Summary, summarise

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns
    from wayeb_py.engine.recogniser import Recogniser
    from wayeb_py.tally import Tally


def run(
    patterns: CompiledPatterns,
    paths: Paths | Mapping[str, Paths],
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
    plans: Mapping[str, str] | None = None,
) -> Summary:
    """Recognises the patterns in the events of the paths, and writes the detections to `out`.

    Where the file has several streams, `paths` maps their names to paths. `final` closes what a state folder would keep
    open for the next run. `plans` are orders in which rules join their members, by the names of the rules.
    """
    began = time.perf_counter()
    with ExitStack() as stack:
        state = None if state_dir is None else stack.enter_context(StateFolder(state_dir))
        stem = "episodes" if episodes else "detections"
        target = find_output_file(out, stem if state is None else f"{stem}-{state.n_runs + 1:06}", csv_safe)
        if state is not None:
            target = replace(target, run=(state.name, state.n_runs + 1))
        by_stream = paths_by_stream(patterns, paths)
        for own in by_stream.values():
            refuse_own_input(target, own)
        sources = Sources(
            patterns, by_stream, since_s=since_s, until_s=until_s, threads=max(1, workers),
            before=lambda name: _schema_before(patterns, state, name), on_progress=on_progress,
        )  # fmt: skip
        aside_path = target.aside_path if aside is None else located(aside)
        positions = Positions(patterns, by_stream, since_s, until_s) if target.format in ("geojson", "kml") else None
        limit = max_bad or DEFAULT_LIMIT
        job = _Job(patterns, sources, target, aside_path, limit, episodes, workers, state, positions, plans)
        summary = job.run(ends=state is None or final)
    summary.seconds = time.perf_counter() - began
    return summary


def _schema_before(patterns: CompiledPatterns, state: StateFolder | None, stream: str) -> pa.Schema | None:
    """The types of the state's events: texts that could be read as several types are read as the same type again."""
    if state is None or not state.saved:
        return None
    from wayeb_py.engine.recogniser import saved_schema  # for start-up time: most runs have no state

    is_only = len(patterns.meaning.streams) == 1
    return saved_schema(state.saved, patterns.by_stream[stream].stream, is_only=is_only)


@dataclass(slots=True)
class _Job:
    patterns: CompiledPatterns
    sources: Sources
    target: OutputFile
    aside_path: Location | None
    max_bad: BadLimit
    episodes: bool
    workers: int
    state: StateFolder | None
    positions: Positions | None
    plans: Mapping[str, str] | None

    def run(self, ends: bool) -> Summary:
        """One attempt; if the events turn out to be in disorder, a second one over the sorted events."""
        from wayeb_py.engine.arrival.tie_order import Disorder  # for start-up time

        try:
            return self._attempt(ends, sorted_on_disk=())
        except Disorder:
            summary = self._attempt(ends, sorted_on_disk=self.sources.in_order)
            summary.sorted_on_disk = True
            return summary

    def _attempt(self, ends: bool, sorted_on_disk: Collection[str]) -> Summary:
        from wayeb_py.engine.recogniser import Recogniser  # for start-up time
        from wayeb_py.run.unused_conditions import FirstEvents, look_back  # for start-up time

        saved = None if self.state is None else self.state.saved
        in_order = self.sources.in_order
        order: dict[str, Literal["arrival", "sorted"]] = {
            name: "sorted" if name in in_order else "arrival" for name in self.sources.readers
        }
        recogniser = Recogniser(
            self.patterns, order=order, episodes=self.episodes, workers=self.workers, saved=saved,
            own_input=self.state is not None, plans=self.plans, saves=self.state is not None,
        )  # fmt: skip
        output = self._open_output(may_restart=bool(in_order))
        aside = Aside(self.aside_path, self.max_bad)
        found: Counter[str] = Counter()
        n_episodes = 0
        first = {name: FirstEvents() for name in self.sources.readers}
        try:
            output.open()
            # An empty batch binds the patterns to the schema: a fault appears before anything is read, and an input
            # without events still gives an output with columns.
            for name, reader in self.sources.readers.items():
                recogniser.bind(reader.schema, name)
            for name in list(self.sources.readers)[-1:]:
                nothing = pa.RecordBatch.from_pylist([], schema=reader.schema)
                n_episodes += self._take(recogniser.feed(nothing, name), output, found)
            events = self.sources.batches(aside, lambda: recogniser.behind, sorted_on_disk)
            try:
                for name, batch in events:
                    first[name].add(batch)
                    n_episodes += self._take(recogniser.feed(batch, name), output, found)
                    _set_aside(recogniser, aside)
            finally:
                events.close()  # type: ignore[attr-defined]
            if ends or not self.sources.readers:
                n_episodes += self._take(recogniser.finish(), output, found)
                _set_aside(recogniser, aside)
            aside.settle()
            output.commit()
            aside.commit()
            if self.state is not None:
                self.state.save(recogniser.save())
        except DataError:
            output.discard()
            if aside.n_bad:  # to understand too many bad rows, a user looks at them
                aside.commit()
            raise
        finally:
            output.discard()
            aside.discard()
        tally = recogniser.counts
        tally.detections, tally.episodes = found, n_episodes
        summary = summarise(tally, self.patterns, aside, self.target.path, self.episodes, recogniser.counts_of)
        summary.notes += [*_rerun_note(tally), *look_back(self.patterns, first, summary.events, found)]
        return summary

    def _open_output(self, may_restart: bool) -> Output:
        if self.positions is None:
            output = open_output(self.target, held=may_restart)
            return output if self.target.path is None or self.workers == 1 else WrittenBehind(output)
        from wayeb_py.view.geojson_kml import GeoOutput  # for start-up time

        assert self.target.path is not None
        return GeoOutput(self.target.path, self.target.format, self.positions.layout, self.positions.read)

    def _take(self, detections: Any, output: Output, found: Counter[str]) -> int:
        """Writes what was found; returns the number of episodes in it."""
        found.update(detections.counts())
        if not self.episodes:
            output.write(detections.to_arrow())
            return 0
        table = detections.episodes()
        output.write(table)
        return int(table.num_rows)


def _rerun_note(counts: Tally) -> Iterator[str]:
    """Says that an input had nothing new: this is what running the same night twice looks like."""
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
