"""The needs of the patterns become the columns that a run reads, one entry for each column.

A pattern may use a column twice (compare it and emit it); the reader wants it once, with the strictest thing said
of it.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from wayeb_py.dsl.meaning import Kind
from wayeb_py.errors import Diagnostic, EventsError, MissingColumnError

Role = Literal["key", "time", "order", "attribute", "emit"]
TimeUnit = Literal["s", "ms", "us", "ns"]

ROLES: tuple[Role, ...] = ("key", "time", "order", "attribute", "emit")


@dataclass(frozen=True, slots=True)
class Need:
    """A column that the events must have, what it must hold, and where a pattern reads it."""

    column: str
    kind: Kind | None
    role: Role
    diagnostic: Diagnostic | None = dataclasses.field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class WantedColumn:
    """A column to read; `kind` is None where the data may decide."""

    name: str
    role: Role
    kind: Kind | None = None
    diagnostic: Diagnostic | None = None

    def error(
        self, message: str, label: str, hint: str | None = None, kind: type[EventsError] = EventsError
    ) -> EventsError:
        """The error for this column, at the span in the pattern that reads it."""
        if self.diagnostic is None:
            return kind(message, None, hint)
        placed = dataclasses.replace(self.diagnostic, severity="error", message=message, label=label, hint=hint)
        return kind(message, placed)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The columns to read: the key first, the time second, then the order column and the attributes."""

    columns: tuple[WantedColumn, ...]
    time_unit: TimeUnit | None = None  # None where the time is a timestamp

    @classmethod
    def from_needs(cls, needs: Iterable[Need], time_unit: TimeUnit | None = None) -> Wanted:
        """Joins all needs of a column into one entry."""
        merged: dict[str, WantedColumn] = {}
        for need in needs:
            asked = WantedColumn(need.column, need.role, need.kind, need.diagnostic)
            known = merged.get(asked.name)
            merged[asked.name] = asked if known is None else _strictest(known, asked)
        columns = sorted(merged.values(), key=lambda column: ROLES.index(column.role))
        if [column.role for column in columns[:2]] != ["key", "time"]:
            raise EventsError("the events need a key and a time", hint="name them: `--key COLUMN --time COLUMN`")
        return cls(tuple(columns), time_unit)

    @property
    def key(self) -> WantedColumn:
        """The column that identifies an entity."""
        return self.columns[0]

    @property
    def time(self) -> WantedColumn:
        """When the event happened."""
        return self.columns[1]

    @property
    def order(self) -> WantedColumn | None:
        """What breaks ties in time, if the stream says so."""
        return next((column for column in self.columns if column.role == "order"), None)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


def _strictest(one: WantedColumn, other: WantedColumn) -> WantedColumn:
    first = one if ROLES.index(one.role) <= ROLES.index(other.role) else other
    kind = one.kind if one.kind is not None else other.kind
    return WantedColumn(first.name, first.role, kind, one.diagnostic or other.diagnostic)


def absent(column: WantedColumn, place: str, present: Iterable[str]) -> EventsError:
    """The error for a column that the events do not have, with the likeliest of those that they do."""
    names = sorted(set(present))
    folded = {name.casefold(): name for name in reversed(names)}
    close = difflib.get_close_matches(column.name.casefold(), list(folded), n=1)
    if close:
        hint = f"did you mean `{folded[close[0]]}`?"
    else:
        shown = ", ".join(f"`{name}`" for name in names[:12]) + (", …" if len(names) > 12 else "")
        hint = f"its columns are {shown}" if names else "it has no columns"
    noun = {"key": "key ", "time": "time ", "order": "order "}.get(column.role, "")
    kind = EventsError if noun else MissingColumnError
    return column.error(f"{place} has no {noun}column `{column.name}`", "not in the events", hint, kind)
