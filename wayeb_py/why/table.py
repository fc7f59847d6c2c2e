"""An explanation becomes a table for the terminal: a row an event, its letter, the values, and what stopped it.

It is as wide as the terminal is. In a file or a pipe lines are never broken: programs that read them count lines.
"""

from __future__ import annotations

import io
import shutil
import sys

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from wayeb_py.why.explanation import Folded, SeenEvent, Silence, Stop, Why, fold

UNBROKEN = 100_000
NARROWEST = 40

Row = tuple[str, str, str, str]  # event, time, read as, values


def output_width() -> int:
    """The columns of the terminal that standard output is, or as many as a line may need."""
    return max(NARROWEST, shutil.get_terminal_size().columns) if sys.stdout.isatty() else UNBROKEN


def render_why(why: Why, width: int = UNBROKEN) -> str:
    """The explanation as plain text."""
    text = io.StringIO()
    console = Console(file=text, width=width, no_color=True, highlight=False, markup=False)
    console.print(Text(_heading(why)))
    console.print(Text(why.summary))
    if why.events or why.stop:
        console.print(_table(why))
    if why.measures:
        console.print(Text(f"measured: {values_text(why.measures)}"))
    for hint in why.hints:
        console.print(Text(f"hint: {hint}"))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def _heading(why: Why) -> str:
    place = f" at {why.place}" if why.place is not None else ""
    if why.other is None:
        who = f"entity {why.entity}"
    else:
        a, b = why.called or ("entity", "other")
        who = f"{a} {why.entity} and {b} {why.other}"
    when = f"at {why.ts}" if why.seq is None else f"event {why.seq} at {why.ts}"
    return f"{why.pattern}{place}, {who}, {when}"


def _table(why: Why) -> Table:
    table = Table(box=box.SIMPLE, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("event", justify="right", no_wrap=True)
    table.add_column("time", no_wrap=True)
    if why.other is not None:
        table.add_column("of", no_wrap=True)
    for name in ("read as", "values"):
        table.add_column(name, overflow="fold", min_width=12)
    for item in fold(why.events):
        cells = _folded_row(item) if isinstance(item, Folded) else _row(item)
        sender = None if isinstance(item, Folded) else item.sender
        table.add_row(*_with_sender(why, cells, sender))
    if why.stop is not None:
        stop = why.stop
        cells = str(stop.seq), stop.ts, stop_text(stop), _misses_text(stop)
        table.add_row(*_with_sender(why, cells, stop.sender))
    if why.silence is not None:
        table.add_row(*_with_sender(why, _silence_row(why.silence), None))
    return table


def _with_sender(why: Why, cells: Row, sender: str | None) -> tuple[str, ...]:
    event, time, *rest = cells
    return cells if why.other is None else (event, time, sender or "", *rest)


def _row(event: SeenEvent) -> Row:
    return str(event.seq), event.ts, event.read_as, values_text(event.values)


def _folded_row(folded: Folded) -> Row:
    return "⋮", f"to {folded.last.ts}", f"{folded.n:,} events: {folded.first.read_as}", ""


def _silence_row(silence: Silence) -> Row:
    if silence.is_kept:
        return "", f"to {silence.until}", silence.letter, ""
    if silence.data_end is not None:
        return "", f"to {silence.data_end}", f"✗ needed: {silence.letter}", "the data end"
    return "", silence.next_ts or "", f"✗ needed: {silence.letter}", f"silent for {silence.lasted}"


def values_text(values: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def stop_text(stop: Stop) -> str:
    """What the event should have been."""
    if stop.is_late:
        return f"✗ too late: {stop.window}"
    if stop.forbidden:
        return f"✗ forbidden: {', '.join(stop.forbidden)}"
    return f"✗ needed: {stop.needed}"


def _misses_text(stop: Stop) -> str:
    return ", ".join(
        f"{miss.subject} {miss.value}" + (f", missed by {miss.by}" if miss.by else "") for miss in stop.misses
    )
