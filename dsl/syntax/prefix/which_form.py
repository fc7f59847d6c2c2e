"""Tells a text in the older prefix form from one in this language, by how it begins.

Nearly all files are in this language, so the reader of the older form is imported for the others alone.
"""

from __future__ import annotations

import re

from wayeb_py.dsl.syntax.lexicon import BLANK

# Every declaration begins with a keyword that a name or a brace follows; in the older form a word stands before `(`.
_DECLARATION = re.compile(r"[a-z]+\b(?!\s*\()")


def is_prefix_form(text: str) -> bool:
    """Whether a text is in the older form: it begins with an operator, a predicate or options, never with a keyword."""
    blank = BLANK.match(text)
    start = blank.end() if blank else 0
    if _DECLARATION.match(text, start):
        return False
    from wayeb_py.dsl.syntax.prefix.prefix_form import begins_prefix_form  # for start-up time

    return begins_prefix_form(text, start)
