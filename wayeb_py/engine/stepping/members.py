"""Patterns become the members of a cohort: what is really stepped.

Patterns that mean the same are one member. A pattern `for each` place is one member too where it can be stepped place
by place, and otherwise one member for each place. Knowledge is looked at only here, when something is to be
recognised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wayeb_py.compiler.for_each import EachPlan, PlaceLookup, plan_each, write_out
from wayeb_py.compiler.pattern import CompiledPattern, compile_pattern

if TYPE_CHECKING:
    from wayeb_py.patterns import Patterns


@dataclass(frozen=True, slots=True)
class Member:
    """A compiled pattern, the patterns of the file that it stands for, and what it has to do with places."""

    compiled: CompiledPattern
    patterns: tuple[int, ...]  # by their place in the file
    place: str | None = None  # the place that it was written out for
    plan: EachPlan | None = None  # how it is stepped place by place
    lookup: PlaceLookup | None = None


def make_members(patterns: Patterns) -> tuple[Member, ...]:
    """The members, in the order of the file."""
    members: list[Member] = []
    for same, compiled in zip(patterns.names_of_distinct, patterns.distinct, strict=True):
        pattern = patterns.meaning.patterns[same[0]]
        if pattern.each is None:
            members.append(Member(compiled, same))
            continue
        lookup = patterns.places(pattern.each[1])
        plan = plan_each(compiled)
        if plan is not None:
            members.append(Member(compiled, same, plan=plan, lookup=lookup))
            continue
        for place, written in write_out(pattern, lookup.names, lookup.columns):
            members.append(Member(compile_pattern(written, patterns.longest, patterns.limits), same, place=place))
    return tuple(members)
