"""The grammar of `test` blocks: lines of values, `ends at`, and the expected detections."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyparsing as pp

from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.errors import declarations as errors
from wayeb_py.dsl.syntax.errors import examples as example_errors
from wayeb_py.dsl.syntax.errors.numbers import check_literal
from wayeb_py.dsl.syntax.lexicon import BACKQUOTED, COMMENT, NAME, TEXT, Piece, Token
from wayeb_py.dsl.syntax.terminals import (
    COMMA,
    END,
    Lexical,
    Required,
    Terminal,
    made,
    name_of,
    need_name,
    required,
    text_of,
    word,
)
from wayeb_py.errors import Span

_HEAD = rf"(?:{NAME.pattern}|{BACKQUOTED.pattern}):(?=\s|//|\}}|\Z)"
_COLUMN_HEAD = Lexical("column", rf"(?!detects\b){_HEAD}")
_NO_ITEM = rf"detects\b|ends(?:\s|{COMMENT.pattern})+at\b(?!:)|{_HEAD}"
_ITEM = Lexical(
    "item",
    rf"(?!{_NO_ITEM}){TEXT.pattern}(?=[\s}}]|\Z)|(?!{_NO_ITEM})(?:[^\s{{}}\"/]|/(?!/))+",
)


def _values(tokens: list[Any]) -> t.TestLine:
    head, *items = tokens
    name = name_of(Token("name", head.text[:-1], head.start, head.end))
    return t.TestLine(
        None if head.text == "at:" else name,
        tuple(
            t.Item(text_of(i) if i.text.startswith('"') else i.text, i.text.startswith('"'), span=i.span) for i in items
        ),
        span=Span(head.start, head.end - 1),
    )


class _Column(Terminal):
    """The name of a column and its values, read in a loop: a library has thousands of them."""

    def read(self, piece: Piece, loc: int) -> tuple[int, Any] | None:
        found = _COLUMN_HEAD.read(piece, loc)
        if found is None:
            return None
        tokens = []
        while found is not None:
            end, token = found
            tokens.append(token)
            found = _ITEM.read(piece, end)
        return end, _values(tokens)


def _detected(tokens: list[Any]) -> t.ExpectedDetection:
    numbers = [token for token in tokens if token.kind == "whole"]
    for number in numbers:
        check_literal(number)
    values = [int(number.text) for number in numbers]
    return t.ExpectedDetection(
        values[0], values[1] if len(values) > 1 else None, span=numbers[0].span.to(numbers[-1].span)
    )


def _match(tokens: list[Any]) -> t.ExpectedMatch:
    """The rows of a match by number, and the times that follow `at`, `from` and `decided`."""
    numbers = [token for token in tokens if token.kind == "whole"]
    for number in numbers:
        check_literal(number)
    times: dict[str, str] = {}
    for clause, time in pairwise(tokens):
        if time.kind == "time":
            if clause.text in times:
                raise example_errors.time_twice(clause)
            times[clause.text] = "".join(time.text.split())
    return t.ExpectedMatch(
        tuple(int(number.text) for number in numbers),
        tokens[0].text if tokens[0].kind == "op" else None,
        times.get("at"),
        times.get("from"),
        times.get("decided"),
        span=tokens[0].span.to(tokens[-1].span),
    )


_WHOLE = Required(Lexical("whole", r"[0-9]+(?![\w.])"), example_errors.no_event_number)
_DETECTED = made(_WHOLE + pp.Opt(word("from") + _WHOLE), _detected)
_TIME = r"[^\s{},/]+(?:[ \t]+(?:ms|s|min|h|d)\b)?"
_ROW = Lexical("whole", r"[0-9]+(?![\w.])")
_OF_MATCH = Lexical("clause", r"(?:at|from|decided)\b") + Required(
    Lexical("time", _TIME), example_errors.no_time_of_match
)
_MATCH = made(pp.Opt(Lexical("op", r"[-+]")) + _ROW + pp.ZeroOrMore(_ROW) + pp.ZeroOrMore(_OF_MATCH), _match)


@dataclass(frozen=True, slots=True)
class _Detects:
    keyword: Token
    events: tuple[t.ExpectedDetection, ...]
    matches: tuple[t.ExpectedMatch, ...]


_DETECTS = made(
    word("detects")
    + (
        word("nothing")
        | _MATCH + pp.ZeroOrMore(COMMA + _MATCH)
        | required("at", example_errors.no_at) + _DETECTED + pp.ZeroOrMore(COMMA + _DETECTED)
    ),
    lambda x: _Detects(
        x[0],
        tuple(item for item in x if isinstance(item, t.ExpectedDetection)),
        tuple(item for item in x if isinstance(item, t.ExpectedMatch)),
    ),
)
_ENDS = made(
    word("ends")
    + word("at")
    + Required(Lexical("time", r"[^\s{}/]+(?:[ \t]+(?:ms|s|min|h|d)\b)?"), example_errors.no_end),
    lambda x: t.Ends("".join(x[2].text.split()), span=x[0].span.to(x[2].span)),
)


def _test(tokens: list[Any]) -> t.Test:
    name = tokens[1]
    detects = [item for item in tokens[3:-2] if isinstance(item, _Detects)]
    if len(detects) != 1:
        raise example_errors.not_one_detects(name, [item.keyword for item in detects])
    lines = tuple(item for item in tokens[3:-2] if isinstance(item, t.TestLine))
    ends = [item for item in tokens[3:-2] if isinstance(item, t.Ends)]
    if len(ends) > 1:
        raise example_errors.ends_twice(ends[1].span)
    return t.Test(
        name_of(name),
        lines,
        detects[0].events,
        ends[0] if ends else None,
        detects[0].matches,
        span=tokens[0].span.to(tokens[-2].span),
        name_span=name.span,
        detects_span=detects[0].keyword.span,
    )


TEST = made(
    word("test")
    + need_name("the pattern")
    + required("{", errors.no_brace)
    + pp.ZeroOrMore(_Column("a column") | _DETECTS | _ENDS)
    + required("}", example_errors.bad_test_line)
    + Required(END, errors.after_declaration),
    _test,
)
