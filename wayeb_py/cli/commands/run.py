"""`wayeb run`: pattern files and events in, a finished run and its detections out, in this process or on Spark."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wayeb_py.cli.event_files import read_data, read_lateness, time_unit_of
from wayeb_py.cli.exit_codes import explained, misuse
from wayeb_py.cli.option_groups import grouped
from wayeb_py.cli.option_values import read_bad_limit, read_instant
from wayeb_py.cli.options import (
    AsJson,
    ChosenPatterns,
    CleanBy,
    Episodes,
    ForcedPlans,
    Longest,
    MaxBad,
    PatternFiles,
    Quiet,
    Since,
    Strict,
    Until,
)
from wayeb_py.cli.pattern_options import PatternOptionsWithPlaces, select_patterns, show_warnings
from wayeb_py.cli.spark_options import (
    By,
    Engine,
    EngineChoice,
    Master,
    SparkScheme,
    choose_engine,
    read_spark_options,
    run_on_spark,
)
from wayeb_py.errors import visible
from wayeb_py.run import startup

if TYPE_CHECKING:
    from wayeb_py.patterns import Patterns


@grouped
@explained(skipping="\n  = hint: --skip-missing leaves out the patterns whose columns are missing, and names them")
def run_patterns(
    files: PatternFiles,
    out: Annotated[
        str,
        typer.Option(
            "--out",
            metavar="PATH",
            help="Detections: .parquet, .csv, .ndjson, .geojson, .kml, a folder (Parquet), an address of a store, "
            "delta:TABLE, iceberg:TABLE, or - (NDJSON).",
        ),
    ],
    *,
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            metavar="[STREAM=]PATH...",
            help="Events: Parquet, Arrow, CSV or NDJSON files, folders, globs, addresses of stores, delta:TABLE, "
            "iceberg:TABLE; - is NDJSON on standard input. "
            "Of a file with several streams each path has its stream's name before it; rules over facts need none.",
        ),
    ] = None,
    map_page: Annotated[
        Path | None, typer.Option("--map", metavar="FILE.html", help="Draw what was found on a map as well.")
    ] = None,
    engine: EngineChoice = Engine.AUTO,
    master: Master = None,
    scheme: SparkScheme = None,
    by: By = None,
    episodes: Episodes = False,
    longest: Longest = False,
    lateness: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[STREAM=]DURATION",
            help="Take events as they arrive, at most so late (10min); without it files are put in order.",
        ),
    ] = None,
    since: Since = None,
    until: Until = None,
    clean: CleanBy = None,
    state: Annotated[
        str | None, typer.Option(metavar="DIR", help="Go on where the last run with this folder ended.")
    ] = None,
    final: Annotated[bool, typer.Option("--final", help="With --state: close what is still open.")] = False,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Threads, or tasks at a time; by default one a core.")
    ] = None,
    max_bad: MaxBad = None,
    aside: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Side file for bad rows and late events (default: beside --out)."),
    ] = None,
    csv_safe: Annotated[
        bool,
        typer.Option("--csv-safe", help="In CSV, put a ' before texts that a spreadsheet would take for formulas."),
    ] = False,
    compiling: PatternOptionsWithPlaces,
    pattern: ChosenPatterns = None,
    plan: ForcedPlans = None,
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave out patterns whose columns the events lack, and name them.")
    ] = False,
    strict: Strict = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Recognise patterns in events and write their detections."""
    on_spark = read_spark_options(master, scheme, by)
    if final and state is None:
        misuse("--final closes what --state keeps open: it needs --state")
    lateness_s, limit = read_lateness(lateness), read_bad_limit(max_bad)
    patterns = compiling.compile(
        files, longest=longest, lateness_s=lateness_s, clean=None if clean is None else clean.value
    )
    patterns = select_patterns(patterns, pattern)
    plans = read_forced(patterns, plan)
    paths = read_data(patterns, data or [])
    data = [path for own in paths.values() for path in own]
    if map_page is not None:
        from wayeb_py.cli.commands.map import refuse_to_draw  # for start-up time

        refuse_to_draw(patterns, data, out)
    chosen, why = choose_engine(engine, on_spark, data, state)
    late = [part.stream.lateness_s is not None for part in patterns.by_stream.values()]
    show_warnings(patterns, strict, in_order=not any(late) and "-" not in data)
    startup.spare_pandas()
    startup.spare_cffi()
    left_out: dict[str, tuple[str, ...]] = {}
    if skip_missing:
        patterns, left_out = leave_out(patterns, paths)
        paths = {name: paths[name] for name in patterns.by_stream}
    unit = time_unit_of(patterns)
    since_s, until_s = read_instant(since, unit), read_instant(until, unit)
    is_selected = since_s is not None or until_s is not None
    from wayeb_py.run import progress, runner

    shared: Any = {"episodes": episodes, "since_s": since_s, "until_s": until_s, "max_bad": limit, "aside": aside}
    shared["csv_safe"] = csv_safe
    with progress.shown(visible=not quiet and sys.stderr.isatty()) as shared["on_progress"]:
        if chosen == Engine.SPARK:
            tell = None if quiet else partial(print, file=sys.stderr)
            summary = run_on_spark(
                patterns, paths, out, on_spark, workers=workers, why=why, on_plan=tell, plans=plans, **shared
            )
        else:
            summary = runner.run(
                patterns, paths, out, state_dir=state, final=final, workers=workers or usable_cores(), plans=plans,
                **shared,
            )  # fmt: skip
            summary.engine = f"local: {why}"
    summary.left_out = left_out
    if map_page is not None:
        from wayeb_py.cli.commands.map import draw_run  # for start-up time

        draw_run(patterns, data, summary.out, map_page, since_s, until_s)
    if as_json:
        stream = sys.stderr if out == "-" else sys.stdout
        print(json.dumps(summary.to_json(), ensure_ascii=False, indent=2), file=stream)
    elif not quiet:
        print(progress.render_summary(summary, is_selected), file=sys.stderr)
    elif summary.read_nothing:
        print(f"warning: no events: {progress.why_nothing(is_selected)}", file=sys.stderr)
    for warning in summary.warnings:
        print(f"warning: {visible(str(warning))}", file=sys.stderr)


def read_forced(patterns: Patterns, texts: list[str] | None) -> dict[str, str]:
    """The plans of `--plan` by the names of rules."""
    if not texts:
        return {}
    from wayeb_py.explained_plans.plans import read_plans  # for start-up time: most runs have no rules

    return read_plans(texts, [rule.name for rule in patterns.meaning.rules])


def leave_out(patterns: Patterns, paths: dict[str, list[str]]) -> tuple[Patterns, dict[str, tuple[str, ...]]]:
    """The patterns that `--skip-missing` keeps, and the columns that the others lack."""
    from wayeb_py.run.skipped_patterns import columns_of, leave_out_missing

    if any("-" in own for own in paths.values()):
        misuse("--skip-missing looks at the columns before the run, which standard input does not allow")
    return leave_out_missing(patterns, {name: columns_of(own) for name, own in paths.items()})


def usable_cores() -> int:
    """The cores that this process may use, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
