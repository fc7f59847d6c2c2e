"""`wayeb forecast`: pattern files, models and events in, at each event what comes next out."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wayeb_py.cli.event_files import read_data
from wayeb_py.cli.exit_codes import explained, misuse
from wayeb_py.cli.option_groups import grouped
from wayeb_py.cli.option_values import read_duration, read_instant
from wayeb_py.cli.options import AsJson, ChosenPatterns, CleanBy, EventFiles, PatternFiles, Quiet, Since, Until
from wayeb_py.cli.pattern_options import PatternOptionsWithPlaces, select_patterns
from wayeb_py.run import startup

if TYPE_CHECKING:
    from wayeb_py.forecast.tables import Horizon

_EVENTS = re.compile(r"\s*(\d+)\s*events?\s*")
MOST_EVENTS = 10_000


@grouped
@explained()
def forecast_patterns(
    files: PatternFiles,
    data: EventFiles,
    model: Annotated[Path, typer.Option("--model", metavar="DIR", help="The folder that `wayeb learn` wrote.")],
    *,
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
    since: Since = None,
    until: Until = None,
    clean: CleanBy = None,
    compiling: PatternOptionsWithPlaces,
    pattern: ChosenPatterns = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Say at each event how likely each pattern is detected soon, and when."""
    theta = read_confidence(confidence)
    ahead = read_horizon(horizon)
    patterns = select_patterns(compiling.compile(files, clean=None if clean is None else clean.value), pattern)
    if ahead is None:
        misuse("nothing says how far to look: add --horizon 30min, or --horizon '10 events'")
    paths = [path for own in read_data(patterns, data).values() for path in own]
    startup.spare_pandas()
    from wayeb_py.run.forecasts import forecast, load_tables

    unit = patterns.meaning.stream.time_unit
    tables = load_tables(patterns, model, [(name, ahead, theta) for name in patterns.names])
    summary = forecast(
        patterns, tables, paths, out, at_least=at_least, since_s=read_instant(since, unit),
        until_s=read_instant(until, unit),
    )  # fmt: skip
    if as_json:
        told = {"events": summary.events, "entities": summary.entities, "forecasts": dict(summary.forecasts)}
        print(json.dumps(told, ensure_ascii=False, indent=2), file=sys.stderr if out == "-" else sys.stdout)
    elif not quiet:
        made = ", ".join(f"{n:,} of {name}" for name, n in sorted(summary.forecasts.items())) or "none"
        print(f"{summary.events:,} events of {summary.entities:,} entities; forecasts: {made}", file=sys.stderr)


def read_confidence(given: float | None) -> float:
    """A share of the wait: above 0, below 1."""
    if given is None:
        return 0.7
    if not 0 < given < 1:
        misuse(f"--confidence {given:g} is no share of the wait: write a number between 0 and 1, such as 0.7")
    return given


def read_horizon(text: str | None) -> Horizon | None:
    """`30min` or `10 events`."""
    if text is None:
        return None
    from wayeb_py.forecast.tables import Horizon

    if match := _EVENTS.fullmatch(text):
        if not 0 < int(match[1]) <= MOST_EVENTS:
            misuse(f"--horizon {text}: a forecast looks at 1 to {MOST_EVENTS:,} events")
        return Horizon(events=int(match[1]), text=f"{match[1]} events")
    seconds = read_duration(text, "--horizon")
    assert seconds is not None
    if not seconds:
        misuse("--horizon 0 leaves nothing to look at")
    return Horizon(seconds=seconds, text=text.strip())
