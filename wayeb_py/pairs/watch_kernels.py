"""The compiled loop that finds who is near whom by watching: every entity has a list of those that could come within
reach of it soon, and an event looks at its own entity's list alone.

An entity has an **anchor**, a position that it had lately. It gets another one when it is farther than the slack from
it. Two whose anchors are within the reach and twice the slack watch each other, so whoever is within reach of an
entity is in its list: by the triangle, along chords of the unit sphere. The grid holds anchors; only an entity that
gets a new one searches it. A list lies in one piece, and holds whether the pair's word goes on, so that an event costs
a distance for each entry and no search. Vessels that report every ten seconds get a new anchor at every sixth event.

*Not taken*: a search of the grid at every event, which follows a chain of a cell's entities nine times and has to find
out which of them it knows: four times the time. Anchors for projected entities, which move between their events: see
`grid_kernels`.

body[entity] is two lines of the cache. The first is what others look at: x, y, z, as `lines` time and row, as `links`
(of half the size) where its list begins, how long it is, which room it has. The second: the anchor's x, y, z, its cell,
a mark; next and before in the cell. An entry of a list, of four numbers in `watched`: the other, the slot of the pair's
word or -1, its place in the other's list, whether this one is a. Lists of one room are chained where they are free.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import f64, i32, i64, kernel, read_only, subroutine, two_i64, u8
from wayeb_py.kernels.prefetch import prefetch
from wayeb_py.kernels.structs import F64, I32, I64, U8, struct
from wayeb_py.kernels.ticks import span
from wayeb_py.pairs.grid_kernels import ENDED, EPOCH, FREE, NEEDED, _around, _band, _bucket, _cell, _metres
from wayeb_py.spatial.kernels.index import chords, is_position, metres

WIDTH = 16  # of body
TIME, ROW, CELL, MARK = 3, 4, 11, 12  # as lines
FIRST, LENGTH, ROOM, NEXT, BEFORE = 10, 11, 12, 26, 27  # as links
OTHER, WORD, MIRROR, IS_A, ENTRY = 0, 1, 2, 3, 4  # of an entry, and how many numbers it has
PAIR_FIELDS = 2
LACKING, USED, ROOMS, N_ROOMS = 4, 5, 6, 30  # of counters, after those of all searches
SMALLEST = 4  # entries: one line of the cache
SMALL = 2048  # so many entities are in the cache anyway
FAR, NEAR, NEXT_ROWS = 24, 12, 4  # so many rows ahead


class Anchors(NamedTuple):
    """The grid of anchors, and how far an entity may be from its own."""

    slack: float  # this and the next are chords
    watch: float
    height: float  # of a cell, in degrees
    n_bands: int
    per_degree: F64  # [band]: cells a degree
    wide_of_band: F64  # by how many degrees a search goes east and west
    head: I32  # [bucket]: an entity, or -1


class Watches(NamedTuple):
    """Entities, their lists, and the words of pairs."""

    body: F64
    lines: I64
    links: I32
    watched: I32
    pairs: I32  # [slot]: a, b
    free: I32
    ended: I32
    counters: I64


class Rows(NamedTuple):
    """Where the events of pairs are written."""

    row: I32
    slot: I32
    a: I64
    b: I64
    m: F64
    begins: U8


@nb.njit(nogil=True, inline="always")
def _of(entity, field):  # type: ignore[no-untyped-def]
    """Where a field of body, or of lines, is; without a sign, which every use of an index would look at."""
    return np.uint64(entity * WIDTH + field)


@nb.njit(nogil=True, inline="always")
def _link_of(entity, field):  # type: ignore[no-untyped-def]
    return np.uint64(entity * (2 * WIDTH) + field)


@nb.njit(nogil=True, inline="always")
def _entry_of(place, field):  # type: ignore[no-untyped-def]
    return np.uint64(place * ENTRY + field)


@subroutine
def _link(e, cell, w, head):  # type: ignore[no-untyped-def]
    bucket = _bucket(cell, head.shape[0] - 1)
    after = np.int64(head[bucket])
    w.lines[_of(e, CELL)] = cell
    w.links[_link_of(e, NEXT)], w.links[_link_of(e, BEFORE)] = after, -1 - bucket
    head[bucket] = e
    if after >= 0:
        w.links[_link_of(after, BEFORE)] = e


@subroutine
def _unlink(e, w, head):  # type: ignore[no-untyped-def]
    after, before = np.int64(w.links[_link_of(e, NEXT)]), np.int64(w.links[_link_of(e, BEFORE)])
    if before >= 0:
        w.links[_link_of(before, NEXT)] = after
    else:
        head[-1 - before] = after
    if after >= 0:
        w.links[_link_of(after, BEFORE)] = before
    w.lines[_of(e, CELL)] = -1


@subroutine
def _has_room(e, w):  # type: ignore[no-untyped-def]
    """Whether an entry more fits into the list, which moves to twice the room where it is full."""
    links, watched, counters = w.links, w.watched, w.counters
    room, length = np.int64(links[_link_of(e, ROOM)]), np.int64(links[_link_of(e, LENGTH)])
    if room >= 0 and length < SMALLEST << room:
        return True
    size = np.int64(SMALLEST) << (room + 1)
    first = counters[ROOMS + room + 1]
    if first >= 0:
        counters[ROOMS + room + 1] = watched[_entry_of(first, 0)]
    else:
        first = counters[USED]
        if (first + size) * ENTRY > watched.shape[0]:
            counters[LACKING] = size
            return False
        counters[USED] += size
    if room >= 0:
        old = np.int64(links[_link_of(e, FIRST)])
        for nth in range(length * ENTRY):
            watched[_entry_of(first, nth)] = watched[_entry_of(old, nth)]
        _free_room(old, room, w)
    links[_link_of(e, FIRST)], links[_link_of(e, ROOM)] = first, room + 1
    return True


@subroutine
def _free_room(first, room, w):  # type: ignore[no-untyped-def]
    w.watched[_entry_of(first, 0)] = w.counters[ROOMS + room]
    w.counters[ROOMS + room] = first


@subroutine
def _add(e, other, mirror, is_a, w):  # type: ignore[no-untyped-def]
    length = np.int64(w.links[_link_of(e, LENGTH)])
    place = np.int64(w.links[_link_of(e, FIRST)]) + length
    w.watched[_entry_of(place, OTHER)], w.watched[_entry_of(place, WORD)] = other, -1
    w.watched[_entry_of(place, MIRROR)], w.watched[_entry_of(place, IS_A)] = mirror, is_a
    w.links[_link_of(e, LENGTH)] = length + 1


@subroutine
def _tie(e, j, e_is_a, w):  # type: ignore[no-untyped-def]
    """Two watch each other from here on; False where a list has no room."""
    if not _has_room(e, w) or not _has_room(j, w):
        return False
    length = np.int64(w.links[_link_of(e, LENGTH)])
    _add(e, j, np.int64(w.links[_link_of(j, LENGTH)]), np.int64(e_is_a), w)
    _add(j, e, length, 1 - np.int64(e_is_a), w)
    return True


@subroutine
def _remove(e, nth, w):  # type: ignore[no-untyped-def]
    """Takes an entry out of a list; the last one takes its place."""
    links, watched = w.links, w.watched
    last = np.int64(links[_link_of(e, LENGTH)]) - 1
    links[_link_of(e, LENGTH)] = last
    if nth != last:
        first = np.int64(links[_link_of(e, FIRST)])
        for field in range(ENTRY):
            watched[_entry_of(first + nth, field)] = watched[_entry_of(first + last, field)]
        other = np.int64(watched[_entry_of(first + nth, OTHER)])
        mirror = np.int64(links[_link_of(other, FIRST)]) + np.int64(watched[_entry_of(first + nth, MIRROR)])
        watched[_entry_of(mirror, MIRROR)] = nth


@subroutine
def _untie(e, nth, w):  # type: ignore[no-untyped-def]
    place = np.int64(w.links[_link_of(e, FIRST)]) + nth
    other, mirror = np.int64(w.watched[_entry_of(place, OTHER)]), np.int64(w.watched[_entry_of(place, MIRROR)])
    _remove(other, mirror, w)
    _remove(e, nth, w)


@subroutine
def _set_word(place, slot, w):  # type: ignore[no-untyped-def]
    """The pair's word, in the lists of both."""
    other, mirror = np.int64(w.watched[_entry_of(place, OTHER)]), np.int64(w.watched[_entry_of(place, MIRROR)])
    w.watched[_entry_of(place, WORD)] = slot
    w.watched[_entry_of(np.int64(w.links[_link_of(other, FIRST)]) + mirror, WORD)] = slot


@subroutine
def _end(place, w):  # type: ignore[no-untyped-def]
    slot = np.int64(w.watched[_entry_of(place, WORD)])
    _set_word(place, np.int64(-1), w)
    w.pairs[PAIR_FIELDS * slot] = -1
    w.ended[w.counters[ENDED]] = slot
    w.counters[ENDED] += 1


@subroutine
def _begin(e, place, w):  # type: ignore[no-untyped-def]
    w.counters[FREE] -= 1
    slot = np.int64(w.free[w.counters[FREE]])
    _set_word(place, slot, w)
    j = np.int64(w.watched[_entry_of(place, OTHER)])
    is_a = w.watched[_entry_of(place, IS_A)] > 0
    w.pairs[PAIR_FIELDS * slot], w.pairs[PAIR_FIELDS * slot + 1] = (e, j) if is_a else (j, e)
    return slot


@subroutine
def _anchor(e, lon, lat, x, y, z, rank, side, two_streams, w, grid):  # type: ignore[no-untyped-def]
    """Gives an entity an anchor and the list that belongs to it; False, with nothing spoilt, where room is lacking."""
    body, lines, links, watched = w.body, w.lines, w.links, w.watched
    if lines[_of(e, CELL)] >= 0:
        _unlink(e, w, grid.head)
    body[_of(e, 8)], body[_of(e, 9)], body[_of(e, 10)] = x, y, z
    watch = grid.watch * grid.watch
    w.counters[EPOCH] += 1
    epoch = w.counters[EPOCH]
    lines[_of(e, MARK)] = epoch
    first = np.int64(links[_link_of(e, FIRST)])
    nth = np.int64(links[_link_of(e, LENGTH)])
    while nth > 0:  # backwards: whatever takes an entry's place has been looked at
        nth -= 1
        j = np.int64(watched[_entry_of(first + nth, OTHER)])
        dx, dy, dz = body[_of(j, 8)] - x, body[_of(j, 9)] - y, body[_of(j, 10)] - z
        lines[_of(j, MARK)] = epoch
        # One that is not in the grid has not reported for long: this event ends the word.
        if lines[_of(j, CELL)] < 0 or dx * dx + dy * dy + dz * dz > watch:
            if watched[_entry_of(first + nth, WORD)] >= 0:
                _end(first + nth, w)
            _untie(e, nth, w)
    head = grid.head
    mask = head.shape[0] - 1
    tall, n_bands = grid.height, grid.n_bands
    here_lon = _around(lon)
    own_band = _band(lat, tall, n_bands)
    wide = grid.wide_of_band[own_band]
    for band in range(_band(lat - tall * (1.0 + 1e-9), tall, n_bands), _band(lat + tall * (1.0 + 1e-9), tall, n_bands) + 1):
        scale = grid.per_degree[band]
        n_cells = np.int64(scale * 360.0 + 0.5)
        west, last = np.int64(0), n_cells - 1
        if 2.0 * wide * n_cells < 360.0 * (n_cells - 1):
            west, last = np.int64(math.floor((here_lon - wide) * scale)), np.int64(math.floor((here_lon + wide) * scale))
            if last - west >= n_cells:
                west, last = np.int64(0), n_cells - 1
        first_cell = _cell(0, band, np.int64(0))
        first_bucket = _bucket(first_cell, mask)
        for nth in range(west, last + 1):
            place = nth + n_cells if nth < 0 else nth - n_cells if nth >= n_cells else nth
            j = np.int64(head[(first_bucket + place) & mask])
            while j >= 0:
                dx, dy, dz = body[_of(j, 8)] - x, body[_of(j, 9)] - y, body[_of(j, 10)] - z
                near = (dx * dx + dy * dy + dz * dz <= watch) & (lines[_of(j, CELL)] == first_cell + place)
                if near and lines[_of(j, MARK)] != epoch and not (two_streams and side[j] == side[e]):
                    if not _tie(e, j, side[e] < side[j] if two_streams else rank[e] < rank[j], w):
                        return False
                j = np.int64(links[_link_of(j, NEXT)])
    scale = grid.per_degree[own_band]
    _link(e, _cell(0, own_band, min(np.int64(here_lon * scale), np.int64(scale * 360.0 + 0.5) - 1)), w, head)
    return True


@nb.njit(nogil=True, inline="always")
def _look_ahead(row, entity, w):  # type: ignore[no-untyped-def]
    """Asks for what the events after this one will look at: their own lines, their lists, those whom they watch."""
    far, near, soon = row + FAR, row + NEAR, row + NEXT_ROWS
    if far < entity.shape[0]:
        prefetch(w.body, np.int64(entity[far]) * WIDTH)
        prefetch(w.body, np.int64(entity[far]) * WIDTH + 8)
    if near < entity.shape[0]:
        e = np.int64(entity[near])
        first = np.int64(w.links[_link_of(e, FIRST)])
        for place in range(first, first + np.int64(w.links[_link_of(e, LENGTH)]), SMALLEST):
            prefetch(w.watched, place * ENTRY)
    if soon < entity.shape[0]:
        e = np.int64(entity[soon])
        first = np.int64(w.links[_link_of(e, FIRST)])
        for place in range(first, first + np.int64(w.links[_link_of(e, LENGTH)])):
            prefetch(w.body, np.int64(w.watched[_entry_of(place, OTHER)]) * WIDTH)


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

    Rows are in order, points[row] on the unit sphere; those without a position are passed over. `n_before` rows came
    before these: of an entity that reported then the row is -1 - entity. A slot is a word of a pair: `ended` lists those
    whose word is over, which the caller may put on the stack of `free` ones. `rank` orders the keys, `side` says whose
    stream it is where there are two.

    Returns (row to go on from, number written): it stops where `out` is full, or, with counters[NEEDED] set to how
    many, where it is too small or slots are too few, or, with counters[LACKING] set, where lists have no room.
    """
    grid, w, out = Anchors(*grid), Watches(*w), Rows(*out)
    body, lines, links, watched, counters = w.body, w.lines, w.links, w.watched, w.counters
    enough, beyond = chords(reach_m)
    enough, beyond = enough * enough, beyond * beyond
    slack = grid.slack * grid.slack
    room = out.row.shape[0]
    n_out = np.int64(0)
    counters[NEEDED] = counters[LACKING] = 0
    looks_ahead = body.shape[0] > WIDTH * SMALL
    row = begin
    while row < entity.shape[0]:
        if looks_ahead:
            _look_ahead(row, entity, w)
        if not is_position(lon[row], lat[row]):
            row += 1
            continue
        e = np.int64(entity[row])
        x, y, z = points[np.uint64(3 * row)], points[np.uint64(3 * row + 1)], points[np.uint64(3 * row + 2)]
        dx, dy, dz = body[_of(e, 8)] - x, body[_of(e, 9)] - y, body[_of(e, 10)] - z
        if lines[_of(e, CELL)] < 0 or dx * dx + dy * dy + dz * dz > slack:
            if not _anchor(e, lon[row], lat[row], x, y, z, rank, side, two_streams, w, grid):
                break
        length = np.int64(links[_link_of(e, LENGTH)])
        if n_out + length > room or length > counters[FREE]:
            if length > room or length > counters[FREE]:
                counters[NEEDED] = length
            break
        # From here on the event has come.
        now = ts[row]
        first = np.int64(links[_link_of(e, FIRST)])
        for place in range(first, first + length):
            j = np.int64(watched[_entry_of(place, OTHER)])
            slot = np.int64(watched[_entry_of(place, WORD)])
            dx, dy, dz = body[_of(j, 0)] - x, body[_of(j, 1)] - y, body[_of(j, 2)] - z
            square = dx * dx + dy * dy + dz * dz
            is_near = square <= enough
            if enough < square < beyond:
                is_near = metres(math.sqrt(square)) <= reach_m
            is_near &= span(now, lines[_of(j, TIME)]) <= fresh
            at = np.uint64(n_out)
            # Written in any case, and counted if near: which one is cannot be foretold. Words seldom begin or end.
            out.begins[at] = 0
            if is_near != (slot >= 0):
                if is_near:
                    slot = _begin(e, place, w)
                    out.begins[at] = 1
                else:
                    _end(place, w)
            other = lines[_of(j, ROW)] - n_before
            other = other if other >= 0 else -1 - j
            is_a = watched[_entry_of(place, IS_A)] > 0
            out.row[at], out.slot[at], out.m[at] = row, slot, square
            out.a[at] = row if is_a else other
            out.b[at] = other if is_a else row
            n_out += np.int64(is_near)
        body[_of(e, 0)], body[_of(e, 1)], body[_of(e, 2)] = x, y, z
        lines[_of(e, TIME)], lines[_of(e, ROW)] = now, n_before + row
        row += 1
    for nth in range(n_out):
        out.m[nth] = _metres(math.sqrt(out.m[nth]))
    return row, n_out


@kernel(nb.void(i64, i64, i64, i32[::1], struct(Watches)))
def sweep(now, fresh, n_entities, head, w):  # type: ignore[no-untyped-def]
    """Ends the words of which no event can be one any more, and takes entities that are not fresh out of the grid."""
    w = Watches(*w)
    lines, links, watched = w.lines, w.links, w.watched
    for entity in range(n_entities):
        e = np.int64(entity)
        if span(now, lines[_of(e, TIME)]) <= fresh:
            continue
        if lines[_of(e, CELL)] >= 0:
            _unlink(e, w, head)
        room = np.int64(links[_link_of(e, ROOM)])
        if room < 0:
            continue
        first = np.int64(links[_link_of(e, FIRST)])
        nth = np.int64(links[_link_of(e, LENGTH)])
        while nth > 0:
            nth -= 1
            has_word = watched[_entry_of(first + nth, WORD)] >= 0
            # A word goes on if this one reports before the other is as old.
            if has_word and span(now, lines[_of(np.int64(watched[_entry_of(first + nth, OTHER)]), TIME)]) <= fresh:
                continue
            if has_word:
                _end(first + nth, w)
            _untie(e, nth, w)
        if links[_link_of(e, LENGTH)] == 0:
            _free_room(first, room, w)
            links[_link_of(e, ROOM)] = -1


@kernel(nb.void(i64, i32[::1], struct(Watches)))
def rehash(n_entities, head, w):  # type: ignore[no-untyped-def]
    """Links all entities that have a cell into an empty table."""
    w = Watches(*w)
    for entity in range(n_entities):
        e = np.int64(entity)
        if w.lines[_of(e, CELL)] >= 0:
            _link(e, w.lines[_of(e, CELL)], w, head)


@kernel(i64(i32[::1], f64[::1], f64[::1], i64[::1], u8[::1], nb.boolean, struct(Anchors), struct(Watches)))
def anchor(entities, lon, lat, rank, side, two_streams, grid, w):  # type: ignore[no-untyped-def]
    """Gives these entities anchors where they are, and lists; returns how many, fewer where room is lacking."""
    grid, w = Anchors(*grid), Watches(*w)
    body = w.body
    w.counters[LACKING] = 0
    for nth in range(entities.shape[0]):
        e = np.int64(entities[nth])
        x, y, z = body[_of(e, 0)], body[_of(e, 1)], body[_of(e, 2)]
        if not _anchor(e, lon[nth], lat[nth], x, y, z, rank, side, two_streams, w, grid):
            return nth
    return entities.shape[0]


@kernel(nb.void(i32[::1], i32[::1], i32[::1], struct(Watches)))
def take_up(slots, a, b, w):  # type: ignore[no-untyped-def]
    """Puts words into the lists of their entities."""
    w = Watches(*w)
    for nth in range(slots.shape[0]):
        slot = np.int64(slots[nth])
        w.pairs[PAIR_FIELDS * slot], w.pairs[PAIR_FIELDS * slot + 1] = a[nth], b[nth]
        first = np.int64(w.links[_link_of(np.int64(a[nth]), FIRST)])
        for place in range(first, first + np.int64(w.links[_link_of(np.int64(a[nth]), LENGTH)])):
            if w.watched[_entry_of(place, OTHER)] == b[nth]:
                _set_word(place, slot, w)
