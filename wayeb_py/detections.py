"""Detections as a table: one row each, with what the pattern emits.

Those of `patterns.recognise` know their patterns and the events they were found in, by reference, so that they can be
drawn and explained; those of a recogniser that is fed know neither, since events are gone by then.
"""

from __future__ import annotations

import html
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from wayeb_py.errors import DataError

if TYPE_CHECKING:
    from wayeb_py.patterns import Patterns
    from wayeb_py.view.notebook import MapPage
    from wayeb_py.why.explanation import Why

SHOWN_ROWS = 20
_IDENTITY = ("pattern", "place", "entity", "ts", "seq", "start_seq")


@dataclass(frozen=True, slots=True)
class Origin:
    """What detections were found by, and in: the events as the caller gave them."""

    patterns: Patterns
    events: Any


class Detections:
    """An Arrow table of detections, and of the episodes that are closed by now."""

    def __init__(self, table: pa.Table, episodes: pa.Table, origin: Origin | None = None) -> None:
        self._table = table
        self._episodes = episodes
        self._origin = origin

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The detections one by one, each as a dict."""
        for batch in self._table.to_batches():
            yield from batch.to_pylist()

    def __getitem__(self, number: int) -> dict[str, Any]:
        """One detection as a dict."""
        if not isinstance(number, Integral):
            raise TypeError(
                f"a detection is named by its number, and this is a {type(number).__name__}; "
                "columns and parts are those of to_arrow() and to_pandas()"
            )
        row: dict[str, Any] = self._table.slice(self._index(number), 1).to_pylist()[0]
        return row

    def to_arrow(self) -> pa.Table:
        """pattern, place, entity, ts, seq, start_ts, start_seq and the emitted columns, in the order of the events."""
        return self._table

    def episodes(self) -> pa.Table:
        """pattern, place, entity, start_ts, start_seq, end_ts, end_seq, n_detections."""
        return self._episodes

    def to_pandas(self) -> Any:
        """The same table as a data frame of pandas."""
        return self._table.to_pandas()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        counts = ", ".join(f"{name} {n}" for name, n in self.counts().items())
        return f"<{len(self)} detections{': ' + counts if counts else ''}>"

    def counts(self) -> dict[str, int]:
        """The number of detections of each pattern that has some."""
        counted = self._table.column("pattern").value_counts().to_pylist()
        return {item["values"]: item["counts"] for item in counted}

    def map(
        self, path: str | os.PathLike[str] | None = None, *, title: str = "wayeb", name: str | None = None
    ) -> MapPage:
        """The detections on a map, written to a path if one is given; a notebook shows it.

        `name` is the column with the entities' names, which is guessed otherwise.
        """
        from wayeb_py.engine.tables import as_table
        from wayeb_py.view.draw import draw_table
        from wayeb_py.view.notebook import MapPage

        origin = self._known_origin("drawn")
        events = as_table(origin.events)
        page = MapPage(draw_table(self._table, events, patterns=origin.patterns, title=title, name=name))
        if path is not None:
            page.save(path)
        return page

    def why(self, detection: int | Mapping[str, Any] | Any) -> Why:
        """Why something was detected: a detection by its number, or its row, as a dict or as a row of a data frame."""
        from wayeb_py.engine.tables import as_table
        from wayeb_py.why.explain import explain_event
        from wayeb_py.why.words import words_of

        origin = self._known_origin("explained")
        number = self._index(int(detection)) if isinstance(detection, Integral) else self._find(detection)
        row = self._table.slice(number, 1)
        entity = row.column("entity").cast(pa.string())[0].as_py()
        pattern, place, seq = (row.column(name)[0].as_py() for name in ("pattern", "place", "seq"))
        patterns = origin.patterns.select([pattern])
        words = words_of(patterns, as_table(origin.events, [need.column for need in patterns.needs]), entity)
        return explain_event(patterns, words, pattern, entity, row.column("ts"), int(seq), place)

    def _index(self, number: int) -> int:
        if not -len(self) <= number < len(self):
            raise IndexError(f"there are {len(self)} detections, and no number {number}")
        return number % len(self)

    def _find(self, detection: Any) -> int:
        """The number of a row, by what tells detections apart; pandas may change emitted values, as 1 to 1.0."""
        wanted = detection.to_dict() if hasattr(detection, "to_dict") else detection
        if isinstance(wanted, Mapping) and wanted.keys() == set(self._table.column_names):
            # pandas has NaN where a place is missing
            told = {name: None if wanted[name] != wanted[name] else wanted[name] for name in _IDENTITY}
            for number, row in enumerate(self):
                if all(row[name] == value for name, value in told.items()):
                    return number
        raise DataError("this is none of the detections", hint="give its number, or a row as iterating gives it")

    def _known_origin(self, done: str) -> Origin:
        if self._origin is None:
            raise DataError(
                f"these detections do not know their events any more, and cannot be {done}",
                hint="those of `patterns.recognise(events)` do; for files there are `wayeb map` and `wayeb why`",
            )
        return self._origin

    def _repr_html_(self) -> str:
        texts = {} if self._origin is None else {p.name: p.text for p in self._origin.patterns.meaning.patterns}
        counted = html_table(
            f"{len(self):,} detections",
            ["pattern", "detections", *(["expression"] if texts else [])],
            [[name, f"{n:,}", *([texts.get(name, "")] if texts else [])] for name, n in self.counts().items()],
        )
        names = self._table.column_names
        rows = [[row[name] for name in names] for row in self._table.slice(0, SHOWN_ROWS).to_pylist()]
        more = len(self) - SHOWN_ROWS
        rest = f"<p>… and {more:,} more</p>" if more > 0 else ""
        return counted + (html_table("the first of them" if more > 0 else "", names, rows) if rows else "") + rest


def html_table(caption: str, head: list[str], rows: list[list[Any]]) -> str:
    """A table for a notebook; whatever stands in it is text."""
    titles = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape('' if cell is None else str(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    above = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<table>{above}<thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"
