"""A cohort: patterns that have read the same events since the same moment, and what they remember of each entity.

Patterns of one cohort share what looks back (`prev`, `held`) and are joined into groups. A pattern that is added to a
running stream starts fresh, so it makes a cohort of its own; its `prev` is missing where an older pattern's is not.

Chunk by chunk: every axis is encoded once, each group combines the cells of its own axes to a code, and steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import floor
from typing import TYPE_CHECKING, Any

import numpy as np

from wayeb_py.arrays import I64, U8, U16
from wayeb_py.compiler.automata.product import Group
from wayeb_py.compiler.axes import Axis, Subject, refine
from wayeb_py.compiler.for_each import Runnable
from wayeb_py.compiler.pattern import CompiledPattern
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.walk import walk
from wayeb_py.engine.stepping.encode import Encoder
from wayeb_py.engine.stepping.pooled_steppers import PooledStepper, RunStepper
from wayeb_py.engine.stepping.steppers import Found, TableStepper, by_measures, of_pattern
from wayeb_py.engine.values import POSITION_BEFORE, Chunk, Values
from wayeb_py.kernels.encode import add_looked_up
from wayeb_py.kernels.step_parts import ChunkRows
from wayeb_py.kernels.step_tables import Windows
from wayeb_py.kernels.ticks import NEVER

NO_WINDOW = 2**63 - 1
MOST_QUESTIONS = 12  # predicates about places that are answered together: one table has all combinations of answers

if TYPE_CHECKING:
    from wayeb_py.engine.rows.episodes import OpenOf
    from wayeb_py.engine.stepping.live_starts import Stepper
    from wayeb_py.engine.stepping.measures import MatchMeasures
    from wayeb_py.engine.stepping.place_stepper import PlaceStepper
    from wayeb_py.engine.stepping.register_stepper import RegisterStepper
    from wayeb_py.engine.stepping.start_stepper import Disjoint


class Cohort:
    """Some patterns, numbered, and their state."""

    def __init__(
        self,
        runnables: Sequence[tuple[int, Runnable]],
        groups: Sequence[Group],
        ticks_per_s: int,
        birth: int,
        values: Values,
    ) -> None:
        self.birth = birth
        self.patterns = {number: runnable.compiled for number, runnable in runnables}
        self.values = values
        simulated = [(number, runnable.compiled) for number, runnable in runnables if runnable.compiled.tracker is None]
        placed = [(number, runnable, runnable.plan) for number, runnable in runnables if runnable.plan is not None]
        axes = _all_axes(
            [
                *(group.axes for group in groups),
                *(pattern.axes for _, pattern in simulated),
                *(plan.shared for _, _, plan in placed),
            ]
        )
        self.encoders = [Encoder(axis) for axis in axes]
        # With a single stepper, its codes are summed at once and the cells of the axes are never stored.
        self._direct = len(groups) + len(simulated) == 1 and not placed
        windows = _windows(self.patterns, ticks_per_s)
        self.placed: list[PlaceStepper] = []
        if placed:
            from wayeb_py.engine.stepping.place_stepper import PlaceStepper  # for start-up time

            self.placed = [PlaceStepper(number, runnable, axes, windows, values) for number, runnable, _ in placed]
        self.remembering: list[RegisterStepper] = []
        self.steppers: list[Stepper] = [
            *(TableStepper(group, axes, self._direct, windows) for group in groups),
            *(self._simulated(number, pattern, axes, windows, ticks_per_s) for number, pattern in simulated),
            *self.placed,
        ]
        self.disjoint: list[Disjoint] = []
        self.measures: list[MatchMeasures] = []
        for number, pattern in self.patterns.items():
            if pattern.which == "without overlap":
                from wayeb_py.engine.stepping.start_stepper import Disjoint  # for start-up time

                self.disjoint.append(Disjoint(number, pattern))
        self._measured_by: I64 = np.zeros(0, dtype=np.int64)  # [pattern]: the number of its measures, or -1
        if any(pattern.measures for pattern in self.patterns.values()):
            self._share_measures()
        self._asked = _questions(axes, self.steppers[0].strides if self._direct else None)
        asked = {number for asked in self._asked for number in asked.axes}
        self._encoded = [(number, one) for number, one in enumerate(self.encoders) if number not in asked]
        self._cells = np.empty((1, 0), dtype=np.uint16)
        self.seen: U8 | None = None  # [entity]; only where entities existed before the cohort

    def _simulated(
        self, number: int, pattern: CompiledPattern, axes: Sequence[Axis], windows: Windows, ticks_per_s: int
    ) -> PooledStepper:
        """What steps a pattern run by run."""
        if pattern.memory is not None:
            from wayeb_py.engine.stepping.register_stepper import RegisterStepper  # for start-up time

            stepper = RegisterStepper(number, pattern, axes, self._direct, windows, self.values, ticks_per_s)
            self.remembering.append(stepper)
            return stepper
        if pattern.has_each_start:
            from wayeb_py.engine.stepping.start_stepper import StartStepper  # for start-up time

            return StartStepper(number, pattern, axes, self._direct, windows)
        return RunStepper(number, pattern, axes, self._direct, windows)

    def _share_measures(self) -> None:
        """Patterns that measure the same do so together, those with places apart from the others."""
        from wayeb_py.engine.stepping.measures import MatchMeasures  # for start-up time

        placed = {stepper.number for stepper in self.placed}
        alike: dict[Any, dict[int, CompiledPattern]] = {}
        for number, pattern in self.patterns.items():
            if pattern.measures:
                alike.setdefault((pattern.measures, pattern.declared, number in placed), {})[number] = pattern
        self._measured_by = np.full(max(self.patterns) + 1, -1, dtype=np.int64)
        for nth, patterns in enumerate(alike.values()):
            self._measured_by[list(patterns)] = nth
            steppers = [one for one in self.steppers if not patterns.keys().isdisjoint(_numbers(one))]
            self.measures.append(MatchMeasures(patterns, steppers, self.values))

    def start_among(self, n_known: int) -> None:
        """Records that the entities so far have had events which this cohort has not read."""
        self.seen = np.zeros(n_known, dtype=np.uint8)

    def looking_back(self) -> Iterator[m.Value]:
        """The values that need memory, wherever they occur."""
        for encoder in self.encoders:
            yield from _looking_back(encoder.axis.subject)
        for stepper in self.placed:
            for subject in stepper.subjects():
                yield from _looking_back(subject)
        for one in self.remembering:
            yield one.words_key
            for test in one.tests:
                yield from _looking_back(test)
        for measures in self.measures:
            for measure in measures.measures:
                yield measure  # the words of a text at the first event
                yield from _looking_back(measure)

    def grow(self, n_entities: int) -> None:
        """Makes room for entities up to this number."""
        self.values.n_entities = n_entities
        for stepper in self.steppers:
            stepper.grow(n_entities)
        for disjoint in self.disjoint:
            disjoint.grow(n_entities)
        for measures in self.measures:
            measures.grow(n_entities)

    def step(
        self, chunk: Chunk, tail_ts: I64, tail: int, pool: ThreadPoolExecutor | None, open_of: OpenOf | None = None
    ) -> list[Found]:
        """The detections of a chunk; measured ones with the parts of episodes, if `open_of` gives the open ones by
        entity, runnable and place."""
        if self.seen is not None:
            chunk = self._hide_the_past(chunk, self.seen)
        n = len(chunk.ts)
        cells = self.encode(chunk)
        for stepper in self.placed:
            stepper.prepare(chunk)
        rows = tuple(ChunkRows(chunk.entity, chunk.ts, chunk.seq, chunk.link, chunk.fresh, tail_ts, tail))
        if pool is None or len(self.steppers) == 1:
            found = [found for stepper in self.steppers for found in stepper.step(cells, n, chunk, rows)]
        else:
            parts = pool.map(lambda stepper: stepper.step(cells, n, chunk, rows), self.steppers)
            found = [found for part in parts for found in part]
        for disjoint in self.disjoint:
            found, own = of_pattern(found, disjoint.number)
            own = disjoint.keep(own, chunk)
            found += [own] if len(own.row) else []
        if self.measures:
            found, of_each = by_measures(found, self._measured_by, len(self.measures))
            for measures, own in zip(self.measures, of_each, strict=True):
                measured = measures.measure(own, chunk, open_of)
                found += [measured] if len(own.row) else []
        return found

    def crowded(self) -> Iterator[tuple[str, int]]:
        """Patterns that have followed very many ways of an entity, and at how many events since the last call."""
        for stepper in self.remembering:
            if n_events := stepper.crowded():
                yield stepper.pattern.name, n_events

    def encode(self, chunk: Chunk) -> U16:
        """The cells of a chunk's events on all axes: with a single stepper its codes, summed in the first line."""
        n = len(chunk.ts)
        n_axes = len(self.encoders)
        direct = self._direct
        n_rows = 1 if direct else max(1, n_axes)
        if self._cells.shape[0] != n_rows or self._cells.shape[1] < n:
            self._cells = np.empty((n_rows, max(n, 1024)), dtype=np.uint16)
        cells = self._cells
        cells[:, :n] = 0
        for asked in self._asked:
            answers = self.values.answers(asked.predicates, chunk)
            for line, codes in asked.codes:
                add_looked_up(answers, codes, cells[line, :n])
        for number, encoder in self._encoded:
            column = self.values.column(encoder.axis.subject, chunk)
            stride = self.steppers[0].strides[number] if direct else 1
            encoder.add(column, stride, cells[0 if direct else number, :n])
        return cells

    def stepped_cells(self) -> tuple[U16, Group | None]:
        """The cells of the chunk that was stepped last, [axis of `encoders`, row], with room for longer chunks behind
        its rows; or, with a single group of tables, its codes in one line, and the group."""
        stepper = self.steppers[0] if self._direct else None
        return self._cells, stepper.group if isinstance(stepper, TableStepper) else None

    @property
    def has_cells(self) -> bool:
        """Whether cells can be read: False where a single pattern that goes run by run has summed them for itself."""
        return not self._direct or isinstance(self.steppers[0], TableStepper)

    def _hide_the_past(self, chunk: Chunk, seen: U8) -> Chunk:
        n_entities = int(chunk.entity.max()) + 1 if len(chunk.entity) else 0
        if n_entities > len(seen):
            seen = np.concatenate([seen, np.ones(n_entities - len(seen), dtype=np.uint8)])
        first = (chunk.link < 0) & (seen[chunk.entity] == 0)
        seen[chunk.entity] = 1
        self.seen = seen
        if not first.any():
            return replace(chunk, computed={})
        return replace(
            chunk,
            fresh=np.where(first, np.uint8(1), chunk.fresh),
            elapsed=np.where(first, NEVER, chunk.elapsed),
            computed={},
        )


def _numbers(stepper: Stepper) -> Sequence[int]:
    """The patterns that it steps."""
    return stepper.group.patterns if isinstance(stepper, TableStepper) else (stepper.number,)


@dataclass(frozen=True, slots=True)
class _Asked:
    """Predicates about the position that are answered together, and what their answers add to which line of cells."""

    predicates: tuple[m.Near | m.Inside, ...]
    axes: tuple[int, ...]
    codes: list[tuple[int, U16]]  # (line, [answers as bits] -> what is added)


def _questions(axes: Sequence[Axis], strides: Sequence[int] | None) -> list[_Asked]:
    """The axes of places, some at a time: with strides, their cells are summed in one line; else each has its own."""
    about_places = [(number, axis.subject) for number, axis in enumerate(axes) if axis.sort == "flags"]
    numbered = [(number, subject) for number, subject in about_places if isinstance(subject, m.Near | m.Inside)]
    parts = []
    for begin in range(0, len(numbered), MOST_QUESTIONS):
        some = numbered[begin : begin + MOST_QUESTIONS]
        answers = np.arange(1 << len(some))
        holds = [(answers >> bit & 1).astype(np.uint16) for bit in range(len(some))]
        if strides is None:
            codes = [(number, cells) for (number, _), cells in zip(some, holds, strict=True)]
        else:
            of_all = [cells * np.uint16(strides[number]) for (number, _), cells in zip(some, holds, strict=True)]
            codes = [(0, np.sum(of_all, axis=0, dtype=np.uint16))]
        numbers, predicates = zip(*some, strict=True)
        parts.append(_Asked(predicates, numbers, codes))
    return parts


def _looking_back(subject: Subject) -> Iterator[m.Value]:
    for part in walk(subject):
        if isinstance(part, m.Previous | m.Held | m.Since):
            yield part
        elif isinstance(part, m.Moved | m.Crossed | m.Passed):
            yield POSITION_BEFORE


def _all_axes(lists: Sequence[tuple[Axis, ...]]) -> list[Axis]:
    by_subject: dict[Subject, list[Axis]] = {}
    for axes in lists:
        for axis in axes:
            by_subject.setdefault(axis.subject, []).append(axis)
    return [refine(by_subject[subject]) for subject in sorted(by_subject, key=repr)]


def _windows(patterns: Mapping[int, CompiledPattern], ticks_per_s: int) -> Windows:
    """Windows in ticks and in events, by pattern number."""
    n = max(patterns, default=-1) + 1
    ticks = np.full(n, NO_WINDOW, dtype=np.int64)
    events = np.full(n, NO_WINDOW, dtype=np.int64)
    for number, pattern in patterns.items():
        if pattern.window is not None and pattern.window.seconds is not None:
            ticks[number] = min(NO_WINDOW, floor(pattern.window.seconds * ticks_per_s))
        if pattern.window is not None and pattern.window.events is not None:
            events[number] = min(NO_WINDOW, pattern.window.events)
    return Windows(ticks, events)
