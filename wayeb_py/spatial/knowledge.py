"""Declared knowledge becomes indexed places, each file read once, when a pattern first asks for it.

It belongs to the patterns and not to their state: a reload takes effect at the next batch, and an automaton goes on
where it was, since its letters have only got other meanings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wayeb_py.axes import atoms_of
from wayeb_py.dsl import meaning as m
from wayeb_py.errors import DataError
from wayeb_py.regex import letters_of

if TYPE_CHECKING:
    from wayeb_py.spatial.index import PlaceIndex
    from wayeb_py.spatial.overlay import Questions
    from wayeb_py.spatial.table import Table


@dataclass(frozen=True, slots=True)
class Loaded:
    """A file's places and what was noted while reading it."""

    index: PlaceIndex
    notes: tuple[str, ...]


class Knowledge:
    """The places and tables that patterns name, loaded when they are asked for."""

    def __init__(
        self, declared: Iterable[m.Knowledge], outside: bool = False, lookups: Iterable[m.Lookup] = ()
    ) -> None:
        self.declared = {known.name: known for known in declared}
        self.lookups = {lookup.name: lookup for lookup in lookups}
        self.outside = outside
        self._loaded: dict[str, Loaded] = {}
        self._tables: dict[str, Table] = {}
        self._points: dict[m.Point, PlaceIndex] = {}
        self._questions: dict[tuple[m.Near | m.Inside, ...], Questions] = {}

    def fresh(self) -> Knowledge:
        """The same declarations, to be read again."""
        return Knowledge(self.declared.values(), self.outside, self.lookups.values())

    def load(self, name: str) -> Loaded:
        """The places of a declaration; DataError if its file is at fault."""
        known = self._loaded.get(name)
        if known is None:
            known = self._loaded[name] = self._read(self.declared[name])
        return known

    @property
    def notes(self) -> tuple[str, ...]:
        """What was noted on the files that are loaded: repairs, and what looks wrong."""
        return tuple(note for loaded in self._loaded.values() for note in loaded.notes)

    def index(self, places: m.Places | m.Point) -> PlaceIndex:
        """What a pattern names: all places of a declaration, one of them, or a written point."""
        if isinstance(places, m.Point):
            known = self._points.get(places)
            if known is None:
                from wayeb_py.spatial.index import PlaceIndex

                known = self._points[places] = PlaceIndex.of_point(float(places.lon), float(places.lat))
            return known
        index = self.load(places.name).index
        if places.entry is None:
            return index
        self.require_names(places.name)
        try:
            return index.entry(places.entry)
        except KeyError:
            from difflib import get_close_matches

            near = get_close_matches(places.entry, index.names, n=1)
            raise DataError(
                f"no place of `{places.name}` is called `{places.entry}`",
                str(self.path_of(self.declared[places.name])),
                hint=f"did you mean `{near[0]}`?" if near else None,
            ) from None

    def questions(self, asked: tuple[m.Near | m.Inside, ...]) -> Questions:
        """What is asked of every position, to be answered together."""
        known = self._questions.get(asked)
        if known is None:
            from wayeb_py.spatial.overlay import Question, Questions

            known = self._questions[asked] = Questions(
                [
                    Question(self.index(ask.places), float(ask.distance_m) if isinstance(ask, m.Near) else None)
                    for ask in asked
                ]
            )
        return known

    def table(self, name: str) -> Table:
        """The rows of a `lookup`."""
        known = self._tables.get(name)
        if known is None:
            from wayeb_py.spatial.table import Table

            lookup = self.lookups[name]
            self._refuse_outside(lookup)
            known = self._tables[name] = Table(self.path_of(lookup), lookup.valid_s, lookup.nearest_m)
        return known

    def looks_up(self, attribute: str) -> tuple[str, str] | None:
        """Lookup and column of an attribute such as `weather.ice`; None for one that the events have themselves."""
        name, dot, column = attribute.partition(".")
        return (name, column) if dot and name in self.lookups else None

    def load_for(self, patterns: Iterable[m.Pattern]) -> None:
        """Reads whatever the patterns ask for, so that what is wrong is told before an event is read."""
        for pattern in patterns:
            for places in mentioned(pattern):
                self.index(places)
            for name in self._tables_of(pattern):
                self.table(name)

    def asked_for(self, patterns: Iterable[m.Pattern]) -> list[m.Knowledge | m.Lookup]:
        """The declarations whose files `load_for` reads, in the order of the file."""
        patterns = list(patterns)
        places = {places.name for pattern in patterns for places in mentioned(pattern) if isinstance(places, m.Places)}
        tables = {name for pattern in patterns for name in self._tables_of(pattern)}
        return [
            *(known for name, known in self.declared.items() if name in places),
            *(lookup for name, lookup in self.lookups.items() if name in tables),
        ]

    def _tables_of(self, pattern: m.Pattern) -> Iterator[str]:
        for attribute in attributes_of(pattern.regex):
            looked_up = self.looks_up(attribute.name)
            if looked_up is not None:
                yield looked_up[0]

    def require_names(self, name: str) -> None:
        """Raises DataError where a place has no name, or the name of another."""
        seen: dict[str, int] = {}
        index = self.load(name).index
        path = str(self.path_of(self.declared[name]))
        for number, called in enumerate(index.names, 1):
            if not called:
                raise DataError(
                    f"place {number} of `{name}` has no name, and a pattern asks for places by their names", path,
                    hint="give the file a column or a property `name`",
                )  # fmt: skip
            if called in seen:
                raise DataError(
                    f"two places of `{name}` are called `{called}`: place {seen[called]} and place {number}", path
                )
            seen[called] = number

    def path_of(self, known: m.Knowledge | m.Lookup) -> Path:
        """Where the declaration's file is: its path is relative to the pattern file."""
        return Path(known.source.name).parent / known.path

    def _read(self, known: m.Knowledge) -> Loaded:
        from wayeb_py.spatial.index import PlaceIndex
        from wayeb_py.spatial.read import read_features
        from wayeb_py.spatial.shapes import shapes_of

        self._refuse_outside(known)
        features = read_features(self.path_of(known), known.shape)
        shapes = shapes_of(features.geometries, known.shape == "areas")
        return Loaded(PlaceIndex(shapes, features.names, features.columns), features.notes)

    def _refuse_outside(self, known: m.Knowledge | m.Lookup) -> None:
        path = self.path_of(known)
        folder = Path(known.source.name).parent.resolve()
        if not (self.outside or known.given) and path.exists() and not path.resolve().is_relative_to(folder):
            raise DataError(
                "this file is outside the folder of the pattern file",
                str(path),
                hint="allow it with --outside (in Python: outside=True), give it with --places, or move the file",
            )

    def describe(self, patterns: Iterable[m.Pattern]) -> Iterator[str]:
        """What the patterns ask for, a line for each declaration: what was loaded, and what was noted on the way."""
        patterns = list(patterns)
        asked = {name for pattern in patterns for name in self._tables_of(pattern)}
        yield from (self._describe_table(lookup) for name, lookup in self.lookups.items() if name in asked)
        names = {places.name for pattern in patterns for places in mentioned(pattern) if isinstance(places, m.Places)}
        for name, known in self.declared.items():
            if name not in names:
                continue
            declaration = f"{known.shape} {name} from {known.path}"
            try:
                loaded = self.load(name)
            except DataError as error:
                yield f"{declaration}: {error.message}"
                continue
            index = loaded.index
            n_edges = len(index.shapes.edges)
            edges = f", {n_edges:,} edges" if n_edges else ""
            west, south, east, north = index.bounds
            yield (
                f"{declaration}: {len(index):,} place{'s' if len(index) > 1 else ''}{edges}; "
                f"{west:g} to {east:g} E, {south:g} to {north:g} N"
            )
            for note in loaded.notes:
                yield f"  {note}"

    def _describe_table(self, lookup: m.Lookup) -> str:
        declaration = f"lookup {lookup.name} from {lookup.path}"
        try:
            table = self.table(lookup.name)
        except DataError as error:
            return f"{declaration}: {error.message}"
        west, south, east, north = table.index.bounds
        return (
            f"{declaration}: {table.rows.num_rows:,} rows of {len(table.index):,} places; "
            f"{west:g} to {east:g} E, {south:g} to {north:g} N"
        )


def attributes_of(regex: m.Regex) -> Iterator[m.Attribute]:
    """The attributes that a regex looks at."""
    for value in _values_of(regex):
        if isinstance(value, m.Attribute):
            yield value


def mentioned(pattern: m.Pattern) -> Iterator[m.Places | m.Point]:
    """The places that a pattern asks for."""
    if pattern.each is not None:
        yield m.Places(pattern.each[1])
    for letter in letters_of(pattern.regex):
        for atom in atoms_of(letter.predicate):
            if isinstance(atom, m.Near | m.Inside):
                yield _without_each(atom.places)
    for value in _values_of(pattern.regex):
        if isinstance(value, m.Distance):
            yield _without_each(value.to)


def _values_of(regex: m.Regex) -> Iterator[m.Value]:
    """Every value in the regex, and those that it is computed from."""
    waiting: list[m.Value] = []
    for letter in letters_of(regex):
        for atom in atoms_of(letter.predicate):
            match atom:
                case m.Compare(_, left, right):
                    waiting += [left, right]
                case m.Missing(operand):
                    waiting.append(operand)
                case m.PredicateCall(_, operands):
                    waiting += operands
    while waiting:
        value = waiting.pop()
        yield value
        match value:
            case m.Previous(operand) | m.Held(operand):
                waiting.append(operand)
            case m.Arithmetic(_, operands) | m.FunctionCall(_, operands):
                waiting += operands


def _without_each(places: m.Places | m.Point) -> m.Places | m.Point:
    return m.Places(places.name) if isinstance(places, m.Places) and places.each else places
