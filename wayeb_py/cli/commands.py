"""The command `wayeb`: arguments become calls, errors become messages, outcomes become exit codes.

    0 done    1 the patterns are at fault (errors, failing tests, warnings with --strict, files that `fmt --check` would
    change)    2 the command line is    3 the data is    4 a limit was reached    75 a fault that may pass by itself
    130 interrupted    143 terminated

Messages go to standard error, results to standard output. Everything heavy is imported by the command that needs it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from wayeb_py.cli import bench, data, replay, ship, spark, stream, view
from wayeb_py.cli.options import (
    LIMIT_FAULT,
    PATTERN_FAULT,
    AsJson,
    Chosen,
    CleanOption,
    CsvSafe,
    Functions,
    Key,
    Outside,
    Places,
    Quiet,
    SkipMissing,
    Strict,
    Time,
    TimeUnit,
    compile_files,
    explained,
    leave_out,
    load_functions,
    misuse,
    places_by_file,
    select_patterns,
    show_warnings,
)
from wayeb_py.errors import DataError, Diagnostic, LimitError, PatternError, visible
from wayeb_py.run import startup


class Form(StrEnum):
    """How an automaton is shown."""

    TABLE = "table"
    DOT = "dot"
    MERMAID = "mermaid"


app = typer.Typer(
    name="wayeb",
    help="Recognises patterns, written as symbolic regular expressions, in streams of moving things.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

PatternFiles = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Pattern files (.sre).")]
PatternFolders = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...",
        help="Pattern files, each by itself; a folder means all .sre below it, what they include with them.",
    ),
]


def main() -> None:
    """The entry point of the command."""
    signal.signal(signal.SIGTERM, _end_in_order)
    app(args=spread_values(sys.argv[1:]))


def spread_values(words: list[str]) -> list[str]:
    """Lets `--data` take several paths, as a shell makes them of a glob: each gets a `--data` of its own.

    They end at the next option, or at a pattern file, which is known by its extension. The names of a `--pattern`
    end at what is no name, and the files of a `--places` at what has no `=`.
    """
    belongs = {"--data": lambda word: not word.endswith(".sre"), "--places": lambda word: "=" in word}
    if words[:1] in (["run"], ["stream"]):  # the other commands take one
        belongs["--pattern"] = str.isidentifier
    spread: list[str] = []
    option = ""  # whose values follow
    for before, word in zip(["", *words], words, strict=False):
        if word.startswith("-") and word != "-":
            option = word.partition("=")[0]
            option = option if option in belongs else ""
        elif option and before != option:
            if belongs[option](word):
                spread.append(option)
            else:
                option = ""
        spread.append(word)
    return spread


def _end_in_order(number: int, frame: object) -> NoReturn:
    """Lets a terminated run clean up after itself, as an interrupted one does."""
    raise SystemExit(128 + number)


def _show_version(wanted: bool) -> None:
    if wanted:
        from wayeb_py import __version__

        print(__version__)
        raise SystemExit(0)


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and end.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """What all commands share."""


@app.command()
@explained()
def check(
    files: PatternFolders,
    key: Key = None,
    time: Time = None,
    time_unit: TimeUnit = None,
    functions: Functions = None,
    places: Places = None,
    outside: Outside = False,
    strict: Strict = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Report everything that is wrong with pattern files; nothing is run."""
    from wayeb_py.cli.pattern_files import find_whole_files
    from wayeb_py.spatial.review import review_places

    found: list[Diagnostic] = []
    limits: list[LimitError] = []
    n_patterns = 0
    paths = find_whole_files(files)
    given = load_functions(functions)
    for path, its_places in zip(paths, places_by_file(paths, places), strict=True):
        try:
            patterns = compile_files([path], key, time, time_unit, given, its_places, outside=outside)
        except PatternError as error:
            found += error.diagnostics
        except LimitError as error:
            limits.append(error)
        else:
            found += [*patterns.warnings, *review_places(patterns)]
            n_patterns += len(patterns.names)
    n_errors = sum(diagnostic.severity == "error" for diagnostic in found)
    if as_json:
        print(json.dumps([_as_json(diagnostic) for diagnostic in found], ensure_ascii=False, indent=2))
    elif found:
        print("\n\n".join(diagnostic.render() for diagnostic in found), file=sys.stderr)
    for limit in limits:
        print(limit, file=sys.stderr)
    if n_errors or (strict and found):
        raise SystemExit(PATTERN_FAULT)
    if limits:
        raise SystemExit(LIMIT_FAULT)
    if not quiet and not as_json:
        print(f"{_count(n_patterns, 'pattern')} in {_count(len(paths), 'file')}: no errors{_warnings(len(found))}")


@app.command()
@explained()
def explain(
    files: PatternFiles,
    pattern: Annotated[str | None, typer.Option(metavar="NAME", help="Only this pattern.")] = None,
    form: Annotated[Form, typer.Option("--form", help="A readable table, or a picture's source.")] = Form.TABLE,
    key: Key = None,
    time: Time = None,
    time_unit: TimeUnit = None,
    functions: Functions = None,
    places: Places = None,
    outside: Outside = False,
    longest: Annotated[bool, typer.Option("--longest", help="As it is run for the longest matches.")] = False,
) -> None:
    """Show what patterns are compiled to: predicates, minterms, states, cost."""
    given = load_functions(functions)
    patterns = compile_files(files, key, time, time_unit, given, places, outside=outside, longest=longest)
    select_patterns(patterns, None if pattern is None else [pattern])
    from wayeb_py.compiler.explain import explain as explain_patterns

    print(explain_patterns(patterns, pattern=pattern, form=form.value))


@app.command()
@explained(skipping="\n  = hint: --skip-missing leaves out the patterns whose columns are missing, and names them")
def run(
    files: PatternFiles,
    data: Annotated[
        list[str],
        typer.Option(
            "--data",
            metavar="PATH...",
            help="Events: Parquet, Arrow, CSV or NDJSON files, folders, globs; - is NDJSON on standard input.",
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            "--out",
            metavar="PATH",
            help="Detections: .parquet, .csv, .ndjson, .geojson, .kml, a folder (Parquet), or - (NDJSON).",
        ),
    ],
    map_page: Annotated[
        Path | None, typer.Option("--map", metavar="FILE.html", help="Draw what was found on a map as well.")
    ] = None,
    engine: spark.EngineOption = spark.Engine.AUTO,
    master: spark.MasterOption = None,
    scheme: spark.SchemeOption = None,
    by: spark.ByOption = None,
    episodes: Annotated[bool, typer.Option("--episodes", help="Write episodes instead of single detections.")] = False,
    longest: Annotated[bool, typer.Option("--longest", help="Starts of the longest matches.")] = False,
    lateness: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Take events as they arrive, at most so late (10min); without it files are put in order.",
        ),
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Only events from this time on.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Only events before this time.")] = None,
    clean: CleanOption = None,
    state: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Go on where the last run with this folder ended.")
    ] = None,
    final: Annotated[bool, typer.Option("--final", help="With --state: close what is still open.")] = False,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Threads, or tasks at a time; by default one a core.")
    ] = None,
    max_bad: Annotated[
        str | None,
        typer.Option(
            "--max-bad",
            metavar="N|N%",
            help="Stop at more bad rows than this (default: the greater of 1000 and 1%, and half of all at the end).",
        ),
    ] = None,
    aside: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Side file for bad rows and late events (default: beside --out)."),
    ] = None,
    csv_safe: CsvSafe = False,
    key: Key = None,
    time: Time = None,
    time_unit: TimeUnit = None,
    functions: Functions = None,
    pattern: Chosen = None,
    skip_missing: SkipMissing = False,
    places: Places = None,
    outside: Outside = False,
    strict: Strict = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Recognise patterns in events and write their detections."""
    from wayeb_py.arguments import read_bad_limit, read_duration_s, read_instant_s

    on_spark = spark.read_options(master, scheme, by)
    if map_page is not None:
        view.refuse_to_draw(data, out)
    if final and state is None:
        misuse("--final closes what --state keeps open: it needs --state")
    chosen, why = spark.choose_engine(engine, on_spark, data, state)
    try:
        lateness_s = None if lateness is None else read_duration_s(lateness)
        limit = None if max_bad is None else read_bad_limit(max_bad)
    except ValueError as error:
        misuse(str(error))
    given = load_functions(functions)
    patterns = compile_files(
        files,
        key,
        time,
        time_unit,
        given,
        places,
        outside=outside,
        longest=longest,
        lateness_s=lateness_s,
        clean=None if clean is None else clean.value,
    )
    patterns = select_patterns(patterns, pattern)
    show_warnings(patterns, strict)
    startup.spare_pandas()
    left_out: dict[str, tuple[str, ...]] = {}
    if skip_missing:
        patterns, left_out = leave_out(patterns, data)
    try:
        unit = patterns.meaning.stream.time_unit
        since_s = None if since is None else read_instant_s(since, unit)
        until_s = None if until is None else read_instant_s(until, unit)
    except ValueError as error:
        misuse(str(error))
    from wayeb_py.run import progress, runner

    shared: Any = {"episodes": episodes, "since_s": since_s, "until_s": until_s, "max_bad": limit, "aside": aside}
    shared["csv_safe"] = csv_safe
    with progress.shown(visible=not quiet and sys.stderr.isatty()) as shared["on_progress"]:
        if chosen == spark.Engine.SPARK:
            tell = None if quiet else partial(print, file=sys.stderr)
            summary = spark.run_on_spark(
                patterns, data, out, on_spark, workers=workers, why=why, on_plan=tell, **shared
            )
        else:
            summary = runner.run(
                patterns, data, out, state_dir=state, final=final, workers=workers or _n_cores(), **shared
            )
            summary.engine = f"local: {why}"
    summary.left_out = left_out
    if map_page is not None:
        view.draw_run(patterns, data, summary.out, map_page, since_s, until_s)
    if as_json:
        stream = sys.stderr if out == "-" else sys.stdout
        print(json.dumps(summary.to_json(), ensure_ascii=False, indent=2), file=stream)
    elif not quiet:
        print(progress.render_summary(summary), file=sys.stderr)
    for warning in summary.warnings:
        print(f"warning: {visible(str(warning))}", file=sys.stderr)


@app.command("test")
@explained()
def run_tests(
    files: PatternFolders,
    key: Key = None,
    time: Time = None,
    time_unit: TimeUnit = None,
    functions: Functions = None,
    outside: Outside = False,
    strict: Strict = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run the examples that pattern files carry with themselves."""
    from wayeb_py.cli.pattern_files import find_whole_files
    from wayeb_py.run.examples import run_examples

    faults: list[Diagnostic] = []
    n_examples = 0
    given = load_functions(functions)
    startup.spare_pandas()
    for path in find_whole_files(files):
        patterns = compile_files([path], key, time, time_unit, given, None, outside=outside)
        show_warnings(patterns, strict)
        for outcome in run_examples(patterns):
            n_examples += 1
            if outcome.fault is not None:
                faults.append(outcome.fault)
    if as_json:
        report = {"examples": n_examples, "failed": [_as_json(fault) for fault in faults]}
        print(json.dumps(report, ensure_ascii=False, indent=2))
    elif faults:
        print("\n\n".join(fault.render() for fault in faults), file=sys.stderr)
    if not quiet and not as_json:
        print(f"{_count(n_examples, 'example')}, {len(faults)} failed")
    if faults:
        raise SystemExit(PATTERN_FAULT)


@app.command()
@explained()
def fmt(
    files: PatternFolders,
    only_check: Annotated[bool, typer.Option("--check", help="Change nothing; tell which files would change.")] = False,
    quiet: Quiet = False,
) -> None:
    """Lay out pattern files in the usual way; comments are kept."""
    from wayeb_py.cli.pattern_files import find_files
    from wayeb_py.dsl import format_text

    n_changed = 0
    for path in find_files(files):
        text = _read(path)
        with _naming(path):
            laid_out = format_text(text)
        if laid_out == text:
            continue
        n_changed += 1
        if not only_check:
            _replace(path, laid_out)
        if not quiet:
            print(f"{'would change' if only_check else 'changed'} {path}")
    if only_check and n_changed:
        raise SystemExit(PATTERN_FAULT)


@app.command()
@explained()
def convert(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file in the older prefix form.")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Where to write; standard output without it.")
    ] = None,
) -> None:
    """Rewrite a file of the older prefix form in this language."""
    from wayeb_py.dsl import convert_prefix

    text = _read(file)
    with _naming(file):
        converted = convert_prefix(text)
    if out is None:
        print(converted, end="" if converted.endswith("\n") else "\n")
    else:
        _replace(out, converted)


# What the commands share.
app.add_typer(data.app)
app.command("bench", context_settings=bench.HANDED_OVER)(bench.bench)
app.command("ship")(ship.ship)
app.command("map")(view.draw_map)
app.command("why")(view.explain_why)
app.command("stream")(stream.run_stream)
app.command("replay")(replay.replay_events)


def _read(path: Path) -> str:
    from wayeb_py.dsl.reader import read_text

    return read_text(path)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Puts the file's name into messages about a text that was read from it."""
    import dataclasses

    def named(diagnostic: Diagnostic) -> Diagnostic:
        source = dataclasses.replace(diagnostic.source, name=str(path))
        return dataclasses.replace(diagnostic, source=source)

    try:
        yield
    except PatternError as error:
        raise PatternError(map(named, error.diagnostics)) from None


def _replace(path: Path, text: str) -> None:
    """Writes a text file whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8", newline="")
        if path.exists():
            os.chmod(temporary, path.stat().st_mode & 0o777)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise DataError(f"cannot be written: {error.strerror}", str(path)) from error


def _as_json(diagnostic: Diagnostic) -> dict[str, Any]:
    line, column = diagnostic.source.line_and_column(diagnostic.span.start)
    return {
        "severity": diagnostic.severity,
        "file": diagnostic.source.name,
        "line": line,
        "column": column,
        "message": diagnostic.message,
        "label": diagnostic.label,
        "hint": diagnostic.hint,
    }


def _n_cores() -> int:
    """The cores that this process may use, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _warnings(number: int) -> str:
    return "" if number == 0 else f", {_count(number, 'warning')}"


if __name__ == "__main__":
    main()
