"""Mistakes in declarations, around their expressions, become messages: each function makes one syntax error."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.errors import habits
from wayeb_py.dsl.syntax.errors.expressions import foreign, looks_like_clause, reserved_word
from wayeb_py.dsl.syntax.errors.numbers import duration_of_others, spaced_unit, unknown_unit
from wayeb_py.dsl.syntax.errors.syntax_error import PatternSyntaxError
from wayeb_py.dsl.syntax.lexicon import DECLARATIONS, RESERVED, WHICH_MATCHES, Piece, Token
from wayeb_py.dsl.units import SECONDS, TIME_UNITS, UNITS, WrongQuantity, missing_unit, wrong_duration, wrong_length
from wayeb_py.dsl.wording import did_you_mean, shown
from wayeb_py.errors import Span

STREAM_WORDS = (
    "key", "time", "position", "motion", "attr", "order", "lateness", "forget", "dedupe", "clean", "replace",
)  # fmt: skip

_OTHER_KINDS = {
    "int": "number", "integer": "number", "float": "number", "double": "number", "real": "number", "numeric": "number",
    "decimal": "number", "long": "number", "string": "text", "str": "text", "varchar": "text", "char": "text",
    "boolean": "bool", "logical": "bool", "timestamp": "time", "datetime": "time", "date": "time",
}  # fmt: skip

_NAMED = {
    "pattern": ("a pattern", "pattern Route := off ; moving+ ; off"),
    "let": ("a `let`", 'let off = engine = "off"'),
    "points": ("a declaration of `points`", 'points port from "ports.csv"'),
    "lines": ("a declaration of `lines`", 'lines coast from "coast.geojson"'),
    "areas": ("a declaration of `areas`", 'areas city from "cities.geojson"'),
    "forecast": ("a forecast", "forecast Route within 30 min with 0.7"),
    "lookup": ("a `lookup`", 'lookup weather from "weather.csv" by time 1 h, nearest 50 km'),
    "emit": ("`emit`", "emit speed, fuel"),
    "the stream": ("a stream", "stream vehicles { … }"),
    "the pattern": ("a test", "test Route { … }"),
    "the key": ("the line `key`", "key vehicle_id"),
    "the time": ("the line `time`", "time ts in s"),
    "the order": ("the line `order`", "order row_number"),
    "the longitude": ("the line `position`", "position lon, lat"),
    "the latitude": ("the line `position`", "position lon, lat"),
    "an attribute": ("the line `attr`", "attr speed number in km/h"),
    "the speed": ("the line `motion`", "motion speed, course"),
    "the course": ("the line `motion`", "motion speed, course"),
    "the row": ("`for each`", "for each p in port"),
    "the entity": ("`for each pair`", "for each pair a, b in vessels within 1 km fresh 10 min"),
    "the stream of a pair": ("`for each pair`", "for each pair a, b in vessels within 1 km fresh 10 min"),
    "on": ("`on`", "pattern Slow on vessels := …"),
    "silence of": ("`silence of`", "silence of a 6 h"),
    "the emitted column": ("`as`", "emit a.speed as speed_a"),
    "the emitted value": ("`as`", "emit max(speed) as top"),
    "the places": ("`for each`", "for each p in port"),
    "rule": ("a rule", "rule Handover := r: Rendezvous, p: PortCall where …"),
    "the member": ("a member of a rule", "r: Rendezvous"),
    "what it ranges over": ("a member of a rule", "r: Rendezvous"),
    "once for": ("`once for`", "once for r"),
    "facts": ("a declaration of `facts`", 'facts owner(mmsi, company) from "owners.csv"'),
    "a column of facts": ("a column of facts", 'facts owner(mmsi, company) from "owners.csv"'),
    "the stream of changes": ("`from changes`", "facts listed(mmsi) from changes registry"),
}


def something(token: Token) -> str:
    """Says which token stands where the text lacks something else."""
    return "the declaration ends here" if token.kind == "end" else f"`{shown(token.text)}` stands here instead"


ErrorAt = Callable[["Piece", Token], PatternSyntaxError]


def expected(message: str, hint: str, after: Literal["name", "column"] | None = None) -> ErrorAt:
    """Makes the error for a required word or sign that is missing; `after` a name or a column a hyphen may be the
    cause."""

    def error(piece: Piece, token: Token) -> PatternSyntaxError:
        found_hyphen = None if after is None else hyphen(piece, token, after == "column")
        return found_hyphen or PatternSyntaxError(message, token.span, something(token), hint)

    return error


_A_PAIR = "for each pair a, b in vessels within 1 km fresh 10 min"

no_brace = expected(
    "a block in braces is expected here",
    "write `{` and close it with `}`",
    after="name",
)
position_comma = expected(
    "a position is two columns with a comma between them",
    "write `position lon, lat`",
    after="column",
)
motion_comma = expected(
    "a motion is two columns, speed and course, with a comma between them",
    "write `motion speed, course`",
    after="column",
)
no_unit = expected(
    "a unit is expected after `in`",
    "write for example `in km/h`",
)
forget_after = expected(
    "`forget` is followed by `after`",
    "write `forget after 30 d`",
)
no_lookup_by = expected(
    "after the file comes how its rows are found",
    "write for example `by time 1 h, nearest 50 km`",
)
no_column = expected(
    "the column of the file that is the name, in double quotes, is expected",
    'write for example `name "Main Port Name"`',
)
no_each = expected(
    "`for` is followed by `each`",
    "write `for each p in port`",
)
no_pair_in = expected(
    "after the names of a pair comes `in` and the stream",
    f"write `{_A_PAIR}`",
)
no_second_entity = expected(
    "a pair has two entities",
    f"write `{_A_PAIR}`",
)
no_reach = expected(
    "a pair says how near its entities are",
    "write for example `within 1 km fresh 10 min` after the stream",
)
no_horizon = expected(
    "a forecast says how far it looks",
    "write for example `forecast Stop within 30 min with 0.7`",
    after="name",
)
no_confidence = expected(
    "after `with` comes how much of the waiting time the interval holds",
    "write a number between 0 and 1, such as `with 0.7`",
)
no_fresh = expected(
    "a pair says for how long a position counts",
    "write for example `fresh 10 min`: an entity that has been silent for longer may be anywhere",
)


def no_name(what: str, piece: Piece, token: Token) -> PatternSyntaxError:
    who, example = _NAMED[what]
    if token.kind == "name" and token.text in RESERVED:
        if what in ("pattern", "let", "points", "lines", "areas", "lookup", "the stream", "the row", "the entity"):
            return PatternSyntaxError(
                f"`{token.text}` is a reserved word", token.span, "cannot be a name", "choose another name"
            )
        return reserved_word(token)
    if token.kind == "text":
        return PatternSyntaxError("a name has no quotes", token.span, "a text, not a name", f"write `{example}`")
    if token.kind == "number" and what != "silence of":
        return PatternSyntaxError(
            "a name begins with a letter", token.span, "begins with a digit", "put a letter in front of it"
        )
    found = foreign(piece.whole, token) if token.kind == "stray" else None
    if found is not None:
        return found
    if what == "emit" and token.text in ("*", "("):
        hint = (
            "name the columns: `emit speed, fuel`" if token.text == "*" else "write `emit speed, fuel`, no parentheses"
        )
        return PatternSyntaxError("`emit` is followed by the names of columns", token.span, something(token), hint)
    return PatternSyntaxError(f"{who} needs a name", token.span, something(token), f"write for example `{example}`")


def hyphen(piece: Piece, token: Token, is_column: bool = False) -> PatternSyntaxError | None:
    """A hyphen stands between two words that belong together."""
    text, base = piece.whole, piece.base
    if token.text != "-" or token.start <= base:
        return None
    start, end = token.start, token.end
    while start > base and (text[start - 1].isalnum() or text[start - 1] in "_-"):
        start -= 1
    while end < base + len(piece) and (text[end].isalnum() or text[end] in "_-"):
        end += 1
    name = text[start:end]
    if start == token.start or end == token.end:
        return None
    return PatternSyntaxError(
        "a name cannot hold a hyphen",
        Span(start, end),
        "`-` is the minus sign",
        f"write it in backquotes: `` `{name}` ``" if is_column else f"write `{name.replace('-', '_')}`",
    )


def no_assignment(piece: Piece, token: Token) -> PatternSyntaxError:
    found_hyphen = hyphen(piece, token)
    if found_hyphen is not None:
        return found_hyphen
    if token.text in ("=", ":", "==", "::="):
        return PatternSyntaxError(
            "a pattern is defined with `:=`", token.span, f"`{token.text}` stands here", "write `:=`"
        )
    if token.kind == "name" and token.text not in RESERVED:
        return PatternSyntaxError(
            "the name of a pattern is one word",
            token.span,
            "a second word",
            "write `:=` after the name, or join the words with `_`",
        )
    return PatternSyntaxError(
        "after the name of a pattern comes `:=`", token.span, something(token), "write `pattern NAME := …`"
    )


def no_equals(piece: Piece, token: Token) -> PatternSyntaxError:
    found_hyphen = hyphen(piece, token)
    if found_hyphen is not None:
        return found_hyphen
    if token.text in (":=", ":", "=="):
        return PatternSyntaxError("a `let` is defined with `=`", token.span, f"`{token.text}` stands here", "write `=`")
    if token.text == "(":
        return PatternSyntaxError("a `let` has no arguments", token.span, "`=` is expected here")
    return PatternSyntaxError(
        "after the name of a `let` comes `=`", token.span, something(token), "write `let NAME = …`"
    )


def bad_kind(piece: Piece, token: Token) -> PatternSyntaxError:
    found_hyphen = hyphen(piece, token, is_column=True)
    if found_hyphen is not None:
        return found_hyphen
    if token.kind != "name" or token.text in STREAM_WORDS:
        return PatternSyntaxError(
            "an attribute needs a type",
            token.span,
            something(token),
            "the types are `number`, `text`, `bool` and `time`",
        )
    known = _OTHER_KINDS.get(token.text.lower())
    hint = f"write `{known}`" if known else did_you_mean(token.text, ["number", "text", "bool", "time"])
    hint = hint or "the types are `number`, `text`, `bool` and `time`"
    return PatternSyntaxError(f"unknown type `{token.text}`", token.span, "not a type of attributes", hint)


def check_unit(token: Token) -> None:
    """Refuses a word that is not a unit."""
    if token.text in UNITS:
        return
    joined = "".join(token.text.split())
    if joined in UNITS:
        raise spaced_unit(joined, token.span)
    raise unknown_unit(token.text, token.span)


def check_time_unit(token: Token) -> None:
    """Refuses a word that is not a unit of a time column."""
    if token.text not in TIME_UNITS:
        raise PatternSyntaxError(
            f"a time column cannot be in `{token.text}`",
            token.span,
            "not such a unit",
            "the units are `s`, `ms`, `us` and `ns`; a column of timestamps needs none",
        )


def unit_of_other_kind(kind: Token, unit: Token) -> PatternSyntaxError:
    return PatternSyntaxError(
        f"only numbers have a unit, and this attribute is `{kind.text}`", unit.span, "leave out the unit"
    )


def bad_clean(piece: Piece, token: Token) -> PatternSyntaxError:
    return PatternSyntaxError(
        "`clean` knows `ais` and `gps`", token.span, something(token), did_you_mean(token.text, ["ais", "gps"])
    )


def bad_stream_line(piece: Piece, token: Token) -> PatternSyntaxError:
    if token.kind == "end":
        opening = piece.whole.index("{", piece.base)
        return PatternSyntaxError(
            "this brace is never closed", Span(opening, opening + 1), "opened here, and its `}` is missing"
        )
    found_hyphen = hyphen(piece, token, is_column=True)
    if found_hyphen is not None:
        return found_hyphen
    if token.text in (";", ","):
        return PatternSyntaxError(
            f"`{token.text}` cannot stand here",
            token.span,
            "lines of a block end without a sign",
            f"leave out the `{token.text}`",
        )
    hint = did_you_mean(token.text, STREAM_WORDS) or "the lines begin with " + ", ".join(f"`{w}`" for w in STREAM_WORDS)
    return PatternSyntaxError(
        f"unknown line `{shown(token.text)}` in a stream block", token.span, "not a word of this block", hint
    )


def no_from(piece: Piece, token: Token) -> PatternSyntaxError:
    return hyphen(piece, token) or PatternSyntaxError(
        "after the name comes `from` and the file",
        token.span,
        something(token),
        'write for example `from "ports.csv"`',
    )


def foreign_sign(piece: Piece, token: Token) -> PatternSyntaxError | None:
    """Says what is wrong with a sign that the language does not have."""
    return foreign(piece.whole, token) if token.kind == "stray" else None


def no_path(piece: Piece, token: Token) -> PatternSyntaxError:
    return foreign_sign(piece, token) or PatternSyntaxError(
        "the path of a file in double quotes is expected", token.span, something(token)
    )


def after_declaration(piece: Piece, token: Token) -> PatternSyntaxError:
    if token.text in ("#", "-", "/", "%"):
        return PatternSyntaxError(habits.A_COMMENT, token.span, "does not begin a comment here", "write `//`")
    return PatternSyntaxError(
        "this belongs to no declaration", token.span, "the declaration before it has ended", _declaration_hint(token)
    )


def _declaration_hint(token: Token) -> str | None:
    close = did_you_mean(token.text, DECLARATIONS) if token.kind == "name" else None
    return close or "a declaration begins with its keyword: " + ", ".join(f"`{word}`" for word in DECLARATIONS)


def unknown_declaration(token: Token) -> PatternSyntaxError:
    """A line that looks like a declaration begins with a word that is none of their keywords."""
    if token.text in ("#", "-", "/", "%", "'"):
        return PatternSyntaxError(habits.A_COMMENT, token.span, "does not begin a comment here", "write `//`")
    if token.kind != "name":
        return PatternSyntaxError(
            "a declaration is expected here", token.span, "not a keyword", _declaration_hint(token)
        )
    return PatternSyntaxError(
        f"unknown declaration `{token.text}`", token.span, "not a keyword", _declaration_hint(token)
    )


def no_keyword(token: Token) -> PatternSyntaxError:
    """A line defines something with `:=` and does not say what."""
    return PatternSyntaxError(
        "this declaration has no keyword",
        token.span,
        "a name without `pattern` before it",
        f"write `pattern {token.text} := …`",
    )


bad_level = expected("`priority` is `high`, `normal` or `low`", "write for example `priority high`")
no_valid_for = expected("`valid` is followed by `for` and a duration", "write for example `valid for 2 s`")
bad_otherwise = expected("after `else` comes `mark` or `drop`", "write `valid for 2 s else mark`, or `… else drop`")
no_shed_after = expected("`shed` is followed by `after` and a duration", "write for example `shed after 500 ms`")
SERVICE_WORDS = ("priority", "valid", "shed")
_END = re.compile(r";\s*(silence\b|\$)")
_ENDED = re.compile(r"; (silence (?:of \S+ )?[\d.]+ ?\w+|\$)$")
_SERVICE_BEFORE = re.compile(r"\b(?:priority (?:high|normal|low)|valid for|shed after)\b")
_SERVICE_ORDER = "they come last, in the order `priority`, `valid for`, `shed after`"


def service_out_of_place(piece: Piece, token: Token) -> PatternSyntaxError:
    """A clause about the quality of service stands twice, or before one that it follows."""
    before = " ".join(piece.whole[piece.base : token.start].split()) + " "
    if f" {token.text} " in before:
        return PatternSyntaxError(f"`{token.text}` stands twice", token.span, "once before it already")
    return PatternSyntaxError(f"`{token.text}` stands too late", token.span, "after a later clause", _SERVICE_ORDER)


def after_expression(piece: Piece, token: Token) -> PatternSyntaxError:
    keyword = piece.split(None, 1)[0]
    if token.text in ("within", "emit", *SERVICE_WORDS) and keyword == "let":
        return PatternSyntaxError(f"`{token.text}` belongs to a pattern", token.span, "a `let` has no such clause")
    end = _END.match(piece.whole, token.start)
    if end is not None:
        word, span = end[1], Span(*end.span())
        if keyword == "let":
            return PatternSyntaxError(f"`{word}` belongs to a pattern", span, "a `let` has no such clause")
        return PatternSyntaxError(
            f"`{word}` comes right after the sequence", span, "after `within` or `emit`", "change their order"
        )
    before_it = " ".join(piece.whole[piece.base : token.start].split())
    ended = _ENDED.search(before_it) if keyword == "pattern" and token.kind == "sign" else None
    if ended is not None:
        what = "the end of a word" if ended[1] == "$" else "a silence"
        return PatternSyntaxError(
            f"`{'$' if ended[1] == '$' else 'silence'}` is the last part of a pattern",
            token.span,
            f"`{shown(token.text)}` follows it",
            f"what comes after {what} is a pattern of its own",
        )
    if token.text in SERVICE_WORDS and keyword == "pattern":
        return service_out_of_place(piece, token)
    if token.text in ("within", "emit") and _SERVICE_BEFORE.search(before_it):
        return PatternSyntaxError(f"`{token.text}` stands too late", token.span, "after a later clause", _SERVICE_ORDER)
    if token.text in ("within", "emit"):
        before = piece.whole[piece.base : token.start]
        if f" {token.text} " in " ".join(before.split()) + " ":
            return PatternSyntaxError(f"`{token.text}` stands twice", token.span, "once before it already")
        which = next((words for words in WHICH_MATCHES if words in " ".join(before.split())), "emit")
        label = f"after `{which}`"
        return PatternSyntaxError(f"`within` stands before `{which}`", token.span, label, "change their order")
    found_hyphen = hyphen(piece, token, is_column=True)
    if found_hyphen is not None:
        return found_hyphen
    emits = " emit " in " ".join(piece.whole[piece.base : token.start].split())
    if token.kind in ("name", "backquoted") and emits and not looks_like_clause(token):
        label, hint = "after the columns before it", "write `emit a, b`"
        return PatternSyntaxError("a comma is missing between two columns", token.span, label, hint)
    if (emits and token.text in ("(", ".")) or (emits and token.text.lower() == "as"):
        what = "columns keep their names" if token.text.lower() == "as" else "only columns of the events can be emitted"
        return PatternSyntaxError(what, token.span, f"`{shown(token.text)}` stands here", "write `emit speed, fuel`")
    if token.kind == "name":
        return PatternSyntaxError(
            f"unknown clause `{token.text}`",
            token.span,
            "a pattern may end in `within` and `emit`",
            did_you_mean(token.text, ["within", "emit"]),
        )
    return foreign(piece.whole, token) or PatternSyntaxError(
        f"`{shown(token.text)}` cannot stand here", token.span, "the declaration could end before it"
    )


def no_each_in(piece: Piece, token: Token) -> PatternSyntaxError:
    if re.search(r"for\s+each\s+(?:ordered|pairs?|two)\s*$", piece.whole[piece.base : token.start]):
        return PatternSyntaxError("a pair has two entities", token.span, something(token), f"write `{_A_PAIR}`")
    return PatternSyntaxError(
        "after the row's name comes `in` and the places", token.span, something(token), "write `for each p in port`"
    )


def no_quantity(what: str, events: bool, piece: Piece, token: Token, example: str | None = None) -> PatternSyntaxError:
    example = example or (f"{what} 30 min` or `{what} 10 events" if events else f"{what} 10 min")
    rest = piece.whole[token.start : piece.base + len(piece)]
    meant = duration_of_others(rest)
    if meant is not None:
        return PatternSyntaxError(
            f"`{what}` is followed by a number and its unit", token.span, something(token), f"write `{what} {meant}`"
        )
    return PatternSyntaxError(
        f"`{what}` is followed by a number and its unit", token.span, something(token), f"write `{example}`"
    )


def check_duration(what: str, number: t.Number) -> None:
    """Refuses a quantity that is not a length of time."""
    _refuse(wrong_duration(what, number.literal, number.unit), number.span)


def check_shed_duration(number: t.Number) -> None:
    """Refuses to shed what has not waited at all."""
    if not number.value:
        raise PatternSyntaxError(
            "`shed after` nothing would skip every event",
            number.span,
            "how long may an event wait?",
            "write for example `shed after 500 ms`",
        )


def check_length(what: str, number: t.Number) -> None:
    """Refuses a quantity that is not a length on the ground."""
    _refuse(wrong_length(what, number.literal, number.unit), number.span)


def _refuse(wrong: WrongQuantity | None, span: Span) -> None:
    if wrong is not None:
        raise PatternSyntaxError(wrong.message, span, wrong.label, wrong.hint)


def check_window(window: t.Within) -> None:
    """Refuses windows that are neither a time nor a number of events."""
    if window.events:
        if not window.amount.literal.isdecimal() or int(window.amount.literal) == 0:
            raise PatternSyntaxError(
                "a window has a whole number of events, at least 1", window.amount.span, "not such a number"
            )
        return
    if window.amount.unit is None:
        raise PatternSyntaxError(
            "`within` needs a unit",
            window.amount.span,
            "a plain number",
            f"write `within {window.amount.literal} events` if events are meant; for a time, "
            + missing_unit(window.amount.literal, SECONDS),
        )
    check_duration("within", window.amount)
