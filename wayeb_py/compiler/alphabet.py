"""The letters of one pattern become minterms: all that an automaton sees of a predicate.

Over the product of the cells of all axes that the letters mention, each letter is a truth table. Combinations of
cells on which all letters agree are one minterm; a letter is then a set of minterms, a bit mask, and the Boolean
algebra of predicates is that of bit masks. A BDD would hold larger products; here a pattern that mentions too much
evaluates its letters as whole predicates, each an axis of two cells, and only the satisfiability between letters is
lost, not a detection.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import numpy as np

from wayeb_py.arrays import I64, Bool
from wayeb_py.compiler.axes import Atom, Axis, Subject, atoms_of, axis_for, subject_of
from wayeb_py.compiler.limits import Limits
from wayeb_py.dsl import meaning as m
from wayeb_py.errors import LimitError


@dataclass(frozen=True, slots=True)
class Alphabet:
    """Axes, the minterm of every combination of their cells, and each letter's minterms as a bit mask."""

    axes: tuple[Axis, ...]
    minterm_of_cell: I64  # [cell of the product, the last axis running fastest]
    n_minterms: int
    mask_of: dict[m.Predicate, int]

    @property
    def full(self) -> int:
        return (1 << self.n_minterms) - 1


def build_alphabet(predicates: Iterable[m.Predicate], limits: Limits, by_atoms: bool = False) -> Alphabet:
    """The coarsest alphabet in which every one of the predicates is a set of minterms.

    `by_atoms`: the alphabet separates the atoms of letters however many there are, since not all are about the event.
    """
    letters = list(dict.fromkeys(predicates))
    axes = axes_of(letters)
    tables: dict[m.Predicate, Bool]
    if prod(axis.n_cells for axis in axes) <= limits.cells:
        tables = {letter: truth_table(letter, axes) for letter in letters}
    else:
        if 2 ** len(letters) > limits.cells or by_atoms:
            n_cells = prod(axis.n_cells for axis in axes)
            raise LimitError(
                "the pattern mentions too many attributes in too many different letters",
                given=f"{n_cells:,} combinations" if by_atoms else f"{len(letters)} letters",
                limit=f"{limits.cells:,} combinations" if by_atoms else f"{limits.cells.bit_length() - 1} letters",
                knob="split the pattern, or raise Limits.cells",
            )
        axes = in_order(Axis(letter, "flags") for letter in letters)
        tables = {letter: _cell_of(axes, letter).astype(bool) for letter in letters}
    shape = tuple(axis.n_cells for axis in axes)
    columns = np.array([np.broadcast_to(tables[letter], shape).ravel() for letter in letters], dtype=bool)
    columns = columns.reshape(len(letters), prod(shape))
    packed = np.packbits(columns, axis=0).T  # [cell, byte]: rows that are equal are one minterm
    distinct, first, minterm_of_cell = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    mask_of = {
        letter: sum(1 << minterm for minterm in np.flatnonzero(columns[i, first]).tolist())
        for i, letter in enumerate(letters)
    }
    return Alphabet(axes, minterm_of_cell.reshape(-1).astype(np.int64), len(distinct), mask_of)


def axes_of(predicates: Iterable[m.Predicate]) -> tuple[Axis, ...]:
    """One axis for each subject that the predicates mention, in a fixed order."""
    atoms: dict[Subject, list[Atom]] = {}
    for predicate in predicates:
        for atom in atoms_of(predicate):
            atoms.setdefault(subject_of(atom), []).append(atom)
    return in_order(axis_for(subject, atoms[subject]) for subject in atoms)


def in_order(axes: Iterable[Axis]) -> tuple[Axis, ...]:
    """Axes in the one order in which every table of cells has them: joining tables relies on it."""
    return tuple(sorted(axes, key=lambda axis: repr(axis.subject)))


def _cell_of(axes: tuple[Axis, ...], subject: Subject) -> I64:
    """The cell of one axis by combination of cells; an array that broadcasts to all axes."""
    number = next(i for i, axis in enumerate(axes) if axis.subject == subject)
    shape = [1] * len(axes)
    shape[number] = -1
    return np.arange(axes[number].n_cells).reshape(shape)


def truth_table(predicate: m.Predicate, axes: tuple[Axis, ...]) -> Bool:
    """Where the predicate holds: an array that broadcasts to [cell of axis 0, cell of axis 1, …]."""
    match predicate:
        case m.Always():
            return np.ones((1,) * len(axes), dtype=bool)
        case m.Never():
            return np.zeros((1,) * len(axes), dtype=bool)
        case m.Not(operand):
            return ~truth_table(operand, axes)
        case m.And(operands):
            table = truth_table(operands[0], axes)
            for operand in operands[1:]:
                table = table & truth_table(operand, axes)
            return table
        case m.Or(operands):
            table = truth_table(operands[0], axes)
            for operand in operands[1:]:
                table = table | truth_table(operand, axes)
            return table
        case _:
            subject = subject_of(predicate)
            axis = next(axis for axis in axes if axis.subject == subject)
            return np.array(axis.cells_where(predicate), dtype=bool)[_cell_of(axes, subject)]


def is_satisfiable(predicate: m.Predicate, limits: Limits) -> bool:
    """Whether some event could satisfy the predicate; yes where it mentions too much to decide."""
    axes = axes_of([predicate])
    if prod(axis.n_cells for axis in axes) > limits.cells:
        return True
    return bool(truth_table(predicate, axes).any())
