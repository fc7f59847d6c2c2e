"""Patterns become groups, each a product automaton that steps once for all its patterns.

The product is built by adding one pattern at a time to the group so far, and only its reachable states. Patterns that
look at the same things go together, since then few combinations of their states are reachable; a group is closed when
the next pattern would make it too large to stay in a core's cache. Stepping each automaton by itself is simpler and at
a thousand patterns some ten times slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from wayeb_py.arrays import I32, I64
from wayeb_py.compiler.alphabet import in_order
from wayeb_py.compiler.automata.tracking import Moves, Tracker
from wayeb_py.compiler.automata.transitions import Transitions
from wayeb_py.compiler.axes import Axis, Subject, coarsen, refine
from wayeb_py.compiler.limits import Limits
from wayeb_py.compiler.pattern import CompiledPattern
from wayeb_py.kernels.product import walk_product
from wayeb_py.kernels.step_parts import RegisterMoves
from wayeb_py.kernels.step_tables import ProductTables, ReportLists


@dataclass(frozen=True, slots=True)
class Group(Transitions):
    """The product of some patterns' trackers; state 0 is the initial state of each."""

    patterns: tuple[int, ...]  # their numbers, ascending in the order in which they were added
    axes: tuple[Axis, ...]
    symbol_of_cell: I64  # [cell of axis 0, cell of axis 1, …]
    next_state: I64  # [state, symbol]
    moves: I64  # [state, symbol] -> number in move_lists
    move_lists: tuple[Moves, ...]
    report: I64  # [state] -> number in report_lists
    report_lists: tuple[tuple[tuple[int, int], ...], ...]  # (pattern number, start as in Tracker.start)
    components: I64  # [state, pattern of the group] -> state of the pattern's tracker
    first_register: tuple[int, ...]  # [pattern of the group]
    n_registers: int


def form_groups(patterns: Sequence[tuple[int, CompiledPattern]], limits: Limits) -> list[Group]:
    """Groups of those of the (number, pattern) that have trackers, such that few groups hold them all."""

    def kind(item: tuple[int, CompiledPattern]) -> tuple[object, ...]:
        _, pattern = item
        return ([repr(axis.subject) for axis in pattern.axes], repr(pattern.axes), item[0])

    groups: list[Group] = []
    current: Group | None = None
    for number, pattern in sorted((item for item in patterns if item[1].tracker is not None), key=kind):
        alone = _alone(number, pattern)
        joined = None if current is None else _join(current, alone, limits)
        if joined is None:
            if current is not None:
                groups.append(current)
            joined = alone
        current = joined
    if current is not None:
        groups.append(current)
    return groups


def _alone(number: int, pattern: CompiledPattern) -> Group:
    tracker = pattern.tracker
    assert isinstance(tracker, Tracker)
    assert pattern.axes == in_order(pattern.axes)  # the product of two groups lays out cells in this order
    starts = sorted(set(tracker.start.tolist()) - {0})
    list_of = {start: i + 1 for i, start in enumerate(starts)}
    return Group(
        (number,),
        pattern.axes,
        pattern.symbol_of_cell,
        tracker.next_state,
        tracker.moves,
        tracker.move_lists,
        np.array([list_of.get(start, 0) for start in tracker.start.tolist()], dtype=np.int64),
        ((), *(((number, start),) for start in starts)),
        np.arange(tracker.n_states, dtype=np.int64).reshape(-1, 1),
        (0,),
        tracker.n_registers,
    )


def _join(left: Group, right: Group, limits: Limits) -> Group | None:
    """The product of two groups, or None where it would be too large."""
    axes = _joint_axes(left.axes, right.axes)
    if prod(axis.n_cells for axis in axes) > limits.cells:
        return None
    code = _spread(left, axes) * right.n_symbols + _spread(right, axes)
    codes, symbol_of_cell = np.unique(code.reshape(-1), return_inverse=True)
    left_symbol, right_symbol = np.divmod(codes, right.n_symbols)
    n_symbols = len(codes)
    room = min(limits.group_states, limits.group_entries // n_symbols, left.n_states * right.n_states)
    if room < max(left.n_states, right.n_states):
        return None
    number_of = np.full(left.n_states * right.n_states, -1, dtype=np.int32)
    pairs = np.empty((room, 2), dtype=np.int64)
    next_state = np.empty((room, n_symbols), dtype=np.int64)
    n_states = int(
        walk_product(
            np.ascontiguousarray(left.next_state), np.ascontiguousarray(right.next_state),
            left_symbol, right_symbol, number_of, pairs, next_state,
        )
    )  # fmt: skip
    if n_states < 0:
        return None
    l, r = pairs[:n_states, 0], pairs[:n_states, 1]  # noqa: E741
    moves, move_lists = _pair_lists(
        left.moves[np.ix_(l, left_symbol)],
        right.moves[np.ix_(r, right_symbol)],
        left.move_lists,
        tuple(_shift_registers(made, left.n_registers) for made in right.move_lists),
    )
    report, report_lists = _pair_lists(
        left.report[l],
        right.report[r],
        left.report_lists,
        tuple(
            tuple((number, start if start > 0 else start - left.n_registers) for number, start in items)
            for items in right.report_lists
        ),
    )
    return Group(
        left.patterns + right.patterns,
        axes,
        symbol_of_cell.reshape(tuple(axis.n_cells for axis in axes)),
        next_state[:n_states].copy(),
        moves,
        move_lists,
        report,
        report_lists,
        np.hstack([left.components[l], right.components[r]]),
        left.first_register + tuple(left.n_registers + register for register in right.first_register),
        left.n_registers + right.n_registers,
    )


def _joint_axes(left: tuple[Axis, ...], right: tuple[Axis, ...]) -> tuple[Axis, ...]:
    by_subject: dict[Subject, list[Axis]] = {}
    for axis in (*left, *right):
        by_subject.setdefault(axis.subject, []).append(axis)
    return in_order(refine(axes) for axes in by_subject.values())


def _spread(group: Group, axes: tuple[Axis, ...]) -> I64:
    """The group's symbol for each combination of cells of finer and more axes; broadcasts to all of them."""
    own = {axis.subject: axis for axis in group.axes}
    maps = [np.array(coarsen(axis, own[axis.subject])) for axis in axes if axis.subject in own]
    symbols = group.symbol_of_cell[np.ix_(*maps)] if maps else group.symbol_of_cell
    shape = [axis.n_cells if axis.subject in own else 1 for axis in axes]
    return np.broadcast_to(symbols.reshape(shape), tuple(axis.n_cells for axis in axes))


def _shift_registers(moves: Moves, by: int) -> Moves:
    return tuple((register + by, source + by if source >= 0 else source) for register, source in moves)


def _pair_lists(
    left: I64, right: I64, left_lists: Sequence[Moves], right_lists: Sequence[Moves]
) -> tuple[I64, tuple[Moves, ...]]:
    """Numbers of the pairs of lists that occur, each pair joined to one list; list 0 stays the empty one."""
    codes, inverse = np.unique(left * len(right_lists) + right, return_inverse=True)
    lists: list[Moves] = [()]
    number_of: dict[Moves, int] = {(): 0}
    numbers = []
    for code in codes.tolist():
        l, r = divmod(code, len(right_lists))  # noqa: E741
        joined = (*left_lists[l], *right_lists[r])
        number = number_of.setdefault(joined, len(lists))
        if number == len(lists):
            lists.append(joined)
        numbers.append(number)
    return np.array(numbers, dtype=np.int64)[inverse].reshape(left.shape), tuple(lists)


# Tables as the kernel reads them.


def lay_out(group: Group) -> tuple[ProductTables, RegisterMoves, ReportLists]:
    """The group's arrays for `kernels.step_tables`."""
    acts = (group.report[group.next_state] != 0) | (group.moves != 0)
    flags = np.where(acts, 0x8000, 0)
    tables = ProductTables(
        np.ascontiguousarray(group.symbol_of_cell.reshape(-1), dtype=np.uint16),
        np.ascontiguousarray((group.next_state | flags).reshape(-1), dtype=np.uint16),
        group.n_symbols,
    )
    # Reports in the order of the file, so that detections need no sorting.
    reports = _flatten([tuple(sorted(items)) for items in group.report_lists])
    moves = lay_out_moves(group.moves, group.move_lists)
    return tables, moves, ReportLists(group.report.astype(np.int32), *reports)


def lay_out_moves(moves: I64, move_lists: Sequence[Moves]) -> RegisterMoves:
    """The moves of every step, moves[state, symbol], for the kernels."""
    return RegisterMoves(np.ascontiguousarray(moves.reshape(-1), dtype=np.int32), *_flatten(move_lists))


def _flatten(lists: Sequence[Sequence[tuple[int, int]]]) -> tuple[I32, I32, I32]:
    """Lists of pairs as three arrays: where each list begins (and the last ends), the firsts, the seconds."""
    first = np.cumsum([0, *(len(items) for items in lists)], dtype=np.int64).astype(np.int32)
    flat = [pair for items in lists for pair in items]
    return (
        first,
        np.array([pair[0] for pair in flat], dtype=np.int32),
        np.array([pair[1] for pair in flat], dtype=np.int32),
    )
