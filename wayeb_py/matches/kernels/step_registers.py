"""Codes and values become detections of a pattern that remembers events: a run for each way that may still match.

A run has a state of the automaton, a start, and slots: values of the events that it has named, and what it has folded
of the events that it has read. At an event each run folds it, answers the tests that matter in its state, and continues
once for every set of names that the event may get. Of runs that agree in everything that can still matter, one stays.

Most events do less: with those of their kind (`class`) a run ends, or goes on in one way whatever it has remembered.
That is in a table, and where one run at most comes out of an event nothing else is asked.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wayeb_py.kernels.compiled import i64, inlined, kernel, two_i64, u16
from wayeb_py.kernels.step_parts import ChunkRows, DetectionArrays, is_within, write
from wayeb_py.kernels.structs import F64, I32, I64, U8, U16, struct
from wayeb_py.kernels.ticks import NEVER
from wayeb_py.matches.kernels.run_answers import RegisterPrograms, RegisterValues, answer, begin_run, fold

ENDS, ASKS = -1, -2  # what a run does that does not simply go on
MOST_COMPARED = 1 << 14  # pairs of runs at an event: past them all runs are kept, which changes no detection


class RegisterAutomaton(NamedTuple):
    """A deterministic automaton over events, answers and names; a run in a state that is not live is dropped.

    `by_start`: runs of different starts are never joined. `every_start`: each start of a match is reported, the
    earliest first; otherwise one, the earliest if `longest`.
    """

    class_of_code: U16  # events of one class have the same symbols, whatever a run answers
    symbol_of_class: U16  # [(class * n_answers + answers) * n_names + names]
    plain: I32  # [state * n_classes + class]: ENDS, ASKS, or the one state * n_names + names to which a run goes on
    depends: U8  # [class * n_tests + test]: the answer makes a difference there
    next_state: I32  # [state * n_symbols + symbol]
    accepting: U8  # [state]
    is_live: U8  # [state]
    matters: U8  # [state * n_tests + test]
    keeps: U8  # [state * n_slots + slot]: something can still read it
    begins: U8  # [class]: a match may begin with such an event
    better: I32  # [state * n_slots + slot]: 1 where the greater is at least as good, -1 where the less is, 0: neither
    has_order: U8  # [state]: some slot has a direction there
    n_symbols: int
    n_classes: int
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


@inlined
def _name(after, names, row, n, into, base, n_slots, automaton, programs, values):  # type: ignore[no-untyped-def]
    """Writes the values of the event to the slots of its names, which are the lowest bits of `names`."""
    n_registers = programs.named_first.shape[0] - 1
    for register in range(n_registers):
        if names >> (n_registers - 1 - register) & 1 == 0:
            continue
        for nth in range(programs.named_first[register], programs.named_first[register + 1]):
            slot = programs.named_slot[nth]
            if automaton.keeps[after * n_slots + slot] != 0:
                into[base + slot] = values.whole[programs.named_value[nth] * n + row]


@inlined
def _remember(after, names, row, n, into, base, automaton, programs, values, scratch):  # type: ignore[no-untyped-def]
    """Writes the slots of the run at hand as it comes to a state, the event having some names."""
    n_slots = scratch.own_whole.shape[0]
    for slot in range(n_slots):
        kept = automaton.keeps[after * n_slots + slot] != 0
        into[base + slot] = scratch.own_whole[slot] if kept else 0
    if names != 0:
        _name(after, names, row, n, into, base, n_slots, automaton, programs, values)


@inlined
def _keep_one(run, at, step, row, n, automaton, programs, values, runs, scratch):  # type: ignore[no-untyped-def]
    """Writes to place `at` what the event makes of a run, -1 being one that begins with it."""
    n_slots = scratch.own_whole.shape[0]
    n_registers = programs.named_first.shape[0] - 1
    if run >= 0:
        for slot in range(n_slots):
            scratch.own_whole[slot] = runs.whole[run * n_slots + slot]
    else:
        begin_run(row, n, programs, values, scratch)
    fold(row, n, run < 0, programs, values, scratch)
    after = step >> n_registers
    names = step & ((1 << n_registers) - 1)
    _remember(after, names, row, n, runs.whole, at * n_slots, automaton, programs, values, scratch)
    runs.state[at] = after


@inlined
def _drop_ended(e, number, now, kind, length, automaton, runs, scratch):  # type: ignore[no-untyped-def]
    """Steps several runs of which each ends or stays as it is; returns whether they are such runs.

    Those that stay are as different as they were.
    """
    n_slots = scratch.own_whole.shape[0]
    n_names = automaton.n_names
    base = runs.first[e]
    for run in range(base, base + length):
        state = np.int64(runs.state[run])
        step = np.int64(automaton.plain[state * automaton.n_classes + kind])
        if step != ENDS and step != state * n_names:
            return False
    kept = base
    for run in range(base, base + length):
        state = np.int64(runs.state[run])
        start_seq, start_ts = runs.seq[run], runs.ts[run]
        if automaton.plain[state * automaton.n_classes + kind] == ENDS or not is_within(
            now, number, start_seq, start_ts, automaton.window_ticks, automaton.window_events
        ):
            continue
        if kept < run:
            for slot in range(n_slots):
                runs.whole[kept * n_slots + slot] = runs.whole[run * n_slots + slot]
            runs.state[kept] = state
            runs.seq[kept], runs.ts[kept] = start_seq, start_ts
        kept += 1
    runs.length[e] = kept - base
    scratch.n_crowded[0] += kept - base > automaton.most_runs
    return True


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
    n_folds = programs.fold.shape[0]
    is_simple = n_folds == 0 and programs.begun_slot.shape[0] == 0
    has_one = is_simple and n_slots == 1 and n_registers == 1 and programs.named_value.shape[0] == 1
    the_value = programs.named_value[0] * n if has_one else 0
    for row in range(begin, n):
        nth = np.uint64(row)
        e = np.uint64(rows.entity[nth])
        kind = np.int64(automaton.class_of_code[np.uint64(code[nth])])
        length = runs.length[e]
        if rows.fresh[nth] != 0 and length != 0:
            length = runs.length[e] = 0
        begins = automaton.begins[np.uint64(kind)]
        n_runs = length + begins
        if n_runs == 0:
            continue
        number = rows.seq[nth]
        now = rows.ts[nth]
        base = runs.first[e]
        if length <= 1:
            step, first = np.int64(ENDS), np.int64(ENDS)
            stays = np.int64(-1)
            if length == 1:
                stays = np.int64(runs.state[base]) << n_registers
                step = np.int64(automaton.plain[np.int64(runs.state[base]) * automaton.n_classes + kind])
                if step != ENDS and not is_within(
                    now, number, runs.seq[base], runs.ts[base], automaton.window_ticks, automaton.window_events
                ):
                    step = np.int64(ENDS)
            if begins != 0:
                first = np.int64(automaton.plain[np.uint64(kind)])
            if step != ASKS and first != ASKS and (step < 0 or first < 0):
                if step >= 0:
                    if step != stays or n_folds > 0:
                        _keep_one(base, base, step, row, n, automaton, programs, values, runs, scratch)
                elif first >= 0:
                    if has_one:  # what `_name` would write
                        after = first >> 1
                        is_kept = first & 1 != 0 and automaton.keeps[np.uint64(after)] != 0
                        runs.state[base] = after
                        runs.whole[base] = values.whole[the_value + row] if is_kept else 0
                    elif is_simple:
                        runs.state[base] = first >> n_registers
                        at = base * n_slots
                        for slot in range(n_slots):
                            runs.whole[at + slot] = 0
                        _name(first >> n_registers, first, row, n, runs.whole, at, n_slots, automaton, programs, values)
                    else:
                        _keep_one(-1, base, first, row, n, automaton, programs, values, runs, scratch)
                    runs.seq[base], runs.ts[base] = number, now
                    if length == 0:
                        runs.length[e] = 1
                else:
                    runs.length[e] = 0
                continue
        elif begins == 0 and n_folds == 0 and _drop_ended(e, number, now, kind, length, automaton, runs, scratch):
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
                begin_run(row, n, programs, values, scratch)
            fold(row, n, run == length, programs, values, scratch)
            answers = 0
            for test in range(n_tests):
                answers *= 2
                if automaton.depends[kind * n_tests + test] == 0 or automaton.matters[state * n_tests + test] == 0:
                    continue
                if answer(
                    test, row, n, now, number, start_seq, start_ts, automaton.ticks_per_s, programs, values, scratch
                ):
                    answers += 1
            cell = (kind * automaton.n_answers + answers) * automaton.n_names
            is_accepted = False
            for names in range(automaton.n_names):
                symbol = np.int64(automaton.symbol_of_class[cell + names])
                after = np.int64(automaton.next_state[state * automaton.n_symbols + symbol])
                if automaton.accepting[after] != 0:
                    is_accepted = True
                if automaton.is_live[after] == 0:
                    continue
                _remember(after, names, row, n, scratch.whole, count * n_slots, automaton, programs, values, scratch)
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
