"""Which starts may still be those of a match at the end of a chunk: the steppers know.

In a state of the tracking automaton its live registers, or the last few events where ages are known; of runs all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import I32, I64
from wayeb_py.compiler.pattern import CompiledPattern
from wayeb_py.engine.stepping.pooled_steppers import PooledStepper
from wayeb_py.engine.stepping.steppers import TableStepper
from wayeb_py.matches.kernels.fold import LiveStarts, list_alive

if TYPE_CHECKING:
    from wayeb_py.engine.stepping.place_stepper import PlaceStepper

    Stepper = TableStepper | PooledStepper | PlaceStepper

Alive = tuple[I64, I64]  # how many starts are alive of each of some entities, and these, entity after entity


class TableStarts:
    """The live starts of some patterns of a group, by the state of the group."""

    def __init__(self, stepper: TableStepper, patterns: Mapping[int, CompiledPattern]) -> None:
        self._stepper = stepper
        group = stepper.group
        n_states = len(group.components)
        ages = np.zeros(n_states, dtype=np.int64)
        registers = np.zeros((n_states, group.n_registers), dtype=bool)
        for nth, number in enumerate(group.patterns):
            tracker = patterns[number].tracker if number in patterns else None
            if tracker is not None:
                state, begin = group.components[:, nth], group.first_register[nth]
                ages = np.maximum(ages, tracker.live_ages()[state])
                registers[:, begin : begin + tracker.n_registers] = tracker.live_registers()[state]
        first: I64 = np.concatenate([[0], np.cumsum(registers.sum(axis=1))]).astype(np.int64)
        self._listed = ages, first, np.nonzero(registers)[1].astype(np.int64)
        self._most = int((ages + np.diff(first)).max(initial=0))

    def alive(self, entity: I32, last_seq: I64) -> Alive:
        stepper = self._stepper
        live = LiveStarts(*self._listed, stepper.state, stepper.register_seq, stepper.group.n_registers)
        n_alive = np.empty(len(entity), dtype=np.int64)
        seq = np.empty(len(entity) * self._most, dtype=np.int64)
        n = list_alive(entity, last_seq, tuple(live), n_alive, seq)
        return n_alive, seq[:n]


class SlotStarts:
    """The live starts of a pattern that steps run by run, or place by place."""

    def __init__(self, stepper: PooledStepper | PlaceStepper, pattern: CompiledPattern) -> None:
        self._stepper, tracker = stepper, pattern.tracker
        if tracker is not None:
            self._live_registers, self._live_ages = tracker.live_registers(), tracker.live_ages()

    def alive(self, entity: I32, last_seq: I64) -> Alive:
        slots = self._stepper.slots.save(entity)
        own = np.repeat(np.arange(len(entity)), slots["length"])
        if isinstance(self._stepper, PooledStepper):
            return each_once(own, slots["seq"], len(entity))
        state, registers = slots["state"], slots["seq"].reshape(len(own), self._stepper.n_registers)
        at, register = np.nonzero(self._live_registers[state])
        owners, starts = [own[at]], [registers[at, register]]
        ages = self._live_ages[state]
        for age in range(1, int(ages.max(initial=0)) + 1):
            at = np.flatnonzero((ages >= age) & (last_seq[own] >= age - 1))
            owners.append(own[at])
            starts.append(last_seq[own[at]] - (age - 1))
        return each_once(np.concatenate(owners), np.concatenate(starts), len(entity))


def alive_in_all(parts: list[Alive]) -> Alive:
    """What is alive of the same entities in one of several steppers, each start once."""
    if len(parts) == 1:
        return parts[0]
    n = len(parts[0][0])
    owner = np.concatenate([np.repeat(np.arange(n), n_alive) for n_alive, _ in parts])
    return each_once(owner, np.concatenate([seq for _, seq in parts]), n)


def each_once(owner: npt.NDArray[Any], start: I64, n: int) -> Alive:
    """Starts of `n` entities, in any order and some of them repeated, as lists of each."""
    order = np.lexsort((start, owner))
    owner, start = owner[order].astype(np.int64), start[order]
    again = np.zeros(len(owner), dtype=bool)
    again[1:] = (owner[1:] == owner[:-1]) & (start[1:] == start[:-1])
    return np.bincount(owner[~again], minlength=n).astype(np.int64), start[~again]
