"""The expression after `where` becomes conditions: one for each part that `and` joins, each with its own text.

Nested `and`s are one list, `not (a or b)` is two conditions, and `not x.ts < y.ts` is `x.ts >= y.ts`: rows that happen
have their times, so a comparison of them and its opposite are never both false. So each condition that a join can use
stands by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.letters import as_predicate, written_text
from wayeb_py.dsl.semantics.rules.resolve import RuleResolver
from wayeb_py.dsl.semantics.rules.times.differences import is_of_moments
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.errors import SourceText

_REGEXES = (t.Sequence, t.Intersection, t.Union, t.Complement, t.Iteration, t.Skip)
_OPPOSITE: dict[str, m.Comparator] = {">": "<=", ">=": "<", "<": ">=", "<=": ">", "=": "!=", "!=": "="}


def conditions_of(r: RuleResolver, where: t.Expression | None, source: SourceText) -> list[m.Condition]:
    """The conditions; reports those with an error and those that say nothing, and leaves them out."""
    found: list[m.Condition] = []
    for part in _parts(where) if where is not None else ():
        if isinstance(part, _REGEXES):
            _report_regex(r, part, source)
            continue
        result = r.resolve(part, source, in_regex=False)
        predicate = as_predicate(r, result, part, "and", part.span)
        if predicate is None:
            continue
        text = written_text(source, part)
        timed = [name for name, rows in r.members.items() if rows.has_time]
        for one in split(predicate.predicate, timed):
            if isinstance(one, m.Always | m.Never):
                _report_constant(r, one, part, text)
            else:
                found.append(m.Condition(one, text, span=part.span))
    return found


def _report_regex(r: RuleResolver, part: t.Expression, source: SourceText) -> None:
    spans = getattr(part, "operator_spans", ()) or (getattr(part, "operator_span", part.span),)
    r.report.error(
        source,
        "a rule has conditions, and this is a regex",
        spans[0],
        "joins letters of a pattern",
        "write `and` or `or` between conditions; what comes after what is said by times: `x.ts < y.ts`",
    )


def _parts(where: t.Expression) -> Iterator[t.Expression]:
    """The parts that `and` joins, from left to right, without their parentheses."""
    waiting = [where]
    while waiting:
        part = waiting.pop()
        while isinstance(part, t.Parentheses):
            part = part.body
        if isinstance(part, t.And):
            waiting.extend(reversed(part.operands))
        else:
            yield part


def split(predicate: m.Predicate, timed: Collection[str]) -> list[m.Predicate]:
    """The predicates that must all hold for this one to hold; `timed` are the members that have times."""
    found: list[m.Predicate] = []
    waiting = [predicate]
    while waiting:
        match waiting.pop():
            case m.And(operands):
                waiting.extend(reversed(operands))
            case m.Not(m.Or(operands)):
                waiting.extend(m.Not(operand) for operand in reversed(operands))
            case m.Not(m.Not(operand)):
                waiting.append(operand)
            case m.Not(m.Always()):
                found.append(m.Never())
            case m.Not(m.Never()):
                found.append(m.Always())
            case m.Not(m.Compare(comparator, left, right)) if is_of_moments(left, timed) and is_of_moments(
                right, timed
            ):
                found.append(m.Compare(_OPPOSITE[comparator], left, right))
            case other:
                found.append(other)
    return found


def _report_constant(r: RuleResolver, predicate: m.Always | m.Never, part: t.Expression, text: str) -> None:
    if isinstance(predicate, m.Always):
        r.error(f"`{text}` is always true", part.span, "says nothing of the rows", "leave it out")
    else:
        r.error(f"`{text}` is never true", part.span, "no rows satisfy it")
