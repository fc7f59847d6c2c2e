"""A syntax error on its way from where it was found to the file that reports it."""

from __future__ import annotations

from wayeb_py.errors import Diagnostic, SourceText, Span


class PatternSyntaxError(Exception):
    """The text cannot be read from here on; ends its declaration."""

    def __init__(self, message: str, span: Span, label: str = "", hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.span, self.label, self.hint = message, span, label, hint

    def at(self, source: SourceText) -> Diagnostic:
        """The diagnostic for the file in which it was found."""
        return Diagnostic("error", self.message, source, self.span, self.label, self.hint)


class TreeHeightError(Exception):
    """An expression nests deeper than trees may be high."""

    def __init__(self, span: Span) -> None:
        super().__init__("too deep")
        self.span = span
