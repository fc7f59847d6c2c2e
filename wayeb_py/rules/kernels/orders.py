"""The compiled loops that put rows and tuples in order.

Numbers are sorted by digits of 11 bits, without those in which all agree, so that codes and times that lie close
together cost two or three rounds; few are sorted by insertion, and what is in order is only looked at.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

from wayeb_py.kernels.compiled import allocating_kernel as _kernel
from wayeb_py.kernels.compiled import i64
from wayeb_py.kernels.compiled import read_only as _read_only

FEW_DIGITS, MANY_DIGITS = 2_000, 100_000  # words: fewer are sorted by digits of 8 bits, more by digits of 14
FEW = 48  # up to this number insertion sorts them
DIGIT = np.uint64(11)
MASK = np.uint64(2047)
SIGN = np.uint64(1 << 63)
MOST_VALUES = 2.0**62  # of a key that is made of several
MOST_IN_ROUNDS = 2.0**22  # values of a key that has enough columns: few agree in it, as far as that tells

_Longs = npt.NDArray[np.int64]
_READ = _read_only(i64)
longs = i64[::1]


@nb.njit(nogil=True)
def _first_places(words, shift, first):  # type: ignore[no-untyped-def]
    """first[digit] becomes the place of the first word with this digit, once words are sorted by it."""
    first[:] = 0
    for nth in range(words.shape[0]):
        first[np.int64((words[nth] >> shift) & MASK)] += 1
    total = 0
    for digit in range(2048):
        here = first[digit]
        first[digit] = total
        total += here


@nb.njit(nogil=True)
def sort_rows(values, order):  # type: ignore[no-untyped-def]
    """Puts `order` into the order of the values; what is equal stays as it is."""
    n = order.shape[0]
    if n <= FEW:
        for nth in range(1, n):
            row = order[nth]
            value = values[row]
            at = nth
            while at > 0 and values[order[at - 1]] > value:
                order[at] = order[at - 1]
                at -= 1
            order[at] = row
        return
    n_sorted = 1
    while n_sorted < n and values[order[n_sorted - 1]] <= values[order[n_sorted]]:
        n_sorted += 1
    if n_sorted == n:
        return
    digits, others = np.empty(n, np.uint64), np.empty(n, np.uint64)
    rows = np.empty(n, np.int64)
    vary = np.uint64(0)
    for nth in range(n):
        digits[nth] = np.uint64(values[order[nth]]) ^ SIGN
        vary |= digits[nth] ^ digits[0]
    count = np.empty(2048, np.int64)
    rounds = 0
    for place in range(6):
        shift = np.uint64(place) * DIGIT
        if (vary >> shift) & MASK == np.uint64(0):
            continue
        _first_places(digits, shift, count)
        for nth in range(n):
            digit = np.int64((digits[nth] >> shift) & MASK)
            at = count[digit]
            count[digit] = at + 1
            others[at] = digits[nth]
            rows[at] = order[nth]
        digits, others = others, digits
        order, rows = rows, order
        rounds += 1
    if rounds & 1:
        rows[:] = order  # after an odd number of rounds the caller's array is the other one


@nb.njit(nogil=True)
def _sort_words(words, others, shift, most):  # type: ignore[no-untyped-def]
    """The words in the order of their bits from `shift` on, none of them greater than `most`; what is equal stays as
    it is. Both arrays are overwritten, and one of them is returned."""
    n_bits = np.uint64(0)
    while n_bits + shift < np.uint64(64) and most >> (shift + n_bits):
        n_bits += np.uint64(1)
    if n_bits == np.uint64(0):
        return words
    n = words.shape[0]
    widest = np.uint64(8) if n < FEW_DIGITS else DIGIT if n < MANY_DIGITS else np.uint64(14)
    n_rounds = (n_bits + widest - np.uint64(1)) // widest
    width = (n_bits + n_rounds - np.uint64(1)) // n_rounds
    mask = (np.uint64(1) << width) - np.uint64(1)
    first = np.zeros((np.int64(n_rounds), np.int64(mask) + 1), np.int64)
    for nth in range(n):
        rest = words[nth] >> shift
        for place in range(n_rounds):
            first[place, rest & mask] += 1
            rest >>= width
    for place in range(n_rounds):
        total = 0
        for digit in range(first.shape[1]):
            here = first[place, digit]
            first[place, digit] = total
            total += here
        for nth in range(n):
            digit = (words[nth] >> shift) & mask
            at = first[place, digit]
            first[place, digit] = at + 1
            others[np.uint64(at)] = words[nth]
        words, others = others, words
        shift += width
    return words


@nb.njit(nogil=True)
def order_all(values, order):  # type: ignore[no-untyped-def]
    """Fills `order` with the rows in the order of their values; where a value and its row fit into one word, words are
    sorted, which moves half as much."""
    n = values.shape[0]
    for row in range(n):
        order[row] = row
    if n <= FEW:
        sort_rows(values, order)
        return
    low, high = values[0], values[0]
    for row in range(n):
        low, high = min(low, values[row]), max(high, values[row])
    bits = np.uint64(0)
    while (np.int64(1) << np.int64(bits)) < n:
        bits += np.uint64(1)
    if (np.float64(high) - np.float64(low) + 1.0) * 2.0 ** np.float64(bits) >= MOST_VALUES:
        sort_rows(values, order)
        return
    words = np.empty(n, np.uint64)
    for row in range(n):
        words[row] = (np.uint64(values[row] - low) << bits) | np.uint64(row)
    words = _sort_words(words, np.empty(n, np.uint64), bits, np.uint64(high - low) << bits)
    mask = (np.uint64(1) << bits) - np.uint64(1)
    for nth in range(n):
        order[nth] = np.int64(words[nth] & mask)


@_kernel(nb.void(_READ, longs))
def order_by(values, order):  # type: ignore[no-untyped-def]
    """Puts `order`, rows of `values`, into the order of the values; what is equal stays as it is."""
    sort_rows(values, order)


@nb.njit(nogil=True)
def _range(values):  # type: ignore[no-untyped-def]
    low = high = values[0]
    for nth in range(values.shape[0]):
        low, high = min(low, values[nth]), max(high, values[nth])
    return low, high


@nb.njit(nogil=True)
def _add_digit(values, low, factor, key):  # type: ignore[no-untyped-def]
    """key += (values - low) * factor; the first digit of a key, of factor 1, replaces what was there."""
    if factor == 1:
        for nth in range(values.shape[0]):
            key[nth] = values[nth] - low
    else:
        for nth in range(values.shape[0]):
            key[nth] += (values[nth] - low) * factor


@nb.njit(nogil=True)
def _are_in_order(first, rows, members):  # type: ignore[no-untyped-def]
    n, n_members, has_first = np.uint64(rows.shape[1]), np.uint64(members.shape[0]), first.shape[0] > 0
    before = np.uint64(0)
    for nth in range(np.uint64(1), n):
        if has_first and first[before] != first[nth]:
            if first[before] > first[nth]:
                return False
        else:
            for place in range(n_members):
                member = np.uint64(members[place])
                one, other = rows[member, before], rows[member, nth]
                if one != other:
                    if one > other:
                        return False
                    break
        before = np.uint64(nth)
    return True


@nb.njit(nogil=True)
def _order_by_words(first, rows, members, words, others, order):  # type: ignore[no-untyped-def]
    """Puts tuples in order by words that hold the first of their values, as far as these fit, and a tuple's number;
    those that agree so far are put in order by insertion. False where that takes long, or nothing fits."""
    n, n_members = order.shape[0], members.shape[0]
    bits = np.uint64(0)
    while (np.int64(1) << np.int64(bits)) < n:
        bits += np.uint64(1)
    words[:] = 0
    n_values, n_taken, most = 1.0, 0, np.uint64(0)
    for column in range(-1 if first.shape[0] else 0, n_members):
        values = first if column < 0 else rows[members[column]]
        low, high = _range(values)
        wide = np.float64(high) - np.float64(low) + 1.0
        if wide * n_values * 2.0 ** np.float64(bits) >= MOST_VALUES or n_values >= MOST_IN_ROUNDS:
            break
        factor = np.uint64(high - low + 1)
        for nth in range(n):
            words[nth] = words[nth] * factor + np.uint64(values[nth] - low)
        most = most * factor + np.uint64(high - low)
        n_values *= wide
        n_taken = column + 1
        if column < 0 and _are_in_order(first[:0], rows, members):  # as joins of all combinations make them
            n_taken = n_members
            break
    if most == np.uint64(0):
        return False
    for nth in range(n):
        words[nth] = (words[nth] << bits) | np.uint64(nth)
    words = _sort_words(words, others, bits, most << bits)
    mask = (np.uint64(1) << bits) - np.uint64(1)
    for nth in range(n):
        order[nth] = np.int64(words[nth] & mask)
    if n_taken == n_members:
        return True
    left = 16 * n
    begin = 0
    for nth in range(1, n):
        if words[nth - 1] >> bits != words[nth] >> bits:
            begin = nth
            continue
        this, at = order[nth], nth
        while at > begin:
            other, nth_member = order[at - 1], n_taken
            member = members[nth_member]
            while nth_member < n_members - 1 and rows[member, other] == rows[member, this]:
                nth_member += 1
                member = members[nth_member]
            if rows[member, other] <= rows[member, this]:
                break
            order[at] = other
            at -= 1
        left -= nth - at
        if left < 0:
            return False
        order[at] = this
    return True


@_kernel(nb.boolean(_READ, i64[:, ::1], _READ, nb.uint64[::1], nb.uint64[::1], longs))
def _order_tuples(first, rows, members, words, others, order):  # type: ignore[no-untyped-def]
    """Fills `order` with tuples, rows[:, tuple], in the order of `first`, if there is such, and of their rows; False,
    with nothing done, if that is as they are. `words` and `others` are scratch."""
    n, none = rows.shape[1], np.int64(-1 if first.shape[0] else 0)
    if _are_in_order(first, rows, members):
        return False
    if _order_by_words(first, rows, members, words, others, order):
        return True
    for nth in range(n):
        order[nth] = nth
    key = np.empty(n, np.int64)
    n_values = np.int64(1)  # of the key so far; 1 where there is none
    for column in range(members.shape[0] - 1, none - 1, -1):
        low, high = _range(first) if column < 0 else _range(rows[members[column]])
        wide = np.float64(high) - np.float64(low) + 1.0
        if n_values > 1 and wide * n_values >= MOST_VALUES:
            sort_rows(key, order)
            n_values = np.int64(1)
        if wide >= MOST_VALUES:  # which is a key by itself, as it is
            if column < 0:
                sort_rows(first, order)
            else:
                sort_rows(rows[members[column]], order)
        elif wide > 1.0:
            if column < 0:
                _add_digit(first, low, n_values, key)
            else:
                _add_digit(rows[members[column]], low, n_values, key)
            n_values *= high - low + 1
    if n_values > 1:
        sort_rows(key, order)
    return True


def order_tuples(first: _Longs, rows: _Longs, order: _Longs, members: _Longs | None = None) -> bool:
    """Fills `order` with tuples, rows[:, tuple], in the order of `first`, if there is such, and of their rows, those of
    `members` in this order; False, with nothing done, if that is as they are."""
    words, others = np.empty((2, len(order)), dtype=np.uint64)  # made here, since numpy uses large pages
    members = np.arange(len(rows)) if members is None else members
    return bool(_order_tuples(first, rows, members, words, others, order))


@_kernel(nb.boolean(_READ, longs))
def put_in_order(values, order):  # type: ignore[no-untyped-def]
    """Fills `order` with the rows of the values in their order; False, with nothing done, if that is as they are."""
    n = values.shape[0]
    n_sorted = 1
    while n_sorted < n and values[n_sorted - 1] <= values[n_sorted]:
        n_sorted += 1
    if n_sorted >= n:
        return False
    order_all(values, order)
    return True


@_kernel(nb.boolean(_READ, _READ, _READ, longs))
def order_by_three(first, second, third, order):  # type: ignore[no-untyped-def]
    """Puts `order`, 0, 1, 2, …, into the order of three values by insertion; False, with `order` spoilt, where they are
    too far from it for that to be fast."""
    left = 8 * order.shape[0]
    for nth in range(1, order.shape[0]):
        at = nth
        while at > 0:
            before = order[at - 1]
            if first[before] != first[nth]:
                is_after = first[before] > first[nth]
            elif second[before] != second[nth]:
                is_after = second[before] > second[nth]
            else:
                is_after = third[before] > third[nth]
            if not is_after:
                break
            order[at] = before
            at -= 1
            left -= 1
        order[at] = nth
        if left < 0:
            return False
    return True
