"""The compiled loops that step automata: tables of groups, runs of one pattern, places of one pattern, products.

As in `arrival`: arrays in, arrays out. All of them stop and say where when their output or their room is full, and are
called again from there.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from wayeb_py.kernels.arrival import _kernel, _read_only, _span, i32, i64, two_i64, u8, u16


# Symbols to detections.
@nb.njit(nogil=True, inline="always")
def _time_at_age(row, age, link, ts, start_seq, e, tail_ts, tail):  # type: ignore[no-untyped-def]
    """The time of the entity's event that is `age` events old, this row's being 1 event old."""
    at = row
    for _ in range(age - 1):
        at = link[at]
        if at < 0:
            return tail_ts[e * tail + start_seq % tail]
    return ts[at]


_ROWS = (i64, u16[::1], i32[::1], _read_only(i64), i64[::1], i32[::1], u8[::1], i64[::1], i64)
_OUT = (i32[::1], i32[::1], i64[::1], i64[::1])


@_kernel(
    two_i64(
        *_ROWS,
        u16[::1], u16[::1], i64, i32[::1], i32[::1], i32[::1], i32[::1], i32[::1], i32[::1], i32[::1], i32[::1],
        i64[::1], i64[::1], u16[::1], i64[::1], i64[::1], i64,
        *_OUT,
    )
)  # fmt: skip
def step_tables(  # type: ignore[no-untyped-def]
    begin, code, entity, ts, seq, link, fresh, tail_ts, tail,
    symbol_of_code, next_state, n_symbols, moves, move_first, move_register, move_source,
    report, report_first, report_pattern, report_start,
    window_ticks, window_events, state, register_seq, register_ts, n_registers,
    out_row, out_pattern, out_seq, out_ts,
):  # fmt: skip
    """Steps a group's product automaton over the rows from `begin` on and writes detections with their starts.

    next_state[state * n_symbols + symbol] has its highest bit set where registers move or the new state reports.
    `moves` is indexed likewise; `report[state]` numbers a list of (pattern, start), where a start above 0 is the
    match's length and -r - 1 its register. Returns (row to go on from, number of detections): it stops early when the
    output is full.
    """
    n_out = 0
    n = code.shape[0]
    room = out_row.shape[0]
    width = np.uint64(n_symbols)
    # Slices and numbers without a sign spare the check for negative indices.
    codes, entities, starts = code[begin:], entity[begin:], fresh[begin:]
    for nth in range(codes.shape[0]):
        unsigned = np.uint64(entities[nth])
        before = np.uint64(state[unsigned])
        if starts[nth] != 0:
            before = np.uint64(0)
        at = before * width + np.uint64(symbol_of_code[codes[nth]])
        value = next_state[at]
        if value < 0x8000:
            state[unsigned] = value
            continue
        row = begin + nth
        e = np.int64(entities[nth])
        after = value & np.uint16(0x7FFF)
        reported = report[after]
        if n_out + report_first[reported + 1] - report_first[reported] > room:
            return row, n_out
        state[unsigned] = after
        own = e * n_registers
        number = seq[row]
        for move in range(move_first[moves[at]], move_first[moves[at] + 1]):
            source = move_source[move]
            register = own + move_register[move]
            if source >= 0:
                register_seq[register] = register_seq[own + source]
                register_ts[register] = register_ts[own + source]
            else:
                register_seq[register] = number + source + 1
                register_ts[register] = _time_at_age(row, -source, link, ts, number + source + 1, e, tail_ts, tail)
        for item in range(report_first[reported], report_first[reported + 1]):
            pattern = report_pattern[item]
            start = report_start[item]
            if start < 0:
                start_seq = register_seq[own - start - 1]
                start_ts = register_ts[own - start - 1]
            else:
                start_seq = number - start + 1
                start_ts = _time_at_age(row, start, link, ts, start_seq, e, tail_ts, tail)
            if _span(ts[row], start_ts) <= window_ticks[pattern] and number - start_seq < window_events[pattern]:
                out_row[n_out] = row
                out_pattern[n_out] = pattern
                out_seq[n_out] = start_seq
                out_ts[n_out] = start_ts
                n_out += 1
    return n, n_out


@_kernel(
    two_i64(
        *_ROWS,
        u16[::1], i64[::1], i64[::1], u8[::1], i64, i64, nb.boolean, nb.boolean,
        i64, i64, i64[::1], i64[::1], i64[::1], i32[::1], i64[::1], i64[::1],
        i64[::1], i32[::1], i64[::1], i64[::1], i64[::1],
        *_OUT,
    )
)  # fmt: skip
def step_runs(  # type: ignore[no-untyped-def]
    begin, code, entity, ts, seq, link, fresh, tail_ts, tail,
    symbol_of_code, first, successors, accepting, n_symbols, pattern, longest, joined,
    window_ticks, window_events, pool_first, pool_room, pool_length, run_state, run_seq, run_ts,
    seen, scratch_state, scratch_seq, scratch_ts, epoch,
    out_row, out_pattern, out_seq, out_ts,
):  # fmt: skip
    """Steps one pattern run by run on a nondeterministic automaton.

    The runs of an entity, the preferred start first, are at pool_first[entity] in the pool. `joined`: of runs in the
    same state only the preferred one lives on; otherwise runs live until the window ends. `seen[state]` marks the
    states of this event. Returns (row to go on from, number of detections), or (-1 - row, …) where the entity's runs
    need more room than pool_room[entity]; the row is not stepped then.
    """
    n_out = 0
    n = code.shape[0]
    room = out_row.shape[0]
    width = n_symbols + 1
    for row in range(begin, n):
        if n_out == room:
            return row, n_out
        e = entity[row]
        number = seq[row]
        now = ts[row]
        symbol = np.int64(symbol_of_code[code[row]])
        length = 0 if fresh[row] != 0 else pool_length[e]
        base = pool_first[e]
        epoch[0] += 1
        mark = epoch[0]
        kept = 0
        limit = scratch_state.shape[0]
        # The new run is preferred when the latest start is, and comes last when the earliest is.
        for turn in range(length + 1):
            run = turn if longest else turn - 1
            if run < 0 or run == length:
                before, start_seq, start_ts = np.int64(0), number, now
            else:
                before = np.int64(run_state[base + run])
                start_seq = run_seq[base + run]
                start_ts = run_ts[base + run]
            if _span(now, start_ts) > window_ticks or number - start_seq >= window_events:
                continue
            at = before * width + symbol
            for s in range(first[at], first[at + 1]):
                after = successors[s]
                if joined:
                    if seen[after] == mark:
                        continue
                    seen[after] = mark
                else:
                    # The same start twice in the same state is one run; runs of one start are neighbours.
                    twice = False
                    back = kept - 1
                    while back >= 0 and scratch_seq[back] == start_seq:
                        if scratch_state[back] == after:
                            twice = True
                            break
                        back -= 1
                    if twice:
                        continue
                if kept == limit or kept == pool_room[e]:
                    return -1 - row, n_out
                scratch_state[kept] = np.int32(after)
                scratch_seq[kept] = start_seq
                scratch_ts[kept] = start_ts
                kept += 1
        pool_length[e] = kept
        found = -1
        for run in range(kept):
            run_state[base + run] = scratch_state[run]
            run_seq[base + run] = scratch_seq[run]
            run_ts[base + run] = scratch_ts[run]
            if found < 0 and accepting[scratch_state[run]] != 0:
                found = run
        if found >= 0:
            out_row[n_out] = row
            out_pattern[n_out] = np.int32(pattern)
            out_seq[n_out] = scratch_seq[found]
            out_ts[n_out] = scratch_ts[found]
            n_out += 1
    return n, n_out


@_kernel(
    two_i64(
        *_ROWS,
        u8[::1], _read_only(i64), _read_only(i32), i32[::1], i32[::1], i64, i32[::1], i32[::1],
        i32[::1], i64, i32[::1], i32[::1], i32[::1], i32[::1], i64[::1], u8[::1], i64, i64, i64, i64,
        i64[::1], i64[::1], i64[::1], i32[::1], i32[::1], i64[::1], i64[::1], i64,
        i32[::1], i32[::1], i64[::1], i64[::1],
        i32[::1], i32[::1], i32[::1], i64[::1], i64[::1],
    )
)  # fmt: skip
def step_places(  # type: ignore[no-untyped-def]
    begin, code, entity, ts, seq, link, fresh, tail_ts, tail,
    is_lost, near_first, near_place, near_code, symbol, n_place_codes, far_symbol, lost_symbol,
    next_state, n_symbols, moves, move_first, move_register, move_source, start, live,
    n_places, pattern, window_ticks, window_events,
    pool_first, pool_room, pool_length, slot_place, slot_state, slot_seq, slot_ts, n_registers,
    scratch_place, scratch_state, scratch_seq, scratch_ts,
    out_row, out_pattern, out_place, out_seq, out_ts,
):  # fmt: skip
    """Steps one pattern once for all places that have been far from the entity's events, and for each other place.

    The places near a row are near_place[near_first[row] : near_first[row + 1]], ascending, each with the code of its
    own axes; symbol[code * n_place_codes + near_code]. The slots of an entity, at pool_first[entity], hold the state
    and registers of the places that differ from a far one, ascending; before them, as place -1, those of a far one,
    unless it is in the initial state. live[state * n_registers + register]: whether the register will be asked for.
    Returns (row to go on from, number of detections), or (-1 - row, …) where the entity needs more slots than it or
    the scratch has, or more detections than the output has room for; the row is not stepped then.
    """
    n_out = 0
    n = code.shape[0]
    room = out_row.shape[0]
    nowhere = np.int32(2**31 - 1)
    matches_nothing = start[0] != 0
    for row in range(begin, n):
        e = entity[row]
        length = 0 if fresh[row] != 0 else pool_length[e]
        near = near_first[row]
        near_end = near_first[row + 1]
        own = np.int64(code[row])
        other = lost_symbol[own] if is_lost[row] != 0 else far_symbol[own]
        base = pool_first[e]
        slot = 0
        far_before = 0
        if length > 0 and slot_place[base] < 0:
            far_before = slot_state[base]
            slot = 1
        far_after = next_state[far_before * n_symbols + other]
        if length == 0 and near == near_end and far_after == 0:
            pool_length[e] = 0
            continue
        # A far place that stays in the initial state has nothing to step, and takes no slot.
        steps_far = far_before != 0 or far_after != 0 or matches_nothing
        most = length + near_end - near
        most_out = most
        if steps_far:
            most += 1
            most_out = most + n_places if start[far_after] != 0 else most
        if most > pool_room[e] or most >= scratch_place.shape[0] or most_out > room:
            return -1 - row, n_out
        if n_out + most_out > room:
            return row, n_out
        number = seq[row]
        kept = 0
        if not steps_far:
            # As below, without a far place: a loop of its own, since most rows of most patterns need no more.
            while slot < length or near < near_end:
                under_way = slot_place[base + slot] if slot < length else nowhere
                at_hand = near_place[near] if near < near_end else nowhere
                place = min(under_way, at_hand)
                into = kept * n_registers
                before = 0
                if under_way == place:
                    before = slot_state[base + slot]
                    for register in range(n_registers):
                        scratch_seq[into + register] = slot_seq[(base + slot) * n_registers + register]
                        scratch_ts[into + register] = slot_ts[(base + slot) * n_registers + register]
                    slot += 1
                read = other
                if at_hand == place:
                    read = symbol[own * n_place_codes + near_code[near]]
                    near += 1
                at = before * n_symbols + read
                after = next_state[at]
                for move in range(move_first[moves[at]], move_first[moves[at] + 1]):
                    source = move_source[move]
                    register = into + move_register[move]
                    if source >= 0:
                        scratch_seq[register] = scratch_seq[into + source]
                        scratch_ts[register] = scratch_ts[into + source]
                    else:
                        age = number + source + 1
                        scratch_seq[register] = age
                        scratch_ts[register] = _time_at_age(row, -source, link, ts, age, e, tail_ts, tail)
                begins = start[after]
                if begins != 0:
                    if begins < 0:
                        start_seq = scratch_seq[into - begins - 1]
                        start_ts = scratch_ts[into - begins - 1]
                    else:
                        start_seq = number - begins + 1
                        start_ts = _time_at_age(row, begins, link, ts, start_seq, e, tail_ts, tail)
                    if _span(ts[row], start_ts) <= window_ticks and number - start_seq < window_events:
                        out_row[n_out] = row
                        out_pattern[n_out] = np.int32(pattern)
                        out_place[n_out] = place
                        out_seq[n_out] = start_seq
                        out_ts[n_out] = start_ts
                        n_out += 1
                if after != 0:
                    scratch_place[kept] = place
                    scratch_state[kept] = after
                    kept += 1
            pool_length[e] = kept
            for slot in range(kept):
                slot_place[base + slot] = scratch_place[slot]
                slot_state[base + slot] = scratch_state[slot]
            for register in range(kept * n_registers):
                slot_seq[base * n_registers + register] = scratch_seq[register]
                slot_ts[base * n_registers + register] = scratch_ts[register]
            continue
        far_found = False
        far_start_seq, far_start_ts = np.int64(0), np.int64(0)
        told = 0  # the places below have been told that a far one is detected
        while kept == 0 or slot < length or near < near_end:
            into = kept * n_registers
            source_slot = base
            before = far_before
            read = other
            place = np.int32(-1)
            if kept > 0:
                under_way = slot_place[base + slot] if slot < length else nowhere
                at_hand = near_place[near] if near < near_end else nowhere
                place = min(under_way, at_hand)
                if under_way == place:
                    source_slot = base + slot
                    before = slot_state[source_slot]
                    slot += 1
                if at_hand == place:
                    read = symbol[own * n_place_codes + near_code[near]]
                    near += 1
            if before != 0:  # in the initial state no register is asked for
                for register in range(n_registers):
                    scratch_seq[into + register] = slot_seq[source_slot * n_registers + register]
                    scratch_ts[into + register] = slot_ts[source_slot * n_registers + register]
            at = before * n_symbols + read
            after = next_state[at]
            for move in range(move_first[moves[at]], move_first[moves[at] + 1]):
                source = move_source[move]
                register = into + move_register[move]
                if source >= 0:
                    scratch_seq[register] = scratch_seq[into + source]
                    scratch_ts[register] = scratch_ts[into + source]
                else:
                    scratch_seq[register] = number + source + 1
                    scratch_ts[register] = _time_at_age(row, -source, link, ts, number + source + 1, e, tail_ts, tail)
            begins = start[after]
            found = False
            start_seq, start_ts = np.int64(0), np.int64(0)
            if begins != 0:
                if begins < 0:
                    start_seq = scratch_seq[into - begins - 1]
                    start_ts = scratch_ts[into - begins - 1]
                else:
                    start_seq = number - begins + 1
                    start_ts = _time_at_age(row, begins, link, ts, start_seq, e, tail_ts, tail)
                found = _span(ts[row], start_ts) <= window_ticks and number - start_seq < window_events
            if kept == 0:
                far_found, far_start_seq, far_start_ts = found, start_seq, start_ts
                scratch_place[0] = place
                scratch_state[0] = after
                kept = 1
                continue
            if far_found:
                for far_place in range(told, place):
                    out_row[n_out] = row
                    out_pattern[n_out] = np.int32(pattern)
                    out_place[n_out] = np.int32(far_place)
                    out_seq[n_out] = far_start_seq
                    out_ts[n_out] = far_start_ts
                    n_out += 1
                told = int(place) + 1
            if found:
                out_row[n_out] = row
                out_pattern[n_out] = np.int32(pattern)
                out_place[n_out] = place
                out_seq[n_out] = start_seq
                out_ts[n_out] = start_ts
                n_out += 1
            differs = after != far_after
            if not differs and after != 0:
                for register in range(n_registers):
                    if live[after * n_registers + register] != 0:
                        differs |= scratch_seq[into + register] != scratch_seq[register]
            if differs:
                scratch_place[kept] = place
                scratch_state[kept] = after
                kept += 1
        if far_found:
            for far_place in range(told, n_places):
                out_row[n_out] = row
                out_pattern[n_out] = np.int32(pattern)
                out_place[n_out] = np.int32(far_place)
                out_seq[n_out] = far_start_seq
                out_ts[n_out] = far_start_ts
                n_out += 1
        left_out = 1 if far_after == 0 else 0  # a far place in the initial state takes no slot
        pool_length[e] = kept - left_out
        for slot in range(kept - left_out):
            slot_place[base + slot] = scratch_place[slot + left_out]
            slot_state[base + slot] = scratch_state[slot + left_out]
        for register in range((kept - left_out) * n_registers):
            slot_seq[base * n_registers + register] = scratch_seq[left_out * n_registers + register]
            slot_ts[base * n_registers + register] = scratch_ts[left_out * n_registers + register]
    return n, n_out


# Products of automata.
@_kernel(i64(i64[:, ::1], i64[:, ::1], i64[::1], i64[::1], i32[::1], i64[:, ::1], i64[:, ::1]))
def walk_product(left, right, left_symbol, right_symbol, number_of, pairs, next_state):  # type: ignore[no-untyped-def]
    """Numbers the reachable pairs of states of two automata that read the same events, from (0, 0).

    number_of[left state * n_right + right state] must be -1 everywhere. Returns their number, or -1 if `pairs` is too
    short.
    """
    n_right = right.shape[0]
    n_symbols = left_symbol.shape[0]
    room = pairs.shape[0]
    number_of[0] = 0
    pairs[0, 0] = 0
    pairs[0, 1] = 0
    n = 1
    at = 0
    while at < n:
        for symbol in range(n_symbols):
            l = left[pairs[at, 0], left_symbol[symbol]]  # noqa: E741
            r = right[pairs[at, 1], right_symbol[symbol]]
            number = number_of[l * n_right + r]
            if number < 0:
                if n == room:
                    return -1
                number = n
                number_of[l * n_right + r] = n
                pairs[n, 0] = l
                pairs[n, 1] = r
                n += 1
            next_state[at, symbol] = number
        at += 1
    return n
