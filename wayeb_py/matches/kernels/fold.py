"""Values of events become measures of matches: each match folds its events from the first to the last, in that order.

A match that began before the chunk continues from what was folded up to its end. So the additions of a sum are the same
ones, in the same order, however the events are cut. Its events are found from its last one backwards, by their links:
what is not in a match costs nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wayeb_py.kernels.compiled import i32, i64, inlined, kernel
from wayeb_py.kernels.structs import F64, I32, I64, U8, U16, struct

SUM, SUM_AFTER_FIRST, MIN, MAX, MIN_INTEGER, MAX_INTEGER, FIRST, COUNT = range(8)


class FoldedValues(NamedTuple):
    """What is folded: values of all events of the chunk, [fold * n + row], by their bits, and which are not missing."""

    function: U8  # [fold]
    integer: I64
    real: F64  # the bits of `integer` as floats
    present: U8


class FoldedMatches(NamedTuple):
    """Matches in the order of their last rows and, of one row, of their starts."""

    row: I32
    start_seq: I64


class FoldedRows(NamedTuple):
    """The rows of a chunk, each linked to that of its entity's event before; and room for the folding of one match."""

    entity: I32
    link: I32
    seq: I64
    ends: U8  # [row // 8], a bit each: a match ends there; 0 between two calls
    way: I32  # the rows of one match, the last one first


class EndOfChunk(NamedTuple):
    """The last event of each entity of the chunk, and which starts are alive after it, entity after entity."""

    row: I32
    entity: I32
    seq: I64
    n_alive: I64
    alive_seq: I64


class FoldedStarts(NamedTuple):
    """What was folded up to the chunk for each start that may still be that of a match: lists by entity."""

    first: I64
    room: I64
    length: I64
    seq: I64
    integer: I64  # [slot * n_folds + fold]
    real: F64  # the bits of `integer` as floats
    seen: I64


class FoldResults(NamedTuple):
    """What each match folds to, [match * n_folds + fold], and of how many values."""

    integer: I64
    real: F64  # the bits of `integer` as floats
    seen: I64


class LiveStarts(NamedTuple):
    """Which starts are alive in a state of a group: the last events, as many as `ages` says, and some registers."""

    ages: I64  # [state]
    first: I64  # [state]: its registers are `register[first[state]]` to first[state + 1]
    register: I64
    state: U16  # [entity]
    register_seq: I64  # [entity * n_registers + register]
    n_registers: int


_STRUCTS = FoldedValues, FoldedMatches, FoldedRows, EndOfChunk, FoldedStarts, FoldResults


@inlined
def _same_start(row, start, end, matches):  # type: ignore[no-untyped-def]
    """The first match up to `end` that ends at this row and has this start; -1 where there is none."""
    low, high = 0, end
    while low < high:
        middle = (low + high) // 2
        other = matches.row[middle]
        if other < row or (other == row and matches.start_seq[middle] < start):
            low = middle + 1
        else:
            high = middle
    if low < end and matches.row[low] == row and matches.start_seq[low] == start:
        return low
    return -1


@inlined
def _fold(at, e, row, length, start, before, values, matches, rows, starts, results):  # type: ignore[no-untyped-def]
    """Folds the `length` events from a start to a row into result `at`; matches up to `before` are folded already."""
    n = rows.link.shape[0]
    n_folds = values.function.shape[0]
    n_way = 0
    source, old = -1, -1
    place = np.int64(row)
    while True:
        if rows.ends[place >> 3] >> (place & 7) & 1 != 0:
            source = _same_start(place, start, before, matches)
            if source >= 0:  # from which this one goes on
                break
        rows.way[n_way] = place
        n_way += 1
        if n_way == length:
            break
        place = np.int64(rows.link[place])
        if place < 0:
            for slot in range(starts.first[e], starts.first[e] + starts.length[e]):
                if starts.seq[slot] == start:
                    old = slot
            break
    for fold in range(n_folds):
        function = values.function[fold]
        is_integer = function >= MIN_INTEGER
        own = fold * n
        integer, real, seen = np.int64(0), 0.0, np.int64(0)
        left = n_way
        if source >= 0:
            kept = source * n_folds + fold
            seen = results.seen[kept]
            if is_integer:
                integer = results.integer[kept]
            else:
                real = results.real[kept]
        elif old >= 0:
            kept = old * n_folds + fold
            seen = starts.seen[kept]
            if is_integer:
                integer = starts.integer[kept]
            else:
                real = starts.real[kept]
        elif function == FIRST:
            first = own + rows.way[n_way - 1]
            integer, seen = values.integer[first], np.int64(values.present[first])
        elif function == SUM_AFTER_FIRST:
            seen = np.int64(1)
            left -= 1
        if function == FIRST:
            left = 0
        while left > 0:
            left -= 1
            value = own + rows.way[left]
            if is_integer:
                if values.present[value] == 0:
                    continue
                if function == MIN_INTEGER:
                    if seen == 0 or values.integer[value] < integer:
                        integer = values.integer[value]
                elif function == MAX_INTEGER and (seen == 0 or values.integer[value] > integer):
                    integer = values.integer[value]
            else:
                number = values.real[value]
                if number != number:  # NaN, which is missing
                    continue
                if function <= SUM_AFTER_FIRST:
                    real += number
                elif seen == 0 or (number < real if function == MIN else number > real):
                    real = number
            seen += 1
        results.seen[at * n_folds + fold] = seen
        if is_integer:
            results.integer[at * n_folds + fold] = integer
        else:
            results.real[at * n_folds + fold] = real


@kernel(i64(i64, *map(struct, _STRUCTS)))
def fold_matches(begin, values, matches, rows, ends, starts, results):  # type: ignore[no-untyped-def]
    """Folds each match, one with the start of a match before it from there on, and then what is still alive.

    What is alive is kept in the lists of its entities. Returns the number of entities, or -1 - the number of the one
    whose list has too little room: it is called again from there (`begin`), the matches being folded already.
    """
    values, matches, rows = FoldedValues(*values), FoldedMatches(*matches), FoldedRows(*rows)
    ends, starts, results = EndOfChunk(*ends), FoldedStarts(*starts), FoldResults(*results)
    n_matches = matches.row.shape[0]
    n_folds = values.function.shape[0]
    for match in range(n_matches):
        row = matches.row[match]
        rows.ends[row >> 3] |= np.uint8(1 << (row & 7))
    if begin == 0:
        for match in range(n_matches):
            row, start = matches.row[match], matches.start_seq[match]
            length = rows.seq[row] - start + 1
            _fold(match, rows.entity[row], row, length, start, match, values, matches, rows, starts, results)
    at = 0
    for nth in range(begin):
        at += ends.n_alive[nth]
    done = begin
    for nth in range(begin, ends.row.shape[0]):
        e = ends.entity[nth]
        n_alive = ends.n_alive[nth]
        if n_alive == 0:
            if starts.length[e] != 0:
                starts.length[e] = 0
            done = nth + 1
            continue
        if n_alive > starts.room[e]:
            done = -1 - nth
            break
        for one in range(n_alive):
            start = ends.alive_seq[at + one]
            length = ends.seq[nth] - start + 1
            last = n_matches + one
            _fold(last, e, ends.row[nth], length, start, n_matches, values, matches, rows, starts, results)
        slot = starts.first[e]
        for one in range(n_alive):
            starts.seq[slot + one] = ends.alive_seq[at + one]
        for one in range(n_alive * n_folds):
            starts.integer[slot * n_folds + one] = results.integer[n_matches * n_folds + one]
            starts.seen[slot * n_folds + one] = results.seen[n_matches * n_folds + one]
        starts.length[e] = n_alive
        at += n_alive
        done = nth + 1
    for match in range(n_matches):
        rows.ends[matches.row[match] >> 3] = 0
    return done


@kernel(i64(i32[::1], i64[::1], i32[::1], i32[::1], i32[::1], i64[::1]))
def last_events(entity, seq, behind, last_row, last_entity, last_seq):  # type: ignore[no-untyped-def]
    """The last event of each entity of a chunk; returns how many there are. `behind`, by entity, is 0 before and after.

    They come in the order of the entities, in which what is kept of these lies, unless most of them are not there.
    """
    n_rows = entity.shape[0]
    for row in range(n_rows):
        behind[np.uint64(entity[row])] = np.int32(row + 1)
    n = 0
    is_sparse = behind.shape[0] > 8 * n_rows
    for at in range(n_rows if is_sparse else behind.shape[0]):
        e = np.int64(entity[at]) if is_sparse else np.int64(at)
        last = np.int64(behind[e]) - 1
        if last < 0 or (is_sparse and last != at):
            continue
        behind[e] = 0
        last_row[n] = last
        last_entity[n] = e
        last_seq[n] = seq[last]
        n += 1
    return n


@kernel(i64(i32[::1], i64[::1], struct(LiveStarts), i64[::1], i64[::1]))
def list_alive(last_entity, last_seq, live, n_alive, alive_seq):  # type: ignore[no-untyped-def]
    """The starts that are alive after the last events of entities, each once; returns how many there are."""
    live = LiveStarts(*live)
    n = 0
    for nth in range(last_entity.shape[0]):
        e = np.uint64(last_entity[nth])
        state = np.uint64(live.state[e])
        begin = n
        last = last_seq[nth]
        for age in range(min(live.ages[state], last + 1)):
            alive_seq[n] = last - age
            n += 1
        n_aged = n
        for item in range(live.first[state], live.first[state + np.uint64(1)]):
            start = live.register_seq[np.int64(e) * live.n_registers + live.register[item]]
            is_known = n_aged > begin and start >= alive_seq[n_aged - 1]
            for other in range(n_aged, n):
                is_known = is_known or alive_seq[other] == start
            if not is_known:
                alive_seq[n] = start
                n += 1
        n_alive[nth] = n - begin
    return n
