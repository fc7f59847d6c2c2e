"""Estimates the rows of a rule's members: how many there are, and how often a condition holds.

The numbers come from a sample of rows, or from what a network has seen; where nothing is known, the guesses that
databases usually make stand in. Each condition has its share, as if it were independent of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import prod

import numpy as np

from wayeb_py.rules.conditions import AnyCondition, Column, Equal, Link, Near, Within, members_of
from wayeb_py.rules.planning.query import Query
from wayeb_py.rules.table import MISSING, Array, Bools

UNKNOWN_ROWS = 1000.0
GUESSED_WITHIN, GUESSED_NEAR, GUESSED_OTHER = 0.1, 0.01, 1 / 3
MOST_COMBINATIONS = 30_000  # combinations of sampled rows that a share is measured on


@dataclass(frozen=True)
class Statistics:
    """rows[member] = how many rows there are at a time; share[condition] = the share of combinations for which it
    holds."""

    rows: tuple[float, ...] = ()
    share: Mapping[AnyCondition, float] = field(default_factory=dict)

    def n_rows(self, member: int) -> float:
        """How many rows of a member there are at a time."""
        return self.rows[member] if member < len(self.rows) else UNKNOWN_ROWS

    def of(self, condition: AnyCondition) -> float:
        """The share of combinations for which a condition holds, either way round."""
        if condition in self.share:
            return self.share[condition]
        if isinstance(condition, Link) and condition.flipped() in self.share:
            return self.share[condition.flipped()]
        if isinstance(condition, Equal):
            most = max(self.n_rows(member) for member in members_of(condition))
            return min(1.0, (len(condition.columns) - 1) / max(most, 1.0))
        if isinstance(condition, Within):
            return GUESSED_WITHIN
        return GUESSED_NEAR if isinstance(condition, Near) else GUESSED_OTHER


def sampled(query: Query, samples: Sequence[Mapping[str, Array]], n_rows: Sequence[float] | None = None) -> Statistics:
    """Statistics by samples of the rows of each member; `n_rows` if there are more of them than in the sample.

    In both, only rows for which a member's own conditions hold count.
    """
    n_sampled = [len(next(iter(sample.values()), ())) for sample in samples]
    told = [float(n) for n in (n_rows or n_sampled)]
    samples = list(samples)
    for number in range(len(samples)):
        holds = _selected(query, number, samples[number], n_sampled[number])
        if holds is not None:
            told[number] *= max(float(holds.sum()), 0.5) / n_sampled[number]
            if holds.any():
                samples[number] = {name: values[holds] for name, values in samples[number].items()}
    sizes = [len(next(iter(sample.values()), ())) for sample in samples]
    every = frozenset(range(len(query.members)))
    conditions = (*query.conditions, *(condition for absence in query.unless for condition in absence.conditions))
    asked = {condition for condition in conditions if len(members_of(condition)) > 1}
    for columns in query.equal_columns:
        asked |= {Equal((one,), (other,)) for one, other in combinations(sorted(columns), 2)}
    implied = (query.times_between({one}, {other}) for one, other in combinations(sorted(every), 2))
    asked |= {bound for bound in implied if bound is not None}
    share = {
        condition: _share(condition, samples, sizes)
        for condition in asked
        if all(sizes[member] for member in members_of(condition))
    }
    return Statistics(tuple(told), share)


def _selected(query: Query, member: int, sample: Mapping[str, Array], n_rows: int) -> Bools | None:
    """For which sampled rows of a member its own conditions hold; None where it has no rows or no conditions."""
    conditions = query.own_conditions(member)
    if not n_rows or not conditions or len(query.members) == 1:  # a rule of one member has one tree
        return None
    holds: Bools = np.ones(n_rows, dtype=bool)
    for condition in conditions:
        holds &= condition.holds(lambda column: sample[column.name])
    return holds


def _share(condition: AnyCondition, samples: Sequence[Mapping[str, Array]], sizes: Sequence[int]) -> float:
    if isinstance(condition, Equal) and condition.is_simple:
        first, second = (samples[column.member][column.name] for column in condition.columns)
        return _meeting(first, second)
    rng = np.random.default_rng(0)
    members = sorted(members_of(condition))
    n_combinations = int(min(MOST_COMBINATIONS, prod(float(sizes[member]) for member in members)))
    picked = {member: rng.integers(0, sizes[member], n_combinations) for member in members}

    def values(column: Column) -> Array:
        taken: Array = samples[column.member][column.name][picked[column.member]]
        return taken

    return max(float(condition.holds(values).sum()), 0.5) / n_combinations


def _meeting(first: Array, second: Array) -> float:
    """The share of pairs with equal values; it takes into account that some values are frequent."""
    first, second = first[first != MISSING], second[second != MISSING]
    if not len(first) or not len(second):
        return 1e-9
    values, of_first = np.unique(first, return_counts=True)
    others, of_second = np.unique(second, return_counts=True)
    _, at, at_other = np.intersect1d(values, others, assume_unique=True, return_indices=True)
    n_equal = float((of_first[at].astype(float) * of_second[at_other]).sum())
    if n_equal:
        return n_equal / (len(first) * len(second))
    return 1 / max(len(values), len(others))
