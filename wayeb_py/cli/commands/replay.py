"""`wayeb replay`: recorded events go out again, by their own time, to a Kafka topic or into a folder."""

from __future__ import annotations

import json
import sys
import threading
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from wayeb_py.cli.exit_codes import explained, misuse
from wayeb_py.cli.option_values import read_duration, read_instant
from wayeb_py.cli.options import AsJson, Quiet, Since, TimeUnit, Until
from wayeb_py.text_table import table

if TYPE_CHECKING:
    from wayeb_py.files.formats.block import AsideRow
    from wayeb_py.files.projection import TimeUnit as UnitName
    from wayeb_py.parallel.replay.replay import ReplaySink, ReplaySummary

KAFKA = "kafka:"


class FileFormat(StrEnum):
    """What files of a folder are."""

    PARQUET = "parquet"
    NDJSON = "ndjson"


@explained()
def replay_events(
    data: Annotated[
        list[str],
        typer.Argument(metavar="DATA...", help="Events: Parquet, Arrow, CSV or NDJSON files, folders, globs."),
    ],
    to: Annotated[str, typer.Option("--to", metavar="TARGET", help="kafka://HOST:PORT/TOPIC, or a folder.")],
    key: Annotated[str, typer.Option(metavar="COLUMN", help="What tells one entity from another.")],
    time: Annotated[str, typer.Option(metavar="COLUMN", help="When an event happened.")],
    time_unit: TimeUnit = None,
    speed: Annotated[
        str, typer.Option(metavar="X|max", help="So much faster than the data's own time, or as fast as possible.")
    ] = "1",
    partitions: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Partitions of a topic that is not there yet, or of the folder (4)."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Send only these columns, besides key and time.")
    ] = None,
    since: Since = None,
    until: Until = None,
    as_recorded: Annotated[
        bool, typer.Option("--as-recorded", help="Keep the order of the files, late events late; do not sort.")
    ] = False,
    file_format: Annotated[FileFormat, typer.Option("--format", help="Files of a folder.")] = FileFormat.PARQUET,
    every: Annotated[
        str, typer.Option(metavar="DURATION", help="A new file in a folder so often, by the clock.")
    ] = "1s",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Send recorded events again, by their own time, as the stream that they once were."""
    unit: UnitName | None = None if time_unit is None else time_unit.value
    every_s = float(read_duration(every) or 0)
    since_s, until_s = read_instant(since, unit), read_instant(until, unit)
    factor = _read_speed(speed)
    from wayeb_py.parallel.health.stopping import stopping
    from wayeb_py.parallel.replay.recorded import open_recorded
    from wayeb_py.parallel.replay.replay import replay

    target = _open_target(to, partitions, file_format, every_s)
    names = None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]
    recorded = open_recorded(
        data, key, time, unit, columns=names, since_s=since_s, until_s=until_s, as_recorded=as_recorded
    )
    stop = threading.Event()
    live = _Line(visible=not quiet and sys.stderr.isatty())
    with stopping(stop):
        try:
            summary = replay(recorded, target, factor, stop=stop, tell=live.show)
        finally:
            live.clear()
    if as_json:
        print(json.dumps(summary.to_json(), indent=2))
    elif not quiet:
        print(render(summary, to, recorded.first_bad), file=sys.stderr)


def _read_speed(text: str) -> float | None:
    """How much faster than the data's own time; None is as fast as possible."""
    if text.strip().lower() == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        misuse(f"--speed {text}: it is a number above 0, such as 4320, or max")
    return speed


def _open_target(to: str, partitions: int | None, file_format: FileFormat, every_s: float) -> ReplaySink:
    from wayeb_py.parallel.replay.replay_sinks import FolderReplaySink, TopicReplaySink

    if to.startswith(KAFKA):
        return TopicReplaySink(to, partitions)
    if "://" in to:
        misuse(f"--to {to}: it is kafka://HOST:PORT/TOPIC, or a folder")
    if every_s <= 0:
        misuse("--every is longer than nothing")
    return FolderReplaySink(to, partitions, file_format.value, every_s)


class _Line:
    """A line on the terminal that says how far the replay is."""

    def __init__(self, visible: bool) -> None:
        self._visible = visible
        self._width = 0

    def show(self, summary: ReplaySummary) -> None:
        if not self._visible:
            return
        at = "" if summary.last_event_s is None else f"  at {_instant(summary.last_event_s)}"
        lag = "" if summary.speed is None else f"  lag {summary.lag.now_s:.2f} s"
        text = f"{summary.events:,} events, {summary.events_per_s:,.0f}/s{at}{lag}"
        print(f"\r{text:<{self._width}}", end="", file=sys.stderr, flush=True)
        self._width = len(text)

    def clear(self) -> None:
        if self._width:
            print(f"\r{'':<{self._width}}\r", end="", file=sys.stderr, flush=True)


def render(summary: ReplaySummary, to: str, first_bad: AsideRow | None) -> str:
    """A replay in a few lines."""
    lines = [
        ("ended", summary.end),
        ("events", f"{summary.events:,}, {summary.events_per_s:,.0f}/s in {summary.seconds:.2f} s"),
    ]
    if summary.first_event_s is not None and summary.last_event_s is not None:
        lines.append(("time", f"{_instant(summary.first_event_s)} to {_instant(summary.last_event_s)}"))
    reached = summary.reached_speed
    if reached is not None:
        asked = "as fast as possible" if summary.speed is None else f"{summary.speed:,.6g} asked for"
        lines.append(("speed", f"{reached:,.6g} ({asked})"))
    if summary.speed is not None:
        lag = summary.lag
        lines.append(
            ("lag", f"{lag.now_s:.2f} s at the end, {lag.mean_s:.2f} s on average, {lag.greatest_s:.2f} s at most")
        )
    if summary.bad:
        where = "" if first_bad is None else f"; the first: {first_bad.file}, row {first_bad.row}"
        lines.append(("left out", f"{sum(summary.bad.values()):,} rows that are no events{where}"))
        lines += [(f"  {reason}", f"{count:,}") for reason, count in sorted(summary.bad.items())]
    lines.append(("sent to", to.partition("?")[0]))
    return table(lines)


def _instant(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError):  # a year that datetime does not have
        return f"{seconds:.0f} s"
