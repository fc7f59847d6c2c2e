"""What went wrong, in the user's words, with a place and, where one is likely right, a remedy.

Four kinds: the pattern is at fault (`PatternError`: all diagnostics of its file at once), the events lack what the
pattern needs (`EventsError`), a file or a row is at fault (`DataError`), or a limit was reached (`LimitError`). All of
them hold their facts as attributes and are picklable, since they cross the boundary between a worker and the process
that waits for it.

A diagnostic is rendered as plain text with carets; colour would be lost in a log.

Text from data and names is made printable (`visible`): it gives no orders to a log or a terminal. A file name with a
line end, a key with an escape code, a column that turns the direction of reading are shown as what they are, `\\n`,
`\\x1b`, `\\u202e`. Output for programs (JSON, CSV, Parquet) is written and not shown, and stays exact.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

# Control characters, line ends of Unicode, marks that turn the direction of reading, and halves of characters.
_ACTS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_ACTS_IN_LINES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
# What an address may hold besides a place: a name with a password, and behind `?` signatures that give access.
_PASSWORD = re.compile(r"(?<=://)[^\s/@'\"]*:[^\s/'\"]*@")
_QUERY = re.compile(r"(https?://[^\s?'\"]*)\?[^\s'\"]*")


def visible(text: str) -> str:
    """The text on one line, with everything that would act on a terminal or a log written out."""
    return _ACTS.sub(_written, text)


def without_secrets(text: str) -> str:
    """A text of another program's without what its addresses hold to give access: passwords, signatures."""
    return _QUERY.sub(r"\1", _PASSWORD.sub("", text))


def visible_lines(text: str) -> str:
    """As `visible`, for a text whose line ends and tabs are ours."""
    return _ACTS_IN_LINES.sub(_written, text)


def _written(match: re.Match[str]) -> str:
    sign = match[0]
    return _SHORT.get(sign) or (f"\\x{ord(sign):02x}" if ord(sign) < 256 else f"\\u{ord(sign):04x}")


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a source's text: character offsets, the end exclusive."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """The part from this one's start to the other's end."""
        return Span(self.start, other.end)


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text and the name under which its messages appear (a path, or something like `<text>`)."""

    name: str
    text: str
    _line_starts: list[int] = field(default_factory=list, compare=False, repr=False)

    def line_starts(self) -> list[int]:
        """Offsets at which the lines begin; only a line feed ends a line, as in an editor's column count."""
        if not self._line_starts:
            self._line_starts.append(0)
            self._line_starts.extend(i + 1 for i, c in enumerate(self.text) if c == "\n")
        return self._line_starts

    def line_and_column(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both counted from 1."""
        starts = self.line_starts()
        line = bisect.bisect_right(starts, offset) - 1
        return line + 1, offset - starts[line] + 1

    def line(self, number: int) -> str:
        """The text of a line, counted from 1, without its end."""
        starts = self.line_starts()
        end = starts[number] - 1 if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end].rstrip("\r")

    def place(self, span: Span) -> str:
        """`file:line:column`, which an editor can open."""
        line, column = self.line_and_column(span.start)
        return f"{self.name}:{line}:{column}"


@dataclass(frozen=True, slots=True)
class Note:
    """A second place that a diagnostic points at, such as where a name was defined first."""

    source: SourceText
    span: Span
    label: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing wrong with a pattern file: a sentence, a place, a label under the carets, perhaps a hint and a second
    place."""

    severity: Literal["error", "warning"]
    message: str
    source: SourceText
    span: Span
    label: str = ""
    hint: str | None = None
    note: Note | None = None
    of_arrival: bool = False  # it holds only where events are taken as they arrive: a file is put in order

    def render(self) -> str:
        """The diagnostic as text: sentence, place, source line, carets, hint."""
        message = visible(self.message)
        head = message if self.severity == "error" else f"warning: {message}"
        lines = [head, *_excerpt(self.source, self.span, self.label, arrow="-->")]
        if self.note is not None:
            lines += _excerpt(self.note.source, self.note.span, self.note.label, arrow=":::")
        if self.hint is not None:
            lines.append(f"  = hint: {visible(self.hint)}")
        return "\n".join(lines)


def _excerpt(source: SourceText, span: Span, label: str, arrow: str) -> list[str]:
    line_number, column = source.line_and_column(min(span.start, len(source.text)))
    text = source.line(line_number)
    # Tabs keep their width under the carets, whatever it is on the reader's screen.
    before = "".join("\t" if c == "\t" else " " for c in text[: column - 1])
    width = max(1, min(span.end - span.start, len(text) - column + 1))
    if len(text) > 160:  # a line that fills the screen hides its own carets
        cut = max(0, column - 60)
        text = ("…" if cut else "") + text[cut : cut + 120] + "…"
        before = " " * (column - 1 - cut + (1 if cut else 0))
        width = min(width, 60)
    gutter = " " * len(str(line_number))
    carets = f"{gutter} | {before}{'^' * width}"
    return [
        f"{gutter}{arrow} {visible(source.place(span))}",
        f"{gutter} |",
        f"{line_number} | {visible_lines(text)}",
        f"{carets} {visible(label)}" if label else carets,
    ]


class WayebError(Exception):
    """Every error that this package raises on purpose; `str()` of it is the message for a user."""


class PatternError(WayebError):
    """A pattern file is at fault; holds everything that is wrong with it, in the order of the file."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        return "\n\n".join(diagnostic.render() for diagnostic in self.diagnostics)


class EventsError(WayebError):
    """The events lack what a pattern needs, for example a column; says which and where the pattern reads it."""

    def __init__(self, message: str, diagnostic: Diagnostic | None = None, hint: str | None = None) -> None:
        self.message, self.diagnostic, self.hint = message, diagnostic, hint
        super().__init__(message, diagnostic, hint)

    def __str__(self) -> str:
        text = visible(self.message) if self.diagnostic is None else self.diagnostic.render()
        return text if self.hint is None else f"{text}\n  = hint: {visible(self.hint)}"


class MissingColumnError(EventsError):
    """The events lack a column that only some patterns read: the others could run."""


class DataError(WayebError):
    """A file, or a row of one, is at fault."""

    def __init__(self, message: str, file: str | None = None, row: int | None = None, hint: str | None = None) -> None:
        self.message, self.file, self.row, self.hint = message, file, row, hint
        super().__init__(message, file, row, hint)

    def __str__(self) -> str:
        row = "" if self.row is None else f", row {self.row}"
        place = "" if self.file is None else f"\n --> {visible(self.file)}{row}"
        return f"{visible(self.message)}{place}" + ("" if self.hint is None else f"\n  = hint: {visible(self.hint)}")


class UsageError(DataError):
    """The caller's request makes no sense: a name that no file declares, an output of no known kind."""


class DamagedError(DataError):
    """A file that this package wrote itself is not what it wrote: bits have flipped, it was cut short, or renamed."""


class PassingError(DataError):
    """The cause may be gone the next time: a broker that does not answer, a folder in use by another process."""


class LimitError(WayebError):
    """Something needs more than a limit allows: what, how much, the limit, and what to change."""

    def __init__(
        self, message: str, given: int | str, limit: int | str, knob: str, diagnostic: Diagnostic | None = None
    ) -> None:
        self.message, self.given, self.limit, self.knob, self.diagnostic = message, given, limit, knob, diagnostic
        super().__init__(message, given, limit, knob, diagnostic)

    def __str__(self) -> str:
        if self.diagnostic is not None:
            return self.diagnostic.render()
        return f"{self.message}: needs {self.given}, the limit is {self.limit}\n  = hint: {self.knob}"
