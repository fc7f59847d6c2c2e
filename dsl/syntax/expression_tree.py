"""The tree of an expression: names, numbers, calls, and what joins them, parentheses included.

Predicates and regexes share one family: at an opening parenthesis the parser cannot tell `(off)` from `((a + b) * 2 >
3)`, and the checker, which knows the names, decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from fractions import Fraction
from operator import attrgetter
from typing import Any, Literal

from wayeb_py.dsl.node import NOWHERE, Node, Spanned, node
from wayeb_py.errors import Span


class Tree(Spanned, Node):
    """Anything that has a text."""

    __slots__ = ()


class Expression(Tree):
    """A value, a predicate or a regex."""

    __slots__ = ()


@node
class Name(Expression):
    name: str


@node
class Number(Expression):
    """A number as it was written, and its unit."""

    literal: str
    unit: str | None = None

    @property
    def value(self) -> Fraction:
        """The number exactly, in its own unit."""
        return Fraction(self.literal)

    @property
    def text(self) -> str:
        """The number with its unit."""
        return self.literal if self.unit is None else f"{self.literal} {self.unit}"


@node
class Text(Expression):
    value: str


@node
class Word(Expression):
    """`any`, `none`, `true` or `false`."""

    word: Literal["any", "none", "true", "false"]


@node
class Call(Expression):
    function: str
    arguments: tuple[Expression, ...]
    name_span: Span = field(default=NOWHERE, compare=False)


@node
class Entry(Expression):
    """One entry of background knowledge: `port["Brest"]`."""

    places: str
    entry: str


@node
class Column(Expression):
    """A column of the row that `for each` is at: `p.limit`."""

    variable: str
    column: str


@node
class Parentheses(Expression):
    """An expression in parentheses."""

    body: Expression


@node
class Negative(Expression):
    operand: Expression


@node
class Arithmetic(Expression):
    operator: Literal["+", "-", "*", "/"]
    left: Expression
    right: Expression
    operator_span: Span = field(default=NOWHERE, compare=False)


@node
class Compare(Expression):
    comparator: Literal[">", ">=", "<", "<=", "=", "!="]
    left: Expression
    right: Expression
    operator_span: Span = field(default=NOWHERE, compare=False)


@node
class Between(Expression):
    """`x in low..high`, or `x not in low..high`."""

    value: Expression
    low: Expression
    high: Expression
    negated: bool = False


@node
class OneOf(Expression):
    """`x in {a, b}`, or `x not in {a, b}`."""

    value: Expression
    options: tuple[Expression, ...]
    negated: bool = False


@node
class Not(Expression):
    operand: Expression
    operator_span: Span = field(default=NOWHERE, compare=False)


@node
class And(Expression):
    operands: tuple[Expression, ...]
    operator_spans: tuple[Span, ...] = field(default=(), compare=False)


@node
class Or(Expression):
    operands: tuple[Expression, ...]
    operator_spans: tuple[Span, ...] = field(default=(), compare=False)


@node
class Sequence(Expression):
    operands: tuple[Expression, ...]
    operator_spans: tuple[Span, ...] = field(default=(), compare=False)


@node
class Intersection(Expression):
    operands: tuple[Expression, ...]
    operator_spans: tuple[Span, ...] = field(default=(), compare=False)


@node
class Union(Expression):
    operands: tuple[Expression, ...]
    operator_spans: tuple[Span, ...] = field(default=(), compare=False)


@node
class Complement(Expression):
    operand: Expression
    operator_span: Span = field(default=NOWHERE, compare=False)


@node
class Iteration(Expression):
    """`R*`, `R+`, `R?`, `R{n}`, `R{n,}`, `R{n,m}`; `{1,}` and `+` are equal, and print as they were written."""

    operand: Expression
    at_least: int
    at_most: int | None
    operator_span: Span = field(default=NOWHERE, compare=False)
    written: str = field(default="", compare=False)


@node
class Named(Expression):
    """`(speed < 1) as x`: a letter whose event has a name."""

    operand: Expression
    name: str
    name_span: Span = field(default=NOWHERE, compare=False)


@node
class Skip(Expression):
    """`#(R1, …, Rn)` or `@(R1, …, Rn)`."""

    policy: Literal["#", "@"]
    operands: tuple[Expression, ...]


_PARTS: dict[type, Callable[[Any], tuple[Expression, ...]]] = {
    **dict.fromkeys((Sequence, Union, Intersection, Skip, And, Or), attrgetter("operands")),
    **dict.fromkeys((Compare, Arithmetic), attrgetter("left", "right")),
    **dict.fromkeys((Not, Complement, Iteration, Named, Negative), lambda node: (node.operand,)),
    Parentheses: lambda node: (node.body,),
    Call: attrgetter("arguments"),
    Between: attrgetter("value", "low", "high"),
    OneOf: lambda node: (node.value, *node.options),
}


def parts_of(node: Expression) -> tuple[Expression, ...]:
    """The expressions directly inside an expression, in the order of the text."""
    parts = _PARTS.get(type(node))
    return () if parts is None else parts(node)
