"""Steps one pattern whose letters use named events or the match so far: a run for each way that may still match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wayeb_py.arrays import I64, U16, Bool
from wayeb_py.compiler.axes import Axis
from wayeb_py.compiler.pattern import CompiledPattern
from wayeb_py.compiler.runs.registers import directions_of_slots, questions_of_slots
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.walk import walk
from wayeb_py.engine.stepping.pooled_steppers import PooledStepper
from wayeb_py.engine.stepping.register_programs import ProgramBuilder, Programs
from wayeb_py.engine.stepping.start_stepper import live_states
from wayeb_py.engine.stepping.steppers import DetectionBuffer
from wayeb_py.engine.values import Chunk, Values
from wayeb_py.kernels.step_tables import Windows
from wayeb_py.matches.kernels.run_answers import MOST_OPERANDS, RegisterValues
from wayeb_py.matches.kernels.step_registers import (
    ASKS,
    ENDS,
    RegisterAutomaton,
    RegisterRuns,
    RegisterScratch,
    step_registers,
)

AUTOMATON = "automaton of registers"
FIRST_RUNS = 64
MOST_TABULATED = 1 << 22  # states times symbols that are looked at when a pattern is bound


class RegisterStepper(PooledStepper):
    """Steps one pattern way by way."""

    def __init__(
        self,
        number: int,
        pattern: CompiledPattern,
        axes: Sequence[Axis],
        direct: bool,
        windows: Windows,
        values: Values,
        ticks_per_s: int,
    ) -> None:
        assert pattern.dfa is not None
        assert pattern.memory is not None
        dfa, memory = pattern.dfa, pattern.memory
        questions = questions_of_slots(memory)
        self.n_slots = len(questions)
        super().__init__(number, pattern, axes, direct, self.n_slots)
        self._values = values
        self.n_states = dfa.n_states
        self.words_key = m.At(pattern.fingerprint, m.Constant("texts", "text"))
        self._n_names = pattern.symbol_of_cell.shape[-1]
        if AUTOMATON not in memory.made:
            memory.made[AUTOMATON] = _automaton(pattern, questions)
        self._automaton = tuple(
            memory.made[AUTOMATON]._replace(
                pattern=number, window_ticks=int(windows.ticks[number]), window_events=int(windows.events[number]),
                ticks_per_s=float(ticks_per_s),
            )
        )  # fmt: skip
        self._n_crowded = np.zeros(1, dtype=np.int64)
        self._room = self._make_room_for(FIRST_RUNS)
        self._programs: tuple[Any, Programs] | None = None

    def _make_room_for(self, n_runs: int) -> tuple[Any, ...]:
        own = np.zeros(self.n_slots, dtype=np.int64)
        whole = np.zeros(max(1, n_runs * self.n_slots), dtype=np.int64)
        size = 1 << (2 * n_runs - 1).bit_length()
        self._n_scratch = n_runs
        return tuple(
            RegisterScratch(
                np.zeros(n_runs, dtype=np.int32), np.zeros(n_runs, dtype=np.int64), np.zeros(n_runs, dtype=np.int64),
                whole, whole.view(np.float64), np.zeros(n_runs, dtype=np.uint8), own, own.view(np.float64),
                np.zeros(MOST_OPERANDS), np.zeros(size, dtype=np.int32), np.zeros(size, dtype=np.int64),
                np.zeros(1, dtype=np.int64), self._n_crowded,
            )
        )  # fmt: skip

    def _values_of(self, chunk: Chunk) -> tuple[Any, ...]:
        programs = self._programs_for(chunk)
        return programs.arrays, tuple(RegisterValues(*programs.values(chunk)))

    def _call(self, row: int, code: U16, rows: tuple[Any, ...], values: tuple[Any, ...]) -> tuple[int, int]:
        slots = self.slots
        remembered = slots.arrays["remembered"]
        runs = tuple(
            RegisterRuns(
                slots.first, slots.room, slots.length, slots.arrays["state"], slots.arrays["seq"],
                slots.arrays["ts"], remembered, remembered.view(np.float64),
            )
        )  # fmt: skip
        stopped: tuple[int, int] = step_registers(
            row, code, rows, self._automaton, *values, runs, self._room, self._buffer.arrays
        )
        return stopped

    def _make_room(self, entity: int) -> None:
        length = int(self.slots.length[entity]) + 1
        most = length * self._n_names
        if most > self._n_scratch:
            self._room = self._make_room_for(2 * most)
        elif length > self._buffer.room:
            self._buffer = DetectionBuffer(2 * length)
        else:
            self.slots.give_room(entity, 0)

    def crowded(self) -> int:
        """At how many events an entity has had more runs than the limits allow, since the last call."""
        n_crowded = int(self._n_crowded[0])
        self._n_crowded[0] = 0
        return n_crowded

    @property
    def tests(self) -> tuple[m.Predicate, ...]:
        """The tests that letters put to runs."""
        assert self.pattern.memory is not None
        return self.pattern.memory.tests

    def _programs_for(self, chunk: Chunk) -> Programs:
        """The programs for the types of a chunk's events, which seldom change."""
        words = self._values.memories.setdefault(self.words_key, self._values.memory())
        types = tuple(
            (name, column.kind, column.values.dtype, column.per_unit, column.own)
            for name, column in chunk.columns.items()
        )
        known = self._programs
        if known is None or known[0] != types:
            assert self.pattern.memory is not None
            builder = ProgramBuilder(self.pattern.memory, self._values, words, chunk.time_name)
            known = self._programs = types, builder.build(chunk)
        return known[1]


def _automaton(pattern: CompiledPattern, questions: list[int]) -> RegisterAutomaton:
    """The pattern as the kernel takes it, without what depends on the events: it is made once, however often the
    pattern is bound to some."""
    assert pattern.dfa is not None
    assert pattern.memory is not None
    dfa, memory = pattern.dfa, pattern.memory
    better = directions_of_slots(memory)
    asked = [part for test in memory.tests for part in walk(test) if isinstance(part, m.Measure)]
    asks_start = any(part.function in ("count", "duration") and part.operand is None for part in asked)
    every_start = pattern.has_each_start
    class_of_code, symbols = _classes(pattern)
    return RegisterAutomaton(
        class_of_code=class_of_code,
        symbol_of_class=np.ascontiguousarray(symbols.reshape(-1), dtype=np.uint16),
        plain=np.ascontiguousarray(_plain_steps(pattern, symbols).reshape(-1), dtype=np.int32),
        depends=np.ascontiguousarray(_dependence(symbols, len(memory.tests)).reshape(-1), dtype=np.uint8),
        next_state=np.ascontiguousarray(dfa.next_state.reshape(-1), dtype=np.int32),
        accepting=dfa.accepting.astype(np.uint8),
        is_live=live_states(dfa).astype(np.uint8),
        matters=np.ascontiguousarray(memory.matters.reshape(-1), dtype=np.uint8),
        keeps=np.ascontiguousarray(memory.needed[:, questions].reshape(-1), dtype=np.uint8),
        begins=_begins(pattern, symbols).astype(np.uint8),
        better=np.ascontiguousarray(better.reshape(-1), dtype=np.int32),
        has_order=(better != 0).any(axis=1).astype(np.uint8),
        n_symbols=pattern.n_symbols,
        n_classes=len(symbols),
        n_answers=pattern.symbol_of_cell.shape[-2],
        n_names=pattern.symbol_of_cell.shape[-1],
        pattern=0,
        by_start=pattern.longest or every_start or asks_start,
        every_start=every_start,
        once=pattern.which == "once from each start",
        longest=pattern.longest,
        window_ticks=0,
        window_events=0,
        ticks_per_s=0.0,
        most_runs=memory.most_runs,
    )


def _begins(pattern: CompiledPattern, symbols: U16) -> Bool:
    """[class]: whether a match may begin with such an event, whatever a run answers and names."""
    dfa = pattern.dfa
    assert dfa is not None
    goes_on = (live_states(dfa) | dfa.accepting)[dfa.next_state[0]]
    return np.asarray(goes_on[symbols].any(axis=(1, 2)))


def _classes(pattern: CompiledPattern) -> tuple[U16, U16]:
    """[code] -> class of events that have the same symbols, and [class, answers, names] -> symbol."""
    shape = pattern.symbol_of_cell.shape[-2:]
    rows = np.ascontiguousarray(pattern.symbol_of_cell.reshape(-1, shape[0] * shape[1]), dtype=np.uint16)
    symbols, class_of_code = np.unique(rows, axis=0, return_inverse=True)
    return class_of_code.reshape(-1).astype(np.uint16), symbols.reshape(-1, *shape)


def _dependence(symbols: U16, n_tests: int) -> Bool:
    """[class, test]: whether the answer makes a difference to the symbol."""
    n_classes, _, n_names = symbols.shape
    answers = symbols.reshape(n_classes, *(2,) * n_tests, n_names)
    differs = [
        (answers.take(0, axis=1 + test) != answers.take(1, axis=1 + test)).reshape(n_classes, -1).any(axis=1)
        for test in range(n_tests)
    ]
    return np.stack(differs, axis=1) if differs else np.zeros((n_classes, 0), dtype=bool)


def _plain_steps(pattern: CompiledPattern, symbols: U16) -> I64:
    """[state, class]: the one state and names, as one number, to which a run goes on whatever it answers; ENDS where
    there is none, ASKS where there may be several or where a match may end."""
    dfa = pattern.dfa
    assert dfa is not None
    live = live_states(dfa)
    n_classes, _, n_names = symbols.shape
    steps = np.full((dfa.n_states, n_classes), ASKS, dtype=np.int64)
    if dfa.n_states * symbols.size > MOST_TABULATED:
        return steps
    for state in range(dfa.n_states):
        after = dfa.next_state[state][symbols]  # [class, answers, names]
        lives = live[after]
        is_alike = ~dfa.accepting[after].any(axis=(1, 2)) & (lives == lives[:, :1]).all(axis=(1, 2))
        is_alike &= ((after == after[:, :1]) | ~lives).all(axis=(1, 2))
        n_ways = lives[:, 0].sum(axis=1)
        names = lives[:, 0].argmax(axis=1)
        goes_on = after[np.arange(n_classes), 0, names] * n_names + names
        steps[state] = np.where(is_alike & (n_ways < 2), np.where(n_ways == 1, goes_on, ENDS), ASKS)
    return steps
