"""The terminals that the grammar of declarations is made of: words, names, texts, quantities, expressions.

A terminal that must match is wrapped in `Required`, which says in the user's words what is missing: pyparsing's own
messages would name its elements. Terminals read a `Piece`, the text of one declaration.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

import pyparsing as pp

from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.errors import declarations as errors
from wayeb_py.dsl.syntax.errors.declarations import ErrorAt
from wayeb_py.dsl.syntax.errors.numbers import bad_escape, check_literal
from wayeb_py.dsl.syntax.expressions import Where, read_expression, read_quantity
from wayeb_py.dsl.syntax.lexicon import BACKQUOTED, BLANK, NAME, RESERVED, TEXT, Piece, Token, decode_text


class Terminal(pp.Token):
    """A terminal that skips blanks and comments itself; see `read`."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.set_name(name)
        self.leave_whitespace()
        self.mayIndexError = False

    def _generateDefaultName(self) -> str:  # noqa: N802 (pyparsing's name)
        return "a terminal"

    def read(self, piece: Piece, loc: int) -> tuple[int, Any] | None:
        """The end and the result, or None if the terminal does not match."""
        raise NotImplementedError

    def parseImpl(self, instring: str, loc: int, do_actions: bool = True) -> tuple[int, Any]:  # noqa: N802
        found = self.read(cast(Piece, instring), loc)
        if found is None:
            raise pp.ParseException(instring, loc, self.errmsg, self)
        return found[0], pp.ParseResults([found[1]])


class Lexical(Terminal):
    """A terminal of letters and signs that gives a `Token`; `refused` are words that it does not take."""

    def __init__(self, kind: str, pattern: str, refused: frozenset[str] = frozenset()) -> None:
        super().__init__(kind)
        self.kind, self.pattern, self.refused = kind, re.compile(pattern), refused

    def read(self, piece: Piece, loc: int) -> tuple[int, Any] | None:
        blank = BLANK.match(piece, loc)
        at = blank.end() if blank else loc
        match = self.pattern.match(piece, at)
        if match is None or match[0] in self.refused:
            return None
        return match.end(), Token(self.kind, match[0], piece.base + at, piece.base + match.end())


class Required(Terminal):
    """A terminal that must match; otherwise its error ends the declaration."""

    def __init__(self, terminal: Lexical, error_at: ErrorAt) -> None:
        super().__init__(terminal.kind)
        self.terminal, self.error_at = terminal, error_at

    def read(self, piece: Piece, loc: int) -> tuple[int, Any] | None:
        found = self.terminal.read(piece, loc)
        if found is None:
            raise self.error_at(piece, piece.token_at(loc))
        return found


class _Expression(Terminal):
    """An expression, read by the precedence loop; the words of the clauses around it end it."""

    def __init__(self, name: str, place: Where = "pattern") -> None:
        super().__init__(name)
        self.place = place

    def read(self, piece: Piece, loc: int) -> tuple[int, Any] | None:
        node, end = read_expression(piece.whole, piece.base + loc, piece.base + len(piece), self.place)
        return end - piece.base, node


class _EmittedExpression(_Expression):
    """What is emitted, where it is more than the name of a column; names alone are read as such."""

    def read(self, piece: Piece, loc: int) -> tuple[int, Any] | None:
        token = piece.token_at(loc)
        if token.kind in ("name", "backquoted"):
            after = piece.token_at(token.end - piece.base)
            if after.text == ".":
                column = piece.token_at(after.end - piece.base)
                after = piece.token_at(column.end - piece.base)
            is_call = after.text == "(" and after.start == token.end
            # `fuel-level` is a name with a hyphen in it, which has a message of its own.
            goes_on = after.text in ("+", "*", "/", ">", "<", "=", "!=", ">=", "<=")
            goes_on = goes_on or (after.text == "-" and piece.whole[after.start - 1].isspace())
            return super().read(piece, loc) if is_call or goes_on else None
        begins = token.kind == "number" or token.text == "-"
        return super().read(piece, loc) if begins or (token.text == "(" and not _LISTED.match(piece, loc)) else None


class Quantity(Terminal):
    """A number with its unit, or with the word `events` where that is allowed."""

    def __init__(self, what: str, events: bool = False, example: str | None = None) -> None:
        super().__init__("a quantity")
        self.what, self.events, self.example = what, events, example

    def read(self, piece: Piece, loc: int) -> tuple[int, Any] | None:
        first = piece.token_at(loc)
        if first.kind != "number":
            raise errors.no_quantity(self.what, self.events, piece, first, self.example)
        following = piece.token_at(first.end - piece.base)
        if self.events and following.text in ("events", "event"):
            check_literal(first)
            return following.end - piece.base, t.Within(
                t.Number(first.text, None, span=first.span), True, span=following.span
            )
        number, end = read_quantity(piece.whole, first.start, piece.base + len(piece))
        return end - piece.base, t.Within(number, False, span=number.span) if self.events else number


def word(text: str) -> Lexical:
    """A word or sign that stands exactly so."""
    return Lexical(f"`{text}`", re.escape(text) + (r"\b" if text[-1].isalnum() else ""))


NAME_PATTERN = f"{NAME.pattern}|{BACKQUOTED.pattern}"
_LISTED = re.compile(rf"\s*\(\s*(?:{NAME_PATTERN})\s*[,)]")  # columns in parentheses, which have a message too
EXPRESSION = _Expression("an expression")
CONDITION = _Expression("a condition", "rule")
EMITTED = _EmittedExpression("an emitted value", "emit")
COMMA = word(",")
END = Lexical("end", r"\Z")
QUOTED = Lexical("text", str(TEXT.pattern))


def need_name(what: str) -> Required:
    return Required(Lexical("name", NAME_PATTERN, RESERVED), lambda piece, token: errors.no_name(what, piece, token))


def required(text: str, error_at: ErrorAt) -> Required:
    return Required(word(text), error_at)


def name_of(token: Token) -> str:
    return token.text.strip("`")


def text_of(token: Token) -> str:
    try:
        return decode_text(token.text)
    except ValueError:
        raise bad_escape(token) from None


def end_of(item: Any) -> int:
    return item.end if isinstance(item, Token) else item.span.end


def made(element: pp.ParserElement, make: Callable[[list[Any]], Any]) -> pp.ParserElement:
    """The element with its result turned into a node."""

    def act(instring: str, loc: int, tokens: pp.ParseResults) -> Any:
        return [make(list(tokens))]

    return element.add_parse_action(act)
