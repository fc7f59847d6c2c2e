"""The rules that the grammar of declarations is made of: words, names, texts, quantities, expressions.

A rule that must match is wrapped in `Need`, which says in the user's words what is missing: pyparsing's own
messages name rules. Text is given as a `Piece`, which knows where in its file it stands, so that spans need no
shifting afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

import pyparsing as pp

from wayeb_py.dsl.syntax import declaration_errors as c
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.expressions import check_literal, read_expression, read_quantity
from wayeb_py.dsl.syntax.lexicon import BACKQUOTED, BLANK, NAME, RESERVED, TEXT, Token, decode_text, next_token
from wayeb_py.dsl.syntax.number_errors import bad_escape
from wayeb_py.dsl.syntax.syntax_error import SyntaxFault

Complaint = Callable[["Piece", Token], SyntaxFault]


class Piece(str):
    """The text of one declaration, and its place in the whole text."""

    whole: str
    base: int

    @classmethod
    def cut(cls, whole: str, start: int, end: int) -> Piece:
        """The piece from start to end."""
        piece = cls(whole[start:end])
        piece.whole, piece.base = whole, start
        return piece

    def token_at(self, loc: int) -> Token:
        """The token that follows an offset within the piece."""
        return next_token(self.whole, self.base + loc, self.base + len(self))


class _Rule(pp.Token):
    """A rule that skips blanks and comments itself; see `read`."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.set_name(name)
        self.leave_whitespace()
        self.mayIndexError = False

    def _generateDefaultName(self) -> str:  # noqa: N802 (pyparsing's name)
        return "a rule"

    def read(self, piece: Piece, loc: int) -> tuple[int, Any] | None:
        """The end and the result, or None if the rule does not match."""
        raise NotImplementedError

    def parseImpl(self, instring: str, loc: int, do_actions: bool = True) -> tuple[int, Any]:  # noqa: N802
        found = self.read(cast(Piece, instring), loc)
        if found is None:
            raise pp.ParseException(instring, loc, self.errmsg, self)
        return found[0], pp.ParseResults([found[1]])


class Lexical(_Rule):
    """A lexical rule that gives a `Token`; `refused` are words that it does not take."""

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


class Need(_Rule):
    """A rule that must match; otherwise the complaint is raised and ends the declaration."""

    def __init__(self, rule: Lexical, complain: Complaint) -> None:
        super().__init__(rule.kind)
        self.rule, self.complain = rule, complain

    def read(self, piece: Piece, loc: int) -> tuple[int, Any] | None:
        found = self.rule.read(piece, loc)
        if found is None:
            raise self.complain(piece, piece.token_at(loc))
        return found


class _ExpressionRule(_Rule):
    """An expression, read by the precedence loop."""

    def read(self, piece: Piece, loc: int) -> tuple[int, Any] | None:
        node, end = read_expression(piece.whole, piece.base + loc, piece.base + len(piece))
        return end - piece.base, node


class QuantityRule(_Rule):
    """A number with its unit, or with the word `events` where that is allowed."""

    def __init__(self, what: str, events: bool = False, example: str | None = None) -> None:
        super().__init__("a quantity")
        self.what, self.events, self.example = what, events, example

    def read(self, piece: Piece, loc: int) -> tuple[int, Any] | None:
        first = piece.token_at(loc)
        if first.kind != "number":
            raise c.no_quantity(self.what, self.events, piece, first, self.example)
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
EXPRESSION = _ExpressionRule("an expression")
COMMA = word(",")
END = Lexical("end", r"\Z")
QUOTED = Lexical("text", str(TEXT.pattern))


def need_name(what: str) -> Need:
    return Need(Lexical("name", NAME_PATTERN, RESERVED), lambda piece, token: c.no_name(what, piece, token))


def need(text: str, complain: Complaint) -> Need:
    return Need(word(text), complain)


def name_of(token: Token) -> str:
    return token.text.strip("`")


def text_of(token: Token) -> str:
    try:
        return decode_text(token.text)
    except ValueError:
        raise bad_escape(token) from None


def end_of(item: Any) -> int:
    return item.end if isinstance(item, Token) else item.span.end


def made(rule: pp.ParserElement, make: Callable[[list[Any]], Any]) -> pp.ParserElement:
    """The rule with its result turned into a node."""

    def act(instring: str, loc: int, tokens: pp.ParseResults) -> Any:
        return [make(list(tokens))]

    return rule.add_parse_action(act)
