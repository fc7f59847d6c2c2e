"""The clauses that patterns and rules may end in: `within`, `emit`, and those about the quality of service."""

from __future__ import annotations

from typing import Any

import pyparsing as pp

from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.errors import declarations as errors
from wayeb_py.dsl.syntax.lexicon import Token
from wayeb_py.dsl.syntax.terminals import (
    COMMA,
    EMITTED,
    NAME_PATTERN,
    Lexical,
    Quantity,
    Required,
    made,
    name_of,
    need_name,
    required,
    word,
)


def _within(tokens: list[Any]) -> t.Within:
    keyword, found = tokens
    errors.check_window(found)
    return t.Within(found.amount, found.events, span=keyword.span.to(found.span))


WITHIN = made(word("within") + Quantity("within", events=True), _within)


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


def _emitted_value(tokens: list[Any]) -> t.EmittedValue:
    value, *given = tokens
    name = name_of(given[-1]) if given else None
    return t.EmittedValue(value, name, span=value.span.to(given[-1].span) if given else value.span)


_OF_ENTITY = Lexical("sign", rf"\.(?={NAME_PATTERN})") + need_name("emit")
_EMITTED = made(need_name("emit") + pp.Opt(_OF_ENTITY) + pp.Opt(word("as") + need_name("the emitted column")), _emitted)
_VALUE = made(EMITTED + pp.Opt(word("as") + need_name("the emitted value")), _emitted_value)


def _emit(tokens: list[Any]) -> t.Emit:
    return t.Emit(
        tuple(item for item in tokens if not isinstance(item, Token)), span=tokens[0].span.to(tokens[-1].span)
    )


EMIT = made(word("emit") + (_VALUE | _EMITTED) + pp.ZeroOrMore(COMMA + (_VALUE | _EMITTED)), _emit)
EMIT_COLUMNS = made(word("emit") + _EMITTED + pp.ZeroOrMore(COMMA + _EMITTED), _emit)  # of a rule


def _valid(tokens: list[Any]) -> t.ValidFor:
    first, _, duration, *otherwise = tokens
    errors.check_duration("valid for", duration)
    end = otherwise[1].span if otherwise else duration.span
    return t.ValidFor(duration, otherwise[1].text if otherwise else None, span=first.span.to(end))


def _shed(tokens: list[Any]) -> t.ShedAfter:
    errors.check_duration("shed after", tokens[2])
    errors.check_shed_duration(tokens[2])
    return t.ShedAfter(tokens[2], span=tokens[0].span.to(tokens[2].span))


def _service(tokens: list[Any]) -> t.Service:
    kinds: dict[type, Any] = {type(item): item for item in tokens}
    span = tokens[0].span.to(tokens[-1].span)
    return t.Service(kinds.get(t.Priority), kinds.get(t.ValidFor), kinds.get(t.ShedAfter), span=span)


_PRIORITY = made(
    word("priority") + Required(Lexical("level", r"(?:high|normal|low)\b"), errors.bad_level),
    lambda x: t.Priority(x[1].text, span=x[0].span.to(x[1].span)),
)
_VALID = made(
    word("valid")
    + required("for", errors.no_valid_for)
    + Quantity("valid for", example="valid for 2 s")
    + pp.Opt(word("else") + Required(Lexical("otherwise", r"(?:mark|drop)\b"), errors.bad_otherwise)),
    _valid,
)
_SHED = made(
    word("shed") + required("after", errors.no_shed_after) + Quantity("shed after", example="shed after 500 ms"), _shed
)
SERVICE = made(
    (_PRIORITY + pp.Opt(_VALID) + pp.Opt(_SHED)) | (_VALID + pp.Opt(_SHED)) | _SHED,
    _service,
)
