"""Finds the position of a pair's episode: that of the first of the two at its last detection.

A pair has at most one open episode of a pattern and place, and an episode comes no later than the first detection of
the next one. So this class remembers each pair's last detection, and all detections of the current batch until the
batch's episodes arrive.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_Pair = tuple[Any, ...]  # entity, other, place
_At = tuple[Any, ...]  # ts and seq of a detection, and the values of the columns


class PairPlaces:
    """Where the open episodes of a pattern are; `columns` maps the names of a position to those that detections
    use for them."""

    def __init__(self, pattern: str, columns: Mapping[str, str]) -> None:
        self.pattern, self.columns = pattern, dict(sorted(columns.items()))
        self._seen: dict[_Pair, list[_At]] = {}  # in the order of the detections

    def take(self, detections: pa.Table) -> None:
        """Takes in the detections of a batch, before its episodes; those of earlier batches that are not the last of
        their pair belong to episodes that have been reported."""
        if not self.columns:
            return
        self._seen = {pair: seen[-1:] for pair, seen in self._seen.items()}
        own = detections.filter(pc.equal(detections.column("pattern").cast(pa.string()), self.pattern))
        for row in own.select(["entity", "other", "place", "ts", "seq", *self.columns.values()]).to_pylist():
            pair = row["entity"], row["other"], row["place"]
            at = (_plain(row["ts"]), row["seq"], *(row[name] for name in self.columns.values()))
            self._seen.setdefault(pair, []).append(at)

    def of(self, episodes: pa.Table) -> dict[str, list[Any]]:
        """Returns the position columns, one value for each episode, in the order of `episodes`. Drops the detections
        that these episodes ended with."""
        found: dict[str, list[Any]] = {name: [] for name in self.columns}
        if not self.columns:
            return found
        n_over: dict[_Pair, int] = {}
        for row in episodes.select(["entity", "other", "place", "end_ts", "end_seq"]).to_pylist():
            pair = row["entity"], row["other"], row["place"]
            end = _plain(row["end_ts"]), row["end_seq"]
            seen = self._seen.get(pair, [])
            nth = next((nth for nth, at in enumerate(seen) if at[:2] == end), None)
            values = [None] * len(self.columns) if nth is None else seen[nth][2:]
            for own, value in zip(found.values(), values, strict=True):
                own.append(value)
            n_over[pair] = max(n_over.get(pair, 0), 0 if nth is None else nth + 1)
        for pair, n in n_over.items():
            self._seen[pair] = self._seen.get(pair, [])[n:]
        self._seen = {pair: seen for pair, seen in self._seen.items() if seen}
        return found

    def save(self) -> list[Any]:
        """The detections that are remembered."""
        return [[list(pair), list(seen[-1])] for pair, seen in self._seen.items()]

    def restore(self, saved: list[Any]) -> None:
        """Continues from what was saved."""
        self._seen = {tuple(pair): [tuple(at)] for pair, at in saved}


def _plain(time: Any) -> Any:
    """A time as a state can hold it."""
    return time if isinstance(time, int | float) or time is None else time.isoformat()
