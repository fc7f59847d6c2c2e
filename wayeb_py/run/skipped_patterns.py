"""Patterns and the columns of events become the patterns that can run there, and what the others lack.

A library needs more than any one provider gives. Leaving patterns out needs an option (`--skip-missing`): otherwise
a misspelt column would look like a night in which nothing happened.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.errors import EventsError

Some = TypeVar("Some", bound=CompiledPatterns)


def columns_of(paths: Sequence[str | os.PathLike[str]]) -> set[str]:
    """The columns that at least one of the files has, or the folders that it lies in: as a run takes them."""
    from wayeb_py.files.discover import find_files  # for start-up time
    from wayeb_py.files.projection import Wanted  # for start-up time
    from wayeb_py.files.read import open_file  # for start-up time

    found: set[str] = set()
    for file in find_files(paths):
        found.update(open_file(file, Wanted(())).columns)
        found.update(name for name, _ in file.partitions)
    return found


def leave_out_missing(
    patterns: Some, columns: Iterable[str] | Mapping[str, Iterable[str]]
) -> tuple[Some, dict[str, tuple[str, ...]]]:
    """The patterns whose columns are all there, and the columns that each other pattern lacks, by name.

    `columns` are those of the events, by stream where there are several. Every pattern needs key, time and order: where
    they are absent nothing is left out, and the run says so. Raises EventsError where no pattern remains.
    """
    if not isinstance(columns, Mapping):
        columns = dict.fromkeys(patterns.by_stream, tuple(columns))
    present = {name: set(columns.get(name, ())) for name in patterns.by_stream}
    for name, part in patterns.by_stream.items():
        present[name] |= {need.column for need in part.needs if need.role in ("key", "time", "order")}
    lacking: dict[str, tuple[str, ...]] = {}
    for name in patterns.names:
        parts = patterns.select([name]).by_stream
        absent = [
            need.column for stream, part in parts.items() for need in part.needs if need.column not in present[stream]
        ]
        if absent:
            lacking[name] = tuple(dict.fromkeys(absent))
    if not lacking:
        return patterns, {}
    if len(lacking) == len(patterns.names):
        absent = sorted({column for lacks in lacking.values() for column in lacks})
        shown = ", ".join(f"`{column}`" for column in absent)
        known = sorted({column for own in columns.values() for column in own})
        has = ", ".join(f"`{column}`" for column in known[:12]) + (", …" if len(known) > 12 else "")
        raise EventsError(
            f"no pattern is left to run: the events lack {shown}",
            hint=f"their columns are {has}; `wayeb data convert` gives a provider's columns the names of the libraries",
        )
    return patterns.select(name for name in patterns.names if name not in lacking), lacking
