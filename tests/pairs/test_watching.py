"""Lists of those whom an entity watches, over many events of a crowd that drifts, leaps and falls silent.

The expectation is everyone against everyone at every event, by the formula of the haversine.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

from wayeb_py.pairs.grid_kernels import EPOCH
from wayeb_py.pairs.meetings import NO_SIDES, Meetings
from wayeb_py.pairs.watch_kernels import LAST_MARK, SMALL

F64 = npt.NDArray[np.float64]
Met = set[tuple[int, int, int, bool]]  # row, a, b, whether a word begins
REACH_M, FRESH_S, RADIUS_M = 1_000.0, 120, 6_371_008.8
M_PER_DEGREE = np.radians(1.0) * RADIUS_M


class Crowd:
    """Events of entities in a square of some kilometres, each with its own way of moving; some are away for a while.

    Half of them keep their course until they come to the edge. The square lies across the antimeridian, or a pole.
    """

    def __init__(self, seed: int, n_entities: int, n_events: int, *, at_pole: bool = False) -> None:
        dice = np.random.default_rng(seed)
        self.n_entities = n_entities
        self.entity = dice.integers(0, n_entities, n_events).astype(np.int32)
        self.ts = np.sort(dice.integers(0, n_events // 4, n_events)).astype(np.int64)
        step_m = dice.choice([0.0, 5.0, 40.0, 110.0, 260.0, 900.0], n_entities)
        away = dice.integers(0, n_events // 4, n_entities)
        here = ~((self.ts >= away[self.entity]) & (self.ts < away[self.entity] + 2 * FRESH_S))
        self.entity, self.ts = self.entity[here], self.ts[here]
        place = dice.uniform(0, 6_000, (n_entities, 2))
        metres = np.empty((len(self.ts), 2))
        turns = dice.uniform(0, 2 * np.pi, n_entities)
        for row, e in enumerate(self.entity.tolist()):
            if e % 2 == 0 or place[e].min() <= 0 or place[e].max() >= 6_000:
                turns[e] = dice.uniform(0, 2 * np.pi)
            place[e] = np.clip(place[e] + step_m[e] * np.array([np.cos(turns[e]), np.sin(turns[e])]), 0, 6_000)
            metres[row] = place[e]
        if at_pole:
            north, east = (metres - 3_000).T
            self.lat = 90.0 - np.hypot(north, east) / M_PER_DEGREE
            self.lon = np.degrees(np.arctan2(east, north))
        else:
            self.lat = 60.0 + metres[:, 0] / M_PER_DEGREE
            self.lon = 179.97 + metres[:, 1] / M_PER_DEGREE / np.cos(np.radians(60.0))
            self.lon[self.lon > 180.0] -= 360.0
        self.rank = dice.permutation(n_entities).astype(np.int64)
        self.side = dice.integers(0, 2, n_entities).astype(np.uint8)

    def everyone(self, two_streams: bool) -> Met:
        """Who is near whom at every event, by all distances."""
        lon, lat = np.full(self.n_entities, np.nan), np.full(self.n_entities, np.nan)
        ts = np.full(self.n_entities, -(10**9))
        were_near: set[tuple[int, int]] = set()
        found: Met = set()
        for row, e in enumerate(self.entity.tolist()):
            lon[e], lat[e], ts[e] = self.lon[row], self.lat[row], self.ts[row]
            near = (_metres(lon[e], lat[e], lon, lat) <= REACH_M) & (self.ts[row] - ts <= FRESH_S)
            near[e] = False
            if two_streams:
                near &= self.side != self.side[e]
            order = self.side if two_streams else self.rank
            pairs = {(e, int(j)) if order[e] < order[j] else (int(j), e) for j in np.flatnonzero(near)}
            found |= {(row, *pair, pair not in were_near) for pair in pairs}
            were_near = {pair for pair in were_near if e not in pair} | pairs
        return found

    def watched(self, two_streams: bool, n_known: int, cuts: list[int], keep: bool, n_marks: int = 0) -> Met:
        """The same by lists; between two batches they are saved and restored unless they are kept. `n_marks` have
        been given before."""
        meetings = Meetings(REACH_M, FRESH_S, 1, two_streams=two_streams)
        counters = meetings._search.slots.counters
        counters[EPOCH] = n_marks
        found: Met = set()
        for begin, end in pairwise([0, *cuts, len(self.ts)]):
            meetings.grow(n_known)
            at = slice(begin, end)
            entity = self.entity[at]
            side = np.zeros(n_known, dtype=np.uint8) if two_streams else NO_SIDES
            side[: len(self.side)] = self.side if two_streams else side
            rank = np.arange(n_known, dtype=np.int64)
            rank[: self.n_entities] = self.rank
            for met in meetings.meet(entity, self.ts[at], self.lon[at], self.lat[at], rank, side=side):
                a, b = (np.where(row >= 0, entity[np.maximum(row, 0)], -1 - row) for row in (met.a_row, met.b_row))
                rows = (met.row + begin).tolist()
                found |= set(zip(rows, a.tolist(), b.tolist(), (met.begins > 0).tolist(), strict=True))
            meetings.settle(entity)
            meetings.sweep(int(self.ts[end - 1]), at_once=begin % 2 == 0)
            meetings.release()
            if not keep:
                saved = meetings.save()
                meetings = Meetings(REACH_M, FRESH_S, 1, two_streams=two_streams)
                meetings.grow(n_known)
                meetings.restore(saved)
        assert n_marks == 0 or counters[EPOCH] < n_marks  # they have begun again
        return found


def _metres(lon: float, lat: float, lons: F64, lats: F64) -> F64:
    a, b, c, d = (np.radians(x) for x in (lon, lat, lons, lats))
    half = np.sin((d - b) / 2) ** 2 + np.cos(b) * np.cos(d) * np.sin((c - a) / 2) ** 2
    return np.asarray(2 * RADIUS_M * np.arcsin(np.sqrt(half)))


@pytest.mark.parametrize("two_streams", [False, True])
@pytest.mark.parametrize(("seed", "n_entities"), [(1, 40), (2, 120)])
def test_a_crowd_is_watched_as_everyone_against_everyone(seed: int, n_entities: int, two_streams: bool) -> None:
    crowd = Crowd(seed, n_entities, 6_000)
    wanted = crowd.everyone(two_streams)
    assert sum(begins for *_, begins in wanted) > 500
    assert len(wanted) > 5_000
    cuts = np.sort(np.random.default_rng(seed).integers(1, len(crowd.ts), 9)).tolist()
    assert crowd.watched(two_streams, n_entities, [], keep=True) == wanted
    assert crowd.watched(two_streams, n_entities, cuts, keep=True) == wanted
    assert crowd.watched(two_streams, n_entities, cuts, keep=False) == wanted


def test_a_crowd_around_a_pole_is_watched_alike() -> None:
    crowd = Crowd(4, 60, 4_000, at_pole=True)
    wanted = crowd.everyone(False)
    assert len(wanted) > 5_000
    assert crowd.watched(False, 60, [900, 2_500], keep=True) == wanted


def test_so_many_that_lines_are_asked_for_ahead_are_watched_alike() -> None:
    crowd = Crowd(3, 200, 5_000)
    assert crowd.watched(False, SMALL + 1, [700, 3_000], keep=True) == crowd.everyone(False)


def test_marks_begin_again_when_all_have_been_given() -> None:
    crowd = Crowd(5, 40, 2_000)
    assert crowd.watched(False, 40, [700], keep=True, n_marks=LAST_MARK - 200) == crowd.everyone(False)
