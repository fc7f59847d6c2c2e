"""The files of declared places become those that whoever runs the patterns gives: `--places port=my_ports.csv`.

A library names the places that it asks for, and has files of an invented country in their place; where the real ones
lie is known to who runs it. So the files are a setting, and the declaration (name, shape, how a table is looked up)
stays. Copying the library to change a path in it was the alternative, and every new release of it would be a merge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

from wayeb_py.dsl import meaning as m
from wayeb_py.errors import UsageError

Declared = TypeVar("Declared", m.Knowledge, m.Lookup)


class UnknownPlacesError(UsageError):
    """A file is given for places that nobody declares; `names` are those."""

    def __init__(self, names: Iterable[str], declared: Iterable[str]) -> None:
        self.names, known = tuple(names), sorted(declared)
        first = self.names[0]
        close = get_close_matches(first, known, n=1)
        told = f"declared are {', '.join(f'`{name}`' for name in known)}" if known else "the pattern files declare none"
        hint = f"did you mean `{close[0]}`? {told}" if close else told
        super().__init__(f"no places or table are called `{first}`, for which --places gives a file", hint=hint)


def read_given(texts: Iterable[str]) -> dict[str, str]:
    """`port=my_ports.csv` and the like as a mapping; raises UsageError for what is not of that form."""
    given: dict[str, str] = {}
    for text in texts:
        name, equals, path = (part.strip() for part in text.partition("="))
        if not (name and equals and path):
            raise UsageError(f"`--places {text}` does not say which places are where; write it as port=my_ports.csv")
        if name in given:
            raise UsageError(f"--places gives two files for `{name}`: {given[name]} and {path}")
        given[name] = path
    return given


def with_given_places(meaning: m.Meaning, places: Mapping[str, str | Path]) -> m.Meaning:
    """The meaning whose places and tables of these names are in these files; paths are relative to the caller."""
    if not places:
        return meaning
    declared = {one.name for one in meaning.knowledge} | {one.name for one in meaning.lookups}
    unknown = [name for name in places if name not in declared]
    if unknown:
        raise UnknownPlacesError(unknown, declared)
    return replace(
        meaning,
        knowledge=tuple(_given(one, places) for one in meaning.knowledge),
        lookups=tuple(_given(one, places) for one in meaning.lookups),
    )


def _given(one: Declared, places: Mapping[str, str | Path]) -> Declared:
    path = places.get(one.name)
    # Absolute: a path that is not is taken from the folder of the pattern file.
    return one if path is None else replace(one, path=str(Path(path).absolute()), given=True)
