"""The compiled loop that finds who is near whom by watching: every entity has a list of those that could come within
reach of it soon, and an event looks at its own entity's list alone.

An entity has an **anchor**, a point near it: some steps ahead on its way, so that it passes the anchor before it leaves
it. When the entity is farther from its anchor than its *slack*, it gets a new anchor. Two entities watch each other if
their anchors are no farther apart than the reach plus both slacks. By the triangle inequality, an entity's list then
holds everything within reach. One that goes far between two events has no slack: it searches at every event. The grid
holds anchors; only an entity that gets a new one searches it. A list lies in one piece, and holds whether the pair's
word goes on, so that an event costs a distance for each entry and no search. Vessels that report every ten seconds get
a new anchor at every seventh event, for a reach of a kilometre.

An anchor ahead lies a hair outside the unit sphere, never inside: the directions of two such points are no farther
apart than the points themselves, so that the grid, which knows directions, finds them.

*Not taken*: a search of the grid at every event, which follows a chain of a cell's entities nine times and has to find
out which of them it knows: twice the time. Anchors for projected entities, which move between their events: see
`grid_kernels`.

`watch_list_kernels` says how entities and lists lie in memory.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import f64, i32, i64, inlined, kernel, read_only, two_i64, u8
from wayeb_py.kernels.prefetch import prefetch
from wayeb_py.kernels.structs import F64, I32, I64, U8, struct
from wayeb_py.kernels.ticks import NEVER, span
from wayeb_py.pairs.anchor_cell_kernels import ROUNDING, Anchors, bucket_of, find_near, prefetch_block, put, take_out
from wayeb_py.pairs.grid_kernels import EPOCH, FREE, NEEDED, SHORT, short_metres
from wayeb_py.pairs.watch_list_kernels import (
    CELL,
    ENTRY,
    FIRST,
    LACKING,
    LEFT,
    LENGTH,
    MARK,
    OTHER,
    PAIR_FIELDS,
    ROOM,
    ROW,
    SLACK,
    SLACKS,
    SMALLEST,
    SPARE,
    TIME,
    WIDTH,
    WORD,
    Watches,
    begin_word,
    end_word,
    entry_of,
    free_room,
    line_of,
    link_of,
    other_of,
    set_word,
    tie,
    untie,
)
from wayeb_py.spatial.kernels.index import chords, is_position, metres
from wayeb_py.spatial.kernels.sphere_grid import around, band_of, cell_of, columns_within, wrapped

FEW_STEPS = 1.0  # share of the slack: an entity that moves farther between two events gets none
LEAD, MOST_STEPS = 0.9, 16.0  # how far ahead an anchor lies: a share of the slack, and at most this many steps
SMALL = 12288  # with no more entities than these, prefetching costs more than it saves
FAR, NEAR, SOON = 24, 14, 7  # rows ahead of the one at hand
MOST_AHEAD = 4  # cells of a band
LAST_MARK = (1 << 31) - 4


class Rows(NamedTuple):
    """Where the events of pairs are written."""

    row: I32
    slot: I32
    a: I64
    b: I64
    m: F64
    begins: U8


@inlined
def _link(e, cell, w, grid):  # type: ignore[no-untyped-def]
    has_slack = np.int64(w.anchor[line_of(e, SLACK)] > 0.0)
    w.anchor_lines[line_of(e, CELL)] = cell
    x, y, z = w.anchor[line_of(e, 0)], w.anchor[line_of(e, 1)], w.anchor[line_of(e, 2)]
    put(2 * e + has_slack, x, y, z, cell, SPARE, w.counters, grid)
    w.counters[SLACKS] += has_slack


@inlined
def _unlink(e, w, grid):  # type: ignore[no-untyped-def]
    take_out(e, w.anchor_lines[line_of(e, CELL)], SPARE, w.counters, grid)
    w.anchor_lines[line_of(e, CELL)] = -1
    w.counters[SLACKS] -= np.int64(w.anchor[line_of(e, SLACK)] > 0.0)


@inlined
def _new_marks(w):  # type: ignore[no-untyped-def]
    """A mark that no entity has, and neither the one after it."""
    if w.counters[EPOCH] >= LAST_MARK:
        for entity in range(w.links.shape[0] // (2 * WIDTH)):
            w.links[link_of(entity, MARK)] = 0
        w.counters[EPOCH] = 0
    w.counters[EPOCH] += 2
    return np.int32(w.counters[EPOCH])


@inlined
def _sort_hits(begin, n_hits, e, known, two_streams, side, w, hits):  # type: ignore[no-untyped-def]
    """Keeps of the hits from a place on those that are not known, each once; returns how many there are then. The mark
    of one that was known, or is now, is one more than `known`."""
    links = w.links
    for nth in range(begin, n_hits):
        prefetch(w.body, np.int64(hits[np.uint64(nth)]) * WIDTH)
    n_new = begin
    for nth in range(begin, n_hits):
        j = np.int64(hits[np.uint64(nth)])
        mark = links[link_of(j, MARK)]
        links[link_of(j, MARK)] = known + 1
        if mark != known and mark != known + 1 and not (two_streams and side[j] == side[e]):
            hits[np.uint64(n_new)] = j
            n_new += 1
    return n_new


@inlined
def _anchor(e, slack, lon, lat, x, y, z, rank, side, two_streams, w, grid):  # type: ignore[no-untyped-def]
    """Gives an entity an anchor and the list that belongs to it; False, with nothing spoilt, where room is lacking."""
    links, watched, hits = w.links, w.watched, grid.hits
    if w.anchor_lines[line_of(e, CELL)] >= 0:
        _unlink(e, w, grid)
    w.anchor[line_of(e, 0)], w.anchor[line_of(e, 1)], w.anchor[line_of(e, 2)] = x, y, z
    w.anchor[line_of(e, SLACK)] = slack
    known = _new_marks(w)
    first = np.int64(links[link_of(e, FIRST)])
    for place in range(first, first + np.int64(links[link_of(e, LENGTH)])):
        links[link_of(other_of(place, w), MARK)] = known
    # Who is near enough?
    near = grid.reach + slack + ROUNDING
    near, near_slack = np.float32(near * near), np.float32((near + grid.slack) * (near + grid.slack))
    x_32, y_32, z_32 = np.float32(x), np.float32(y), np.float32(z)
    tall, n_bands = grid.height, grid.n_bands
    here_lon = around(lon)
    own_band = band_of(lat, tall, n_bands)
    n_slacks = np.int64(slack > 0.0) + np.int64(w.counters[SLACKS] > 0)
    wide, radius = grid.wide[n_slacks * n_bands + own_band], grid.radius[n_slacks]
    last_band = band_of(lat + radius, tall, n_bands)
    most_hits = hits.shape[0] - (2 * links.shape[0] // (2 * WIDTH) + 1)  # before another band
    n_new = np.int64(0)
    n_hits = np.int64(0)
    for band in range(band_of(lat - radius, tall, n_bands), last_band + 1):
        scale = grid.per_degree[band]
        n_cells = np.int64(scale * 360.0 + 0.5)
        west, last = columns_within(here_lon, wide, scale, n_cells)
        bucket = bucket_of(cell_of(0, band, np.int64(0)), grid)
        for column in range(west, last + 1):
            block = (bucket + wrapped(column, n_cells)) & grid.mask
            n_hits = find_near(block, x_32, y_32, z_32, near, near_slack, n_hits, grid)
        if band == last_band or n_hits > most_hits:
            n_new = n_hits = _sort_hits(n_new, n_hits, e, known, two_streams, side, w, hits)
    for hit in range(n_new):
        j = np.int64(hits[np.uint64(hit)])
        end = np.int64(links[link_of(j, FIRST)]) + np.int64(links[link_of(j, LENGTH)])
        prefetch(watched, end * ENTRY)
        prefetch(w.mirror, end)
        prefetch(rank, j)
    nth = np.int64(links[link_of(e, LENGTH)])
    while nth > 0:  # backwards: whatever takes an entry's place has been looked at
        nth -= 1
        # One that is not in the grid has not reported for long: this event ends the word.
        if links[link_of(other_of(first + nth, w), MARK)] == known:
            if watched[entry_of(first + nth, WORD)] >= 0:
                end_word(first + nth, w)
            untie(e, nth, w)
    for hit in range(n_new):
        j = np.int64(hits[np.uint64(hit)])
        if not tie(e, j, side[e] < side[j] if two_streams else rank[e] < rank[j], w):
            return False
    scale = grid.per_degree[own_band]
    _link(e, cell_of(0, own_band, min(np.int64(here_lon * scale), np.int64(scale * 360.0 + 0.5) - 1)), w, grid)
    return True


@nb.njit(nogil=True, inline="always")
def _step(e, row, points, w):  # type: ignore[no-untyped-def]
    """How far an entity is at this row from where it was, as a chord."""
    at = np.uint64(3 * row)
    dx, dy, dz = (
        w.body[line_of(e, 0)] - points[at],
        w.body[line_of(e, 1)] - points[at + 1],
        w.body[line_of(e, 2)] - points[at + 2],
    )
    return math.sqrt(dx * dx + dy * dy + dz * dz)


@inlined
def _leaves(e, row, points, w):  # type: ignore[no-untyped-def]
    """Whether an entity is farther from its anchor, at this row, than it may be; or has none."""
    at = np.uint64(3 * row)
    dx = w.anchor[line_of(e, 0)] - points[at]
    dy = w.anchor[line_of(e, 1)] - points[at + 1]
    dz = w.anchor[line_of(e, 2)] - points[at + 2]
    slack = w.anchor[line_of(e, SLACK)]
    return w.anchor_lines[line_of(e, CELL)] < 0 or dx * dx + dy * dy + dz * dz > slack * slack


@inlined
def _next_anchor(e, row, step, lon, lat, points, w, grid):  # type: ignore[no-untyped-def]
    """Where an entity gets an anchor at this row: x, y, z, longitude, latitude; its slack, and what is left of it. An
    entity that moves too far between two events would leave any anchor at the next."""
    at = np.uint64(3 * row)
    x, y, z, a_lon, a_lat = points[at], points[at + 1], points[at + 2], lon[row], lat[row]
    is_first = w.lines[line_of(e, TIME)] == NEVER
    left = slack = grid.slack if is_first or step < FEW_STEPS * grid.slack else 0.0
    if slack > 0.0 and step > 0.0 and not is_first:
        ahead = min(MOST_STEPS, LEAD * slack / step)
        x += ahead * (x - w.body[line_of(e, 0)])
        y += ahead * (y - w.body[line_of(e, 1)])
        z += ahead * (z - w.body[line_of(e, 2)])
        a_lon = math.degrees(math.atan2(y, x))
        a_lat = math.degrees(math.atan2(z, math.sqrt(x * x + y * y)))
        left -= ahead * step
    return x, y, z, a_lon, a_lat, slack, left


@inlined
def _look_ahead(row, entity, lon, lat, points, rank, w, grid):  # type: ignore[no-untyped-def]
    """Prefetches what the events after this one will look at: their own lines, their lists, those whom they watch; and
    where one will search the grid, the cells around it."""
    n = entity.shape[0]
    if row + FAR < n:
        prefetch(w.body, np.int64(entity[row + FAR]) * WIDTH)
    if row + NEAR < n:
        e = np.int64(entity[row + NEAR])
        first = np.int64(w.links[link_of(e, FIRST)])
        for place in range(first, first + np.int64(w.links[link_of(e, LENGTH)]), SMALLEST):
            prefetch(w.watched, place * ENTRY)
        if w.body[line_of(e, LEFT)] < _step(e, row + NEAR, points, w):
            prefetch(w.anchor, e * WIDTH)
    if row + SOON < n:
        e = np.int64(entity[row + SOON])
        first = np.int64(w.links[link_of(e, FIRST)])
        for place in range(first, first + np.int64(w.links[link_of(e, LENGTH)])):
            prefetch(w.body, other_of(place, w) * WIDTH)
        step = _step(e, row + SOON, points, w)
        if w.body[line_of(e, LEFT)] < step and _leaves(e, row + SOON, points, w):
            _, _, _, a_lon, a_lat, _, _ = _next_anchor(e, row + SOON, step, lon, lat, points, w, grid)
            prefetch(rank, e)
            prefetch(w.mirror, first)
            _prefetch_cells(a_lon, a_lat, grid)


@inlined
def _prefetch_cells(lon, lat, grid):  # type: ignore[no-untyped-def]
    """Prefetches the cells around a position."""
    if not is_position(lon, lat):
        return
    tall, n_bands, here_lon = grid.height, grid.n_bands, around(lon)
    wide, radius = grid.wide[2 * n_bands + band_of(lat, tall, n_bands)], grid.radius[2]
    low = band_of(lat - radius, tall, n_bands)
    for band in range(low, min(low + 2, band_of(lat + radius, tall, n_bands)) + 1):
        scale = grid.per_degree[band]
        west = max(np.int64(0), np.int64((here_lon - wide) * scale))
        bucket = bucket_of(cell_of(0, band, west), grid)
        for column in range(min(np.int64(MOST_AHEAD), np.int64((here_lon + wide) * scale) - west + 1)):
            prefetch_block((bucket + column) & grid.mask, grid)


@kernel(
    two_i64(
        i64, i64, i32[::1], read_only(i64), read_only(f64), read_only(f64), f64[::1], i64[::1], u8[::1], nb.boolean,
        i64, f64, struct(Anchors), struct(Watches), struct(Rows),
    )
)  # fmt: skip
def meet(  # type: ignore[no-untyped-def]
    begin, n_before, entity, ts, lon, lat, points, rank, side, two_streams, fresh, reach_m, grid, w, out
):
    """The events of pairs among the rows from `begin` on: row, slot, rows of a and b, distance, whether a word begins.

    Rows are in order, points[row] on the unit sphere; rows without a position are skipped. `n_before` rows came
    before these: the row of an entity that reported then is -1 - entity. A slot is a word of a pair: `ended` lists
    those whose word is over, which the caller may put on the stack of `free` ones. `rank` orders the keys, `side` says
    names the stream of each entity where there are two.

    Returns (row to continue from, number written). It stops where `out` is full. Where `out` is too small for one
    event, or slots are too few, it sets counters[NEEDED] to how many it needs. Where lists have no room, it sets
    counters[LACKING].
    """
    grid, w, out = Anchors(*grid), Watches(*w), Rows(*out)
    body, lines, links, watched, counters = w.body, w.lines, w.links, w.watched, w.counters
    enough, beyond = chords(reach_m)
    enough, beyond = enough * enough, beyond * beyond
    middle, around = 0.5 * (enough + beyond), beyond - enough  # all between the two, and a little more
    room = out.row.shape[0]
    n_out = np.int64(0)
    counters[NEEDED] = counters[LACKING] = 0
    looks_ahead = body.shape[0] > WIDTH * SMALL
    row = begin
    while row < entity.shape[0]:
        if looks_ahead:
            _look_ahead(row, entity, lon, lat, points, rank, w, grid)
        if not is_position(lon[row], lat[row]):
            row += 1
            continue
        e = np.int64(entity[row])
        x, y, z = points[np.uint64(3 * row)], points[np.uint64(3 * row + 1)], points[np.uint64(3 * row + 2)]
        step = _step(e, row, points, w)
        left = body[line_of(e, LEFT)] - step
        if left < 0.0:
            dx, dy, dz = w.anchor[line_of(e, 0)] - x, w.anchor[line_of(e, 1)] - y, w.anchor[line_of(e, 2)] - z
            left = w.anchor[line_of(e, SLACK)] - math.sqrt(dx * dx + dy * dy + dz * dz)
            if w.anchor_lines[line_of(e, CELL)] < 0 or left < 0.0:
                ax, ay, az, a_lon, a_lat, slack, left = _next_anchor(e, row, step, lon, lat, points, w, grid)
                if not _anchor(e, slack, a_lon, a_lat, ax, ay, az, rank, side, two_streams, w, grid):
                    break
        length = np.int64(links[link_of(e, LENGTH)])
        if n_out + length > room or length > counters[FREE]:
            if length > room or length > counters[FREE]:
                counters[NEEDED] = length
            break
        # From here on the event changes the state.
        now = ts[row]
        first = np.int64(links[link_of(e, FIRST)])
        for place in range(first, first + length):
            j = other_of(place, w)
            slot = np.int64(watched[entry_of(place, WORD)])
            dx, dy, dz = body[line_of(j, 0)] - x, body[line_of(j, 1)] - y, body[line_of(j, 2)] - z
            square = dx * dx + dy * dy + dz * dz
            is_near = square <= enough
            if abs(square - middle) < around:  # one branch, and hardly ever taken
                is_near = metres(math.sqrt(square)) <= reach_m
            is_near &= span(now, lines[line_of(j, TIME)]) <= fresh
            at = np.uint64(n_out)
            # Writes the event in any case and counts it only if near: the processor cannot predict that branch. Words
            # seldom begin or end, so that branch is cheap.
            out.begins[at] = 0
            if is_near != (slot >= 0):
                if is_near:
                    slot = begin_word(e, place, w)
                    out.begins[at] = 1
                else:
                    end_word(place, w)
            other = lines[line_of(j, ROW)] - n_before
            other = other if other >= 0 else -1 - j
            is_a = watched[entry_of(place, OTHER)] & 1 == 1
            out.row[at], out.slot[at], out.m[at] = row, slot, square
            out.a[at] = row if is_a else other
            out.b[at] = other if is_a else row
            n_out += np.int64(is_near)
        body[line_of(e, 0)], body[line_of(e, 1)], body[line_of(e, 2)] = x, y, z
        body[line_of(e, LEFT)] = left
        lines[line_of(e, TIME)], lines[line_of(e, ROW)] = now, n_before + row
        row += 1
    if beyond < SHORT * SHORT:  # without a branch, so that four are computed at once
        for nth in range(n_out):
            out.m[nth] = short_metres(out.m[nth])
    else:
        for nth in range(n_out):
            out.m[nth] = metres(math.sqrt(out.m[nth]))
    return row, n_out


@kernel(nb.void(i64, i64, i64, struct(Anchors), struct(Watches)))
def sweep(now, fresh, n_entities, grid, w):  # type: ignore[no-untyped-def]
    """Ends the words of which no event can be one any more, and takes entities that are not fresh out of the grid."""
    grid, w = Anchors(*grid), Watches(*w)
    lines, links, watched = w.lines, w.links, w.watched
    for entity in range(n_entities):
        e = np.int64(entity)
        if span(now, lines[line_of(e, TIME)]) <= fresh:
            continue
        if w.anchor_lines[line_of(e, CELL)] >= 0:
            _unlink(e, w, grid)
            w.body[line_of(e, LEFT)] = -1.0
        room = np.int64(links[link_of(e, ROOM)])
        if room < 0:
            continue
        first = np.int64(links[link_of(e, FIRST)])
        nth = np.int64(links[link_of(e, LENGTH)])
        while nth > 0:
            nth -= 1
            has_word = watched[entry_of(first + nth, WORD)] >= 0
            # A word continues if this entity reports before the other is as old.
            if has_word and span(now, lines[line_of(other_of(first + nth, w), TIME)]) <= fresh:
                continue
            if has_word:
                end_word(first + nth, w)
            untie(e, nth, w)
        if links[link_of(e, LENGTH)] == 0:
            free_room(first, room, w)
            links[link_of(e, ROOM)] = -1


@kernel(nb.void(i64, struct(Anchors), struct(Watches)))
def rehash(n_entities, grid, w):  # type: ignore[no-untyped-def]
    """Links all entities that have a cell into an empty table."""
    grid, w = Anchors(*grid), Watches(*w)
    w.counters[SLACKS] = 0
    for entity in range(n_entities):
        e = np.int64(entity)
        if w.anchor_lines[line_of(e, CELL)] >= 0:
            _link(e, w.anchor_lines[line_of(e, CELL)], w, grid)


@kernel(i64(i32[::1], f64[::1], f64[::1], i64[::1], u8[::1], nb.boolean, struct(Anchors), struct(Watches)))
def anchor(entities, lon, lat, rank, side, two_streams, grid, w):  # type: ignore[no-untyped-def]
    """Gives these entities anchors where they are, and lists; returns how many, fewer where room is lacking."""
    grid, w = Anchors(*grid), Watches(*w)
    body = w.body
    w.counters[LACKING] = 0
    for nth in range(entities.shape[0]):
        e = np.int64(entities[nth])
        x, y, z = body[line_of(e, 0)], body[line_of(e, 1)], body[line_of(e, 2)]
        if not _anchor(e, grid.slack, lon[nth], lat[nth], x, y, z, rank, side, two_streams, w, grid):
            return nth
    return entities.shape[0]


@kernel(nb.void(i32[::1], i32[::1], i32[::1], struct(Watches)))
def take_up(slots, a, b, w):  # type: ignore[no-untyped-def]
    """Puts words into the lists of their entities."""
    w = Watches(*w)
    for nth in range(slots.shape[0]):
        slot = np.int64(slots[nth])
        w.pairs[PAIR_FIELDS * slot], w.pairs[PAIR_FIELDS * slot + 1] = a[nth], b[nth]
        first = np.int64(w.links[link_of(np.int64(a[nth]), FIRST)])
        for place in range(first, first + np.int64(w.links[link_of(np.int64(a[nth]), LENGTH)])):
            if other_of(place, w) == b[nth]:
                set_word(place, slot, w)
