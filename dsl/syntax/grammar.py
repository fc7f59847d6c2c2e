"""The declarations of a .sre file as a pyparsing grammar, over the rules of `rules.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pyparsing as pp

from wayeb_py.dsl.syntax import declaration_errors as c
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.expressions import check_literal
from wayeb_py.dsl.syntax.lexicon import BACKQUOTED, COMMENT, NAME, RESERVED, TEXT, Token
from wayeb_py.dsl.syntax.rules import (
    COMMA,
    END,
    EXPRESSION,
    NAME_PATTERN,
    QUOTED,
    Lexical,
    Need,
    QuantityRule,
    end_of,
    made,
    name_of,
    need,
    need_name,
    text_of,
    word,
)
from wayeb_py.errors import Span

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
        made(word("key") + need_name("the key"), lambda x: t.Key(name_of(x[1]), span=x[1].span)),
        made(word("time") + need_name("the time") + pp.Opt(word("in") + _UNIT), _time),
        made(
            word("position") + need_name("the longitude") + need(",", c.position_comma) + need_name("the latitude"),
            lambda x: t.Position(name_of(x[1]), name_of(x[3]), span=x[1].span.to(x[3].span)),
        ),
        made(word("attr") + need_name("an attribute") + _KIND + pp.Opt(word("in") + _UNIT), _attr),
        made(word("order") + need_name("the order"), lambda x: t.Order(name_of(x[1]), span=x[1].span)),
        made(
            word("motion") + need_name("the speed") + need(",", c.motion_comma) + need_name("the course"),
            lambda x: t.Motion(name_of(x[1]), name_of(x[3]), span=x[1].span.to(x[3].span), course_span=x[3].span),
        ),
        made(word("lateness") + QuantityRule("lateness"), lambda x: t.Lateness(x[1], span=x[1].span)),
        made(
            word("forget") + need("after", c.forget_after) + QuantityRule("forget after"),
            lambda x: t.Forget(x[2], span=x[2].span),
        ),
        made(word("dedupe"), lambda x: t.Dedupe(span=x[0].span)),
        made(
            word("clean") + Need(Lexical("what to clean", r"(?:ais|gps)\b"), c.bad_clean),
            lambda x: t.Clean(x[1].text, span=x[1].span),
        ),
    ]
)

STREAM = made(
    word("stream")
    + need_name("the stream")
    + need("{", c.no_brace)
    + pp.ZeroOrMore(_STREAM_LINE)
    + need("}", c.bad_stream_line)
    + Need(END, c.after_declaration),
    lambda x: t.Stream(name_of(x[1]), tuple(x[3:-2]), span=x[0].span.to(x[-2].span), name_span=x[1].span),
)

# Knowledge, include, let.


def _shape(shape: str) -> pp.ParserElement:
    rule = word(shape) + need_name(shape) + need("from", c.no_from)
    named = word("name") + Need(QUOTED, c.no_column)
    rule = rule + Need(QUOTED, c.no_path) + pp.Optional(named) + Need(END, c.after_declaration)
    return made(rule, lambda x: _knowledge(shape, x[:-1]))


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


LOOKUP = made(
    word("lookup")
    + need_name("lookup")
    + need("from", c.no_from)
    + Need(QUOTED, c.no_path)
    + need("by", c.no_lookup_by)
    + need("time", c.no_lookup_by)
    + QuantityRule("by time")
    + need(",", c.no_lookup_by)
    + need("nearest", c.no_lookup_by)
    + QuantityRule("nearest")
    + Need(END, c.after_declaration),
    _lookup,
)

INCLUDE = made(
    word("include") + Need(QUOTED, c.no_path) + Need(END, c.after_declaration),
    lambda x: t.Include(text_of(x[1]), span=x[0].span.to(x[1].span), path_span=x[1].span),
)

LET = made(
    word("let")
    + need_name("let")
    + Need(Lexical("`=`", r"=(?!=)"), c.no_equals)
    + EXPRESSION
    + Need(END, c.after_expression),
    lambda x: t.Let(name_of(x[1]), x[3], span=x[0].span.to(x[3].span), name_span=x[1].span),
)

# Pattern.

_EACH = made(
    word("for") + need("each", c.no_each) + need_name("the row") + need("in", c.no_each_in) + need_name("the places"),
    lambda x: t.Each(name_of(x[2]), name_of(x[4]), span=x[0].span.to(x[4].span), places_span=x[4].span),
)
# `for each pair in port` is a row called `pair`.
_PAIR = Lexical("pair", rf"(?:ordered\s+)?pair\b(?=\s+(?!in\b)(?:{NAME_PATTERN}))")
_ENTITY, _STREAM = need_name("the entity"), need_name("the stream of a pair")
_OF_ONE_STREAM = word(",") + _ENTITY + need("in", c.no_pair_in) + _STREAM
_OF_TWO_STREAMS = (
    need("in", c.no_pair_in) + _STREAM + need(",", c.no_second_entity) + _ENTITY + need("in", c.no_pair_in) + _STREAM
)


def _each_pair(tokens: list[Any]) -> t.EachPair:
    names = [token for token in tokens if isinstance(token, Token) and token.kind == "name"]
    within, fresh = (item for item in tokens if isinstance(item, t.Number))
    c.check_length("within", within)
    c.check_duration("fresh", fresh)
    first, second, stream, other = (
        (names[0], names[1], names[2], None) if len(names) == 3 else ((names[0], names[2], names[1], names[3]))
    )
    return t.EachPair(
        (name_of(first), name_of(second)),
        name_of(stream),
        None if other is None else name_of(other),
        within,
        fresh,
        ordered=tokens[2].text.startswith("ordered"),
        projected=tokens[-1] is not fresh,
        span=tokens[0].span.to(Span(end_of(tokens[-1]), end_of(tokens[-1]))),
        second_span=second.span,
        stream_span=stream.span,
        other_span=stream.span if other is None else other.span,
    )


_EACH_PAIR = made(
    word("for")
    + word("each")
    + _PAIR
    + _ENTITY
    + (_OF_ONE_STREAM | _OF_TWO_STREAMS)
    + need("within", c.no_reach)
    + QuantityRule("within", example="within 1 km")
    + need("fresh", c.no_fresh)
    + QuantityRule("fresh")
    + pp.Opt(word("projected")),
    _each_pair,
)
_ON = made(word("on") + need_name("on"), lambda x: t.On(name_of(x[1]), span=x[0].span.to(x[1].span)))


def _silence(tokens: list[Any]) -> t.Silence:
    semicolon, _, duration = tokens
    c.check_duration("silence", duration)
    return t.Silence(duration, span=semicolon.span.to(duration.span))


_SILENCE = made(word(";") + Lexical("silence", r"silence\b(?=\s*\d)") + QuantityRule("silence"), _silence)


def _within(tokens: list[Any]) -> t.Within:
    keyword, found = tokens
    c.check_window(found)
    return t.Within(found.amount, found.events, span=keyword.span.to(found.span))


_WITHIN = made(word("within") + QuantityRule("within", events=True), _within)


def _emitted(tokens: list[Any]) -> t.Name | t.Emitted:
    names = [token for token in tokens if token.kind == "name"]
    signs = {token.text: token.span for token in tokens if token.kind != "name"}
    span = names[0].span.to(names[-1].span)
    if not signs:
        return t.Name(name_of(names[0]), span=span)
    variable = name_of(names.pop(0)) if "." in signs else None
    column, *other = names
    given = name_of(other[0]) if other else None
    at = signs.get(".", signs.get("as", span))
    return t.Emitted(variable, name_of(column), given, span=span, sign_span=at)


_OF_ENTITY = Lexical("sign", rf"\.(?={NAME_PATTERN})") + need_name("emit")
_EMITTED = made(need_name("emit") + pp.Opt(_OF_ENTITY) + pp.Opt(word("as") + need_name("the emitted column")), _emitted)
_EMIT = made(
    word("emit") + _EMITTED + pp.ZeroOrMore(COMMA + _EMITTED),
    lambda x: t.Emit(tuple(item for item in x if not isinstance(item, Token)), span=x[0].span.to(x[-1].span)),
)


def _pattern(tokens: list[Any]) -> t.Pattern:
    name = tokens[1]
    kinds: dict[type, Any] = {type(item): item for item in tokens}
    body = next(item for item in tokens if isinstance(item, t.Expression))
    return t.Pattern(
        name_of(name),
        body,
        kinds.get(t.EachPair, kinds.get(t.Each)),
        kinds.get(t.Within),
        kinds.get(t.Emit),
        kinds.get(t.On),
        kinds.get(t.Silence),
        span=Span(tokens[0].start, end_of(tokens[-2])),
        name_span=name.span,
    )


PATTERN = made(
    word("pattern")
    + need_name("pattern")
    + pp.Opt(_ON)
    + pp.Opt(_EACH_PAIR | _EACH)
    + need(":=", c.no_assignment)
    + EXPRESSION
    + pp.Opt(_SILENCE)
    + pp.Opt(_WITHIN)
    + pp.Opt(_EMIT)
    + Need(END, c.after_expression),
    _pattern,
)

# Test.

_HEAD = rf"(?:{NAME.pattern}|{BACKQUOTED.pattern}):(?=\s|//|\}}|\Z)"
_COLUMN_HEAD = Lexical("column", _HEAD)
_NO_ITEM = rf"detects\b|ends(?:\s|{COMMENT.pattern})+at\b(?!:)|{_HEAD}"
_ITEM = Lexical(
    "item",
    rf"(?!{_NO_ITEM}){TEXT.pattern}(?=[\s}}]|\Z)|(?!{_NO_ITEM})(?:[^\s{{}}\"/]|/(?!/))+",
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
_DETECTED = made(_WHOLE + pp.Opt(word("from") + _WHOLE), _detected)


@dataclass(frozen=True, slots=True)
class _Detects:
    keyword: Token
    events: tuple[t.Detected, ...]


_DETECTS = made(
    word("detects") + (word("nothing") | need("at", c.no_at) + _DETECTED + pp.ZeroOrMore(COMMA + _DETECTED)),
    lambda x: _Detects(x[0], tuple(item for item in x if isinstance(item, t.Detected))),
)
_ENDS = made(
    word("ends") + word("at") + Need(Lexical("time", r"[^\s{}/]+(?:[ \t]+(?:ms|s|min|h|d)\b)?"), c.no_end),
    lambda x: t.Ends("".join(x[2].text.split()), span=x[0].span.to(x[2].span)),
)
_COLUMN = made(_COLUMN_HEAD + pp.ZeroOrMore(_ITEM), _values)


def _test(tokens: list[Any]) -> t.Test:
    name = tokens[1]
    detects = [item for item in tokens[3:-2] if isinstance(item, _Detects)]
    if len(detects) != 1:
        raise c.not_one_detects(name, [item.keyword for item in detects])
    lines = tuple(item for item in tokens[3:-2] if isinstance(item, t.Values))
    ends = [item for item in tokens[3:-2] if isinstance(item, t.Ends)]
    if len(ends) > 1:
        raise c.ends_twice(ends[1].span)
    return t.Test(
        name_of(name),
        lines,
        detects[0].events,
        ends[0] if ends else None,
        span=tokens[0].span.to(tokens[-2].span),
        name_span=name.span,
        detects_span=detects[0].keyword.span,
    )


TEST = made(
    word("test")
    + need_name("the pattern")
    + need("{", c.no_brace)
    + pp.ZeroOrMore(_DETECTS | _ENDS | _COLUMN)
    + need("}", c.bad_test_line)
    + Need(END, c.after_declaration),
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
