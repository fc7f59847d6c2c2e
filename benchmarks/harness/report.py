"""The newest records become one HTML page: a figure, a table and the command that repeats it for each experiment.

The page holds everything it shows, so that it can be sent as one file.
"""

from __future__ import annotations

import tempfile
from html import escape
from pathlib import Path

from benchmarks.harness.draw import draw
from benchmarks.harness.record import Record, Value, figure_name

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem } h2 { font-size: 1.2rem; margin-top: 2.5rem; border-top: 1px solid #ddd; padding-top: 1rem }
table { border-collapse: collapse; font-size: .85rem; margin: .8rem 0; display: block; overflow-x: auto }
th, td { padding: .15rem .6rem; text-align: right; border-bottom: 1px solid #eee; white-space: nowrap }
th:first-child, td:first-child { text-align: left } .fail { color: #b00; font-weight: 600 } .pass { color: #070 }
.warn { background: #fff3d6; padding: .3rem .6rem } svg { max-width: 100%; height: auto } code { background: #f4f4f4 }
.facts { color: #666; font-size: .85rem }
"""


def write_report(records: list[Record], folder: Path, out: Path) -> None:
    """Writes the page."""
    sections = "\n".join(_section(record, folder) for record in records)
    links = " · ".join(f'<a href="#{escape(r.experiment)}">{escape(r.experiment)}</a>' for r in records)
    out.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>wayeb_py: measured</title><style>{STYLE}</style>'
        f"<h1>wayeb_py: measured</h1><p>Every experiment checks its detections before it reports. Ratios are of runs "
        f"in turn on the same machine.</p><p>{links}</p>{sections}</html>\n"
    )


def _section(record: Record, folder: Path) -> str:
    machine = record.machine
    facts = (
        f"{record.date[:16].replace('T', ' ')} UTC · commit {record.commit} · {machine.get('processor')}, "
        f"{machine.get('cores')} cores, {machine.get('memory_gb', '?')} GB · Python {machine.get('python')} · "
        + ", ".join(f"{name} {number}" for name, number in record.versions.items())
        + (f" · seed {record.seed}" if record.seed is not None else "")
        + f" · size {record.size} · {record.seconds:.0f} s"
    )
    parts = [f'<h2 id="{escape(record.experiment)}">{escape(record.experiment)}</h2><p>{escape(record.sentence)}</p>']
    if record.disturbed:
        others = f"{record.cores_used_by_others:.1f} cores"
        parts.append(f'<p class="warn">Other processes used {others} meanwhile: not to be quoted.</p>')
    for number in range(len(record.figures)):
        svg = _svg(record, number, folder)
        parts.append(f"<figure>{svg[svg.index('<svg') :]}</figure>")
    parts += [f"<p>{escape(note)}</p>" for note in record.notes]
    if record.bounds:
        items = "".join(f'<li class="{b.verdict.lower()}">{escape(str(b))}</li>' for b in record.bounds)
        parts.append(f"<ul>{items}</ul>")
    if record.rows:
        parts.append(_table(record.rows))
    if record.numbers:
        parts.append(_table([{"what": name, "measured": value} for name, value in record.numbers.items()]))
    if record.checks:
        parts.append(f"<details><summary>{len(record.checks)} checks of the answers</summary><ul>")
        parts.append("".join(f"<li>{escape(check)}</li>" for check in record.checks) + "</ul></details>")
    parts.append(f'<p>Repeat: <code>{escape(record.command)}</code></p><p class="facts">{escape(facts)}</p>')
    return "\n".join(parts)


def _svg(record: Record, number: int, folder: Path) -> str:
    """The figure beside the record, or drawn from it: published records have none beside them."""
    path = folder / f"{figure_name(record.name, number)}.svg"
    if path.exists():
        return path.read_text()
    with tempfile.TemporaryDirectory() as made:
        draw(record.figures[number], record, Path(made, "figure"))
        return Path(made, "figure.svg").read_text()


def _table(rows: list[dict[str, Value]]) -> str:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(show(row.get(column)))}</td>" for column in columns) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def show(value: Value) -> str:
    """A value as a table shows it."""
    if value is None:
        return "–"
    if isinstance(value, bool | str):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
