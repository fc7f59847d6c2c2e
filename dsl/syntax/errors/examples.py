"""Mistakes in `test` blocks become messages: each function makes one syntax error."""

from __future__ import annotations

from wayeb_py.dsl.syntax.errors.declarations import expected, foreign_sign, something
from wayeb_py.dsl.syntax.errors.syntax_error import PatternSyntaxError
from wayeb_py.dsl.syntax.lexicon import Piece, Token
from wayeb_py.dsl.wording import did_you_mean
from wayeb_py.errors import Span

no_event_number = expected(
    "an event is told by its number, counted from 0",
    "write for example `detects at 3, 7`",
)
no_time_of_match = expected(
    "a time is expected here",
    "write for example `detects 0 1 at 3h`",
)
no_end = expected(
    "`ends at` is followed by a time",
    "write for example `ends at 3h`",
)


def bad_test_line(piece: Piece, token: Token) -> PatternSyntaxError:
    if token.kind == "end":
        opening = piece.whole.index("{", piece.base)
        return PatternSyntaxError(
            "this brace is never closed", Span(opening, opening + 1), "opened here, and its `}` is missing"
        )
    rest = piece.whole[token.end : piece.base + len(piece)]
    if token.kind in ("name", "backquoted") and rest[:1] == ":":
        return PatternSyntaxError(
            "after the colon comes a space", Span(token.start, token.end + 1), "the values touch the colon"
        )
    if token.kind == "name":
        hint = did_you_mean(token.text, ["detects"]) or f"write `{token.text}: …` with one word an event"
        return PatternSyntaxError(
            f"unknown line `{token.text}` in a test", token.span, "neither `NAME:` nor `detects`", hint
        )
    if token.kind == "number":
        return PatternSyntaxError(
            "the events that are detected are separated by commas", token.span, "a comma is missing before this"
        )
    return foreign_sign(piece, token) or PatternSyntaxError(
        "a line of a test is `NAME: values` or `detects …`", token.span, f"`{token.text}` is neither"
    )


def no_at(piece: Piece, token: Token) -> PatternSyntaxError:
    hint = "write `detects at 3, 7` or `detects nothing`"
    return PatternSyntaxError("`detects` is followed by `at` or `nothing`", token.span, something(token), hint)


def time_twice(clause: Token) -> PatternSyntaxError:
    return PatternSyntaxError(f"`{clause.text}` stands twice for one match", clause.span, "once before it already")


def ends_twice(span: Span) -> PatternSyntaxError:
    return PatternSyntaxError(
        "a test says only once when its data end", span, "a second `ends at`", "leave one of them out"
    )


def not_one_detects(name: Token, keywords: list[Token]) -> PatternSyntaxError:
    if not keywords:
        return PatternSyntaxError(
            "this test does not say what is detected",
            name.span,
            "no `detects` in its block",
            "write `detects at 3` or `detects nothing`",
        )
    return PatternSyntaxError(
        "a test says only once what is detected", keywords[1].span, "a second `detects`", "write `detects at 3, 7`"
    )
