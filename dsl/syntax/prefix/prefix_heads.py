"""An operator or predicate of the older prefix form, with its arguments, becomes a tree of this language.

`#` and `@` take one formula in the Scala engine, `#(;(A,B))`, and several here, `#(A,B)`: both are read. Over a
sequence the formula's own steps are those of the policy; over an iteration its rounds are; over a union or a complement
the policy says nothing. Steps inside a step stay contiguous, as in `@(A, B ; C)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.errors.syntax_error import PatternSyntaxError
from wayeb_py.dsl.syntax.lexicon import MAX_LITERAL
from wayeb_py.dsl.syntax.precedence import ATOM, COMPLEMENT, enclosed
from wayeb_py.dsl.wording import shown
from wayeb_py.errors import Span

BARE = "TruePredicate"
_TYPE = "type"
_NUMBER = re.compile(r"(-?)(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)", re.ASCII)

# Predicates.


@dataclass(frozen=True, slots=True)
class Arguments:
    words: list[tuple[str, Span]]
    span: Span

    def name(self, i: int) -> t.Name:
        word, span = self.words[i]
        if "`" in word:
            raise PatternSyntaxError("this is not the name of an attribute", span, "not a name")
        return t.Name(word.strip('"') or "_", span=span)

    def text(self, i: int) -> t.Text:
        word, span = self.words[i]
        return t.Text(word[1:-1] if word.startswith('"') and len(word) > 1 else word, span=span)

    def number(self, i: int, unit: str | None = None) -> t.Expression:
        word, span = self.words[i]
        match = _NUMBER.fullmatch(word) if len(word) <= MAX_LITERAL else None
        if match is None or abs(_exponent(match[2])) > MAX_LITERAL:
            raise PatternSyntaxError(f"`{shown(word)}` is not a number", span, "a number is expected here")
        number = t.Number(match[2], unit, span=span)
        return t.Negative(number, span=span) if match[1] else number

    def value(self, i: int) -> t.Expression:
        return self.number(i) if _NUMBER.fullmatch(self.words[i][0]) else self.text(i)

    def place(self) -> t.Call:
        return t.Call(
            "distance",
            (t.Call("point", (self.number(0), self.number(1)), span=self.span, name_span=self.span),),
            span=self.span,
            name_span=self.span,
        )


def _exponent(literal: str) -> int:
    digits = literal.lower().partition("e")[2]
    return int(digits) if digits and len(digits) < 8 else 0 if not digits else MAX_LITERAL + 1


def _comparing(sign: str) -> Callable[[Arguments], t.Expression]:
    def make(a: Arguments) -> t.Expression:
        value = a.value(1) if sign == "=" else a.number(1)
        return t.Compare(sign, a.name(0), value, span=a.span, operator_span=a.span)  # type: ignore[arg-type]

    return make


PREDICATES: dict[str, tuple[int, str, Callable[[Arguments], t.Expression]]] = {
    "IsEventTypePredicate": (
        1,
        "IsEventTypePredicate(A)",
        lambda a: t.Compare("=", t.Name(_TYPE, span=a.span), a.text(0), span=a.span, operator_span=a.span),
    ),
    "EQ": (2, "EQ(speed,5)", _comparing("=")),
    "GT": (2, "GT(speed,5)", _comparing(">")),
    "LT": (2, "LT(speed,5)", _comparing("<")),
    "GTE": (2, "GTE(speed,5)", _comparing(">=")),
    "LTE": (2, "LTE(speed,5)", _comparing("<=")),
    "BT": (3, "BT(speed,5,9)", lambda a: t.Between(a.name(0), a.number(1), a.number(2), False, span=a.span)),
    "EQStr": (
        2,
        "EQStr(engine,off)",
        lambda a: t.Compare("=", a.name(0), a.text(1), span=a.span, operator_span=a.span),
    ),
    "WithinCirclePredicate": (
        3,
        "WithinCirclePredicate(-4.47,48.38,5)",
        lambda a: t.Compare("<=", a.place(), a.number(2, "km"), span=a.span, operator_span=a.span),
    ),
    "OutsideCirclePredicate": (
        3,
        "OutsideCirclePredicate(-4.47,48.38,5)",
        lambda a: t.Compare(">", a.place(), a.number(2, "km"), span=a.span, operator_span=a.span),
    ),
    "DistanceBetweenPredicate": (
        4,
        "DistanceBetweenPredicate(-4.47,48.38,7,10)",
        lambda a: t.Between(a.place(), a.number(2), a.number(3, "km"), False, span=a.span),
    ),
    BARE: (0, "TruePredicate()", lambda a: t.Word("any", span=a.span)),
}
POSITIONED = frozenset(["WithinCirclePredicate", "OutsideCirclePredicate", "DistanceBetweenPredicate"])


# Operators.

_Build = Callable[[list[t.Expression], Span], t.Expression]
_PREDICATE_NODES = (t.Compare, t.Between, t.Not, t.And, t.Or)


def as_regex(node: t.Expression) -> t.Expression:
    """The expression as a part of a regex: a predicate stands in parentheses there."""
    return t.Parentheses(node, span=node.span) if isinstance(node, _PREDICATE_NODES) else node


def _grouped(node: t.Expression, at_least: int) -> t.Expression:
    made = enclosed(node, at_least)
    return made if made is node else t.Parentheses(node, span=node.span)


def _joined(build: Callable[..., t.Expression]) -> _Build:
    def make(parts: list[t.Expression], span: Span) -> t.Expression:
        # Nested joints keep parentheses of their own, as the older form has them.
        operands = tuple(_grouped(as_regex(part), COMPLEMENT) for part in parts)
        return build(operands, span=span, operator_spans=(span,) * (len(parts) - 1))

    return make


def _joined_predicates(build: Callable[..., t.Expression]) -> _Build:
    def make(parts: list[t.Expression], span: Span) -> t.Expression:
        simple = (t.Compare, t.Between, t.Word, t.Not)
        operands = tuple(part if isinstance(part, simple) else t.Parentheses(part, span=part.span) for part in parts)
        return build(operands, span=span, operator_spans=(span,) * (len(parts) - 1))

    return make


def negated(parts: list[t.Expression], span: Span) -> t.Expression:
    (part,) = parts
    simple = isinstance(part, (t.Compare, t.Between, t.Word, t.Not))
    return t.Not(part if simple else t.Parentheses(part, span=part.span), span=span, operator_span=span)


def _skipping(policy: Literal["#", "@"]) -> _Build:
    def make(parts: list[t.Expression], span: Span) -> t.Expression:
        if len(parts) > 1:
            return t.Skip(policy, tuple(map(as_regex, parts)), span=span)
        (formula,) = parts
        if isinstance(formula, t.Sequence):
            return t.Skip(policy, formula.operands, span=span)
        if isinstance(formula, t.Iteration):
            once = formula.operand
            between: t.Expression = t.Iteration(t.Word("any", span=span), 0, None, span=span, operator_span=span)
            if policy == "@":
                holds_one = t.Sequence((between, once, between), span=span, operator_spans=(span, span))
                between = t.Complement(t.Parentheses(holds_one, span=span), span=span, operator_span=span)
            again = t.Parentheses(t.Sequence((between, once), span=span, operator_spans=(span,)), span=span)
            rounds = t.Sequence(
                (once, t.Iteration(again, 0, None, span=span, operator_span=span)), span=span, operator_spans=(span,)
            )
            return t.Iteration(t.Parentheses(rounds, span=span), 0, 1, span=span, operator_span=span)
        return formula

    return make


COUNTED = {1: "one argument", 2: "two arguments"}
OPERATORS: dict[str, tuple[int, _Build]] = {
    ";": (2, _joined(t.Sequence)),
    "+": (2, _joined(t.Union)),
    "*": (
        1,
        lambda parts, span: t.Iteration(_grouped(as_regex(parts[0]), ATOM), 0, None, span=span, operator_span=span),
    ),
    "!": (1, lambda parts, span: t.Complement(_grouped(as_regex(parts[0]), COMPLEMENT), span=span, operator_span=span)),
    "#": (1, _skipping("#")),
    "@": (1, _skipping("@")),
    "^": (2, _joined_predicates(t.And)),
    "|": (2, _joined_predicates(t.Or)),
    "-": (1, negated),
}
