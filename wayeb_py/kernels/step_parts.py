"""What every stepping kernel reads, does and writes: a chunk's rows, the starts of matches in registers, detections.

Stepping kernels stop when their output or their room is full, say where, and are called again from there.
"""

from __future__ import annotations

from typing import NamedTuple

from wayeb_py.kernels.compiled import inlined
from wayeb_py.kernels.structs import I32, I64, U8, ReadI64
from wayeb_py.kernels.ticks import span


class ChunkRows(NamedTuple):
    """The events of a chunk, each at its position in its entity's word, and the last times of words before the
    chunk."""

    entity: I32
    ts: ReadI64
    seq: I64
    link: I32
    fresh: U8
    tail_ts: I64  # [entity * tail + seq % tail]
    tail: int


class RegisterMoves(NamedTuple):
    """What a step does to registers: of_step[step] is a list, and its moves are first[list] to first[list + 1].

    A source below 0 is the event that is -source events old (this event is 1 event old), otherwise a register.
    """

    of_step: I32  # [state * n_symbols + symbol]
    first: I32
    register: I32
    source: I32


class DetectionArrays(NamedTuple):
    """Where detections are written; a pattern without places leaves `place` alone."""

    row: I32
    pattern: I32
    place: I32
    start_seq: I64
    start_ts: I64


@inlined
def time_at_age(row, age, e, start_seq, rows):  # type: ignore[no-untyped-def]
    """The time of the entity's event that is `age` events old; this row's event is 1 event old."""
    at = row
    for _ in range(age - 1):
        at = rows.link[at]
        if at < 0:
            return rows.tail_ts[e * rows.tail + start_seq % rows.tail]
    return rows.ts[at]


@inlined
def move_registers(step, own, row, e, number, moves, rows, register_seq, register_ts):  # type: ignore[no-untyped-def]
    """Makes the moves of a step among the registers from `own` on; the event is `number` in the entity's word."""
    listed = moves.of_step[step]
    for move in range(moves.first[listed], moves.first[listed + 1]):
        source = moves.source[move]
        register = own + moves.register[move]
        if source >= 0:
            register_seq[register] = register_seq[own + source]
            register_ts[register] = register_ts[own + source]
        else:
            start_seq = number + source + 1
            register_seq[register] = start_seq
            register_ts[register] = time_at_age(row, -source, e, start_seq, rows)


@inlined
def start_of(start, own, row, e, number, rows, register_seq, register_ts):  # type: ignore[no-untyped-def]
    """Where a match began, as number and time: a start above 0 is the match's length, -r - 1 its register."""
    if start < 0:
        return register_seq[own - start - 1], register_ts[own - start - 1]
    start_seq = number - start + 1
    return start_seq, time_at_age(row, start, e, start_seq, rows)


@inlined
def is_within(now, number, start_seq, start_ts, window_ticks, window_events):  # type: ignore[no-untyped-def]
    """Whether a match that began at `start_seq` is inside its pattern's window."""
    return span(now, start_ts) <= window_ticks and number - start_seq < window_events


@inlined
def write(n_out, row, pattern, start_seq, start_ts, out):  # type: ignore[no-untyped-def]
    """Writes detection n_out, except its place."""
    out.row[n_out] = row
    out.pattern[n_out] = pattern
    out.start_seq[n_out] = start_seq
    out.start_ts[n_out] = start_ts
