"""The rows of a record become its figure, as PNG for a page and SVG for a paper.

Every axis has a name and a unit, numbers are written one way, and the legend stands beside the panels. All panels share
their y axis, which is set once all of them are drawn, so that they can be compared and nothing runs off. Where values
span decades the axis is logarithmic; a bar has no foot there, so points stand for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.harness.record import Figure, Record, Value

PANEL_INCHES = (4.6, 3.4)
MARKERS = "osD^vPX*<>hp"
MOST_TICKS = 12
DECADES = 1.3  # from here on an axis is logarithmic: below a twentieth a bar is a line
CHARACTER_WIDTH = 0.019  # a character of a tick label, as a share of its axis; labels that would touch stand askew

# The names of a record's columns on an axis, with their units.
LABELS = {
    "action": "what the reader does",
    "arguments": "form of the arguments",
    "arrivals": "arrivals",
    "at": "{panel}",  # each panel varies something else
    "back-pressure": "back-pressure (share of the time)",
    "batch_size": "events in a batch",
    "cores": "cores",
    "CPU s": "processor time (s)",
    "engine and level": "engine, level",
    "entities": "entities",
    "events a batch": "events in a batch",
    "events": "events",
    "held events/s": "highest rate held (events per second)",
    "instructions an event": "instructions per event",
    "interval ms": "interval of the rule (ms)",
    "job": "job",
    "kept_by": "kept by",
    "kernel": "compiled loop",
    "levels": "levels",
    "load": "middle load over the capacity",
    "lookup": "lookup",
    "measured": "measured",
    "million events/s": "million events per second",
    "million events/s, skewed": "million events per second, skewed keys",
    "million_per_s": "million events per second",
    "minutes": "time of the data (minutes)",
    "ms": "latency (ms)",
    "ns an event": "time per event (ns)",
    "p99 ms": "99th percentile of the latency (ms)",
    "patterns": "patterns",
    "peak in GB": "peak of resident memory (GB)",
    "peer": "engine",
    "portion": "events that come together",
    "quantile": "quantile",
    "rate": "offered events",
    "recognisers": "recognising processes",
    "resident MB": "resident memory (MB)",
    "row hours": "space-time (row hours)",
    "rows and tuples": "rows and tuples kept",
    "rows asked": "rows of which the condition is evaluated",
    "scheme": "scheme",
    "seconds": "time (s)",
    "served": "level",
    "set": "patterns",
    "share detected": "share of events detected",
    "shedding": "shedding",
    "sources": "sources",
    "speed over the tree, one by one": "speed (the tree, one by one, is 1)",
    "speed-up": "speed-up of the replay",
    "task": "task",
    "timely detections/s": "timely detections per second",
    "until": "from the start of the command until",
    "us a call": "time per call (µs)",
    "us an event": "time per event (µs)",
    "values": "values",
    "way": "way of running it",
    "what": "what is read",
    "window in s": "window (s)",
    "workers": "worker processes",
}


def draw(figure: Figure, record: Record, stem: Path) -> list[Path]:
    """Draws a figure beside its record, and returns the files."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context({"svg.hashsalt": "wayeb"}):
        sheet = make_sheet(figure, record)
        paths = [stem.with_name(f"{stem.name}.{ending}") for ending in ("png", "svg")]
        for path in paths:
            sheet.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
        plt.close(sheet)
    return paths


def make_sheet(figure: Figure, record: Record) -> Any:
    """The figure as matplotlib's, not yet saved."""
    import matplotlib.pyplot as plt

    rows = [row for row in record.rows if _number(row.get(figure.y)) is not None and row.get(figure.x) is not None]
    panels = _distinct(rows, figure.panel)
    n_columns = 2 if len(panels) == 4 else min(3, len(panels))
    n_lines = math.ceil(len(panels) / n_columns)
    is_log = "y" in figure.log or _spans_decades(figure, rows)
    with plt.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        sheet, axes = plt.subplots(
            n_lines,
            n_columns,
            figsize=(PANEL_INCHES[0] * n_columns, PANEL_INCHES[1] * n_lines),
            squeeze=False,
            sharey=True,
            layout="constrained",
        )
        for axis in axes.flat[len(panels) :]:
            axis.remove()
        labels = _distinct(rows, figure.series)  # labels of all panels: equal looks mean equal things
        named: dict[str, Any] = {}
        for number, (panel, axis) in enumerate(zip(panels, axes.flat, strict=False)):
            own = [row for row in rows if figure.panel is None or row.get(figure.panel) == panel]
            _draw_panel(axis, figure, own, labels, is_log)
            named |= {name: handle for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)}
            _name_axes(axis, figure, panel, is_first=number % n_columns == 0)
            if figure.limit is not None and (number % n_columns == n_columns - 1 or number == len(panels) - 1):
                _say_limit(axis, figure)
        _set_limits(axes.flat[0], figure, rows, is_log)
        if named:  # beside the panels, where it covers neither them nor the title
            title = None if figure.series is None else label_of(figure.series)
            sheet.legend(
                named.values(), named.keys(), loc="outside right center", title=title, fontsize=8, frameon=False
            )
        note = f"{record.date[:10]}, {record.machine.get('processor', '')}, {record.machine.get('cores')} cores"
        sheet.suptitle(figure.title, fontsize=10)
        sheet.supxlabel(note + (" · disturbed" if record.disturbed else ""), fontsize=7, color="0.5")
    return sheet


def label_of(column: str, panel: Value = None) -> str:
    """What a column is called on an axis."""
    label = LABELS.get(column, column)
    if label != "{panel}":
        return label
    varied = str(panel).partition(",")[0]
    return LABELS.get(varied, varied)


def say(value: Value) -> str:
    """A number as every figure writes it: 0.3, 1,000, 20,000,000."""
    number = float(value) if isinstance(value, str) and value.isdigit() else _number(value)
    if number is None:
        return str(value)
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:g}"


def _name_axes(axis: Any, figure: Figure, panel: Value, is_first: bool) -> None:
    axis.set_xlabel(label_of(figure.x, panel))
    axis.set_ylabel(label_of(figure.y) if is_first else "")  # all panels share it
    if figure.panel is not None:
        varied, _, rest = str(panel).partition(", ")
        is_told = LABELS.get(figure.x) == "{panel}"  # then the axis already says what is varied
        axis.set_title(rest if is_told and rest else varied if is_told else f"{label_of(figure.panel)}: {say(panel)}")
        axis.title.set_fontsize(9)
    axis.grid(alpha=0.25)
    axis.set_axisbelow(True)


def _draw_panel(axis: Any, figure: Figure, rows: list[dict[str, Value]], labels: list[Value], is_log: bool) -> None:
    ticks = _distinct(rows, figure.x)
    as_names = figure.kind == "bars" or any(isinstance(tick, str) for tick in ticks)
    width = 0.8 / len(labels)
    for number, label in enumerate(labels):
        chosen = [row for row in rows if figure.series is None or row.get(figure.series) == label]
        if not chosen:
            continue
        if not as_names:  # a line goes from left to right, in whatever order things were measured
            chosen.sort(key=lambda row: _number(row[figure.x]) or 0.0)
        ys = [_number(row[figure.y]) or 0.0 for row in chosen]
        xs = [float(ticks.index(row[figure.x])) if as_names else _number(row[figure.x]) or 0.0 for row in chosen]
        spread = _spread(figure, chosen, ys)
        name = None if label is None else say(label)
        if as_names:
            xs = [x + (number - (len(labels) - 1) / 2) * width for x in xs]
        if figure.kind == "bars" and not is_log:
            axis.bar(xs, ys, width, yerr=spread, label=name, capsize=2, color=f"C{number % 10}")
        else:
            marker = MARKERS[number % len(MARKERS)]
            style = {"marker": marker, "markersize": 4, "linewidth": 1.2, "capsize": 2, "color": f"C{number % 10}"}
            axis.errorbar(xs, ys, yerr=spread, label=name, linestyle="none" if as_names else "-", **style)
    if as_names:
        axis.set_xlim(-0.6, len(ticks) - 0.4)
        _name_ticks(axis, range(len(ticks)), [say(tick) for tick in ticks])
    elif "x" in figure.log:
        places = [_number(tick) or 0.0 for tick in ticks]
        least = min((place for place in places if place), default=1.0)
        # Zero has no point on a logarithmic axis: it stands at the left of a straight piece.
        axis.set_xscale("symlog", linthresh=least, linscale=0.5) if 0 in places else axis.set_xscale("log")
        if len(ticks) <= MOST_TICKS:  # the measured values say more than powers of ten
            _name_ticks(axis, places, [say(place) for place in places])
            axis.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    if figure.limit is not None:
        axis.axhline(figure.limit, color="0.4", linestyle="--", linewidth=0.8)
    if figure.mark is not None:
        axis.axvline(figure.mark, color="0.6", linestyle=":", linewidth=0.8)
        at = {"y": 1.0, "va": "top", "transform": axis.get_xaxis_transform()}
        axis.text(x=figure.mark, s=f" {figure.mark_name}", ha="left", fontsize=7, color="0.4", **at)


def _name_ticks(axis: Any, places: Sequence[float], names: list[str]) -> None:
    """Labels side by side where they fit, askew where they would touch."""
    axis.set_xticks(places, names)
    to_axis = axis.transData + axis.transAxes.inverted()
    middles = [float(to_axis.transform((place, axis.get_ylim()[1]))[0]) for place in places]
    widths = [CHARACTER_WIDTH * (len(name) + 1) for name in names]
    placed = sorted(zip(middles, widths, strict=True))
    if any(b - a < (wa + wb) / 2 for (a, wa), (b, wb) in pairwise(placed)):
        axis.set_xticks(places, names, rotation=30, ha="right", rotation_mode="anchor")


def _say_limit(axis: Any, figure: Figure) -> None:
    """The caption of the line across: beside the panel, where no bar covers it."""
    words, lines = figure.limit_name.split(), [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word) > 14:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    at = {"x": 1.01, "ha": "left", "va": "center", "transform": axis.get_yaxis_transform()}
    axis.text(y=figure.limit, s="\n".join(lines), fontsize=7, color="0.3", **at)


def _set_limits(axis: Any, figure: Figure, rows: list[dict[str, Value]], is_log: bool) -> None:
    """The y axis of all panels, which has room for every value with its spread, and for the limit."""
    lows, highs = _reach(figure, rows)
    if not is_log:
        low = min(0.0, *lows)
        axis.set_ylim(low * 1.06, max(highs) * 1.06 or 1.0)
        _say_numbers(axis.yaxis)
        return
    positive = [value for value in lows if value > 0] or [1.0]
    axis.set_yscale("log")
    factor = max(1.15, (max(highs) / min(positive)) ** 0.05)
    axis.set_ylim(min(positive) / factor, max(highs) * factor)
    _say_numbers(axis.yaxis, few=max(highs) / min(positive) > 100)


def _reach(figure: Figure, rows: list[dict[str, Value]]) -> tuple[list[float], list[float]]:
    """The lowest and the highest that each value reaches with its spread; the limit is one of them."""
    lows, highs = [], []
    for row in rows:
        y = _number(row[figure.y]) or 0.0
        low, high = (_number(row.get(name)) if name else None for name in (figure.low, figure.high))
        lows.append(min(y, y if low is None else low))
        highs.append(max(y, y if high is None else high))
    if figure.limit is not None:
        lows.append(figure.limit)
        highs.append(figure.limit)
    return lows or [0.0], highs or [1.0]


def _spans_decades(figure: Figure, rows: list[dict[str, Value]]) -> bool:
    """Whether values are so far apart that a linear axis would show only the largest."""
    values = [number for row in rows if (number := _number(row[figure.y])) is not None]
    return bool(values) and min(values) > 0 and math.log10(max(values) / min(values)) >= DECADES


def _say_numbers(axis: Any, few: bool | None = None) -> None:
    """Ticks in the one format; on a logarithmic axis at 1, or at 1, 2 and 5, of every decade."""
    from matplotlib.ticker import Formatter, FuncFormatter, LogLocator, NullFormatter

    class AlikeDecimals(Formatter):
        """0.00, 0.25, 0.50: all ticks with as many decimals as one of them needs."""

        def __call__(self, x: float, pos: int | None = None) -> str:
            return say(round(x, 9))

        def format_ticks(self, values: Sequence[float]) -> list[str]:
            decimals = max((len(say(round(value, 9)).partition(".")[2]) for value in values), default=0)
            return [f"{value:,.{decimals}f}" for value in values]

    if few is None:
        axis.set_major_formatter(AlikeDecimals())
        return
    axis.set_major_formatter(FuncFormatter(lambda value, _: say(round(value, 12))))
    axis.set_major_locator(LogLocator(subs=(1.0,) if few else (1.0, 2.0, 5.0)))
    axis.set_minor_formatter(NullFormatter())


def _spread(figure: Figure, rows: list[dict[str, Value]], ys: list[float]) -> list[list[float]] | None:
    if figure.low is None or figure.high is None:
        return None
    lows = [max(0.0, y - (_number(row.get(figure.low)) or y)) for row, y in zip(rows, ys, strict=True)]
    highs = [max(0.0, (_number(row.get(figure.high)) or y) - y) for row, y in zip(rows, ys, strict=True)]
    return [lows, highs]


def _distinct(rows: list[dict[str, Value]], column: str | None) -> list[Value]:
    return [None] if column is None else list(dict.fromkeys(row.get(column) for row in rows)) or [None]


def _number(value: Value) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
