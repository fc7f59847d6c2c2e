"""A join: tuples of two nodes that match become tuples of all their members.

Where tuples come on both sides in one step, those of one side look up those of the other, which must be in the memory
by then. The join stores the side whose tuples later steps need anyway, so that it never stores a tuple that nothing can
join any more.
"""

from __future__ import annotations

import numpy as np

from wayeb_py.rules.lifetime import Lifetime, ends_at_once, longer
from wayeb_py.rules.lookup import Lookup, On
from wayeb_py.rules.memory import Moment
from wayeb_py.rules.node import Node, Step, together, too_many
from wayeb_py.rules.table import I64
from wayeb_py.rules.tuples import Delta, Tuples

MOST_CHECKED = 1 << 18  # candidates that are joined before they are checked; of more, some at a time


class Join(Node):
    """Every left tuple with every right one that it matches. Members of the right come after those of the left."""

    kind = "join"

    def __init__(self, left: Node, right: Node, on: On, name: str) -> None:
        super().__init__((left, right), left.tables + right.tables, name)
        # How left tuples look up right ones, and right tuples left ones.
        self.lookups = (
            Lookup(on, left.tables, right.tables, stored_right=True),
            Lookup(on, left.tables, right.tables, stored_right=False),
        )
        self._right_after = False  # of what comes together, the left looks up the right
        self.kept: tuple[Lifetime, Lifetime] = (), ()  # what the tuples of each side await of the other

    def keep(self, left: Lifetime, right: Lifetime) -> None:
        """Sets how long the tuples of both sides are needed; where several nodes set it, the longest counts."""
        self.kept = longer(self.kept[0], left), longer(self.kept[1], right)
        self.inputs[0].use(self.lookups[1].entries, left)
        self.inputs[1].use(self.lookups[0].entries, right)
        self._right_after = ends_at_once(left) and not ends_at_once(right)
        self.inputs[int(self._right_after)].is_met_at_once = True

    def change(self, step: Step) -> Delta:
        left, right = (node.delta for node in self.inputs)
        added: list[I64] = []
        removed: list[I64] = []
        if left.removed.shape[1]:
            self._join(0, left.removed, Moment.BEFORE, step, removed)
        if right.removed.shape[1]:
            self._join(1, right.removed, Moment.STAYED, step, removed)
        if left.added.shape[1]:
            self._join(0, left.added, Moment.AFTER if self._right_after else Moment.STAYED, step, added)
        if right.added.shape[1]:
            self._join(1, right.added, Moment.STAYED if self._right_after else Moment.AFTER, step, added)
        if not added and not removed:
            return self._nothing
        return Delta(together(added, len(self.tables)), together(removed, len(self.tables)))

    def _join(self, side: int, rows: I64, moment: Moment, step: Step, joined: list[I64]) -> None:
        """Joins tuples of one side with those that the other has, or had."""
        memory, lookup = self.inputs[1 - side].memory, self.lookups[side]
        assert memory is not None
        if not memory.n_slots:
            return
        rows = np.ascontiguousarray(rows)
        probing = Tuples(rows, self.inputs[side].tables)
        if lookup.is_at_once():
            spans = memory.look_up(lookup, rows, probing.tables, moment, step.number)
            if spans is None:
                return
            if not lookup.has_checks or spans.n <= MOST_CHECKED:
                self.counters.n_candidates += spans.n
                if not lookup.has_checks and spans.n > step.most_tuples:
                    raise too_many(self, memory.count(lookup, probing), step)
                found_rows = memory.join(lookup, spans, rows)
                if lookup.has_checks:
                    found_rows = lookup.passing(Tuples(found_rows, self.tables))
                    if found_rows.shape[1] > step.most_tuples:
                        raise too_many(self, f"at least {found_rows.shape[1]}", step)
                joined.append(found_rows)
                return
        n_found = 0
        for n_candidates, found in memory.matches(lookup, probing, moment, step.number):
            self.counters.n_candidates += n_candidates
            n_found += len(found.left_at)
            if n_found > step.most_tuples:
                needed = memory.count(lookup, probing) if lookup.is_exact else f"at least {n_found}"
                raise too_many(self, needed, step)
            joined.append(found.joined())
