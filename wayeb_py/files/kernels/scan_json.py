"""Lines of JSON, one flat object each, become columns of numbers and the places of texts.

It reads what nearly all lines of a stream look like, and gives up at the first byte that is anything else: an escape in
a text, a list or an object inside the object, a name twice, a value of another kind than its column's, a blank line. A
slower reader then decides. So whatever it reads is JSON, and there is one way to read it.

A number whose digits and power of ten are small enough is exact as one product or quotient of two exact numbers, and
so is rounded as it should be. The quotient of a number with more digits, up to 18, is corrected by its remainder, and
is taken where every value that the correction can have gives the same float. A column with other numbers is read again
as texts (`SPELT`).
"""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import i32, i64, kernel, read_only, subroutine, u8
from wayeb_py.kernels.structs import F64, I32, I64, U8, struct

NUMBER, WHOLE, TRUTH, TEXT, TIME, SPELT = range(6)  # kinds of columns
DONE, GIVES_UP = 0, -1  # else a column + 1 that should be SPELT
ZONED = 16  # added to the digits of a time's fraction: it ends in Z
VALUE, NOTHING = 1, 2  # of a cell that was read; 0 if its name was not there

_QUOTE, _BACKSLASH, _COMMA, _COLON, _OPEN, _CLOSE, _LINE_END = 34, 92, 44, 58, 123, 125, 10
_ZERO, _NINE, _MINUS, _PLUS, _POINT = 48, 57, 45, 43, 46
_MOST_DIGITS = 18
_ONE = np.uint64(1)  # an index without a sign cannot count from the end, so nothing checks that
_EXACT = 1 << 53
_LARGEST_POWER = 290  # that is written: beyond it Arrow refuses even 0e400
_POWERS = np.array([10.0**power for power in range(23)])  # each is exact
_SPLIT = 134217729.0  # 2^27 + 1, which halves the digits of a float
_UNSURE = 2.0**-40  # share of a correction that may be wrong; 2^-52 is
_NO_TIME = np.int64(-(2**63))
_DAYS_BEFORE = np.array([0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365])


class JsonColumns(NamedTuple):
    """The columns that are read: their names, one after the other, and where each begins; kinds; digits of times."""

    names: U8
    first: I64
    kind: U8
    digits: U8
    guess: I32  # [n-th name of an object]: the column that it had in the object before


class JsonCells(NamedTuple):
    """The cells, [column * rows + row]: a number, or where a text begins and how long it is."""

    whole: I64
    number: F64  # the same memory
    length: I32
    state: U8


@subroutine
def _after_blanks(data, at):  # type: ignore[no-untyped-def]
    here, n = np.uint64(at), np.uint64(len(data))
    while here < n and (data[here] == 32 or data[here] == 9 or data[here] == 13):
        here += _ONE
    return np.int64(here)


@subroutine
def _after_text(data, at):  # type: ignore[no-untyped-def]
    """Where the quote is that ends a text, or -1 if the text has an escape or is not JSON."""
    here, n = np.uint64(at), np.uint64(len(data))
    while here < n:
        octet = data[here]
        if octet == _QUOTE:
            return np.int64(here)
        if octet == _BACKSLASH or octet < 32:
            break
        here += _ONE
    return np.int64(-1)


@subroutine
def _is_name(names, first, column, data, begin):  # type: ignore[no-untyped-def]
    """Whether the name of a column, and the quote that ends it, are there."""
    own, here, beyond = np.uint64(first[column]), np.uint64(begin), np.uint64(first[column + 1])
    if here + (beyond - own) >= np.uint64(len(data)):
        return False
    while own < beyond:
        if names[own] != data[here]:
            return False
        own += _ONE
        here += _ONE
    return data[here] == _QUOTE


@subroutine
def _column_of(columns, data, begin, nth):  # type: ignore[no-untyped-def]
    """The column of the name that begins there, or -1."""
    names, first, kind, _, guess = columns
    for column in range(len(kind)):
        if _is_name(names, first, column, data, begin):
            if nth < len(guess):
                guess[nth] = column
            return np.int64(column)
    return np.int64(-1)


@subroutine
def _digits(data, at, n):  # type: ignore[no-untyped-def]
    """The number that n digits make, or -1."""
    found = 0
    here = np.uint64(at)
    for _ in range(n):
        if not _ZERO <= data[here] <= _NINE:
            return -1
        found = 10 * found + (data[here] - _ZERO)
        here += _ONE
    return found


@subroutine
def _time_of(data, begin, end, digits):  # type: ignore[no-untyped-def]
    """The ticks of `2026-01-31T23:59:59.123Z`, a tick being the last of the digits of a second; or no time."""
    if digits >= ZONED:
        end -= 1
        digits -= ZONED
        if end < begin or data[end] != 90:
            return _NO_TIME
    if end - begin < 19 or data[begin + 4] != _MINUS or data[begin + 7] != _MINUS:
        return _NO_TIME
    if (data[begin + 10] != 84 and data[begin + 10] != 32) or data[begin + 13] != _COLON or data[begin + 16] != _COLON:
        return _NO_TIME
    year, month, day = _digits(data, begin, 4), _digits(data, begin + 5, 2), _digits(data, begin + 8, 2)
    hour, minute, second = _digits(data, begin + 11, 2), _digits(data, begin + 14, 2), _digits(data, begin + 17, 2)
    if not (1700 <= year <= 2200 and 1 <= month <= 12 and day >= 1):
        return _NO_TIME
    if not (0 <= hour <= 23 and 0 <= minute <= 59 and 0 <= second <= 59):
        return _NO_TIME
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day > _DAYS_BEFORE[month] - _DAYS_BEFORE[month - 1] + (is_leap and month == 2):
        return _NO_TIME
    before = year - 1
    days = 365 * before + before // 4 - before // 100 + before // 400 - 719162
    days += _DAYS_BEFORE[month - 1] + (is_leap and month > 2) + day - 1
    ticks = ((days * 24 + hour) * 60 + minute) * 60 + second
    at = begin + 19
    if at < end:
        n = end - at - 1
        if data[at] != _POINT or n < 1 or n > digits:
            return _NO_TIME
        fraction = _digits(data, at + 1, n)
        if fraction < 0:
            return _NO_TIME
        for _ in range(n):
            ticks *= 10
        ticks += fraction
        digits -= n
    for _ in range(digits):
        ticks *= 10
    return np.int64(ticks)


@subroutine
def _quotient(mantissa, divisor):  # type: ignore[no-untyped-def]
    """A whole number below 2^60 through a power of ten, rounded as it should be; NaN where that is not certain."""
    dividend = np.float64(mantissa)
    rest = np.float64(mantissa - np.int64(dividend))
    quotient = dividend / divisor
    # What the product of quotient and divisor is beyond its float: the floats are cut into halves, whose products are
    # exact.
    product = quotient * divisor
    high, other_high = _SPLIT * quotient, _SPLIT * divisor
    high, other_high = high - (high - quotient), other_high - (other_high - divisor)
    low, other_low = quotient - high, divisor - other_high
    beyond = ((high * other_high - product) + high * other_low + low * other_high) + low * other_low
    # The remainder of a division is a float, so this is exact.
    correction = ((dividend - product) - beyond + rest) / divisor
    least = quotient + correction * (1.0 - _UNSURE)
    return least if least == quotient + correction * (1.0 + _UNSURE) else np.nan


@subroutine
def _after_number(data, at, kind, cell, cells):  # type: ignore[no-untyped-def]
    """Reads a number into a cell, if there is one; returns where it ends, -1 if it is none or not of the kind, or -2
    if it wants more care."""
    whole, number, length, _ = cells
    n, begin = len(data), at
    is_negative = data[at] == _MINUS
    if is_negative:
        at += 1
    digits, mantissa, power = 0, np.int64(0), 0
    start = at
    while at < n and _ZERO <= data[at] <= _NINE:
        if digits < _MOST_DIGITS:
            mantissa = 10 * mantissa + (data[at] - _ZERO)
        digits += mantissa != 0
        at += 1
    if at == start or (data[start] == _ZERO and at > start + 1):
        return -1
    is_whole = True
    if at < n and data[at] == _POINT:
        is_whole = False
        at += 1
        start = at
        while at < n and _ZERO <= data[at] <= _NINE:
            if digits < _MOST_DIGITS:
                mantissa = 10 * mantissa + (data[at] - _ZERO)
                power -= 1
            digits += mantissa != 0
            at += 1
        if at == start:
            return -1
    if at < n and (data[at] | 32) == 101:
        is_whole = False
        at += 1
        is_less = at < n and data[at] == _MINUS
        if at < n and (data[at] == _MINUS or data[at] == _PLUS):
            at += 1
        start, given = at, 0
        while at < n and _ZERO <= data[at] <= _NINE:
            given = min(10 * given + (data[at] - _ZERO), 100_000)
            at += 1
        if at == start or (given > _LARGEST_POWER and not is_less):
            return -1
        power += -given if is_less else given
    if cell < 0:
        return at
    if kind == SPELT:
        whole[cell], length[cell] = begin, at - begin
    elif kind == WHOLE:
        if not is_whole or digits >= _MOST_DIGITS or (is_negative and mantissa == 0):
            return -1
        whole[cell] = -mantissa if is_negative else mantissa
    elif kind == NUMBER:
        if digits >= _MOST_DIGITS or power > 22 or power < -22 or (mantissa > _EXACT and power >= 0):
            return -2
        if mantissa > _EXACT:
            value = _quotient(mantissa, _POWERS[-power])
            if value != value:
                return -2
        else:
            value = np.float64(mantissa)
            value = value * _POWERS[power] if power >= 0 else value / _POWERS[-power]
        number[cell] = -value if is_negative else value
    else:
        return -1
    return at


@subroutine
def _after_word(data, at, kind, cell, cells):  # type: ignore[no-untyped-def]
    """Reads `true`, `false` or `null` into a cell; returns where it ends, or -1 if it is none, or not of the kind."""
    whole, _, _, state = cells
    first = data[at]
    n = 5 if first == 102 else 4
    if at + n > len(data):
        return -1
    if first == 116:
        is_word = data[at + 1] == 114 and data[at + 2] == 117 and data[at + 3] == 101
    elif first == 102:
        is_word = data[at + 1] == 97 and data[at + 2] == 108 and data[at + 3] == 115 and data[at + 4] == 101
    else:
        is_word = first == 110 and data[at + 1] == 117 and data[at + 2] == 108 and data[at + 3] == 108
    if not is_word:
        return -1
    if cell >= 0:
        if first == 110:
            state[cell] = NOTHING
        elif kind == TRUTH:
            whole[cell] = first == 116
        else:
            return -1
    return at + n


@kernel(i64(read_only(u8), i64, struct(JsonColumns), struct(JsonCells)))
def scan_objects(data, n_rows, columns, cells):  # type: ignore[no-untyped-def]
    """Reads as many lines as there are rows; returns DONE, GIVES_UP, or a column + 1 whose numbers want more care."""
    names, first, kinds, digits, guess = columns
    whole, _, length, state = cells
    n, at = len(data), 0
    for row in range(n_rows):
        at = _after_blanks(data, at)
        if at >= n or data[at] != _OPEN:
            return GIVES_UP
        at = _after_blanks(data, at + 1)
        nth = 0
        has_more = not (at < n and data[at] == _CLOSE)
        while has_more:
            if at >= n or data[at] != _QUOTE:
                return GIVES_UP
            begin = at + 1
            column = np.int64(guess[nth]) if nth < len(guess) else np.int64(-1)
            if column < 0 or not _is_name(names, first, column, data, begin):
                column = _column_of(columns, data, begin, nth)
            at = begin + first[column + 1] - first[column] if column >= 0 else _after_text(data, begin)
            if at < 0:
                return GIVES_UP
            nth += 1
            at = _after_blanks(data, at + 1)
            if at >= n or data[at] != _COLON:
                return GIVES_UP
            at = _after_blanks(data, at + 1)
            if at >= n:
                return GIVES_UP
            cell, kind = np.int64(-1), np.uint8(0)
            if column >= 0:
                cell, kind = column * n_rows + row, kinds[column]
                if state[cell] != 0:
                    return GIVES_UP
                state[cell] = VALUE
            if data[at] == _QUOTE:
                begin = at + 1
                at = _after_text(data, begin)
                if at < 0:
                    return GIVES_UP
                if cell >= 0:
                    if kind == TEXT:
                        whole[cell], length[cell] = begin, at - begin
                    elif kind == TIME:
                        whole[cell] = _time_of(data, begin, at, digits[column])
                        if whole[cell] == _NO_TIME:
                            return GIVES_UP
                    else:
                        return GIVES_UP
                at += 1
            elif data[at] == _MINUS or _ZERO <= data[at] <= _NINE:
                at = _after_number(data, at, kind, cell, cells)
                if at < 0:
                    return column + 1 if at == -2 else GIVES_UP
            else:
                at = _after_word(data, at, kind, cell, cells)
                if at < 0:
                    return GIVES_UP
            at = _after_blanks(data, at)
            if at >= n or (data[at] != _COMMA and data[at] != _CLOSE):
                return GIVES_UP
            has_more = data[at] == _COMMA
            if has_more:
                at = _after_blanks(data, at + 1)
        at = _after_blanks(data, at + 1)
        if at < n:
            if data[at] != _LINE_END:
                return GIVES_UP
            at += 1
        elif row + 1 < n_rows:
            return GIVES_UP
    return DONE if at == n else GIVES_UP


@kernel(nb.void(read_only(u8), i64[::1], i32[::1], i32[::1], u8[::1]))
def gather_texts(data, begin, length, offset, out):  # type: ignore[no-untyped-def]
    """Copies texts one after the other; offset[row] is where each goes."""
    for row in range(len(begin)):
        at, to = begin[row], offset[row]
        for i in range(length[row]):
            out[to + i] = data[at + i]
