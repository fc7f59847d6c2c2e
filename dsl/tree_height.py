"""How high a tree may be, and the error for one that is higher.

The parser measures the text, and the checker what it stands for with every `let` written out.
"""

from __future__ import annotations

from wayeb_py.errors import Diagnostic, LimitError, SourceText, Span

MAX_HEIGHT = 500


def too_high(source: SourceText, span: Span) -> LimitError:
    """The error for an expression that nests deeper than the limit."""
    message = f"this nests deeper than {MAX_HEIGHT} levels"
    knob = "write it with fewer levels; a `let` counts as what it stands for"
    diagnostic = Diagnostic("error", message, source, span, f"the limit is {MAX_HEIGHT} levels", knob)
    return LimitError(message, f"more than {MAX_HEIGHT}", MAX_HEIGHT, knob, diagnostic)
