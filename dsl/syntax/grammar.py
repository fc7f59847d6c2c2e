"""The declarations of a .sre file as a pyparsing grammar.

A rule that must match is wrapped in `Need`, which says in the user's words what is missing: pyparsing's own
messages name rules. Text is given as a `Piece`, which knows where in its file it stands, so that spans need no
shifting afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pyparsing as pp

from wayeb_py.dsl.syntax import declaration_errors as c
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.expressions import check_literal, read_expression, read_quantity
from wayeb_py.dsl.syntax.lexicon import BACKQUOTED, BLANK, NAME, RESERVED, TEXT, Token, decode_text, next_token
from wayeb_py.dsl.syntax.number_errors import bad_escape
from wayeb_py.dsl.syntax.syntax_error import SyntaxFault
from wayeb_py.errors import Span

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


class _QuantityRule(_Rule):
    """A number with its unit, or with the word `events` where that is allowed."""

    def __init__(self, what: str, events: bool = False) -> None:
        super().__init__("a quantity")
        self.what, self.events = what, events

    def read(self, piece: Piece, loc: int) -> tuple[int, Any] | None:
        first = piece.token_at(loc)
        if first.kind != "number":
            raise c.no_quantity(self.what, self.events, piece, first)
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


_NAME_PATTERN = f"{NAME.pattern}|{BACKQUOTED.pattern}"
_EXPRESSION = _ExpressionRule("an expression")
_COMMA = word(",")
_END = Lexical("end", r"\Z")
_TEXT = Lexical("text", str(TEXT.pattern))


def need_name(what: str) -> Need:
    return Need(Lexical("name", _NAME_PATTERN, RESERVED), lambda piece, token: c.no_name(what, piece, token))


def need(text: str, complain: Complaint) -> Need:
    return Need(word(text), complain)


def name_of(token: Token) -> str:
    return token.text.strip("`")


def text_of(token: Token) -> str:
    try:
        return decode_text(token.text)
    except ValueError:
        raise bad_escape(token) from None


def _end_of(item: Any) -> int:
    return item.end if isinstance(item, Token) else item.span.end


def _made(rule: pp.ParserElement, make: Callable[[list[Any]], Any]) -> pp.ParserElement:
    """The rule with its result turned into a node."""

    def act(instring: str, loc: int, tokens: pp.ParseResults) -> Any:
        return [make(list(tokens))]

    return rule.add_parse_action(act)


# Stream.

_UNIT_PATTERN = r"[^\W\d]\w*(?:[ \t]*/[ \t]*\w+)?|°"
_KIND = Need(Lexical("kind", r"(?:number|text|bool|time)\b"), c.bad_kind)
_UNIT = Need(Lexical("unit", _UNIT_PATTERN, RESERVED), c.no_unit)


def _attr(tokens: list[Any]) -> t.Attr:
    _, name, kind, *rest = tokens
    unit = rest[1] if rest else None
    if unit is not None:
        c.check_unit(unit)
        if kind.text != "number":
            raise c.unit_of_other_kind(kind, unit)
    return t.Attr(name_of(name), kind.text, unit.text if unit else None, span=name.span)


def _time(tokens: list[Any]) -> t.Time:
    _, name, *rest = tokens
    if rest:
        c.check_time_unit(rest[1])
    return t.Time(name_of(name), rest[1].text if rest else None, span=name.span)


_STREAM_LINE = pp.MatchFirst(
    [
        _made(word("key") + need_name("the key"), lambda x: t.Key(name_of(x[1]), span=x[1].span)),
        _made(word("time") + need_name("the time") + pp.Opt(word("in") + _UNIT), _time),
        _made(
            word("position") + need_name("the longitude") + need(",", c.position_comma) + need_name("the latitude"),
            lambda x: t.Position(name_of(x[1]), name_of(x[3]), span=x[1].span.to(x[3].span)),
        ),
        _made(word("attr") + need_name("an attribute") + _KIND + pp.Opt(word("in") + _UNIT), _attr),
        _made(word("order") + need_name("the order"), lambda x: t.Order(name_of(x[1]), span=x[1].span)),
        _made(word("lateness") + _QuantityRule("lateness"), lambda x: t.Lateness(x[1], span=x[1].span)),
        _made(
            word("forget") + need("after", c.forget_after) + _QuantityRule("forget after"),
            lambda x: t.Forget(x[2], span=x[2].span),
        ),
        _made(word("dedupe"), lambda x: t.Dedupe(span=x[0].span)),
        _made(
            word("clean") + Need(Lexical("what to clean", r"(?:ais|gps)\b"), c.bad_clean),
            lambda x: t.Clean(x[1].text, span=x[1].span),
        ),
    ]
)

STREAM = _made(
    word("stream")
    + need_name("the stream")
    + need("{", c.no_brace)
    + pp.ZeroOrMore(_STREAM_LINE)
    + need("}", c.bad_stream_line)
    + Need(_END, c.after_declaration),
    lambda x: t.Stream(name_of(x[1]), tuple(x[3:-2]), span=x[0].span.to(x[-2].span), name_span=x[1].span),
)

# Knowledge, include, let.


def _shape(shape: str) -> pp.ParserElement:
    rule = word(shape) + need_name(shape) + need("from", c.no_from)
    named = word("name") + Need(_TEXT, c.no_column)
    rule = rule + Need(_TEXT, c.no_path) + pp.Optional(named) + Need(_END, c.after_declaration)
    return _made(rule, lambda x: _knowledge(shape, x[:-1]))


def _knowledge(shape: str, tokens: list[Any]) -> t.Knowledge:
    column = text_of(tokens[5]) if len(tokens) > 5 else None
    span = tokens[0].span.to(tokens[-1].span)
    path = text_of(tokens[3])
    return t.Knowledge(
        cast(Any, shape),
        name_of(tokens[1]),
        path,
        column,
        span=span,
        name_span=tokens[1].span,
        path_span=tokens[3].span,
    )


def _lookup(tokens: list[Any]) -> t.Lookup:
    c.check_duration("by time", tokens[6])
    c.check_length("nearest", tokens[9])
    span = tokens[0].span.to(tokens[9].span)
    return t.Lookup(
        name_of(tokens[1]),
        text_of(tokens[3]),
        tokens[6],
        tokens[9],
        span=span,
        name_span=tokens[1].span,
        path_span=tokens[3].span,
    )


LOOKUP = _made(
    word("lookup")
    + need_name("lookup")
    + need("from", c.no_from)
    + Need(_TEXT, c.no_path)
    + need("by", c.no_lookup_by)
    + need("time", c.no_lookup_by)
    + _QuantityRule("by time")
    + need(",", c.no_lookup_by)
    + need("nearest", c.no_lookup_by)
    + _QuantityRule("nearest")
    + Need(_END, c.after_declaration),
    _lookup,
)

INCLUDE = _made(
    word("include") + Need(_TEXT, c.no_path) + Need(_END, c.after_declaration),
    lambda x: t.Include(text_of(x[1]), span=x[0].span.to(x[1].span), path_span=x[1].span),
)

LET = _made(
    word("let")
    + need_name("let")
    + Need(Lexical("`=`", r"=(?!=)"), c.no_equals)
    + _EXPRESSION
    + Need(_END, c.after_expression),
    lambda x: t.Let(name_of(x[1]), x[3], span=x[0].span.to(x[3].span), name_span=x[1].span),
)

# Pattern.

_EACH = _made(
    word("for") + need("each", c.no_each) + need_name("the row") + need("in", c.no_each_in) + need_name("the places"),
    lambda x: t.Each(name_of(x[2]), name_of(x[4]), span=x[0].span.to(x[4].span), places_span=x[4].span),
)


def _within(tokens: list[Any]) -> t.Within:
    keyword, found = tokens
    c.check_window(found)
    return t.Within(found.amount, found.events, span=keyword.span.to(found.span))


_WITHIN = _made(word("within") + _QuantityRule("within", events=True), _within)
_EMIT = _made(
    word("emit") + need_name("emit") + pp.ZeroOrMore(_COMMA + need_name("emit")),
    lambda x: t.Emit(
        tuple(t.Name(name_of(token), span=token.span) for token in x[1::2]), span=x[0].span.to(x[-1].span)
    ),
)


def _pattern(tokens: list[Any]) -> t.Pattern:
    name = tokens[1]
    kinds: dict[type, Any] = {type(item): item for item in tokens}
    body = next(item for item in tokens if isinstance(item, t.Expression))
    return t.Pattern(
        name_of(name),
        body,
        kinds.get(t.Each),
        kinds.get(t.Within),
        kinds.get(t.Emit),
        span=Span(tokens[0].start, _end_of(tokens[-2])),
        name_span=name.span,
    )


PATTERN = _made(
    word("pattern")
    + need_name("pattern")
    + pp.Opt(_EACH)
    + need(":=", c.no_assignment)
    + _EXPRESSION
    + pp.Opt(_WITHIN)
    + pp.Opt(_EMIT)
    + Need(_END, c.after_expression),
    _pattern,
)

# Test.

_HEAD = rf"(?:{NAME.pattern}|{BACKQUOTED.pattern}):(?=\s|//|\}}|\Z)"
_COLUMN_HEAD = Lexical("column", _HEAD)
_ITEM = Lexical(
    "item", rf"(?!detects\b)(?!{_HEAD}){TEXT.pattern}(?=[\s}}]|\Z)|(?!detects\b)(?!{_HEAD})(?:[^\s{{}}\"/]|/(?!/))+"
)


def _values(tokens: list[Any]) -> t.Values:
    head, *items = tokens
    name = name_of(Token("name", head.text[:-1], head.start, head.end))
    return t.Values(
        None if head.text == "at:" else name,
        tuple(
            t.Item(text_of(i) if i.text.startswith('"') else i.text, i.text.startswith('"'), span=i.span) for i in items
        ),
        span=Span(head.start, head.end - 1),
    )


def _detected(tokens: list[Any]) -> t.Detected:
    numbers = [token for token in tokens if token.kind == "whole"]
    for number in numbers:
        check_literal(number)
    values = [int(number.text) for number in numbers]
    return t.Detected(values[0], values[1] if len(values) > 1 else None, span=numbers[0].span.to(numbers[-1].span))


_WHOLE = Need(Lexical("whole", r"[0-9]+(?![\w.])"), c.no_event_number)
_DETECTED = _made(_WHOLE + pp.Opt(word("from") + _WHOLE), _detected)


@dataclass(frozen=True, slots=True)
class _Detects:
    keyword: Token
    events: tuple[t.Detected, ...]


_DETECTS = _made(
    word("detects") + (word("nothing") | need("at", c.no_at) + _DETECTED + pp.ZeroOrMore(_COMMA + _DETECTED)),
    lambda x: _Detects(x[0], tuple(item for item in x if isinstance(item, t.Detected))),
)
_COLUMN = _made(_COLUMN_HEAD + pp.ZeroOrMore(_ITEM), _values)


def _test(tokens: list[Any]) -> t.Test:
    name = tokens[1]
    detects = [item for item in tokens[3:-2] if isinstance(item, _Detects)]
    if len(detects) != 1:
        raise c.not_one_detects(name, [item.keyword for item in detects])
    lines = tuple(item for item in tokens[3:-2] if isinstance(item, t.Values))
    return t.Test(
        name_of(name),
        lines,
        detects[0].events,
        span=tokens[0].span.to(tokens[-2].span),
        name_span=name.span,
        detects_span=detects[0].keyword.span,
    )


TEST = _made(
    word("test")
    + need_name("the pattern")
    + need("{", c.no_brace)
    + pp.ZeroOrMore(_DETECTS | _COLUMN)
    + need("}", c.bad_test_line)
    + Need(_END, c.after_declaration),
    _test,
)

DECLARATION: dict[str, pp.ParserElement] = {
    "stream": STREAM,
    "points": _shape("points"),
    "lines": _shape("lines"),
    "areas": _shape("areas"),
    "lookup": LOOKUP,
    "let": LET,
    "pattern": PATTERN,
    "test": TEST,
    "include": INCLUDE,
}
for _rule in DECLARATION.values():
    _rule.parse_with_tabs()
    _rule.streamline()
