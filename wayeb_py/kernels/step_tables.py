"""Codes become detections of a group of patterns: one step of their product automaton an event, by its tables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wayeb_py.kernels.compiled import i64, kernel, two_i64, u16
from wayeb_py.kernels.step_parts import (
    ChunkRows,
    DetectionArrays,
    RegisterMoves,
    is_within,
    move_registers,
    start_of,
    write,
)
from wayeb_py.kernels.structs import I32, I64, U16, struct


class ProductTables(NamedTuple):
    """A product automaton; a step has its highest bit set where registers move or the new state reports."""

    symbol_of_code: U16  # [code]: the cells of the axes, the last running fastest
    next_state: U16  # [state * n_symbols + symbol]
    n_symbols: int


class ReportLists(NamedTuple):
    """What states report: of_state[state] is a list, and its reports are first[list] to first[list + 1]."""

    of_state: I32
    first: I32
    pattern: I32
    start: I32  # above 0 the match's length, -r - 1 its register


class Windows(NamedTuple):
    """[pattern]: the longest that a match may take, in ticks, and the most events that it may have."""

    ticks: I64
    events: I64


class KeptStates(NamedTuple):
    """What is kept of each entity: its state, and the starts of runs whose age varies."""

    state: U16
    register_seq: I64  # [entity * n_registers + register]
    register_ts: I64
    n_registers: int


_STRUCTS = ChunkRows, ProductTables, RegisterMoves, ReportLists, Windows, KeptStates, DetectionArrays


@kernel(two_i64(i64, u16[::1], *map(struct, _STRUCTS)))
def step_tables(begin, code, rows, tables, moves, reports, windows, kept, out):  # type: ignore[no-untyped-def]
    """Steps over the rows from `begin` on and writes detections with their starts.

    Returns (row to continue from, number of detections): it stops early when the output is full.
    """
    rows, tables, moves = ChunkRows(*rows), ProductTables(*tables), RegisterMoves(*moves)
    reports, windows, kept, out = ReportLists(*reports), Windows(*windows), KeptStates(*kept), DetectionArrays(*out)
    n_out = 0
    n = code.shape[0]
    room = out.row.shape[0]
    width = np.uint64(tables.n_symbols)
    # Slices and numbers without a sign spare the check for negative indices.
    codes, entities, fresh = code[begin:], rows.entity[begin:], rows.fresh[begin:]
    for nth in range(codes.shape[0]):
        unsigned = np.uint64(entities[nth])
        before = np.uint64(kept.state[unsigned])
        if fresh[nth] != 0:
            before = np.uint64(0)
        step = before * width + np.uint64(tables.symbol_of_code[codes[nth]])
        value = tables.next_state[step]
        if value < 0x8000:
            kept.state[unsigned] = value
            continue
        row = begin + nth
        e = np.int64(entities[nth])
        after = value & np.uint16(0x7FFF)
        reported = reports.of_state[after]
        if n_out + reports.first[reported + 1] - reports.first[reported] > room:
            return row, n_out
        kept.state[unsigned] = after
        own = e * kept.n_registers
        number = rows.seq[row]
        move_registers(step, own, row, e, number, moves, rows, kept.register_seq, kept.register_ts)
        for item in range(reports.first[reported], reports.first[reported + 1]):
            pattern = reports.pattern[item]
            start_seq, start_ts = start_of(
                reports.start[item], own, row, e, number, rows, kept.register_seq, kept.register_ts
            )
            if is_within(rows.ts[row], number, start_seq, start_ts, windows.ticks[pattern], windows.events[pattern]):
                write(n_out, row, pattern, start_seq, start_ts, out)
                n_out += 1
    return n, n_out
