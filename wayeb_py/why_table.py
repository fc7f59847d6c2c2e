"""An explanation becomes a table for the terminal: a row an event, its letter, the values, and what stopped it."""

from __future__ import annotations

import io

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from wayeb_py.why import SeenEvent, Stop, Why

WIDTH = 110
SKIPPED = "·"


def render_why(why: Why, width: int = WIDTH) -> str:
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
    for name in ("event", "time", "read as", "values"):
        table.add_column(name, justify="right" if name == "event" else "left", overflow="fold")
    for event in why.events:
        table.add_row(str(event.seq), event.ts, read_as(event), values_text(event.values))
    if why.stop is not None:
        table.add_row(str(why.stop.seq), why.stop.ts, stop_text(why.stop), _misses_text(why.stop))
    return table


def read_as(event: SeenEvent) -> str:
    """What an event was to the pattern."""
    return " & ".join([*event.letters, *event.passed]) or SKIPPED


def values_text(values: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def stop_text(stop: Stop) -> str:
    """What the event would have had to be."""
    if stop.forbidden:
        return f"✗ forbidden: {', '.join(stop.forbidden)}"
    return f"✗ needed: {stop.needed}"


def _misses_text(stop: Stop) -> str:
    return ", ".join(
        f"{miss.subject} {miss.value}" + (f", missed by {miss.by}" if miss.by else "") for miss in stop.misses
    )
