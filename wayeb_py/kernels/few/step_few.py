"""A few events become detections in one call, or are skipped: keys, order, cells, codes and the step of a group, event
after event.

The loops for large batches run one after the other over a chunk, and each call costs as much as hundreds of
events; here one call does for each event what they do for all, and leaves the same state behind. Whatever is rare (an
entity that is new, an event that is late or repeats a time, an output that is full) ends the call before its event has
changed anything: the loops for large batches go on from there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wayeb_py.kernels.compiled import i64, inlined, kernel, two_i64, u8
from wayeb_py.kernels.keys import AS_THEY_ARE, DIRECTLY, KnownKeys, first_slot
from wayeb_py.kernels.step_parts import (
    ChunkRows,
    DetectionArrays,
    RegisterMoves,
    is_within,
    move_registers,
    start_of,
    write,
)
from wayeb_py.kernels.step_tables import KeptStates, ProductTables, ReportLists, Windows
from wayeb_py.kernels.structs import F64, I32, I64, U8, U16, struct
from wayeb_py.kernels.ticks import NEVER, span

# What the cell of an axis is found from.
GIVEN, NUMBER, INTEGER, ELAPSED = 0, 1, 2, 3


class FewRows(NamedTuple):
    """Some events as they are given; a column has its own `room` numbers, from column * room on."""

    key: I64
    numbers: F64  # NaN is missing
    integers: I64  # integers, or cells
    absent: U8  # [integer]: 1 where missing
    room: int


class KeptWords(NamedTuple):
    """What is kept of each entity's word, and of the times that arrived for it."""

    length: I64
    last_ts: I64
    last_seen: I64
    greatest: I64
    floor: I64
    forget: int
    drops_ties: bool
    is_sorted: bool


class AxisCells(NamedTuple):
    """How each axis finds its cell: which column, and the thresholds that are counted, from first[axis] on."""

    source: I32
    column: I32
    first: I32
    always: I32  # thresholds that every value exceeds
    missing: I32  # the cell of a missing value
    thresholds: F64
    whole_thresholds: I64
    axes: I32  # the axes of the group, in its order
    first_map: I32
    maps: U16  # [first_map[nth axis] + cell] -> what the cell adds to the code
    cells: U16  # written: [axis * room + row]
    has_group: bool


@inlined
def _entity_of(key, keys):  # type: ignore[no-untyped-def]
    """The entity's number, -1 where it is new."""
    if keys.how == AS_THEY_ARE:
        return key
    if keys.how == DIRECTLY:
        place = key - keys.offset
        if place < 0 or place >= keys.number_of.shape[0]:
            return np.int64(-1)
        return np.int64(keys.number_of[place])
    mask = keys.slots.shape[0] - 1
    slot = first_slot(key, mask)
    while keys.number_of[slot] >= 0 and keys.slots[slot] != key:
        slot = (slot + 1) & mask
    return np.int64(keys.number_of[slot])


@inlined
def _is_in_turn(e, t, words):  # type: ignore[no-untyped-def]
    """Whether the event continues its entity's word: it is not late, and repeats nothing."""
    if e < words.floor.shape[0] and t < words.floor[e]:
        return False
    if not words.is_sorted:
        if e >= words.greatest.shape[0]:
            return False
        if words.greatest[e] != NEVER and t < words.greatest[e]:
            return False
    if words.drops_ties and words.last_seen[e] == t:
        return False
    return words.length[e] == 0 or t >= words.last_ts[e]


@inlined
def _cell_of(axis, row, elapsed, rows, axes):  # type: ignore[no-untyped-def]
    """The cell of the event on an axis."""
    source = axes.source[axis]
    at = axes.column[axis] * rows.room + row
    begin, end = axes.first[axis], axes.first[axis + 1]
    if source == GIVEN:
        return rows.integers[at]
    cell = np.int64(axes.always[axis])
    if source == NUMBER:
        number = rows.numbers[at]
        if number != number:
            return np.int64(axes.missing[axis])
        for threshold in range(begin, end):
            cell += number > axes.thresholds[threshold]
        return cell
    whole = elapsed
    if source == INTEGER:
        whole = rows.integers[at]
        if rows.absent[at] != 0:
            return np.int64(axes.missing[axis])
    elif elapsed == NEVER:
        return np.int64(axes.missing[axis])
    for threshold in range(begin, end):
        cell += whole > axes.whole_thresholds[threshold]
    return cell


@inlined
def _code_of(row, room, axes):  # type: ignore[no-untyped-def]
    """The code of the event's cells on the axes of the group."""
    code = np.int64(0)
    for nth in range(axes.axes.shape[0]):
        cell = axes.cells[axes.axes[nth] * room + row]
        code += axes.maps[axes.first_map[nth] + cell]
    return code


_STRUCTS = (
    FewRows, KnownKeys, KeptWords, AxisCells, ChunkRows, ProductTables, RegisterMoves, ReportLists, Windows, KeptStates,
    DetectionArrays,
)  # fmt: skip


@kernel(two_i64(i64, i64, *map(struct, _STRUCTS)))
def step_few(begin, end, few, keys, words, axes, rows, tables, moves, reports, windows, kept, out):  # type: ignore[no-untyped-def]
    """Steps over the events from `begin` to before `end`; `rows` gets entity, number and freshness of each.

    Returns (row to continue from, number of detections): it stops before an event that is not in turn.
    """
    few, keys, words, axes = FewRows(*few), KnownKeys(*keys), KeptWords(*words), AxisCells(*axes)
    rows = ChunkRows(*rows)
    tables, moves, reports = ProductTables(*tables), RegisterMoves(*moves), ReportLists(*reports)
    windows, kept, out = Windows(*windows), KeptStates(*kept), DetectionArrays(*out)
    n_out = 0
    for row in range(begin, end):
        e = _entity_of(few.key[row], keys)
        t = rows.ts[row]
        if e < 0 or e >= keys.n_known or not _is_in_turn(e, t, words):
            return row, n_out
        number = words.length[e]
        elapsed = span(t, words.last_ts[e])
        is_fresh = number == 0 or (words.forget >= 0 and elapsed > words.forget)
        if is_fresh:
            number = np.int64(0)
            elapsed = NEVER
        rows.entity[row] = np.int32(e)
        rows.seq[row] = number
        rows.fresh[row] = is_fresh
        for axis in range(axes.source.shape[0]):
            axes.cells[axis * few.room + row] = np.uint16(_cell_of(axis, row, elapsed, few, axes))
        if axes.has_group:
            before = np.int64(0) if is_fresh else np.int64(kept.state[e])
            step = before * tables.n_symbols + tables.symbol_of_code[_code_of(row, few.room, axes)]
            value = tables.next_state[step]
            after = value & np.uint16(0x7FFF)
            if value >= 0x8000:
                reported = reports.of_state[after]
                if n_out + reports.first[reported + 1] - reports.first[reported] > out.row.shape[0]:
                    return row, n_out
                own = e * kept.n_registers
                move_registers(step, own, row, e, number, moves, rows, kept.register_seq, kept.register_ts)
                for item in range(reports.first[reported], reports.first[reported + 1]):
                    pattern = reports.pattern[item]
                    start_seq, start_ts = start_of(
                        reports.start[item], own, row, e, number, rows, kept.register_seq, kept.register_ts
                    )
                    if is_within(t, number, start_seq, start_ts, windows.ticks[pattern], windows.events[pattern]):
                        write(n_out, row, pattern, start_seq, start_ts, out)
                        n_out += 1
            kept.state[e] = after
        if not words.is_sorted and t > words.greatest[e]:
            words.greatest[e] = t
        if words.drops_ties:
            words.last_seen[e] = t
        words.length[e] = number + 1
        words.last_ts[e] = t
        rows.tail_ts[e * rows.tail + number % rows.tail] = t
    return end, n_out


_SKIPPED = (FewRows, KnownKeys, KeptWords, AxisCells, ChunkRows, ProductTables, KeptStates)


@kernel(i64(i64, i64, *map(struct, _SKIPPED), u8[::1]))
def skip_few(begin, end, few, keys, words, axes, rows, tables, kept, changes):  # type: ignore[no-untyped-def]
    """Skips the events from `begin` to before `end` that would change a state: behind each of them its entity's word
    begins again. The others, marked 0 in `changes`, change nothing and count as recognised.

    For tables and attributes alone. Returns the row to continue from: it stops before an event that is not in turn.
    """
    few, keys, words, axes = FewRows(*few), KnownKeys(*keys), KeptWords(*words), AxisCells(*axes)
    rows, tables, kept = ChunkRows(*rows), ProductTables(*tables), KeptStates(*kept)
    for row in range(begin, end):
        e = _entity_of(few.key[row], keys)
        t = rows.ts[row]
        if e < 0 or e >= keys.n_known or not _is_in_turn(e, t, words):
            return row
        rows.entity[row] = np.int32(e)
        for axis in range(axes.source.shape[0]):
            axes.cells[axis * few.room + row] = np.uint16(_cell_of(axis, row, NEVER, few, axes))
        before = np.int64(0) if words.length[e] == 0 else np.int64(kept.state[e])
        value = tables.next_state[before * tables.n_symbols + tables.symbol_of_code[_code_of(row, few.room, axes)]]
        is_changing = np.int64(value) != before  # as is a value that says something is reported, or a register moves
        changes[row] = is_changing
        if not words.is_sorted and t > words.greatest[e]:
            words.greatest[e] = t
        if is_changing:
            kept.state[e] = 0
            words.length[e] = 0
        else:
            kept.state[e] = np.uint16(before)
            rows.tail_ts[e * rows.tail + words.length[e] % rows.tail] = t
            words.length[e] += 1
            words.last_ts[e] = t
    return end
