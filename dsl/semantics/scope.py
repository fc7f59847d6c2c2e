"""What names mean while a file is checked, and where its errors and warnings are collected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.typed_expressions import Place, Result
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.wording import did_you_mean, shown
from wayeb_py.errors import Diagnostic, Note, SourceText, Span

MAX_SUGGESTIONS = 100

ColumnKey = tuple[str, ...]  # (attribute,) or (places, column)


@dataclass(slots=True)
class Diagnostics:
    """Errors and warnings in the order in which they are found; the same one twice counts once."""

    found: dict[tuple[str, str, Span], Diagnostic] = field(default_factory=dict)
    suggested: dict[tuple[str, ...], str | None] = field(default_factory=dict)

    def error(
        self,
        source: SourceText,
        message: str,
        span: Span,
        label: str = "",
        hint: str | None = None,
        note: Note | None = None,
    ) -> None:
        self._add(Diagnostic("error", message, source, span, label, hint, note))

    def warn(
        self,
        source: SourceText,
        message: str,
        span: Span,
        label: str = "",
        hint: str | None = None,
        of_arrival: bool = False,
    ) -> None:
        self._add(Diagnostic("warning", message, source, span, label, hint, of_arrival=of_arrival))

    def suggest(self, word: str, candidates: Sequence[str]) -> str | None:
        """The hint that names the likely spelling; a file full of unknown names gets only the first of them."""
        key = (word, *candidates[:2])
        if key not in self.suggested and len(self.suggested) < MAX_SUGGESTIONS:
            self.suggested[key] = did_you_mean(word, candidates)
        return self.suggested.get(key)

    def _add(self, diagnostic: Diagnostic) -> None:
        key = (diagnostic.source.name, diagnostic.message, diagnostic.span)
        self.found.setdefault(key, diagnostic)


@dataclass(slots=True)
class Kinds:
    """The kinds of columns, as declared or as uses reveal them."""

    known: dict[ColumnKey, m.Kind | None] = field(default_factory=dict)
    uses: dict[ColumnKey, list[tuple[m.Kind, SourceText, Span]]] = field(default_factory=dict)
    alike: list[tuple[ColumnKey, ColumnKey]] = field(default_factory=list)

    def use(self, key: ColumnKey, kind: m.Kind, place: Place) -> None:
        """Notes that an expression uses a column as of this kind."""
        self.uses.setdefault(key, []).append((kind, *place))

    def settle(self, report: Diagnostics) -> None:
        """Decides the kinds by the uses, and reports the columns that have uses of two kinds."""
        for key, uses in self.uses.items():
            first_kind, first_source, first_span = uses[0]
            other = next((use for use in uses if use[0] != first_kind), None)
            self.known[key] = first_kind if other is None else None
            if other is not None:
                name = ".".join(key)
                note = Note(first_source, first_span, f"as {KIND_NAMES[first_kind]} here")
                report.error(
                    other[1],
                    f"`{name}` is used as {KIND_NAMES[first_kind]} and as {KIND_NAMES[other[0]]}",
                    other[2],
                    f"as {KIND_NAMES[other[0]]} here",
                    note=note,
                )
        changed = True
        while changed:
            changed = False
            for a, b in self.alike:
                for x, y in ((a, b), (b, a)):
                    if self.known.get(x) is None and self.known.get(y) is not None and x not in self.uses:
                        self.known[x] = self.known[y]
                        changed = True


def column_key(value: m.Value) -> ColumnKey | None:
    """The key that a value's kind is found by; None if it is not a column."""
    while isinstance(value, m.Previous | m.Of | m.At):
        value = value.operand
    if isinstance(value, m.Attribute):
        return (value.name,)
    return (value.places, value.column) if isinstance(value, m.PlaceColumn) else None


KIND_NAMES: dict[str, str] = {"number": "a number", "text": "text", "bool": "a bool", "time": "a time"}


@dataclass(slots=True)
class Scope:
    """Everything that a name in an expression may refer to."""

    report: Diagnostics
    functions: Mapping[str, m.Signature]
    stream: m.Stream
    attributes: dict[str, m.Attribute]  # declared, and key, time, position and order
    has_attr_lines: bool
    stream_is_broken: bool = False  # its block could not be read, so nothing that it lacks is an error
    kinds: Kinds = field(default_factory=Kinds)
    lets: dict[str, tuple[t.Let, SourceText]] = field(default_factory=dict)
    results: dict[str, Result] = field(default_factory=dict)  # what each `let` means
    broken: set[str] = field(default_factory=set)  # names whose declaration could not be read
    knowledge: dict[str, m.Knowledge] = field(default_factory=dict)
    lookups: dict[str, m.Lookup] = field(default_factory=dict)
    mentioned: set[str] = field(default_factory=set)  # attributes that some expression reads
    patterns: dict[str, tuple[t.Pattern, SourceText]] = field(default_factory=dict)
    broken_patterns: set[str] = field(default_factory=set)
    rules: dict[str, tuple[t.Rule, SourceText]] = field(default_factory=dict)
    lets_of_pairs: set[str] = field(default_factory=set)  # `let`s that name an entity of some pair
    lets_of_rules: set[str] = field(default_factory=set)  # `let`s that name a member of some rule


@dataclass(slots=True)
class Pairing:
    """What the names of a pattern over pairs stand for: its entities, and the streams that they come from."""

    meaning: m.EachPair
    scopes: dict[m.Role, Scope]

    @property
    def roles(self) -> dict[str, m.Role]:
        a, b = self.meaning.variables
        return {a: "a", b: "b"}


def text_at(source: SourceText, span: Span) -> str:
    """A piece of the source, short enough for a message."""
    return shown(source.text[span.start : span.end])
