"""What people bring from other languages: SQL, regular expressions of text, Python, Esper, Flink, plain English.

Each function looks at the text where the expression cannot continue, and returns the message that its writer needs, or
None. They look at text and not at tokens: what follows is mostly in a language that this one cannot cut into tokens.
"""

from __future__ import annotations

import re

from wayeb_py.dsl.borrowed_names import FUNCTIONS, IN_PREFIX_FORM, TEXT_FUNCTIONS
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.errors.syntax_error import PatternSyntaxError
from wayeb_py.dsl.syntax.lexicon import Token
from wayeb_py.dsl.wording import shown
from wayeb_py.errors import Span

_THAN = r"(?:\s+than)?"
_MORE = rf"(?:greater|more|larger|bigger|higher|faster|longer){_THAN}"
_LESS = rf"(?:less|fewer|smaller|lower|slower|shorter){_THAN}"
_OR_EQUAL = r"\s+or\s+equals?(?:\s+(?:to|than))?"
_COMPARING = [
    (re.compile(rf"(?:is\s+)?(?:{words})\b", re.IGNORECASE), sign)
    for words, sign in [
        (rf"{_MORE}{_OR_EQUAL}|at\s+least|gte|ge", ">="),
        (rf"{_LESS}{_OR_EQUAL}|at\s+most|lte|le", "<="),
        (rf"{_MORE}|above|over|exceeds|exceeding|gt", ">"),
        (rf"{_LESS}|below|under|lt", "<"),
        (r"not\s+equals?(?:\s+to)?|differs\s+from|ne", "!="),
        (r"equals?(?:\s+to)?|eq", "="),
    ]
]
_VALUE = r"(?P<value>-?\d[\w./]*(?:\s(?:km/h|m/s|nmi|min|deg|km|kn|ms|m|s|h|d)\b)?|\"[^\"\n]*\"|[^\W\d]\w*)"
_TEXT_TESTS = re.compile(
    r"(?P<word>(?:not\s+)?(?:i?like|rlike|regexp|matches|match|contains|starts\s*with|ends\s*with|similar\s+to)"
    r"|[!=]?~\*?)(?=[\s\"'])\s*(?:[\"'](?P<text>[^\"'\n]*)[\"'])?",
    re.IGNORECASE,
)
# What may stand before a pattern elsewhere.
_LEADING = {
    "every": "leave it out: a pattern is looked for from every event",
    "select": "leave it out: a pattern is the sequence alone, and `emit` adds columns to its detections",
    "match_recognize": "a pattern is the sequence alone: `a ; b+ ; c`, with a `let` for each of its letters",
    "match": "leave it out: a pattern is the sequence alone, as in `a ; b+ ; c`",
    "seq": "write `;` between the parts: `a ; b ; c`",
    "if": "write the condition as a letter: `(speed > 5)`",
    "when": "write the condition as a letter: `(speed > 5)`",
    "lambda": "write the condition on the columns: `(speed > 5)`",
    "def": "write the condition on the columns: `(speed > 5)`",
}
# FlinkCEP's and Esper's words between two parts, and what they are called on.
_FOLLOWING = {
    "next": "write `a ; b` for the very next event",
    "then": "write `;` for one event after the other",
    "followed": "write `a ; b` for the very next event, `@(a, b)` for the next that fits, `#(a, b)` for any later one",
    "followedby": "write `@(a, b)` for the next one that fits, `a ; b` for the very next event",
    "followedbyany": "write `#(a, b)` for any later event that fits",
    "notnext": "write `a ; (not b)` for an event that is not b",
    "notfollowedby": "write `a ; (not b)*` for events that are not b",
}
_METHODS = {
    **_FOLLOWING,
    "times": "write `{3}` after it, or `{3,5}` for three to five times",
    "oneormore": "write `+` after it",
    "timesormore": "write `{3,}` after it",
    "optional": "write `?` after it",
    "where": "write the condition as a letter: `(speed > 5)`",
    "within": "write `within 30 min` at the end of the pattern",
}

_PREFIX_OPERATORS = {";": "a ; b", "+": "a | b", "*": "a*", "^": "(x and y)", "|": "(x or y)"}
A_COMMENT = "a comment begins with `//`"


def where_a_value_is_expected(text: str, token: Token, before: Token | None) -> PatternSyntaxError | None:
    """For what stands where a value, predicate or regex should."""
    rest = _line(text, token)
    starts = before is None or (before.text in ("(", ",") and before.kind == "sign")
    if starts and token.text in _PREFIX_OPERATORS and _is_prefix_call(rest):
        message, label, hint = IN_PREFIX_FORM
        instead = _PREFIX_OPERATORS[token.text]
        return PatternSyntaxError(message, token.span, label, f"{hint}; here write `{instead}`")
    if rest.startswith("/*"):
        return _no_comment(Span(token.start, token.start + 2))
    # Right after `:=` a policy that lacks its parentheses is likelier than a comment.
    if token.text == "#" and (_begins_line(text, token) or before is not None) and re.match(r"#(?!\s*[(\[])", rest):
        return _no_comment(token.span)
    if token.text == "^" and starts:
        return _no_anchor(token)
    if token.text == "$":
        return PatternSyntaxError(
            "`$` comes after `;`, at the end of a pattern", token.span, "no sequence is before it",
            "write `R ; $`: R at the end of the entity's word",
        )  # fmt: skip
    if token.text in (".", "..") and re.match(r"\.{1,3}(?!\w)", rest) and (before is None or before.text != ".."):
        dots = re.match(r"\.+", rest)
        end = token.start + (dots.end() if dots else 1)
        hint = "write `any` for any event, `any*` for any number of them"
        return PatternSyntaxError(
            "a letter is a predicate, not a character", Span(token.start, end), "stands for no event", hint
        )
    if token.text == "*" and before is not None and before.text in (";", "(", ",", "|"):
        return PatternSyntaxError(
            "`*` follows what it repeats", token.span, "nothing to repeat", "write `any*` for any events"
        )
    if token.text in ("\\", "/"):
        hint = "a pattern is a regular expression over events: `(speed > 50)+ ; (speed = 0)`"
        return PatternSyntaxError("a letter is a predicate, not a character", token.span, "not a letter", hint)
    if token.text == "." and before is not None and before.text == "..":
        return PatternSyntaxError("a range has two dots", token.span, "one dot too many", "write `in 5..9`")
    if token.text == ">" and before is not None and before.text == ">" and before.end == token.start:
        hint = "write `;` for one event after the other"
        return PatternSyntaxError(
            "`>>` is not an operator", before.span.to(token.span), "not an operator of this language", hint
        )
    if token.text in (">", "<", ">=", "<=", "=", "!=") and before is not None and before.text in ("and", "or", "not"):
        hint = "write what is compared on both sides: `speed > 5 and speed < 9`"
        return PatternSyntaxError(
            f"something is missing before `{token.text}`", token.span, "has nothing on its left", hint
        )
    if token.text == "within" and re.match(r"within\s*\(", rest):
        hint = "write `near(port, 5 km)` for a distance; a pattern ends in `within 30 min`"
        return PatternSyntaxError("`within` is not a function", token.span, "a reserved word", hint)
    return None


def where_an_operator_is_expected(text: str, token: Token, operand: t.Expression) -> PatternSyntaxError | None:
    """For text that stands right after a value, predicate or regex and does not continue it."""
    rest = _line(text, token)
    left = shown(text[operand.span.start : operand.span.end])
    word = token.text.lower() if token.kind == "name" else token.text
    if token.text == "#" and not rest.startswith("#("):
        return _no_comment(token.span)
    if isinstance(operand, t.Iteration) and text[operand.operator_span.start] == "?" and ":" in rest:
        return _no_choice(operand)
    if token.text == "=>":
        return _arrow(token, rest, operand)
    if token.text == "%" and isinstance(operand, (t.Parentheses, t.Iteration)):
        return _no_comment(token.span)
    if token.text == "$" and re.match(r"\$\s*(?:$|[;)|]|within|emit|//)", rest):
        return PatternSyntaxError(
            "`$` comes after `;`, at the end of a pattern", token.span, f"right after `{left}`",
            f"write `{left} ; $` for the end of the entity's word; without it the pattern is detected wherever it ends",
        )  # fmt: skip
    if token.text == "$":
        return PatternSyntaxError("`$` means nothing here", token.span, "it ends a pattern, after `;`")
    if token.text == "^" and (power := re.match(r"\^\s*(\d+)", rest)):
        return _power(token, left, power[1], isinstance(operand, (t.Number, t.Arithmetic, t.Column)))
    if token.text == "%":
        if re.match(r"%\s*[\w(]", rest):
            hint = "write it in Python with `@function`, and name the file by `--functions`"
            return PatternSyntaxError(
                "there is no remainder of a division", token.span, "not an operator of this language", hint
            )
        return None
    if token.text == "(" and isinstance(operand, t.Column):
        return _method(operand, token)
    leading = operand.name.lower() if isinstance(operand, t.Name) else ""
    if leading in _LEADING and (token.kind == "name" or token.text == "("):
        hint = _LEADING[leading]
        return PatternSyntaxError(f"`{left}` is not a word of this language", operand.span, "begins no pattern", hint)
    if token.kind not in ("name", "number", "stray"):
        return None
    found = _comparing_words(rest, token, left) if token.kind == "name" else None
    if found is not None:
        return found
    if test := _TEXT_TESTS.match(rest):
        return _text_test(test, token, left)
    count = re.match(r"x\s*(\d+)\b|(\d+)\s*(?:times|x)\b", rest, re.IGNORECASE)
    if count and isinstance(operand, (t.Name, t.Parentheses)):
        span = Span(token.start, token.start + count.end())
        hint = f"write `{left}{{{count[1] or count[2]}}}`"
        return PatternSyntaxError("how often comes in braces, after what is repeated", span, "not in braces", hint)
    if word == "as":
        name = re.match(r"as\s+(\w+)", rest, re.IGNORECASE)
        if name is None:
            hint = "write for example `(speed < 1) as x`, and `x.speed` in a later letter"
            return PatternSyntaxError("`as` gives the event of a letter a name, and none follows", token.span,
                                      "no name follows", hint)  # fmt: skip
        called = name[1]
        hint = f"name it before the pattern, `let {called} = …`, and write `{called}` here"
        return PatternSyntaxError(
            "a part of a pattern has no name of its own", token.span, "`as` names nothing here", hint
        )
    if word in ("where", "when", "if", "having", "unless", "with"):
        hint = "write the condition inside the letter: `(speed > 5 and fuel < 0.5)`"
        return PatternSyntaxError(
            f"unknown clause `{token.text}`", token.span, "a pattern may end in `within` and `emit`", hint
        )
    if word in _FOLLOWING:
        return PatternSyntaxError(
            f"`{token.text}` is not an operator", token.span, "not an operator of this language", _FOLLOWING[word]
        )
    if word in ("mod", "div"):
        hint = "write it in Python with `@function`, and name the file by `--functions`"
        return PatternSyntaxError(
            f"`{token.text}` is not an operator", token.span, "not an operator of this language", hint
        )
    return None


def position_as_pair(text: str, opening: Token, comma: Token) -> PatternSyntaxError | None:
    """`(lon, lat) in port`."""
    pair = re.compile(r"\(\s*[^\W\d]\w*\s*,\s*[^\W\d]\w*\s*\)(?:\s*(?:not\s+)?in\s+([^\W\d]\w*))?").match(
        text, opening.start
    )
    if pair is None or pair.end() < comma.end:
        return None
    places = pair[1] or "port"
    return PatternSyntaxError(
        "a position is not written as a pair",
        Span(opening.start, text.index(")", comma.end) + 1),
        "the stream block names its columns once, by `position`",
        f"write `near({places}, 500 m)`, or `inside({places})` for areas",
    )


def _no_choice(operand: t.Iteration) -> PatternSyntaxError:
    """`a ? b : c`."""
    return PatternSyntaxError(
        "there is no choice by `?` and `:`",
        operand.operator_span,
        "`?` means once or not at all",
        "write `(a and b) or (not a and c)` for `a ? b : c`",
    )


def _arrow(token: Token, rest: str, operand: t.Expression) -> PatternSyntaxError | None:
    """`a => b` that is no comparison: an implication, a step to the next event, or a function."""
    if not isinstance(operand, (t.Parentheses, t.Iteration)) and re.match(r"=>\s*(?:-?\d|\"|time\()[^<>=]*$", rest):
        return None  # a slip for `>=`
    return PatternSyntaxError(
        "`=>` is not an operator",
        token.span,
        "not an operator of this language",
        "write `a ; b` for one event after the other, `not a or b` for `a` implies `b`, `>=` to compare",
    )


def _line(text: str, token: Token) -> str:
    end = text.find("\n", token.start)
    return text[token.start : len(text) if end < 0 else end].rstrip()[:400]


def _begins_line(text: str, token: Token) -> bool:
    return not text[text.rfind("\n", 0, token.start) + 1 : token.start].strip()


def _is_prefix_call(rest: str) -> bool:
    """Whether an operator is followed by a list in parentheses, or, where it can have one part, by parentheses."""
    opened = re.match(r".\s*\(", rest)
    if opened is None:
        return False
    if rest[0] in "*":
        return True
    depth = 1
    for sign in rest[opened.end() :]:
        depth += (sign == "(") - (sign == ")")
        if depth == 1 and sign == ",":
            return True
        if depth == 0:
            return False
    return False


def _no_comment(span: Span) -> PatternSyntaxError:
    return PatternSyntaxError(A_COMMENT, span, "does not begin a comment here", "write `//`")


def _no_anchor(token: Token) -> PatternSyntaxError:
    hint = "leave it out: a pattern is looked for from every event, and is detected at the event with which it ends"
    return PatternSyntaxError(
        "a pattern has no anchors", token.span, f"`{token.text}` is one in a regular expression of text", hint
    )


def _power(token: Token, left: str, times: str, is_value: bool) -> PatternSyntaxError:
    hint = f"write `{left}{{{times}}}` to repeat a regex" + (
        f", `{left} * {left}` for a square" if times == "2" else ""
    )
    if is_value:
        hint = f"write `{left} * {left}` for a square"
    return PatternSyntaxError("`^` is not an operator", token.span, "not an operator of this language", hint)


def _method(operand: t.Column, token: Token) -> PatternSyntaxError | None:
    method = operand.column.lower().replace("_", "")
    hint = _METHODS.get(method)
    if hint is None and method in TEXT_FUNCTIONS:
        hint = FUNCTIONS[method]
    elif hint is None:
        hint = f"write `{operand.column}({operand.variable})` if it is a function"
    return PatternSyntaxError("nothing is called on a value with `.`", operand.span.to(token.span), "not a call", hint)


def _comparing_words(rest: str, token: Token, left: str) -> PatternSyntaxError | None:
    """`greater than 50`, `is null`, `between 5 and 9`."""
    for words, sign in _COMPARING:
        found = words.match(rest)
        value = re.compile(rf"\s+{_VALUE}").match(rest, found.end()) if found else None
        if found and value:
            return _instead(found[0], token, f"write `{left} {sign} {value['value']}`")
    empty = re.match(r"is\s+(?P<no>not\s+)?(?:null|none|missing|na|nan|empty)\b", rest, re.IGNORECASE)
    if empty:
        return _instead(empty[0], token, f"write `{'not ' if empty['no'] else ''}missing({left})`")
    both = re.match(r"(?P<no>not\s+)?between\s+(?P<low>\S+)\s+and\s+(?P<high>[^\s)]+)", rest, re.IGNORECASE)
    if both:
        low, high = both["low"], both["high"]
        hint = f"write `{left} >= {low} and {left} <= {high}`; `{left} in {low}..{high}` leaves out {high} itself"
        if both["no"]:
            hint = f"write `{left} < {low} or {left} > {high}`"
        return _instead("not between" if both["no"] else "between", token, hint)
    being = re.match(rf"is\s+(?P<no>not\s+)?{_VALUE}", rest, re.IGNORECASE)
    if being:
        value_text, no = being["value"], being["no"]
        if value_text.lower() in ("true", "false"):
            wants_true = (value_text.lower() == "true") != bool(no)
            return _instead("is", token, f"write `{left}`" if wants_true else f"write `not {left}`")
        return _instead("is", token, f"write `{left} {'!=' if no else '='} {value_text}`")
    return None


def _instead(words: str, token: Token, hint: str) -> PatternSyntaxError:
    span = Span(token.start, max(token.end, token.start + len(words)))
    return PatternSyntaxError(
        f"`{' '.join(words.split())}` is not an operator", span, "not a word of this language", hint
    )


def _text_test(test: re.Match[str], token: Token, left: str) -> PatternSyntaxError:
    word, sample = test["word"], test["text"]
    span = Span(token.start, token.start + len(word))
    hint = FUNCTIONS["matches"].replace("x ", f"{left} ")
    beginning = re.fullmatch(r"([\w ]*\w)%", sample or "")
    if "like" in word.lower() and not word.lower().startswith("not") and beginning:
        start = beginning[1]
        hint = f'write `{left} >= "{start}" and {left} < "{start[:-1]}{chr(ord(start[-1]) + 1)}"` for what begins so'
    elif sample and re.fullmatch(r"[\w ]+", sample):
        hint = (
            f'write `{left} = "{sample}"` for the whole text; for parts of it a predicate in Python, with `@predicate`'
        )
    return PatternSyntaxError(
        f"`{' '.join(word.split())}` is not an operator", span, "not an operator of this language", hint
    )
