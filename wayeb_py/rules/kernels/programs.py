"""The compiled loop of tests: a program of additions, products and comparisons runs over blocks of rows.

Several groups of tests run over the same rows; a row passes a group if it passes all its tests. A block of `BLOCK`
rows goes through all programs while its numbers lie in the fastest cache: an instruction reads and writes whole
registers of `BLOCK` numbers, so that choosing what to do costs once for each block, and the loops inside are
vectorised. Once a test has failed more than half of the rows, those that are left are put side by side, and a group
without rows ends.

*Not taken*: one pass of numpy for each operation, which costs a microsecond however few the rows are and goes through
the memory of all rows every time; and code generated for each rule, which would have to be compiled before it runs.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import f64, i64, inlined, kernel, read_only, u8
from wayeb_py.kernels.ticks import NEVER

BLOCK = 256
MOST_GROUPS = 64

# An instruction is five numbers: what it does, the register it writes, two operands, and a place in the program.
WIDTH = 5
LOAD, FILL, SKIP, ADD, ADD_CONSTANT, SUBTRACT, SUBTRACT_CONSTANT, SUBTRACT_FROM, MULTIPLY, MULTIPLY_CONSTANT = range(10)
DIVIDE, DIVIDE_BY_CONSTANT, DIVIDE_CONSTANT, NEGATE, ABSOLUTE, LEAST, GREATEST = range(10, 17)

# A test is eight numbers: its first instruction and the one after its last, what is compared, two operands, the first
# threshold and how many there are, and the first of the truth values by cell.
TEST_WIDTH = 8
OF_CUTS, OF_NUMBERS, OF_WHOLE = range(3)  # a value with thresholds; two values; two columns of whole numbers

u64 = nb.uint64
_whole, _reals = read_only(i64), read_only(f64)


@inlined
def _cell_of_cuts(value, low, high, last):  # type: ignore[no-untyped-def]
    """The cell of a value between at most two thresholds, `last` where it is missing."""
    cell = np.uint64(value > low) + np.uint64(value > high)
    return last if value != value else cell


@inlined
def _cell_of_two(one, other):  # type: ignore[no-untyped-def]
    """0 where the first value is less, 1 where they are equal, 2 where it is greater, 3 where one is missing."""
    cell = np.uint64(one >= other) + np.uint64(one > other)
    return np.uint64(3) if one != one or other != other else cell


@inlined
def _kept(passes, word, cell, place):  # type: ignore[no-untyped-def]
    """The groups that a row passes, without that of a bit's place unless its cell is allowed."""
    fails = ((word >> cell) & np.uint64(1)) ^ np.uint64(1)
    return passes & ~(fails << place)


@kernel(
    nb.void(
        _whole, _reals, _whole, _reals, read_only(u8), _whole, _reals, _whole, i64, u64[::1], f64[::1], i64[::1],
        i64[::1],
    )
)  # fmt: skip
def run(  # type: ignore[no-untyped-def]
    code, constants, tests, thresholds, allowed, groups, reals, wholes, n, passes, registers, known, row_of
):
    """Clears bit g of passes[row] where the row fails a test of group g, whose tests are groups[g] to groups[g + 1].

    Columns lie one after the other in `reals` and `wholes`, n values each. registers[r * BLOCK + nth] is scratch;
    known[r] is the state of the block in which register r was computed, which changes when rows are put together.
    """
    state = 0
    for register in range(known.shape[0]):
        known[register] = -1
    for begin in range(0, n, BLOCK):
        size = min(BLOCK, n - begin)
        state += 1
        is_whole = True  # registers that are known hold all rows of the block
        for group in range(groups.shape[0] - 1):
            if groups[group] == groups[group + 1]:
                continue
            bit = np.uint64(1) << np.uint64(group)
            width = np.int64(0)
            for row in range(begin, begin + size):
                row_of[width] = row
                width += np.int64((passes[row] >> np.uint64(group)) & np.uint64(1))
            if width == 0:
                continue
            takes_whole = 2 * width >= size
            if takes_whole:
                width = np.int64(size)
                for nth in range(size):
                    row_of[nth] = begin + nth
            if not takes_whole or not is_whole:
                state += 1
            is_whole = takes_whole
            for test in range(groups[group], groups[group + 1]):
                here = test * TEST_WIDTH
                at = tests[here]
                while at < tests[here + 1]:
                    op, a, b = code[at * WIDTH], code[at * WIDTH + 2], code[at * WIDTH + 3]
                    register = code[at * WIDTH + 1]
                    target = register * BLOCK
                    first, second = a * BLOCK, b * BLOCK
                    at += 1
                    if op == SKIP:
                        if known[register] == state:
                            at = a
                    elif op == LOAD:
                        if known[register] != state:
                            for nth in range(width):
                                registers[target + nth] = reals[a * n + row_of[nth]]
                            known[register] = state
                        continue
                    elif op == FILL:
                        for nth in range(width):
                            registers[target + nth] = constants[a]
                    elif op == ADD:
                        for nth in range(width):
                            registers[target + nth] = registers[first + nth] + registers[second + nth]
                    elif op == ADD_CONSTANT:
                        constant = constants[b]
                        for nth in range(width):
                            registers[target + nth] = registers[first + nth] + constant
                    elif op == SUBTRACT:
                        for nth in range(width):
                            registers[target + nth] = registers[first + nth] - registers[second + nth]
                    elif op == SUBTRACT_CONSTANT:
                        constant = constants[b]
                        for nth in range(width):
                            registers[target + nth] = registers[first + nth] - constant
                    elif op == SUBTRACT_FROM:
                        constant = constants[b]
                        for nth in range(width):
                            registers[target + nth] = constant - registers[first + nth]
                    elif op == MULTIPLY:
                        for nth in range(width):
                            registers[target + nth] = registers[first + nth] * registers[second + nth]
                    elif op == MULTIPLY_CONSTANT:
                        constant = constants[b]
                        for nth in range(width):
                            registers[target + nth] = registers[first + nth] * constant
                    elif op == DIVIDE:
                        for nth in range(width):
                            divisor = registers[second + nth]
                            ratio = np.true_divide(registers[first + nth], divisor)
                            registers[target + nth] = np.nan if divisor == 0.0 else ratio
                    elif op == DIVIDE_BY_CONSTANT:
                        divisor = np.nan if constants[b] == 0.0 else constants[b]
                        for nth in range(width):
                            registers[target + nth] = np.true_divide(registers[first + nth], divisor)
                    elif op == DIVIDE_CONSTANT:
                        constant = constants[b]
                        for nth in range(width):
                            divisor = registers[first + nth]
                            ratio = np.true_divide(constant, divisor)
                            registers[target + nth] = np.nan if divisor == 0.0 else ratio
                    elif op == NEGATE:
                        for nth in range(width):
                            registers[target + nth] = -registers[first + nth]
                    elif op == ABSOLUTE:
                        for nth in range(width):
                            registers[target + nth] = abs(registers[first + nth])
                    elif op == LEAST:
                        for nth in range(width):
                            one, other = registers[first + nth], registers[second + nth]
                            less = one if one < other else other
                            registers[target + nth] = one if one != one else less
                    else:
                        for nth in range(width):
                            one, other = registers[first + nth], registers[second + nth]
                            more = one if one > other else other
                            registers[target + nth] = one if one != one else more
                    if op != SKIP:
                        known[register] = state
                a, b, truth = tests[here + 3], tests[here + 4], tests[here + 7]
                n_cuts, first_cut = tests[here + 6], tests[here + 5]
                n_left = np.int64(0)
                kind = tests[here + 2]
                if (kind == OF_CUTS and n_cuts <= 2) or kind == OF_NUMBERS:
                    # Few cells: a word has a bit for each that is allowed, and no row needs a branch.
                    word, n_cells = np.uint64(0), n_cuts + 2 if kind == OF_CUTS else 4
                    for nth in range(n_cells):
                        word |= np.uint64(allowed[truth + nth] != 0) << np.uint64(nth)
                    low = thresholds[first_cut] if kind == OF_CUTS and n_cuts > 0 else np.inf
                    high = thresholds[first_cut + 1] if kind == OF_CUTS and n_cuts > 1 else np.inf
                    left_at, right_at = np.uint64(a * BLOCK), np.uint64(b * BLOCK)
                    place, last, first_row = np.uint64(group), np.uint64(n_cells - 1), np.uint64(begin)
                    n_kept = np.uint64(0)
                    if is_whole and kind == OF_CUTS:
                        for nth in range(np.uint64(width)):
                            cell = _cell_of_cuts(registers[left_at + nth], low, high, last)
                            kept = _kept(passes[first_row + nth], word, cell, place)
                            passes[first_row + nth] = kept
                            n_kept += (kept >> place) & np.uint64(1)
                    elif is_whole:
                        for nth in range(np.uint64(width)):
                            cell = _cell_of_two(registers[left_at + nth], registers[right_at + nth])
                            kept = _kept(passes[first_row + nth], word, cell, place)
                            passes[first_row + nth] = kept
                            n_kept += (kept >> place) & np.uint64(1)
                    else:
                        for nth in range(np.uint64(width)):
                            its = np.uint64(row_of[nth])
                            if kind == OF_CUTS:
                                cell = _cell_of_cuts(registers[left_at + nth], low, high, last)
                            else:
                                cell = _cell_of_two(registers[left_at + nth], registers[right_at + nth])
                            kept = _kept(passes[its], word, cell, place)
                            passes[its] = kept
                            n_kept += (kept >> place) & np.uint64(1)
                    n_left = np.int64(n_kept)
                else:
                    for nth in range(width):
                        row = row_of[nth]
                        if kind == OF_CUTS:
                            value = registers[a * BLOCK + nth]
                            at_cell = np.int64(0)
                            for cut in range(first_cut, first_cut + n_cuts):
                                at_cell += np.int64(value > thresholds[cut])
                            if value != value:
                                at_cell = np.int64(n_cuts + 1)
                        else:
                            left, right = wholes[a * n + row], wholes[b * n + row]
                            at_cell = 2 - np.int64(left < right) * 2 - np.int64(left == right)
                            if left == NEVER or right == NEVER:
                                at_cell = np.int64(3)
                        if allowed[truth + at_cell] == 0:
                            passes[row] &= ~bit
                        n_left += np.int64((passes[row] >> np.uint64(group)) & np.uint64(1))
                if n_left == 0:
                    break
                if 2 * n_left < width and test + 1 < groups[group + 1]:
                    left_over = np.int64(0)
                    for nth in range(width):
                        row = row_of[nth]
                        row_of[left_over] = row
                        left_over += np.int64((passes[row] >> np.uint64(group)) & np.uint64(1))
                    width = left_over
                    state += 1
                    is_whole = False
