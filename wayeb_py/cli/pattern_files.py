"""Paths on the command line become pattern files.

A folder means all .sre below it. A file that another of them includes is read with that one: by itself it may be
incomplete (a file with nothing but a stream block has no pattern), and its examples would run twice. Requiring a
second extension for such files was the alternative; every editor and `fmt` would have to know it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from wayeb_py.dsl.reader import read_text
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.parser import parse_source
from wayeb_py.dsl.syntax.prefix.which_form import is_prefix_form
from wayeb_py.errors import DataError, SourceText


def find_files(paths: Iterable[Path]) -> list[Path]:
    """The files themselves and all .sre below the folders; raises DataError for a folder that has none."""
    found: list[Path] = []
    for path in paths:
        found += _below(path) if path.is_dir() else [path]
    return found


def find_whole_files(paths: Iterable[Path]) -> list[Path]:
    """As `find_files`, without the files below a folder that others below it include."""
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        below = _below(path)
        included = {target for file in below for target in _targets(file, _declarations(file))}
        # Files that include each other in a ring would all go: then each counts by itself.
        found += [file for file in below if file.resolve() not in included] or below
    return found


def _below(folder: Path) -> Sequence[Path]:
    below = sorted(folder.rglob("*.sre"))
    if not below:
        raise DataError("there are no .sre files below this folder", str(folder))
    return below


def declared_places(path: Path) -> set[str]:
    """The names of the places and tables that a file and what it includes declare; none where it cannot be read."""
    names: set[str] = set()
    seen: set[Path] = set()
    waiting = [path]
    while waiting:
        file = waiting.pop()
        if file.resolve() in seen:
            continue
        seen.add(file.resolve())
        declarations = _declarations(file)
        waiting += _targets(file, declarations)
        names |= {one.name for one in declarations if isinstance(one, t.Knowledge | t.Lookup)}
    return names


def _targets(file: Path, declarations: Iterable[t.Declaration]) -> Iterable[Path]:
    """The other files that the declarations of a file include."""
    for declaration in declarations:
        if isinstance(declaration, t.Include):
            target = (file.parent / declaration.path).resolve()
            if target != file.resolve():
                yield target


def _declarations(file: Path) -> Sequence[t.Declaration]:
    """What a file declares; nothing where it cannot be read, which compiling it reports."""
    try:
        text = read_text(file)
    except DataError:
        return ()
    return () if is_prefix_form(text) else parse_source(SourceText(str(file), text))[0].declarations
