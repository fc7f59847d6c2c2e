"""Arithmetic and comparisons: kinds must agree, units are converted exactly, constants are worked out.

A constant is converted to the unit of what it is compared with, never the other way round, so that the engine compares
a column's own values with a constant. Two columns in different units need a factor; the right one gets it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any, cast

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.functions import USAGE
from wayeb_py.dsl.named_events import asks_one_event, remembers
from wayeb_py.dsl.semantics.context import Context
from wayeb_py.dsl.semantics.scope import KIND_NAMES, column_key, text_at
from wayeb_py.dsl.semantics.times import read_instant
from wayeb_py.dsl.semantics.typed_expressions import WRONG, Placed, Predicated, Regexed, Result, Valued, Wrong
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.units import SECONDS, UNITS, Unit, describe_dimension, missing_unit, units_for
from wayeb_py.errors import Span

_FLIPPED: dict[str, m.Comparator] = {">": "<", ">=": "<=", "<": ">", "<=": ">=", "=": "=", "!=": "!="}
_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "=": operator.eq, "!=": operator.ne,
}  # fmt: skip
_PLAIN = Unit(Fraction(1))


def number(value: Fraction) -> m.Constant:
    """A number as a constant."""
    return m.Constant(value, "number")


def as_value(c: Context, result: Result, node: t.Expression, what: str) -> Valued | None:
    """The result as a value; None, and a report, if it is not one."""
    if isinstance(result, Valued):
        return result
    if isinstance(result, Wrong):
        return None
    text = text_at(c.source, node.span)
    if isinstance(result, Placed):
        is_what, hint = "are places", f"write `distance({c.whose()}{text})` for how far they are"
    elif isinstance(result, Regexed):
        is_what, hint = "is a regex", None
    else:
        is_what, hint = "is a predicate", None
        if what == "compared":
            hint = "a predicate is true or false by itself; write `not` before it for the opposite"
            if isinstance(node, t.Name):
                hint = f'write `"{text}"` if a text is meant; a predicate is true or false by itself'
    c.error(f"`{text}` {is_what} and cannot be {what}", node.span, "a value is expected here", hint)
    return None


def scaled(value: Valued, factor: Fraction) -> m.Value:
    """The value times a factor."""
    if factor == 1:
        return value.value
    if isinstance(value.value, m.Constant):
        return number(cast(Fraction, value.value.value) * factor)
    return m.Arithmetic("*", (value.value, number(factor)))


def align(
    c: Context, left: Valued, right: Valued, nodes: tuple[t.Expression, t.Expression]
) -> tuple[Valued, Valued] | None:
    """Two numbers in one unit; None, and a report, if they have none in common."""
    if left.unit is None and right.unit is None:
        return left, right
    if left.unit is None or right.unit is None:
        return _align_plain(c, left, right, nodes)
    if left.unit.dimension != right.unit.dimension:
        a, b = describe_dimension(left.unit), describe_dimension(right.unit)
        texts = [text_at(c.source, node.span) for node in nodes]
        hint = None
        if isinstance(nodes[1], t.Number):
            hint = f"{a} is in {units_for(left.unit)}"
            if nodes[1].unit == "m" and left.unit.dimension == SECONDS.dimension:
                hint = f"`m` is metres; write `{nodes[1].literal} min` for minutes"
        c.error(
            f"`{texts[0]}` is {a} and `{texts[1]}` is {b}",
            nodes[1].span,
            f"{b} cannot be compared with or added to {a}",
            hint,
        )
        return None
    if left.is_constant and not right.is_constant:
        return _in_unit(left, right.unit), right
    return left, _in_unit(right, left.unit)


def _in_unit(value: Valued, unit: Unit) -> Valued:
    own = value.unit or unit
    return Valued(scaled(value, own.factor / unit.factor), value.kind, unit, value.strict)


def _align_plain(
    c: Context, left: Valued, right: Valued, nodes: tuple[t.Expression, t.Expression]
) -> tuple[Valued, Valued] | None:
    """One side has a unit and the other has none."""
    plain, other, plain_node, other_node = (
        (left, right, nodes[0], nodes[1]) if left.unit is None else (right, left, nodes[1], nodes[0])
    )
    unit = cast(Unit, other.unit)
    if c.scope.stream_is_broken and not plain.is_constant:
        return None  # the block that could not be read may declare the unit
    plain_text, other_text = text_at(c.source, plain_node.span), text_at(c.source, other_node.span)
    name = plain.value.name if isinstance(plain.value, m.Attribute) else None
    if other.strict:
        hint = missing_unit(plain_text, unit) if isinstance(plain_node, t.Number) else None
        if name in USAGE:
            hint = f"a function is called with parentheses: `{USAGE[name]}`"
        elif name is not None:
            hint = f"declare its unit: `attr {name} number in {_example(unit)}`"
        elif not plain.is_constant:
            hint = f"give it one: `{plain_text} * 1 {_example(unit)}`"
        c.error(
            f"`{other_text}` is {describe_dimension(unit)}, and `{plain_text}` has no unit",
            plain_node.span,
            f"a unit is missing: {units_for(unit)}",
            hint,
        )
        return None
    if other.is_constant:
        hint = None
        written = other_node.unit if isinstance(other_node, t.Number) else None
        if name in USAGE:
            hint = f"a function is called with parentheses: `{USAGE[name]}`"
        elif name is not None and written is not None:
            hint = f"declare its unit in the stream block: `attr {name} number in {written}`"
        c.error(
            f"`{plain_text}` has no unit, and `{other_text}` is {describe_dimension(unit)}",
            other_node.span,
            "a unit that the other side does not have",
            hint,
        )
        return None
    taken = Valued(plain.value, plain.kind, unit)
    return (taken, right) if plain is left else (left, taken)


def _example(unit: Unit) -> str:
    names = {(1, 0, 0): "m", (0, 1, 0): "min", (1, -1, 0): "km/h", (0, 0, 1): "deg"}
    return names.get(unit.dimension, "…")


def want_number(c: Context, value: Valued, node: t.Expression, sign: str) -> bool:
    """Whether a value can be calculated with; a report if not."""
    if c.want_kind(value, "number", node.span):
        return True
    text = text_at(c.source, node.span)
    c.error(f"`{sign}` takes numbers, and `{text}` is {KIND_NAMES[value.kind or 'text']}", node.span, "not a number")
    return False


def negative(c: Context, node: t.Negative, part: Result) -> Result:
    """`-x`."""
    value = as_value(c, part, node.operand, "negated")
    if value is None or not want_number(c, value, node.operand, "-"):
        return WRONG
    if isinstance(value.value, m.Constant):
        return Valued(number(-cast(Fraction, value.value.value)), "number", value.unit)
    return Valued(m.Arithmetic("neg", (value.value,)), "number", value.unit, value.strict)


def arithmetic(c: Context, node: t.Arithmetic, left_result: Result, right_result: Result) -> Result:
    """`+ - * /`."""
    if isinstance(node.left, t.Number) and node.operator == "*" and isinstance(right_result, (Predicated, Regexed)):
        repeated = text_at(c.source, node.right.span)
        return c.error(
            "how often comes in braces, after what is repeated",
            node.span,
            f"`{repeated}` is no number",
            f"write `{repeated}{{{node.left.literal}}}`",
        )
    left = as_value(c, left_result, node.left, "calculated with")
    right = as_value(c, right_result, node.right, "calculated with")
    if left is None or right is None:
        return WRONG
    sign = node.operator
    if sign == "-" and left.kind == right.kind == "time":
        return _difference(left, right)
    moved = c.moved_time(node, left, right)
    if moved is not None:
        return moved
    if not want_number(c, left, node.left, sign) or not want_number(c, right, node.right, sign):
        return WRONG
    if sign in "+-":
        aligned = align(c, left, right, (node.left, node.right))
        if aligned is None:
            return WRONG
        left, right = aligned
        unit, strict = left.unit, left.strict or right.strict
    else:
        a, b = left.unit or _PLAIN, right.unit or _PLAIN
        product = a.times(b) if sign == "*" else a.per(b)
        # Twice a speed is still compared in the speed's unit; for any other product the unit would be a guess.
        multiple = right.unit is None or (sign == "*" and left.unit is None)
        of_constant = any(side.unit is not None and side.is_constant for side in (left, right))
        unit, strict = product, left.strict or right.strict or not multiple or of_constant
    if isinstance(left.value, m.Constant) and isinstance(right.value, m.Constant):
        worked_out = _work_out(c, node, sign, left.value, right.value)
        if worked_out is None:
            return WRONG
        value: m.Value = worked_out
    else:
        value = m.Arithmetic(sign, (left.value, right.value))
    return without_empty_unit(Valued(value, "number", unit, strict))


def without_empty_unit(value: Valued) -> Valued:
    """A quantity whose units cancelled, such as km / m, as the plain number that it is."""
    if value.unit is None or value.unit.dimension != (0, 0, 0):
        return value
    return Valued(scaled(value, value.unit.factor), "number", None, False)


def _difference(left: Valued, right: Valued) -> Valued:
    if isinstance(left.value, m.Constant) and isinstance(right.value, m.Constant):
        seconds = cast(Fraction, left.value.value) - cast(Fraction, right.value.value)
        return Valued(number(seconds), "number", SECONDS)
    return Valued(m.Arithmetic("-", (left.value, right.value)), "number", SECONDS, strict=True)


def _work_out(c: Context, node: t.Arithmetic, sign: str, left: m.Constant, right: m.Constant) -> m.Constant | None:
    a, b = cast(Fraction, left.value), cast(Fraction, right.value)
    if sign == "/" and b == 0:
        c.error("this divides by zero, so it is always missing", node.right.span, "zero")
        return None
    result = a + b if sign == "+" else a - b if sign == "-" else a * b if sign == "*" else a / b
    if result.numerator.bit_length() > 4096 or result.denominator.bit_length() > 4096:
        c.error("this number is out of range", node.span, "more than a 64-bit number can hold")
        return None
    return number(result)


def compare(c: Context, node: t.Compare, parts: list[Result]) -> Result:
    """`x > y` and its like."""
    left = as_value(c, parts[0], node.left, "compared")
    right = as_value(c, parts[1], node.right, "compared")
    if left is None or right is None:
        return WRONG
    made = comparison(c, node.comparator, left, right, (node.left, node.right))
    return WRONG if made is None else looked_up(c, made, node.span, left, right)


def looked_up(c: Context, predicate: m.Predicate, span: Span, *values: Valued) -> Predicated:
    """The predicate, and whether it uses the position."""
    lookups = ((c.source, span),) if any(value.looks_up for value in values) else ()
    return Predicated(predicate, lookups)


def comparison(
    c: Context, comparator: m.Comparator, left: Valued, right: Valued, nodes: tuple[t.Expression, t.Expression]
) -> m.Predicate | None:
    """One comparison; None, and a report, if the two cannot be compared."""
    left, right = _time_as_number(c, left, right), _time_as_number(c, right, left)
    if left.kind is None and right.kind is None:
        keys = column_key(left.value), column_key(right.value)
        scope = c.scope_of(left.value)
        if keys[0] is not None and keys[1] is not None and scope is c.scope_of(right.value):
            scope.kinds.alike.append((keys[0], keys[1]))
    elif left.kind is None and right.kind is not None:
        c.want_kind(left, right.kind, nodes[0].span)
    elif right.kind is None and left.kind is not None:
        c.want_kind(right, left.kind, nodes[1].span)
    elif left.kind != right.kind:
        _kinds_differ(c, left, right, nodes)
        return None
    if left.kind == "number" or left.unit is not None or right.unit is not None:
        aligned = align(c, left, right, nodes)
        if aligned is None:
            return None
        left, right = aligned
    if isinstance(left.value, m.Constant) and isinstance(right.value, m.Constant):
        return m.Always() if _HOLDS[comparator](left.value.value, right.value.value) else m.Never()
    if isinstance(left.value, m.Constant):
        return m.Compare(_FLIPPED[comparator], right.value, left.value)
    made = m.Compare(comparator, left.value, right.value)
    if left.kind == "text" and comparator not in ("=", "!=") and remembers(made) and asks_one_event(made) is None:
        # A run holds numbers: those of texts say which are the same, and not which comes first.
        c.error(
            "texts of two events of a match are compared by `=` and `!=` alone", nodes[1].span, "no order is known",
            f"compare columns of one event by `{comparator}`, or a column with a text",
        )  # fmt: skip
        return None
    return made


def _time_as_number(c: Context, value: Valued, other: Valued) -> Valued:
    """An instant that is compared with a time column of numbers, in that column's unit."""
    stream = c.scope.stream
    if value.kind != "time" or not isinstance(value.value, m.Constant) or stream.time_unit is None:
        return value
    if not isinstance(other.value, m.Attribute) or other.value.name != stream.time:
        return value
    unit = UNITS[stream.time_unit]
    return Valued(number(cast(Fraction, value.value.value) / unit.factor), "number", unit)


def _kinds_differ(c: Context, left: Valued, right: Valued, nodes: tuple[t.Expression, t.Expression]) -> None:
    a, b = KIND_NAMES[left.kind or "text"], KIND_NAMES[right.kind or "text"]
    texts = [text_at(c.source, node.span) for node in nodes]
    culprit, wanted, found = (nodes[0], b, left) if left.is_constant and not right.is_constant else (nodes[1], a, right)
    hint = None
    written = text_at(c.source, culprit.span)
    instant = isinstance(culprit, t.Text) and read_instant(culprit.value) is not None
    is_time = any(
        isinstance(side.value, m.Attribute) and side.value.name == c.scope.stream.time for side in (left, right)
    )
    if instant and is_time:
        hint = f"write `time({written})`"
    elif wanted == KIND_NAMES["text"] and (
        isinstance(culprit, t.Word) or (isinstance(culprit, t.Number) and not culprit.unit)
    ):
        hint = f'write `"{written}"`'
    elif wanted == KIND_NAMES["bool"] and isinstance(culprit, t.Number) and written in ("0", "1"):
        hint = f"write `{'true' if written == '1' else 'false'}`"
    elif wanted == KIND_NAMES["time"] and isinstance(culprit, t.Text):
        hint = f"write `time({written})`"
    elif isinstance(culprit, t.Text) and wanted in (KIND_NAMES["number"], KIND_NAMES["bool"]):
        inner = culprit.value
        numeric = inner.replace(".", "", 1).isdecimal()
        if (wanted == KIND_NAMES["number"] and numeric) or inner in ("true", "false"):
            hint = f"write `{inner}`, without quotes"
    c.error(
        f"`{texts[0]}` is {a} and `{texts[1]}` is {b}",
        culprit.span,
        f"{KIND_NAMES[found.kind or 'text']}, where {wanted} is expected",
        hint,
    )


def between(c: Context, node: t.Between, parts: list[Result]) -> Result:
    """`x in low..high`: low <= x < high."""
    value = as_value(c, parts[0], node.value, "compared")
    low = as_value(c, parts[1], node.low, "an end of a range")
    high = as_value(c, parts[2], node.high, "an end of a range")
    if value is None or low is None or high is None:
        return WRONG
    if low.unit is None and high.unit is not None and low.is_constant and low.kind == "number":
        low = Valued(low.value, low.kind, high.unit)
    if _is_reversed(low, high):
        texts = [text_at(c.source, end.span) for end in (node.low, node.high)]
        span = node.low.span.to(node.high.span)
        if low.value == high.value:
            hint = f"a range leaves out its upper end; write `= {texts[0]}` for one value"
        elif isinstance(value.value, m.Hour):
            hint = f"over midnight write `not in {texts[1]}..{texts[0]}`"
        else:
            hint = f"did you mean `{texts[1]}..{texts[0]}`?"
        return c.error("this range holds no value", span, f"nothing is at least {texts[0]} and below {texts[1]}", hint)
    below = comparison(c, "<", value, high, (node.value, node.high))
    # A mistake in the upper end is mostly one in the lower end too, and is reported once.
    at_least = None if below is None else comparison(c, ">=", value, low, (node.value, node.low))
    if at_least is None or below is None:
        return WRONG
    return _perhaps_negated(c, m.And((at_least, below)), node, value, low, high)


def _perhaps_negated(c: Context, predicate: m.Predicate, node: t.Between | t.OneOf, *values: Valued) -> Predicated:
    found = looked_up(c, predicate, node.span, *values)
    return Predicated(m.Not(predicate), (), found.lookups) if node.negated else found


def _is_reversed(low: Valued, high: Valued) -> bool:
    if not isinstance(low.value, m.Constant) or not isinstance(high.value, m.Constant) or low.kind != high.kind:
        return False
    a, b = low.value.value, high.value.value
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a * (low.unit or _PLAIN).factor >= b * (high.unit or _PLAIN).factor
    return isinstance(a, str) and isinstance(b, str) and a >= b


def one_of(c: Context, node: t.OneOf, parts: list[Result]) -> Result:
    """`x in {a, b}`: one of the comparisons holds."""
    value = as_value(c, parts[0], node.value, "compared")
    options = [as_value(c, part, option, "in a set") for part, option in zip(parts[1:], node.options, strict=True)]
    if value is None or None in options:
        return WRONG
    found = [
        comparison(c, "=", value, cast(Valued, option), (node.value, option_node))
        for option, option_node in zip(options, node.options, strict=True)
    ]
    predicates = tuple(predicate for predicate in found if predicate is not None)
    if len(predicates) < len(found):
        return WRONG
    predicate = predicates[0] if len(predicates) == 1 else m.Or(predicates)
    return _perhaps_negated(c, predicate, node, value)
