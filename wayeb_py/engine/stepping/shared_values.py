"""Computes once what predicates and lookups say about events that recognisers of several levels read.

    lane high ──computes──▶ kept by subject and number of the event ──▶ lane low, which reads the same events later

Only what depends on the event itself can be shared: what looks back differs after a gap. Values are kept until the last
lane has passed them, and only those that a later lane needs.

*Not taken*: the attributes themselves, which cost less to read than to keep; and tiers, the detections of patterns that
patterns of several levels read. A step costs 60 to 90 ns, and what it gives depends on the state before it: a lane that
took the step of another would have to keep the same state all the same, for its own snapshots and for a start after
which the other lane is further in the stream, and to compare it at each event. That costs as much as the step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from wayeb_py.columns import Column
from wayeb_py.compiler.axes import Pair
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl import predicates as p
from wayeb_py.dsl.walk import walk

if TYPE_CHECKING:
    from wayeb_py.spatial.knowledge import KnowledgeBase

OF_THE_EVENT = (
    p.Attribute, p.Constant, p.Arithmetic, p.Hour, p.Near, p.Inside, p.Distance, p.Point, p.Places, p.Compare,
    p.Missing, p.Not, p.And, p.Or, p.Always, p.Never,
)  # fmt: skip
_SHARED = (*OF_THE_EVENT, m.FunctionCall, m.PredicateCall, Pair)

Asked = frozenset[Any]  # subjects, and ("lookup", table)


def asked_of_events(patterns: CompiledPatterns) -> Asked:
    """What patterns need of an event itself and what has to be computed."""
    asked: set[Any] = set()
    for runnable in patterns.runnables:
        axes = runnable.compiled.axes if runnable.plan is None else (*runnable.plan.shared, *runnable.plan.placed)
        for axis in axes:
            for part in walk(axis.subject):
                asked |= _asked(part, patterns.knowledge)
    return frozenset(asked)


def _asked(part: Any, knowledge: KnowledgeBase) -> set[Any]:
    if isinstance(part, m.Attribute):
        looked_up = knowledge.looks_up(part.name)
        return set() if looked_up is None else {("lookup", looked_up[0])}
    if isinstance(part, m.Constant) or not isinstance(part, m.Value | m.Predicate | Pair):
        return set()
    return {part} if all(isinstance(one, _SHARED) for one in walk(part)) else set()


@dataclass(frozen=True, slots=True)
class _Piece:
    """The values of the events with these numbers."""

    first: int
    end: int
    values: Any


class SharedValues:
    """Values of the events of one source, by subject."""

    def __init__(self, asked: Mapping[int, Asked]) -> None:
        """`asked` by lane, the lane that comes first in the stream first."""
        self._asked = dict(asked)
        lanes = list(asked)
        self._keeps = {
            lane: self._asked[lane] & frozenset().union(*(self._asked[later] for later in lanes[nth + 1 :]))
            for nth, lane in enumerate(lanes)
        }
        self._pieces: dict[Any, list[_Piece]] = {}
        self.n_reused = 0  # values that were not computed again

    @property
    def is_needed(self) -> bool:
        """Whether two lanes need the same."""
        return any(self._keeps.values())

    def of(self, lane: int, first: int) -> SharedRows | None:
        """The values of a lane's next events, the first with this number; None where it shares nothing."""
        keeps, asked = self._keeps[lane], self._asked[lane]
        return SharedRows(self, first, asked, keeps) if keeps or not asked.isdisjoint(self._pieces) else None

    def known(self, first: int, end: int, asked: Asked) -> dict[Any, Any]:
        """What is known of all events between two numbers."""
        found = {}
        for subject in asked & self._pieces.keys():
            pieces = [piece for piece in self._pieces[subject] if piece.first < end and piece.end > first]
            values = _joined(pieces, first, end)
            if values is not None:
                found[subject] = values
                self.n_reused += end - first
        return found

    def keep(self, first: int, end: int, computed: Mapping[Any, Any], keeps: Asked) -> None:
        """Keeps what was computed for the events between two numbers, for the lanes that come later."""
        for subject in keeps & computed.keys():
            pieces = self._pieces.setdefault(subject, [])
            if not pieces or pieces[-1].end <= first:
                pieces.append(_Piece(first, end, computed[subject]))

    def forget(self, before: int) -> None:
        """Drops the values of events that every lane has taken."""
        for pieces in self._pieces.values():
            while pieces and pieces[0].end <= before:
                del pieces[0]


@dataclass(frozen=True, slots=True)
class SharedRows:
    """The shared values of the rows of one batch."""

    values: SharedValues
    first: int
    asked: Asked
    keeps: Asked

    def known(self, begin: int, end: int) -> dict[Any, Any]:
        return self.values.known(self.first + begin, self.first + end, self.asked)

    def keep(self, begin: int, end: int, computed: Mapping[Any, Any]) -> None:
        self.values.keep(self.first + begin, self.first + end, computed, self.keeps)


def _joined(pieces: list[_Piece], first: int, end: int) -> Any | None:
    """The values of the events between two numbers; None where pieces leave some out, or do not fit each other."""
    if not pieces or pieces[0].first > first or pieces[-1].end < end:
        return None
    parts = [_part(one.values, max(first, one.first) - one.first, min(end, one.end) - one.first) for one in pieces]
    if len(parts) == 1:
        return parts[0]
    if any(before.end != after.first for before, after in pairwise(pieces)):
        return None
    return _column(parts) if isinstance(parts[0], Column) else np.concatenate(parts)


def _part(values: Any, begin: int, end: int) -> Any:
    return values.slice(begin, end) if isinstance(values, Column) else values[begin:end]


def _column(parts: Iterable[Column]) -> Column | None:
    first, *others = parts
    if first.words is not None or any(_form(one) != _form(first) for one in others):
        return None
    every = [first, *others]
    missing = None
    if any(one.missing is not None for one in every):
        missing = np.concatenate(
            [np.zeros(len(one.values), dtype=np.uint8) if one.missing is None else one.missing for one in every]
        )
    values = np.concatenate([one.values for one in every])
    return Column(first.kind, values, missing, None, first.per_unit, first.own, first.has_never)


def _form(column: Column) -> tuple[Any, ...]:
    return column.kind, column.per_unit, column.own, column.has_never, column.values.dtype
