"""Evaluations become one HTML page without a script, that needs no network: tables, and reliability diagrams as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from wayeb_py.forecast.evaluation.evaluate import Evaluation
from wayeb_py.forecast.evaluation.scores import Scores

COLOURS = {"forecast": "#0b62a4", "base rate": "#999999", "logistic regression": "#d9822b"}
SIZE = 220

HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>How good the forecasts are</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 0.7rem 0; }
th, td { text-align: right; padding: 0.15rem 0.8rem; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
section { margin: 2rem 0; }
</style></head><body>
<h1>How good the forecasts are</h1>
<p>Each model was learnt from one part of the events and tried on the other. Brier score and log loss are better where
they are lower; a forecast is worth its trouble where it beats the base rate and the regression. Precision and recall
are those of saying yes from a probability of 0.5 on. In the diagrams, points on the line are honest probabilities; the
larger the point, the more forecasts. Censored trials, whose horizon reaches beyond the data, are counted and not
scored.</p>
"""


def render_page(evaluations: Sequence[Evaluation], failures: Sequence[str] = ()) -> str:
    """The page; `failures` say what could not be evaluated, and why."""
    parts = [HEAD]
    parts += [f"<p>{escape(failure)}</p>" for failure in failures]
    parts += [_section(one) for one in evaluations]
    return "".join(parts) + "</body></html>\n"


def _section(one: Evaluation) -> str:
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{own.brier:.4f}</td><td>{own.log_loss:.4f}</td>"
        f"<td>{_share(own.precision)}</td><td>{_share(own.recall)}</td></tr>"
        for name, own in one.by_method.items()
    )
    intervals = "No interval within the horizon holds so much of the waiting time."
    if one.intervals is not None:
        held = one.intervals
        intervals = (
            f"{held.n:,} intervals of {one.confidence:g} of the waiting time held the detection in {held.held:.3f} of "
            f"all cases; they are {held.spread:,.1f} {one.unit} long and begin {held.distance:,.1f} {one.unit} ahead, "
            "in the mean."
        )
    return (
        f"<section><h2>{escape(one.pattern)}, split by {one.split}</h2>"
        f"<p>Horizon {escape(one.horizon)}; order {one.order}; learnt from {one.n_learnt:,} events, tried on "
        f"{one.n_tried:,}, of which {one.n_detected:,} were followed by a detection; {one.n_censored:,} censored. The "
        f"grid of time moves a probability by {one.grid_error:.3f} at most.</p>"
        "<table><tr><th>method</th><th>Brier</th><th>log loss</th><th>precision</th><th>recall</th></tr>"
        f"{rows}</table><p>{intervals}</p>{_diagram(one.by_method)}</section>"
    )


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _diagram(by_method: dict[str, Scores]) -> str:
    """A diagram: forecast probability to the right, how often it happened upwards."""
    total = max(1, sum(b.n for b in by_method["forecast"].reliability))
    marks = []
    for name, own in by_method.items():
        colour = COLOURS.get(name, "#000000")
        points = [(b.forecast * SIZE, SIZE - b.happened * SIZE, b.n) for b in own.reliability]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
        marks.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1"/>')
        marks += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{2 + 6 * (n / total) ** 0.5:.1f}" fill="{colour}" '
            f'fill-opacity="0.7"><title>{escape(name)}: {n:,} forecasts</title></circle>'
            for x, y, n in points
        ]
    legend = "".join(
        f'<text x="{SIZE + 20}" y="{20 + 18 * i}" fill="{COLOURS.get(name, "#000000")}" font-size="13">{escape(name)}'
        "</text>"
        for i, name in enumerate(by_method)
    )
    return (
        f'<svg viewBox="-14 -10 {SIZE + 200} {SIZE + 34}" width="{SIZE + 200}" role="img" aria-label="reliability">'
        f'<rect width="{SIZE}" height="{SIZE}" fill="none" stroke="#bbb"/>'
        f'<line x1="0" y1="{SIZE}" x2="{SIZE}" y2="0" stroke="#bbb" stroke-dasharray="4"/>{"".join(marks)}{legend}'
        f'<text x="{SIZE / 2 - 40}" y="{SIZE + 18}" font-size="12">forecast</text></svg>'
    )
