"""The rows of a record become its figure, as PNG for a page and SVG for a paper."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from benchmarks.record import Figure, Record, Value

PANEL_INCHES = (4.6, 3.4)
MARKERS = "osD^vPX*<>hp"
MOST_TICKS = 12


def draw(figure: Figure, record: Record, stem: Path) -> list[Path]:
    """Draws a figure beside its record, and returns the files."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    rows = [row for row in record.rows if _number(row.get(figure.y)) is not None and row.get(figure.x) is not None]
    panels = _distinct(rows, figure.panel)
    n_columns = min(3, len(panels))
    n_lines = math.ceil(len(panels) / n_columns)
    with plt.rc_context(
        {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "wayeb"}
    ):
        sheet, axes = plt.subplots(
            n_lines,
            n_columns,
            figsize=(PANEL_INCHES[0] * n_columns, PANEL_INCHES[1] * n_lines),
            squeeze=False,
            sharey="row",
            layout="constrained",
        )
        for axis in axes.flat[len(panels) :]:
            axis.remove()
        labels = _distinct(rows, figure.series)  # of all panels: what looks alike is the same
        named: dict[str, Any] = {}
        for panel, axis in zip(panels, axes.flat, strict=False):
            own = [row for row in rows if figure.panel is None or row.get(figure.panel) == panel]
            _draw_panel(axis, figure, own, labels)
            named |= {name: handle for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)}
            if figure.panel is not None:
                axis.set_title(f"{figure.panel}: {panel}", fontsize=9)
        if named:  # beside the panels, where it covers nothing
            sheet.legend(named.values(), named.keys(), loc="outside right upper", fontsize=7, frameon=False)
        note = f"{record.date[:10]}, {record.machine.get('processor', '')}, {record.machine.get('cores')} cores"
        sheet.suptitle(figure.title, fontsize=10)
        sheet.supxlabel(note + (" · disturbed" if record.disturbed else ""), fontsize=6, color="0.5")
        paths = [stem.with_name(f"{stem.name}.{ending}") for ending in ("png", "svg")]
        for path in paths:
            sheet.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
        plt.close(sheet)
    return paths


def _draw_panel(axis: Any, figure: Figure, rows: list[dict[str, Value]], labels: list[Value]) -> None:
    ticks = _distinct(rows, figure.x)
    as_names = figure.kind == "bars" or any(isinstance(tick, str) for tick in ticks)
    for number, label in enumerate(labels):
        chosen = [row for row in rows if figure.series is None or row.get(figure.series) == label]
        if not chosen:
            continue
        if not as_names:  # a line goes from left to right, in whatever order things were measured
            chosen.sort(key=lambda row: _number(row[figure.x]) or 0.0)
        ys = [_number(row[figure.y]) or 0.0 for row in chosen]
        xs = [float(ticks.index(row[figure.x])) if as_names else _number(row[figure.x]) or 0.0 for row in chosen]
        spread = _spread(figure, chosen, ys)
        name = None if label is None else str(label)
        if figure.kind == "bars":
            width = 0.8 / len(labels)
            shifted = [x + (number - (len(labels) - 1) / 2) * width for x in xs]
            axis.bar(shifted, ys, width, yerr=spread, label=name, capsize=2, color=f"C{number % 10}")
        else:
            marker = MARKERS[number % len(MARKERS)]
            style = {"marker": marker, "markersize": 4, "linewidth": 1.2, "capsize": 2, "color": f"C{number % 10}"}
            axis.errorbar(xs, ys, yerr=spread, label=name, **style)
    if as_names:
        axis.set_xticks(range(len(ticks)), [str(tick) for tick in ticks], rotation=30, ha="right")
    if figure.limit is not None:  # before the axis is fixed, so that it has room for the line
        axis.axhline(figure.limit, color="0.6", linestyle="--", linewidth=0.8)
        at = {"x": 1.0, "ha": "right", "transform": axis.get_yaxis_transform()}
        axis.text(y=figure.limit, s=figure.limit_name, va="bottom", fontsize=6, color="0.4", **at)
    if "x" in figure.log and not as_names:
        least = min((place for tick in ticks if (place := _number(tick))), default=1.0)
        # None at all has no place on a logarithmic axis: it stands at the left of a straight piece.
        axis.set_xscale("symlog", linthresh=least, linscale=0.5) if 0 in ticks else axis.set_xscale("log")
        if len(ticks) <= MOST_TICKS:  # those that were measured say more than powers of ten
            axis.set_xticks([_number(tick) or 0.0 for tick in ticks], [f"{tick:,g}" for tick in ticks])
            axis.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    if "y" in figure.log:
        axis.set_yscale("log")
        _say_numbers_plainly(axis.yaxis)
    elif all((_number(row[figure.y]) or 0.0) >= 0 for row in rows):
        axis.set_ylim(bottom=0)
    if figure.mark is not None:
        axis.axvline(figure.mark, color="0.6", linestyle=":", linewidth=0.8)
        at = {"y": 1.0, "va": "top", "transform": axis.get_xaxis_transform()}
        axis.text(x=figure.mark, s=f" {figure.mark_name}", ha="left", fontsize=6, color="0.4", **at)
    axis.set_xlabel(figure.x)
    axis.set_ylabel(figure.y)
    axis.grid(alpha=0.25)


def _say_numbers_plainly(axis: Any) -> None:
    """20 instead of two times ten to the first."""
    from matplotlib.ticker import LogFormatter

    class Plain(LogFormatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:,g}" if super().__call__(x, pos) else ""

    axis.set_major_formatter(Plain())
    axis.set_minor_formatter(Plain(labelOnlyBase=False, minor_thresholds=(1.5, 0.5)))


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
