"""The values of an event become text, with how far a value is from one that would have matched."""

from __future__ import annotations

import numpy as np

from wayeb_py.columns import to_float
from wayeb_py.compiler.axes import Axis, Pair, Subject
from wayeb_py.compiler.describe import Names, amount_text, subject_text, unit_of
from wayeb_py.dsl import meaning as m
from wayeb_py.why.indexed_words import Words


def measured(subject: Subject) -> tuple[Subject, ...]:
    """What to show for a subject: both sides of a comparison, and the distance for `near`."""
    match subject:
        case Pair(left, right):
            return tuple(side for side in (left, right) if not isinstance(side, m.Constant))
        case m.Near(places):
            return (m.Distance(places),)
        case m.HoldsOf(role, m.Near(places)):
            return (m.Of(role, m.Distance(places)),)
        case _:
            return (subject,)


def value_text(words: Words, subject: Subject, row: int) -> str:
    """A value at an event, with its unit."""
    column = words.values.column(subject, words.chunk)
    match column.kind:
        case "text":
            texts = column.words or []
            code = int(column.values[row])
            text = texts[code] if code < len(texts) else None
            return "missing" if text is None else f'"{text}"'
        case "bool":
            return ("false", "true", "missing")[int(column.values[row])]
        case _:
            number = _number(words, subject, row)
            return "missing" if np.isnan(number) else amount_text(number, unit_of(subject))


def values_at(words: Words, subject: Subject, row: int, names: Names) -> str:
    """All that is shown for a subject at an event; values other than the subject itself have their names."""
    shown = []
    for part in measured(subject):
        value = value_text(words, part, row)
        shown.append(value if part == subject else f"{subject_text(part, names)} {value}")
    return ", ".join(shown)


def missed_by(words: Words, axis: Axis, cells: list[int], row: int) -> str | None:
    """How far the value is from the cells that would have matched, where there is a distance at all."""
    subject = axis.subject
    near = subject.operand if isinstance(subject, m.HoldsOf) else subject
    if isinstance(near, m.Near):
        (away,) = measured(subject)
        too_far = _number(words, away, row) - float(near.distance_m)
        return None if np.isnan(too_far) else amount_text(abs(too_far), " m")
    if isinstance(subject, Pair):
        difference = _number(words, subject.left, row) - _number(words, subject.right, row)
        return None if np.isnan(difference) else amount_text(abs(difference), unit_of(subject.left))
    if axis.sort != "numbers":
        return None
    value = _number(words, subject, row)
    if np.isnan(value):
        return None
    gaps = []
    for cell in cells:
        if cell < axis.n_cells - 1:
            low = float(axis.cuts[cell - 1].value) if cell > 0 else -np.inf
            high = float(axis.cuts[cell].value) if cell < len(axis.cuts) else np.inf
            gaps.append(max(low - value, value - high, 0.0))
    return amount_text(min(gaps), unit_of(subject)) if gaps else None


def _number(words: Words, subject: Subject, row: int) -> float:
    column = words.values.column(subject, words.chunk)
    return float(to_float(column.slice(row, row + 1))[0]) if column.kind in ("number", "time") else float("nan")
