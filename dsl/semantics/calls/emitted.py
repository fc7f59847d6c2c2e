"""What a pattern emits: columns of its last event, and measures, which are computed over the match.

    emit lon, max(speed) as top, sum(moved()) / duration() as pace

A measure is a call that takes a value of one event and gives one of the match. What stands outside of every measure
belongs to the last event: `speed - min(speed)` is `last(speed) - min(speed)`. Names come from `as`; without it a column
has its own name, and a measure of a column both names: `max(speed)` is called `max_speed`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics import quantities
from wayeb_py.dsl.semantics.matches.measures import measure_of
from wayeb_py.dsl.semantics.resolve import Resolver
from wayeb_py.dsl.semantics.scope import Pairing, Scope, text_at
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.units import UNITS
from wayeb_py.dsl.walk import walk
from wayeb_py.errors import SourceText

# The columns that every detection has, and those that a detection of a pair or of a silence has besides.
DETECTION_COLUMNS = ("pattern", "place", "entity", "ts", "seq", "start_ts", "start_seq")
COLUMNS_OF_A_CLOCK = ("other", "decided_ts")
EPISODE_COLUMNS = ("end_ts", "end_seq", "n_detections")  # which an episode has besides what its pattern emits


@dataclass(slots=True)
class Emitted:
    """Columns of the last event (in a pair, with the entity of each), measures, and the names of all in their order."""

    columns: tuple[str, ...] = ()
    of: tuple[tuple[m.Role, str], ...] = ()
    measures: tuple[m.MeasuredColumn, ...] = ()
    order: tuple[str, ...] = field(default=())


def emitted_by(
    scope: Scope, pattern: t.Pattern, source: SourceText, each: tuple[str, str] | None, pair: Pairing | None
) -> Emitted:
    """What the `emit` of a pattern says; reports what is wrong in it and leaves it out."""
    found = Emitted()
    resolver = _MatchResolver(scope)
    for item in pattern.emit.columns if pattern.emit is not None else ():
        column: m.MeasuredColumn | _LastColumn | None
        if isinstance(item, t.EmittedValue):
            column = resolver.measured(item, source, each, pair)
        elif pair is not None:
            column = _column_of_pair(pair, item, found, source)
        elif isinstance(item, t.Emitted) and item.variable is None:
            column = resolver.measured(_renamed(item), source, each, pair)
        else:
            column = _column(scope, item, found, source)
        has_clock = pair is not None or pattern.silence is not None
        if column is not None and not _is_taken(scope, column, item, found, has_clock, source):
            found.order = (*found.order, column.name)
            if isinstance(column, m.MeasuredColumn):
                found.measures = (*found.measures, column)
            else:
                found.columns = (*found.columns, column.name)
                found.of = (*found.of, (column.role, column.column)) if pair is not None else ()
    return found


@dataclass(frozen=True, slots=True)
class _LastColumn:
    name: str
    role: m.Role
    column: str


def _renamed(item: t.Emitted) -> t.EmittedValue:
    """`speed as v` as a value."""
    return t.EmittedValue(t.Name(item.column, span=item.span), item.name, span=item.span)


def _is_taken(
    scope: Scope, column: m.MeasuredColumn | _LastColumn, item: Any, found: Emitted, has_clock: bool, source: SourceText
) -> bool:
    """Whether a name is in use already; a report if it is."""
    name, report = column.name, scope.report
    shown = text_at(source, item.value.span) if isinstance(item, t.EmittedValue) else ""
    renamed = f"`emit {shown} as {_suggested(name)}`"
    if isinstance(item, t.Emitted) and item.variable is not None:
        renamed = f"`emit {item.variable}.{item.column} as {item.column}_{item.variable}`"
    if name in found.order:
        if isinstance(item, t.Name):
            report.error(source, f"`{name}` is emitted twice", item.span, "once before it already")
        else:
            report.error(source, f"two columns are called `{name}`", item.span, "once before it already",
                         f"give it another name: {renamed}")  # fmt: skip
        return True
    if name in DETECTION_COLUMNS or (has_clock and name in COLUMNS_OF_A_CLOCK):
        is_name = isinstance(item, t.Name)
        label, hint = ("leave it out", None) if is_name else ("needs another name", f"write {renamed}")
        report.error(source, f"every detection has a column `{name}` already", item.span, label, hint)
        return True
    if name in EPISODE_COLUMNS:
        report.error(source, f"every episode has a column `{name}` already", item.span, "needs another name",
                     f"write {renamed if shown else f'`emit {name} as {_suggested(name)}`'}")  # fmt: skip
        return True
    return False


def _suggested(name: str) -> str:
    return f"{name}_of_match"


def _column(scope: Scope, item: t.Name | t.Emitted, found: Emitted, source: SourceText) -> _LastColumn | None:
    """A column of the last event."""
    if isinstance(item, t.Emitted):
        what, hint = "only columns of the events can be emitted", "write `emit speed, fuel`"
        scope.report.error(source, what, item.sign_span, "`.` stands here", hint)
        return None
    scope.mentioned.add(item.name)
    is_known = item.name in found.order or item.name in DETECTION_COLUMNS
    if not is_known and scope.has_attr_lines and item.name not in scope.attributes:
        close = scope.report.suggest(item.name, list(scope.attributes))
        if close is None and item.name in scope.lets:
            close = f"give the value of the `let` a name: `emit last({item.name}) as {item.name}`"
        scope.report.error(source, f"unknown attribute `{item.name}`", item.span, "not in the event schema", close)
    return _LastColumn(item.name, "a", item.name)


def _column_of_pair(pair: Pairing, item: t.Name | t.Emitted, found: Emitted, source: SourceText) -> _LastColumn | None:
    """A column of the newest event of a or of b."""
    report = pair.scopes["a"].report
    a, b = pair.meaning.variables
    column = item.name if isinstance(item, t.Name) else item.column
    variable = None if isinstance(item, t.Name) else item.variable
    if variable not in pair.roles:
        alone = f"`{column}` stands alone, and a pair has two"
        who = alone if variable is None else f"`{variable}` is not an entity of this pair"
        report.error(source, who, item.span, "whose?", f"write `emit {a}.{column}` or `emit {b}.{column}`")
        return None
    role = pair.roles[variable]
    scope = pair.scopes[role]
    name = column if isinstance(item, t.Name) or item.name is None else item.name
    is_taken = name in found.order or name in (*DETECTION_COLUMNS, *COLUMNS_OF_A_CLOCK)
    if not is_taken and scope.has_attr_lines and column not in scope.attributes:
        hint = report.suggest(column, list(scope.attributes))
        label = f"not in the event schema of `{scope.stream.name}`"
        report.error(source, f"unknown attribute `{column}`", item.span, label, hint)
    scope.mentioned.add(column)
    return _LastColumn(name, role, column)


class _MatchResolver(Resolver):
    """Finds the meaning of values over a match."""

    of_whole_match = True

    def measured(
        self, item: t.EmittedValue, source: SourceText, each: tuple[str, str] | None, pair: Pairing | None
    ) -> m.MeasuredColumn | None:
        """A computed column; None, and a report, if something is wrong with it."""
        result = self.resolve(item.value, source, each, in_regex=False, pair=pair)
        value = quantities.as_value(self, result, item.value, "emitted")
        if value is None:
            return None
        if value.is_constant:
            self.error("this is the same in every detection", item.value.span, "no column and no measure")
            return None
        name = item.name or _own_name(item.value)
        if name is None:
            text = text_at(source, item.value.span)
            self.error("a computed column needs a name", item.value.span, "no `as` follows it",
                       f"write `emit {text} as NAME`")  # fmt: skip
            return None
        unit = next((name for name, known in UNITS.items() if known == value.unit), None)
        return m.MeasuredColumn(name, at_the_last_event(value.value, value.kind), value.kind, unit)


def at_the_last_event(value: m.Value, kind: m.Kind | None) -> m.Value:
    """The value with everything outside of measures taken at the last event."""
    if not any(isinstance(part, m.Measure) for part in walk(value)):
        return m.Measure("last", value, kind)
    if not isinstance(value, m.Arithmetic | m.FunctionCall):
        return value
    operands = tuple(
        operand if isinstance(operand, m.Constant) else at_the_last_event(operand, None) for operand in value.operands
    )
    return replace(value, operands=operands)


def _own_name(node: t.Expression) -> str | None:
    """The name of a column without `as`: that of its measure, with the column that it is of."""
    if isinstance(node, t.Name):
        return node.name
    if not isinstance(node, t.Call) or measure_of(node) is None:
        return None
    if not node.arguments:
        return node.function
    match node.arguments:
        case (t.Name(name=name),):
            return f"{node.function}_{name}"
        case (t.Column(variable=variable, column=column),):
            return f"{node.function}_{column}_{variable}"
    return None
