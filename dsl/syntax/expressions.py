"""The text of an expression becomes a tree, by a precedence loop with an explicit stack.

One ladder serves predicates and regexes, loosest first:

    |   &   ;   !   or   and   not   comparisons and `in`   + -   * /   sign   iteration

The declarations' grammar sees an expression as one pyparsing token. pyparsing's own `infix_notation` was tried: it took
ten times as long, and minutes for a nesting of 500. The stack also supplies the messages: what is open, and what was
expected.

`+` and `*` are binary where a value follows and iterations elsewhere, so `off+ (x > 3)` is read as a sum; the
checker, which knows that `off` is a predicate, sees the `;` that was forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from wayeb_py.dsl.syntax import lexicon
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.errors import expressions as expression_errors
from wayeb_py.dsl.syntax.errors import habits
from wayeb_py.dsl.syntax.errors import numbers as number_errors
from wayeb_py.dsl.syntax.errors import rules as rule_errors
from wayeb_py.dsl.syntax.errors.syntax_error import TreeHeightError
from wayeb_py.dsl.syntax.lexicon import RESERVED, Token, decode_text, tokens_of
from wayeb_py.dsl.syntax.precedence import (
    AND,
    COMPARE,
    COMPLEMENT,
    INTERSECTION,
    NEGATIVE,
    NOT,
    OR,
    PRODUCT,
    SEQUENCE,
    SUM,
    UNION,
)
from wayeb_py.dsl.tree_height import MAX_HEIGHT
from wayeb_py.dsl.units import OTHER_NAMES, UNITS, suggest_unit
from wayeb_py.errors import Span

_COMPARATORS = frozenset([">", ">=", "<", "<=", "=", "!="])
_JOINING: dict[str, tuple[int, Callable[..., t.Expression]]] = {
    "|": (UNION, t.Union),
    "&": (INTERSECTION, t.Intersection),
    ";": (SEQUENCE, t.Sequence),
    "or": (OR, t.Or),
    "and": (AND, t.And),
}
_PREFIX = {"!": COMPLEMENT, "not": NOT, "-": NEGATIVE}
_SUMS = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT}
_WORDS = frozenset(["any", "none", "true", "false"])


Where = Literal["pattern", "rule", "emit"]  # what an expression stands in: the words of its clauses end it


@dataclass(slots=True)
class _Operator:
    """An operator that waits for its right operand; one that joins many (`;`, `and`) collects their places."""

    sign: str
    level: int
    token: Token
    places: list[Span] = field(default_factory=list)
    negated: bool = False
    has_dots: bool = False


@dataclass(slots=True)
class _Frame:
    """What an open bracket holds so far; `kind` is `file`, `(`, `call`, `#`, `@` or `{`."""

    kind: str
    opening: Token
    name: Token | None = None
    after_in: bool = False
    operands: list[tuple[t.Expression, int]] = field(default_factory=list)  # with their heights
    operators: list[_Operator] = field(default_factory=list)
    items: list[tuple[t.Expression, int]] = field(default_factory=list)


class _Reader:
    """Reads one expression from the tokens of its declaration."""

    def __init__(self, text: str, start: int, end: int, place: Where = "pattern") -> None:
        self.text = text
        self.ends = rule_errors.CLAUSES if place == "rule" else ("within", "emit", "as")[: 3 if place == "emit" else 2]
        self.in_rule, self.in_emit = place == "rule", place == "emit"
        self.tokens = tokens_of(text, start, end)
        if self.tokens[0].kind == "end":
            raise expression_errors.nothing_follows(Span(start, start))
        self.at = 0
        self.frames = [_Frame("file", self.tokens[0])]

    def read(self) -> tuple[t.Expression, int]:
        """The expression, and the offset of the token that ends it."""
        wants_operand = True
        while True:
            token = self.tokens[self.at]
            if wants_operand:
                wants_operand = self.read_operand(token)
            elif self.ends_here(token):
                frame = self.frames[-1]
                if frame.kind != "file":
                    if token.text == ";":
                        raise expression_errors.silence_inside(self.tokens[self.at + 1])
                    if self.closes_later():
                        raise expression_errors.clause_inside(token)
                    raise expression_errors.never_closed(frame.opening)
                self.reduce(frame, 0)
                return frame.operands[0][0], token.start
            else:
                wants_operand = self.read_operator(token)

    def ends_here(self, token: Token) -> bool:
        if token.kind == "name":
            if token.text in self.ends or lexicon.begins_service(self.tokens, self.at):
                return True
            return not self.in_emit and lexicon.begins_which(self.tokens, self.at)
        if self.in_emit and token.text == "," and len(self.frames) == 1:
            return True
        return token.kind == "end" or (token.text == ";" and lexicon.begins_silence(self.tokens, self.at + 1))

    def closes_later(self) -> bool:
        """Whether the open bracket closes after the clause that stands here."""
        depth = 0
        for token in self.tokens[self.at :]:
            if token.kind == "sign" and token.text in "()":
                depth += 1 if token.text == "(" else -1
                if depth < 0:
                    return True
        return False

    # Where an operand is expected.

    def read_operand(self, token: Token) -> bool:
        """Takes a token where an operand is expected; True if one is still expected."""
        frame = self.frames[-1]
        if token.kind == "number":
            before = self.tokens[self.at - 1] if self.at else None
            if not self.in_emit:
                number_errors.check_count(token, before, self.tokens[self.at + 1], self.text)
            self.push(self.read_number(token), 1)
            return False
        if token.kind == "text":
            self.at += 1
            self.push(t.Text(self.decode(token), span=token.span), 1)
            return False
        if token.kind == "backquoted" or (token.kind == "name" and token.text not in RESERVED):
            return self.read_name(token)
        if token.kind == "name" and token.text in _WORDS:
            self.at += 1
            self.push(t.Word(cast(Any, token.text), span=token.span), 1)
            return False
        if token.text in _PREFIX and token.kind in ("name", "sign"):
            if frame.operators and frame.operators[-1].level > _PREFIX[token.text]:
                raise expression_errors.prefix_inside(token, frame.operators[-1].token)
            self.at += 1
            frame.operators.append(_Operator(token.text, _PREFIX[token.text], token))
            return True
        if token.kind == "sign" and token.text == "(":
            after_in = self.at > 0 and self.tokens[self.at - 1].text == "in"
            self.at += 1
            self.frames.append(_Frame("(", token, after_in=after_in))
            return True
        if token.kind == "sign" and token.text in ("#", "@"):
            opening = self.tokens[self.at + 1]
            if opening.text != "(" or opening.start != token.end:
                raise expression_errors.policy_without_parenthesis(
                    self.text, token, self.tokens[self.at - 1] if self.at else None
                )
            self.at += 2
            self.frames.append(_Frame(token.text, opening, token))
            return True
        is_empty = not frame.items and not frame.operands and not frame.operators
        if token.kind == "sign" and token.text == ")" and frame.kind == "call" and is_empty:
            self.close(token)
            return False
        raise expression_errors.no_operand(
            self.text,
            token,
            self.tokens[self.at - 1] if self.at else None,
            frame.opening if frame.kind != "file" else None,
        )

    def read_name(self, token: Token) -> bool:
        if token.kind == "name" and lexicon.begins_silence(self.tokens, self.at):
            raise expression_errors.silence_alone(token)
        self.at += 1
        following = self.tokens[self.at]
        touches = following.start == token.end and following.kind == "sign"
        if touches and following.text == "(" and token.kind == "name":
            self.at += 1
            self.frames.append(_Frame("call", following, token))
            return True
        name = token.text.strip("`")
        if touches and following.text == "[":
            entry, closing = self.tokens[self.at + 1], self.tokens[min(self.at + 2, len(self.tokens) - 1)]
            if entry.kind != "text" or closing.text != "]":
                raise expression_errors.bad_entry(token, following, entry)
            self.at += 3
            self.push(t.Entry(name, self.decode(entry), span=token.span.to(closing.span)), 1)
            return False
        if touches and following.text == ".":
            column = self.tokens[self.at + 1]
            if column.start == following.end and column.kind in ("name", "backquoted"):
                self.at += 2
                self.push(t.Column(name, column.text.strip("`"), span=token.span.to(column.span)), 1)
                return False
        self.push(t.Name(name, span=token.span), 1)
        return False

    def read_number(self, token: Token) -> t.Number:
        number_errors.check_literal(token)
        number_errors.check_date(self.text, token)
        self.at += 1
        unit = self.tokens[self.at]
        if unit.kind == "name" and (odd := number_errors.odd_number(self.text, token, unit)) is not None:
            raise odd
        if unit.kind == "stray" and unit.text in OTHER_NAMES:
            raise number_errors.unknown_unit(unit.text, unit.span)
        is_clause = unit.text in self.ends or lexicon.begins_service(self.tokens, self.at)
        if unit.kind != "name" or unit.text in RESERVED or is_clause:
            if unit.kind == "sign" and unit.text == "." and unit.start == token.end:
                raise number_errors.bare_point(self.text, token, unit)
            return t.Number(token.text, None, span=token.span)
        slash, second = self.tokens[self.at + 1], self.tokens[min(self.at + 2, len(self.tokens) - 1)]
        if slash.text == "/" and second.kind == "name":
            compound = f"{unit.text}/{second.text}"
            together = slash.start == unit.end and second.start == slash.end
            if together and compound in UNITS:
                self.at += 3
                return t.Number(token.text, compound, span=token.span.to(second.span))
            if together and compound in OTHER_NAMES:
                raise number_errors.unknown_unit(compound, unit.span.to(second.span))
            if compound in UNITS:
                raise number_errors.spaced_unit(compound, unit.span.to(second.span))
        if unit.text in UNITS:
            self.at += 1
            return t.Number(token.text, unit.text, span=token.span.to(unit.span))
        if expression_errors.is_shouted(unit.text):
            raise expression_errors.shouted(unit.span, unit.text)
        same_line = "\n" not in self.text[token.end : unit.start]
        meant = suggest_unit(unit.text) is not None or not expression_errors.begins_comparison(slash)
        if same_line and meant and not expression_errors.looks_like_clause(unit):
            raise number_errors.unknown_unit(unit.text, unit.span)
        return t.Number(token.text, None, span=token.span)

    def decode(self, token: Token) -> str:
        try:
            return decode_text(token.text)
        except ValueError:
            raise number_errors.bad_escape(token) from None

    # Where an operator is expected.

    def read_operator(self, token: Token) -> bool:
        """Takes a token where an operator is expected; True if an operand is expected next."""
        frame = self.frames[-1]
        sign = token.text if token.kind in ("sign", "name") else ""
        if sign in _JOINING:
            self.join(frame, token)
            return True
        operand = frame.operands[-1][0]
        if isinstance(operand, t.OneOf) and (sign in _SUMS or sign in ("?", "{")):
            raise expression_errors.after_set(token)
        if sign in _SUMS and not self.is_iteration(sign):
            if isinstance(operand, t.Iteration):
                raise expression_errors.iteration_in_sum(token)
            expression_errors.check_comment(self.text, token, operand)
            self.reduce(frame, _SUMS[sign])
            frame.operators.append(_Operator(sign, _SUMS[sign], token))
            self.at += 1
            return True
        if sign in ("*", "+", "?", "{"):
            self.iterate(frame, token)
            return False
        if not self.in_rule and lexicon.begins_name(self.tokens, self.at):
            self.name_event(frame)
            return False
        negated = sign == "not" and self.tokens[self.at + 1].text == "in"
        if sign in _COMPARATORS or sign == "in" or negated:
            self.compare(frame, token, negated)
            return True
        if sign == "..":
            self.reduce(frame, SUM)
            waiting = frame.operators[-1] if frame.operators else None
            if waiting is None or waiting.sign != "in" or waiting.has_dots:
                raise expression_errors.stray_dots(token)
            waiting.has_dots = True
            self.at += 1
            return True
        if sign == ",":
            if frame.after_in:
                raise expression_errors.square_set(frame.opening)
            if frame.kind in ("file", "("):
                raise habits.position_as_pair(self.text, frame.opening, token) or expression_errors.stray_comma(
                    token, self.tokens[self.at - 1], self.tokens[self.at + 1]
                )
            self.at += 1
            self.finish_item(frame)
            return True
        if sign in (")", "}") and token.kind == "sign":
            self.close(token)
            return False
        if self.in_rule and frame.kind == "file" and expression_errors.looks_like_clause(token, self.ends):
            raise rule_errors.unknown_clause(token)
        raise expression_errors.no_operator(
            self.text,
            token,
            operand,
            [o.token for o in frame.operators],
            frame.kind in ("{", "call"),
        )

    def is_iteration(self, sign: str) -> bool:
        """`+` and `*` are iterations unless something follows that can be a value."""
        if sign not in ("+", "*"):
            return False
        following = self.tokens[self.at + 1]
        if following.kind in ("number", "text", "backquoted"):
            return False
        if lexicon.begins_name(self.tokens, self.at + 1):
            return True
        if following.kind == "name":
            ends = following.text in self.ends or lexicon.begins_which(self.tokens, self.at + 1)
            return ends or following.text in RESERVED or lexicon.begins_service(self.tokens, self.at + 1)
        return following.text not in ("(", "-")

    def join(self, frame: _Frame, token: Token) -> None:
        level, _ = _JOINING[token.text]
        self.reduce(frame, level + 1)
        top = frame.operators[-1] if frame.operators else None
        if top is not None and top.sign == token.text:
            top.places.append(token.span)
        else:
            # An operator of the same level cannot wait below: only its own sign has that level.
            frame.operators.append(_Operator(token.text, level, token, [token.span]))
        self.at += 1

    def compare(self, frame: _Frame, token: Token, negated: bool) -> None:
        self.reduce(frame, SUM)
        compared = isinstance(frame.operands[-1][0], t.OneOf)
        if compared or (frame.operators and frame.operators[-1].level == COMPARE):
            raise expression_errors.chained_comparison(self.text, token, frame.operands)
        self.at += 2 if negated else 1
        if token.text != "in" and not negated:
            frame.operators.append(_Operator(token.text, COMPARE, token))
            return
        frame.operators.append(_Operator("in", COMPARE, token, negated=negated))
        following = self.tokens[self.at]
        if following.text == "{":
            self.at += 1
            self.frames.append(_Frame("{", following))
        elif following.text == "[":
            raise expression_errors.square_set(following)

    def iterate(self, frame: _Frame, token: Token) -> None:
        (operand, height), end = frame.operands.pop(), token
        at_least, at_most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(token.text, (0, None))
        self.at += 1
        if token.text == "{":
            at_least, at_most, end = self.read_bounds(token)
        span = operand.span.to(end.span)
        written = "".join(self.text[token.start : end.end].split()) if self.is_plain(token, end) else ""
        node = t.Iteration(
            operand, at_least, at_most, span=span, operator_span=token.span.to(end.span), written=written
        )
        self.push(node, height + 1)

    def name_event(self, frame: _Frame) -> None:
        (operand, height), name = frame.operands.pop(), self.tokens[self.at + 1]
        self.at += 2
        where = operand.span.to(name.span)
        self.push(t.Named(operand, name.text.strip("`"), span=where, name_span=name.span), height + 1)

    def is_plain(self, start: Token, end: Token) -> bool:
        """Whether no comment stands between two tokens."""
        return "//" not in self.text[start.start : end.end]

    def read_bounds(self, opening: Token) -> tuple[int, int | None, Token]:
        found: list[Token] = []
        while True:
            token = self.tokens[self.at]
            if token.kind == "end" or (token.kind != "number" and token.text not in (",", "}")):
                raise expression_errors.bad_bounds(self.text, opening, token)
            self.at += 1
            if token.text == "}":
                break
            found.append(token)
        shape = "".join("n" if token.kind == "number" else "," for token in found)
        numbers = [token for token in found if token.kind == "number"]
        span = opening.span.to(token.span)
        if shape not in ("n", "n,", "n,n") or not all(number.text.isdecimal() for number in numbers):
            raise expression_errors.wrong_bounds(shape, span, [number.text for number in numbers])
        for number in numbers:
            number_errors.check_literal(number)
        low = int(numbers[0].text)
        high = low if shape == "n" else None if shape == "n," else int(numbers[1].text)
        if high is not None and high < low:
            raise expression_errors.reversed_bounds(low, high, span)
        return low, high, token

    # Building.

    def push(self, node: t.Expression, height: int) -> None:
        if height > MAX_HEIGHT:
            raise TreeHeightError(Span(node.span.start, min(node.span.end, node.span.start + 60)))
        self.frames[-1].operands.append((node, height))

    def reduce(self, frame: _Frame, level: int) -> None:
        """Builds everything that binds at least as tightly as the level."""
        while frame.operators and frame.operators[-1].level >= level:
            self.build(frame, frame.operators.pop())

    def build(self, frame: _Frame, operator: _Operator) -> None:
        sign, operands = operator.sign, frame.operands
        if operator.level in (COMPLEMENT, NOT, NEGATIVE):
            operand, height = operands.pop()
            span = operator.token.span.to(operand.span)
            if sign == "-":
                self.push(t.Negative(operand, span=span), height + 1)
            else:
                kind = t.Not if sign == "not" else t.Complement
                self.push(kind(operand, span=span, operator_span=operator.token.span), height + 1)
            return
        if sign in _JOINING:
            count = len(operator.places) + 1
            parts = operands[-count:]
            del operands[-count:]
            nodes = tuple(part for part, _ in parts)
            span = nodes[0].span.to(nodes[-1].span)
            made = _JOINING[sign][1](nodes, span=span, operator_spans=tuple(operator.places))
            self.push(made, 1 + max(height for _, height in parts))
            return
        if sign == "in":
            if not operator.has_dots:
                raise expression_errors.in_without_range(operands[-1][0])
            (value, h1), (low, h2), (high, h3) = operands[-3:]
            del operands[-3:]
            span = value.span.to(high.span)
            self.push(t.Between(value, low, high, operator.negated, span=span), 1 + max(h1, h2, h3))
            return
        (left, left_height), (right, right_height) = operands[-2:]
        del operands[-2:]
        span = left.span.to(right.span)
        node: t.Expression
        if sign in _COMPARATORS:
            node = t.Compare(cast(Any, sign), left, right, span=span, operator_span=operator.token.span)
        else:
            node = t.Arithmetic(cast(Any, sign), left, right, span=span, operator_span=operator.token.span)
        self.push(node, 1 + max(left_height, right_height))

    def finish_item(self, frame: _Frame) -> None:
        self.reduce(frame, 0)
        frame.items.append(frame.operands.pop())

    def close(self, token: Token) -> None:
        """Ends the innermost bracket, and makes one operand of its content."""
        frame = self.frames[-1]
        if frame.kind == "file":
            raise expression_errors.closes_nothing(token)
        if token.text != ("}" if frame.kind == "{" else ")"):
            raise expression_errors.never_closed(frame.opening)
        if frame.operands or frame.operators:
            self.finish_item(frame)
        self.frames.pop()
        self.at += 1
        items = tuple(item for item, _ in frame.items)
        height = 1 + max((height for _, height in frame.items), default=0)
        if frame.kind == "(":
            self.push(t.Parentheses(items[0], span=frame.opening.span.to(token.span)), height)
        elif frame.kind == "call" and frame.name is not None:
            span = frame.name.span.to(token.span)
            self.push(t.Call(frame.name.text, items, span=span, name_span=frame.name.span), height)
        elif frame.kind == "{":
            outer = self.frames[-1]
            operator = outer.operators.pop()
            value, value_height = outer.operands.pop()
            node = t.OneOf(value, items, operator.negated, span=value.span.to(token.span))
            self.push(node, 1 + max(height, value_height))
        elif frame.name is not None:
            self.push(t.Skip(cast(Any, frame.kind), items, span=frame.name.span.to(token.span)), height)


def read_expression(text: str, start: int, end: int, place: Where = "pattern") -> tuple[t.Expression, int]:
    """The expression that begins at start, and the offset where it ends: the end, a clause, or `; silence`."""
    return _Reader(text, start, end, place).read()


def read_quantity(text: str, start: int, end: int) -> tuple[t.Number, int]:
    """The number with its unit that begins at start, and the offset after it."""
    reader = _Reader(text, start, end)
    number = reader.read_number(reader.tokens[0])
    return number, reader.tokens[reader.at].start
