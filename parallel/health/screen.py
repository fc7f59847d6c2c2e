"""A view of a stream becomes what a person at a terminal watches, redrawn every second in the same place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wayeb_py.errors import visible
from wayeb_py.parallel.health.log_lines import FINE, duration, lost_by_level, slowest
from wayeb_py.parallel.health.stream_view import StreamView

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

HIGH = 0.5  # above, the recogniser is too slow; below `FINE` all is well
SHOWN_PATTERNS = 12
SHOWN_SOURCES = 8
ECHOED = 5  # columns for the terminal's own `^C`, twice
LEAST_WIDTH = 20


class Screen:
    """Draws views on standard error."""

    def __init__(self, title: str, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.live import Live

        self.title = title
        self._live = Live(console=console or Console(stderr=True), auto_refresh=False, transient=False)
        self._live.start()

    def show(self, view: StreamView) -> None:
        """Draws a view, not quite as wide as the terminal: a `^C` at its last column would start a line of its own, and
        the picture could not be erased whole."""
        from rich.constrain import Constrain

        width = max(LEAST_WIDTH, self._live.console.width - ECHOED)
        self._live.update(Constrain(draw(self.title, view), width), refresh=True)

    def close(self) -> None:
        """Leaves the last picture where it is."""
        self._live.stop()


def draw(title: str, view: StreamView) -> RenderableType:
    """The picture of a view."""
    from rich.columns import Columns
    from rich.panel import Panel

    tables = [_rates(view), _detections(view), _faults(view)]
    if len(view.sources) > 1:
        tables.insert(1, _sources(view))
    batch = f"batch {view.batch}" if view.batch >= 0 else "no batch yet"
    return Panel(Columns(tables, padding=(0, 3)), title=_plain(title), title_align="left", subtitle=batch)


def _table(*rows: tuple[str, str], head: str | None = None) -> RenderableType:
    from rich.table import Table

    table = Table(box=None, show_header=False, title=head, title_justify="left", padding=(0, 1))
    table.add_column()
    table.add_column(justify="right")
    for name, value in rows:
        table.add_row(_plain(name), value)
    return table


def _plain(name: str) -> str:
    """A name, which may come from data, as plain letters."""
    from rich.markup import escape

    return escape(visible(name))


def _rates(view: StreamView) -> RenderableType:
    lag = f"{view.lag_events:,}"
    rows = [
        ("input", f"{view.input_per_s:,.0f}/s"),
        ("processed", f"{view.processed_per_s:,.0f}/s"),
        ("back-pressure", _ratio(view.backpressure) + slowest(view)),
        ("lag", lag if view.event_time_lag_s is None else f"{lag}, {duration(view.event_time_lag_s)}"),
        ("events", f"{view.sum('events'):,}"),
        ("entities", f"{view.entities:,}"),
    ]
    if view.state_bytes_per_entity is not None:
        rows.append(("state", f"{view.state_bytes:,} B, {view.state_bytes_per_entity:,.0f} B an entity"))
    if view.last_batch_s is not None:
        rows.append(("last batch", duration(view.last_batch_s)))
    return _table(*rows)


def _ratio(ratio: float) -> str:
    colour = "green" if ratio < FINE else "yellow" if ratio < HIGH else "red"
    word = "fine" if ratio < FINE else "noticeable" if ratio < HIGH else "high"
    return f"[{colour}]{ratio:.2f} {word}[/]"


def _sources(view: StreamView) -> RenderableType:
    rows = [
        (source or "all", f"{_ratio(facts.ratio)}, lag {facts.lag_events:,}")
        for source, facts in sorted(view.sources.items(), key=lambda one: -one[1].ratio)[:SHOWN_SOURCES]
    ]
    if len(view.sources) > SHOWN_SOURCES:
        rows.append((f"and {len(view.sources) - SHOWN_SOURCES} more", ""))
    return _table(*rows, head="sources")


def _detections(view: StreamView) -> RenderableType:
    found = sorted(view.sums.get("detections", {}).items(), key=lambda one: -one[1])
    rows = [(name, f"{round(count):,}") for name, count in found[:SHOWN_PATTERNS]]
    if len(found) > SHOWN_PATTERNS:
        rows.append(
            (f"and {len(found) - SHOWN_PATTERNS} more", f"{round(sum(n for _, n in found[SHOWN_PATTERNS:])):,}")
        )
    return _table(*(rows or [("none yet", "")]), head="detections")


def _faults(view: StreamView) -> RenderableType:
    rows = [
        (word, f"{view.sum(name):,}")
        for name, word in (
            ("late", "late"), ("late_for_clock", "late for the clock"), ("duplicates", "duplicates"),
            ("ahead", "ahead of the clock"),
            ("cleaned", "cleaned values"), ("unreadable", "unreadable values"), ("restarts", "restarts"),
        )
        if view.sum(name) or name == "late"
    ]  # fmt: skip
    rows += [(f"{word}, {level}", f"{n:,}") for level in view.by_level for word, n in lost_by_level(view, level)]
    rows.append(("bad", f"{view.sum('bad'):,}"))
    rows += [(f"  {reason}", f"{round(count):,}") for reason, count in view.sums.get("bad", {}).items()]
    idle_s = min((facts.idle_s for facts in view.sources.values()), default=0.0)
    if idle_s > 5:
        rows.append(("source idle for", duration(idle_s)))
    return _table(*rows, head="set aside")
