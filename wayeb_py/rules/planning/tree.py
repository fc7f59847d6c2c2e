"""A plan: the tree in which a rule's members are joined, and where each absence is looked for; as text and back.

`follows target monitored_by requires` joins from left to right; parentheses join other things first. The members of an
`unless` stand where their absence is looked for, several of them in parentheses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from wayeb_py.errors import UsageError
from wayeb_py.rules.planning.query import Query


@dataclass(frozen=True, slots=True)
class Leaf:
    """The rows of a member."""

    member: int

    @property
    def members(self) -> frozenset[int]:
        return frozenset({self.member})


@dataclass(frozen=True, slots=True)
class Pair:
    """Two trees joined."""

    left: Tree
    right: Tree

    @property
    def members(self) -> frozenset[int]:
        return self.left.members | self.right.members


@dataclass(frozen=True, slots=True)
class Without:
    """A tree of the rule's own members, less what an `unless` forbids; `right` joins the members of the `unless`."""

    left: Tree
    absence: int
    right: Tree

    @property
    def members(self) -> frozenset[int]:
        """The rule's own members."""
        return self.left.members


Tree = Leaf | Pair | Without


def text_of(tree: Tree, query: Query) -> str:
    """The tree as text, by the names of its members."""
    if isinstance(tree, Leaf):
        return query.members[tree.member].name
    right = text_of(tree.right, query)
    return f"{text_of(tree.left, query)} {right if isinstance(tree.right, Leaf) else f'({right})'}"


def with_absences(tree: Tree, query: Query, absence_trees: Sequence[Tree]) -> Tree:
    """Adds every `unless` that the tree lacks: as early as possible, or at the end if it waits for the clock."""
    placed = _absences(tree)
    missing = [number for number in range(len(query.unless)) if number not in placed]
    return _place(tree, query, absence_trees, missing)


def _place(tree: Tree, query: Query, absence_trees: Sequence[Tree], missing: list[int]) -> Tree:
    is_whole = tree.members == query.own
    if isinstance(tree, Pair):
        left = _place(tree.left, query, absence_trees, missing)
        right = _place(tree.right, query, absence_trees, missing)
        tree = Pair(left, right)
    elif isinstance(tree, Without):
        tree = Without(_place(tree.left, query, absence_trees, missing), tree.absence, tree.right)
    for number in list(missing):
        covered = query.referred(query.unless[number]) <= tree.members
        if is_whole or (query.kept and covered):
            tree = Without(tree, number, absence_trees[number])
            missing.remove(number)
    return tree


def _absences(tree: Tree) -> set[int]:
    if isinstance(tree, Leaf):
        return set()
    if isinstance(tree, Without):
        return {tree.absence} | _absences(tree.left)
    return _absences(tree.left) | _absences(tree.right)


def read_tree(text: str, query: Query) -> Tree:
    """The tree of a text; UsageError if it does not name every own member once, or an absence before its members.

    An `unless` that is not named is looked for as early as possible.
    """
    by_name = {member.name: number for number, member in enumerate(query.members)}
    waiting = [_left_deep(absence.members) for absence in query.unless]
    stack: list[Tree | None] = [None]
    for word in re.findall(r"[()]|[^\s()]+", text):
        if word == "(":
            stack.append(None)
            continue
        if word == ")":
            inner = stack.pop()
            if inner is None or not stack:
                raise _wrong(query, text, "its parentheses do not fit together")
        else:
            if word not in by_name:
                names = ", ".join(by_name)
                raise _wrong(query, text, f"`{word}` is no member of it", f"its members are {names}")
            inner = Leaf(by_name[word])
        stack[-1] = inner if stack[-1] is None else _together(stack[-1], inner, query, text, waiting)
    tree = stack[0]
    if len(stack) > 1:
        raise _wrong(query, text, "its parentheses do not fit together")
    if tree is None or tree.members != query.own:
        named = frozenset() if tree is None else tree.members
        names = ", ".join(query.members[member].name for member in sorted(query.own - named))
        raise _wrong(query, text, f"it does not join {names}")
    return with_absences(tree, query, waiting)


def _together(left: Tree, right: Tree, query: Query, text: str, waiting: list[Tree]) -> Tree:
    """Joins two neighbouring trees. An absence in time waits for the whole match, wherever the text puts it."""
    if left.members & right.members:
        names = ", ".join(query.members[member].name for member in sorted(left.members & right.members))
        raise _wrong(query, text, f"it names {names} twice")
    groups = (query.own, *(frozenset(absence.members) for absence in query.unless))
    of_left, of_right = (
        next((nth for nth, group in enumerate(groups) if side.members <= group), None) for side in (left, right)
    )
    if of_left is not None and of_left == of_right:
        return Pair(left, right)
    if of_left != 0 or of_right is None or right.members != groups[of_right]:
        raise _wrong(query, text, "the members of an `unless` stand together, in parentheses, after those of the rule")
    if not query.kept:
        waiting[of_right - 1] = right
        return left
    if not query.referred(query.unless[of_right - 1]) <= left.members:
        raise _wrong(query, text, "an `unless` stands after the members that it asks for")
    return Without(left, of_right - 1, right)


def _left_deep(members: Sequence[int]) -> Tree:
    tree: Tree = Leaf(members[0])
    for member in members[1:]:
        tree = Pair(tree, Leaf(member))
    return tree


def _wrong(query: Query, text: str, why: str, hint: str | None = None) -> UsageError:
    return UsageError(f"the plan `{text}` does not fit {query.name}: {why}", hint=hint)
