"""The text of a .sre file becomes a tree, or a list of everything that keeps it from being one.

The text is cut where a line begins with a declaration's keyword, and each piece is parsed on its own: a syntax
error ends its own declaration and leaves the others to be read. Parsing the file as one grammar would stop at the
first error.
"""

from __future__ import annotations

import re
from typing import cast

import pyparsing as pp

from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.errors import declarations as declaration_errors
from wayeb_py.dsl.syntax.errors.syntax_error import PatternSyntaxError, TreeHeightError
from wayeb_py.dsl.syntax.grammar import grammar_of
from wayeb_py.dsl.syntax.lexicon import BACKQUOTED, BLANK, DECLARATIONS, FORECAST, NAME, RESERVED, Piece, next_token
from wayeb_py.dsl.tree_height import too_high
from wayeb_py.dsl.wording import close_to
from wayeb_py.errors import Diagnostic, PatternError, SourceText, Span

_ANY_NAME = f"(?:{NAME.pattern}|{BACKQUOTED.pattern})"
# `forecast` is a keyword before a name alone: elsewhere it may be a column.
_FORECAST = rf"{FORECAST}(?=[ \t]+(?!(?:{'|'.join(sorted(RESERVED))})\b){_ANY_NAME})"
_KEYWORDS = "|".join([*(word for word in DECLARATIONS if word != FORECAST), _FORECAST])
# A keyword before a colon is a column of a test without its backquotes.
_KEYWORD = re.compile(rf"^[ \t\ufeff]*(?P<keyword>{_KEYWORDS})\b(?![ \t]*:(?!=))", re.MULTILINE)
_LOOKS_LIKE = re.compile(
    rf"^(?P<word>{NAME.pattern})"
    rf"(?:[ \t]+{_ANY_NAME}[ \t]*(?::=|(?P<equals>=(?!=))|\{{|from[ \t]+\"|for[ \t]+each\b)|[ \t]*:=)",
    re.MULTILINE,
)
_NAME_AFTER_KEYWORD = re.compile(rf"\w+\s+({_ANY_NAME})")


def parse(text: str, name: str = "<text>") -> t.File:
    """The tree of a text; raises PatternError with all its syntax errors, LimitError if it nests too deeply."""
    file, errors = parse_source(SourceText(name, text))
    if errors:
        raise PatternError(errors)
    return file


def parse_source(source: SourceText) -> tuple[t.File, list[Diagnostic]]:
    """The tree, with `Broken` for each declaration that could not be read, and the errors of these."""
    declarations: list[t.Declaration] = []
    errors: list[Diagnostic] = []
    for start, end, keyword in _cut(source.text):
        try:
            declarations.append(_parse_piece(source.text, start, end, keyword))
        except PatternSyntaxError as error:
            errors.append(error.at(source))
            named = _NAME_AFTER_KEYWORD.match(source.text, start, end)
            name = named[1].strip("`") if named else None
            declarations.append(t.Broken(keyword, name, span=Span(start, end)))
        except TreeHeightError as error:
            raise too_high(source, error.span) from None
    return t.File(tuple(declarations), source), errors


def _cut(text: str) -> list[tuple[int, int, str]]:
    """Where declarations begin and end, each with its keyword; the keyword is empty for text that begins with none."""
    starts = {match.start("keyword"): match["keyword"] for match in _KEYWORD.finditer(text)}
    for match in _LOOKS_LIKE.finditer(text):
        word = match["word"]
        # Two names before `=` can also be a line of an expression that lacks something.
        if word not in RESERVED and (not match["equals"] or close_to(word, DECLARATIONS)):
            starts.setdefault(match.start(), "")
    blank = BLANK.match(text)
    first = blank.end() if blank else 0
    if first < len(text):
        starts.setdefault(first, "")
    places = sorted(starts)
    return [(start, end, starts[start]) for start, end in zip(places, [*places[1:], len(text)], strict=False)]


def _parse_piece(text: str, start: int, end: int, keyword: str) -> t.Declaration:
    if not keyword:
        first = next_token(text, start, end)
        following = next_token(text, first.end, end)
        wrong = declaration_errors.no_keyword if following.text == ":=" else declaration_errors.unknown_declaration
        raise wrong(first)
    try:
        return cast(t.Declaration, grammar_of(keyword).parse_string(Piece.cut(text, start, end))[0])
    except pp.ParseException as error:
        token = next_token(text, start + error.loc, end)
        raise declaration_errors.after_declaration(Piece.cut(text, start, end), token) from None
