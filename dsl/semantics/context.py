"""Where an expression stands while it is checked: its file, the names in scope, its `for each`, and where errors go.

The walk over expressions (`resolve`) and the checks of each kind of expression (`letters`, `quantities`, `calls`) share
this context, so that the checks know nothing of the walk.
"""

from __future__ import annotations

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.scope import Pairing, Scope, column_key
from wayeb_py.dsl.semantics.typed_expressions import WRONG, Result, Valued, Wrong
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.units import UNITS
from wayeb_py.errors import Note, SourceText, Span


class Context:
    """The scope of one stream, and for one expression at a time its file and its `for each`."""

    of_whole_match = False  # whether measures are of the whole match, and not of the match so far

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.report = scope.report
        self.source = SourceText("", "")
        self.each: tuple[str, str] | None = None
        self.pair: Pairing | None = None
        self.registers: frozenset[str] = frozenset()  # what letters of the pattern at hand call their events

    def error(
        self, message: str, span: Span, label: str = "", hint: str | None = None, note: Note | None = None
    ) -> Wrong:
        """Reports an error in the file of the expression, which is then wrong."""
        self.report.error(self.source, message, span, label, hint, note)
        return WRONG

    def places(self, name: str, span: Span) -> str | None:
        """The shape of background knowledge by its name; None, and a report, if there is none."""
        if name in self.scope.broken:
            return None
        known = self.scope.knowledge.get(name)
        if known is None:
            hint = self.report.suggest(name, list(self.scope.knowledge))
            hint = hint or f'declare them: `points {name} from "{name}.csv"`'
            self.error(f"unknown places `{name}`", span, "no `points`, `lines` or `areas` of this name", hint)
            return None
        return known.shape

    def attribute(self, scope: Scope, name: str, span: Span) -> Valued:
        """A column of the events of a stream, or of the rows of a member."""
        attribute = scope.attributes.get(name) or m.Attribute(name, scope.kinds.known.get((name,)))
        scope.mentioned.add(name)
        unit = UNITS[attribute.unit] if attribute.unit else None
        kind = attribute.kind or scope.kinds.known.get((name,))
        return Valued(m.Attribute(name, kind, attribute.unit, span=span), kind, unit)

    def whose(self) -> str:
        """The first argument that a hint proposes for a call about one event, where there are several entities to
        choose from."""
        return "" if self.pair is None else f"{self.pair.meaning.variables[0]}, "

    def moved_time(self, node: t.Arithmetic, left: Valued, right: Valued) -> Result | None:
        """A time moved by a length of time; only rules have it."""
        return None

    def want_kind(self, result: Valued, kind: m.Kind, span: Span) -> bool:
        """Whether a value is of a kind, or may be; a use that reveals the kind of a column is noted."""
        if result.kind is not None:
            return result.kind == kind
        key = column_key(result.value)
        if key is not None:
            self.scope_of(result.value).kinds.use(key, kind, (self.source, span))
        return True

    def scope_of(self, value: m.Value) -> Scope:
        """The scope of the stream that a column belongs to."""
        while isinstance(value, m.Previous):
            value = value.operand
        return self.pair.scopes[value.role] if self.pair is not None and isinstance(value, m.Of) else self.scope
