"""A network of nodes: tables, selections, joins, antijoins and outputs, which runs what changed through them in steps.

A step takes a batch of rows that come and rows that go, and the clocks of the inputs: it costs in proportion to what
changes, not to what is kept. Nodes that do the same to the same nodes are one node. The network sweeps away what
nothing can use any more, once there is as much of it as of the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from wayeb_py.kernels.ticks import NEVER
from wayeb_py.rules.antijoin import Counting, Waiting
from wayeb_py.rules.conditions import AnyCondition, Expression, Groups
from wayeb_py.rules.join import Join
from wayeb_py.rules.lifetime import Awaits, Lifetime
from wayeb_py.rules.lookup import On
from wayeb_py.rules.node import MOST_TUPLES, Counters, Node, Step
from wayeb_py.rules.output import Matches, Output
from wayeb_py.rules.select import Select
from wayeb_py.rules.table import I64, Array, Table
from wayeb_py.rules.useless_tuples import drop_useless

if TYPE_CHECKING:
    from wayeb_py.rules.planning.plan import Plan

NONE: I64 = np.empty(0, dtype=np.int64)
SWEEP_FROM = 60_000  # with fewer rows and tuples nothing is swept

AnyNode = TypeVar("AnyNode", bound=Node)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A node as a report shows it: the nodes that it reads, how many tuples the planner expected, how many are alive,
    and what the node has done."""

    number: int
    kind: str
    name: str
    inputs: tuple[int, ...]
    estimate: float | None
    n_alive: int
    counters: Counters


class Network:
    """Nodes in the order in which they run. All are made before the first step."""

    def __init__(self, most_tuples: int = MOST_TUPLES) -> None:
        self.most_tuples = most_tuples
        self.tables: dict[str, Table] = {}
        self.nodes: list[Node] = []
        self.outputs: dict[str, Output] = {}
        self.plans: dict[str, Plan] = {}  # the plan of each built query, by its name
        self.clocks: dict[str, int] = {}
        self._known: dict[Hashable, Any] = {}
        self._groups: dict[tuple[int, ...], Groups] = {}  # conditions of several selections, by their numbers
        self.is_exact = False  # every sweep looks at everything that is kept, so that its counters are exact
        self._number = 0
        self._n_swept = 0
        self._selections: dict[str, list[Select]] = {}  # by the table that they read
        self._readers: dict[int, list[Node]] | None = None  # the nodes that read a node, by its number
        self._partners: dict[int, list[_Partner] | None] = {}  # what rows of a selection can meet, by its number

    # Nodes.

    def table(self, name: str, columns: Mapping[str, npt.DTypeLike], changing: Collection[str] = ()) -> Table:
        """A table of rows that are given to steps under this name; `changing` columns may be set later."""
        table = self.tables[name] = Table(name, columns, changing)
        return table

    def select(self, table: str, where: Sequence[AnyCondition] = (), name: str = "") -> Select:
        """The rows of a table for which conditions on member 0 hold."""
        asked = tuple(where)
        return self._add(("select", table, asked), (), lambda: Select(self.tables[table], asked, name or table))

    def join(
        self, left: Node, right: Node, on: On, name: str = "", left_kept: Lifetime = None, right_kept: Lifetime = None
    ) -> Join:
        """Tuples of two nodes that match; the tuples of both sides are kept as long as they are needed."""
        name = name or f"{left.name} {right.name}"
        node = self._add(("join", on), (left, right), lambda: Join(left, right, on, name))
        node.keep(left_kept, right_kept)
        return node

    def without(
        self, left: Node, rights: Sequence[tuple[Node, On]], name: str = "", kept: Sequence[Lifetime] | None = None
    ) -> Counting:
        """The tuples of the left for as long as they match none of the rights."""
        name = name or " ".join((left.name, "without", *(node.name for node, _ in rights)))
        nodes = (left, *(node for node, _ in rights))
        node = self._add(("without", *(on for _, on in rights)), nodes, lambda: Counting(left, rights, name))
        node.keep([None] * len(rights) if kept is None else kept)
        return node

    def wait_without(
        self,
        left: Node,
        rights: Sequence[tuple[Node, On]],
        awaits: Sequence[Awaits],
        name: str = "",
        kept: Sequence[Lifetime] | None = None,
    ) -> Waiting:
        """The tuples of the left that match none of the rights, once nothing that they await can come."""
        name = name or " ".join((left.name, "without", *(node.name for node, _ in rights)))
        nodes = (left, *(node for node, _ in rights))
        key = ("wait", *(on for _, on in rights), tuple(awaits))
        node = self._add(key, nodes, lambda: Waiting(left, rights, awaits, name))
        node.keep([None] * len(rights) if kept is None else kept)
        return node

    def output(
        self,
        name: str,
        node: Node,
        members: Sequence[int] | None = None,
        decided: Expression | None = None,
        once_for: Sequence[int] = (),
        kept: Lifetime = None,
        *,
        numbered: bool = False,
    ) -> Output:
        """The tuples of a node under a name, with their members in the given order; `numbered` if they come and go."""
        order = tuple(range(len(node.tables))) if members is None else tuple(members)
        key = ("output", name, order, decided, tuple(once_for))
        output = self._add(key, (node,), lambda: Output(node, order, name, decided, once_for, numbered=numbered))
        output.keep(kept)
        self.outputs[name] = output
        return output

    def _add(self, said: Hashable, inputs: Sequence[Node], make: Callable[[], AnyNode]) -> AnyNode:
        """The node that does this to the inputs: the one that is there already, or a new one."""
        key = (said, *(node.number for node in inputs))
        if key not in self._known:
            if self._number:
                raise ValueError("a network takes no node after its first step")
            node = self._known[key] = make()
            node.number = len(self.nodes)
            text = repr((said, *(one.digest for one in inputs)))
            node.digest = hashlib.sha256(text.encode()).hexdigest()[:32]
            self.nodes.append(node)
        found: AnyNode = self._known[key]
        return found

    def prepare(self) -> None:
        """Prepares the conditions of all nodes, so that the first rows need not wait for it."""
        for table in self.tables.values():
            readers = [node for node in self.nodes if isinstance(node, Select) and node.tables[0] is table]
            asking = [node for node in readers if node.where]
            if len(asking) > 1:
                self._group_of(asking)
            elif asking:
                asking[0].prepare()
        for node in self.nodes:
            for lookup in node.lookups if isinstance(node, Join) else ():
                lookup.prepare()

    @property
    def has_run(self) -> bool:
        """Whether there was a step, or a state was restored."""
        return self._number > 0

    @property
    def fingerprint(self) -> str:
        """A digest of the nodes: a state fits a network with the same digest."""
        text = "\n".join([*map(repr, self._known), *(f"{t.name} {t.names}" for t in self.tables.values())])
        return hashlib.sha256(text.encode()).hexdigest()

    # Steps.

    def step(
        self,
        added: Mapping[str, Mapping[str, Array]] | None = None,
        removed: Mapping[str, I64] | None = None,
        clocks: Mapping[str, int] | None = None,
    ) -> dict[str, I64]:
        """Runs rows that come, as columns by table, and rows that go, as positions, through the network.

        `clocks` are the times that inputs have reached; a clock that is not given stays. Returns the positions of the
        rows that came, -1 for those that no node wants.
        """
        before, self.clocks = self.clocks, {**self.clocks, **(clocks or {})}
        for name, clock in self.clocks.items():
            if clock < before.get(name, int(NEVER)):
                raise ValueError(f"the clock {name} goes back from {before[name]} to {clock}")
        positions = self._give(added or {}, removed or {})
        self._number += 1
        step = Step(self._number, self.clocks, before, self.most_tuples)
        ran = []
        for node in self.nodes:
            if node.is_due(step):
                begin = perf_counter()
                node.run(step)
                node.counters.seconds += perf_counter() - begin
                ran.append(node)
        for node in ran:
            node.rest()
        return positions

    def _give(self, added: Mapping[str, Mapping[str, Array]], removed: Mapping[str, I64]) -> dict[str, I64]:
        positions = {}
        given = {**added, **removed}.keys()
        for name in given:
            table, columns = self.tables[name], added.get(name, {})
            n_rows = len(next(iter(columns.values()))) if columns else 0
            readers = self._selections.get(name)
            if readers is None:
                readers = [node for node in self.nodes if isinstance(node, Select) and node.tables[0] is table]
                self._selections[name] = readers
            idle = [n_rows > 0 and self._is_idle(node, given) for node in readers]
            if not any(idle) and all(not node.where for node in readers):  # every selection wants every row
                position = table.append(columns) if n_rows else NONE
                selected = [position] * len(readers)
            else:
                rows = self._selected(readers, idle, columns, n_rows)
                every = rows[0] if len(rows) == 1 else np.concatenate(rows)
                wanted = every if len(rows) == 1 else _different(every, n_rows)
                position = np.full(n_rows, -1, dtype=np.int64)
                position[wanted] = table.append(columns, wanted) if n_rows else NONE
                selected = np.split(position[every], np.cumsum([len(some) for some in rows[:-1]]))
            for node, added_rows in zip(readers, selected, strict=True):
                node.give(added_rows, removed.get(name, NONE))
            if n_rows:
                positions[name] = position
        return positions

    def _selected(
        self, readers: Sequence[Select], idle: Sequence[bool], columns: Mapping[str, Array], n_rows: int
    ) -> list[I64]:
        """The rows of a batch that each selection of a table wants; conditions of several are looked at together."""
        if not n_rows:
            return [NONE] * len(readers)
        asking = [node for node, is_idle in zip(readers, idle, strict=True) if node.where and not is_idle]
        if len(asking) < 2:
            return [
                node.selected(columns, n_rows, self.clocks if is_idle else None)
                for node, is_idle in zip(readers, idle, strict=True)
            ]
        found = self._group_of(asking).rows(lambda column: np.asarray(columns[column.name]), n_rows)
        of_node = {node.number: rows for node, rows in zip(asking, found, strict=True)}
        return [
            of_node[node.number] if node.number in of_node
            else node.selected(columns, n_rows, self.clocks if is_idle else None)
            for node, is_idle in zip(readers, idle, strict=True)
        ]  # fmt: skip

    def _group_of(self, asking: Sequence[Select]) -> Groups:
        key = tuple(node.number for node in asking)
        if key not in self._groups:
            self._groups[key] = Groups([node.where for node in asking])
        return self._groups[key]

    def _is_idle(self, select: Select, given: Collection[str]) -> bool:
        """Whether rows of a selection can meet nothing in a step that gives rows to these tables. The step then looks
        only at rows that something to come can join."""
        if select.memory is None or select.memory.lifetime is None:  # such rows are never dead
            return False
        if select.number not in self._partners:
            self._partners[select.number] = _partners(select, self._every_reader()[select.number])
        partners = self._partners[select.number]
        if partners is None:
            return False
        for node, fed_by, waits in partners:
            n_there = node.n_held if waits else node.n_alive
            if n_there or not fed_by.isdisjoint(given):
                return False
        return True

    def _every_reader(self) -> dict[int, list[Node]]:
        if self._readers is None:
            self._readers = {node.number: [] for node in self.nodes}
            for node in self.nodes:
                for read in node.inputs:
                    self._readers[read.number].append(node)
        return self._readers

    def take(self, name: str) -> Matches:
        """The matches of an output since they were last taken. Their positions hold until the next sweep."""
        return self.outputs[name].take(self._number)

    # What is kept.

    def sweep(self, *, at_once: bool = False) -> None:
        """Drops tuples and rows that nothing to come can use; costs little for each row unless `at_once`.

        Positions of rows change. Call `take` for all outputs first.
        """
        memories = [memory for node in self.nodes for memory in node.memories()]
        n_now = sum([table.n_rows for table in self.tables.values()]) + sum([memory.n_slots for memory in memories])
        if not (at_once or self.is_exact) and n_now < max(SWEEP_FROM, 2 * self._n_swept):
            return
        if any(output.is_pending for output in self.outputs.values()):
            raise ValueError("matches are taken before a sweep, since the positions of their rows change")
        self._number += 1
        for node in self.nodes:
            for memory in node.memories():
                node.counters.n_expired += memory.expire(self.clocks, self._number)
        drop_useless(self.nodes, self._every_reader(), self.clocks, self._number)
        for node in self.nodes:
            node.compact()
            node.counters.n_needed = max(node.counters.n_needed, node.n_alive)
        held = {name: np.zeros(table.n_rows, dtype=bool) for name, table in self.tables.items()}
        for memory in memories:
            for table, rows in zip(memory.tables, memory.tuples.rows, strict=True):
                held[table.name][rows] = True
        position = {name: self.tables[name].keep(mask) for name, mask in held.items() if not mask.all()}
        for memory in memories:
            memory.renumber(position)
        self._n_swept = sum(table.n_rows for table in self.tables.values())
        self._n_swept += sum(memory.n_slots for memory in memories)

    def report(self) -> list[NodeReport]:
        """What each node is, and what it has done, in the order in which they run.

        The counts of live tuples are exact to the tick. Call `take` for all outputs first.
        """
        self.sweep(at_once=True)
        return [
            NodeReport(
                node.number, node.kind, node.name, tuple(n.number for n in node.inputs), node.estimate, node.n_alive,
                replace(node.counters),
            )
            for node in self.nodes
        ]  # fmt: skip

    def save(self) -> dict[str, Array]:
        """All that is kept, as arrays; sweeps first."""
        self.sweep(at_once=True)
        saved: dict[str, Array] = {f"clock/{name}": np.array([time]) for name, time in self.clocks.items()}
        for name, table in self.tables.items():
            saved |= {f"table/{name}/{column}": values for column, values in table.save().items()}
        for node in self.nodes:
            saved |= {f"node/{node.digest}/{part}": values for part, values in node.save().items()}
        return saved

    def restore(self, saved: Mapping[str, Array], afresh: Collection[str] = ()) -> set[str]:
        """Loads what a network saved, table by table and node by node, into this one, which has not run yet.

        A table begins without rows if it has columns that the saved one lacked, or if `afresh` names it. So does every
        node that reads such a table, and every node that the saved network lacked. Returns the names of these tables.
        """
        if self._number:
            raise ValueError("a state is restored before the first step")
        clocks = below(saved, "clock/")
        self.clocks = {name: int(values[0]) for name, values in clocks.items()}
        without: set[str] = set()
        for name, table in self.tables.items():
            own = below(saved, f"table/{name}/")
            if name in afresh or not own.keys() >= set(table.names):
                without.add(name)
            else:
                table.restore(own)
        for node in self.nodes:
            own = below(saved, f"node/{node.digest}/")
            if own and not without & {table.name for table in node.tables}:
                node.restore(own)
        self._number = 1
        return without

    def knows_all(self, saved: Mapping[str, Array]) -> bool:
        """Whether every node of this network that keeps something is in a saved state."""
        known = {name.split("/")[1] for name in saved if name.startswith("node/")}
        return all(node.digest in known for node in self.nodes if node.memories())


def _different(rows: I64, n_rows: int) -> I64:
    """The different ones of some rows, all below `n_rows`, in order."""
    there = np.zeros(n_rows, dtype=bool)
    there[rows] = True
    return np.flatnonzero(there)


_Partner = tuple[Any, frozenset[str], bool]
"""A node whose tuples a row may meet, the tables whose rows reach it, and whether these are left tuples that wait."""


def _partners(select: Select, readers: Sequence[Node]) -> list[_Partner] | None:
    """What rows of a selection can meet, so that they are idle while it is empty and gets nothing; None if they are
    never idle."""
    found: list[_Partner] = []
    for node in readers:
        if isinstance(node, Join):
            left, right = node.inputs
            other = right if left is select else left
            if other is select:
                return None
            found.append((other, _fed_by(other), False))
        elif isinstance(node, Waiting) and node.inputs[0] is not select:
            found.append((node, _fed_by(node.inputs[0]), True))
        else:
            return None
    return found


def _fed_by(node: Node) -> frozenset[str]:
    """The tables whose rows reach a node."""
    return frozenset(table.name for table in node.tables).union(*(_fed_by(one) for one in node.inputs))


def below(named: Mapping[str, T], prefix: str) -> dict[str, T]:
    """The entries whose names have this prefix, by the rest of the name."""
    return {name.removeprefix(prefix): one for name, one in named.items() if name.startswith(prefix)}
