"""Holds detections as a table: one row each, with what the pattern emits.

Detections of a recogniser that is fed do not know the events that they were found in, which are gone by then; those of
`patterns.recognise` do, and can be drawn and explained (`wayeb_py.traced_detections`).
"""

from __future__ import annotations

import html
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from numbers import Integral
from typing import Any

import pyarrow as pa

from wayeb_py.engine.rows.few_detections import FewDetections
from wayeb_py.errors import DataError

SHOWN_ROWS = 20
FEW_ROWS = 32  # are counted sooner in Python than by Arrow


class Detections:
    """An Arrow table of detections, and of the episodes that are closed."""

    def __init__(self, table: pa.Table, episodes: pa.Table) -> None:
        self._table = table
        self._episodes = episodes

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

    def few(self) -> FewDetections | None:
        """A few detections without a table, where they are had so."""
        return None

    def episodes(self) -> pa.Table:
        """pattern, place, entity, start_ts, start_seq, end_ts, end_seq, n_detections."""
        return self._episodes

    def to_pandas(self) -> Any:
        """The table of detections as a data frame of pandas."""
        return self._table.to_pandas()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        counts = ", ".join(f"{name} {n}" for name, n in self.counts().items())
        return f"<{len(self)} detections{': ' + counts if counts else ''}>"

    def counts(self) -> dict[str, int]:
        """The number of detections of each pattern that has some."""
        if self._table.num_rows <= FEW_ROWS:
            return dict(Counter(self._table.column("pattern").to_pylist())) if self._table.num_rows else {}
        counted = self._table.column("pattern").value_counts().to_pylist()
        return {item["values"]: item["counts"] for item in counted}

    def map(self, path: str | os.PathLike[str] | None = None, *, title: str = "wayeb", name: str | None = None) -> Any:
        """The detections on a map, if they know their events."""
        raise _unknown_events("drawn")

    def why(self, detection: int | Mapping[str, Any] | Any) -> Any:
        """Why something was detected, if the detections know their events."""
        raise _unknown_events("explained")

    def _expressions(self) -> dict[str, str]:
        """The expression of each pattern by its name, where that is known."""
        return {}

    def _index(self, number: int) -> int:
        if not -len(self) <= number < len(self):
            raise IndexError(f"there are {len(self)} detections, and no number {number}")
        return number % len(self)

    def _repr_html_(self) -> str:
        texts = self._expressions()
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


def _unknown_events(done: str) -> DataError:
    return DataError(
        f"these detections do not know their events any more, and cannot be {done}",
        hint="those of `patterns.recognise(events)` do; for files there are `wayeb map` and `wayeb why`",
    )


def html_table(caption: str, head: list[str], rows: list[list[Any]]) -> str:
    """A table for a notebook; all its content is escaped as text."""
    titles = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape('' if cell is None else str(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    above = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<table>{above}<thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"
