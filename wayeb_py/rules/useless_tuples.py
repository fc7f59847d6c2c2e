"""Finds the tuples that can reach no output any more, though rows that they join may still come.

A tuple waits for partners in one join; what the two become waits for partners in the next, and so on to an output. Once
one of the joins on this way has nothing to offer (its other side is empty, and the clocks have passed all that could
come to it) the tuple is useless: whatever it meets, no match comes of it.

    (a ⋈ b) ⋈ c     no c is there, none can come for this a: the a goes, whether a b may come or not

This is looked at between steps, when all rows before the clocks have come. Where nodes are shared, one way to an output
is enough to be of use.

*Not taken*: looking in the other side's index for a partner of this very tuple. That costs a look-up for each
tuple in each sweep, and an index that has partners for none of them is rare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from wayeb_py.kernels.ticks import FOREVER, NEVER
from wayeb_py.rules.conditions import Column
from wayeb_py.rules.join import Join
from wayeb_py.rules.lifetime import Awaits, Clocks, Lifetime
from wayeb_py.rules.memory import Memory
from wayeb_py.rules.node import Node
from wayeb_py.rules.table import I64, Array, Bools, Table
from wayeb_py.rules.tuples import Tuples

Readers = Mapping[int, Sequence[Node]]
Places = Mapping[int, int]  # the member of this tuple, by the member of a later node's tuples


class _Alive:
    """The tuples of a memory that are there, looked at when something first reads them: mostly nothing does."""

    def __init__(self, memory: Memory) -> None:
        self._memory, self.tables = memory, memory.tables

    @cached_property
    def slots(self) -> I64:
        return self._memory.alive()

    @cached_property
    def _tuples(self) -> Tuples:
        return Tuples(self._memory.rows_of(self.slots), self.tables)

    def __len__(self) -> int:
        return self._memory.n_alive

    def values(self, column: Column) -> Array:
        return self._tuples.values(column)


def drop_useless(nodes: Sequence[Node], readers: Readers, clocks: Clocks, step: int) -> None:
    """Drops the tuples of every node that nothing can use any more, until none is left: a dropped tuple may have been
    the last partner of others."""
    while sum(_drop(node, readers, clocks, step) for node in reversed(nodes)):
        pass


def _drop(node: Node, readers: Readers, clocks: Clocks, step: int) -> int:
    """Drops the tuples of a node that nothing can use any more, and says how many these are."""
    memory = node.memory
    if memory is None or memory.lifetime is None or not memory.n_alive:
        return 0
    if not all(isinstance(one, Join) for one in readers[node.number]):
        return 0
    tuples = _Alive(memory)
    places = {member: member for member in range(len(memory.tables))}
    useful = _by_any(node, tuples, places, readers, clocks, is_there=True)
    if useful is None:
        return 0
    n_useless = int((~useful).sum())
    if n_useless:
        memory.kill(tuples.slots[~useful], step)
        node.counters.n_useless += n_useless
    return n_useless


def _by_any(
    node: Node, tuples: _Alive, places: Places, readers: Readers, clocks: Clocks, *, is_there: bool
) -> Bools | None:
    """Which tuples some reader of a node can make an output of; None for all."""
    useful: Bools | None = None
    for reader in readers[node.number]:
        own = _of_use(node, reader, tuples, places, readers, clocks, is_there=is_there)
        if own is None:
            return None
        useful = own if useful is None else useful | own
    return np.zeros(len(tuples), dtype=bool) if useful is None else useful


def _of_use(
    node: Node, reader: Node, tuples: _Alive, places: Places, readers: Readers, clocks: Clocks, *, is_there: bool
) -> Bools | None:
    """Which tuples a reader of a node can make an output of, None for all; `is_there`: they have met what is there."""
    if not isinstance(reader, Join) or reader.inputs[0] is reader.inputs[1]:
        return None
    side = int(reader.inputs[1] is node)
    partner, lifetime = reader.inputs[1 - side], reader.kept[side]
    useful = None if not is_there and partner.n_alive else _can_come(lifetime, partner, tuples, places, clocks)
    if useful is not None and not useful.any():
        return useful
    first = len(reader.inputs[0].tables) if side else 0
    moved = {first + member: own for member, own in places.items()}
    beyond = _by_any(reader, tuples, moved, readers, clocks, is_there=False)
    return beyond if useful is None else useful if beyond is None else useful & beyond


def _can_come(lifetime: Lifetime, partner: Node, tuples: _Alive, places: Places, clocks: Clocks) -> Bools | None:
    """For which tuples a partner may still come; None for all, also where the clocks do not tell it of every table."""
    if lifetime is None or _may_come_to_all(lifetime, tuples.tables, places, clocks):
        return None
    if not {awaits.clock for awaits in lifetime} >= {table.name for table in partner.tables}:
        return None
    own = []
    for awaits in lifetime:
        until = tuple(
            (Column(places[column.member], column.name), ticks)
            for column, ticks in awaits.until
            if column.member in places
        )
        own.append(Awaits(awaits.clock, until))
    found: Bools = np.zeros(len(tuples), dtype=bool)
    for awaits in own:
        found |= ~awaits.is_over(tuples, clocks)
    return found


def _may_come_to_all(lifetime: Sequence[Awaits], tables: Sequence[Table], places: Places, clocks: Clocks) -> bool:
    """Whether the least times in the tables show that a partner may still come for every tuple of their rows."""
    for awaits in lifetime:
        clock = clocks.get(awaits.clock, int(NEVER))
        if clock == FOREVER:
            continue
        for column, ticks in awaits.until:
            if column.member in places:
                times = tables[places[column.member]].range_of(column.name)
                if times is None or times[0] + ticks < clock:
                    break
        else:
            return True
    return False
