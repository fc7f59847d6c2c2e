"""How a join finds the partners of a tuple: the conditions between two sides become keys, ranges of time and checks.

`On` holds the conditions between a left and a right side. For each direction they become a `Lookup`: `Entries` say how
the stored side is indexed, and the rest what a tuple of the other side probes with. A probe finds candidates; the
look-up then checks, on their columns, the conditions that the index does not decide.

Equal values make the key: one column is its own key, several are mixed into 32 bits and compared again. Among the
equalities with a choice of columns (`p.entity in {r.entity, r.other}`) the key uses one: a tuple has an entry, or a
probe, for each of its values. Where no condition is an equality, a distance makes the key: an entry lies in one cell of
a grid, and a probe looks up that cell and those around it. Where there is neither, all entries have the same key. As
its time the index takes the column of the stored side with the narrowest bounds that never changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from wayeb_py.kernels.ticks import FOREVER, NEVER
from wayeb_py.rules.conditions import AnyCondition, Column, Equal, Groups, Link, Near, Within, fulfilling, shifted
from wayeb_py.rules.grid import grid_of
from wayeb_py.rules.kernels import runs
from wayeb_py.rules.sorted_runs import NONE, Seen, SortedRuns, Spans
from wayeb_py.rules.table import I64, MISSING, Table
from wayeb_py.rules.tuples import Candidates, Tables, Tuples, mixed_key


@dataclass(frozen=True, slots=True)
class On:
    """The conditions of a join: `links` from columns of the left to columns of the right side, each with members
    numbered within its side; `where` on the joined tuple."""

    links: tuple[Link, ...] = ()
    where: tuple[AnyCondition, ...] = ()


@dataclass(frozen=True, slots=True)
class Keys:
    """What one side of a join is looked up by: all `columns` together, one of `any_of`, or a position."""

    columns: tuple[Column, ...] = ()
    any_of: tuple[Column, ...] = ()
    position: tuple[Column, Column] | None = None
    reach_m: float = 0.0
    only: Column | None = field(init=False, compare=False, repr=False)  # the column that is the key, if it is one

    def __post_init__(self) -> None:
        columns = self.columns + self.any_of
        object.__setattr__(self, "only", columns[0] if len(columns) == 1 and self.position is None else None)

    def of(self, tuples: Tuples, *, around: bool = False) -> tuple[I64 | None, I64]:
        """The tuples that have a key, each once for every key, and the keys; no tuples (None) if each has one key.

        With `around`, the keys are the cells within reach of a position; otherwise the one that it lies in.
        """
        if self.position is not None:
            grid = grid_of(self.reach_m)
            lon, lat = (np.ascontiguousarray(tuples.values(c), dtype=np.float64) for c in self.position)
            return grid.cells_around(lon, lat) if around else grid.cells(lon, lat)
        if len(self.any_of) > 1:
            return self._alternatives(tuples)
        if self.only is not None:
            key = np.empty(len(tuples), dtype=np.int64)
            if not runs.keys_of(*tuples.source(self.only), key):
                return None, key
        key, has_key = self._key(tuples, self.columns + self.any_of)
        return (None, key) if has_key is None else (has_key, key[has_key])

    def _key(self, tuples: Tuples, columns: tuple[Column, ...]) -> tuple[I64, I64 | None]:
        """The key of every tuple, and those that have one, None if all do."""
        if len(columns) == 1:
            key = tuples.values(columns[0])
            missing = key == MISSING
            return key, np.flatnonzero(~missing) if missing.any() else None
        key, n_missing = mixed_key(tuples, columns)
        if not n_missing:
            return key, None
        missing = np.zeros(len(tuples), dtype=bool)
        for column in columns:
            missing |= tuples.values(column) == MISSING
        return key, np.flatnonzero(~missing)

    def _alternatives(self, tuples: Tuples) -> tuple[I64, I64]:
        found: list[I64] = []
        keys: list[I64] = []
        for column in self.any_of:
            key, has_key = self._key(tuples, (*self.columns, column))
            counts = np.zeros(len(tuples), dtype=bool)
            counts[slice(None) if has_key is None else has_key] = True
            for earlier, at in zip(keys, found, strict=True):  # a tuple is found once, though two of its values agree
                counts[at] &= key[at] != earlier[at]
            found.append(np.flatnonzero(counts))
            keys.append(key)
        return np.concatenate(found), np.concatenate([key[at] for key, at in zip(keys, found, strict=True)])


@dataclass(frozen=True, slots=True)
class Entries:
    """What an index of tuples is ordered by: keys, and a column of times or none."""

    keys: Keys = Keys()
    time: Column | None = None

    def of(self, tuples: Tuples) -> tuple[I64 | None, I64, I64]:
        """The tuples that have an entry, None if each has one; the keys and times of the entries."""
        at, key = self.keys.of(tuples)
        if self.time is None:
            return at, key, np.zeros(len(key), dtype=np.int64)
        times = tuples.values(self.time)
        return at, key, times if at is None else times[at]

    def enter(self, tuples: Tuples, first: int, index: SortedRuns) -> None:
        """Makes entries of tuples, whose slots are those from `first` on."""
        only, time = self.keys.only, self.time
        if only is not None:
            keys, rows = tuples.source(only)
            times, time_rows = (NONE, NONE) if time is None else tuples.source(time)
            index.insert_rows(keys, rows, times, time_rows, first)
            return
        at, key, times = self.of(tuples)
        index.insert(key, times, first + (np.arange(len(tuples), dtype=np.int64) if at is None else at))


class Lookup:
    """One direction of a join: how the stored side is indexed, and how tuples of the other side probe it.

    `stored_right` says which side is stored.
    """

    def __init__(self, on: On, left: Tables, right: Tables, *, stored_right: bool) -> None:
        stored, n_left = right if stored_right else left, len(left)
        links = tuple(link if stored_right else link.flipped() for link in on.links)  # from prober to stored
        equal = [link for link in links if isinstance(link, Equal)]
        several = [link for link in equal if len(link.first) + len(link.second) > 2]
        # Equalities with a choice of columns come last on both sides; only the first of them takes part.
        taking_part = [link for link in equal if link not in several] + several[:1]
        near = next((link for link in links if isinstance(link, Near)), None)
        if taking_part:
            probe_keys, keys = (_keys(sides) for sides in zip(*((e.first, e.second) for e in taking_part), strict=True))
        elif near is not None:
            probe_keys, keys = (Keys(position=p, reach_m=near.reach_m) for p in (near.first, near.second))
        else:
            probe_keys, keys = Keys(), Keys()
        bounds = [link for link in links if isinstance(link, Within)]
        steady = [bound for bound in bounds if bound.second.name not in stored[bound.second.member].changing]
        time = min(steady, key=_width).second if steady else None
        self.entries = Entries(keys, time)
        self._probe_keys = probe_keys
        self._times = [bound for bound in bounds if bound.second == time]
        self._stored, self._stored_right = stored, stored_right
        self._bounds = [_on_joined(bound, n_left, flipped=not stored_right) for bound in bounds if bound.second != time]
        checks: list[Link] = [*several[1:], *(taking_part if len(taking_part) > 1 else ())]
        checks += [link for link in links if isinstance(link, Near)]
        self._checks: tuple[AnyCondition, ...] = (
            *(_on_joined(check, n_left, flipped=not stored_right) for check in checks),
            *on.where,
        )
        self._group: Groups | None = None  # of the checks, made at first use
        self.is_exact = not self._checks and not self._bounds  # whether every candidate matches
        # For a join at once: the columns of the key, if there are any, and all bounds by their columns.
        self._has_one_key = keys.position is None and max(len(keys.any_of), len(probe_keys.any_of)) < 2
        self._key = probe_keys.columns + probe_keys.any_of
        spans = (self._between(bound, left, right) for bound in on.links if isinstance(bound, Within))
        self._spans = list(dict.fromkeys(spans))

    @property
    def n_alternatives(self) -> int:
        """How many probes a tuple makes at most: more than one where an equality leaves it a choice of values."""
        return max(1, len(self._probe_keys.any_of))

    @property
    def range_of_time(self) -> int | None:
        """How far the times of two entries that a probe finds can be apart; None where nothing bounds it."""
        least = max((bound.least for bound in self._times if bound.least != NEVER), default=None)
        most = min((bound.most for bound in self._times if bound.most != FOREVER), default=None)
        if len({bound.first for bound in self._times}) > 1:  # columns of different times
            return min((bound.most - bound.least for bound in self._times if _width(bound) < FOREVER), default=None)
        return None if least is None or most is None else max(-1, most - least)

    def probes(self, tuples: Tuples) -> tuple[I64 | None, I64, I64, I64]:
        """The tuples that probe, None if each probes once; and the key, the earliest and the latest time of each probe.

        The times are empty where nothing bounds them.
        """
        at, key = self._probe_keys.of(tuples, around=True)
        times_asked = [bound for bound in self._times if not self._holds_anyway(bound, tuples.tables)]
        if not times_asked:
            return at, key, NONE, NONE
        low: I64 = np.full(len(key), NEVER)
        high: I64 = np.full(len(key), FOREVER)
        for bound in times_asked:
            times = tuples.values(bound.first)
            times = times if at is None else times[at]
            if bound.least != NEVER:
                np.maximum(low, shifted(times, bound.least), out=low)
            if bound.most != FOREVER:
                np.minimum(high, shifted(times, bound.most), out=high)
        return at, key, low, high

    def _holds_anyway(self, bound: Within, probing: Tables) -> bool:
        """Whether all rows of two tables are so close in time that a bound need not be checked."""
        first, second = probing[bound.first.member], self._stored[bound.second.member]
        return bound.always_holds(first.range_of(bound.first.name), second.range_of(bound.second.name))

    @staticmethod
    def _between(bound: Within, left: Tables, right: Tables) -> tuple[Table, str, Table, str, int, int]:
        first, second = bound.first, bound.second
        return left[first.member], first.name, right[second.member], second.name, bound.least, bound.most

    def is_at_once(self) -> bool:
        """Whether all tuples with equal keys, or all where there is no key, are candidates, as the tables are now."""
        if not self._has_one_key:
            return False
        for one, its, other, others, least, most in self._spans:
            first, second = one.range_of(its), other.range_of(others)
            if first is None or second is None:
                continue
            if second[0] - first[1] < least or second[1] - first[0] > most:
                return False
        return True

    def look_up(self, rows: I64, probing: Tables, index: SortedRuns, seen: Seen) -> Spans | None:
        """What tuples find in an index, where `is_at_once`; None where that is nothing."""
        if not self._key:
            return index.look_up(NONE, rows[0], seen)
        if len(self._key) == 1:
            (key,) = self._key
            return index.look_up(probing[key.member].column(key.name), rows[key.member], seen)
        at, mixed = self._probe_keys.of(Tuples(rows, probing))
        if at is None:
            return index.look_up(mixed, np.arange(len(mixed), dtype=np.int64), seen)
        every: I64 = np.full(rows.shape[1], MISSING, dtype=np.int64)
        every[at] = mixed
        return index.look_up(every, np.arange(len(every), dtype=np.int64), seen)

    def join(self, found: Spans, rows: I64, stored: I64) -> I64:
        """The pairs that tuples have found, joined."""
        return found.join(rows, stored, stored_right=self._stored_right)

    @property
    def has_checks(self) -> bool:
        """Whether a candidate that `look_up` has found may not match."""
        return bool(self._checks)

    def passing(self, joined: Tuples) -> I64:
        """The joined tuples that pass the checks."""
        rows = self.prepare().rows(joined.values, len(joined))[0]
        if len(rows) == len(joined):
            return joined.rows
        found: I64 = np.empty((len(joined.rows), len(rows)), dtype=np.int64)
        runs.take_tuples(found, 0, joined.rows, rows)
        return found

    def candidates(self, probing: Tuples, at: I64, stored: Tuples, slots: I64) -> Candidates:
        """Pairs of probing tuples and stored ones, as left and right."""
        if self._stored_right:
            return Candidates(probing.rows, at, stored.rows, slots, probing.tables + stored.tables)
        return Candidates(stored.rows, slots, probing.rows, at, stored.tables + probing.tables)

    def matching(self, found: Candidates) -> Candidates:
        """The candidates that match."""
        n = len(found.left_at)
        asked = [bound for bound in self._bounds if not _always_holds(bound, found)]
        rows = self.prepare().rows(found.values, n)[0] if self._checks else np.arange(n, dtype=np.int64)
        rows = fulfilling(asked, found.values, rows, n)
        if len(rows) == n:
            return found
        return Candidates(found.left, found.left_at[rows], found.right, found.right_at[rows], found.tables)

    def prepare(self) -> Groups:
        """The checks, ready to run."""
        if self._group is None:
            self._group = Groups([self._checks])
        return self._group

    def partners(self, found: Candidates) -> tuple[I64, I64]:
        """The probing tuples and the slots of candidates."""
        return (found.left_at, found.right_at) if self._stored_right else (found.right_at, found.left_at)


def _keys(sides: tuple[tuple[Column, ...], ...]) -> Keys:
    """One side of equalities, the last of which may have a choice of columns."""
    *single, last = sides
    return Keys(tuple(side[0] for side in single), last)


def _width(bound: Within) -> int:
    open_ended = bound.least == NEVER or bound.most == FOREVER
    return int(FOREVER) if open_ended else bound.most - bound.least


def _always_holds(bound: Link, found: Candidates) -> bool:
    """Whether all rows of two tables are so close in time that no candidate has to be looked at."""
    if not isinstance(bound, Within):
        return False
    first, second = (found.tables[column.member].range_of(column.name) for column in bound.columns)
    return bound.always_holds(first, second)


def _on_joined(link: Link, n_left: int, *, flipped: bool) -> Link:
    """A link between two sides as a condition on the joined tuple."""
    if flipped:
        link = link.flipped()

    def moved(columns: tuple[Column, ...]) -> tuple[Column, ...]:
        return tuple(column.moved(lambda member: n_left + member) for column in columns)

    if isinstance(link, Equal):
        return Equal(link.first, moved(link.second))
    if isinstance(link, Near):
        lon, lat = moved(link.second)
        return Near(link.first, (lon, lat), link.reach_m, link.less)
    return Within(link.first, moved((link.second,))[0], link.least, link.most)
