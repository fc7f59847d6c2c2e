"""Conditions as a network has them become text that a reader of the rule recognises.

Times are exact: `0 s <= p.ts - r.ts <= 11 h 59 min 59 s` is what `p.ts - r.ts in 0..12 h` comes to in whole seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from wayeb_py.compiler.describe import amount_text
from wayeb_py.compiler.rule_query import AS_FLOATS, EXACT, KNOWN, SINCE, UNTIL
from wayeb_py.dsl.semantics.rules.times.explained import span_text
from wayeb_py.kernels.ticks import FOREVER, NEVER
from wayeb_py.rules.conditions import AnyCondition, Column, Equal, Expression, Near, Within
from wayeb_py.rules.planning.query import Query


def conditions_text(conditions: Sequence[AnyCondition], query: Query, ticks_per_s: int) -> str:
    """Conditions by the query's members, joined by `and`; conditions with the same text appear once."""
    texts = (condition_text(condition, query, ticks_per_s) for condition in conditions)
    return " and ".join(dict.fromkeys(texts))


def condition_text(condition: AnyCondition, query: Query, ticks_per_s: int) -> str:
    """A condition by the query's members."""

    def name(column: Column) -> str:
        return f"{query.members[column.member].name}.{_attribute(column.name)}"

    match condition:
        case Equal(first, second):
            if len(first) == len(second) == 1:
                return f"{name(first[0])} = {name(second[0])}"
            one, several = (first, second) if len(first) == 1 else (second, first)
            return f"{name(one[0])} in {{{', '.join(map(name, several))}}}"
        case Within(first, second):
            return _within_text(condition, query, name(first), name(second), ticks_per_s)
        case Near(first, second, reach_m, less):
            one_name, other_name = (query.members[side[0].member].name for side in (first, second))
            return f"distance({one_name}, {other_name}) {'<' if less else '<='} {amount_text(reach_m, ' m')}"
        case Expression(text=text) if text:
            return text
    return str(getattr(condition, "name", condition))


def _within_text(condition: Within, query: Query, first: str, second: str, ticks_per_s: int) -> str:
    if condition.first.name == SINCE and condition.least == 0:
        return f"{query.members[condition.first.member].name} begins by {second}"
    if condition.second.name == UNTIL and condition.least == 1:
        return f"{query.members[condition.second.member].name} ends after {first}"
    least, most = condition.least, condition.most
    if least == NEVER and most == FOREVER:
        return f"{first} and {second} at any times"
    if most == FOREVER:
        return f"{second} - {first} >= {_signed(least, ticks_per_s)}"
    if least == NEVER:
        return f"{second} - {first} <= {_signed(most, ticks_per_s)}"
    if least == most == 0:
        return f"{second} = {first}"
    if least < 0 <= -most or most < 0:  # the other way round it has no signs
        return _within_text(condition.flipped(), query, second, first, ticks_per_s)
    return f"{_signed(least, ticks_per_s)} <= {second} - {first} <= {_signed(most, ticks_per_s)}"


def _signed(ticks: int, ticks_per_s: int) -> str:
    return ("-" if ticks < 0 else "") + span_text(abs(ticks), ticks_per_s)


def _attribute(column: str) -> str:
    """What a rule calls a column of a table."""
    if column[:1] in (EXACT, AS_FLOATS):
        return column[1:]
    return {KNOWN: "decided_ts", SINCE: "start_ts", UNTIL: "ts"}.get(column, column)
