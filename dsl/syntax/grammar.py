"""The declarations of a .sre file as a pyparsing grammar, over the terminals of `terminals.py`."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import pyparsing as pp

from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.clauses import EMIT, SERVICE, WITHIN
from wayeb_py.dsl.syntax.errors import declarations as errors
from wayeb_py.dsl.syntax.example_grammar import TEST
from wayeb_py.dsl.syntax.lexicon import NUMBER, RESERVED, WHICH_MATCHES, Token
from wayeb_py.dsl.syntax.terminals import (
    END,
    EXPRESSION,
    NAME_PATTERN,
    QUOTED,
    Lexical,
    Quantity,
    Required,
    end_of,
    made,
    name_of,
    need_name,
    required,
    text_of,
    word,
)
from wayeb_py.errors import Span

# Stream.

_UNIT_PATTERN = r"[^\W\d]\w*(?:[ \t]*/[ \t]*\w+)?|°"
_KIND = Required(Lexical("kind", r"(?:number|text|bool|time)\b"), errors.bad_kind)
_UNIT = Required(Lexical("unit", _UNIT_PATTERN, RESERVED), errors.no_unit)


def _attr(tokens: list[Any]) -> t.Attr:
    _, name, kind, *rest = tokens
    unit = rest[1] if rest else None
    if unit is not None:
        errors.check_unit(unit)
        if kind.text != "number":
            raise errors.unit_of_other_kind(kind, unit)
    return t.Attr(name_of(name), kind.text, unit.text if unit else None, span=name.span)


def _time(tokens: list[Any]) -> t.Time:
    _, name, *rest = tokens
    if rest:
        errors.check_time_unit(rest[1])
    return t.Time(name_of(name), rest[1].text if rest else None, span=name.span)


_STREAM_LINE = pp.MatchFirst(
    [
        made(word("key") + need_name("the key"), lambda x: t.Key(name_of(x[1]), span=x[1].span)),
        made(word("time") + need_name("the time") + pp.Opt(word("in") + _UNIT), _time),
        made(
            word("position")
            + need_name("the longitude")
            + required(",", errors.position_comma)
            + need_name("the latitude"),
            lambda x: t.Position(name_of(x[1]), name_of(x[3]), span=x[1].span.to(x[3].span)),
        ),
        made(word("attr") + need_name("an attribute") + _KIND + pp.Opt(word("in") + _UNIT), _attr),
        made(word("order") + need_name("the order"), lambda x: t.Order(name_of(x[1]), span=x[1].span)),
        made(
            word("motion") + need_name("the speed") + required(",", errors.motion_comma) + need_name("the course"),
            lambda x: t.Motion(name_of(x[1]), name_of(x[3]), span=x[1].span.to(x[3].span), course_span=x[3].span),
        ),
        made(word("lateness") + Quantity("lateness"), lambda x: t.Lateness(x[1], span=x[1].span)),
        made(
            word("forget") + required("after", errors.forget_after) + Quantity("forget after"),
            lambda x: t.Forget(x[2], span=x[2].span),
        ),
        made(word("dedupe"), lambda x: t.Dedupe(span=x[0].span)),
        made(word("replace"), lambda x: t.Replace(span=x[0].span)),
        made(
            word("clean") + Required(Lexical("what to clean", r"(?:ais|gps)\b"), errors.bad_clean),
            lambda x: t.Clean(x[1].text, span=x[1].span),
        ),
    ]
)

STREAM = made(
    word("stream")
    + need_name("the stream")
    + required("{", errors.no_brace)
    + pp.ZeroOrMore(_STREAM_LINE)
    + required("}", errors.bad_stream_line)
    + Required(END, errors.after_declaration),
    lambda x: t.Stream(name_of(x[1]), tuple(x[3:-2]), span=x[0].span.to(x[-2].span), name_span=x[1].span),
)

# Knowledge, include, let.


def _shape(shape: str) -> pp.ParserElement:
    declared = word(shape) + need_name(shape) + required("from", errors.no_from)
    named = word("name") + Required(QUOTED, errors.no_column)
    declared = (
        declared + Required(QUOTED, errors.no_path) + pp.Optional(named) + Required(END, errors.after_declaration)
    )
    return made(declared, lambda x: _knowledge(shape, x[:-1]))


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
    errors.check_duration("by time", tokens[6])
    errors.check_length("nearest", tokens[9])
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
    + required("from", errors.no_from)
    + Required(QUOTED, errors.no_path)
    + required("by", errors.no_lookup_by)
    + required("time", errors.no_lookup_by)
    + Quantity("by time")
    + required(",", errors.no_lookup_by)
    + required("nearest", errors.no_lookup_by)
    + Quantity("nearest")
    + Required(END, errors.after_declaration),
    _lookup,
)

INCLUDE = made(
    word("include") + Required(QUOTED, errors.no_path) + Required(END, errors.after_declaration),
    lambda x: t.Include(text_of(x[1]), span=x[0].span.to(x[1].span), path_span=x[1].span),
)

LET = made(
    word("let")
    + need_name("let")
    + Required(Lexical("`=`", r"=(?!=)"), errors.no_equals)
    + EXPRESSION
    + Required(END, errors.after_expression),
    lambda x: t.Let(name_of(x[1]), x[3], span=x[0].span.to(x[3].span), name_span=x[1].span),
)

# Pattern.

_EACH = made(
    word("for")
    + required("each", errors.no_each)
    + need_name("the row")
    + required("in", errors.no_each_in)
    + need_name("the places"),
    lambda x: t.ForEach(name_of(x[2]), name_of(x[4]), span=x[0].span.to(x[4].span), places_span=x[4].span),
)
# `for each pair in port` is a row called `pair`.
_PAIR = Lexical("pair", rf"(?:ordered\s+)?pair\b(?=\s+(?!in\b)(?:{NAME_PATTERN}))")
_ENTITY, _STREAM = need_name("the entity"), need_name("the stream of a pair")
_OF_ONE_STREAM = word(",") + _ENTITY + required("in", errors.no_pair_in) + _STREAM
_OF_TWO_STREAMS = (
    required("in", errors.no_pair_in)
    + _STREAM
    + required(",", errors.no_second_entity)
    + _ENTITY
    + required("in", errors.no_pair_in)
    + _STREAM
)


def _each_pair(tokens: list[Any]) -> t.EachPair:
    names = [token for token in tokens if isinstance(token, Token) and token.kind == "name"]
    within, fresh = (item for item in tokens if isinstance(item, t.Number))
    errors.check_length("within", within)
    errors.check_duration("fresh", fresh)
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
    + required("within", errors.no_reach)
    + Quantity("within", example="within 1 km")
    + required("fresh", errors.no_fresh)
    + Quantity("fresh")
    + pp.Opt(word("projected")),
    _each_pair,
)
_ON = made(word("on") + need_name("on"), lambda x: t.On(name_of(x[1]), span=x[0].span.to(x[1].span)))


def _silence(tokens: list[Any]) -> t.Silence:
    semicolon, _, *of, duration = tokens
    errors.check_duration("silence", duration)
    span = semicolon.span.to(duration.span)
    return t.Silence(duration, name_of(of[1]), of[1].span, span=span) if of else t.Silence(duration, span=span)


_SILENCE = made(
    word(";")
    + Lexical("silence", r"silence\b(?=\s*(?:\d|of\b))")
    + pp.Opt(word("of") + need_name("silence of"))
    + Quantity("silence"),
    _silence,
)
_WORD_END = made(word(";") + Lexical("$", r"\$"), lambda x: t.WordEnd(span=x[0].span.to(x[1].span)))


_WHICH = made(
    Lexical("which", "|".join(r"\s+".join(words.split()) + r"\b" for words in WHICH_MATCHES)),
    lambda x: t.Which(" ".join(x[0].text.split()), span=x[0].span),
)


def _pattern(tokens: list[Any]) -> t.Pattern:
    name = tokens[1]
    kinds: dict[type, Any] = {type(item): item for item in tokens}
    body = next(item for item in tokens if isinstance(item, t.Expression))
    return t.Pattern(
        name_of(name),
        body,
        kinds.get(t.EachPair, kinds.get(t.ForEach)),
        kinds.get(t.Within),
        kinds.get(t.Emit),
        kinds.get(t.On),
        kinds.get(t.Silence, kinds.get(t.WordEnd)),
        kinds.get(t.Which),
        kinds.get(t.Service),
        span=Span(tokens[0].start, end_of(tokens[-2])),
        name_span=name.span,
    )


PATTERN = made(
    word("pattern")
    + need_name("pattern")
    + pp.Opt(_ON)
    + pp.Opt(_EACH_PAIR | _EACH)
    + required(":=", errors.no_assignment)
    + EXPRESSION
    + pp.Opt(_SILENCE | _WORD_END)
    + pp.Opt(WITHIN)
    + pp.Opt(_WHICH)
    + pp.Opt(EMIT)
    + pp.Opt(SERVICE)
    + Required(END, errors.after_expression),
    _pattern,
)


def _forecast(tokens: list[Any]) -> t.Forecast:
    keyword, name, word_within, found, *held, _ = tokens
    errors.check_window(found)
    within = t.Within(found.amount, found.events, span=word_within.span.to(found.span))
    confidence = t.Number(held[1].text, None, span=held[1].span) if held else None
    end = within.span if confidence is None else confidence.span
    return t.Forecast(name_of(name), within, confidence, span=keyword.span.to(end), name_span=name.span)


FORECAST = made(
    word("forecast")
    + need_name("forecast")
    + required("within", errors.no_horizon)
    + Quantity("within", events=True)
    + pp.Opt(word("with") + Required(Lexical("number", str(NUMBER.pattern)), errors.no_confidence))
    + Required(END, errors.after_declaration),
    _forecast,
)

_DECLARATIONS: dict[str, pp.ParserElement] = {
    "stream": STREAM,
    "points": _shape("points"),
    "lines": _shape("lines"),
    "areas": _shape("areas"),
    "lookup": LOOKUP,
    "let": LET,
    "pattern": PATTERN,
    "test": TEST,
    "include": INCLUDE,
    "forecast": FORECAST,
}


@cache
def grammar_of(keyword: str) -> pp.ParserElement:
    """The grammar of the declarations that begin with a keyword."""
    declaration = _DECLARATIONS.get(keyword)
    if declaration is None:
        from wayeb_py.dsl.syntax.rule_grammar import DECLARATIONS_OF_RULES  # for start-up time

        declaration = DECLARATIONS_OF_RULES[keyword]
    declaration.parse_with_tabs()
    declaration.streamline()
    return declaration
