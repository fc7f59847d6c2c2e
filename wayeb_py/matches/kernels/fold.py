"""Values of events become measures of matches: each match folds its events from the first to the last, in that order.

A match that began before the chunk continues from what was folded up to its end. So the additions of a sum are the same
ones, in the same order, however the events are cut.
"""

from __future__ import annotations

from typing import NamedTuple

import numba as nb

from wayeb_py.kernels.compiled import i32, i64, kernel
from wayeb_py.kernels.structs import F64, I32, I64, U8, struct

SUM, SUM_AFTER_FIRST, MIN, MAX, MIN_INTEGER, MAX_INTEGER, FIRST, COUNT = range(8)


class FoldedValues(NamedTuple):
    """What is folded: values of all events of the chunk, [fold * n + row], by their bits, and which are not missing."""

    function: U8  # [fold]
    integer: I64
    real: F64  # the bits of `integer` as floats
    present: U8


class FoldedMatches(NamedTuple):
    """Matches in the order of entity, start and end: places of their events in `order`, the rows by entity and time."""

    order: I32
    begin: I64
    end: I64
    entity: I32
    start_seq: I64
    is_older: U8  # it began before the chunk


class FoldedStarts(NamedTuple):
    """What was folded up to the chunk for each start that may still be that of a match: lists by entity."""

    first: I64
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


_STRUCTS = FoldedValues, FoldedMatches, FoldedStarts, FoldResults


@kernel(nb.void(i64, *map(struct, _STRUCTS)))
def fold_matches(n_matches, values, matches, starts, results):  # type: ignore[no-untyped-def]
    """Folds each match; a match with the start of the previous one continues from there."""
    values, matches = FoldedValues(*values), FoldedMatches(*matches)
    starts, results = FoldedStarts(*starts), FoldResults(*results)
    n = matches.order.shape[0]
    n_folds = values.function.shape[0]
    for match in range(n_matches):
        e = matches.entity[match]
        begin = matches.begin[match]
        old = -1
        # Two words of an entity in one chunk have events of the same number: the index distinguishes them.
        goes_on = match > 0 and matches.entity[match - 1] == e and matches.begin[match - 1] == begin
        goes_on = goes_on and matches.start_seq[match - 1] == matches.start_seq[match]
        if goes_on:
            begin = matches.end[match - 1] + 1
        elif matches.is_older[match] != 0:
            for slot in range(starts.first[e], starts.first[e] + starts.length[e]):
                if starts.seq[slot] == matches.start_seq[match]:
                    old = slot
        for fold in range(n_folds):
            function = values.function[fold]
            at = match * n_folds + fold
            is_integer = function >= MIN_INTEGER
            integer, real, seen = 0, 0.0, 0
            if goes_on:
                seen = results.seen[at - n_folds]
                if is_integer:
                    integer = results.integer[at - n_folds]
                else:
                    real = results.real[at - n_folds]
            elif old >= 0:
                seen = starts.seen[old * n_folds + fold]
                if is_integer:
                    integer = starts.integer[old * n_folds + fold]
                else:
                    real = starts.real[old * n_folds + fold]
            own = fold * n
            place = begin
            if not goes_on and old < 0:
                if function == FIRST:
                    row = own + matches.order[begin]
                    integer, seen = values.integer[row], values.present[row]
                elif function == SUM_AFTER_FIRST:
                    seen = 1
                    place += 1
            while place <= matches.end[match]:
                row = own + matches.order[place]
                place += 1
                if function == FIRST:
                    break
                if values.present[row] == 0:
                    continue
                if function <= SUM_AFTER_FIRST:
                    real += values.real[row]
                elif function == MIN:
                    if seen == 0 or values.real[row] < real:
                        real = values.real[row]
                elif function == MAX:
                    if seen == 0 or values.real[row] > real:
                        real = values.real[row]
                elif function == MIN_INTEGER:
                    if seen == 0 or values.integer[row] < integer:
                        integer = values.integer[row]
                elif function == MAX_INTEGER and (seen == 0 or values.integer[row] > integer):
                    integer = values.integer[row]
                seen += 1
            results.seen[at] = seen
            if is_integer:
                results.integer[at] = integer
            else:
                results.real[at] = real


@kernel(i64(i32[::1], i32[::1], i32[::1], i64[::1], i64[::1], i32[::1], i64[::1], i32[::1]))
def rows_by_word(entity, link, order, place, which, owner, first, last_row):  # type: ignore[no-untyped-def]
    """The rows of a chunk, word after word as these first appear, in the order of each; returns the number of words.

    link[row] is the word's previous row, or less than 0. order[place[row]] = row; which[row] is the number of its word
    here, owner[which] the word's entity, first[which] its first place, last_row[which] its last row.
    """
    n = entity.shape[0]
    n_owners = 0
    for row in range(n):
        if link[row] < 0:
            which[row] = n_owners
            owner[n_owners] = entity[row]
            first[n_owners] = 0
            n_owners += 1
        else:
            which[row] = which[link[row]]
        last_row[which[row]] = row
        first[which[row]] += 1
    begin = 0
    for one in range(n_owners):
        begin, first[one] = begin + first[one], begin
    for row in range(n):
        one = which[row]
        if link[row] < 0:
            place[row] = first[one]
        else:
            place[row] = place[link[row]] + 1
        order[place[row]] = row
    return n_owners
