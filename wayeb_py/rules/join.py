"""A join: tuples of two nodes that match become tuples of all their members.

Where tuples come on both sides in one step, those of one side look up those of the other, which must be in the memory
by then. The join stores the side whose tuples later steps need anyway, so that it never stores a tuple that nothing can
join any more.
"""

from __future__ import annotations

from collections.abc import Iterator

from wayeb_py.rules.lifetime import Lifetime, ends_at_once, longer
from wayeb_py.rules.lookup import Lookup, On
from wayeb_py.rules.memory import Memory, Moment
from wayeb_py.rules.node import Node, Step, together, too_many
from wayeb_py.rules.table import I64
from wayeb_py.rules.tuples import Delta, Tuples


class Join(Node):
    """Every left tuple with every right one that it matches. Members of the right come after those of the left."""

    kind = "join"

    def __init__(self, left: Node, right: Node, on: On, name: str) -> None:
        super().__init__((left, right), left.tables + right.tables, name)
        self._in_right = Lookup(on, left.tables, right.tables, stored_right=True)
        self._in_left = Lookup(on, left.tables, right.tables, stored_right=False)
        self._right_after = False  # if both sides come together, the left looks up the right
        self.kept: tuple[Lifetime, Lifetime] = (), ()  # what the tuples of each side await from the other

    def keep(self, left: Lifetime, right: Lifetime) -> None:
        """Sets how long the tuples of both sides are needed; where several nodes set it, the longest counts."""
        self.kept = longer(self.kept[0], left), longer(self.kept[1], right)
        self.inputs[0].use(self._in_left.entries, left)
        self.inputs[1].use(self._in_right.entries, right)
        self._right_after = ends_at_once(left) and not ends_at_once(right)
        self.inputs[int(self._right_after)].is_met_at_once = True

    @property
    def lookups(self) -> tuple[Lookup, Lookup]:
        """How left tuples look up right ones, and right tuples left ones."""
        return self._in_right, self._in_left

    def change(self, step: Step) -> Delta:
        left, right = self.inputs
        assert left.memory is not None
        assert right.memory is not None
        right_before = (right.memory, self._in_right, left, Moment.BEFORE)
        left_stayed = (left.memory, self._in_left, right, Moment.STAYED)
        moments = (Moment.AFTER, Moment.STAYED) if self._right_after else (Moment.STAYED, Moment.AFTER)
        right_after = (right.memory, self._in_right, left, moments[0])
        left_after = (left.memory, self._in_left, right, moments[1])
        removed = [
            *self._joined(*right_before, left.delta.removed, step),
            *self._joined(*left_stayed, right.delta.removed, step),
        ]
        added = [
            *self._joined(*right_after, left.delta.added, step),
            *self._joined(*left_after, right.delta.added, step),
        ]
        return Delta(together(added, len(self.tables)), together(removed, len(self.tables)))

    def _joined(
        self, memory: Memory, lookup: Lookup, prober: Node, moment: Moment, rows: I64, step: Step
    ) -> Iterator[I64]:
        if not rows.shape[1]:
            return
        probing = Tuples(rows, prober.tables)
        n_found = 0
        for found in self.matches(memory, lookup, probing, moment, step):
            n_found += len(found.left_at)
            if n_found > step.most_tuples:
                needed = memory.count(lookup, probing) if lookup.is_exact else f"at least {n_found}"
                raise too_many(self, needed, step)
            yield found.joined()
