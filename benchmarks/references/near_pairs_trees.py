"""Events of pairs by spatial indexes, slice of time by slice: scipy's cKDTree, shapely's STRtree, MEOS, on one core.

A slice is as long as the time between two reports of a vessel. Its tree holds every event that is its vessel's newest
at some time of the slice; the slice's events look up those within reach, and the order decides which of them were the
newest just then. cKDTree has points in space, and measures chords. STRtree has points on a map whose degrees are
stretched to equal lengths, searches a little wider, and chords decide.

MEOS has no notion of an event of a pair, but of when two moving points are within a distance of each other: so its
tracks run over the order instead of the time, each position holds until the next, and an event counts if it falls into
a span that MEOS has found. Its R-tree finds the tracks whose boxes meet. Freshness is left out: on the measured
slice every vessel reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.references.near_pairs import EARTH_RADIUS_M, I64, Answer, Heard, answer_of, joined

SLICE_S = 10


class Slices:
    """The events of each slice of time, and all that are some vessel's newest in it."""

    def __init__(self, heard: Heard) -> None:
        self.heard, self._until, self._until_ts = heard, heard.until(), heard.until_ts()
        self._last_ts = np.minimum(self._until_ts, heard.ts + heard.fresh_s)

    def __iter__(self) -> Iterator[tuple[I64, I64]]:
        ts = self.heard.ts
        newest: I64 = np.zeros(0, dtype=np.int64)
        for begin in range(int(ts[0]), int(ts[-1]) + 1, SLICE_S):
            asking = np.arange(np.searchsorted(ts, begin), np.searchsorted(ts, begin + SLICE_S))
            newest = np.concatenate([newest[self._last_ts[newest] >= begin], asking])
            yield asking, newest

    def then(self, asking: I64, newest: I64) -> tuple[I64, I64]:
        """The pairs of an event and another's newest within reach that held at that time."""
        ts, vessel = self.heard.ts, self.heard.vessel
        were = (newest < asking) & (asking < self._until[newest]) & (vessel[asking] != vessel[newest])
        were &= ts[asking] - ts[newest] <= self.heard.fresh_s
        return asking[were], newest[were]

    def answer(self, found: tuple[I64, I64]) -> Answer:
        """The answer for events and the newest events of the others."""
        return answer_of(found[0], self.heard.vessel[found[1]].astype(np.int64))


def in_ckdtree(heard: Heard) -> Answer:
    """By scipy's k-d tree."""
    from scipy.spatial import cKDTree

    points = heard.vectors_m()
    reach = heard.reach_chord * EARTH_RADIUS_M
    slices = Slices(heard)

    def answers() -> Iterator[Answer]:
        for asking, newest in slices:
            near = cKDTree(points[asking]).sparse_distance_matrix(cKDTree(points[newest]), reach, output_type="ndarray")
            yield slices.answer(slices.then(asking[near["i"]], newest[near["j"]]))

    return joined(answers())


def in_strtree(heard: Heard) -> Answer:
    """By shapely's R-tree."""
    slices = Slices(heard)
    return joined(slices.answer(found) for found in by_strtree(slices))


def by_strtree(slices: Slices) -> Iterator[tuple[I64, I64]]:
    """The events of pairs, slice by slice, and the newest event of the other."""
    import shapely

    heard = slices.heard
    vectors = heard.vectors_m()
    middle = np.radians(heard.lat.mean())
    on_map = shapely.points(heard.lon * np.cos(middle), heard.lat)
    # Wider by as much as a degree of longitude is longer at the southern edge than in the middle.
    wider = float((np.cos(middle) / np.cos(np.radians(np.abs(heard.lat)))).max())
    reach_deg = np.degrees(heard.reach_m / EARTH_RADIUS_M) * max(1.0, wider) * (1 + 1e-6)
    square = (heard.reach_chord * EARTH_RADIUS_M) ** 2
    for asking, newest in slices:
        i, j = shapely.STRtree(on_map[newest]).query(on_map[asking], predicate="dwithin", distance=reach_deg)
        between = vectors[asking[i]] - vectors[newest[j]]
        near = (between * between).sum(axis=1) <= square
        yield slices.then(asking[i[near]], newest[j[near]])


def in_meos(heard: Heard) -> Answer:
    """By MEOS, through the functions of its C library."""
    import pymeos_cffi as meos

    meos.meos_initialize("UTC")
    vectors = heard.vectors_m()
    by_vessel = np.argsort(heard.vessel, kind="stable")
    events = np.split(by_vessel, np.flatnonzero(np.diff(heard.vessel[by_vessel])) + 1)
    end = len(heard)
    tracks, boxes, tree = [], [], meos.rtree_create_stbox()
    for number, own in enumerate(events):
        at = np.append(own, own[-1])
        x, y, z = (np.ascontiguousarray(axis) for axis in vectors[at].T)
        times = np.append(own, end).astype(np.int64)
        track = meos.tpointseq_make_coords(
            *(array.ctypes.data for array in (x, y, z, times)), len(times), 0, False, True, True,
            meos.InterpolationType.STEP, False,
        )  # fmt: skip
        box = meos.stbox_expand_space(meos.tspatial_to_stbox(track), heard.reach_m / 2)
        meos.rtree_insert(tree, box, number)
        tracks.append(track)
        boxes.append(box)
    reach = heard.reach_chord * EARTH_RADIUS_M

    def answers() -> Iterator[Answer]:
        for number, track in enumerate(tracks):
            found, count = meos.rtree_search(tree, boxes[number])
            for other in found[0:count]:
                if other > number:
                    near = meos.tdwithin_tgeo_tgeo(track, tracks[other], reach, True, True)
                    if near is not None:
                        yield from _events_within(meos, near, events[number], events[other], number, other)

    return joined(answers())


def _events_within(meos: Any, near: Any, a: I64, b: I64, a_number: int, b_number: int) -> Iterator[Answer]:
    """The events of two tracks that fall into the time in which they are near each other."""
    spans = meos.temporal_time(near)
    for nth in range(1, meos.spanset_num_spans(spans) + 1):
        span = meos.spanset_span_n(spans, nth)
        first, last = meos.tstzspan_lower(span), meos.tstzspan_upper(span)
        for own, other in ((a, b_number), (b, a_number)):
            within = own[(own >= first) & (own < last)]
            yield answer_of(within, np.full(len(within), other, dtype=np.int64))

