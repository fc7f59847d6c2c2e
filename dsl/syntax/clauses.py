"""The clauses that patterns and rules may end in: `within` and `emit`."""

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
    made,
    name_of,
    need_name,
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
