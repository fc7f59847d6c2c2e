"""The compiled loop that finds who is near whom: events in order become events of pairs, by a hash grid on the sphere.

A band of latitude is cut into cells at least as wide as the search reaches, fewer of them toward the poles. A cell
is a list of the entities whose newest position lies in it; cells share buckets of a hash table, and each entity
remembers its cell, so that a bucket shared by chance costs a comparison and no wrong answer. Distances are chords of
the unit sphere, as for places: poles and the antimeridian are positions like any other.

An entity that is projected may be somewhere else than where it reported, by the way that it makes while it is fresh.
So there are levels of ever larger cells, and an entity lies in the first whose cells cover reach and way together; a
level without entities costs nothing. *Not taken*: one grid for the greatest speed seen, which a single wrong report
ruins; the cells of the whole way ahead, of which a wrong speed makes thousands.

body[entity] is one line of the cache: x, y, z, and as whole numbers time, cell, next, before, first edge. pairs[slot]
is a pair's word: a, b, the next edge of a and of b, the edge before of a and of b. Edge 2 * slot is in the list of a,
2 * slot + 1 in that of b.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import allocating_kernel as _kernel
from wayeb_py.kernels.compiled import f64, i32, i64, two_i64, u8
from wayeb_py.kernels.compiled import read_only as _read_only
from wayeb_py.kernels.ticks import span as _span
from wayeb_py.spatial.kernels.index import EARTH_RADIUS_M, chords, is_position, metres, vector

TIME, CELL, NEXT, BEFORE, EDGE = 3, 4, 5, 6, 7  # of body
FREE, ENDED, NEEDED, EPOCH = 0, 1, 2, 3  # of counters
MOST_BANDS = 1 << 20

floats = f64[:, ::1]
longs = i64[:, ::1]
ints = i32[:, ::1]


@nb.njit(nogil=True, inline="always")
def _cell(level, band, nth):  # type: ignore[no-untyped-def]
    return (np.int64(level) << np.int64(52)) | (np.int64(band) << np.int64(32)) | np.int64(nth)


@nb.njit(nogil=True, inline="always")
def _bucket(cell, mask):  # type: ignore[no-untyped-def]
    """Cells that are neighbours along a band lie beside each other, mostly in one line of the cache."""
    mixed = np.uint64(cell >> np.int64(32)) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(((mixed >> np.uint64(32)) + np.uint64(cell & np.int64(0xFFFFFFFF))) & np.uint64(mask))


@nb.njit(nogil=True, inline="always")
def _around(lon):  # type: ignore[no-untyped-def]
    """A longitude from 0 to below 360, of one from -360 to 360."""
    if lon < 0.0:
        lon += 360.0
    return lon - 360.0 if lon >= 360.0 else lon


@nb.njit(nogil=True, inline="always")
def _nth_cell(lon, n_cells):  # type: ignore[no-untyped-def]
    nth = np.int64(lon * n_cells / 360.0)
    return nth if nth < n_cells else n_cells - 1


@nb.njit(nogil=True, inline="always")
def _band(lat, height, n_bands):  # type: ignore[no-untyped-def]
    nth = np.int64((lat + 90.0) / height)
    return min(max(nth, np.int64(0)), n_bands - 1)


@nb.njit(nogil=True, inline="always")
def _unlink(e, lines, head, level_count):  # type: ignore[no-untyped-def]
    after, before = lines[e, NEXT], lines[e, BEFORE]
    if before >= 0:
        lines[before, NEXT] = after
    else:
        head[-1 - before] = after
    if after >= 0:
        lines[after, BEFORE] = before
    level_count[lines[e, CELL] >> np.int64(52)] -= 1
    lines[e, CELL] = -1


@nb.njit(nogil=True, inline="always")
def _link(e, cell, lines, head, level_count):  # type: ignore[no-untyped-def]
    bucket = _bucket(cell, head.shape[0] - 1)
    after = np.int64(head[bucket])
    lines[e, CELL], lines[e, NEXT], lines[e, BEFORE] = cell, after, -1 - bucket
    head[bucket] = e
    if after >= 0:
        lines[after, BEFORE] = e
    level_count[cell >> np.int64(52)] += 1


@nb.njit(nogil=True, inline="always")
def _drop_edge(edge, owner, lines, pairs):  # type: ignore[no-untyped-def]
    slot, side = edge >> 1, edge & 1
    after, before = pairs[slot, 2 + side], pairs[slot, 4 + side]
    if before >= 0:
        pairs[before >> 1, 2 + (before & 1)] = after
    else:
        lines[owner, EDGE] = after
    if after >= 0:
        pairs[after >> 1, 4 + (after & 1)] = before


@nb.njit(nogil=True, inline="always")
def _add_edge(edge, owner, lines, pairs):  # type: ignore[no-untyped-def]
    slot, side = edge >> 1, edge & 1
    first = lines[owner, EDGE]
    pairs[slot, 2 + side] = first
    pairs[slot, 4 + side] = -1
    if first >= 0:
        pairs[first >> 1, 4 + (first & 1)] = edge
    lines[owner, EDGE] = edge


@nb.njit(nogil=True, inline="always")
def _end(slot, lines, pairs, ended, counters):  # type: ignore[no-untyped-def]
    a, b = np.int64(pairs[slot, 0]), np.int64(pairs[slot, 1])
    _drop_edge(2 * slot, a, lines, pairs)
    _drop_edge(2 * slot + 1, b, lines, pairs)
    pairs[slot, 0] = -1
    ended[counters[ENDED]] = slot
    counters[ENDED] += 1


@nb.njit(nogil=True, inline="always")
def _metres(chord):  # type: ignore[no-untyped-def]
    """As `metres`; below 60 km by the first terms of the arc sine, which are all that 64 bits can hold."""
    if chord > 0.01:
        return metres(chord)
    square = 0.25 * chord * chord
    return EARTH_RADIUS_M * chord * (1.0 + square * (1.0 / 6.0 + square * (3.0 / 40.0 + square * (15.0 / 336.0))))


@nb.njit(nogil=True, inline="always")
def _direction(lon, lat, course):  # type: ignore[no-untyped-def]
    """The unit vector, tangent to the sphere, of a course in degrees."""
    a, b, turn = math.radians(lon), math.radians(lat), math.radians(course)
    north, east = math.cos(turn), math.sin(turn)
    up = -math.sin(b) * north
    return up * math.cos(a) - east * math.sin(a), up * math.sin(a) + east * math.cos(a), math.cos(b) * north


@_kernel(
    two_i64(
        i64, i32[::1], _read_only(i64), _read_only(f64), _read_only(f64), _read_only(f64), _read_only(f64),
        i64[::1], u8[::1], nb.boolean, nb.boolean,
        i64, f64, f64, f64[::1], i64[::1], i64[::1], i64[::1],
        i32[::1], floats, longs, floats, i64[::1], i64[::1], ints, i32[::1], i32[::1], i64[::1],
        i32[::1], f64[::1], i32[::1],
        i32[::1], i32[::1], i64[::1], i64[::1], f64[::1], u8[::1],
    )
)  # fmt: skip
def meet(  # type: ignore[no-untyped-def]
    begin, entity, ts, lon, lat, speed, course,
    rank, side, two_streams, projected,
    fresh, ticks_per_s, reach_m, height, n_bands, band_first, cells_of_band,
    head, body, lines, steering, row_of, mark, pairs, free, ended, counters,
    hit, hit_square, hit_edge,
    out_row, out_slot, out_a, out_b, out_m, out_begins,
):  # fmt: skip
    """The events of pairs among the rows from `begin` on: row, slot, rows of a and b, distance, whether a word begins.

    Rows are in order; those without a position are passed over. An entity's row is that of its newest event, or -1 -
    entity where that came before these rows. A slot is a word of a pair: `ended` lists those whose word is over, which
    the caller may put on the stack of `free` ones. steering[entity] is the direction in which a projected entity moves
    and its angle a tick. hit, hit_square, hit_edge are scratch for as many as there are entities; mark[entity] numbers
    the hits of one event. `rank` orders the keys, `side` says whose stream it is where there are two.

    Returns (row to go on from, number written): it stops where `out_row` is full, or, with counters[NEEDED] set to how
    many, where it is too small or slots are too few.
    """
    n_out = 0
    room = out_row.shape[0]
    mask = head.shape[0] - 1
    enough, beyond = chords(reach_m)
    enough, beyond = enough * enough, beyond * beyond
    n_levels = height.shape[0]
    level_count = counters[4:]
    counters[NEEDED] = 0
    for row in range(begin, entity.shape[0]):
        if not is_position(lon[row], lat[row]):
            continue
        e = np.int64(entity[row])
        now = ts[row]
        x, y, z = vector(lon[row], lat[row])
        here_lon, here_lat = _around(lon[row]), lat[row]
        across = math.sqrt(x * x + y * y)
        # Who is near? All fresh entities of the cells around, by their chords.
        n_hits = 0
        for level in range(n_levels):
            if level_count[level] == 0:
                continue
            tall = height[level]
            bands = n_bands[level]
            first_band = band_first[level]
            sine = math.sin(math.radians(min(tall, 90.0)))
            ratio = sine / across if across > sine else 1.0
            # More than arcsin, which is how far east and west the reach goes at this latitude.
            wide = math.degrees(ratio * (1.0 + 0.5708 * ratio * ratio)) * (1.0 + 1e-9) if ratio < 1.0 else 360.0
            low = _band(here_lat - tall * (1.0 + 1e-9), tall, bands)
            high = _band(here_lat + tall * (1.0 + 1e-9), tall, bands)
            farthest = math.inf
            if level > 0:
                _, farthest = chords(math.radians(tall) * EARTH_RADIUS_M)
                farthest = farthest * farthest
            for band in range(low, high + 1):
                n_cells = cells_of_band[first_band + band]
                if 2.0 * wide * n_cells >= 360.0 * (n_cells - 1):
                    west, last = np.int64(0), n_cells - 1
                else:
                    west = np.int64(math.floor((here_lon - wide) * n_cells / 360.0))
                    last = np.int64(math.floor((here_lon + wide) * n_cells / 360.0))
                    if last - west >= n_cells:
                        west, last = np.int64(0), n_cells - 1
                for nth in range(west, last + 1):
                    cell = _cell(level, band, nth + n_cells if nth < 0 else nth - n_cells if nth >= n_cells else nth)
                    j = np.int64(head[_bucket(cell, mask)])
                    while j >= 0:
                        after = lines[j, NEXT]
                        if lines[j, CELL] == cell and j != e:
                            age = _span(now, lines[j, TIME])
                            if age > fresh:
                                _unlink(j, lines, head, level_count)  # time only grows: it comes back by reporting
                            elif not (two_streams and side[j] == side[e]):
                                dx, dy, dz = body[j, 0] - x, body[j, 1] - y, body[j, 2] - z
                                square = dx * dx + dy * dy + dz * dz
                                if level > 0 and square < farthest:
                                    angle = steering[j, 3] * age
                                    if angle != 0.0:
                                        cosine, sined = math.cos(angle), math.sin(angle)
                                        dx = body[j, 0] * cosine + steering[j, 0] * sined - x
                                        dy = body[j, 1] * cosine + steering[j, 1] * sined - y
                                        dz = body[j, 2] * cosine + steering[j, 2] * sined - z
                                        square = dx * dx + dy * dy + dz * dz
                                if square <= enough or (square < beyond and metres(math.sqrt(square)) <= reach_m):
                                    hit[n_hits] = j
                                    hit_square[n_hits] = square
                                    n_hits += 1
                        j = after
        # Which of them were near at the pair's event before?
        counters[EPOCH] += n_hits + 1
        base = counters[EPOCH] - n_hits
        for nth in range(n_hits):
            mark[hit[nth]] = base + nth
            hit_edge[nth] = -1
        n_known = 0
        edge = lines[e, EDGE]
        while edge >= 0:
            slot, own = edge >> 1, edge & 1
            at = mark[pairs[slot, 1 - own]] - base
            if at >= 0:
                hit_edge[at] = edge
                n_known += 1
            edge = np.int64(pairs[slot, 2 + own])
        n_new = n_hits - n_known
        if n_out + n_hits > room or n_new > counters[FREE]:
            if n_hits > room or n_new > counters[FREE]:
                counters[NEEDED] = n_hits
            return row, n_out
        # From here on the event has come.
        edge = lines[e, EDGE]
        while edge >= 0:
            slot, own = edge >> 1, edge & 1
            after = np.int64(pairs[slot, 2 + own])
            if mark[pairs[slot, 1 - own]] < base:
                _end(slot, lines, pairs, ended, counters)
            edge = after
        body[e, 0], body[e, 1], body[e, 2] = x, y, z
        lines[e, TIME] = now
        row_of[e] = row
        level = 0
        if projected:
            steering[e, 3] = 0.0
            pace = speed[row]
            if math.isfinite(pace) and math.isfinite(course[row]) and pace != 0.0:
                steering[e, 0], steering[e, 1], steering[e, 2] = _direction(lon[row], lat[row], course[row])
                steering[e, 3] = pace / EARTH_RADIUS_M / ticks_per_s
                way = math.degrees(abs(steering[e, 3]) * fresh)
                level = n_levels - 1
                while level > 0 and height[level - 1] >= height[0] + way * (1.0 + 1e-9):
                    level -= 1
        band = _band(here_lat, height[level], n_bands[level])
        cell = _cell(level, band, _nth_cell(here_lon, cells_of_band[band_first[level] + band]))
        if lines[e, CELL] != cell:
            if lines[e, CELL] >= 0:
                _unlink(e, lines, head, level_count)
            _link(e, cell, lines, head, level_count)
        for nth in range(n_hits):
            j = np.int64(hit[nth])
            edge = np.int64(hit_edge[nth])
            begins = edge < 0
            if begins:
                counters[FREE] -= 1
                slot = np.int64(free[counters[FREE]])
                e_is_a = side[e] < side[j] if two_streams else rank[e] < rank[j]
                pairs[slot, 0], pairs[slot, 1] = (e, j) if e_is_a else (j, e)
                _add_edge(2 * slot, np.int64(pairs[slot, 0]), lines, pairs)
                _add_edge(2 * slot + 1, np.int64(pairs[slot, 1]), lines, pairs)
            else:
                slot = edge >> 1
            out_row[n_out] = row
            out_slot[n_out] = slot
            out_a[n_out] = row_of[pairs[slot, 0]]
            out_b[n_out] = row_of[pairs[slot, 1]]
            out_m[n_out] = _metres(math.sqrt(hit_square[nth]))
            out_begins[n_out] = begins
            n_out += 1
    return entity.shape[0], n_out


@_kernel(nb.void(i64, i64, i32[::1], longs, ints, i32[::1], i64[::1], i64))
def sweep(now, fresh, head, lines, pairs, ended, counters, n_entities):  # type: ignore[no-untyped-def]
    """Ends the words of which no event can be one any more, and takes entities that are not fresh out of the grid."""
    for slot in range(pairs.shape[0]):
        if pairs[slot, 0] >= 0:
            newest = max(lines[pairs[slot, 0], TIME], lines[pairs[slot, 1], TIME])
            if _span(now, newest) > fresh:
                _end(np.int64(slot), lines, pairs, ended, counters)
    level_count = counters[4:]
    for e in range(n_entities):
        if lines[e, CELL] >= 0 and _span(now, lines[e, TIME]) > fresh:
            _unlink(np.int64(e), lines, head, level_count)


@_kernel(nb.void(i32[::1], longs, i64))
def rehash(head, lines, n_entities):  # type: ignore[no-untyped-def]
    """Links all entities that have a cell into an empty table."""
    count = np.zeros(64, dtype=np.int64)
    for e in range(n_entities):
        if lines[e, CELL] >= 0:
            _link(np.int64(e), lines[e, CELL], lines, head, count)


@_kernel(nb.void(i32[::1], i64[::1]))
def forget_rows(entity, row_of):  # type: ignore[no-untyped-def]
    """From here on the newest event of these entities came before the rows at hand."""
    for row in range(entity.shape[0]):
        if row_of[entity[row]] >= 0:
            row_of[entity[row]] = -1 - np.int64(entity[row])


@_kernel(nb.void(i32[::1], i32[::1], i32[::1], longs, ints))
def tie(slots, a, b, lines, pairs):  # type: ignore[no-untyped-def]
    """Puts pairs into the lists of their entities."""
    for nth in range(slots.shape[0]):
        slot = np.int64(slots[nth])
        pairs[slot, 0], pairs[slot, 1] = a[nth], b[nth]
        _add_edge(2 * slot, np.int64(a[nth]), lines, pairs)
        _add_edge(2 * slot + 1, np.int64(b[nth]), lines, pairs)
