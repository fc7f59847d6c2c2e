"""The tuples of a node that others look up, with the indexes that they need.

Every tuple gets the next free slot. When a tuple goes, the memory marks its slot with the step, and reuses slots only
when it is compacted, between steps. So a join can see a memory at three moments of a step: `BEFORE` it, with only the
tuples that `STAYED` (neither those that went nor those that came), and `AFTER` it. With these it derives every change
once: what went is left⁻ ⋈ right BEFORE and left STAYED ⋈ right⁻, what came left⁺ ⋈ right STAYED and left AFTER ⋈
right⁺.

*Not taken*: a memory for each join, since two joins of one input would then hold its tuples twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import numpy as np

from wayeb_py.kernels.ticks import FOREVER
from wayeb_py.rules.conditions import Column
from wayeb_py.rules.lifetime import Clocks, Lifetime, Needed, is_dead, longer, needed, none_is_dead
from wayeb_py.rules.lookup import Entries, Lookup
from wayeb_py.rules.sorted_runs import NONE, Seen, SortedRuns, Spans, wider
from wayeb_py.rules.table import I64, ID, Bools, next_size
from wayeb_py.rules.tuples import Candidates, Delta, Tables, Tuples, mixed_key

ALIVE = FOREVER


class Moment(Enum):
    """When in a step a memory is looked at."""

    BEFORE = "before"
    STAYED = "stayed"
    AFTER = "after"


class Memory:
    """Tuples of some tables' rows; dead ones stay until `compact`, and no look-up finds them.

    `note[slot]` is a whole number that the owner keeps with a tuple.
    """

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._ids = [Column(member, ID) for member in range(len(tables))]
        self._rows: I64 = np.empty((len(tables), 16), dtype=np.int64)
        self.died: I64 = np.empty(16, dtype=np.int64)  # died[slot] = the step in which its tuple went, or ALIVE
        self.note: I64 = NONE  # as long as `died` where the owner keeps some
        self.n_slots = 0
        self.n_alive = 0
        self.lifetime: Lifetime = ()
        self._needed: list[Needed] | None = None  # the lifetime, made at its first use
        self._indexes: dict[Entries, SortedRuns] = {}
        self._index_of: dict[Lookup, SortedRuns] = {}  # the same by those that look up, which are found at once
        self._identities: SortedRuns | None = None  # made at the first `find`
        self._step, self._n_before = -1, 0

    @property
    def tuples(self) -> Tuples:
        """The tuples of all slots, dead ones included."""
        return Tuples(self._rows[:, : self.n_slots], self.tables)

    def rows_of(self, slots: I64) -> I64:
        """The tuples of slots."""
        return np.ascontiguousarray(self._rows[:, slots])

    def alive(self) -> I64:
        """The slots of the tuples that are there."""
        return np.flatnonzero(self.died[: self.n_slots] == ALIVE)

    def use(self, entries: Entries, lifetime: Lifetime) -> None:
        """Prepares an index for look-ups by these entries, and keeps tuples at least as long as `lifetime` says."""
        self.lifetime = longer(self.lifetime, lifetime)
        self._needed = None
        if entries not in self._indexes:
            self._indexes[entries] = index = SortedRuns()
            entries.enter(Tuples(np.ascontiguousarray(self.tuples.rows), self.tables), 0, index)

    # Changes.

    def _begin(self, step: int) -> None:
        if self._step != step:
            self._step, self._n_before = step, self.n_slots

    def apply(self, delta: Delta, step: int) -> None:
        """Takes out what went and takes in what came."""
        if delta.removed.shape[1]:
            self.remove(delta.removed, step)
        if delta.added.shape[1]:
            self._add(delta.added, step, None)

    def add(self, rows: I64, step: int, note: I64 | None = None) -> I64:
        """Adds tuples, and returns their slots."""
        begin = self._add(rows, step, note)
        return np.arange(begin, self.n_slots, dtype=np.int64)

    def _add(self, rows: I64, step: int, note: I64 | None) -> int:
        """Adds tuples, and returns the first of their slots."""
        self._begin(step)
        rows = np.ascontiguousarray(rows)
        begin, end = self.n_slots, self.n_slots + rows.shape[1]
        if end > len(self.died):
            room = next_size(end, len(self.died))
            grown: I64 = np.empty((len(self.tables), room), dtype=np.int64)
            if begin:
                grown[:, :begin] = self._rows[:, :begin]
            self._rows, self.died = grown, wider(self.died, begin, room)
        self._rows[:, begin:end] = rows
        self.died[begin:end] = ALIVE
        if note is not None or len(self.note):
            self._keep_note(begin, end, note)
        self.n_slots = end
        self.n_alive += end - begin
        came = Tuples(rows, self.tables)
        for entries, index in self._indexes.items():
            entries.enter(came, begin, index)
        if self._identities is not None:
            slots: I64 = np.arange(begin, end, dtype=np.int64)
            self._identities.insert(self._identity(came), np.zeros(len(came), dtype=np.int64), slots)
        return begin

    def _keep_note(self, begin: int, end: int, note: I64 | None) -> None:
        if len(self.note) < len(self.died):
            notes: I64 = np.zeros(len(self.died), dtype=np.int64)
            notes[: min(begin, len(self.note))] = self.note[:begin]
            self.note = notes
        self.note[begin:end] = 0 if note is None else note

    def remove(self, rows: I64, step: int) -> I64:
        """Removes tuples, and returns their slots; skips those that are not there."""
        _, slots = self.find(rows)
        self.kill(slots, step)
        return slots

    def kill(self, slots: I64, step: int) -> None:
        """Marks the tuples of slots, each given once, as gone in this step."""
        self._begin(step)
        self.died[slots] = step
        self.n_alive -= len(slots)

    # Look-ups.

    def _seen(self, moment: Moment, step: int) -> tuple[int, int]:
        """(limit, when): at that moment the memory holds slots below `limit` that died after step `when`."""
        if self._step != step:
            return self.n_slots, step
        limit = self.n_slots if moment is Moment.AFTER else self._n_before
        return limit, step - 1 if moment is Moment.BEFORE else step

    def matches(self, lookup: Lookup, probing: Tuples, moment: Moment, step: int) -> Iterator[tuple[int, Candidates]]:
        """How many candidates there were and which of them match, some at a time; indexes by `lookup.entries`."""
        limit, when = self._seen(moment, step)
        if not limit or not len(probing):
            return
        at, key, low, high = lookup.probes(probing)
        index, stored = self._index_of.get(lookup), Tuples(self._rows, self.tables)
        if index is None:
            index = self._index_of[lookup] = self._indexes[lookup.entries]
        for probes, slots in index.probe(key, low, high, self.died, limit, when):
            found = lookup.candidates(probing, probes if at is None else at[probes], stored, slots)
            yield len(slots), found if lookup.is_exact else lookup.matching(found)

    def look_up(self, lookup: Lookup, rows: I64, probing: Tables, moment: Moment, step: int) -> Spans | None:
        """What tuples find here, where the look-up `is_at_once`; None where that is nothing."""
        limit, when = self._seen(moment, step)
        index = self._index_of.get(lookup)
        if index is None:
            index = self._index_of[lookup] = self._indexes[lookup.entries]
        are_all = limit == self.n_slots == self.n_alive
        return lookup.look_up(rows, probing, index, Seen(self.died, limit, when, are_all))

    def join(self, lookup: Lookup, found: Spans, rows: I64) -> I64:
        """What tuples have found here, joined with them."""
        return lookup.join(found, rows, self._rows)

    def count(self, lookup: Lookup, probing: Tuples) -> int:
        """How many candidates a look-up has, without a look at them; those of dead tuples count as well."""
        _, key, low, high = lookup.probes(probing)
        return self._indexes[lookup.entries].count(key, low, high)

    def find(self, rows: I64) -> tuple[I64, I64]:
        """Which of these tuples are there, and their slots."""
        if self._identities is None:
            self._identities = SortedRuns()
            alive = self.alive()
            there = Tuples(self.rows_of(alive), self.tables)
            self._identities.insert(self._identity(there), np.zeros(len(there), dtype=np.int64), alive)
        wanted = Tuples(np.ascontiguousarray(rows), self.tables)
        found, slots = [NONE], [NONE]
        key = self._identity(wanted)
        for probes, there_slots in self._identities.probe(key, NONE, NONE, self.died, self.n_slots, int(ALIVE) - 1):
            same = (self._rows[:, there_slots] == rows[:, probes]).all(axis=0)
            found.append(probes[same])
            slots.append(there_slots[same])
        return np.concatenate(found), np.concatenate(slots)

    def _identity(self, tuples: Tuples) -> I64:
        """A key made of the rows' arrival numbers, which stay the same when rows move."""
        if len(self.tables) == 1:
            return tuples.values(Column(0, ID))
        return mixed_key(tuples, self._ids)[0]

    # What goes by itself.

    def dead_of(self, rows: I64, clocks: Clocks) -> Bools | None:
        """Which of these tuples nothing to come can join; None where there are no such tuples."""
        if self.lifetime is None or not rows.shape[1]:
            return None
        if self._none_is_dead(clocks):
            return None
        dead = is_dead(self.lifetime, Tuples(rows, self.tables), clocks)
        return dead if dead.any() else None

    def _none_is_dead(self, clocks: Clocks) -> bool:
        if self._needed is None:
            self._needed = needed(self.lifetime, self.tables)
        return none_is_dead(self._needed, clocks)

    def end(self, slots: I64) -> None:
        """Marks tuples that came in the last step as gone in that same step."""
        self.kill(slots, self._step)

    def expire(self, clocks: Clocks, step: int) -> int:
        """Marks the tuples that nothing to come can join, and says how many these are."""
        if self.lifetime is None or not self.n_alive:
            return 0
        if self._none_is_dead(clocks):
            return 0
        alive = self.alive()
        dead = is_dead(self.lifetime, Tuples(self.rows_of(alive), self.tables), clocks)
        self.kill(alive[dead], step)
        return int(dead.sum())

    def compact(self) -> None:
        """Frees the slots of dead tuples; the others move up and keep their order."""
        if self.n_alive < self.n_slots:
            alive = self.alive()
            slot_now: I64 = np.full(self.n_slots, -1, dtype=np.int64)
            slot_now[alive] = np.arange(len(alive))
            for index in self._every_index():
                index.renumber(slot_now)
            self._rows, self.died = self.rows_of(alive), self.died[alive]
            self.note = self.note[alive] if len(self.note) else self.note
            self.n_slots = len(alive)
        self._step = -1

    def renumber(self, position: dict[str, I64]) -> None:
        """Replaces the positions of rows by their new ones, by table."""
        for member, table in enumerate(self.tables):
            if table.name in position:
                self._rows[member, : self.n_slots] = position[table.name][self._rows[member, : self.n_slots]]

    def save(self) -> I64:
        """The tuples, after `compact`, and their notes below them."""
        note = self.note[: self.n_slots] if len(self.note) else np.zeros(self.n_slots, dtype=np.int64)
        return np.concatenate([self._rows[:, : self.n_slots], note[None]])

    def restore(self, saved: I64) -> None:
        """Restores what was saved into an empty memory."""
        self.add(saved[:-1], -1, saved[-1])
        self._step = -1

    def _every_index(self) -> list[SortedRuns]:
        return [*self._indexes.values(), *([] if self._identities is None else [self._identities])]
