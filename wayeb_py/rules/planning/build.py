"""A query and its tree become nodes of a network: what each joins on, and how long it keeps its tuples.

The network keeps beside its nodes the plan of each query: the same tree, each part with its node and with the
conditions that it looks at, by the query's own members. Nodes are shared between queries, plans are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from wayeb_py.rules.conditions import AnyCondition, Column, Equal, Link, Near, Within, members_of
from wayeb_py.rules.lifetime import Awaits, Lifetime
from wayeb_py.rules.lookup import On
from wayeb_py.rules.network import Network
from wayeb_py.rules.node import Node
from wayeb_py.rules.output import Output
from wayeb_py.rules.planning.plan import Plan, PlanPart
from wayeb_py.rules.planning.planner import Estimates
from wayeb_py.rules.planning.query import Query, linking
from wayeb_py.rules.planning.statistics import Statistics
from wayeb_py.rules.planning.tree import Leaf, Pair, Tree, Without


@dataclass(frozen=True, slots=True)
class _Made:
    """A part, whose members have other numbers in the tuples of its node."""

    part: PlanPart

    @property
    def node(self) -> Node:
        return self.part.node

    @property
    def members(self) -> tuple[int, ...]:
        return self.part.members

    @property
    def group(self) -> frozenset[int]:
        return frozenset(self.members)

    def local(self, member: int) -> int:
        return self.members.index(member)


def build(network: Network, query: Query, tree: Tree, statistics: Statistics | None = None) -> Output:
    """Adds the nodes of a query to a network that has its tables; nodes that are there already are shared."""
    return _Builder(network, query, statistics).output(tree)


class _Builder:
    def __init__(self, network: Network, query: Query, statistics: Statistics | None) -> None:
        self.network, self.query = network, query
        self.estimates = None if statistics is None else Estimates(query, statistics)

    def output(self, tree: Tree) -> Output:
        query = self.query
        made = self._make(tree)
        others = frozenset(range(len(query.members))) - set(query.once_for)
        had = _Made(PlanPart(made.node, query.once_for))
        output = self.network.output(
            query.name,
            made.node,
            [made.local(member) for member in range(query.n_own)],
            query.decided,
            query.once_for,
            self._lifetime(had, others),
            numbered=query.kept,
        )
        self.network.plans[query.name] = Plan(query, tree, made.part, output)
        return output

    def _make(self, tree: Tree, *, before_absences: bool = False) -> _Made:
        if isinstance(tree, Leaf):
            member = self.query.members[tree.member]
            asked = tuple(self.query.own_conditions(tree.member))
            where = [condition.moved(lambda _: 0) for condition in asked]
            node = self.network.select(member.table, where, member.name)
            made = _Made(PlanPart(node, (tree.member,), where=(asked,)))
        elif isinstance(tree, Pair):
            made = self._join(self._make(tree.left), self._make(tree.right))
        else:
            made = self._without(tree)
        if self.estimates is not None and made.node.estimate is None:
            made.node.estimate = self.estimates.size(made.group, before_absences=before_absences)
        return made

    def _join(self, left: _Made, right: _Made) -> _Made:
        if left.node.number > right.node.number:  # so that parts that join alike share a node, in either order
            left, right = right, left
        links, conditions = self.query.crossing(left.group, right.group)
        # Tuples of each side look up the other side: a side is kept for the rows of the other's members.
        lifetimes = (self._lifetime(left, right.group), self._lifetime(right, left.group))
        node = self.network.join(left.node, right.node, _on(left, right, links, conditions), "", *lifetimes)
        members = left.members + right.members
        return _Made(PlanPart(node, members, (left.part, right.part), (tuple(links),), (tuple(conditions),)))

    def _without(self, tree: Without) -> _Made:
        """The absences that stand side by side become one node."""
        query = self.query
        numbers: list[tuple[int, Tree]] = []
        rest: Tree = tree
        while isinstance(rest, Without):
            numbers.append((rest.absence, rest.right))
            rest = rest.left
        left = self._make(rest, before_absences=True)
        rights, kept = [], []
        parts, every_link, every_where = [left.part], [], []
        for number, right_tree in reversed(numbers):
            right = self._make(right_tree)
            links: list[Link] = []
            conditions: list[AnyCondition] = []
            for condition in query.unless[number].conditions:
                if members_of(condition) <= right.group:
                    continue
                link = linking(condition, left.group, right.group)
                links += [] if link is None else [link]
                conditions += [condition] if link is None else []
            if not any(isinstance(link, Within) for link in links):
                implied = query.times_between(left.group, right.group)
                links += [] if implied is None else [implied]
            rights.append((right.node, _on(left, right, links, conditions)))
            kept.append(self._lifetime(right, query.own))
            parts.append(right.part)
            every_link.append(tuple(links))
            every_where.append(tuple(conditions))

        def made(node: Node) -> _Made:
            absences = tuple(number for number, _ in reversed(numbers))
            return _Made(PlanPart(node, left.members, tuple(parts), tuple(every_link), tuple(every_where), absences))

        if query.kept:
            return made(self.network.without(left.node, rights, "", kept))
        awaits: list[Awaits] = []
        for number, _ in numbers:
            absence = query.unless[number]
            limits = tuple(
                (later.moved(left.local), earlier.moved(left.local), most) for later, earlier, most in absence.limits
            )
            awaits += [replace(one, limits=limits) for one in self._lifetime(left, absence.members) or ()]
        return made(self.network.wait_without(left.node, rights, awaits, "", kept))

    def _lifetime(self, made: _Made, others: Iterable[int]) -> Lifetime:
        """What tuples await from other members."""
        if self.query.kept:
            return None
        found = []
        for other in sorted(others):
            clock = self.query.members[other].clock
            if clock is not None:
                until = tuple(
                    (Column(made.local(reach.column.member), reach.column.name), reach.most)
                    for reach in self.query.reaches
                    if reach.other == other and reach.column.member in made.members
                )
                found.append(Awaits(clock, until))
        return tuple(found)


def _on(left: _Made, right: _Made, links: Sequence[Link], conditions: Sequence[AnyCondition]) -> On:
    """Rewrites conditions on the query's members as conditions on the tuples of two nodes, in a canonical order."""
    local = [_between(link, left, right) for link in links]
    joined = left.members + right.members
    where = [condition.moved(joined.index) for condition in conditions]
    return On(tuple(sorted(local, key=repr)), tuple(sorted(where, key=repr)))


def _between(link: Link, left: _Made, right: _Made) -> Link:
    if isinstance(link, Equal):
        first, second = (
            tuple(column.moved(side.local) for column in columns)
            for columns, side in zip(link.sides, (left, right), strict=True)
        )
        return Equal(first, second)
    if isinstance(link, Within):
        return Within(link.first.moved(left.local), link.second.moved(right.local), link.least, link.most)
    (lon, lat), (other_lon, other_lat) = link.sides
    return Near(
        (lon.moved(left.local), lat.moved(left.local)),
        (other_lon.moved(right.local), other_lat.moved(right.local)),
        link.reach_m,
        link.less,
    )
