"""Codes become detections of one pattern from every start: each start has a run of its own through the automaton.

And detections become those that do not overlap: the next match begins after the last event of the previous one.
"""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import i32, i64, kernel, two_i64, u8, u16
from wayeb_py.kernels.step_parts import ChunkRows, DetectionArrays, is_within, write
from wayeb_py.kernels.step_runs import RunLists
from wayeb_py.kernels.structs import I32, U8, U16, struct


class StartAutomaton(NamedTuple):
    """A deterministic automaton; a run in a state from which nothing is accepted any more is dropped.

    `once`: a run that has been accepted is dropped as well.
    """

    symbol_of_code: U16
    next_state: I32  # [state * n_symbols + symbol]
    accepting: U8  # [state]
    is_live: U8  # [state]
    n_symbols: int
    pattern: int
    once: bool
    window_ticks: int
    window_events: int


_STRUCTS = ChunkRows, StartAutomaton, RunLists, DetectionArrays


@kernel(two_i64(i64, u16[::1], *map(struct, _STRUCTS)))
def step_starts(begin, code, rows, automaton, runs, out):  # type: ignore[no-untyped-def]
    """Steps over the rows from `begin` on and writes a detection for each start of a match, the earliest first.

    Returns (row to continue from, number of detections), or (-1 - row, …) where the entity's runs, or their
    detections, need more room than there is; the row is not stepped then.
    """
    rows, automaton, runs = ChunkRows(*rows), StartAutomaton(*automaton), RunLists(*runs)
    out = DetectionArrays(*out)
    n_out = 0
    n = code.shape[0]
    room = out.row.shape[0]
    for row in range(begin, n):
        e = rows.entity[row]
        number = rows.seq[row]
        now = rows.ts[row]
        symbol = np.int64(automaton.symbol_of_code[code[row]])
        length = 0 if rows.fresh[row] != 0 else runs.length[e]
        if n_out + length + 1 > room:
            if n_out == 0:
                return -1 - row, n_out
            return row, n_out
        if length + 1 > runs.room[e]:
            return -1 - row, n_out
        base = runs.first[e]
        kept = 0
        for run in range(length + 1):
            before, start_seq, start_ts = np.int64(0), number, now
            if run < length:
                before = np.int64(runs.state[base + run])
                start_seq = runs.seq[base + run]
                start_ts = runs.ts[base + run]
            if not is_within(now, number, start_seq, start_ts, automaton.window_ticks, automaton.window_events):
                continue
            state = automaton.next_state[before * automaton.n_symbols + symbol]
            if automaton.accepting[state] != 0:
                write(n_out, row, np.int32(automaton.pattern), start_seq, start_ts, out)
                n_out += 1
                if automaton.once:
                    continue
            if automaton.is_live[state] != 0:
                runs.state[base + kept] = state
                runs.seq[base + kept] = start_seq
                runs.ts[base + kept] = start_ts
                kept += 1
        runs.length[e] = kept
    return n, n_out


@kernel(nb.void(i32[::1], u8[::1], i64[::1], i32[::1], i64[::1], i64[::1], nb.boolean, u8[::1]))
def keep_disjoint(entity, fresh, seq, found_row, start_seq, behind, longest, kept):  # type: ignore[no-untyped-def]
    """kept[nth]: a detection, in the order of rows and then of starts, whose match begins after the last kept one.

    behind[entity] is the number of the event after the last match. Of several starts at one event, the earliest that
    fits is kept if `longest`, and otherwise the latest.
    """
    n_found = found_row.shape[0]
    nth = 0
    for row in range(entity.shape[0]):
        e = entity[row]
        if fresh[row] != 0:
            behind[e] = 0
        chosen = -1
        while nth < n_found and found_row[nth] == row:
            kept[nth] = 0
            if start_seq[nth] >= behind[e] and (chosen < 0 or not longest):
                chosen = nth
            nth += 1
        if chosen >= 0:
            kept[chosen] = 1
            behind[e] = seq[row] + 1
