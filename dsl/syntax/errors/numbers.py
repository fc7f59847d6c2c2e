"""Mistakes in a number, a unit or a text become messages: each function makes one syntax error."""

from __future__ import annotations

import re

from wayeb_py.dsl.syntax.errors.syntax_error import PatternSyntaxError
from wayeb_py.dsl.syntax.lexicon import MAX_LITERAL, RESERVED, Token
from wayeb_py.dsl.units import ELSEWHERE, UNITS, suggest_unit
from wayeb_py.errors import Span


def unknown_unit(unit: str, span: Span) -> PatternSyntaxError:
    close = suggest_unit(unit)
    if unit.lower() in ELSEWHERE:
        return PatternSyntaxError(f"unknown unit `{unit}`", span, "not a unit here", ELSEWHERE[unit.lower()])
    hint = f"did you mean `{close}`?" if close else "the units are " + ", ".join(f"`{name}`" for name in UNITS)
    return PatternSyntaxError(f"unknown unit `{unit}`", span, "not a unit", hint)


def odd_number(text: str, token: Token, unit: Token) -> PatternSyntaxError | None:
    """A number in the spelling of another language: `1_000`, `0x10`, `5 to 9`."""
    whole = token.span.to(unit.span)
    if unit.start == token.end and re.fullmatch(r"(?:_\d+)+", unit.text):
        return PatternSyntaxError(
            "a number is written without `_`",
            whole,
            "digits and `_`",
            f"write `{token.text}{unit.text.replace('_', '')}`",
        )
    if token.text == "0" and unit.start == token.end and re.fullmatch(r"x[0-9a-fA-F]{1,12}", unit.text):
        return PatternSyntaxError("a number is decimal", whole, "in base 16", f"write `{int(unit.text[1:], 16)}`")
    upto = re.match(r"(?:to|through|until)\s+(\S+?)(?=[\s)]|$)", text[unit.start : unit.start + 60])
    if upto:
        return PatternSyntaxError(
            "a range is written with `..`",
            unit.span,
            "not a word of this language",
            f"write `in {token.text}..{upto[1]}`",
        )
    return None


def check_count(token: Token, before: Token | None, after: Token, text: str) -> None:
    """Refuses a number in front of the thing it should repeat: `3 a`, `3 (speed > 5)`."""
    among_letters = before is None or before.text in (";", "|", "&", "!")
    if not among_letters or not token.text.isdecimal():
        return
    is_name = after.kind == "name" and after.text not in RESERVED and suggest_unit(after.text) is None
    if after.text.lower() in ("(", "times", "x"):
        repeated = "(…)"
    elif is_name and after.text not in UNITS and odd_number(text, token, after) is None:
        repeated = after.text
    else:
        return
    raise PatternSyntaxError(
        "how often comes in braces, after what is repeated",
        token.span,
        "a number cannot be a letter",
        f"write `{repeated}{{{token.text}}}`",
    )


def check_date(text: str, token: Token) -> None:
    """Refuses a date or a time of day that would be read as a difference, or as nothing."""
    date = re.compile(r"\d{4}-\d{2}-\d{2}(?:T[\d:.]+Z?)?(?![\w-])").match(text, token.start)
    if date:
        raise PatternSyntaxError(
            'a date stands in `time("…")`',
            Span(*date.span()),
            "would be a difference of numbers",
            f'write `time("{date[0]}")`',
        )
    clock = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?(?!\w)").match(text, token.start)
    if clock and re.search(r"\bwithin\s*$", text[max(0, token.start - 20) : token.start]):
        seconds = 3600 * int(clock[1]) + 60 * int(clock[2]) + int(clock[3] or 0)
        amount = f"{seconds // 60} min" if seconds % 60 == 0 else f"{seconds} s"
        raise PatternSyntaxError(
            "a time has one number and one unit", Span(*clock.span()), "hours and minutes", f"write `within {amount}`"
        )
    if clock:
        raise PatternSyntaxError(
            "a time of day is told by its hour",
            Span(*clock.span()),
            "not a number",
            f'write for example `hour("Europe/Athens") >= {int(clock[1])}`',
        )


def spaced_unit(unit: str, span: Span) -> PatternSyntaxError:
    return PatternSyntaxError("a unit has no space inside", span, "a space in the middle of a unit", f"write `{unit}`")


def bare_point(text: str, number: Token, point: Token) -> PatternSyntaxError:
    version = re.compile(r"\d+(?:\.\d+){2,}").match(text, number.start)
    if version:
        return PatternSyntaxError(
            "a number has one decimal point",
            Span(*version.span()),
            "has more than one",
            f'write `{number.text}`, or `"{version[0]}"` if the column holds text',
        )
    return PatternSyntaxError(
        "a number needs digits after its decimal point",
        number.span.to(point.span),
        "ends in a point",
        f"write `{number.text}` or `{number.text}.0`",
    )


def bad_escape(token: Token) -> PatternSyntaxError:
    return PatternSyntaxError(
        "this text holds an escape that is not known",
        token.span,
        "escapes are those of JSON",
        r"write `\\` for a backslash; `\"`, `\n`, `\t` and `\u00e9` are escapes",
    )


_SQL_UNITS = {"second": "s", "minute": "min", "hour": "h", "day": "d"}


def duration_of_others(rest: str) -> str | None:
    """The duration that a text of other languages means: `"30 min"`, `PT30M`, `INTERVAL '30' MINUTE`."""
    quoted = re.match(r"[\"']\s*(\d+(?:\.\d+)?\s*(?:ms|s|min|h|d))\s*[\"']", rest)
    if quoted:
        return quoted[1]
    sql = re.match(r"interval\s+[\"']?(\d+)[\"']?\s*(second|minute|hour|day)s?\b", rest, re.IGNORECASE)
    if sql:
        return f"{sql[1]} {_SQL_UNITS[sql[2].lower()]}"
    iso = re.match(r"PT?(\d+)([SMHD])\b", rest)
    if iso:
        return f"{iso[1]} {'min' if iso[2] == 'M' else iso[2].lower()}"
    call = re.match(r"Time\.(second|minute|hour|day)s\((\d+)\)", rest)
    return f"{call[2]} {_SQL_UNITS[call[1]]}" if call else None


def check_literal(token: Token) -> None:
    """Refuses numbers that no 64-bit float can hold."""
    exponent = token.text.lower().partition("e")[2]
    if len(token.text) > MAX_LITERAL or (exponent and (len(exponent) > 5 or abs(int(exponent)) > MAX_LITERAL)):
        raise PatternSyntaxError("this number is out of range", token.span, "more than a 64-bit number can hold")
