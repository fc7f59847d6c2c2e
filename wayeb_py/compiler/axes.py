"""Predicates of the checked tree become sets of cells on axes.

An axis is a subject (an attribute, a derived value, a pair of values that are compared with each other, a user's
predicate) whose values are cut into finitely many cells, so fine that every comparison with that subject is a set of
cells. Numbers and times are cut by thresholds, text by the values that are mentioned; one cell more is for missing. Two
predicates can hold together iff their sets share a combination of cells: that is the satisfiability check, and a cell's
number is what the kernels compute, so nothing has to be solved or generated. An SMT solver would know more (`x > y and
y > x`), and no file that we have seen would gain from it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from wayeb_py.dsl import meaning as m


@dataclass(frozen=True, slots=True)
class Pair:
    """Two values that are compared with each other; `left` sorts before `right`."""

    left: m.Value
    right: m.Value


Subject = m.Value | Pair | m.Predicate
"""A predicate is a subject if it is evaluated as a whole: a user's, a spatial one, or one that mentions too much."""

Sort = Literal["numbers", "words", "ordered words", "booleans", "pairs", "flags", "presence"]


@dataclass(frozen=True, slots=True, order=True)
class Cut:
    """A threshold: values up to `value` (and itself, if `after`) lie below it."""

    value: Fraction
    after: bool


@dataclass(frozen=True, slots=True)
class Axis:
    """A subject and its cells; `missing` is the last cell, except for flags, which are never missing."""

    subject: Subject
    sort: Sort
    cuts: tuple[Cut, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def n_cells(self) -> int:
        match self.sort:
            case "numbers":
                return len(self.cuts) + 2
            case "words":
                return len(self.words) + 2
            case "ordered words":
                return 2 * len(self.words) + 2
            case "booleans":
                return 3
            case "pairs":
                return 4
            case "flags" | "presence":
                return 2

    def cell_of_word(self, word: str) -> int:
        """The cell of a text that is not missing."""
        i = bisect_left(self.words, word)
        found = i < len(self.words) and self.words[i] == word
        if self.sort == "words":
            return i if found else len(self.words)
        return 2 * i + 1 if found else 2 * i

    def cells_where(self, atom: Atom) -> list[bool]:
        """Whether the atom holds in each cell."""
        n = self.n_cells
        if isinstance(atom, m.Missing):
            return [cell == n - 1 for cell in range(n)]
        if self.sort == "flags":
            return [False, True]
        assert isinstance(atom, m.Compare)
        if self.sort == "pairs":
            assert isinstance(self.subject, Pair)
            less, greater = (0, 2) if self.subject.left == atom.left else (2, 0)
            wanted = {
                "<": {less}, "<=": {less, 1}, ">": {greater}, ">=": {greater, 1}, "=": {1}, "!=": {0, 2},
            }[atom.comparator]  # fmt: skip
            return [cell in wanted for cell in range(n)]
        assert isinstance(atom.right, m.Constant)
        below, equal = self._below_and_equal(atom.right)
        present = [cell < n - 1 for cell in range(n)]
        match atom.comparator:
            case "<":
                return [p and b for p, b in zip(present, below, strict=True)]
            case "<=":
                return [p and (b or e) for p, b, e in zip(present, below, equal, strict=True)]
            case ">":
                return [p and not b and not e for p, b, e in zip(present, below, equal, strict=True)]
            case ">=":
                return [p and not b for p, b in zip(present, below, strict=True)]
            case "=":
                return [p and e for p, e in zip(present, equal, strict=True)]
            case "!=":
                return [p and not e for p, e in zip(present, equal, strict=True)]

    def _below_and_equal(self, constant: m.Constant) -> tuple[list[bool], list[bool]]:
        n = self.n_cells
        if self.sort == "numbers":
            assert isinstance(constant.value, Fraction)
            # A comparison that needs a cut beside the constant has put it on the axis; without the cut, no caller gets
            # here.
            first_at = bisect_right(self.cuts, Cut(constant.value, False))
            first_above = bisect_right(self.cuts, Cut(constant.value, True))
            return (
                [cell < first_at for cell in range(n)],
                [first_at <= cell < first_above for cell in range(n)],
            )
        if self.sort == "booleans":
            return [cell < int(bool(constant.value)) for cell in range(n)], [
                cell == int(bool(constant.value)) for cell in range(n)
            ]
        at = self.cell_of_word(str(constant.value))
        return [cell < at for cell in range(n)], [cell == at for cell in range(n)]


Atom = (
    m.Compare | m.Missing | m.Near | m.Inside | m.Crossed | m.Passed | m.Detected | m.Reports | m.HoldsOf
    | m.PredicateCall
)  # fmt: skip


def subject_of(atom: Atom) -> Subject:
    """What the atom is about."""
    match atom:
        case m.Compare(_, left, right):
            if isinstance(right, m.Constant):
                return left
            return Pair(left, right) if repr(left) <= repr(right) else Pair(right, left)
        case m.Missing(operand):
            return operand
        case _:
            return atom


def atoms_of(predicate: m.Predicate) -> Iterator[Atom]:
    """The comparisons, lookups and user's predicates of a predicate, from left to right."""
    match predicate:
        case m.Always() | m.Never():
            return
        case m.Not(operand):
            yield from atoms_of(operand)
        case m.And(operands) | m.Or(operands):
            for operand in operands:
                yield from atoms_of(operand)
        case _:
            yield predicate


def axis_for(subject: Subject, atoms: Iterable[Atom]) -> Axis:
    """The coarsest axis on which each of the atoms, all about this subject, is a set of cells."""
    if isinstance(subject, Pair):
        return Axis(subject, "pairs")
    cuts: set[Cut] = set()
    words: set[str] = set()
    ordered = booleans = False
    for atom in atoms:
        if isinstance(atom, m.Missing):
            continue
        if not isinstance(atom, m.Compare):
            return Axis(subject, "flags")
        assert isinstance(atom.right, m.Constant)
        value = atom.right.value
        if isinstance(value, bool):
            booleans = True
        elif isinstance(value, str):
            words.add(value)
            ordered |= atom.comparator not in ("=", "!=")
        else:
            if atom.comparator in (">", "<=", "=", "!="):
                cuts.add(Cut(value, True))
            if atom.comparator in (">=", "<", "=", "!="):
                cuts.add(Cut(value, False))
    if booleans:
        return Axis(subject, "booleans")
    if words:
        return Axis(subject, "ordered words" if ordered else "words", words=tuple(sorted(words)))
    if cuts:
        return Axis(subject, "numbers", cuts=tuple(sorted(cuts, key=_place)))
    return Axis(subject, "presence")


def _place(cut: Cut) -> tuple[int | Fraction, bool]:
    """Where a cut is sorted: whole numbers are compared as such, which is many times as fast as by fractions."""
    return (cut.value.numerator if cut.value.denominator == 1 else cut.value), cut.after


def refine(axes: Iterable[Axis]) -> Axis:
    """The coarsest axis that is at least as fine as each of these, which share their subject."""
    axes = list(axes)
    subject = axes[0].subject
    sorts = {axis.sort for axis in axes} - {"presence"}
    if not sorts:
        return axes[0]
    if len(sorts) == 1:
        (sort,) = sorts
    elif sorts == {"words", "ordered words"}:
        sort = "ordered words"
    else:
        raise AssertionError(f"axes of different sorts on {subject}")
    return Axis(
        subject,
        sort,
        cuts=tuple(sorted({cut for axis in axes for cut in axis.cuts})),
        words=tuple(sorted({word for axis in axes for word in axis.words})),
    )


def coarsen(fine: Axis, coarse: Axis) -> list[int]:
    """The cell of the coarser axis that holds each cell of the finer one."""
    n = fine.n_cells
    if fine == coarse:
        return list(range(n))
    if coarse.sort == "presence":
        return [0] * (n - 1) + [1]
    missing = coarse.n_cells - 1
    if fine.sort == "numbers":
        kept = set(coarse.cuts)
        cells = [0]
        for cut in fine.cuts:
            cells.append(cells[-1] + (cut in kept))
        return [*cells, missing]
    # Text: each cell of the finer axis is a value or lies between two values; a value stands for it.
    cells = []
    for cell in range(n - 1):
        if fine.sort == "words":
            cells.append(coarse.cell_of_word(fine.words[cell]) if cell < len(fine.words) else len(coarse.words))
        elif cell % 2:
            cells.append(coarse.cell_of_word(fine.words[cell // 2]))
        elif coarse.sort == "words":
            cells.append(len(coarse.words))
        else:
            cells.append(
                2 * bisect_left(coarse.words, fine.words[cell // 2]) if cell // 2 < len(fine.words) else missing - 1
            )
    return [*cells, missing]
