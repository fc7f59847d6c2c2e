"""A pattern `for each p in port` becomes one automaton for all places, stepped only for places that an event is near.

The axes of such a pattern are of two kinds: those about the event alone, and those about the event and a place. A place
out of reach is in the `far` cell of each axis of the second kind, the same for all of them. So all places that have
been out of reach since the word began share one state, and one step serves them all. Two kinds of places need a step of
their own: those within reach, which a grid gives, and those that were once within reach and whose state still differs,
which each entity lists. So the cost is proportional to the places near an event, whatever holds far away. Where a far
place is not like another (`speed > p.limit` alone), the pattern is written out: one ordinary pattern for each place,
exactly as it is defined.

So the patterns of a file become runnables, which the engine steps. Patterns that mean the same are one runnable; a
pattern `for each` place is one too where it can be stepped place by place, and otherwise one for each place. The files
of places are read only here, when the first event is to be recognised.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import prod
from typing import Any, Protocol

import numpy as np

from wayeb_py.arrays import F64, I32, I64
from wayeb_py.compiler.axes import Axis, Pair, Subject
from wayeb_py.compiler.limits import Limits
from wayeb_py.compiler.pattern import CompiledPattern, compile_pattern, every_measure_of
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.walk import parts_of, transform, walk


class PlaceLookup(Protocol):
    """What patterns need of background knowledge: names, columns, and the places within reach of points."""

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def columns(self) -> Any: ...

    def within(self, lon: F64, lat: F64, reach_m: float) -> tuple[I64, I32, F64]:
        """(first, place, distance_m): the places of row i are place[first[i] : first[i + 1]], ascending."""
        ...


def depends_on_place(subject: Subject) -> bool:
    """Whether a subject differs from place to place."""
    return any(
        isinstance(part, m.PlaceColumn) or (isinstance(part, m.Places | m.Detected | m.Since) and part.each)
        for part in walk(subject)
    )


def measures_places(pattern: m.Pattern) -> bool:
    """Whether a pattern measures what differs from place to place: it is then written out for each of them."""
    return any(depends_on_place(column.value) for column in pattern.measures)


def at_place(pattern: str, place: str) -> str:
    """The name of a pattern at one of its places, for a pattern that reads it there."""
    return f"{pattern}\x1f{place}"


def read_by(pattern: CompiledPattern) -> Iterator[str]:
    """The patterns, at a place or at any, that a pattern reads by `detected` or `since`."""
    asked = [axis.subject for axis in pattern.axes] + ([] if pattern.memory is None else [*pattern.memory.tests])
    for subject in asked:
        for part in walk(subject):
            if isinstance(part, m.Detected | m.Since):
                yield part.pattern


@dataclass(frozen=True, slots=True)
class ForEachPlan:
    """How a pattern is stepped place by place."""

    shared: tuple[Axis, ...]
    placed: tuple[Axis, ...]
    symbol: I64  # [code of the shared axes, code of the placed axes]
    far_symbol: I64  # [code of the shared axes]: a place out of reach
    lost_symbol: I64  # [code of the shared axes]: the position is missing
    reach_m: float


def plan_for_each(pattern: CompiledPattern) -> ForEachPlan | None:
    """The plan, or None where the pattern has to be written out for each place."""
    return None if pattern.tracker is None else plan_of(pattern.axes, pattern.symbol_of_cell)


def plan_of(axes: tuple[Axis, ...], symbol_of_cell: I64) -> ForEachPlan | None:
    """The plan of an automaton over these axes; None where a place that is far is not like another."""
    is_placed = [depends_on_place(axis.subject) for axis in axes]
    shared = tuple(axis for axis, placed in zip(axes, is_placed, strict=True) if not placed)
    placed = tuple(axis for axis, placed in zip(axes, is_placed, strict=True) if placed)
    reaches = [_reach_m(axis) for axis in placed]
    if all(reach is None for reach in reaches) or not all(_is_stepped(axis) for axis in placed):
        return None
    order = [i for i, p in enumerate(is_placed) if not p] + [i for i, p in enumerate(is_placed) if p]
    n_shared = prod(axis.n_cells for axis in shared)
    symbol = np.transpose(symbol_of_cell, order).reshape(n_shared, *(axis.n_cells for axis in placed))
    far = _pinned(symbol, placed, lost=False)
    lost = _pinned(symbol, placed, lost=True)
    if far is None or lost is None:
        return None
    reach_m = max(reach for reach in reaches if reach is not None)
    return ForEachPlan(shared, placed, symbol.reshape(n_shared, -1), far, lost, reach_m)


def why_written_out(pattern: CompiledPattern) -> str | None:
    """Why a pattern's cost grows with the number of all places, in words; None where only places nearby cost."""
    if plan_for_each(pattern) is not None:
        return None
    placed = [axis for axis in pattern.axes if depends_on_place(axis.subject)]
    if not placed:
        return "no letter looks at the place: it is detected for all of them alike"
    for axis in placed:
        if not _is_stepped(axis):
            from wayeb_py.compiler.describe import subject_text  # for start-up time

            return f"`{subject_text(axis.subject)}` is another for every place, however far it is"
    if all(_reach_m(axis) is None for axis in placed):
        return "no letter says how near the place has to be"
    return "it has no small automaton, which would step the places nearby alone"


def _is_stepped(axis: Axis) -> bool:
    match axis.subject:
        case m.Distance(m.Places()) | m.Near(m.Places()) | m.Inside():
            return True
        case Pair(left, right):  # compared with a column of the place: evaluated for the places within reach only
            sides = [side for side in (left, right) if depends_on_place(side)]
            return all(isinstance(side, m.PlaceColumn) for side in sides)
        case _:
            return False


def _reach_m(axis: Axis) -> float | None:
    """How far away a place may be without being in the far cell; None for an axis that has no such cell."""
    match axis.subject:
        case m.Distance():
            return max((float(cut.value) for cut in axis.cuts), default=0.0)
        case m.Near(_, distance_m):
            return float(distance_m)
        case m.Inside():
            return 0.0
        case _:
            return None


def _pinned(symbol: I64, placed: tuple[Axis, ...], lost: bool) -> I64 | None:
    """The symbol by shared code when a place is far, or the position lost; None where that does not determine it."""
    index: list[int | slice] = [slice(None)]
    for axis in placed:
        match axis.subject:
            case m.Distance():
                # The cell before the last is beyond all cuts; the last one is missing.
                index.append(axis.n_cells - 1 if lost else axis.n_cells - 2)
            case m.Near() | m.Inside():
                index.append(0)
            case _:
                index.append(slice(None))
    pinned = symbol[tuple(index)].reshape(symbol.shape[0], -1)
    return pinned[:, 0] if (pinned == pinned[:, :1]).all() else None


# Writing out.


@dataclass(frozen=True, slots=True)
class _Absent:
    """Stands for a column that a place lacks, until the predicate around it is decided."""


_ABSENT = _Absent()
_MISSING = m.Arithmetic("/", (m.Constant(Fraction(0), "number"), m.Constant(Fraction(0), "number")))  # at every event
_MIRRORED: dict[str, m.Comparator] = {">": "<", "<": ">", ">=": "<=", "<=": ">=", "=": "=", "!=": "!="}
_HOLDS: dict[str, Callable[[Any, Any], Any]] = {
    ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le, "=": operator.eq, "!=": operator.ne,
}  # fmt: skip


def write_out(pattern: m.Pattern, names: Sequence[str], columns: Any) -> Iterator[tuple[str, m.Pattern]]:
    """(place, pattern) for each place, the row's name and columns put in; as `for each` is defined."""
    for row, name in enumerate(names):
        values = {column: cells[row] for column, cells in columns.items()}
        put_in = partial(_placed, name, values)
        measures = tuple(replace(column, value=transform(column.value, put_in)) for column in pattern.measures)
        yield name, replace(pattern, regex=transform(pattern.regex, put_in), measures=measures, each=None)


def at_one(lookup: PlaceLookup, name: str) -> Callable[[Subject], Subject]:
    """Gives what is asked of an event and a place as asked of an event and this one."""
    row = list(lookup.names).index(name)
    values = {column: cells[row] for column, cells in lookup.columns.items()}
    return partial(transform, change=partial(_placed, name, values))


def _placed(name: str, values: Mapping[str, Any], part: Any) -> Any:
    """A part of the tree for one place, whose own parts are already those of that place."""
    match part:
        case m.PlaceColumn(_, column):
            constant = place_constant(values[column])
            return _ABSENT if constant is None else constant
        case m.Places(places, _, True):
            return m.Places(places, name)
        case m.Detected(pattern, True):
            return m.Detected(at_place(pattern, name))
        case m.Since(pattern, True):
            return m.Since(at_place(pattern, name))
        case m.Compare() if _ABSENT in parts_of(part):
            return m.Never()
        case m.Compare(comparator, m.Constant(first), m.Constant(second)):
            return m.Always() if _HOLDS[comparator](first, second) else m.Never()
        case m.Compare(comparator, m.Constant() as first, second):
            return m.Compare(_MIRRORED[comparator], second, first)
        case m.Missing(operand) if operand == _ABSENT:
            return m.Always()
        case m.Missing(m.Constant()):
            return m.Never()
        case m.PredicateCall() if _ABSENT in parts_of(part):
            return m.Never()
        case m.Measure(_, operand) if operand == _ABSENT:
            return replace(part, operand=_MISSING)
        case m.Arithmetic() | m.Previous() | m.Held() | m.FunctionCall() if _ABSENT in parts_of(part):
            return _ABSENT
    return part


def place_constant(cell: Any) -> m.Constant | None:
    """A place's cell as a constant; None where it is missing."""
    if cell is None or (isinstance(cell, float) and cell != cell):
        return None
    if isinstance(cell, bool):
        return m.Constant(cell, "bool")
    if isinstance(cell, str):
        return m.Constant(cell, "text")
    return m.Constant(Fraction(cell), "number")


@dataclass(frozen=True, slots=True)
class Runnable:
    """What the engine steps: a compiled pattern, the patterns of the file with its meaning, and its place or places."""

    compiled: CompiledPattern
    patterns: tuple[int, ...]  # by their place in the file
    place: str | None = None  # the place that it was written out for
    plan: ForEachPlan | None = None  # how it is stepped place by place
    lookup: PlaceLookup | None = None


def list_runnables(
    patterns: Sequence[m.Pattern],
    distinct: Sequence[tuple[CompiledPattern, tuple[int, ...]]],
    places: Callable[[str], PlaceLookup],
    longest: bool,
    limits: Limits,
) -> tuple[Runnable, ...]:
    """The runnables, in the order of the file; `distinct` has each compiled pattern with the patterns of the same
    meaning."""
    runnables: list[Runnable] = []
    for compiled, same in distinct:
        pattern = patterns[same[0]]
        if pattern.pair is not None:  # belongs to another operator
            continue
        if pattern.each is None:
            runnables.append(Runnable(compiled, same))
            continue
        lookup = places(pattern.each[1])
        is_plain = pattern.which == "every end" and not measures_places(pattern)
        plan = plan_for_each(compiled) if is_plain else None
        if plan is not None:
            runnables.append(Runnable(compiled, same, plan=plan, lookup=lookup))
            continue
        for place, written in write_out(pattern, lookup.names, lookup.columns):
            # Detections carry the columns that the file declares, so measures are known by what it says of `p`.
            measured = replace(compile_pattern(written, longest, limits), measures=every_measure_of(written),
                               declared=every_measure_of(pattern))  # fmt: skip
            runnables.append(Runnable(measured, same, place=place))
    return tuple(runnables)
