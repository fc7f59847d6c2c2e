"""`wayeb stream`: arguments become a log, a sink and a checkpoint; signals become a graceful stop.

The command imports Spark, and all that needs it, after it has checked the patterns.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, ParamSpec

import typer

from wayeb_py.cli.event_files import read_lateness, read_named
from wayeb_py.cli.exit_codes import DATA_FAULT, PASSING_FAULT, explained, misuse
from wayeb_py.cli.option_groups import grouped
from wayeb_py.cli.option_values import read_bad_limit, read_duration, read_journal, read_shed, refuse_own_journal
from wayeb_py.cli.options import AsJson, ChosenPatterns, CleanBy, Episodes, Longest, PatternFiles, Quiet, Strict
from wayeb_py.cli.pattern_options import PatternOptionsWithPlaces, select_patterns, show_warnings
from wayeb_py.cli.spark_options import Engine, Master, Scheme
from wayeb_py.errors import visible
from wayeb_py.files.stores import Location, located
from wayeb_py.run import startup
from wayeb_py.tally import LATE_FOR_CLOCK
from wayeb_py.text_table import table

if TYPE_CHECKING:
    from collections.abc import Callable

    from wayeb_py.parallel.health.stream_summary import StreamSummary
    from wayeb_py.patterns import Patterns


TRIES = 4  # how often a task may run before the stream fails
MAX_ROWS = 2_000_000  # the most rows in a batch
LEVEL_NUMBERS = ("arrived", "done", "waiting", "shed", "replaced", "stale", "dropped")
P = ParamSpec("P")


class LogForm(StrEnum):
    """How a line of the log is written."""

    TEXT = "text"
    JSON = "json"


class Restart(StrEnum):
    """From where a checkpoint begins again."""

    BEGINNING = "beginning"
    NOW = "now"


def all_json(command: Callable[P, None]) -> Callable[P, None]:
    """Wraps a command: with `--log json` every line on standard error is JSON, also those of other libraries."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        if kwargs.get("log_form") is not LogForm.JSON:
            return command(*args, **kwargs)
        from wayeb_py.parallel.health.log_lines import only_json

        with only_json():
            return command(*args, **kwargs)

    return run


@grouped
@all_json
@explained()
def run_stream(
    files: PatternFiles,
    source: Annotated[
        list[str],
        typer.Option(
            metavar="SOURCE",
            help="A folder in which files appear, here or in a store, delta:PATH, iceberg:TABLE, "
            "kafka://HOST:PORT/TOPIC, replay:DATA, journal:DIR (what another stream received), python:FILE.py "
            "(your own), or what this process receives: - (standard input), tcp://HOST:PORT, unix:PATH, nmea+tcp://…, "
            "nmea+udp://…, mqtt://HOST/TOPIC; may be given several times. STREAM=SOURCE where the patterns read "
            "several streams.",
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            metavar="OUT",
            help="A folder for Parquet files, kafka://HOST:PORT/TOPIC, delta:PATH, iceberg:TABLE, - (NDJSON), "
            "python:FILE.py (your own), tcp://HOST:PORT, sse://HOST:PORT/PATH, webhook:URL, or mqtt://HOST/TOPIC.",
        ),
    ],
    checkpoint: Annotated[
        str, typer.Option(metavar="DIR", help="Where the state is kept, here or in a store; the same goes on with it.")
    ],
    *,
    once: Annotated[bool, typer.Option("--once", help="Read what is there now, then end.")] = False,
    journal: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep what is received in a journal first: a crash loses nothing of it."),
    ] = None,
    journal_size: Annotated[
        str | None, typer.Option("--journal-size", metavar="SIZE", help="Bytes that a journal keeps, 500m, 2g (1g).")
    ] = None,
    journal_age: Annotated[
        str | None,
        typer.Option("--journal-age", metavar="DURATION", help="How long a journal keeps what is done with (1d)."),
    ] = None,
    engine: Annotated[
        Engine,
        typer.Option("--engine", help="In this process, or on Spark; auto takes Spark if a master is configured."),
    ] = Engine.AUTO,
    final: Annotated[
        bool, typer.Option("--final", help="With --once, a replay or -: nothing more will come, close what is open.")
    ] = False,
    restart: Annotated[
        Restart | None, typer.Option("--restart", help="Give up the checkpoint's state and begin anew from there.")
    ] = None,
    scheme: Annotated[
        Scheme, typer.Option("--scheme", help="Recognise where events are read, shuffle by entity, or split patterns.")
    ] = Scheme.AUTO,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Tasks at a time; by default one a core.")
    ] = None,
    source_parallelism: Annotated[
        int | None,
        typer.Option("--source-parallelism", metavar="M", min=1, help="Tasks that read; by default one a partition."),
    ] = None,
    episodes: Episodes = False,
    longest: Longest = False,
    lateness: Annotated[
        list[str] | None,
        typer.Option(metavar="[STREAM=]DURATION", help="How late an event may arrive (10min); 0 by default."),
    ] = None,
    forget: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Forget an entity that was not heard of for so long (30d).")
    ] = None,
    idle: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Wait no longer for an entity, or a partition, silent for so long."),
    ] = None,
    interval: Annotated[
        str | None, typer.Option(metavar="DURATION", help="A batch at most so often; by default as soon as it can be.")
    ] = None,
    max_events: Annotated[
        int | None, typer.Option("--max-events", metavar="N", min=1, help="Events of a batch, at most.")
    ] = None,
    speed: Annotated[
        str, typer.Option(metavar="X", help="Replay so many times faster than real time, or max: as fast as it goes.")
    ] = "1",
    buffer: Annotated[
        str | None,
        typer.Option(
            metavar="N|DURATION",
            help="What a source may offer ahead of the recogniser: events, or of a replay 10s (default); "
            "else a batch's worth.",
        ),
    ] = None,
    metrics: Annotated[
        int | None,
        typer.Option(metavar="PORT", min=0, max=65535, help="Serve metrics to Prometheus on 127.0.0.1; 0: any port."),
    ] = None,
    metrics_file: Annotated[
        Path | None, typer.Option("--metrics-file", metavar="FILE", help="Add metrics to a file, a line of JSON each.")
    ] = None,
    log_form: Annotated[
        LogForm | None, typer.Option("--log", help="A line a batch, for people or for programs; no moving picture.")
    ] = None,
    shed: Annotated[
        str | None,
        typer.Option(
            metavar="LEVEL=DURATION,…",
            help="Skip events that have waited longer for patterns of a level: low=500ms,normal=5s (in this process).",
        ),
    ] = None,
    no_shed: Annotated[
        bool, typer.Option("--no-shed", help="Shed, replace and drop nothing, whatever the patterns say.")
    ] = False,
    clean: CleanBy = None,
    aside: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for bad rows and late events (default: OUT/_aside).")
    ] = None,
    max_bad: Annotated[
        str | None,
        typer.Option("--max-bad", metavar="N|N%", help="Stop at more bad rows than this; by default never."),
    ] = None,
    master: Master = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory of Spark's Java processes, 4g; by default Spark's, 1g.")
    ] = None,
    compiling: PatternOptionsWithPlaces,
    pattern: ChosenPatterns = None,
    no_pickle: Annotated[
        bool,
        typer.Option("--no-pickle", help="Refuse functions: a checkpoint can keep them only as code that is run."),
    ] = False,
    strict: Strict = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Recognise patterns in a stream, in this process or on Spark, and go on after every stop or crash."""
    if final and not once and not re.match(r"(?:\w+=)?(?:replay:|-)", source[0]):
        misuse("--final says that nothing more will come: it needs --once, a replay, or standard input")
    received = next((one for one in source if is_received(one)), None)
    if once and received is not None:
        misuse(f"--once reads what is there, and nothing is there of {received} before it is received: leave it out")
    if journal is not None and received is None:
        misuse("--journal is for what is received; these sources can be read again")
    journal_options = read_journal(journal, journal_size, journal_age)
    lateness_s = read_lateness(lateness)
    forget_s, idle_s, interval_s = (
        read_duration(text, option)
        for option, text in (
            ("--forget", forget),
            ("--idle", idle),
            ("--interval", interval),
        )
    )
    shed_s = read_shed(shed)
    if shed is not None and no_shed:
        misuse("--shed and --no-shed contradict each other: give one of them")
    settings = memory_settings(memory)
    limit, kept_in = read_bad_limit(max_bad, "--max-bad"), located(checkpoint)
    here, why = is_local(engine, master, scheme, workers, source_parallelism, memory, kept_in, restart, received)
    if here:
        startup.spare_for_long()
    if shed is not None and not here:
        misuse("--shed is for a stream in this process: run with --engine local")
    patterns = compiling.compile(
        files, longest=longest, lateness_s=lateness_s, forget_after_s=forget_s,
        clean=None if clean is None else clean.value,
    )  # fmt: skip
    patterns = select_patterns(patterns, pattern)
    show_warnings(patterns, strict)
    sources = read_sources(patterns, source)
    refuse_own_journal(journal, sources)
    if not here:
        from wayeb_py.parallel.spark.session import require_spark

        require_spark()
    from wayeb_py.parallel.health import gauge
    from wayeb_py.parallel.health.log_lines import LogLines
    from wayeb_py.parallel.health.report import Report, Reporting
    from wayeb_py.parallel.health.stopping import stopping
    from wayeb_py.parallel.health.stream_view import Health
    from wayeb_py.parallel.logs.back_pressure import Capacity
    from wayeb_py.parallel.logs.replay import read_speed
    from wayeb_py.parallel.recovery.store_checkpoint import open_checkpoint

    if not here:  # Spark's workers must know the files before a user's own source is opened
        import wayeb_py.parallel.stream.stream as _spark  # noqa: F401
    from wayeb_py.parallel.live.inputs import Inputs
    from wayeb_py.parallel.stream.endpoints import (
        aside_folder,
        open_sink,
        open_spark_log,
        open_streams,
        refuse_mixed_up,
    )

    as_lines = log_form is LogForm.JSON

    def say(text: str) -> None:
        if not quiet and as_lines:
            LogLines("json").tell("said", text)
        elif not quiet:
            print(visible(text), file=sys.stderr, flush=True)

    if shed_s:
        from wayeb_py.engine.priority_levels.lanes import without_patterns

        for level in without_patterns(patterns, shed_s):
            say(f"warning: --shed {level}: no pattern of this level sheds by it; `wayeb explain` shows the levels")
    every = [one for own in sources.values() for one in own]
    refuse_mixed_up(every, out, kept_in, aside)
    stop = threading.Event()
    with stopping(stop, say), open_checkpoint(kept_in, None if restart is None else restart.value) as folder:
        capacity = None if buffer is None else Capacity.parse(buffer)
        if here:
            logs = open_streams(
                sources, folder, patterns, speed=read_speed(speed), capacity=capacity, journal=journal_options, say=say
            )
            log = Inputs(logs).log
        else:
            log = open_spark_log(
                sources, folder, patterns, speed=read_speed(speed), partitions=source_parallelism, capacity=capacity
            )
        sink = open_sink(out, episodes, say)
        if engine is Engine.AUTO:
            say(why)
        stop_spark: Callable[[], None] = _nothing
        if not here:
            session = open_spark(master, workers, settings, say)
            stop_spark = session.stop
        health = Health(
            log, folder.folder / gauge.FOLDER, capacity or Capacity(events=max_events or MAX_ROWS),
            frozen=once, latest=log.latest if all(one.startswith("kafka:") for one in every) else None,
        )  # fmt: skip
        reporting = Reporting(
            f"wayeb stream {' + '.join(every)}",
            quiet,
            None if log_form is None else log_form.value,
            metrics,
            metrics_file,
        )
        with (
            stopping(stop, say),  # Spark has replaced our handlers by its own
            dying_in_one_line(folder.folder / gauge.FOLDER, reporting.log or "text", stop_spark),
            Report(health, reporting) as report,
        ):
            if here:
                from wayeb_py.parallel.live.lanes.live_lanes import ServiceOptions
                from wayeb_py.parallel.live.live_stream import live_stream

                summary = live_stream(
                    patterns, logs, sink, folder,
                    episodes=episodes, once=once, final=final,
                    interval_s=None if interval_s is None else float(interval_s),
                    max_rows=max_events or MAX_ROWS, idle_s=None if idle_s is None else float(idle_s),
                    capacity=capacity, aside=aside or aside_folder(out), max_bad=limit, no_pickle=no_pickle,
                    service=ServiceOptions(shed_s, not no_shed), observers=[report], say=say, stop=stop,
                )  # fmt: skip
            else:
                from wayeb_py.parallel.stream.stream import stream

                summary = stream(
                    session, patterns, log, sink, folder,
                    scheme=scheme.value, workers=workers, source_parallelism=source_parallelism,
                    episodes=episodes, once=once, final=final, interval_s=float(interval_s or 0),
                    max_rows=max_events or MAX_ROWS, idle_s=None if idle_s is None else float(idle_s),
                    capacity=capacity, aside=aside or aside_folder(out), max_bad=limit, no_pickle=no_pickle,
                    observers=[report], say=say, stop=stop,
                )  # fmt: skip
    from wayeb_py.run.summary import noticed_in

    for warning in noticed_in(summary, patterns.meaning.stream.clean, patterns.limits.live_runs):
        say(f"warning: {warning}")
    if as_json and not (as_lines and out == "-"):
        print(json.dumps(summary.to_json(), indent=2), file=sys.stderr if out == "-" else sys.stdout)
    elif as_lines and (as_json or not quiet):
        LogLines("json").tell("ended", summary.end, **summary.to_json())
    elif not quiet:
        print(render(summary), file=sys.stderr)


def _nothing() -> None:
    """There is no Spark to stop."""


def is_local(
    engine: Engine,
    master: str | None,
    scheme: Scheme,
    workers: int | None,
    source_parallelism: int | None,
    memory: str | None,
    checkpoint: Location,
    restart: Restart | None,
    received: str | None,
) -> tuple[bool, str]:
    """Whether the stream runs in this process, and why."""
    from wayeb_py.run.choose_engine import find_master

    given = {
        "--master": master, "--workers": workers, "--source-parallelism": source_parallelism, "--memory": memory,
        "--scheme": None if scheme is Scheme.AUTO else scheme,
    }  # fmt: skip
    named = next((option for option, value in given.items() if value is not None), None)
    if engine is Engine.LOCAL:
        if named is not None:
            misuse(f"{named} is for Spark: run with --engine spark, or without {named}")
        return True, "running in this process, as asked for"
    if engine is Engine.SPARK:
        return False, "running on Spark, as asked for"
    if named is not None:
        return False, f"running on Spark, because of {named}"
    if received is not None:
        return True, f"running in this process, which receives {received}"
    if restart is None and isinstance(checkpoint, Path) and (checkpoint / "spark").is_dir():
        return False, f"running on Spark, because the checkpoint {checkpoint} was begun there"
    found = find_master(os.environ)
    if found is not None:
        return False, f"running on Spark, because {found} is configured"
    return True, "running in this process, as no Spark master is configured; --engine spark runs it on Spark"


def is_received(source: str) -> bool:
    """Whether a source, perhaps with the name of its stream, is received by this process."""
    from wayeb_py.parallel.receive.address import is_address

    return is_address(source) or is_address(source.partition("=")[2])


def read_sources(patterns: Patterns, sources: list[str]) -> dict[str, list[str]]:
    """The sources of each stream that the patterns read: `--source radar=…`, where there are several."""
    return read_named(patterns, sources, "--source", "SOURCE")


def open_spark(master: str | None, workers: int | None, settings: dict[str, str], say: Callable[[str], None]) -> Any:
    """The session that a stream on Spark runs in."""
    from wayeb_py.parallel.spark.session import open_session
    from wayeb_py.run.choose_engine import find_master

    # A worker that is killed is tried again, as it would be on a cluster.
    here = f"local[{workers or '*'},{TRIES}]" if master is None and find_master(os.environ) is None else None
    say(f"starting Spark ({master or here or 'as configured'}): its Java process takes some seconds")
    session = open_session(master or here, name="wayeb stream", settings=settings)
    say("Spark is running; the first batch starts its Python workers and takes longer than the next ones")
    return session


@contextmanager
def dying_in_one_line(folder: Path, form: Literal["text", "json"], stop_spark: Callable[[], None]) -> Iterator[None]:
    """Makes the end of a stream its last line: the cause and the remedy; all else goes to a file in the folder."""
    try:
        yield
    except BrokenPipeError:
        raise
    except Exception as error:
        from wayeb_py.parallel.health.failure import say_last

        with suppress(Exception):  # Spark may be what has died
            stop_spark()  # it prints its own message
        cause = say_last(error, folder, form)
        raise SystemExit(PASSING_FAULT if cause.passing else DATA_FAULT) from None


def render(summary: StreamSummary) -> str:
    """A run of a stream in a few lines."""
    lines = [
        ("ended", summary.end),
        ("batches", f"{summary.batches:,} in {summary.seconds:.1f} s"),
        ("events", f"{summary.events:,}"),
        ("entities", f"{summary.entities:,}, {summary.state_bytes:,} bytes of state"),
        ("detections", f"{sum(summary.detections.values()):,}"),
        *((f"  {name}", f"{count:,}") for name, count in sorted(summary.detections.items())),
    ]
    if summary.episodes is not None:
        lines.append(("episodes", f"{summary.episodes:,}"))
    for name, number in (
        ("late", summary.late), (LATE_FOR_CLOCK, summary.late_for_clock), ("duplicates", summary.duplicates)
    ):  # fmt: skip
        if number:
            lines.append((name, f"{number:,}"))
    for title, counts in (
        ("set aside", summary.bad), ("unreadable values", summary.unreadable), ("cleaned", summary.cleaned)
    ):  # fmt: skip
        if counts:
            lines.append((title, f"{sum(counts.values()):,}"))
            lines += [(f"  {name}", f"{count:,}") for name, count in sorted(counts.items())]
    for level, numbers in summary.by_level.items():
        counted = [f"{numbers[name]:,} {name}" for name in LEVEL_NUMBERS if numbers[name]]
        took = "" if numbers["p99_s"] is None else f", p50 {_ms(numbers['p50_s'])}, p99 {_ms(numbers['p99_s'])}"
        lines.append((f"level {level}", ", ".join(counted) + took))
    return table(lines)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms"


def memory_settings(size: str | None) -> dict[str, str]:
    """Spark's settings for the memory that it may use, where events are read and where batches are gathered."""
    if size is None:
        return {}
    if re.fullmatch(r"[1-9]\d*[mgt]", size.lower()) is None:
        misuse(f"--memory: `{size}` is no size: 512m, 4g")
    return {"spark.driver.memory": size.lower(), "spark.executor.memory": size.lower()}
