"""The compiled loops: arrays in, arrays out; nothing here knows what a pattern, a column or an entity's name is.

One family serves every pattern, driven by tables, so a new pattern compiles nothing. Signatures are explicit and the
machine code is cached (`cache` says where). Code generated for each pattern was no faster when it was tried,
and pays at every change.

Rows are the events of one chunk in arrival order; `entity[row]` is dense. `link[row]` is the row of the same entity's
event before, -1 if that lies before the chunk. No fastmath: NaN must stay NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, ClassVar

import numba as nb
import numpy as np

from wayeb_py.kernels.cache import kernel_source

i32, i64, u8, u16, f32, f64 = nb.int32, nb.int64, nb.uint8, nb.uint16, nb.float32, nb.float64
two_i64: Any = nb.types.UniTuple(i64, 2)  # type: ignore[no-untyped-call]


def _read_only(dtype: Any) -> Any:
    """The type of an array that may lie in somebody else's memory, such as Arrow's."""
    return nb.types.Array(dtype, 1, "C", readonly=True)


NEVER = np.int64(-(2**63))  # as a time or an elapsed time: there is none
FOREVER = np.int64(2**63 - 1)


class Kernel:
    """A function with its explicit signatures, each compiled, or loaded from the cache, when it is first called.

    Loading takes milliseconds a signature, and a run needs a third of them. Which one is meant is told by the first
    argument.
    """

    every: ClassVar[list[Kernel]] = []

    def __init__(self, function: Callable[..., Any], signatures: tuple[Any, ...]) -> None:
        self._function = function
        self._signatures = {self._kind(signature.args[0]): signature for signature in signatures}
        self._compiled: dict[Any, Callable[..., Any]] = {}
        functools.update_wrapper(self, function)
        Kernel.every.append(self)

    @staticmethod
    def _kind(argument: Any) -> Any:
        return np.dtype(str(argument.dtype)) if hasattr(argument, "dtype") else None

    def __call__(self, first: Any, *others: Any) -> Any:
        kind = first.dtype if isinstance(first, np.ndarray) else None
        compiled = self._compiled.get(kind)
        if compiled is None:
            compiled = self._load(kind)
        return compiled(first, *others)

    def _load(self, kind: Any) -> Callable[..., Any]:
        # A dispatcher of its own for each signature: one that holds several would load them all.
        source = kernel_source()
        code = self._function.__code__
        function = FunctionType(
            code if source is None else code.replace(co_filename=source),
            self._function.__globals__,
            self._function.__name__,
        )
        loaded: Callable[..., Any] = nb.njit([self._signatures[kind]], nogil=True, cache=source is not None)(function)
        self._compiled[kind] = loaded
        return loaded

    def load_all(self) -> None:
        for kind in self._signatures:
            if kind not in self._compiled:
                self._load(kind)


def compile_ahead() -> None:
    """Compiles whatever is not in the cache yet, so that nobody waits for it later."""
    for kernel in Kernel.every:
        kernel.load_all()


def _kernel(*signatures: Any) -> Callable[[Callable[..., Any]], Kernel]:
    return lambda function: Kernel(function, signatures)


# Keys to entities.
@_kernel(i64(_read_only(i64), i64[::1], i32[::1], i64[::1], i64, i32[::1]))
def number_keys(keys, slots, numbers, known, n_known, entity):  # type: ignore[no-untyped-def]
    """Dense numbers of integer keys by open addressing, new keys numbered on; the caller keeps the table half empty.

    `slots[slot]` is a key, valid where `numbers[slot]` is at least 0; known[number] is its key, with room for all
    that might be new. Returns how many keys are known now.
    """
    mask = slots.shape[0] - 1
    before = np.int64(0)
    number = np.int32(-1)
    for row in range(keys.shape[0]):
        key = keys[row]
        if number >= 0 and key == before:
            entity[row] = number
            continue
        mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
        slot = np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(mask))
        while numbers[slot] >= 0 and slots[slot] != key:
            slot = (slot + 1) & mask
        if numbers[slot] < 0:
            slots[slot] = key
            numbers[slot] = np.int32(n_known)
            known[n_known] = key
            n_known += 1
        number = numbers[slot]
        before = key
        entity[row] = number
    return n_known


@_kernel(*(i64(_read_only(t), i32[::1], i64, i64[::1], i64, i32[::1]) for t in (i64, i32)))
def number_dense_keys(keys, number_of, offset, known, n_known, entity):  # type: ignore[no-untyped-def]
    """As `number_keys` for keys that the caller knows to be in range: number_of[key - offset], -1 where unknown."""
    for row in range(keys.shape[0]):
        place = keys[row] - offset
        number = number_of[place]
        if number < 0:
            number = np.int32(n_known)
            number_of[place] = number
            known[n_known] = keys[row]
            n_known += 1
        entity[row] = number
    return n_known


@_kernel(nb.void(i64[::1], i64[::1], i32[::1]))
def rehash(old_keys, slots, numbers):  # type: ignore[no-untyped-def]
    """Puts keys, numbered in their order, into an empty table."""
    mask = slots.shape[0] - 1
    for number in range(old_keys.shape[0]):
        key = old_keys[number]
        mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
        slot = np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(mask))
        while numbers[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = key
        numbers[slot] = number


@nb.njit(nogil=True, inline="always")
def _span(later, earlier):  # type: ignore[no-untyped-def]
    """How far apart two times are; nanoseconds of centuries that 64 bits cannot hold are as far as they can."""
    span = np.uint64(later) - np.uint64(earlier)  # without a sign the difference cannot overflow
    return np.int64(span) if span < np.uint64(FOREVER) else FOREVER


# Arrival: each event finds the one before it.
@_kernel(
    two_i64(
        i32[::1], _read_only(i64), i64, i64[::1], i64[::1], i32[::1], i32[::1], i64[::1], i64[::1], u8[::1], i32[::1]
    )
)
def arrive(entity, ts, forget, count, last_ts, last_row, link, seq, elapsed, fresh, present):  # type: ignore[no-untyped-def]
    """Links each event to its entity's event before, numbers it in its word, and says when a new word begins.

    Returns (row, n_present): `row` is where time runs backwards within an entity, or the number of rows; `present`
    lists the entities of the chunk. `count[entity]` is the length of the word so far, `forget` below 0 is never.
    Nothing of the entities but `last_row` is changed: `settle` does that when the chunk is done.
    """
    n_present = 0
    n = entity.shape[0]
    for row in range(n):
        e = entity[row]
        t = ts[row]
        before = last_row[e]
        if before >= 0:
            last = ts[before]
            next_seq = seq[before] + 1
        else:
            present[n_present] = e
            n_present += 1
            next_seq = count[e]
            last = last_ts[e] if next_seq > 0 else t
        if t < last:
            return row, n_present
        gap = _span(t, last)
        new_word = next_seq == 0 or (forget >= 0 and gap > forget)
        fresh[row] = new_word
        if new_word:
            seq[row] = 0
            link[row] = -1
            elapsed[row] = NEVER
        else:
            seq[row] = next_seq
            link[row] = before
            elapsed[row] = gap
        last_row[e] = np.int32(row)
    return n, n_present


@_kernel(nb.void(i32[::1], _read_only(i64), i64[::1], i32[::1], i64[::1], i64[::1], i32[::1], i64[::1], i64))
def settle(present, ts, seq, link, count, last_ts, last_row, tail_ts, tail):  # type: ignore[no-untyped-def]
    """At the end of a chunk keeps of each entity the length of its word and its last `tail` times.

    tail_ts[entity * tail + seq % tail].
    """
    for at in range(present.shape[0]):
        e = present[at]
        row = last_row[e]
        last_row[e] = np.int32(-1)
        count[e] = seq[row] + 1
        last_ts[e] = ts[row]
        for _ in range(tail):
            tail_ts[e * tail + seq[row] % tail] = ts[row]
            row = link[row]
            if row < 0:
                break


@_kernel(nb.void(i32[::1], i32[::1]))
def forget_rows(present, last_row):  # type: ignore[no-untyped-def]
    """Undoes what `arrive` left of a chunk that is not recognised after all."""
    for at in range(present.shape[0]):
        last_row[present[at]] = np.int32(-1)


_NUMBERS = (f64, f32, i64, i32, nb.int16, nb.int8, u16, u8)


# Values to cells.
@_kernel(*(nb.void(_read_only(t), t[::1], u16, u16, u16[::1]) for t in _NUMBERS))
def add_cells(values, thresholds, stride, missing, code):  # type: ignore[no-untyped-def]
    """code[row] += stride * (number of thresholds below the value), or += missing for NaN.

    Thresholds come in multiples of four, filled up with one that no value exceeds; four at a time vectorise well.
    """
    n = values.shape[0]
    zero = np.uint16(0)
    one = np.uint16(1)
    block = 4096
    for begin in range(0, n, block):
        # Slices, so that indices are known not to be negative: only then do the loops vectorise.
        some = values[begin : begin + block]
        into = code[begin : begin + block]
        for t in range(0, thresholds.shape[0], 4):
            t0, t1, t2, t3 = thresholds[t], thresholds[t + 1], thresholds[t + 2], thresholds[t + 3]
            for row in range(some.shape[0]):
                v = some[row]
                passed = np.uint16(
                    (one if v > t0 else zero)
                    + (one if v > t1 else zero)
                    + (one if v > t2 else zero)
                    + (one if v > t3 else zero)
                )
                into[row] = np.uint16(into[row] + np.uint16(stride * passed))
        for row in range(some.shape[0]):
            v = some[row]
            into[row] = np.uint16(into[row] + (missing if v != v else zero))


@_kernel(*(nb.void(_read_only(t), t, u16, u16, u16[::1]) for t in _NUMBERS))
def add_cell_of_one(values, threshold, stride, missing, code):  # type: ignore[no-untyped-def]
    """As `add_cells` with a single threshold, the commonest case."""
    zero = np.uint16(0)
    for row in range(values.shape[0]):
        v = values[row]
        passed = stride if v > threshold else zero
        code[row] = np.uint16(code[row] + passed + (missing if v != v else zero))


@_kernel(*(nb.void(_read_only(t), t[::1], u16, u16, u16[::1]) for t in _NUMBERS))
def find_cells(values, thresholds, stride, missing, code):  # type: ignore[no-untyped-def]
    """As `add_cells`, by binary search, for many thresholds (ascending, any number)."""
    n = thresholds.shape[0]
    for row in range(values.shape[0]):
        v = values[row]
        if v != v:
            code[row] = np.uint16(code[row] + missing)
            continue
        low = 0
        length = n
        while length > 0:
            half = length >> 1
            if v > thresholds[low + half]:
                low += half + 1
                length -= half + 1
            else:
                length = half
        code[row] = np.uint16(code[row] + np.uint16(stride * np.uint16(low)))


@_kernel(nb.void(_read_only(i64), u16, u16[::1]))
def add_never(values, missing, code):  # type: ignore[no-untyped-def]
    """After `add_cells` on times: code[row] += missing where there is none, which has fallen into the lowest cell."""
    zero = np.uint16(0)
    for row in range(values.shape[0]):
        code[row] = np.uint16(code[row] + (missing if values[row] == NEVER else zero))


@_kernel(
    nb.void(_read_only(nb.int8), u16[::1], u16[::1]),
    nb.void(_read_only(nb.int16), u16[::1], u16[::1]),
    nb.void(_read_only(i32), u16[::1], u16[::1]),
    nb.void(_read_only(u8), u16[::1], u16[::1]),
)
def add_looked_up(values, code_of_value, code):  # type: ignore[no-untyped-def]
    """code[row] += code_of_value[values[row]], for dictionary codes and other small numbers."""
    for row in range(values.shape[0]):
        code[row] = np.uint16(code[row] + code_of_value[values[row]])


@_kernel(*(nb.void(_read_only(t), _read_only(u8), t[::1], u16, u16, u16, u16[::1]) for t in _NUMBERS))
def add_masked_cells(values, is_missing, thresholds, stride, base, missing, code):  # type: ignore[no-untyped-def]
    """As `add_cells` where what lies under a mask is missing; `base` is added to all that are not."""
    n = values.shape[0]
    zero = np.uint16(0)
    one = np.uint16(1)
    block = 4096
    for begin in range(0, n, block):
        some = values[begin : begin + block]
        absent = is_missing[begin : begin + block]
        into = code[begin : begin + block]
        for t in range(0, thresholds.shape[0], 4):
            t0, t1, t2, t3 = thresholds[t], thresholds[t + 1], thresholds[t + 2], thresholds[t + 3]
            for row in range(some.shape[0]):
                v = some[row]
                passed = np.uint16(
                    (one if v > t0 else zero)
                    + (one if v > t1 else zero)
                    + (one if v > t2 else zero)
                    + (one if v > t3 else zero)
                )
                into[row] = np.uint16(into[row] + (np.uint16(stride * passed) if absent[row] == 0 else zero))
        for row in range(some.shape[0]):
            v = some[row]
            into[row] = np.uint16(into[row] + (missing if v != v or absent[row] != 0 else base))


@_kernel(nb.void(u16[:, ::1], i64, i32[::1], i32[::1], u16[::1], u16[::1]))
def combine(cells, n, axes, first, maps, code):  # type: ignore[no-untyped-def]
    """code[row] = sum over a group's axes of maps[first[axis] + cells[axis, row]]; maps carry the strides."""
    block = 4096
    for begin in range(0, n, block):
        end = min(n, begin + block)
        into = code[begin:end]
        for a in range(axes.shape[0]):
            cell = cells[axes[a], begin:end]
            own = maps[first[a] : first[a + 1]]
            if a == 0:
                for row in range(into.shape[0]):
                    into[row] = own[cell[row]]
            else:
                for row in range(into.shape[0]):
                    into[row] = np.uint16(into[row] + own[cell[row]])


# Derived values.
@_kernel(*(nb.void(_read_only(t), _read_only(t), f64[::1]) for t in (f64, f32)))
def measure_angles(a, b, angle):  # type: ignore[no-untyped-def]
    """angle[row] = degrees between two directions, 0 to 180; NaN where one of them is."""
    n_far = 0
    for row in range(a.shape[0]):
        turn = abs(f64(a[row]) - f64(b[row]))
        n_far += turn >= 720.0
        turn = turn - 360.0 if turn >= 360.0 else turn
        angle[row] = 360.0 - turn if turn > 180.0 else turn
    if n_far > 0:  # directions beyond a full turn: the remainder is exact, and slow
        for row in range(a.shape[0]):
            turn = abs(f64(a[row]) - f64(b[row])) % 360.0
            angle[row] = 360.0 - turn if turn > 180.0 else turn


# State before this batch for derived values.
@_kernel(
    nb.void(_read_only(f64), i32[::1], i32[::1], u8[::1], f64[::1], f64[::1]),
    nb.void(_read_only(i64), i32[::1], i32[::1], u8[::1], i64[::1], i64[::1]),
)
def shift_by_entity(values, entity, link, fresh, last, shifted):  # type: ignore[no-untyped-def]
    """shifted[row] = the value at the entity's event before, from `last[entity]` where that lies before the chunk."""
    for row in range(values.shape[0]):
        before = link[row]
        if before >= 0:
            shifted[row] = values[before]
        elif fresh[row] == 0:
            shifted[row] = last[entity[row]]


@_kernel(
    nb.void(_read_only(i64), i32[::1], _read_only(i64), i32[::1], u8[::1], i64[::1], i64[::1], i64[::1]),
)
def hold(values, entity, ts, link, fresh, last, since, held):  # type: ignore[no-untyped-def]
    """held[row] = ticks since the value, given as bits, became what it is; `since` and `last` are kept by entity."""
    for row in range(values.shape[0]):
        e = entity[row]
        if fresh[row] != 0 or last[e] != values[row]:
            since[e] = ts[row]
        last[e] = values[row]
        held[row] = _span(ts[row], since[e])


@_kernel(nb.boolean(i64[::1], i64[::1], i64[::1]))
def are_in_order(row, pattern, place):  # type: ignore[no-untyped-def]
    """Whether detections are in the order of their rows, then of patterns, then of places."""
    for at in range(1, row.shape[0]):
        if row[at] > row[at - 1]:
            continue
        if row[at] < row[at - 1] or pattern[at] < pattern[at - 1]:
            return False
        if pattern[at] == pattern[at - 1] and place[at] < place[at - 1]:
            return False
    return True


# Lateness.
@_kernel(nb.void(i32[::1], _read_only(i64), i64, i64[::1], u8[::1]))
def mark_late(entity, ts, lateness, greatest, late):  # type: ignore[no-untyped-def]
    """late[row]: the event is more than `lateness` older than the greatest time that arrived before it for its
    entity."""
    for row in range(entity.shape[0]):
        e = entity[row]
        t = ts[row]
        late[row] = greatest[e] != NEVER and t < greatest[e] and _span(greatest[e], t) > lateness
        if t > greatest[e]:
            greatest[e] = t


@_kernel(nb.void(i32[::1], _read_only(i64), i64[::1], u8[::1]))
def mark_repeated(entity, ts, last_seen, repeated):  # type: ignore[no-untyped-def]
    """repeated[row]: the entity's event before, in order, has the same time."""
    for row in range(entity.shape[0]):
        e = entity[row]
        repeated[row] = last_seen[e] == ts[row]
        last_seen[e] = ts[row]
