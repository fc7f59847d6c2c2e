"""Patterns and paths become models, and models and paths become a file of forecasts, on one machine.

Files are read as `runner` reads them: as they come, and sorted on disk where that is not the order of time.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, get_args

import pyarrow as pa

from wayeb_py.engine.arrival.tie_order import Disorder
from wayeb_py.engine.entity_recogniser import Aside, EntityRecogniser
from wayeb_py.engine.recogniser import Order, Recogniser
from wayeb_py.engine.watcher import PairWatcher, Watcher
from wayeb_py.errors import UsageError
from wayeb_py.files.formats.block import values_of_rows
from wayeb_py.files.output.set_aside import DEFAULT_LIMIT
from wayeb_py.files.output.set_aside import Aside as SetAside
from wayeb_py.files.output.whole_file import write_whole
from wayeb_py.files.output.write import find_output_file, open_output
from wayeb_py.forecast.automaton import DetectingAutomaton, detecting_automaton
from wayeb_py.forecast.evaluation.evaluate import Evaluation, Split, evaluate
from wayeb_py.forecast.evaluation.page import render_page
from wayeb_py.forecast.evaluation.trials import TrialCollector
from wayeb_py.forecast.learn import Learner, PairLearner
from wayeb_py.forecast.model import Model, fit, load_model, save_model
from wayeb_py.forecast.operator import ForecastOperator
from wayeb_py.forecast.tables import ForecastTables, Horizon, make_tables, reading_also, without_rules
from wayeb_py.forecast.words.pair_words import pairs_of
from wayeb_py.run.sources import Paths, Sources, paths_by_stream, refuse_own_input
from wayeb_py.tally import Tally

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns
    from wayeb_py.engine.pairs.operator import PairOperator
    from wayeb_py.forecast.evaluation.pair_trials import PairTrialCollector


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
    paths: Paths | Mapping[str, Paths],
    out: str | os.PathLike[str],
    *,
    order: int | None = None,
    by: str | None = None,
    since_s: Fraction | None = None,
    until_s: Fraction | None = None,
) -> tuple[list[Model], ForecastSummary]:
    """Learns a model of each pattern from the events of the paths, and writes them into the folder `out`.

    Where the file has several streams, `paths` maps their names to paths.
    """
    automata = automata_of(patterns)
    if by is not None:
        refuse_classes(patterns, by)
    patterns = reading_also(patterns, by)
    learners: list[Learner | PairLearner] = []
    learnt: list[DetectingAutomaton] = []

    def begin(orders: Orders) -> Recogniser:
        learners.clear()
        learnt.clear()

        def of_stream(own: CompiledPatterns) -> Watcher:
            learnt.extend(chosen := [one for one in automata if one.name in own.names])
            learners.append(learner := Learner(own, chosen, order, by))
            return learner

        def of_pairs(operator: PairOperator) -> PairWatcher:
            learnt.extend(chosen := [one for one in automata if one.pair is not None])
            learners.append(learner := PairLearner(operator, chosen, order))
            return learner

        return watched(patterns, orders, of_stream, of_pairs)

    summary = watch_files(patterns, paths, begin, lambda _: None, since_s, until_s)
    if not summary.events:
        raise UsageError("there is nothing to learn from: the history has no events", hint="look at --data and --since")
    counted = [own for learner in learners for own in learner.counts()]
    counts_of = {automaton.name: own for automaton, own in zip(learnt, counted, strict=True)}
    models = [fit(automaton, counts_of[automaton.name], by) for automaton in automata]
    for model in models:
        save_model(model, Path(out))
    summary.out = os.fspath(out)
    return models, summary


def refuse_classes(patterns: CompiledPatterns, by: str) -> None:
    """Raises UsageError where a class of events does not say which of two entities, or streams, it is about."""
    pairs = [pattern.name for pattern in patterns.meaning.patterns[: patterns.n_reported] if pattern.pair is not None]
    if pairs or len(patterns.meaning.streams) > 1:
        raise UsageError(
            f"`{by}` of which of the two? `{pairs[0]}` is over pairs, and a class is that of one entity"
            if pairs
            else f"`{by}` of which stream? A class is that of the entities of one, and this file has several",
            hint="learn without --by, or choose other patterns with --pattern",
        )


def load_tables(
    patterns: CompiledPatterns, folder: str | os.PathLike[str], horizons: Sequence[tuple[str, Horizon, float]]
) -> list[ForecastTables]:
    """The tables of each (pattern, horizon, confidence), from the models in a folder."""
    models = {automaton.name: load_model(automaton, Path(folder)) for automaton in automata_of(patterns)}
    return [make_tables(models[name], horizon, confidence) for name, horizon, confidence in horizons]


def forecast(
    patterns: CompiledPatterns,
    tables: Sequence[ForecastTables],
    paths: Paths | Mapping[str, Paths],
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
    for own in paths_by_stream(patterns, paths).values():
        refuse_own_input(target, own)
    found: Counter[str] = Counter()
    output = open_output(target, held=True)
    schema: list[pa.Schema] = []

    def begin(orders: Orders) -> ForecastOperator:
        nonlocal output
        output.discard()
        output = open_output(target, held=True)
        output.open()
        found.clear()
        return ForecastOperator(patterns, tables, at_least=at_least, order=orders)

    def take(table: pa.Table) -> None:
        schema[:] = [table.schema]
        if table.num_rows:
            output.write(table)
            found.update(dict(_counted(table)))

    try:
        summary = watch_files(patterns, paths, begin, take, since_s, until_s)
        if not found and schema:
            output.write(schema[0].empty_table())
        output.commit()
    finally:
        output.discard()
    summary.forecasts, summary.out = found, None if target.path is None else str(target.path)
    return summary


def evaluate_files(
    patterns: CompiledPatterns,
    paths: Paths | Mapping[str, Paths],
    horizons: Sequence[tuple[str, Horizon, float]],
    page: Path,
    *,
    since_s: Fraction | None = None,
    until_s: Fraction | None = None,
) -> tuple[list[Evaluation], list[str]]:
    """Scores of each (pattern, horizon, confidence) in both splits, and why some have none; writes the page, and
    JSON beside it."""
    automata = automata_of(patterns)
    collectors: list[TrialCollector | PairTrialCollector] = []

    def begin(orders: Orders) -> Recogniser:
        collectors.clear()

        def of_stream(own: CompiledPatterns) -> Watcher:
            collectors.append(made := TrialCollector(own, [one for one in automata if one.name in own.names]))
            return made

        def of_pairs(operator: PairOperator) -> PairWatcher:
            from wayeb_py.forecast.evaluation.pair_trials import PairTrialCollector  # for start-up time

            own = [one for one in automata if one.pair is not None]
            collectors.append(made := PairTrialCollector(operator, own))
            return made

        return watched(patterns, orders, of_stream, of_pairs)

    watch_files(patterns, paths, begin, lambda _: None, since_s, until_s)
    trials = {own.automaton.name: own for collector in collectors for own in collector.trials()}
    if not trials:
        raise UsageError("there is nothing to evaluate: there are no events", hint="look at --data and --since")
    made: list[Evaluation] = []
    failures: list[str] = []
    for name, horizon, confidence in horizons:
        for split in get_args(Split):
            result: Evaluation | str = "nothing was ever near enough"
            if name in trials:
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


Orders = dict[str, Order]


def watched(
    patterns: CompiledPatterns,
    orders: Orders,
    of_stream: Callable[[CompiledPatterns], Watcher],
    of_pairs: Callable[[PairOperator], PairWatcher],
) -> Recogniser:
    """A recogniser whose patterns of single entities, and those over pairs, are each watched."""
    recogniser = Recogniser(without_rules(patterns), order=orders)
    for name, part in recogniser.patterns.by_stream.items():
        operator = recogniser.of(name)
        if part.single.names:
            assert isinstance(operator, EntityRecogniser)
            operator.watcher = of_stream(part.single)
    operator_of_pairs = pairs_of(recogniser)
    if operator_of_pairs is not None:
        operator_of_pairs.watcher = of_pairs(operator_of_pairs)
    return recogniser


def watch_files(
    patterns: CompiledPatterns,
    paths: Paths | Mapping[str, Paths],
    begin: Callable[[Orders], Reads],
    take: Callable[[Any], None],
    since_s: Fraction | None,
    until_s: Fraction | None,
) -> ForecastSummary:
    """Feeds the events of the paths to what `begin` makes for each attempt, in order; `take` gets what each batch
    gives."""
    sources = Sources(
        patterns, paths_by_stream(patterns, paths), since_s=since_s, until_s=until_s, threads=1,
        before=lambda _: None, on_progress=None,
    )  # fmt: skip
    in_order = sources.in_order
    orders: Orders = {name: "sorted" if name in in_order else "arrival" for name in sources.readers}
    try:
        return _attempt(sources, begin(orders), take, ())
    except Disorder:
        return _attempt(sources, begin(orders), take, in_order)


class Reads(Protocol):
    """Reads the batches of streams: a recogniser, or an operator of forecasts."""

    @property
    def aside(self) -> Aside: ...

    @property
    def counts(self) -> Tally: ...

    @property
    def behind(self) -> str: ...

    def bind(self, schema: pa.Schema, stream: str | None = None) -> Any: ...

    def feed(self, events: pa.RecordBatch, stream: str | None = None) -> Any: ...

    def finish(self) -> Any: ...


def _attempt(
    sources: Sources, reads: Reads, take: Callable[[Any], None], sorted_on_disk: Collection[str]
) -> ForecastSummary:
    for name, reader in sources.readers.items():
        reads.bind(reader.schema, name)
    aside = SetAside(None, DEFAULT_LIMIT)
    events = sources.batches(aside, lambda: reads.behind, sorted_on_disk)
    try:
        for name, batch in events:
            take(reads.feed(batch, name))
            for reason, rows in reads.aside:
                aside.add_rows(reason, values_of_rows(rows))
            reads.aside.clear()
    finally:
        events.close()  # type: ignore[attr-defined]
    take(reads.finish())
    aside.settle()
    counts = reads.counts
    return ForecastSummary(counts.events, counts.entities, counts.late, aside.n_bad)
