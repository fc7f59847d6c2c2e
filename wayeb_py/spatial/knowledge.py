"""Declared knowledge becomes indexed places, each file read once, when a pattern first uses it.

It belongs to the patterns and not to their state: a reload takes effect at the next batch, and an automaton continues
where it was, since only its letters have changed their meaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wayeb_py.dsl import meaning as m
from wayeb_py.errors import DataError
from wayeb_py.files.stores import Location, beside, is_outside

if TYPE_CHECKING:
    from wayeb_py.spatial.index import PlaceIndex
    from wayeb_py.spatial.lookup_table import Table
    from wayeb_py.spatial.overlay import Questions
    from wayeb_py.spatial.read_places import Features

MOST_LISTED = 20  # names in one message


@dataclass(frozen=True, slots=True)
class LoadedPlaces:
    """A file's places and what was noted while reading it."""

    index: PlaceIndex
    notes: tuple[str, ...]
    shared_names: tuple[str, ...] = ()  # names that several places of the file have


class KnowledgeBase:
    """The places and tables that patterns name, loaded at their first use."""

    def __init__(
        self, declared: Iterable[m.Knowledge], outside: bool = False, lookups: Iterable[m.Lookup] = ()
    ) -> None:
        self.declared = {known.name: known for known in declared}
        self.lookups = {lookup.name: lookup for lookup in lookups}
        self.outside = outside
        self._loaded: dict[str, LoadedPlaces] = {}
        self._named: dict[str, tuple[str, ...]] = {}  # notes on the names of places that patterns use by name
        self._tables: dict[str, Table] = {}
        self._points: dict[m.Point, PlaceIndex] = {}
        self._questions: dict[tuple[m.Near | m.Inside, ...], Questions] = {}
        self.facts: dict[str, Mapping[str, Any]] = {}  # columns of files of facts, where they were read elsewhere

    def with_facts(self, facts: Mapping[str, Mapping[str, Any]]) -> KnowledgeBase:
        """The same knowledge, with the tables of facts that a process without their files needs."""
        same = copy(self)
        same.facts = dict(facts)
        return same

    def fresh(self) -> KnowledgeBase:
        """A base with the same declarations, whose files are read again."""
        return KnowledgeBase(self.declared.values(), self.outside, self.lookups.values())

    def load(self, name: str) -> LoadedPlaces:
        """The places of a declaration; DataError if its file is at fault."""
        known = self._loaded.get(name)
        if known is None:
            known = self._loaded[name] = self._read(self.declared[name])
        return known

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the loaded files: repairs, and what looks wrong."""
        of_files = (note for loaded in self._loaded.values() for note in loaded.notes)
        return (*of_files, *(note for notes in self._named.values() for note in notes))

    def index(self, places: m.Places | m.Point) -> PlaceIndex:
        """What a pattern names: all places of a declaration, one of them, or a written point."""
        if isinstance(places, m.Point):
            known = self._points.get(places)
            if known is None:
                from wayeb_py.spatial.index import PlaceIndex  # for start-up time

                known = self._points[places] = PlaceIndex.of_point(float(places.lon), float(places.lat))
            return known
        index = self.load(places.name).index
        if places.entry is None:
            return index
        self.require_names(places.name)
        try:
            return index.entry(places.entry)
        except KeyError:
            raise self.no_such_place(places.name, places.entry) from None

    def no_such_place(self, name: str, entry: str) -> DataError:
        """The error for a name that no place has."""
        from difflib import get_close_matches

        names, shared = tell_apart(self.read(self.declared[name]).names)
        near = get_close_matches(entry, names, n=1)
        hint = f"did you mean `{near[0]}`?" if near else None
        if entry in shared:
            hint = f"several places of the file are: the first is called `{entry} (1)`"
        return DataError(f"no place of `{name}` is called `{entry}`", str(self.path_of(self.declared[name])), hint=hint)

    def settle(self) -> None:
        """Makes now what many positions would be answered by later: cells in which the answers are settled."""
        for questions in self._questions.values():
            questions.settle()

    def questions(self, asked: tuple[m.Near | m.Inside, ...]) -> Questions:
        """The questions about every position, to be answered together."""
        known = self._questions.get(asked)
        if known is None:
            from wayeb_py.spatial.overlay import Question, Questions  # for start-up time

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
            from wayeb_py.spatial.lookup_table import Table  # for start-up time

            lookup = self.lookups[name]
            self._refuse_outside(lookup)
            known = self._tables[name] = Table(self.path_of(lookup), lookup.valid_s, lookup.nearest_m)
        return known

    def looks_up(self, attribute: str) -> tuple[str, str] | None:
        """Lookup and column of an attribute such as `weather.ice`; None for one that the events have themselves."""
        name, dot, column = attribute.partition(".")
        return (name, column) if dot and name in self.lookups else None

    def load_for(self, patterns: Iterable[m.Pattern]) -> None:
        """Reads everything that the patterns use, so that errors appear before an event is read."""
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
        for attribute in attributes_of(pattern) if self.lookups else ():
            looked_up = self.looks_up(attribute.name)
            if looked_up is not None:
                yield looked_up[0]

    def require_names(self, name: str) -> None:
        """Raises DataError where places have no name, and notes where several had the same."""
        loaded = self.load(name)
        self.refuse_nameless(name, loaded.index.names)
        if name not in self._named:
            path = str(self.path_of(self.declared[name]))
            self._named[name] = _note_of_names(name, path, loaded.shared_names)

    def refuse_nameless(self, name: str, names: Sequence[str]) -> None:
        """Raises DataError where places have no name."""
        path = str(self.path_of(self.declared[name]))
        nameless = [f"{number:,}" for number, called in enumerate(names, 1) if not called]
        if nameless:
            listed = ", ".join(nameless[:MOST_LISTED]) + (", …" if len(nameless) > MOST_LISTED else "")
            which = f"place {listed} of `{name}` has" if len(nameless) == 1 else f"places {listed} of `{name}` have"
            if len(nameless) == len(names) > 1:
                which = f"the places of `{name}` have"
            where = (
                f"--places '{name}={Path(path).name} name \"COLUMN\"'"
                if self.declared[name].given
                else ('from "…" name "COLUMN"')
            )
            raise DataError(
                f"{which} no name, and a pattern asks for places by their names", path,
                hint=f"give the file a column or a property `name`, or say which one it is: `{where}`",
            )  # fmt: skip

    def path_of(self, known: m.Knowledge | m.Lookup) -> Location:
        """Where the declaration's file is: its path is relative to the pattern file."""
        return beside(known.source.name, known.path)

    def _read(self, known: m.Knowledge) -> LoadedPlaces:
        from wayeb_py.spatial.index import PlaceIndex  # for start-up time
        from wayeb_py.spatial.shapes import shapes_of  # for start-up time

        features = self.read(known)
        shapes = shapes_of(features.geometries, known.shape == "areas")
        names, shared = tell_apart(features.names)
        return LoadedPlaces(PlaceIndex(shapes, names, features.columns), features.notes, shared)

    def read(self, known: m.Knowledge) -> Features:
        """The places of a declaration as their file has them."""
        from wayeb_py.spatial.read_places import NoSuchColumnError, read_features  # for start-up time

        self._refuse_outside(known)
        try:
            return read_features(self.path_of(known), known.shape, known.name_column)
        except NoSuchColumnError:
            if not known.given or known.given_name:
                raise
            return read_features(self.path_of(known), known.shape)  # a user's file may have another name for the column

    def refuse_missing(self, known: m.Knowledge | m.Lookup) -> None:
        """Raises DataError where there is no file, or it is not to be read."""
        self._refuse_outside(known)
        if not self.path_of(known).is_file():
            raise DataError("there is no such file", str(self.path_of(known)))

    def tables_of(self, patterns: Iterable[m.Pattern]) -> Iterator[str]:
        """The lookups that the patterns use."""
        for pattern in patterns:
            yield from self._tables_of(pattern)

    def _refuse_outside(self, known: m.Knowledge | m.Lookup) -> None:
        path = self.path_of(known)
        if not (self.outside or known.given) and is_outside(known.source.name, path):
            raise DataError(
                "this file is outside the folder of the pattern file",
                str(path),
                hint="allow it with --outside (in Python: outside=True), give it with --places, or move the file",
            )

    def describe(self, patterns: Iterable[m.Pattern]) -> Iterator[str]:
        """What the patterns use, a line for each declaration: what was loaded, and the notes on it."""
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


def tell_apart(names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names, with a number where several places have the same, and the names that were the same.

    `Newport` becomes `Newport (1)`, `Newport (2)` in the order of the file. None stays `Newport`: that name would not
    say which one it is.
    """
    times = Counter(name for name in names if name)
    taken = {name for name, n in times.items() if n == 1}
    numbered: dict[str, int] = {}
    apart: list[str] = []
    for name in names:
        if times[name] < 2:
            apart.append(name)
            continue
        while True:
            numbered[name] = numbered.get(name, 0) + 1
            if (called := f"{name} ({numbered[name]})") not in taken:
                break
        taken.add(called)
        apart.append(called)
    return tuple(apart), tuple(name for name, n in times.items() if n > 1)


def _note_of_names(name: str, path: str, shared: tuple[str, ...]) -> tuple[str, ...]:
    if not shared:
        return ()
    listed = ", ".join(f"`{called}`" for called in shared[:MOST_LISTED]) + (", …" if len(shared) > MOST_LISTED else "")
    are = "1 name of" if len(shared) == 1 else f"{len(shared):,} names of"
    return (f"{path}: {are} `{name}` each stand for several places, now `{shared[0]} (1)` and so on: {listed}",)


def attributes_of(pattern: m.Pattern) -> Iterator[m.Attribute]:
    """The attributes that a pattern looks at."""
    return (part for part in pattern.parts if isinstance(part, m.Attribute))


def mentioned(pattern: m.Pattern) -> Iterator[m.Places | m.Point]:
    """The places that a pattern uses."""
    if pattern.each is not None:
        yield m.Places(pattern.each[1])
    for part in pattern.parts:
        if isinstance(part, m.Places | m.Point):
            yield _without_each(part)


def _without_each(places: m.Places | m.Point) -> m.Places | m.Point:
    return m.Places(places.name) if isinstance(places, m.Places) and places.each else places
