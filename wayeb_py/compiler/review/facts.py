"""Declared files of facts become diagnostics at their declarations, where a file is missing or lacks a column.

The review reads only the names of columns, and no row: `check` says in the evening what would end the nightly job. A
file that no rule joins would not end it, and is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.wording import did_you_mean
from wayeb_py.errors import DataError, Diagnostic, EventsError, Span
from wayeb_py.files.stores import Location, beside, is_outside


def path_of(facts: m.Facts) -> Location:
    """Where a file of facts is: its path is relative to the pattern file."""
    return beside(facts.source.name, facts.path or "")


def review_facts(meaning: m.Meaning, outside: bool = False) -> Iterator[Diagnostic]:
    """What is wrong with the declared files of facts; with `outside`, they may lie in any folder."""
    joined = {
        member.of
        for rule in meaning.rules
        for members in (rule.members, *(unless.members for unless in rule.unless))
        for member in members
        if member.over == "facts"
    }
    for facts in meaning.facts:
        if facts.path is not None:
            for span, label, message, hint in _faults(facts, outside):
                told = f"{facts.path}: {message}"
                severity: Literal["error", "warning"] = "error" if facts.name in joined else "warning"
                yield Diagnostic(severity, told, facts.source, span, label, hint)


def _faults(facts: m.Facts, outside: bool) -> Iterator[tuple[Span, str, str, str | None]]:
    """Span, label, message and hint of each fault of a file."""
    from wayeb_py.files.read import column_names  # for start-up time: it loads Arrow

    path = path_of(facts)
    label = "its rows are read from there"
    if not path.is_file():
        yield facts.span, label, "there is no such file", None
        return
    if not (outside or facts.given) and is_outside(facts.source.name, path):
        hint = "allow it with --outside (in Python: outside=True), or move the file"
        yield facts.span, label, "this file is outside the folder of the pattern file", hint
        return
    try:
        names = column_names([str(path)])
    except (DataError, EventsError) as error:
        yield facts.span, label, str(error).splitlines()[0], error.hint
        return
    for column, called in zip(facts.columns, facts.file_columns, strict=True):
        if called not in names:
            known = ", ".join(f"`{name}`" for name in names[:20])
            close = did_you_mean(called, names)
            otherwise = f"its columns are {known}; where they are called otherwise, write `columns (…)` after the file"
            yield column.span, f"`{facts.name}` has it", f"the file has no column `{called}`", close or otherwise
