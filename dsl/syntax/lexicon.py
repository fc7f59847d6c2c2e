"""The words and signs of the language, as pyparsing's lexical elements.

The declarations' grammar uses them as they are. The expression loop joins their patterns into one regular
expression: a match decides the kind of a token in a microsecond, where asking each element in turn takes fifty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

import pyparsing as pp

from wayeb_py.errors import Span

FORECAST = "forecast"  # begins a declaration where a name follows; not reserved, since events have columns of that name
_KEYWORDS = ("stream", "points", "lines", "areas", "lookup", "facts", "let", "pattern", "rule", "test", "include")
DECLARATIONS = (*_KEYWORDS, FORECAST)
RESERVED = frozenset([*_KEYWORDS, "and", "or", "not", "in", "any", "none", "within", "emit", "true", "false"])


def _lexical(pattern: str, name: str) -> pp.Regex:
    element = pp.Regex(pattern)
    element.set_name(name)
    return element


NAME = _lexical(r"[^\W\d]\w*", "a name")
BACKQUOTED = _lexical(r"`[^`\n]+`", "a name in backquotes")
NUMBER = _lexical(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", "a number")
TEXT = _lexical(r'"(?:[^"\\\n]|\\.)*"', "a text")
COMMENT = _lexical(r"//[^\n]*", "a comment")
SIGN = _lexical(r"&&|\|\||==|!=|<>|<=|>=|=>|=<|:=|->|\.\.|[-+*/?!;&|#@$(){}\[\],.=<>:≤≥≠¬∧∨·⊤⊥]", "a sign")

_PLAIN_NAME = re.compile(str(NAME.pattern))
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


class Token(NamedTuple):
    """A piece of text: `kind` is number, name, text, backquoted, sign, stray or end; operators are spelt in ASCII."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)


def tokens_of(text: str, start: int, end: int) -> list[Token]:
    """The tokens from start to end, comments and blanks left out, closed by one of kind `end`.

    Reading stops at a character that the language does not have: the text is wrong in any case, and one of nothing but
    opening quotes would take long.
    """
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
        if kind == "stray":
            found.append(Token("end", "", position, position))
            return found


WHICH_MATCHES = ("without overlap", "from all starts", "once from each start")
_BEGIN_WHICH = {("without", "overlap"), ("from", "all"), ("once", "from")}


def begins_which(tokens: Sequence[Token], at: int) -> bool:
    """Whether words stand here that say which matches a pattern reports, which belong to it and not to its regex."""
    following = tokens[at + 1] if at + 1 < len(tokens) else None
    return following is not None and (tokens[at].text, following.text) in _BEGIN_WHICH


def begins_service(tokens: Sequence[Token], at: int) -> bool:
    """Whether a clause about the quality of service stands here; its words are names everywhere else."""
    following = tokens[at + 1] if tokens[at].text in ("priority", "valid", "shed") else None
    return following is not None and following.kind in ("name", "end", "number")


def begins_name(tokens: Sequence[Token], at: int) -> bool:
    """Whether `as x` stands here, the name of the event that a letter reads."""
    word, name = tokens[at], tokens[min(at + 1, len(tokens) - 1)]
    is_name = name.kind == "backquoted" or (name.kind == "name" and name.text not in RESERVED)
    return word.kind == "name" and word.text == "as" and is_name


def begins_silence(tokens: Sequence[Token], at: int) -> bool:
    """Whether `silence 1 h`, `silence of a` or `$` stands here, which belongs to the pattern and not to its regex."""
    if tokens[at].text == "$":
        return True
    following = tokens[at + 1] if tokens[at].text == "silence" else None
    return following is not None and (following.kind == "number" or following.text == "of")


def next_token(text: str, start: int, end: int) -> Token:
    """The first token from start on."""
    blank = BLANK.match(text, start, end)
    at = blank.end() if blank else start
    # What is missing at the end is marked right after the last word, not after the blanks.
    return tokens_of(text, at, min(end, at + 200))[0] if at < end else Token("end", "", start, start)


class Piece(str):
    """The text of one declaration, which knows where it stands in its file: spans need no shifting afterwards."""

    whole: str
    base: int

    @classmethod
    def cut(cls, whole: str, start: int, end: int) -> Piece:
        """The piece from start to end."""
        piece = cls(whole[start:end])
        piece.whole, piece.base = whole, start
        return piece

    def token_at(self, loc: int) -> Token:
        """The token that follows an offset within the piece."""
        return next_token(self.whole, self.base + loc, self.base + len(self))


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
    plain = _PLAIN_NAME.fullmatch(name) is not None and name not in RESERVED
    return name if plain else f"`{name}`"
