"""The words and signs of the language, as pyparsing's lexical rules.

The declarations' grammar uses the rules as they are. The expression loop joins their patterns into one regular
expression: a match decides the kind of a token in a microsecond, where asking each rule in turn takes fifty.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import pyparsing as pp

from wayeb_py.errors import Span

DECLARATIONS = ("stream", "points", "lines", "areas", "let", "pattern", "test", "include")
RESERVED = frozenset(
    [*DECLARATIONS, "and", "or", "not", "in", "any", "none", "within", "emit", "true", "false"]
)

NAME = pp.Regex(r"[^\W\d]\w*").set_name("a name")
BACKQUOTED = pp.Regex(r"`[^`\n]+`").set_name("a name in backquotes")
NUMBER = pp.Regex(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?").set_name("a number")
TEXT = pp.Regex(r'"(?:[^"\\\n]|\\.)*"').set_name("a text")
COMMENT = pp.Regex(r"//[^\n]*").set_name("a comment")
SIGN = pp.Regex(
    r"&&|\|\||==|!=|<>|<=|>=|=>|=<|:=|->|\.\.|\*\*|[-+*/?!;&|#@(){}\[\],.=<>:≤≥≠¬∧∨·⊤⊥]"
).set_name("a sign")

BLANK = re.compile(rf"(?:[\s\ufeff]+|{COMMENT.pattern})*")
TOKEN = re.compile(
    rf"(?P<number>{NUMBER.pattern})|(?P<name>{NAME.pattern})|(?P<text>{TEXT.pattern})"
    rf"|(?P<backquoted>{BACKQUOTED.pattern})|(?P<sign>{SIGN.pattern})|(?P<stray>.)",
    re.DOTALL,
)

UNICODE_SPELLINGS = {
    "≤": "<=", "≥": ">=", "≠": "!=", "¬": "not", "∧": "and", "∨": "or", "·": ";", "⊤": "any", "⊥": "none",
}  # fmt: skip

# Longer literals than this are beyond what a 64-bit float can hold, and cost time to read.
MAX_LITERAL = 400


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text: `kind` is number, name, text, backquoted, sign, stray, or end; operators have their ASCII spelling."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)


def tokens_of(text: str, start: int, end: int) -> list[Token]:
    """The tokens from start to end, comments and blanks left out, closed by one of kind `end`."""
    found: list[Token] = []
    skip, take = BLANK.match, TOKEN.match
    position = start
    while True:
        blank = skip(text, position, end)
        position = blank.end() if blank else position
        match = take(text, position, end)
        if match is None:
            found.append(Token("end", "", position, position))
            return found
        kind, word = match.lastgroup or "stray", match[0]
        if kind == "sign" and word in UNICODE_SPELLINGS:
            word = UNICODE_SPELLINGS[word]
            if word.isalpha():
                kind = "name"
        position = match.end()
        found.append(Token(kind, word, match.start(), position))


def decode_text(quoted: str) -> str:
    """The text between the quotes; raises ValueError at an escape that JSON does not have."""
    value: str = json.loads(quoted, strict=False)
    value.encode("utf-8")  # half of a surrogate pair is no character: UnicodeEncodeError is a ValueError
    return value


def encode_text(value: str) -> str:
    """The text in quotes, with JSON's escapes."""
    return json.dumps(value, ensure_ascii=False)


def encode_name(name: str) -> str:
    """The name, in backquotes where it needs them."""
    plain = re.fullmatch(NAME.pattern, name) is not None and name not in RESERVED
    return name if plain else f"`{name}`"
