"""Gives an explanation random access to a word: any letter at any event, and times as their file writes them.

The recogniser does not need this: it takes events as they come and forgets them. Both evaluate values by the same code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from wayeb_py.columns import TICKS_PER_S, column_of, ticks_of
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.values import Chunk, Values


@dataclass(frozen=True, slots=True)
class Words(ABC):
    """Events in one chunk; those of one word lie together, in order."""

    chunk: Chunk
    values: Values
    is_timestamp: bool
    time_unit: str | None

    @abstractmethod
    def who(self, row: int) -> tuple[str, str | None]:
        """The owner of an event's word: an entity, and the other one of a pair."""

    @abstractmethod
    def next_sent(self, row: int, of: m.Role | None) -> int | None:
        """When the entity sends next after an event, in ticks; in a pair, when a or b does, or either."""

    @abstractmethod
    def reach(self, of: m.Role | None) -> int:
        """The greatest time, over all entities, in the data of those whose silence counts, in ticks."""

    def sender(self, row: int) -> str | None:
        """The one of a pair that sent the event; None where a word is of one entity."""
        return None

    def word_begin(self, row: int) -> int:
        """The row at which the word of an event begins."""
        return row - int(self.chunk.seq[row])

    def time_text(self, row: int) -> str:
        """The event's time as its file writes it."""
        return self.instant_text(int(self.chunk.ts[row]))

    def instant_text(self, ticks: int) -> str:
        """A time as the file would write it."""
        if self.is_timestamp:
            text = np.datetime_as_string(np.datetime64(ticks * (10**9 // self.chunk.ticks_per_s), "ns"), timezone="UTC")
            whole, _, fraction = str(text).rstrip("Z").partition(".")
            fraction = fraction.rstrip("0")
            return f"{whole}.{fraction}Z" if fraction else f"{whole}Z"
        per_unit = self.chunk.ticks_per_s // TICKS_PER_S[self.time_unit or "s"]
        return f"{ticks / per_unit:.10g}"

    def instant_of(self, time: pa.ChunkedArray) -> int:
        """A time, in a column of one, as it stands in the chunk."""
        ticks = ticks_of(column_of(one_array(time), "time"), self.time_unit, "time")
        return int(ticks.values[0]) * self.chunk.ticks_per_s // ticks.per_unit


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
