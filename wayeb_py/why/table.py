"""An explanation becomes a table for the terminal: a row an event, its letter, the values, and what stopped it.

It is as wide as the terminal is. Into a file or a pipe lines are never broken: what reads them there counts lines.
"""

from __future__ import annotations

import io
import shutil
import sys

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from wayeb_py.why.explanation import Folded, SeenEvent, Stop, Why, fold

UNBROKEN = 100_000
NARROWEST = 40


def output_width() -> int:
    """The columns of the terminal that standard output is, or as many as a line may need."""
    return max(NARROWEST, shutil.get_terminal_size().columns) if sys.stdout.isatty() else UNBROKEN


def render_why(why: Why, width: int = UNBROKEN) -> str:
    """The explanation as plain text."""
    text = io.StringIO()
    console = Console(file=text, width=width, no_color=True, highlight=False, markup=False)
    place = f" at {why.place}" if why.place is not None else ""
    console.print(Text(f"{why.pattern}{place}, entity {why.entity}, event {why.seq} at {why.ts}"))
    console.print(Text(why.summary))
    if why.events or why.stop:
        console.print(_table(why))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def _table(why: Why) -> Table:
    table = Table(box=box.SIMPLE, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("event", justify="right", no_wrap=True)
    table.add_column("time", no_wrap=True)
    for name in ("read as", "values"):
        table.add_column(name, overflow="fold", min_width=12)
    for item in fold(why.events):
        table.add_row(*(_folded_row(item) if isinstance(item, Folded) else _row(item)))
    if why.stop is not None:
        table.add_row(str(why.stop.seq), why.stop.ts, stop_text(why.stop), _misses_text(why.stop))
    return table


def _row(event: SeenEvent) -> tuple[str, str, str, str]:
    return str(event.seq), event.ts, event.read_as, values_text(event.values)


def _folded_row(folded: Folded) -> tuple[str, str, str, str]:
    return "⋮", f"to {folded.last.ts}", f"{folded.n:,} events: {folded.first.read_as}", ""


def values_text(values: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def stop_text(stop: Stop) -> str:
    """What the event would have had to be."""
    if stop.is_late:
        return f"✗ too late: {stop.window}"
    if stop.forbidden:
        return f"✗ forbidden: {', '.join(stop.forbidden)}"
    return f"✗ needed: {stop.needed}"


def _misses_text(stop: Stop) -> str:
    return ", ".join(
        f"{miss.subject} {miss.value}" + (f", missed by {miss.by}" if miss.by else "") for miss in stop.misses
    )
