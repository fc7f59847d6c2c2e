"""Codes become detections of one pattern for each of many places: one step for all far places, and one for each other.

Places that have been far from an entity's events since its word began are in one state, the far state. An entity's
slots hold the places that differ from it, by ascending number; before them, as place -1, lies the far state itself,
unless it is the initial one. Slots are stepped where they lie, and move only where a place comes in between: most of
the time nothing is copied. *Not taken*: writing all slots elsewhere and back, at every event.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wayeb_py.kernels.compiled import i64, inlined, kernel, two_i64, u16
from wayeb_py.kernels.step_parts import (
    ChunkRows,
    DetectionArrays,
    RegisterMoves,
    is_within,
    move_registers,
    start_of,
    write,
)
from wayeb_py.kernels.structs import I32, I64, U8, ReadI32, ReadI64, struct

FAR = np.int32(-1)
NOWHERE = np.int32(2**31 - 1)


class NearPlaces(NamedTuple):
    """The places near a row: place[first[row] : first[row + 1]], ascending, each with the code of its own axes."""

    first: ReadI64
    place: ReadI32
    code: I32
    is_lost: U8  # [row]: the event has no position


class PlaceAutomaton(NamedTuple):
    """A pattern's tracking automaton, and the symbol that an event's code is for a place near it and for others."""

    symbol: I32  # [code * n_place_codes + code of the place]
    n_place_codes: int
    far_symbol: I32  # [code]
    lost_symbol: I32  # [code]
    next_state: I32  # [state * n_symbols + symbol]
    n_symbols: int
    start: I32  # [state]: 0 no detection, above 0 the match's length, -r - 1 its register
    live: U8  # [state * n_registers + register]: whether the register will be read
    n_registers: int
    n_places: int
    pattern: int
    window_ticks: int
    window_events: int


class PlaceSlots(NamedTuple):
    """The slots of an entity: length[entity] from first[entity] on, with room for more."""

    first: I64
    room: I64
    length: I64
    place: I32
    state: I32
    seq: I64  # [slot * n_registers + register]
    ts: I64


class FarBefore(NamedTuple):
    """The registers that the far state had before the event."""

    seq: I64
    ts: I64


@inlined
def _copy_registers(from_seq, from_ts, source, to_seq, to_ts, target, n_registers):  # type: ignore[no-untyped-def]
    for register in range(n_registers):
        to_seq[target * n_registers + register] = from_seq[source * n_registers + register]
        to_ts[target * n_registers + register] = from_ts[source * n_registers + register]


@inlined
def _move_up(slots, begin, end, by, n_registers):  # type: ignore[no-untyped-def]
    """Moves some slots to make room before them."""
    for slot in range(end - 1, begin - 1, -1):
        slots.place[slot + by] = slots.place[slot]
        slots.state[slot + by] = slots.state[slot]
        _copy_registers(slots.seq, slots.ts, slot, slots.seq, slots.ts, slot + by, n_registers)


@inlined
def _write_far(n_out, begin, end, row, pattern, start_seq, start_ts, out):  # type: ignore[no-untyped-def]
    """Writes the detection of a far place for all places from `begin` to before `end`; returns the new number of
    detections."""
    for place in range(begin, end):
        write(n_out, row, pattern, start_seq, start_ts, out)
        out.place[n_out] = np.int32(place)
        n_out += 1
    return n_out


_STRUCTS = ChunkRows, NearPlaces, PlaceAutomaton, RegisterMoves, PlaceSlots, FarBefore, DetectionArrays


@kernel(two_i64(i64, u16[::1], *map(struct, _STRUCTS)))
def step_places(begin, code, rows, near, automaton, moves, slots, far_before, out):  # type: ignore[no-untyped-def]
    """Steps over the rows from `begin` on and writes detections with their places and starts.

    Returns (row to continue from, number of detections), or (-1 - row, …) where the entity may need more slots than it
    has, or more detections than the output has room for; the row is not stepped then.
    """
    rows, near, automaton = ChunkRows(*rows), NearPlaces(*near), PlaceAutomaton(*automaton)
    moves, slots = RegisterMoves(*moves), PlaceSlots(*slots)
    far_before, out = FarBefore(*far_before), DetectionArrays(*out)
    next_state, n_symbols, n_registers = automaton.next_state, automaton.n_symbols, automaton.n_registers
    pattern = np.int32(automaton.pattern)
    n_out = 0
    n = code.shape[0]
    room = out.row.shape[0]
    for row in range(begin, n):
        e = rows.entity[row]
        length = 0 if rows.fresh[row] != 0 else slots.length[e]
        nth = near.first[row]
        near_end = near.first[row + 1]
        event_code = np.int64(code[row])
        other = automaton.lost_symbol[event_code] if near.is_lost[row] != 0 else automaton.far_symbol[event_code]
        first = slots.first[e]
        at, end = first, first + length  # the slot to read next, and where the slots end
        far_state = np.int32(0)
        if length > 0 and slots.place[first] == FAR:
            far_state = slots.state[first]
            at += 1
        far_step = far_state * n_symbols + other
        far_after = next_state[far_step]
        if length == 0 and nth == near_end and far_after == 0:
            slots.length[e] = 0
            continue
        most = length + near_end - nth + (1 if far_after != 0 else 0)
        most_out = most + (automaton.n_places if automaton.start[far_after] != 0 else 0)
        if most > slots.room[e] or most_out > room:
            return -1 - row, n_out
        if n_out + most_out > room:
            return row, n_out
        number = rows.seq[row]
        now = rows.ts[row]
        to = first  # the slot to write next
        far_found = False
        far_seq, far_ts = np.int64(0), np.int64(0)
        told = np.int64(0)  # far detections are written for the places below this number
        if far_state != 0:
            _copy_registers(slots.seq, slots.ts, first, far_before.seq, far_before.ts, 0, n_registers)
        if far_after != 0:
            if far_state == 0 and at < end:
                by = near_end - nth + 1
                _move_up(slots, at, end, by, n_registers)
                at, end = at + by, end + by
            own_registers = first * n_registers
            move_registers(far_step, own_registers, row, e, number, moves, rows, slots.seq, slots.ts)
            start = automaton.start[far_after]
            if start != 0:
                far_seq, far_ts = start_of(start, own_registers, row, e, number, rows, slots.seq, slots.ts)
                far_found = is_within(now, number, far_seq, far_ts, automaton.window_ticks, automaton.window_events)
            slots.place[first] = FAR
            slots.state[first] = far_after
            to += 1
        while at < end or nth < near_end:
            listed = slots.place[at] if at < end else NOWHERE
            at_hand = near.place[nth] if nth < near_end else NOWHERE
            place = min(listed, at_hand)
            symbol = other
            if at_hand == place:
                symbol = automaton.symbol[event_code * automaton.n_place_codes + near.code[nth]]
                nth += 1
            state = far_state
            if listed == place:
                state = slots.state[at]
                if to != at:
                    _copy_registers(slots.seq, slots.ts, at, slots.seq, slots.ts, to, n_registers)
                at += 1
            else:
                if to == at and at < end:
                    by = near_end - nth + 1
                    _move_up(slots, at, end, by, n_registers)
                    at, end = at + by, end + by
                if state != 0:  # in the initial state no register is read
                    _copy_registers(far_before.seq, far_before.ts, 0, slots.seq, slots.ts, to, n_registers)
            step = state * n_symbols + symbol
            after = next_state[step]
            own_registers = to * n_registers
            move_registers(step, own_registers, row, e, number, moves, rows, slots.seq, slots.ts)
            if far_found:
                n_out = _write_far(n_out, told, place, row, pattern, far_seq, far_ts, out)
                told = np.int64(place) + 1
            start = automaton.start[after]
            if start != 0:
                start_seq, start_ts = start_of(start, own_registers, row, e, number, rows, slots.seq, slots.ts)
                if is_within(now, number, start_seq, start_ts, automaton.window_ticks, automaton.window_events):
                    write(n_out, row, pattern, start_seq, start_ts, out)
                    out.place[n_out] = place
                    n_out += 1
            differs = after != far_after
            if not differs and after != 0:
                for register in range(n_registers):
                    if automaton.live[after * n_registers + register] != 0:
                        differs |= slots.seq[own_registers + register] != slots.seq[first * n_registers + register]
            if differs:
                slots.place[to] = place
                slots.state[to] = after
                to += 1
        if far_found:
            n_out = _write_far(n_out, told, automaton.n_places, row, pattern, far_seq, far_ts, out)
        slots.length[e] = to - first
    return n, n_out
