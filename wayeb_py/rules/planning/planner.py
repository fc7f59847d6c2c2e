"""Chooses the order of joins: the tree that makes the fewest tuples, without products that can be avoided.

The cost of a tree is the number of tuples that its joins keep of both sides, look at and make. Dynamic programming over
sets of members builds the cheapest tree of a set from the cheapest trees of its parts, since how many tuples a set has
does not depend on how it was joined. Costs compare first by products without any condition, then by joins that no index
can look up, then by tuples, so that a connected order always wins over one that is not. Where indexes connect all
members, the planner looks only at sets that they connect.

Two parts of a rule that do the same to the same tables are one node of the network, and cost once. The search sees one
part at a time and cannot know that, so the planner searches again for every two such parts, among trees that
contain both.

*Not taken*: only trees that grow by one member at a time: in a chain of six facts the best joins two halves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from math import prod

from wayeb_py.rules.conditions import AnyCondition, Equal, Link, members_of
from wayeb_py.rules.planning.query import Absence, Query
from wayeb_py.rules.planning.statistics import Statistics
from wayeb_py.rules.planning.tree import Leaf, Pair, Tree, with_absences

MOST_SEARCHED = 10  # members; with more, the cheapest pair is joined again and again
MOST_TWINS = 10  # parts that do the same, each searched for separately

Members = frozenset[int]
Cost = tuple[int, int, float]
"""Products without a condition, joins without an index, tuples kept, looked at and made."""


@dataclass(frozen=True)
class Estimates:
    """How many tuples a set of members has, and what joining two sets costs."""

    query: Query
    statistics: Statistics

    @cached_property
    def _sizes(self) -> dict[tuple[Members, bool], float]:
        return {}

    def size(self, members: Members, *, before_absences: bool = False) -> float:
        """How many tuples these members have at a time, without those that an absence on these members alone forbids;
        `before_absences` counts those as well."""
        key = members, before_absences
        if key not in self._sizes:
            self._sizes[key] = self._size(*key)
        return self._sizes[key]

    def _size(self, members: Members, before_absences: bool) -> float:
        size = prod(self.statistics.n_rows(member) for member in members)
        for columns in self.query.equal_columns:
            here = sorted({column.member: column for column in columns if column.member in members}.values())
            size *= prod(self.statistics.of(Equal((one,), (other,))) for one, other in pairwise(here))
        size *= prod(self.statistics.of(condition) for condition in self._others(members))
        if (self.query.kept or members == self.query.own) and not before_absences:
            for absence in self.query.unless:
                if self.query.referred(absence) <= members <= self.query.own:
                    size *= self._share_left(absence)
        return size

    def _others(self, members: Members) -> list[AnyCondition]:
        """The conditions on several of these members that are no equality of two columns."""
        return [
            condition
            for condition in self.query.conditions_among(members)
            if len(members_of(condition)) > 1 and not (isinstance(condition, Equal) and condition.is_simple)
        ]

    def _share_left(self, absence: Absence) -> float:
        """The share of tuples that match nothing of an `unless`."""
        expected = prod(self.statistics.n_rows(member) for member in absence.members)
        expected *= prod(self.statistics.of(condition) for condition in absence.conditions)
        return max(0.05, 1.0 - expected)

    @cached_property
    def _costs(self) -> dict[tuple[Members, Members], Cost]:
        return {}

    def cost(self, left: Members, right: Members) -> Cost:
        """What it costs to join two sets."""
        if (left, right) not in self._costs:
            self._costs[left, right] = self._cost(left, right)
        return self._costs[left, right]

    def _cost(self, left: Members, right: Members) -> Cost:
        links, conditions = self.query.crossing(left, right)
        looked_at = self.size(left) * self.size(right) * prod(self.statistics.of(link) for link in links)
        kept = self.size(left) + self.size(right)
        return not links and not conditions, not links, kept + looked_at + self.size(left | right)


def choose(query: Query, statistics: Statistics | None = None) -> Tree:
    """The cheapest tree of a query, with its absences."""
    estimates = Estimates(query, statistics or Statistics())
    own = _cheapest(query.own, estimates)
    absences = [_cheapest(frozenset(absence.members), estimates) for absence in query.unless]
    return with_absences(own, query, absences)


def _cheapest(members: Members, estimates: Estimates) -> Tree:
    if len(members) > MOST_SEARCHED:
        return _greedy(members, estimates)
    subsets = [
        frozenset(chosen) for size in range(2, len(members) + 1) for chosen in combinations(sorted(members), size)
    ]
    linked = _linked(members, estimates.query)
    if linked is not None and _is_connected(members, linked):
        subsets = [subset for subset in subsets if _is_connected(subset, linked)]
    trees = [_search(members, subsets, estimates)]
    for one, other in _twins(subsets, estimates.query):
        with_both = [subset for subset in subsets if _is_whole_in(one, subset) and _is_whole_in(other, subset)]
        trees.append(_search(members, with_both, estimates))
    return min(trees, key=lambda tree: cost_of(tree, estimates))


def _is_whole_in(part: Members, subset: Members) -> bool:
    return subset <= part or part <= subset or not part & subset


def _search(members: Members, subsets: list[Members], estimates: Estimates) -> Tree:
    """The cheapest tree that is made of these sets."""
    best: dict[Members, tuple[Cost, Tree]] = {frozenset({m}): ((0, 0, 0.0), Leaf(m)) for m in members}
    for subset in subsets:
        for left, right in _splits(subset):
            if left in best and right in best:
                parts = (best[left][0], best[right][0], estimates.cost(left, right))
                cost = (sum(p[0] for p in parts), sum(p[1] for p in parts), sum(p[2] for p in parts))
                if subset not in best or cost < best[subset][0]:
                    best[subset] = cost, Pair(best[left][1], best[right][1])
    return best[members][1]


def cost_of(tree: Tree, estimates: Estimates) -> Cost:
    """What a tree of joins costs; parts that one node makes cost once."""
    costs: dict[Hashable, Cost] = {}
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Pair):
            waiting += [part.left, part.right]
            sides = frozenset({_asked(part.left.members, estimates.query), _asked(part.right.members, estimates.query)})
            key = _asked(part.members, estimates.query), sides
            costs[key] = estimates.cost(part.left.members, part.right.members)
    return sum(c[0] for c in costs.values()), sum(c[1] for c in costs.values()), sum(c[2] for c in costs.values())


def _linked(members: Members, query: Query) -> dict[int, set[int]] | None:
    """The members that an index connects with each; None where a condition connects more than two at a time."""
    linked: dict[int, set[int]] = defaultdict(set)
    pairs = [
        pair
        for columns in query.equal_columns
        for pair in combinations(sorted({column.member for column in columns} & members), 2)
    ]
    for condition in query.conditions_among(members):
        if isinstance(condition, Link) and len(members_of(condition)) > 1:
            if len(members_of(condition)) > 2:
                return None
            first, second = sorted(members_of(condition))
            pairs.append((first, second))
    if query.reaches:
        pairs += [(x, y) for x, y in combinations(sorted(members), 2) if query.times_between({x}, {y}) is not None]
    for x, y in pairs:
        linked[x].add(y)
        linked[y].add(x)
    return linked


def _is_connected(members: Members, linked: dict[int, set[int]]) -> bool:
    reached, waiting = set[int](), [min(members)]
    while waiting:
        member = waiting.pop()
        reached.add(member)
        waiting += (linked[member] & members) - reached
    return reached == members


def _twins(subsets: list[Members], query: Query) -> list[tuple[Members, Members]]:
    """Pairs of sets that do the same, and have no member in common."""
    every = frozenset().union(*subsets)
    if len({query.members[member].table for member in every}) == len(every):
        return []
    asking: dict[Hashable, list[Members]] = defaultdict(list)
    for subset in subsets:
        asking[_asked(subset, query)].append(subset)
    pairs = (pair for alike in asking.values() for pair in combinations(alike, 2))
    return [(one, other) for one, other in pairs if not one & other][:MOST_TWINS]


def _asked(members: Members, query: Query) -> Hashable:
    """The tables and conditions of a set, to compare it by; the set itself where a table occurs twice."""
    table_of = {member: query.members[member].table for member in members}
    tables = sorted(table_of.values())
    if len(set(tables)) < len(tables):
        return members
    asked = []
    for condition in query.conditions_among(members):
        moved = condition.moved(lambda member: tables.index(table_of[member]))
        both = (moved, moved.flipped()) if isinstance(moved, Link) else (moved,)
        asked.append(min(both, key=repr))
    return tuple(tables), frozenset(asked)


def _splits(members: Members) -> Iterator[tuple[Members, Members]]:
    """All ways to split a set in two; the part with the least member is the left."""
    first, *others = sorted(members)
    for size in range(len(others)):
        for chosen in combinations(others, size):
            left = frozenset((first, *chosen))
            yield left, members - left


def _greedy(members: Members, estimates: Estimates) -> Tree:
    trees: list[Tree] = [Leaf(member) for member in sorted(members)]
    while len(trees) > 1:
        left, right = min(combinations(trees, 2), key=lambda two: estimates.cost(two[0].members, two[1].members))
        trees = [tree for tree in trees if tree not in (left, right)] + [Pair(left, right)]
    return trees[0]


def every_tree(query: Query) -> list[Tree]:
    """All trees that the planner could choose, whatever the sizes: those with as few products as possible."""
    estimates = Estimates(query, Statistics())
    absences = [_every(frozenset(absence.members), estimates) for absence in query.unless]
    found = []
    for nth, own in enumerate(_every(query.own, estimates)):
        # Each tree of the rule's own members takes one tree for each absence, in turn: every one of them occurs.
        found.append(with_absences(own, query, [trees[nth % len(trees)] for trees in absences]))
    return found


def _every(members: Members, estimates: Estimates) -> list[Tree]:
    known: dict[Members, list[tuple[int, int, Tree]]] = {frozenset({m}): [(0, 0, Leaf(m))] for m in members}
    for size in range(2, len(members) + 1):
        for chosen in combinations(sorted(members), size):
            subset = frozenset(chosen)
            found: list[tuple[int, int, Tree]] = []
            for left, right in _splits(subset):
                products, unlinked, _ = estimates.cost(left, right)
                for a in known[left]:
                    for b in known[right]:
                        found.append((a[0] + b[0] + products, a[1] + b[1] + unlinked, Pair(a[2], b[2])))
            known[subset] = found
    least = min(found[:2] for found in known[members])
    return [tree for products, unlinked, tree in known[members] if (products, unlinked) == least]
