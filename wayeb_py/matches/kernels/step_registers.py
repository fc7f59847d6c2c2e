"""Codes and values become detections of a pattern that remembers events: a run for each way that may still match.

A run has a state of the automaton, a start, and slots: values of the events that it has named, and what it has folded
of the events that it has read. At an event each run folds it, answers the tests that matter in its state, and continues
once for every set of names that the event may get. Of runs that agree in everything that can still matter, one stays.

A test is a small program. Its operands are numbers, or whole numbers where both sides are such, so that ticks and large
integers are compared exactly. A missing number is NaN, a missing whole number NEVER.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wayeb_py.kernels.compiled import i64, inlined, kernel, two_i64, u16
from wayeb_py.kernels.step_parts import ChunkRows, DetectionArrays, is_within, write
from wayeb_py.kernels.structs import F64, I32, I64, U8, U16, struct
from wayeb_py.kernels.ticks import NEVER
from wayeb_py.spatial.kernels.index import is_position, metres, vector

# Instructions. The first ones push a number, the next ones a whole number, then come those that take what was pushed.
(
    EVENT, SLOT, CONSTANT, ELAPSED, COUNT, DURATION, MEAN, FOLDED, DISTANCE,
    WHOLE_EVENT, WHOLE_SLOT, WHOLE_CONSTANT, WHOLE_ELAPSED, WHOLE_DURATION, WHOLE_FOLDED,
    ADD, SUBTRACT, MULTIPLY, DIVIDE, NEGATE, ABSOLUTE, LEAST, GREATEST, ANGLE,
    COMPARE, COMPARE_WHOLE, IS_MISSING, IS_MISSING_WHOLE, IS_ONE,
) = range(29)  # fmt: skip
LESS, LESS_OR_EQUAL, EQUAL, NOT_EQUAL, GREATER_OR_EQUAL, GREATER = range(6)
SUM, SUM_AFTER_FIRST, MIN, MAX, MIN_WHOLE, MAX_WHOLE, HOW_MANY = range(7)
MOST_COMPARED = 1 << 14  # pairs of runs at an event: past them all runs are kept, which changes no detection
MOST_OPERANDS = 64  # operands of one test that wait for others


class RegisterAutomaton(NamedTuple):
    """A deterministic automaton over events, answers and names; a run in a state that is not live is dropped.

    `by_start`: runs of different starts are never joined. `every_start`: each start of a match is reported, the
    earliest first; otherwise one, the earliest if `longest`.
    """

    symbol_of_code: U16  # [(code * n_answers + answers) * n_names + names]
    next_state: I32  # [state * n_symbols + symbol]
    accepting: U8  # [state]
    is_live: U8  # [state]
    matters: U8  # [state * n_tests + test]
    keeps: U8  # [state * n_slots + slot]: something can still read it
    begins: U8  # [code]: a match may begin with such an event
    better: I32  # [state * n_slots + slot]: 1 where the greater is at least as good, -1 where the less is, 0: neither
    has_order: U8  # [state]: some slot has a direction there
    n_symbols: int
    n_answers: int
    n_names: int
    pattern: int
    by_start: bool
    every_start: bool
    once: bool
    longest: bool
    window_ticks: int
    window_events: int
    ticks_per_s: float
    most_runs: int


class RegisterPrograms(NamedTuple):
    """Tests, each the instructions first[test] to first[test + 1]; what a name, a first event and a fold put where."""

    first: I64
    instruction: I32
    a: I64
    b: I64
    constant: F64
    named_first: I64  # [name] -> from `named_slot[named_first[name]]` on
    named_slot: I64
    named_value: I64
    begun_slot: I64  # what the first event of a match leaves, whatever it is called
    begun_value: I64
    fold: I32
    fold_slot: I64  # the next slot counts the values
    fold_value: I64
    is_real: U8  # [slot]


class RegisterValues(NamedTuple):
    """Values of the chunk's events by their bits: [value * n + row]."""

    whole: I64
    real: F64


class RegisterRuns(NamedTuple):
    """The runs of an entity: length[entity] from first[entity] on, with room for more."""

    first: I64
    room: I64
    length: I64
    state: I32
    seq: I64
    ts: I64
    whole: I64  # [run * n_slots + slot], by their bits
    real: F64


class RegisterScratch(NamedTuple):
    """The runs that come out of an event, the slots of the run at hand, and where runs alike are found by a hash."""

    state: I32
    seq: I64
    ts: I64
    whole: I64
    real: F64  # the bits of `whole` as floats
    is_new: U8  # it has come to its state, or to what it remembers, with this event
    own_whole: I64
    own_real: F64  # the bits of `own_whole` as floats
    stack: F64
    place: I32  # [hash] -> run
    stamp: I64  # [hash] -> the row that wrote it, by its number since the beginning
    n_rows: I64
    n_crowded: I64  # rows at which an entity has more runs than the automaton allows


_STRUCTS = (
    ChunkRows, RegisterAutomaton, RegisterPrograms, RegisterValues, RegisterRuns, RegisterScratch, DetectionArrays
)  # fmt: skip


@inlined
def _compares(comparator, below, equal):  # type: ignore[no-untyped-def]
    if comparator == LESS:
        return below
    if comparator == LESS_OR_EQUAL:
        return below or equal
    if comparator == EQUAL:
        return equal
    if comparator == NOT_EQUAL:
        return not equal
    if comparator == GREATER_OR_EQUAL:
        return not below
    return not below and not equal


@inlined
def _distance_m(lon, lat, other_lon, other_lat):  # type: ignore[no-untyped-def]
    if not (is_position(lon, lat) and is_position(other_lon, other_lat)):
        return np.nan
    ax, ay, az = vector(lon, lat)
    bx, by, bz = vector(other_lon, other_lat)
    return metres(math.sqrt((ax - bx) ** 2 + (ay - by) ** 2 + (az - bz) ** 2))


@inlined
def _answer(test, row, n, now, number, start_seq, start_ts, ticks_per_s, programs, values, scratch):  # type: ignore[no-untyped-def]
    """Whether a test holds for a run at an event."""
    stack, own, bits = scratch.stack, scratch.own_real, scratch.own_whole
    top = 0
    left, right = np.int64(0), np.int64(0)
    for at in range(programs.first[test], programs.first[test + 1]):
        what = programs.instruction[at]
        a, b = programs.a[at], programs.b[at]
        if what <= DISTANCE:
            pushed = np.nan
            if what == EVENT:
                pushed = values.real[a * n + row]
            elif what == SLOT:
                pushed = own[a]
            elif what == CONSTANT:
                pushed = programs.constant[at]
            elif what == ELAPSED:
                pushed = np.float64(now - bits[a]) / ticks_per_s
            elif what == COUNT:
                pushed = np.float64(number - start_seq + 1)
            elif what == DURATION:
                pushed = np.float64(now - start_ts) / ticks_per_s
            elif what == MEAN:
                if bits[a + 1] > 0:
                    pushed = own[a] / np.float64(bits[a + 1])
            elif what == FOLDED:
                if b != 0:
                    pushed = np.float64(bits[a])
                elif bits[a + 1] > 0:
                    pushed = own[a]
            else:
                pushed = _distance_m(values.real[b * n + row], values.real[(b + 1) * n + row], own[a], own[a + 1])
            stack[top] = pushed
            top += 1
        elif what <= WHOLE_FOLDED:
            left = right
            if what == WHOLE_EVENT:
                right = values.whole[a * n + row]
            elif what == WHOLE_SLOT:
                right = bits[a]
            elif what == WHOLE_CONSTANT:
                right = a
            elif what == WHOLE_ELAPSED:
                right = now - bits[a]
            elif what == WHOLE_DURATION:
                right = now - start_ts
            else:
                right = bits[a] if bits[a + 1] > 0 else NEVER
        elif what == COMPARE:
            x, y = stack[top - 2], stack[top - 1]
            return not math.isnan(x) and not math.isnan(y) and _compares(a, x < y, x == y)
        elif what == COMPARE_WHOLE:
            return left != NEVER and right != NEVER and _compares(a, left < right, left == right)
        elif what == IS_MISSING:
            return math.isnan(stack[top - 1])
        elif what == IS_MISSING_WHOLE:
            return right == NEVER
        elif what == IS_ONE:
            return bits[a] == 1
        elif what == NEGATE:
            stack[top - 1] = -stack[top - 1]
        elif what == ABSOLUTE:
            stack[top - 1] = abs(stack[top - 1])
        else:
            top -= 1
            x, y = stack[top - 1], stack[top]
            if what == ADD:
                x = x + y
            elif what == SUBTRACT:
                x = x - y
            elif what == MULTIPLY:
                x = x * y
            elif what == DIVIDE:
                x = np.nan if y == 0.0 else x / y
            elif math.isnan(x) or math.isnan(y):
                x = np.nan
            elif what == LEAST:
                x = min(x, y)
            elif what == GREATEST:
                x = max(x, y)
            else:
                turn = abs(x - y)
                turn = turn % 360.0 if math.isfinite(turn) else np.nan
                x = min(turn, 360.0 - turn)
            stack[top - 1] = x
    return False


@inlined
def _begin(row, n, programs, values, scratch):  # type: ignore[no-untyped-def]
    """The slots of a run that begins at this event."""
    own = scratch.own_whole
    for slot in range(own.shape[0]):
        own[slot] = 0
    for nth in range(programs.begun_slot.shape[0]):
        own[programs.begun_slot[nth]] = values.whole[programs.begun_value[nth] * n + row]


@inlined
def _fold(row, n, is_first, programs, values, scratch):  # type: ignore[no-untyped-def]
    """Adds the event to what a run has folded."""
    own, bits = scratch.own_real, scratch.own_whole
    for nth in range(programs.fold.shape[0]):
        what, slot = programs.fold[nth], programs.fold_slot[nth]
        at = programs.fold_value[nth] * n + row
        if what == SUM_AFTER_FIRST and is_first:
            bits[slot + 1] = 1
            own[slot] = 0.0
            continue
        if what >= MIN_WHOLE:
            if values.whole[at] == NEVER:
                continue
            if what == HOW_MANY:
                bits[slot] += values.whole[at]
            elif bits[slot + 1] == 0:
                bits[slot] = values.whole[at]
            elif what == MIN_WHOLE:
                bits[slot] = min(bits[slot], values.whole[at])
            else:
                bits[slot] = max(bits[slot], values.whole[at])
        else:
            value = values.real[at]
            if math.isnan(value):
                continue
            if what <= SUM_AFTER_FIRST:
                own[slot] += value
            elif bits[slot + 1] == 0 or (value < own[slot] if what == MIN else value > own[slot]):
                own[slot] = value
        if what != HOW_MANY:
            bits[slot + 1] += 1


@inlined
def _insert(count, state, start_seq, start_ts, by_start, scratch, into):  # type: ignore[no-untyped-def]
    """Adds the run whose slots are those of run `count`, unless there is one like it; returns how many there are."""
    n_slots = scratch.own_whole.shape[0]
    base = count * n_slots
    mixed = np.uint64(state + 1) * np.uint64(0x9E3779B97F4A7C15)
    if by_start:
        mixed = (mixed ^ np.uint64(start_seq)) * np.uint64(0xBF58476D1CE4E5B9)
    for slot in range(n_slots):
        mixed = (mixed ^ (mixed >> np.uint64(29)) ^ np.uint64(into[base + slot])) * np.uint64(0x94D049BB133111EB)
    mask = np.int64(scratch.place.shape[0] - 1)
    at = np.int64(mixed >> np.uint64(32)) & mask
    stamp = scratch.n_rows[0]
    while scratch.stamp[at] == stamp:
        other = np.int64(scratch.place[at])
        alike = other < count and scratch.state[other] == state
        if by_start:
            alike = alike and scratch.seq[other] == start_seq
        if alike:
            for slot in range(n_slots):
                if into[other * n_slots + slot] != into[base + slot]:
                    alike = False
                    break
        if alike:
            # The later of two starts stays inside the window for longer, and its matches are shorter.
            if start_seq > scratch.seq[other]:
                scratch.seq[other] = start_seq
                scratch.ts[other] = start_ts
                scratch.is_new[other] = 1
            return count
        at = (at + 1) & mask
    scratch.stamp[at] = stamp
    scratch.place[at] = np.int32(count)
    scratch.state[count] = state
    scratch.seq[count] = start_seq
    scratch.ts[count] = start_ts
    return count + 1


@inlined
def _does_as_much(run, other, by_start, automaton, programs, scratch):  # type: ignore[no-untyped-def]
    """Whether a run leads to a match, with a start at least as good, wherever another in the same state does."""
    n_slots = scratch.own_whole.shape[0]
    does = scratch.seq[run] == scratch.seq[other] if by_start else scratch.seq[run] >= scratch.seq[other]
    own, others = run * n_slots, other * n_slots
    towards = np.int64(scratch.state[run]) * n_slots
    for slot in range(n_slots):
        a, b = scratch.whole[own + slot], scratch.whole[others + slot]
        if not does or a == b:
            continue
        direction = automaton.better[towards + slot]
        if direction == 0 or (programs.is_real[slot] == 0 and (a == NEVER or b == NEVER)):
            does = False
        elif programs.is_real[slot] != 0:  # NaN is neither more nor less
            x, y = scratch.real[own + slot], scratch.real[others + slot]
            does = x >= y if direction > 0 else x <= y
        else:
            does = a >= b if direction > 0 else a <= b
    return does


@inlined
def _drop_dominated(count, automaton, programs, scratch):  # type: ignore[no-untyped-def]
    """Drops each run for which another run can do everything; returns how many remain, order kept."""
    n_slots = scratch.own_whole.shape[0]
    for run in range(count):
        if scratch.is_new[run] == 0 or scratch.state[run] < 0:
            continue
        if automaton.has_order[scratch.state[run]] == 0:
            continue
        for other in range(count):
            if other == run or scratch.state[other] != scratch.state[run]:
                continue
            if _does_as_much(run, other, automaton.by_start, automaton, programs, scratch):
                scratch.state[other] = -1 - scratch.state[other]
            elif _does_as_much(other, run, automaton.by_start, automaton, programs, scratch):
                scratch.state[run] = -1 - scratch.state[run]
                break
    kept = 0
    for run in range(count):
        if scratch.state[run] < 0:
            continue
        if kept < run:
            scratch.state[kept] = scratch.state[run]
            scratch.seq[kept] = scratch.seq[run]
            scratch.ts[kept] = scratch.ts[run]
            for slot in range(n_slots):
                scratch.whole[kept * n_slots + slot] = scratch.whole[run * n_slots + slot]
        kept += 1
    return kept


@kernel(two_i64(i64, u16[::1], *map(struct, _STRUCTS)))
def step_registers(begin, code, rows, automaton, programs, values, runs, scratch, out):  # type: ignore[no-untyped-def]
    """Steps over the rows from `begin` on.

    Returns (row to continue from, number of detections), or (-1 - row, …) where the runs of the entity, those that may
    come out of the row, or their detections need more room than there is; the row is not stepped then.
    """
    rows, automaton, programs = ChunkRows(*rows), RegisterAutomaton(*automaton), RegisterPrograms(*programs)
    values, runs, scratch = RegisterValues(*values), RegisterRuns(*runs), RegisterScratch(*scratch)
    out = DetectionArrays(*out)
    n_out = 0
    n = code.shape[0]
    n_slots = scratch.own_whole.shape[0]
    n_tests = programs.first.shape[0] - 1
    n_registers = programs.named_first.shape[0] - 1
    for row in range(begin, n):
        e = rows.entity[row]
        number = rows.seq[row]
        now = rows.ts[row]
        length = 0 if rows.fresh[row] != 0 else runs.length[e]
        n_runs = length + automaton.begins[code[row]]
        if n_runs == 0:
            runs.length[e] = 0
            continue
        most = (length + 1) * automaton.n_names
        if n_out + length + 1 > out.row.shape[0]:
            if n_out == 0:
                return -1 - row, n_out
            return row, n_out
        if most > scratch.state.shape[0]:
            return -1 - row, n_out
        scratch.n_rows[0] += 1
        before_out = n_out
        base = runs.first[e]
        count = 0
        first_of_start = 0  # among the runs that come out: the first of the start at hand
        start_at_hand = np.int64(-1)
        is_reported = False
        best_seq, best_ts = np.int64(-1), np.int64(0)
        n_new = 0
        for run in range(n_runs):
            state, start_seq, start_ts = np.int64(0), number, now
            if run < length:
                state = np.int64(runs.state[base + run])
                start_seq, start_ts = runs.seq[base + run], runs.ts[base + run]
            if start_seq != start_at_hand:
                start_at_hand, is_reported, first_of_start = start_seq, False, count
            if is_reported and automaton.once:
                continue
            if not is_within(now, number, start_seq, start_ts, automaton.window_ticks, automaton.window_events):
                continue
            if run < length:
                for slot in range(n_slots):
                    scratch.own_whole[slot] = runs.whole[(base + run) * n_slots + slot]
            else:
                _begin(row, n, programs, values, scratch)
            _fold(row, n, run == length, programs, values, scratch)
            answers = 0
            for test in range(n_tests):
                answers *= 2
                if automaton.matters[state * n_tests + test] != 0 and _answer(
                    test, row, n, now, number, start_seq, start_ts, automaton.ticks_per_s, programs, values, scratch
                ):
                    answers += 1
            cell = (np.int64(code[row]) * automaton.n_answers + answers) * automaton.n_names
            is_accepted = False
            for names in range(automaton.n_names):
                symbol = np.int64(automaton.symbol_of_code[cell + names])
                after = np.int64(automaton.next_state[state * automaton.n_symbols + symbol])
                if automaton.accepting[after] != 0:
                    is_accepted = True
                if automaton.is_live[after] == 0:
                    continue
                for slot in range(n_slots):
                    kept = automaton.keeps[after * n_slots + slot] != 0
                    scratch.whole[count * n_slots + slot] = scratch.own_whole[slot] if kept else 0
                for register in range(n_registers):
                    if names >> (n_registers - 1 - register) & 1 == 0:
                        continue
                    for nth in range(programs.named_first[register], programs.named_first[register + 1]):
                        slot = programs.named_slot[nth]
                        if automaton.keeps[after * n_slots + slot] != 0:
                            value = values.whole[programs.named_value[nth] * n + row]
                            scratch.whole[count * n_slots + slot] = value
                is_new = run == length or after != state
                for slot in range(n_slots):
                    if scratch.whole[count * n_slots + slot] != scratch.own_whole[slot]:
                        is_new = True
                scratch.is_new[count] = is_new
                n_before = count
                count = _insert(count, after, start_seq, start_ts, automaton.by_start, scratch, scratch.whole)
                n_new += count > n_before and is_new
            if is_accepted:
                if automaton.once:
                    count = first_of_start
                if automaton.every_start:
                    if not is_reported:
                        write(n_out, row, np.int32(automaton.pattern), start_seq, start_ts, out)
                        n_out += 1
                elif best_seq < 0 or (start_seq < best_seq if automaton.longest else start_seq > best_seq):
                    best_seq, best_ts = start_seq, start_ts
                is_reported = True
        if best_seq >= 0:
            write(n_out, row, np.int32(automaton.pattern), best_seq, best_ts, out)
            n_out += 1
        if count > 1 and 0 < n_new <= MOST_COMPARED // count:
            count = _drop_dominated(count, automaton, programs, scratch)
        if count > runs.room[e]:
            return -1 - row, before_out
        for run in range(count):
            runs.state[base + run] = scratch.state[run]
            runs.seq[base + run] = scratch.seq[run]
            runs.ts[base + run] = scratch.ts[run]
        for slot in range(count * n_slots):
            runs.whole[base * n_slots + slot] = scratch.whole[slot]
        runs.length[e] = count
        scratch.n_crowded[0] += count > automaton.most_runs
    return n, n_out
