"""Mistakes in rules and facts become messages: each function makes one syntax error."""

from __future__ import annotations

import re

from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.errors.declarations import (
    SERVICE_WORDS,
    check_duration,
    expected,
    foreign_sign,
    hyphen,
    service_out_of_place,
    something,
)
from wayeb_py.dsl.syntax.errors.syntax_error import PatternSyntaxError
from wayeb_py.dsl.syntax.lexicon import RESERVED, Piece, Token
from wayeb_py.dsl.wording import did_you_mean, shown

CLAUSES = ("where", "unless", "once", "within", "emit")
"""The words that begin a clause of a rule, in the order in which clauses stand."""

_IN_ORDER = "the clauses come in the order `where`, `unless`, `once for`, `within`, `emit`"

no_for = expected("`once` is followed by `for` and a member", "write for example `once for r`")
no_combination = expected("`every` is followed by `combination of`", "write `every combination of x: A, y: B`")
no_columns = expected("after the name of facts come its columns", "write for example `facts owner(mmsi, company)`")
no_origin = expected(
    "facts come from a file, or from the changes of a stream",
    'write `from "owners.csv"`, or `from changes registry`',
)
no_file_column = expected(
    "what the file calls the columns stands in parentheses and double quotes",
    'write for example `columns (":START_ID", ":END_ID")`',
)
facts_never_closed = expected("the columns end with `)`", "separate them by commas, and close the parenthesis")


def no_assignment(piece: Piece, token: Token) -> PatternSyntaxError:
    if token.text in ("=", ":", "=="):
        return PatternSyntaxError(
            "a rule is defined with `:=`", token.span, f"`{token.text}` stands here", "write `:=`"
        )
    return hyphen(piece, token) or PatternSyntaxError(
        "after the name of a rule comes `:=`", token.span, something(token), "write `rule NAME := x: A, y: B where …`"
    )


def no_colon(piece: Piece, token: Token) -> PatternSyntaxError:
    return hyphen(piece, token) or PatternSyntaxError(
        "a member of a rule has a name, a colon, and what it ranges over",
        token.span,
        something(token),
        "write for example `r: Rendezvous` or `r: episode of Rendezvous`",
    )


def after_rule(piece: Piece, token: Token) -> PatternSyntaxError:
    """Something follows that cannot continue the rule."""
    before = " ".join(piece.whole[piece.base : token.start].split())
    if token.text in SERVICE_WORDS:
        return service_out_of_place(piece, token)
    if token.text in CLAUSES:
        if re.search(rf"\b{token.text}\b", before):
            return PatternSyntaxError(f"`{token.text}` stands twice", token.span, "once before it already", _IN_ORDER)
        return PatternSyntaxError(f"`{token.text}` stands too late", token.span, "after a later clause", _IN_ORDER)
    if " emit " in before and token.kind in ("name", "backquoted"):
        label, hint = "after the columns before it", "write `emit r.speed, p.place`"
        return PatternSyntaxError("a comma is missing between two columns", token.span, label, hint)
    following = piece.token_at(token.end - piece.base)
    if token.kind == "name" and following.text == ":" and token.text not in RESERVED:
        return PatternSyntaxError("a comma is missing between two members", token.span, "after the member before it")
    if token.kind == "name":
        return unknown_clause(token)
    found = hyphen(piece, token) or foreign_sign(piece, token)
    return found or PatternSyntaxError(
        f"`{shown(token.text)}` cannot stand here", token.span, "the rule could end before it", _IN_ORDER
    )


def unknown_clause(token: Token) -> PatternSyntaxError:
    """A word stands where a clause could begin."""
    hint = did_you_mean(token.text, CLAUSES) or _IN_ORDER
    return PatternSyntaxError(f"unknown clause `{token.text}`", token.span, "not a clause of a rule", hint)


def check_window(window: t.Within) -> None:
    """Refuses a window of a rule that is no length of time."""
    if window.events:
        raise PatternSyntaxError(
            "the window of a rule is a length of time: its rows are not counted",
            window.amount.span.to(window.span),
            "a number of events",
            "write for example `within 12 h`",
        )
    check_duration("within", window.amount)
