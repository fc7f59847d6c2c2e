"""`wayeb forecast`: pattern files, models and events in, at each event what comes next out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wayeb_py.cli.commands.forecasts.chosen_history import HistoryOptions
from wayeb_py.cli.event_files import read_data
from wayeb_py.cli.exit_codes import explained, misuse
from wayeb_py.cli.option_groups import grouped
from wayeb_py.cli.options import AsJson, PatternFiles, Quiet
from wayeb_py.cli.pattern_options import PatternOptionsWithPlaces
from wayeb_py.run import startup

if TYPE_CHECKING:
    from wayeb_py.forecast.evaluation.evaluate import Evaluation
    from wayeb_py.forecast.tables import Horizon
    from wayeb_py.patterns import Patterns



@grouped
@explained()
def forecast_patterns(
    files: PatternFiles,
    *,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", metavar="PATH...", help="The events: files, folders, globs, as for `wayeb run`."),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option("--source", metavar="SOURCE", help="In place of --data: events as they arrive, as for `stream`."),
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", metavar="DIR", help="With --source: keeps how far it got.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="With --source: all that is there, and no more.")] = False,
    model: Annotated[
        Path | None, typer.Option("--model", metavar="DIR", help="The folder that `wayeb learn` wrote.")
    ] = None,
    out: Annotated[
        str, typer.Option("--out", metavar="FILE", help="Where forecasts go: .parquet, .csv, .ndjson, or - for a pipe.")
    ] = "-",
    horizon: Annotated[
        str | None,
        typer.Option("--horizon", metavar="DURATION", help="How far to look: 30min, or 10 events."),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option("--confidence", metavar="P", help="How much of the wait an interval holds (default: 0.7)."),
    ] = None,
    at_least: Annotated[
        float, typer.Option("--at-least", metavar="P", min=0, max=1, help="Only forecasts with this probability.")
    ] = 0.0,
    evaluate: Annotated[
        Path | None,
        typer.Option(
            "--evaluate",
            metavar="FILE.html",
            help="Learn from a part of the events, try the rest, and write a page (and JSON) with scores.",
        ),
    ] = None,
    history: HistoryOptions,
    compiling: PatternOptionsWithPlaces,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Say at each event how likely each pattern is detected soon, and when."""
    theta = read_confidence(confidence)
    ahead = read_horizon(horizon)
    patterns = history.patterns(files, compiling)
    horizons = horizons_of(patterns, ahead, theta)
    if (data is None) == (source is None):
        misuse("say which events: --data PATH for files, --source SOURCE for what arrives")
    if source is not None and (evaluate is not None or history.since is not None or history.until is not None):
        misuse("--source is for forecasts as events arrive: leave --evaluate, --since and --until out")
    paths = read_data(patterns, data or []) if source is None else {}
    if (model is None) == (evaluate is None):
        misuse("say which: --model DIR makes forecasts, --evaluate FILE.html learns and tries them")
    startup.spare_pandas()
    from wayeb_py.run.forecasts import evaluate_files, forecast, load_tables

    period = history.period(patterns)
    if evaluate is not None:
        if evaluate.suffix != ".html":
            misuse(f"--evaluate {evaluate} is a page: end its name in .html")
        scored, failures = evaluate_files(patterns, paths, horizons, evaluate, **period)
        if as_json:
            print(json.dumps([one.to_json() for one in scored], ensure_ascii=False, indent=2))
        elif not quiet:
            print("\n".join([*(render(one) for one in scored), *failures, f"written to {evaluate}"]), file=sys.stderr)
        return
    assert model is not None
    tables = load_tables(patterns, model, horizons)
    if source is not None:
        from wayeb_py.cli.commands.forecasts.live import forecast_live

        n = forecast_live(patterns, tables, source, checkpoint, out, at_least=at_least, once=once, quiet=quiet)
        if not quiet:
            print(f"{n:,} forecasts", file=sys.stderr)
        return
    summary = forecast(patterns, tables, paths, out, at_least=at_least, **period)
    if as_json:
        told = {"events": summary.events, "entities": summary.entities, "forecasts": dict(summary.forecasts)}
        print(json.dumps(told, ensure_ascii=False, indent=2), file=sys.stderr if out == "-" else sys.stdout)
    elif not quiet:
        made = ", ".join(f"{n:,} of {name}" for name, n in sorted(summary.forecasts.items())) or "none"
        print(f"{summary.events:,} events of {summary.entities:,} entities; forecasts: {made}", file=sys.stderr)


def render(one: Evaluation) -> str:
    """The scores of one pattern and split, on a few lines."""
    scores = ", ".join(f"{name} {own.brier:.4f}" for name, own in one.by_method.items())
    called = one.by_method["forecast"]
    numbers = f"{one.n_tried:,} trials, {one.n_detected:,} detected, {one.n_censored:,} censored"
    told = [f"{one.pattern}, split by {one.split}: {numbers}", f"  Brier score: {scores}"]
    if called.precision is not None and called.recall is not None:
        told.append(f"  from 0.5 on: precision {called.precision:.3f}, recall {called.recall:.3f}")
    if one.intervals is not None:
        told.append(
            f"  {one.intervals.n:,} intervals: {one.intervals.held:.3f} held it, {one.intervals.spread:.4g} {one.unit} "
            f"long, {one.intervals.distance:.4g} {one.unit} ahead"
        )
    return "\n".join(told)


def horizons_of(patterns: Patterns, ahead: Horizon | None, theta: float | None) -> list[tuple[str, Horizon, float]]:
    """What is forecast: all patterns with the horizon of the command line, or what the files declare."""
    from wayeb_py.forecast.tables import USUAL_CONFIDENCE, Horizon

    if ahead is not None:
        return [(name, ahead, theta or USUAL_CONFIDENCE) for name in patterns.names]
    declared = [one for one in patterns.meaning.forecasts if one.pattern in patterns.names]
    if not declared:
        misuse(
            "nothing says how far to look: add --horizon 30min, or --horizon '10 events', or write "
            f"`forecast {patterns.names[0]} within 30 min` into the file"
        )
    return [
        (one.pattern, Horizon(one.horizon.seconds, one.horizon.events, one.text), theta or float(one.confidence))
        for one in declared
    ]


def read_confidence(given: float | None) -> float | None:
    """A share of the wait: above 0, below 1."""
    if given is None:
        return None
    if not 0 < given < 1:
        misuse(f"--confidence {given:g} is no share of the wait: write a number between 0 and 1, such as 0.7")
    return given


def read_horizon(text: str | None) -> Horizon | None:
    """`30min` or `10 events`."""
    if text is None:
        return None
    from wayeb_py.forecast.tables import Horizon

    try:
        return Horizon.parse(text)
    except ValueError as error:
        misuse(f"--horizon: {error}")
