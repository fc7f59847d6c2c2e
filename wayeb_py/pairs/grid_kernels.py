"""The compiled loop that finds who is near whom: events in order become events of pairs, by a hash grid on the sphere.

A band of latitude is cut into cells at least as wide as the search reaches, fewer of them toward the poles. A cell
is a list of the entities whose newest position lies in it; cells share buckets of a hash table, and each entity
remembers its cell, so that a bucket shared by chance costs a comparison and no wrong answer. Distances are chords of
the unit sphere, as for places: poles and the antimeridian are positions like any other.

A projected entity may have moved away from where it reported, by as much as it sails while it is fresh. So there are
several grids of ever larger cells (`level` is the number of a grid), and an entity lies in the first grid whose cells
cover the reach plus that way; a grid without entities costs nothing. *Not taken*: one grid for the greatest speed seen,
which a single wrong report ruins; entering an entity in all cells of the way ahead, which a wrong speed turns into
thousands.

body[entity] is one cache line with three views: as floats x, y, z; as `lines` (64-bit integers) time, cell, mark; as
`links` (32-bit integers) next, before, first edge, newest row. pairs[slot] is a pair's word, half a line: a, b, the
next edge of a and of b, the edge before of a and of b. Edge 2 * slot is in the list of a, 2 * slot + 1 in that of b.

With a million vessels, the lines that an event needs are not in the cache, so the kernel prefetches those of the next
events (`_look_ahead`). *Not taken*: keeping entities in the order of their cells, which every event would change.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import f64, i32, i64, two_i64, u8
from wayeb_py.kernels.compiled import kernel as _kernel
from wayeb_py.kernels.compiled import read_only as _read_only
from wayeb_py.kernels.prefetch import prefetch
from wayeb_py.kernels.ticks import span as _span
from wayeb_py.spatial.kernels.index import EARTH_RADIUS_M, chords, is_position, metres
from wayeb_py.spatial.kernels.sphere_grid import around, band_of, cell_of, columns_within, wrapped

TIME, CELL, MARK = 3, 4, 5  # fields of body, as lines
NEXT, BEFORE, EDGE, ROW = 12, 13, 14, 15  # fields of body, as links
PAIR_FIELDS = 8  # six are used; eight, so that no pair lies on two cache lines
FREE, ENDED, NEEDED, EPOCH = 0, 1, 2, 3  # indices of counters
SHORT = 0.01  # a chord of 64 km
SMALL = 1024  # this many entities are in the cache anyway
FAR, NEAR = 16, 8  # rows ahead of the one at hand
MOST_AHEAD = 4  # cells of a band

floats, longs, ints = f64[::1], i64[::1], i32[::1]


@nb.njit(nogil=True, inline="always")
def _of(entity, field):  # type: ignore[no-untyped-def]
    """The index of a field of body, or of lines; unsigned, so that indexing need not check for negative numbers."""
    return np.uint64(entity * 8 + field)


@nb.njit(nogil=True, inline="always")
def _link_of(entity, field):  # type: ignore[no-untyped-def]
    return np.uint64(entity * 16 + field)


@nb.njit(nogil=True, inline="always")
def _pair_of(slot, field):  # type: ignore[no-untyped-def]
    return np.uint64(slot * PAIR_FIELDS + field)


@nb.njit(nogil=True, inline="always")
def _steer_of(entity, field):  # type: ignore[no-untyped-def]
    return np.uint64(entity * 4 + field)


@nb.njit(nogil=True, inline="always")
def _point_of(row, field):  # type: ignore[no-untyped-def]
    return np.uint64(row * 3 + field)


@nb.njit(nogil=True, inline="always")
def hashed_bucket(cell, mask):  # type: ignore[no-untyped-def]
    """Cells that are neighbours along a band lie beside each other, mostly in one line of the cache. Bands begin at
    multiples of the golden section of the table: however many there are, they lie as far apart as can be, and those of
    a wide sea do not overlap."""
    mixed = np.uint64(cell >> np.int64(32)) * np.uint64(0x9E3779B97F4A7C15)
    begin = ((mixed >> np.uint64(32)) * np.uint64(mask + 1)) >> np.uint64(32)
    return np.int64((begin + np.uint64(cell & np.int64(0xFFFFFFFF))) & np.uint64(mask))


@nb.njit(nogil=True, inline="always")
def _unlink(e, lines, links, head, level_count):  # type: ignore[no-untyped-def]
    after, before = links[_link_of(e, NEXT)], links[_link_of(e, BEFORE)]
    if before >= 0:
        links[_link_of(before, NEXT)] = after
    else:
        head[-1 - before] = after
    if after >= 0:
        links[_link_of(after, BEFORE)] = before
    level_count[lines[_of(e, CELL)] >> np.int64(52)] -= 1
    lines[_of(e, CELL)] = -1


@nb.njit(nogil=True, inline="always")
def _link(e, cell, lines, links, head, level_count):  # type: ignore[no-untyped-def]
    bucket = hashed_bucket(cell, head.shape[0] - 1)
    after = head[bucket]
    lines[_of(e, CELL)] = cell
    links[_link_of(e, NEXT)], links[_link_of(e, BEFORE)] = after, -1 - bucket
    head[bucket] = e
    if after >= 0:
        links[_link_of(after, BEFORE)] = e
    level_count[cell >> np.int64(52)] += 1


@nb.njit(nogil=True, inline="always")
def _drop_edge(edge, owner, links, pairs):  # type: ignore[no-untyped-def]
    slot, side = edge >> 1, edge & 1
    after, before = pairs[_pair_of(slot, 2 + side)], pairs[_pair_of(slot, 4 + side)]
    if before >= 0:
        pairs[_pair_of(before >> 1, 2 + (before & 1))] = after
    else:
        links[_link_of(owner, EDGE)] = after
    if after >= 0:
        pairs[_pair_of(after >> 1, 4 + (after & 1))] = before


@nb.njit(nogil=True, inline="always")
def _add_edge(edge, owner, links, pairs):  # type: ignore[no-untyped-def]
    slot, side = edge >> 1, edge & 1
    first = links[_link_of(owner, EDGE)]
    pairs[_pair_of(slot, 2 + side)] = first
    pairs[_pair_of(slot, 4 + side)] = -1
    if first >= 0:
        pairs[_pair_of(first >> 1, 4 + (first & 1))] = edge
    links[_link_of(owner, EDGE)] = edge


@nb.njit(nogil=True, inline="always")
def _end(slot, links, pairs, ended, counters):  # type: ignore[no-untyped-def]
    a, b = np.int64(pairs[_pair_of(slot, 0)]), np.int64(pairs[_pair_of(slot, 1)])
    _drop_edge(2 * slot, a, links, pairs)
    _drop_edge(2 * slot + 1, b, links, pairs)
    pairs[_pair_of(slot, 0)] = -1
    ended[counters[ENDED]] = slot
    counters[ENDED] += 1


@nb.njit(nogil=True, inline="always")
def short_metres(square):  # type: ignore[no-untyped-def]
    """As `metres` of a chord up to SHORT, by its square: the first terms of the arc sine are all that 64 bits hold."""
    quarter = 0.25 * square
    arc = 1.0 + quarter * (1.0 / 6.0 + quarter * (3.0 / 40.0 + quarter * (15.0 / 336.0)))
    return EARTH_RADIUS_M * math.sqrt(square) * arc


@nb.njit(nogil=True, inline="always")
def direction_of(lon, lat, course):  # type: ignore[no-untyped-def]
    """The unit vector, tangent to the sphere, of a course in degrees."""
    a, b, turn = math.radians(lon), math.radians(lat), math.radians(course)
    north, east = math.cos(turn), math.sin(turn)
    up = -math.sin(b) * north
    return up * math.cos(a) - east * math.sin(a), up * math.sin(a) + east * math.cos(a), math.cos(b) * north


@nb.njit(nogil=True, inline="always")
def _first_bucket(level, band, mask):  # type: ignore[no-untyped-def]
    """The bucket of a band's first cell; the others follow."""
    return hashed_bucket(cell_of(level, band, np.int64(0)), mask)


@nb.njit(nogil=True, inline="always")
def _look_ahead(row, entity, lon, lat, height, n_bands, per_degree, wide_of_band, head, body, links, pairs, ahead):  # type: ignore[no-untyped-def]
    """Prefetches what the next events will read: their own lines, then those of the entities around."""
    mask = head.shape[0] - 1
    far = row + FAR
    if far < entity.shape[0] and is_position(lon[far], lat[far]):
        prefetch(body, np.int64(entity[far]) * 8)
        here_lon, tall, bands = around(lon[far]), height[0], n_bands[0]
        low = band_of(lat[far] - tall, tall, bands)
        high = min(band_of(lat[far] + tall, tall, bands), low + 2)
        wide = wide_of_band[band_of(lat[far], tall, bands)]
        at = far % FAR
        for nth in range(3):
            ahead[at, 2 * nth + 1] = 0
        for band in range(low, high + 1):
            scale = per_degree[band]
            west = max(np.int64(0), np.int64((here_lon - wide) * scale))
            bucket = (_first_bucket(0, band, mask) + west) & mask
            ahead[at, 2 * (band - low)] = bucket
            ahead[at, 2 * (band - low) + 1] = min(np.int64(MOST_AHEAD), np.int64((here_lon + wide) * scale) - west + 1)
            prefetch(head, bucket)
    for depth in range(2):
        near = row + NEAR - depth * NEAR // 2
        if near < entity.shape[0]:
            at = near % FAR
            for nth in range(3):
                bucket = ahead[at, 2 * nth]
                for place in range(bucket, bucket + ahead[at, 2 * nth + 1]):
                    j = np.int64(head[np.uint64(place & mask)])
                    if depth > 0 and j >= 0:
                        j = np.int64(links[_link_of(j, NEXT)])
                    if j >= 0:
                        prefetch(body, j * 8)
    # Then the pairs of each entity, in the order of its list.
    for nth in range(3):
        soon = row + NEAR - 3 * nth
        if soon < entity.shape[0]:
            edge = np.int64(links[_link_of(np.int64(entity[soon]), EDGE)])
            for _ in range(nth):
                if edge >= 0:
                    edge = np.int64(pairs[_pair_of(edge >> 1, 2 + (edge & 1))])
            if edge >= 0:
                prefetch(pairs, (edge >> 1) * PAIR_FIELDS)


@_kernel(
    two_i64(
        i64, i32[::1], _read_only(i64), _read_only(f64), _read_only(f64), floats, _read_only(f64), _read_only(f64),
        i64[::1], u8[::1], nb.boolean,
        i64, f64, f64, f64[::1], i64[::1], i64[::1], f64[::1], f64[::1],
        i32[::1], floats, longs, ints, floats, ints, i32[::1], i32[::1], i64[::1],
        i64[:, ::1], i32[::1], f64[::1], i32[::1],
        i32[::1], i32[::1], i64[::1], i64[::1], f64[::1], u8[::1],
    )
)  # fmt: skip
def meet(  # type: ignore[no-untyped-def]
    begin, entity, ts, lon, lat, points, speed, course,
    rank, side, two_streams,
    fresh, ticks_per_s, reach_m, height, n_bands, band_first, per_degree, wide_of_band,
    head, body, lines, links, steering, pairs, free, ended, counters,
    ahead, hit, hit_square, hit_edge,
    out_row, out_slot, out_a, out_b, out_m, out_begins,
):  # fmt: skip
    """The events of pairs among the rows from `begin` on: row, slot, rows of a and b, distance, whether a word begins.

    Rows are in order, points[row] on the unit sphere; rows without a position are skipped. An entity's row is that
    of its newest event, or -1 - entity where that came before these rows. A slot is a word of a pair: `ended` lists
    those whose word is over, which the caller may put on the stack of `free` ones. steering[entity] is the direction in
    which a projected entity moves and its angle a tick. hit, hit_square, hit_edge are scratch for as many as there are
    entities, `ahead` for the rows that come next; an entity's mark numbers the hits of one event. `rank` orders the
    keys, `side` names the stream of each entity where there are two. For a band, `per_degree` is how many cells a
    degree has, and `wide_of_band` by how many degrees the search reaches east and west.

    Returns (row to continue from, number written). It stops where `out_row` is full; where `out_row` is too small for
    one event, or slots are too few, it sets counters[NEEDED] to how many it needs.
    """
    n_out = 0
    room = out_row.shape[0]
    mask = head.shape[0] - 1
    enough, beyond = chords(reach_m)
    enough, beyond = enough * enough, beyond * beyond
    n_levels = height.shape[0]
    level_count = counters[4:]
    counters[NEEDED] = 0
    ahead[:, :] = 0
    looks_ahead = body.shape[0] > 8 * SMALL
    for row in range(begin, entity.shape[0]):
        if looks_ahead:
            _look_ahead(
                row, entity, lon, lat, height, n_bands, per_degree, wide_of_band, head, body, links, pairs, ahead
            )
        if not is_position(lon[row], lat[row]):
            continue
        e = np.int64(entity[row])
        now = ts[row]
        x, y, z = points[_point_of(row, 0)], points[_point_of(row, 1)], points[_point_of(row, 2)]
        here_lon, here_lat = around(lon[row]), lat[row]
        # Who is near? All fresh entities of the cells around, by their chords.
        n_hits = np.int64(0)
        for level in range(n_levels):
            if level_count[level] == 0:
                continue
            tall = height[level]
            bands = n_bands[level]
            first_band = band_first[level]
            wide = wide_of_band[first_band + band_of(here_lat, tall, bands)]
            low = band_of(here_lat - tall * (1.0 + 1e-9), tall, bands)
            high = band_of(here_lat + tall * (1.0 + 1e-9), tall, bands)
            farthest = math.inf
            if level > 0:
                _, farthest = chords(math.radians(tall) * EARTH_RADIUS_M)
                farthest = farthest * farthest
            for band in range(low, high + 1):
                scale = per_degree[first_band + band]
                n_cells = np.int64(scale * 360.0 + 0.5)
                west, last = columns_within(here_lon, wide, scale, n_cells)
                first = cell_of(level, band, np.int64(0))
                first_bucket = hashed_bucket(first, mask)
                for nth in range(west, last + 1):
                    place = wrapped(nth, n_cells)
                    cell = first + place
                    j = np.int64(head[(first_bucket + place) & mask])
                    while j >= 0:
                        after = np.int64(links[_link_of(j, NEXT)])
                        if lines[_of(j, CELL)] == cell and j != e:
                            age = _span(now, lines[_of(j, TIME)])
                            if age > fresh:
                                # Time only grows: the entity comes back when it reports again.
                                _unlink(j, lines, links, head, level_count)
                            elif not (two_streams and side[j] == side[e]):
                                dx, dy, dz = body[_of(j, 0)] - x, body[_of(j, 1)] - y, body[_of(j, 2)] - z
                                square = dx * dx + dy * dy + dz * dz
                                if level > 0 and square < farthest:
                                    angle = steering[_steer_of(j, 3)] * age
                                    if angle != 0.0:
                                        cosine, sined = math.cos(angle), math.sin(angle)
                                        dx = body[_of(j, 0)] * cosine + steering[_steer_of(j, 0)] * sined - x
                                        dy = body[_of(j, 1)] * cosine + steering[_steer_of(j, 1)] * sined - y
                                        dz = body[_of(j, 2)] * cosine + steering[_steer_of(j, 2)] * sined - z
                                        square = dx * dx + dy * dy + dz * dz
                                # Always written, counted only if near: a branch could not be predicted.
                                hit[np.uint64(n_hits)] = j
                                hit_square[np.uint64(n_hits)] = square
                                n_hits += np.int64(square <= enough)
                                if enough < square < beyond and metres(math.sqrt(square)) <= reach_m:
                                    n_hits += 1
                        j = after
        # Which of them were near at the pair's previous event?
        counters[EPOCH] += n_hits + 1
        base = counters[EPOCH] - n_hits
        for nth in range(n_hits):
            lines[_of(hit[nth], MARK)] = base + nth
            hit_edge[nth] = -1
        n_known = 0
        n_over = 0
        edge = np.int64(links[_link_of(e, EDGE)])
        while edge >= 0:
            slot, own = edge >> 1, edge & 1
            at = lines[_of(pairs[_pair_of(slot, 1 - own)], MARK)] - base
            if at >= 0:
                hit_edge[at] = edge
                n_known += 1
            else:
                n_over += 1
            edge = np.int64(pairs[_pair_of(slot, 2 + own)])
        n_new = n_hits - n_known
        if n_out + n_hits > room or n_new > counters[FREE]:
            if n_hits > room or n_new > counters[FREE]:
                counters[NEEDED] = n_hits
            return row, n_out
        # There is room: from here on the event changes the state.
        edge = np.int64(links[_link_of(e, EDGE)])
        while n_over > 0:
            slot, own = edge >> 1, edge & 1
            after = np.int64(pairs[_pair_of(slot, 2 + own)])
            if lines[_of(pairs[_pair_of(slot, 1 - own)], MARK)] < base:
                _end(slot, links, pairs, ended, counters)
                n_over -= 1
            edge = after
        body[_of(e, 0)], body[_of(e, 1)], body[_of(e, 2)] = x, y, z
        lines[_of(e, TIME)] = now
        links[_link_of(e, ROW)] = row
        level = 0
        steering[_steer_of(e, 3)] = 0.0
        pace = speed[row]
        if math.isfinite(pace) and math.isfinite(course[row]) and pace != 0.0:
            ux, uy, uz = direction_of(lon[row], lat[row], course[row])
            steering[_steer_of(e, 0)], steering[_steer_of(e, 1)], steering[_steer_of(e, 2)] = ux, uy, uz
            steering[_steer_of(e, 3)] = pace / EARTH_RADIUS_M / ticks_per_s
            way = math.degrees(abs(steering[_steer_of(e, 3)]) * fresh)
            level = n_levels - 1
            while level > 0 and height[level - 1] >= height[0] + way * (1.0 + 1e-9):
                level -= 1
        band = band_of(here_lat, height[level], n_bands[level])
        scale = per_degree[band_first[level] + band]
        nth_cell = min(np.int64(here_lon * scale), np.int64(scale * 360.0 + 0.5) - 1)
        cell = cell_of(level, band, nth_cell)
        if lines[_of(e, CELL)] != cell:
            if lines[_of(e, CELL)] >= 0:
                _unlink(e, lines, links, head, level_count)
            _link(e, cell, lines, links, head, level_count)
        for nth in range(n_hits):
            j = np.int64(hit[nth])
            edge = np.int64(hit_edge[nth])
            begins = edge < 0
            if begins:
                counters[FREE] -= 1
                slot = np.int64(free[counters[FREE]])
                e_is_a = side[e] < side[j] if two_streams else rank[e] < rank[j]
                pairs[_pair_of(slot, 0)], pairs[_pair_of(slot, 1)] = (e, j) if e_is_a else (j, e)
                _add_edge(2 * slot, np.int64(pairs[_pair_of(slot, 0)]), links, pairs)
                _add_edge(2 * slot + 1, np.int64(pairs[_pair_of(slot, 1)]), links, pairs)
            else:
                slot, e_is_a = edge >> 1, edge & 1 == 0
            other = np.int64(links[_link_of(j, ROW)])
            out_row[n_out] = row
            out_slot[n_out] = slot
            out_a[n_out], out_b[n_out] = (row, other) if e_is_a else (other, row)
            square = hit_square[nth]
            out_m[n_out] = short_metres(square) if square <= SHORT * SHORT else metres(math.sqrt(square))
            out_begins[n_out] = begins
            n_out += 1
    return entity.shape[0], n_out


@_kernel(nb.void(i64, i64, i32[::1], longs, ints, ints, i32[::1], i64[::1], i64))
def sweep(now, fresh, head, lines, links, pairs, ended, counters, n_entities):  # type: ignore[no-untyped-def]
    """Ends the words to which no further event can belong, and takes entities that are not fresh out of the grid."""
    for slot in range(pairs.shape[0] // PAIR_FIELDS):
        if pairs[_pair_of(slot, 0)] >= 0:
            newest = max(lines[_of(pairs[_pair_of(slot, 0)], TIME)], lines[_of(pairs[_pair_of(slot, 1)], TIME)])
            if _span(now, newest) > fresh:
                _end(np.int64(slot), links, pairs, ended, counters)
    level_count = counters[4:]
    for e in range(n_entities):
        if lines[_of(e, CELL)] >= 0 and _span(now, lines[_of(e, TIME)]) > fresh:
            _unlink(np.int64(e), lines, links, head, level_count)


@_kernel(nb.void(i32[::1], longs, ints, i64, i64[::1]))
def rehash(head, lines, links, n_entities, level_count):  # type: ignore[no-untyped-def]
    """Links all entities that have a cell into an empty table, and counts them by level."""
    for e in range(n_entities):
        if lines[_of(e, CELL)] >= 0:
            _link(np.int64(e), lines[_of(e, CELL)], lines, links, head, level_count)


@_kernel(nb.void(i32[::1], ints))
def forget_rows(entity, links):  # type: ignore[no-untyped-def]
    """From here on the newest event of these entities came before the rows at hand."""
    for row in range(entity.shape[0]):
        links[_link_of(np.int64(entity[row]), ROW)] = -1 - entity[row]


@_kernel(nb.void(i32[::1], i32[::1], i32[::1], ints, ints))
def tie(slots, a, b, links, pairs):  # type: ignore[no-untyped-def]
    """Puts pairs into the lists of their entities."""
    for nth in range(slots.shape[0]):
        slot = np.int64(slots[nth])
        pairs[_pair_of(slot, 0)], pairs[_pair_of(slot, 1)] = a[nth], b[nth]
        _add_edge(2 * slot, np.int64(a[nth]), links, pairs)
        _add_edge(2 * slot + 1, np.int64(b[nth]), links, pairs)
