"""Declared files of places become diagnostics at their declarations, where a file is missing or cannot be used.

The review reads the files as a run does, but indexes nothing: `check` says in the evening what would end the nightly
job. A file that no pattern uses would not end it, and is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from wayeb_py.dsl import meaning as m
from wayeb_py.errors import DataError, Diagnostic
from wayeb_py.spatial.knowledge import mentioned, tell_apart

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns


def review_places(patterns: CompiledPatterns) -> Iterator[Diagnostic]:
    """What is wrong with the files of places and tables that the pattern files declare."""
    knowledge = patterns.knowledge
    asked: dict[str, set[str]] = {}  # the entries that patterns use by name, by declaration
    by_name: set[str] = set()
    for pattern in patterns.meaning.patterns:
        if pattern.each is not None:
            by_name.add(pattern.each[1])
        for places in mentioned(pattern):
            if isinstance(places, m.Places):
                entries = asked.setdefault(places.name, set())
                if places.entry is not None:
                    entries.add(places.entry)
    tables = set(knowledge.tables_of(patterns.meaning.patterns))
    for known in knowledge.declared.values():
        try:
            features = knowledge.read(known)
            if known.name in by_name or asked.get(known.name):
                names, _ = tell_apart(features.names)
                knowledge.refuse_nameless(known.name, names)
                for entry in sorted(asked.get(known.name, set()) - set(names)):
                    raise knowledge.no_such_place(known.name, entry)
        except DataError as error:
            yield _diagnostic(known, error, known.name in asked)
    for lookup in knowledge.lookups.values():
        try:
            knowledge.refuse_missing(lookup)
        except DataError as error:
            yield _diagnostic(lookup, error, lookup.name in tables)


def _diagnostic(known: m.Knowledge | m.Lookup, error: DataError, is_asked: bool) -> Diagnostic:
    row = "" if error.row is None else f", row {error.row}"
    return Diagnostic(
        "error" if is_asked else "warning",
        f"{known.path}{row}: {error.message}",
        known.source,
        known.span,
        "its places are read from there" if isinstance(known, m.Knowledge) else "its rows are read from there",
        error.hint,
    )
