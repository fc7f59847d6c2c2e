"""Errors and warnings of pattern files become what the commands print of them."""

from __future__ import annotations

from typing import Any

from wayeb_py.errors import Diagnostic


def as_json_object(diagnostic: Diagnostic) -> dict[str, Any]:
    """A diagnostic as `--json` prints it; line and column count from 1."""
    line, column = diagnostic.source.line_and_column(diagnostic.span.start)
    return {
        "severity": diagnostic.severity,
        "file": diagnostic.source.name,
        "line": line,
        "column": column,
        "message": diagnostic.message,
        "label": diagnostic.label,
        "hint": diagnostic.hint,
    }
