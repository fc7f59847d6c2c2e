"""Finds events that cannot change what patterns remember: they lead every state of their entity to itself.

    s ──event──▶ s, no register moves, nothing is reported

Such an event need not be recognised, and leaving it out is no gap. Skipping any other event starts the entity's word
again in state 0, and later events are judged from that state. So the answer depends on the order of the events alone,
and not on how they are cut.

The engine can decide this only if all patterns of an entity are stepped by tables and predicates use only the event;
otherwise (`prev`, `held`, registers, places one by one, measures) it treats every event as changing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wayeb_py.arrays import I32, I64, Bool
from wayeb_py.dsl.walk import walk
from wayeb_py.engine.stepping.cohort import Cohort
from wayeb_py.engine.stepping.shared_values import OF_THE_EVENT
from wayeb_py.engine.stepping.steppers import TableStepper
from wayeb_py.engine.values import Chunk


def looks_at_the_event(cohort: Cohort) -> bool:
    """Whether the engine can decide for a cohort which events change nothing."""
    return (
        all(isinstance(stepper, TableStepper) for stepper in cohort.steppers)
        and not (cohort.measures or cohort.disjoint)
        and cohort.seen is None
        and all(isinstance(part, OF_THE_EVENT) for one in cohort.encoders for part in walk(one.axis.subject))
    )


def find_changing(cohorts: Sequence[Cohort], chunk: Chunk, count: I64) -> Bool:
    """[row]: whether leaving out an event makes its entity's word begin again."""
    n = len(chunk.entity)
    stays, stays_first = np.ones(n, dtype=bool), np.ones(n, dtype=bool)
    for cohort in cohorts:
        cells = cohort.encode(chunk)
        for stepper in cohort.steppers:
            assert isinstance(stepper, TableStepper)
            symbol = stepper.symbols(cells, n)
            before = np.where(count[chunk.entity] > 0, stepper.state[chunk.entity], 0).astype(np.int64)
            stays &= stepper.leads_from(before, symbol) == before
            stays_first &= stepper.leads_from(np.zeros(n, dtype=np.int64), symbol) == 0
    return _behind_the_first(chunk.entity, ~stays, ~stays_first)


def _behind_the_first(entity: I32, changes: Bool, changes_first: Bool) -> Bool:
    """For each entity: `changes` up to its first changing event, `changes_first` after it."""
    n = len(entity)
    order = np.argsort(entity, kind="stable")
    by_entity = entity[order]
    begins = np.flatnonzero(np.r_[True, by_entity[1:] != by_entity[:-1]])
    place = np.where(changes[order], np.arange(n), n)
    first = np.repeat(np.minimum.reduceat(place, begins), np.diff(np.r_[begins, n]))
    found = np.where(np.arange(n) > first, changes_first[order], changes[order])
    result = np.empty(n, dtype=bool)
    result[order] = found
    return result


def take_unchanging(
    cohorts: Sequence[Cohort], entity: I32, ts: I64, is_left_out: Bool, count: I64, last_ts: I64, tail_ts: I64,
    tail: int,
) -> None:  # fmt: skip
    """Counts the events that change nothing in the words of their entities, with their times, at which matches may
    begin; after those that are left out words begin again."""
    n = len(entity)
    order = np.argsort(entity, kind="stable")
    by_entity = entity[order]
    begins = np.flatnonzero(np.r_[True, by_entity[1:] != by_entity[:-1]])
    ends = np.r_[begins[1:], n]
    left_out = np.maximum.reduceat(np.where(is_left_out[order], np.arange(n), -1), begins)
    whose = by_entity[begins]
    more = ends - np.maximum(begins, left_out + 1)
    anew = whose[(left_out >= 0) | (count[whose] == 0)]
    for stepper in (one for cohort in cohorts for one in cohort.steppers if isinstance(one, TableStepper)):
        stepper.state[anew] = 0
    before = np.where(left_out >= 0, 0, count[whose])
    place = np.arange(n) - np.repeat(ends - more, ends - begins)  # among the events of the word that goes on
    kept = place >= 0
    seq = np.repeat(before, ends - begins) + place
    tail_ts[by_entity[kept].astype(np.int64) * tail + seq[kept] % tail] = ts[order][kept]
    count[whose] = before + more
    last_ts[whose] = np.where(more > 0, ts[order][ends - 1], last_ts[whose])
