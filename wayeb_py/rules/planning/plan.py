"""The plan of a query as a network keeps it: the tree, each part with its node and the conditions that it looks at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wayeb_py.rules.conditions import AnyCondition, Link
from wayeb_py.rules.node import Node
from wayeb_py.rules.output import Output
from wayeb_py.rules.planning.query import Query
from wayeb_py.rules.planning.tree import Tree


@dataclass(frozen=True, slots=True)
class PlanPart:
    """A part of a plan: its node, the query's members in the order of the node's tuples, and the parts that it reads.

    `links` are the conditions that an index looks up, `where` those that are checked afterwards, both by the query's
    members. An antijoin has one of each for every `unless`, whose parts come after the first.
    """

    node: Node
    members: tuple[int, ...]
    parts: tuple[PlanPart, ...] = ()
    links: tuple[tuple[Link, ...], ...] = ()
    where: tuple[tuple[AnyCondition, ...], ...] = ()
    absences: tuple[int, ...] = ()

    def every(self) -> Iterator[PlanPart]:
        """This part and all below it; each comes after those that it reads."""
        for part in self.parts:
            yield from part.every()
        yield self


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a query: its parts, and its output."""

    query: Query
    tree: Tree
    root: PlanPart
    output: Output
