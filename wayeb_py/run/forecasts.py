"""Patterns and paths become models, and models and paths become a file of forecasts, on one machine.

Files are read as `runner` reads them: as they come, and sorted on disk where that is not the order of time.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pyarrow as pa

from wayeb_py.engine.arrival.tie_order import Disorder
from wayeb_py.engine.entity_recogniser import EntityRecogniser
from wayeb_py.engine.watcher import Watcher
from wayeb_py.errors import UsageError
from wayeb_py.files.formats.block import values_of_rows
from wayeb_py.files.output.set_aside import DEFAULT_LIMIT, Aside
from wayeb_py.files.output.whole_file import write_whole
from wayeb_py.files.output.write import find_output_file, open_output
from wayeb_py.forecast.automaton import DetectingAutomaton, detecting_automaton
from wayeb_py.forecast.evaluation.evaluate import Evaluation, Split, evaluate
from wayeb_py.forecast.evaluation.page import render_page
from wayeb_py.forecast.evaluation.trials import TrialCollector
from wayeb_py.forecast.forecaster import Forecaster
from wayeb_py.forecast.learn import Learner
from wayeb_py.forecast.model import Model, fit, load_model, save_model
from wayeb_py.forecast.tables import ForecastTables, Horizon, make_tables, reading_also
from wayeb_py.run.sources import Paths, Sources, paths_by_stream, refuse_own_input

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns


@dataclass(slots=True)
class ForecastSummary:
    """The numbers of events and entities, and of forecasts by pattern."""

    events: int = 0
    entities: int = 0
    late: int = 0
    bad: int = 0
    forecasts: Counter[str] = field(default_factory=Counter)
    out: str | None = None


def automata_of(patterns: CompiledPatterns) -> list[DetectingAutomaton]:
    """The automata of all reported patterns; UsageError where one of them has no forecasts."""
    return [
        detecting_automaton(pattern, compiled, patterns.limits)
        for pattern, compiled in zip(
            patterns.meaning.patterns[: patterns.n_reported], patterns.compiled[: patterns.n_reported], strict=True
        )
    ]


def learn(
    patterns: CompiledPatterns,
    paths: Paths,
    out: str | os.PathLike[str],
    *,
    order: int | None = None,
    by: str | None = None,
    since_s: Fraction | None = None,
    until_s: Fraction | None = None,
) -> tuple[list[Model], ForecastSummary]:
    """Learns a model of each pattern from the events of the paths, and writes them into the folder `out`."""
    automata = automata_of(patterns)
    patterns = reading_also(patterns, by)
    learners: list[Learner] = []

    def begin() -> Learner:
        learners[:] = [Learner(patterns, automata, order, by)]
        return learners[0]

    summary = watch_files(patterns, paths, begin, lambda: None, since_s, until_s)
    if not summary.events:
        raise UsageError("there is nothing to learn from: the history has no events", hint="look at --data and --since")
    models = [fit(automaton, own, by) for automaton, own in zip(automata, learners[0].counts(), strict=True)]
    for model in models:
        save_model(model, Path(out))
    summary.out = os.fspath(out)
    return models, summary


def load_tables(
    patterns: CompiledPatterns, folder: str | os.PathLike[str], horizons: Sequence[tuple[str, Horizon, float]]
) -> list[ForecastTables]:
    """The tables of each (pattern, horizon, confidence), from the models in a folder."""
    models = {automaton.name: load_model(automaton, Path(folder)) for automaton in automata_of(patterns)}
    return [make_tables(models[name], horizon, confidence) for name, horizon, confidence in horizons]


def forecast(
    patterns: CompiledPatterns,
    tables: Sequence[ForecastTables],
    paths: Paths,
    out: str | os.PathLike[str],
    *,
    at_least: float = 0.0,
    since_s: Fraction | None = None,
    until_s: Fraction | None = None,
) -> ForecastSummary:
    """Writes the forecasts at each event of the paths to `out`."""
    patterns = reading_also(patterns, *(own.model.by for own in tables))
    target = find_output_file(out, "forecasts")
    if target.format not in ("parquet", "csv", "ndjson"):
        raise UsageError("forecasts are rows without a position", hint="write .parquet, .csv or .ndjson")
    refuse_own_input(target, paths)
    found: Counter[str] = Counter()
    state: dict[str, Forecaster] = {}
    output = open_output(target, held=True)

    def begin() -> Forecaster:
        nonlocal output
        output.discard()
        output = open_output(target, held=True)
        output.open()
        found.clear()
        state["now"] = Forecaster(patterns, tables, at_least)
        return state["now"]

    def take() -> None:
        table = state["now"].take()
        if table is not None and table.num_rows:
            output.write(table)
            found.update(dict(_counted(table)))

    try:
        summary = watch_files(patterns, paths, begin, take, since_s, until_s)
        if not found and (schema := state["now"].schema) is not None:
            output.write(schema.empty_table())
        output.commit()
    finally:
        output.discard()
    summary.forecasts, summary.out = found, None if target.path is None else str(target.path)
    return summary


def evaluate_files(
    patterns: CompiledPatterns,
    paths: Paths,
    horizons: Sequence[tuple[str, Horizon, float]],
    page: Path,
    *,
    since_s: Fraction | None = None,
    until_s: Fraction | None = None,
) -> tuple[list[Evaluation], list[str]]:
    """Scores of each (pattern, horizon, confidence) in both splits, and why some have none; writes the page, and
    JSON beside it."""
    for automaton in automata_of(patterns):
        if automaton.plan is not None:
            raise UsageError(
                f"`{automaton.name}` is for each place, and an evaluation tries the words of entities",
                hint='evaluate it for one place: `distance(port["NAME"])` in place of `distance(p)`',
            )
    collectors: list[TrialCollector] = []

    def begin() -> TrialCollector:
        collectors[:] = [TrialCollector(patterns, automata_of(patterns))]
        return collectors[0]

    watch_files(patterns, paths, begin, lambda: None, since_s, until_s)
    trials = {own.automaton.name: own for own in collectors[0].trials()}
    if not trials:
        raise UsageError("there is nothing to evaluate: there are no events", hint="look at --data and --since")
    made: list[Evaluation] = []
    failures: list[str] = []
    for name, horizon, confidence in horizons:
        for split in get_args(Split):
            result = evaluate(trials[name], horizon, confidence, split)
            if isinstance(result, str):
                failures.append(f"{name}, split by {split}: no scores, {result}")
            else:
                made.append(result)
    write_whole(page, render_page(made, failures).encode())
    told = {"evaluations": [one.to_json() for one in made], "failures": failures}
    write_whole(page.with_suffix(".json"), (json.dumps(told, ensure_ascii=False, indent=1) + "\n").encode())
    return made, failures


def _counted(table: pa.Table) -> list[tuple[str, int]]:
    counts = table.column("pattern").value_counts()
    return [(one["values"].as_py(), one["counts"].as_py()) for one in counts]


def require_one_stream(patterns: CompiledPatterns) -> None:
    """Raises UsageError where a file has several streams."""
    if len(patterns.meaning.streams) > 1:
        raise UsageError(
            f"this file has {len(patterns.meaning.streams)} streams, and forecasts are of the patterns of one",
            hint="put the patterns and their stream into a file of their own",
        )


def watch_files(
    patterns: CompiledPatterns,
    paths: Paths,
    begin: Callable[[], Watcher],
    take: Callable[[], None],
    since_s: Fraction | None,
    until_s: Fraction | None,
) -> ForecastSummary:
    """Feeds the events of the paths to a watcher, in order; `begin` makes one for each attempt, and `take` is called
    after each batch."""
    require_one_stream(patterns)
    by_stream = paths_by_stream(patterns, paths)
    sources = Sources(
        patterns, by_stream, since_s=since_s, until_s=until_s, threads=1, before=lambda _: None, on_progress=None
    )
    try:
        return _attempt(patterns, sources, begin(), take, sorted_on_disk=False)
    except Disorder:
        return _attempt(patterns, sources, begin(), take, sorted_on_disk=True)


def _attempt(
    patterns: CompiledPatterns, sources: Sources, watcher: Watcher, take: Callable[[], None], sorted_on_disk: bool
) -> ForecastSummary:
    ((name, part),) = patterns.by_stream.items()
    in_order = sources.in_order
    recogniser = EntityRecogniser(part.single, order="sorted" if in_order else "arrival", needs=part.needs)
    recogniser.watcher = watcher
    recogniser.bind(sources.readers[name].schema)
    aside = Aside(None, DEFAULT_LIMIT)
    events = sources.batches(aside, lambda: name, in_order if sorted_on_disk else ())
    try:
        for _, batch in events:
            recogniser.feed(batch)
            take()
            for reason, rows in recogniser.aside:
                aside.add_rows(reason, values_of_rows(rows))
            recogniser.aside.clear()
    finally:
        events.close()  # type: ignore[attr-defined]
    recogniser.finish()
    take()
    aside.settle()
    counts = recogniser.counts
    return ForecastSummary(counts.events, counts.entities, counts.late, aside.n_bad)
