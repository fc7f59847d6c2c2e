"""Evaluates all conditions on the same rows at once: rows in, the rows that pass out for each group.

    e.x != 5 and e.x != 22 and …        one axis for each column, as patterns have it: a row's cell says which groups
                                        it passes, however many conditions there are
    e.x * 3 + 7 != 3008, a.x > b.x      tests of a program, which one compiled loop runs
    f(e.x), hour(e) > 6, near(e, port)  one after the other, for the rows that are left

A group is the conditions of one selection, or those of a join on its candidates. What has to be evaluated one by one
comes last, since it costs most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from wayeb_py.arrays import F64, I64, U64, Bool
from wayeb_py.columns import to_float
from wayeb_py.compiler.axes import Atom, Axis, Pair, atoms_of, axis_for, subject_of
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.rules.column_types import ColumnType, Words
from wayeb_py.engine.rules.evaluation.programs import OPERATORS, Cuts, Formula, Numbers, Program, Test, Whole, folded
from wayeb_py.engine.stepping.encode import Encoder, float_thresholds
from wayeb_py.rules.conditions import Column, Expression, Values, fulfilling
from wayeb_py.rules.kernels import groups
from wayeb_py.rules.kernels.programs import MOST_GROUPS
from wayeb_py.rules.table import MISSING, Array

CHUNK = 1 << 15  # rows at a time: their columns stay in the cache
MOST_CELLS = 30_000
FEWEST_ROWS = 256  # of a column whose values are worth listing
MOST_LISTED = 1 << 15  # values: what they pass stays in the cache
MOST_CUTS = 16  # thresholds that a program compares a value with, one by one


@dataclass(frozen=True, slots=True)
class Predicate:
    """What an expression evaluates: its predicate, and the column of the rows and its type for each of its columns."""

    predicate: m.Predicate
    columns: Mapping[tuple[str, str], tuple[Column, ColumnType]]

    def plain(self, value: object) -> tuple[Column, ColumnType] | None:
        """The column that a value is; None where it is computed."""
        match value:
            case m.Of(role, m.Attribute(name)):
                return self.columns.get((role, name))
        return None


@dataclass(slots=True)
class _OfColumn:
    """The conditions on one column: their axis, and the groups that each cell passes, a bit each."""

    type: ColumnType
    parts: list[tuple[int, m.Predicate]] = field(default_factory=list)  # the group of each part
    encoder: Encoder | None = None
    passes: U64 = field(default_factory=lambda: np.empty(0, np.uint64))
    low: int = 0  # the first of the values that are listed
    of_value: U64 | None = None  # by value, where all are whole numbers close together; last, of one that is missing

    def build(self, n_groups: int, words: Words) -> None:
        atoms = [atom for _, part in self.parts for atom in atoms_of(part)]
        axis = axis_for(subject_of(atoms[0]), atoms)
        self.encoder = Encoder(axis)
        if axis.sort == "numbers" and self.type.is_known and self.type.kind != "text":  # now, not at the first rows
            self.encoder.thresholds(self.type.column(np.empty(0, dtype=self.type.dtype), words))
        self.passes = np.full(axis.n_cells, _bits(n_groups), dtype=np.uint64)
        where = _Truths(axis)
        for group, part in self.parts:
            self.passes[~where.of(part)] &= ~(np.uint64(1) << np.uint64(group))

    def list_values(self, values: Array, words: Words) -> None:
        """Lists, for a long column, what each value between its least and its greatest passes, if these are few."""
        if self.type.own is not None or len(values) < FEWEST_ROWS:
            return
        low, high = int(values.min()), int(values.max())
        if low == MISSING:
            low, high = groups.range_of(values)
        if self.of_value is not None:
            if high < low or (self.low <= low and high < self.low + len(self.of_value) - 1):
                return
            low, high = min(low, self.low), max(high, self.low + len(self.of_value) - 2)
        if high < low or high - low >= min(MOST_LISTED, len(values) // 4):
            return
        every = np.append(np.arange(low, high + 1, dtype=np.int64), MISSING)
        self.low, self.of_value = low, self.passed_by(every, words)

    def passed_by(self, values: Array, words: Words) -> U64:
        """The groups that values pass."""
        assert self.encoder is not None
        cell = np.zeros(len(values), dtype=np.uint16)
        self.encoder.add(self.type.column(values, words), 1, cell)
        return self.passes.take(cell)

    def look_up(self, values: Array, words: Words, passes: U64) -> None:
        """Takes away, row by row, the groups that a value does not pass."""
        if self.of_value is not None and groups.pass_directly(values, self.low, self.of_value, passes) == len(values):
            return
        passes &= self.passed_by(values, words)


class _Truths:
    """Where predicates about one subject hold, by the cells of its axis."""

    def __init__(self, axis: Axis) -> None:
        self._axis = axis
        self._place = {(cut.value, cut.after): place for place, cut in enumerate(axis.cuts)}

    def of(self, predicate: m.Predicate) -> Bool:
        match predicate:
            case m.Not(operand):
                return ~self.of(operand)
            case m.And(operands):
                return np.asarray(np.logical_and.reduce([self.of(operand) for operand in operands]))
            case m.Or(operands):
                return np.asarray(np.logical_or.reduce([self.of(operand) for operand in operands]))
            case m.Compare(comparator, _, m.Constant(Fraction() as value)) if self._axis.sort == "numbers":
                return self._compared(comparator, value)
        return np.array(self._axis.cells_where(predicate))  # type: ignore[arg-type]  # an atom

    def _compared(self, comparator: str, value: Fraction) -> Bool:
        """As the axis would say, without a look at every cell: with a thousand constants each has thousands."""
        at, after = self._place.get((value, False)), self._place.get((value, True))
        first_at = 0 if at is None else at + 1  # the value's own cell begins after the cut before it
        first_above = 0 if after is None else after + 1
        holds = np.zeros(self._axis.n_cells, dtype=bool)
        match comparator:
            case "<":
                holds[:first_at] = True
            case "<=":
                holds[:first_above] = True
            case ">":
                holds[first_above:-1] = True
            case ">=":
                holds[first_at:-1] = True
            case "=":
                holds[first_at:first_above] = True
            case _:
                holds[:first_at] = holds[first_above:-1] = True
        return holds


class AtOnce:
    """The expressions of several groups, with what each evaluates."""

    def __init__(self, groups: Sequence[Sequence[tuple[Expression, Predicate]]], words: Words) -> None:
        self._words = words
        self._parts = [_Part(groups[at : at + MOST_GROUPS], words) for at in range(0, len(groups), MOST_GROUPS)]

    def __call__(self, values: Values, n: int) -> list[I64]:
        """The rows, of `n`, that pass, for each group."""
        return [rows for part in self._parts for rows in part.rows(values, n)]


class _Part:
    """As many groups as a word has bits."""

    def __init__(self, groups: Sequence[Sequence[tuple[Expression, Predicate]]], words: Words) -> None:
        self._n_groups, self._words = len(groups), words
        self._of_column: dict[Column, _OfColumn] = {}
        self._n_atoms: Counter[Column] = Counter()
        self._types: dict[Hashable, ColumnType] = {}  # types of the columns that programs read
        tests: list[list[Test]] = [[] for _ in groups]
        self._others: list[list[Expression]] = [[] for _ in groups]
        for number, group in enumerate(groups):
            for expression, asked in group:
                found = list(_conjuncts(asked.predicate))
                own = [self._test(part, asked) for part in found]
                if any(one is None for one in own):
                    self._others[number].append(expression)
                    continue
                for part, one in zip(found, own, strict=True):
                    if isinstance(one, tuple):
                        column, type_ = one
                        self._of_column.setdefault(column, _OfColumn(type_)).parts.append((number, part))
                    elif one is not None:
                        tests[number].append(one)
        for of_column in self._of_column.values():
            of_column.build(self._n_groups, words)
        self._program = Program(tests) if any(tests) else None

    def _test(self, part: m.Predicate, asked: Predicate) -> Test | tuple[Column, ColumnType] | None:
        """A part of a condition as a test of a program, or the column whose cells decide it; None if it is neither."""
        atoms = list(atoms_of(part))
        subjects = {subject_of(atom) for atom in atoms}
        if len(subjects) != 1:
            return None
        (subject,) = subjects
        if isinstance(subject, Pair):
            return self._pair(subject, part, atoms, asked)
        plain = asked.plain(subject)
        if plain is not None:
            self._n_atoms[plain[0]] += len(atoms)
            return plain if 2 * self._n_atoms[plain[0]] < MOST_CELLS else None
        formula = self._formula(subject, asked)
        if formula is None:
            return None
        axis = axis_for(subject, atoms)
        if axis.sort not in ("numbers", "presence") or len(axis.cuts) > MOST_CUTS:
            return None
        return Cuts(formula, tuple(float_thresholds(axis)), tuple(_Truths(axis).of(part).tolist()))

    def _pair(self, pair: Pair, part: m.Predicate, atoms: Sequence[Atom], asked: Predicate) -> Test | None:
        allowed = tuple(_Truths(axis_for(pair, atoms)).of(part).tolist())
        plain = [asked.plain(side) for side in (pair.left, pair.right)]
        types = [None if one is None else one[1] for one in plain]
        if all(type_ is not None and type_.own is None for type_ in types):
            left, right = plain
            assert left is not None
            assert right is not None
            alike = left[1].kind == right[1].kind in ("number", "time") and left[1].per_unit == right[1].per_unit
            if alike:
                self._types |= {left[0]: left[1], right[0]: right[1]}
            return Whole(left[0], right[0], allowed) if alike else None
        formulas = [self._formula(side, asked) for side in (pair.left, pair.right)]
        if formulas[0] is None or formulas[1] is None:
            return None
        return Numbers(formulas[0], formulas[1], allowed)

    def _formula(self, value: object, asked: Predicate) -> Formula | None:
        """A value as a formula over columns of numbers; None where it is something else, such as a time."""
        plain = asked.plain(value)
        if plain is not None:
            column, type_ = plain
            if type_.kind != "number" or type_.instant:
                return None
            self._types[column] = type_
            return ("column", column)
        match value:
            case m.Constant(Fraction() as number, kind) if kind == "number":
                return ("constant", float(number))
            case m.Arithmetic(operator, operands) if operator in OPERATORS:
                formulas = [self._formula(operand, asked) for operand in operands]
                own = [formula for formula in formulas if formula is not None]
                if len(own) < len(formulas) or all(formula[0] == "constant" for formula in own):
                    return None
                return folded(operator, own)
        return None

    def rows(self, values: Values, n: int) -> list[I64]:
        """The rows that pass, of the first `n`, for each group."""
        wanted = {*self._of_column, *(() if self._program is None else (*self._program.reals, *self._program.wholes))}
        arrays = {column: np.asarray(values(column)) for column in wanted if isinstance(column, Column)}
        if not arrays:
            found = [np.arange(n, dtype=np.int64)] * self._n_groups
        else:
            for column, of_column in self._of_column.items():
                of_column.list_values(arrays[column], self._words)
            passes = np.full(n, _bits(self._n_groups), dtype=np.uint64)
            for begin in range(0, n, CHUNK):
                here = {column: array[begin : begin + CHUNK] for column, array in arrays.items()}
                self._pass(here, passes[begin : begin + CHUNK])
            found = _rows_of_groups(passes, self._n_groups)
        return [
            fulfilling(expressions, values, rows, n) for expressions, rows in zip(self._others, found, strict=True)
        ]

    def _pass(self, arrays: Mapping[Column, Array], passes: U64) -> None:
        for column, of_column in self._of_column.items():
            of_column.look_up(arrays[column], self._words, passes)
        program = self._program
        if program is None:
            return
        left = np.flatnonzero(passes)
        if 4 * len(left) > 3 * len(passes):
            program.run(*self._read(program, arrays), passes)
        elif len(left):
            some = passes[left]
            program.run(*self._read(program, {column: array[left] for column, array in arrays.items()}), some)
            passes[left] = some

    def _read(self, program: Program, arrays: Mapping[Column, Array]) -> tuple[list[F64], list[I64]]:
        asked = ((self._types[column], arrays[column]) for column in _columns(program.reals))
        reals = [to_float(type_.column(array, self._words)) for type_, array in asked]
        return reals, [arrays[column] for column in _columns(program.wholes)]


def _columns(some: Sequence[Hashable]) -> Iterator[Column]:
    return (column for column in some if isinstance(column, Column))


def _bits(n: int) -> np.uint64:
    return np.uint64(2**n - 1)


def _rows_of_groups(passes: U64, n_groups: int) -> list[I64]:
    """For each group the rows that pass it."""
    if n_groups == 1:
        return [np.flatnonzero(passes)]
    counts = np.zeros(n_groups, dtype=np.int64)
    groups.count_groups(passes, counts)
    ends = np.cumsum(counts)
    rows = np.empty(int(ends[-1]), dtype=np.int64)
    groups.place_groups(passes, ends - counts, rows)
    return [rows[end - count : end] for end, count in zip(ends.tolist(), counts.tolist(), strict=True)]


def _conjuncts(predicate: m.Predicate) -> Iterator[m.Predicate]:
    if isinstance(predicate, m.And):
        for operand in predicate.operands:
            yield from _conjuncts(operand)
    else:
        yield predicate
