"""Detections as a table: one row each, with what the pattern emits."""

from __future__ import annotations

import html
from typing import Any

import pyarrow as pa

SHOWN_ROWS = 20


class Detections:
    """An Arrow table of detections, and of the episodes that are closed by now."""

    def __init__(self, table: pa.Table, episodes: pa.Table) -> None:
        self._table = table
        self._episodes = episodes

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def to_arrow(self) -> pa.Table:
        """pattern, place, entity, ts, seq, start_ts, start_seq and the emitted columns, in the order of the events."""
        return self._table

    def episodes(self) -> pa.Table:
        """pattern, place, entity, start_ts, start_seq, end_ts, end_seq, n_detections."""
        return self._episodes

    def to_pandas(self) -> Any:
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

    def _repr_html_(self) -> str:
        names = self._table.column_names
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape('' if row[n] is None else str(row[n]))}</td>" for n in names) + "</tr>"
            for row in self._table.slice(0, SHOWN_ROWS).to_pylist()
        )
        more = len(self) - SHOWN_ROWS
        rest = f"<p>… and {more:,} more</p>" if more > 0 else ""
        caption = f"<caption>{len(self):,} detections</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"
