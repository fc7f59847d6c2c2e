"""What a run of a pattern that remembers events answers: tests, and what it folds of the events that it reads.

A test is a small program. Its operands are numbers, or whole numbers where both sides are such, so that ticks and large
integers are compared exactly. A missing number is NaN, a missing whole number NEVER.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wayeb_py.kernels.compiled import inlined
from wayeb_py.kernels.structs import F64, I32, I64, U8, ReadF64, ReadI64
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
MOST_OPERANDS = 64  # of one test, that wait for others


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
    fold_slot: I64  # the slot after it counts the values
    fold_value: I64
    is_real: U8  # [slot]


class RegisterValues(NamedTuple):
    """Values of the chunk's events by their bits: [value * n + row]."""

    whole: ReadI64
    real: ReadF64


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
def answer(test, row, n, now, number, start_seq, start_ts, ticks_per_s, programs, values, scratch):  # type: ignore[no-untyped-def]
    """Whether a test holds of a run at an event."""
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
def begin_run(row, n, programs, values, scratch):  # type: ignore[no-untyped-def]
    """The slots of a run that begins at this event."""
    own = scratch.own_whole
    for slot in range(own.shape[0]):
        own[slot] = 0
    for nth in range(programs.begun_slot.shape[0]):
        own[programs.begun_slot[nth]] = values.whole[programs.begun_value[nth] * n + row]


@inlined
def fold(row, n, is_first, programs, values, scratch):  # type: ignore[no-untyped-def]
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
