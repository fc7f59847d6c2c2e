"""The entities of a cell and their anchors lie in one piece of memory: the grid of anchors.

A cell's entities lie in **blocks** of four, a line of the cache each: the x of four anchors, their y, their z, and
their codes, which are twice the entity and one more if it has slack, or -1 where a place is empty. A
bucket of the hash table is a block, and the cells of a band that lie beside each other are blocks beside each other. So
a search knows the lines that it will read before it reads any, and can prefetch them some events ahead. A cell with
more entities has more blocks: all but the last are full, none of those after the first is empty, and the last code of a
block says whether another follows (`FOLLOWED`), so that hardly any search reads `more`.

Positions have 32 bits here: that is a metre or so (`ROUNDING`), and a search takes those in that are so little too far
away. Of cells that share a bucket, the distance of its entities shows to which one an entity belongs.

*Not taken*: a chain from entity to entity through a cell, each a line of its own that only the one before it names.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wayeb_py.kernels.compiled import inlined
from wayeb_py.kernels.prefetch import prefetch
from wayeb_py.kernels.structs import F32, F64, I32
from wayeb_py.pairs.grid_kernels import hashed_bucket

IN_BLOCK = 4
BLOCK = 4 * IN_BLOCK  # numbers
CODES = 3 * IN_BLOCK  # where they begin
LAST_CODE = BLOCK - 1
FOLLOWED = 1 << 30  # in a block's last code; the rest of a code is `PLAIN`
PLAIN = FOLLOWED - 1
ROUNDING = 4e-7  # of a chord: more than three coordinates of two points lose with 32 bits


class Anchors(NamedTuple):
    """The grid of anchors, and how far an entity may be from its own."""

    reach: float  # this and the next are chords
    slack: float
    height: float  # of a cell, in degrees
    n_bands: int
    per_degree: F64  # [band]: cells a degree
    radius: F64  # of a search, in degrees, by how many of two entities have slack
    wide: F64  # [how many * n_bands + band]: by how many degrees it goes east and west
    mask: int  # the number of buckets, less one
    places: F32  # [block * BLOCK + …]
    codes: I32  # the same memory
    more: I32  # [block]: the one after it, where it is followed, or is not used
    hits: I32  # scratch


@inlined
def _at(block, field):  # type: ignore[no-untyped-def]
    return np.uint64(block * BLOCK + field)


@inlined
def bucket_of(cell, grid):  # type: ignore[no-untyped-def]
    """The first block of a cell; the cell to the east has the next one."""
    return hashed_bucket(cell, grid.mask)


@inlined
def _is_followed(block, grid):  # type: ignore[no-untyped-def]
    return grid.codes[_at(block, LAST_CODE)] >= FOLLOWED


@inlined
def prefetch_block(block, grid):  # type: ignore[no-untyped-def]
    prefetch(grid.codes, block * BLOCK)


@inlined
def _write(block, nth, x, y, z, code, grid):  # type: ignore[no-untyped-def]
    grid.places[_at(block, nth)] = x
    grid.places[_at(block, IN_BLOCK + nth)] = y
    grid.places[_at(block, 2 * IN_BLOCK + nth)] = z
    grid.codes[_at(block, CODES + nth)] = code


@inlined
def put(code, x, y, z, cell, spare, counters, grid):  # type: ignore[no-untyped-def]
    """Puts an anchor into its cell; counters[spare] is the first of the blocks that are not used."""
    block = bucket_of(cell, grid)
    while grid.codes[_at(block, LAST_CODE)] >= 0:
        if not _is_followed(block, grid):
            after = counters[spare]
            counters[spare] = np.int64(grid.more[np.uint64(after)])
            grid.more[np.uint64(block)] = after
            grid.codes[_at(block, LAST_CODE)] |= FOLLOWED
        block = np.int64(grid.more[np.uint64(block)])
    nth = 0
    while grid.codes[_at(block, CODES + nth)] >= 0:
        nth += 1
    _write(block, nth, np.float32(x), np.float32(y), np.float32(z), code, grid)


@inlined
def take_out(e, cell, spare, counters, grid):  # type: ignore[no-untyped-def]
    """Takes an entity out of its cell; the last one of the cell's blocks takes its place."""
    before, block = np.int64(-1), bucket_of(cell, grid)
    nth = 0
    while np.int64(grid.codes[_at(block, CODES + nth)] & PLAIN) >> 1 != e:
        nth += 1
        if nth == IN_BLOCK:
            before, block, nth = block, np.int64(grid.more[np.uint64(block)]), 0
    last = block
    while _is_followed(last, grid):
        before, last = last, np.int64(grid.more[np.uint64(last)])
    end = IN_BLOCK - 1
    while grid.codes[_at(last, CODES + end)] < 0:
        end -= 1
    followed = grid.codes[_at(block, CODES + nth)] & FOLLOWED
    _write(
        block, nth, grid.places[_at(last, end)], grid.places[_at(last, IN_BLOCK + end)],
        grid.places[_at(last, 2 * IN_BLOCK + end)], grid.codes[_at(last, CODES + end)] | followed, grid,
    )  # fmt: skip
    grid.codes[_at(last, CODES + end)] = -1
    if end == 0 and before >= 0:
        grid.codes[_at(before, LAST_CODE)] &= PLAIN
        grid.more[np.uint64(last)] = counters[spare]
        counters[spare] = last


@inlined
def find_near(block, x, y, z, near, near_slack, n_hits, grid):  # type: ignore[no-untyped-def]
    """Adds the entities of a bucket that are near to `hits`, by the squares of how near those without and those with
    slack have to be; returns how many there are then."""
    while block >= 0:
        for nth in range(IN_BLOCK):  # without a branch, which the processor could not predict
            dx = grid.places[_at(block, nth)] - x
            dy = grid.places[_at(block, IN_BLOCK + nth)] - y
            dz = grid.places[_at(block, 2 * IN_BLOCK + nth)] - z
            code = grid.codes[_at(block, CODES + nth)]
            grid.hits[np.uint64(n_hits)] = (code & PLAIN) >> 1
            is_near = dx * dx + dy * dy + dz * dz <= (near_slack if code & 1 == 1 else near)
            n_hits += np.int64(is_near & (code >= 0))
        block = np.int64(grid.more[np.uint64(block)]) if _is_followed(block, grid) else np.int64(-1)
    return n_hits
