"""How tightly each kind of expression binds: the ladder that the parser climbs and the printer descends.

Both need the same numbers, and neither needs the other: with the table beside them, neither has to import the other.
"""

from __future__ import annotations

from wayeb_py.dsl.syntax import tree as t

# How tightly an expression binds, loosest first.
UNION, INTERSECTION, SEQUENCE, COMPLEMENT, OR, AND, NOT, COMPARE, SUM, PRODUCT, NEGATIVE, ITERATION, ATOM, GROUP = (
    range(1, 15)
)

_TIGHTNESS: dict[type, int] = {
    t.Union: UNION, t.Intersection: INTERSECTION, t.Sequence: SEQUENCE, t.Complement: COMPLEMENT, t.Or: OR, t.And: AND,
    t.Not: NOT, t.Compare: COMPARE, t.Between: COMPARE, t.OneOf: COMPARE, t.Negative: NEGATIVE, t.Iteration: ITERATION,
    t.Named: ITERATION,
}  # fmt: skip


def tightness(expression: t.Expression) -> int:
    """How tightly the outermost operator binds."""
    if isinstance(expression, t.Arithmetic):
        return SUM if expression.operator in "+-" else PRODUCT
    return GROUP if isinstance(expression, t.Parentheses) else _TIGHTNESS.get(type(expression), ATOM)


def enclosed(expression: t.Expression, at_least: int) -> t.Expression:
    """The expression, in parentheses where it binds less tightly than `at_least`."""
    return expression if tightness(expression) >= at_least else t.Parentheses(expression)


def operand_tightness(operand: t.Expression, at_least: int) -> int:
    """How tightly an operand of a sum or product has to bind: `a+ - b` would be a sum, and `a + any` an iteration."""
    first = operand
    while isinstance(first, t.Arithmetic):
        first = first.left
    return GROUP if isinstance(operand, (t.Iteration, t.Named)) or isinstance(first, (t.Word, t.Skip)) else at_least
