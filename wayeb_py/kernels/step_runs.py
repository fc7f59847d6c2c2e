"""Codes become detections of one pattern, run by run: a nondeterministic automaton is simulated."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wayeb_py.kernels.compiled import i64, kernel, two_i64, u16
from wayeb_py.kernels.step_parts import ChunkRows, DetectionArrays, is_within, write
from wayeb_py.kernels.structs import I32, I64, U8, U16, struct


class RunAutomaton(NamedTuple):
    """The successors of a state and symbol are successors[first[step] : first[step + 1]].

    `joined`: only the preferred one of the runs in a state survives; otherwise runs live until the window ends.
    """

    symbol_of_code: U16
    first: I64  # [state * (n_symbols + 1) + symbol]
    successors: I64
    accepting: U8  # [state]
    n_symbols: int
    pattern: int
    longest: bool
    joined: bool
    window_ticks: int
    window_events: int


class RunLists(NamedTuple):
    """The runs of an entity, the preferred start first: length[entity] from first[entity] on, with room for more."""

    first: I64
    room: I64
    length: I64
    state: I32
    seq: I64
    ts: I64


class RunScratch(NamedTuple):
    """The runs of the event at hand, and which of the states have one: seen[state] is the event's epoch."""

    state: I32
    seq: I64
    ts: I64
    seen: I64
    epoch: I64  # one number, which the kernel increments


_STRUCTS = ChunkRows, RunAutomaton, RunLists, RunScratch, DetectionArrays


@kernel(two_i64(i64, u16[::1], *map(struct, _STRUCTS)))
def step_runs(begin, code, rows, automaton, runs, scratch, out):  # type: ignore[no-untyped-def]
    """Steps over the rows from `begin` on and writes detections with their starts.

    Returns (row to continue from, number of detections), or (-1 - row, …) where the entity's runs need more room than
    they or the scratch have; the row is not stepped then.
    """
    rows, automaton, runs = ChunkRows(*rows), RunAutomaton(*automaton), RunLists(*runs)
    scratch, out = RunScratch(*scratch), DetectionArrays(*out)
    n_out = 0
    n = code.shape[0]
    room = out.row.shape[0]
    width = automaton.n_symbols + 1
    for row in range(begin, n):
        if n_out == room:
            return row, n_out
        e = rows.entity[row]
        number = rows.seq[row]
        now = rows.ts[row]
        symbol = np.int64(automaton.symbol_of_code[code[row]])
        length = 0 if rows.fresh[row] != 0 else runs.length[e]
        base = runs.first[e]
        scratch.epoch[0] += 1
        mark = scratch.epoch[0]
        kept = 0
        limit = scratch.state.shape[0]
        # The new run is preferred when the latest start is, and comes last when the earliest is.
        for turn in range(length + 1):
            run = turn if automaton.longest else turn - 1
            if run < 0 or run == length:
                before, start_seq, start_ts = np.int64(0), number, now
            else:
                before = np.int64(runs.state[base + run])
                start_seq = runs.seq[base + run]
                start_ts = runs.ts[base + run]
            if not is_within(now, number, start_seq, start_ts, automaton.window_ticks, automaton.window_events):
                continue
            step = before * width + symbol
            for nth in range(automaton.first[step], automaton.first[step + 1]):
                after = automaton.successors[nth]
                if automaton.joined:
                    if scratch.seen[after] == mark:
                        continue
                    scratch.seen[after] = mark
                else:
                    # The same start twice in the same state is one run; runs of one start are neighbours.
                    twice = False
                    back = kept - 1
                    while back >= 0 and scratch.seq[back] == start_seq:
                        if scratch.state[back] == after:
                            twice = True
                            break
                        back -= 1
                    if twice:
                        continue
                if kept == limit or kept == runs.room[e]:
                    return -1 - row, n_out
                scratch.state[kept] = np.int32(after)
                scratch.seq[kept] = start_seq
                scratch.ts[kept] = start_ts
                kept += 1
        runs.length[e] = kept
        found = -1
        for run in range(kept):
            runs.state[base + run] = scratch.state[run]
            runs.seq[base + run] = scratch.seq[run]
            runs.ts[base + run] = scratch.ts[run]
            if found < 0 and automaton.accepting[scratch.state[run]] != 0:
                found = run
        if found >= 0:
            write(n_out, row, np.int32(automaton.pattern), scratch.seq[found], scratch.ts[found], out)
            n_out += 1
    return n, n_out
