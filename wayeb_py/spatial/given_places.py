"""The caller's files replace those of declared places: `--places port=my_ports.csv`.

After the file the caller may name the column that holds the names of places, as in the language: `--places
'port=UpdatedPub150.csv name "Main Port Name"'`. Otherwise the column that the declaration names is used where the file
has it.

A library names the places that it uses, and brings files of an invented country for them; only its user knows where
the real ones lie. So the files are a setting, and the declaration (name, shape, how a table is looked up) stays. The
alternative, a copy of the library with another path in it, would make every new release a merge.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

from wayeb_py.dsl import meaning as m
from wayeb_py.errors import UsageError
from wayeb_py.files.stores import located

Declared = TypeVar("Declared", m.Knowledge, m.Lookup)
Given = str | Path | tuple[str | Path, str]  # a file, or a file and the column that is the name

_NAMED = re.compile(r"(?P<path>.+?)\s+name\s+(?:\"(?P<quoted>[^\"]+)\"|(?P<bare>\S.*))")


class UnknownPlacesError(UsageError):
    """A file is given for places that no file declares; `names` are the names of these places."""

    def __init__(self, names: Iterable[str], declared: Iterable[str]) -> None:
        self.names, known = tuple(names), sorted(declared)
        first = self.names[0]
        close = get_close_matches(first, known, n=1)
        told = f"declared are {', '.join(f'`{name}`' for name in known)}" if known else "the pattern files declare none"
        hint = f"did you mean `{close[0]}`? {told}" if close else told
        super().__init__(f"no places or table are called `{first}`, for which --places gives a file", hint=hint)


def read_given(texts: Iterable[str]) -> dict[str, Given]:
    """`port=my_ports.csv` and the like as a mapping; raises UsageError for text of another form."""
    given: dict[str, Given] = {}
    for text in texts:
        name, equals, path = (part.strip() for part in text.partition("="))
        if not (name and equals and path):
            raise UsageError(f"`--places {text}` does not say which places are where; write it as port=my_ports.csv")
        if name in given:
            raise UsageError(f"--places gives two files for `{name}`: {_file(given[name])} and {path}")
        named = None if "://" not in path and Path(path).exists() else _NAMED.fullmatch(path)
        given[name] = path if named is None else (named["path"], named["quoted"] or named["bare"])
    return given


def _file(given: Given) -> str | Path:
    return given[0] if isinstance(given, tuple) else given


def with_given_places(meaning: m.Meaning, places: Mapping[str, Given]) -> m.Meaning:
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


def _given(one: Declared, places: Mapping[str, Given]) -> Declared:
    given = places.get(one.name)
    if given is None:
        return one
    # Absolute: a relative path would start from the folder of the pattern file.
    path = located(_file(given))
    moved = replace(one, path=str(path.absolute() if isinstance(path, Path) else path), given=True)
    column = given[1] if isinstance(given, tuple) else None
    if column is None:
        return moved
    if isinstance(moved, m.Lookup):
        raise UsageError(f"`{one.name}` is a table, whose places have no names: give its file alone")
    return replace(moved, name_column=column, given_name=True)
