"""An index finds entries (key, time, slot) by their key and a range of time.

One structure serves all joins: on equal values (the range is open), on time (there is one key), on both, and on space
(the key is a cell of a grid). It is a few sorted runs that are merged as they grow: a batch of a million is one sort, a
single entry a few microseconds, and what a probe finds lies side by side.

*Not taken*: a hash table with chains. With a million rows of one partner each, it inserts a row in 44 ns and answers a
probe in 317 ns, against 70 and 213 here; a single change costs 4 microseconds less. But to join on time at all it would
need cells of time as well, and a chain costs a cache miss for every entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from wayeb_py.rules.kernels import joins, orders, runs
from wayeb_py.rules.kernels.joins import SORTED_FROM
from wayeb_py.rules.table import I64, next_size

MOST_RUNS = 64
CHUNK = 1 << 18  # entries that one call of the kernel returns
NONE: I64 = np.empty(0, dtype=np.int64)


@dataclass(slots=True, eq=False)
class Seen:
    """The slots that a look-up sees: those below `limit` that died after `when`; `are_all` if these are all."""

    died: I64
    limit: int
    when: int
    are_all: bool


@dataclass(slots=True, eq=False)
class Spans:
    """What probes have found: `n` entries. They lie side by side, run by run."""

    n: int
    slot: I64
    n_runs: int
    seen: Seen
    order: I64
    spans: I64
    is_product: bool  # every probe has found every slot

    def join(self, probing: I64, stored: I64, *, stored_right: bool) -> I64:
        """The probing tuples with the stored ones that they have found."""
        n_probing, n_stored, seen = len(probing), len(stored), self.seen
        out: I64 = np.empty((n_probing + n_stored, self.n), dtype=np.int64)
        if self.is_product and not stored_right:
            joins.multiply.entry_point(self.slot[self.spans[0] : self.spans[1]], stored, probing, out)
            return out
        joins.join.entry_point(
            self.slot, self.n_runs, seen.died, seen.limit, seen.when, seen.are_all, self.order, self.spans,
            probing, 0 if stored_right else n_stored, stored, n_probing if stored_right else 0, out,
        )  # fmt: skip
        return out


class SortedRuns:
    """Entries in the order of (key, time); slots are numbers that the owner gives."""

    def __init__(self) -> None:
        self._key, self._time, self._slot = np.empty((3, 64), np.int64)
        self._bounds: I64 = np.zeros(MOST_RUNS, dtype=np.int64)
        self._n_runs = 0
        self._n_most = 0  # entries, at most: those of rows without a key, and of slots that are gone, count as well

    def __len__(self) -> int:
        return int(self._bounds[self._n_runs]) if self._n_runs else 0

    def insert(self, key: I64, time: I64, slot: I64) -> None:
        """Takes in entries, in any order."""
        if len(key):
            self._make_room(len(key))
            self._n_runs = runs.insert(self._key, self._time, self._slot, self._bounds, self._n_runs, key, time, slot)

    def insert_rows(self, keys: I64, key_rows: I64, times: I64, time_rows: I64, first_slot: int) -> None:
        """Takes in an entry for every row that has a key, keys[key_rows[nth]], with the time times[time_rows[nth]], or
        0 where there are no times, and the slot `first_slot + nth`."""
        self._make_room(len(key_rows))
        self._n_runs = runs.insert_rows.entry_point(
            self._key, self._time, self._slot, self._bounds, self._n_runs, keys, key_rows, times, time_rows, first_slot
        )

    def _make_room(self, n_more: int) -> None:
        self._n_most += n_more
        if self._n_most <= len(self._key):
            return
        n_before = len(self)
        self._n_most = n_before + n_more
        if self._n_most > len(self._key):
            grown = np.empty((3, next_size(self._n_most, len(self._key))), dtype=np.int64)
            if n_before:
                for own, before in zip(grown, (self._key, self._time, self._slot), strict=True):
                    own[:n_before] = before[:n_before]
            self._key, self._time, self._slot = grown

    def probe(
        self, key: I64, low: I64, high: I64, died: I64, limit: int, when: int, chunk: int = CHUNK
    ) -> Iterator[tuple[I64, I64]]:
        """The number of a probe and a slot, for all slots below `limit` that died after `when`; some at a time.

        `low` and `high` are the times of each probe; empty, they are open.
        """
        if not len(key) or not self._n_runs or not limit:
            return
        order = NONE
        if len(key) >= SORTED_FROM:
            order = np.empty(len(key), dtype=np.int64)
            order = order if orders.put_in_order(key, order) else NONE
        room = min(chunk, max(64, 4 * len(key)))
        nth, run, at = 0, 0, -1
        while nth < len(key):
            probes, slots = np.empty(room, np.int64), np.empty(room, np.int64)
            n_found, nth, run, at = runs.probe(
                self._key, self._time, self._slot, self._bounds, self._n_runs, order, key, low, high, died,
                limit, when, nth, run, at, probes, slots,
            )  # fmt: skip
            if n_found:
                yield probes[:n_found], slots[:n_found]
            room = chunk

    def look_up(self, keys: I64, rows: I64, seen: Seen) -> Spans | None:
        """What the probes keys[rows[n]], or 0 without keys, find at all times; None where that is nothing."""
        n, n_runs = len(rows), self._n_runs
        if not n or not n_runs or not seen.limit:
            return None
        places: I64 = np.empty(n + 2 * n * n_runs, dtype=np.int64)
        order, spans = places[:n], places[n:]
        n_found = joins.look_up.entry_point(
            self._key, self._time, self._slot, self._bounds, n_runs, keys, rows, seen.died, seen.limit, seen.when,
            seen.are_all, order, spans,
        )  # fmt: skip
        is_product = not len(keys) and n_runs == 1 and seen.are_all
        return Spans(n_found, self._slot, n_runs, seen, order, spans, is_product) if n_found else None

    def count(self, key: I64, low: I64, high: I64) -> int:
        """How many entries the probes would find, without a look at them; those of dead slots count as well."""
        return int(runs.count(self._key, self._time, self._bounds, self._n_runs, key, low, high))

    def renumber(self, slot_now: I64) -> None:
        """Gives entries the numbers that their slots have from here on; drops those of slots that are gone (-1)."""
        if self._n_runs:
            self._n_runs = runs.renumber(self._key, self._time, self._slot, self._bounds, self._n_runs, slot_now)
            self._n_most = len(self)


def wider(values: I64, n: int, room: int) -> I64:
    """An array with `room` entries that begins with the first n of these values."""
    wider: I64 = np.empty(room, dtype=np.int64)
    wider[:n] = values[:n]
    return wider
