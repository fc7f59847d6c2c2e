"""Regular expressions over bit masks of minterms, each existing once.

`Regexes` makes nodes through constructors that keep the number of different nodes small: union and intersection are
associative, commutative and idempotent, `any*` absorbs, bounds of the same body join, and a union that holds `any* ; Y`
drops whatever ends in `Y` or in `any* ; Y`. That rule carries the derivative construction: without it a skip over large
bounds has tens of thousands of states instead of tens. Equal nodes are the same object, so a derivative is found by
identity.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from wayeb_py.compiler.automata.budget import Budget
from wayeb_py.dsl import meaning as m

Shape = Literal["nothing", "empty", "letter", "sequence", "union", "intersection", "complement", "iteration"]


@dataclass(eq=False, slots=True)
class RegexNode:
    """A regex; compared by identity. `parts` is (head, tail) of a sequence, the members of a union or an intersection
    in the order of their numbers, or the body."""

    number: int
    shape: Shape
    nullable: bool
    parts: tuple[RegexNode, ...] = ()
    mask: int = 0
    at_least: int = 0
    at_most: int | None = None


class Regexes:
    """Makes the nodes of one alphabet; the budget counts what that costs."""

    def __init__(self, full: int, budget: Budget | None = None) -> None:
        self.full = full
        self.budget = budget or Budget()
        self._nodes: dict[tuple[object, ...], RegexNode] = {}
        self.nothing = self._node("nothing", False)
        self.empty = self._node("empty", True)
        self.everything = self._node("complement", True, (self.nothing,))

    def _node(
        self,
        shape: Shape,
        nullable: bool,
        parts: tuple[RegexNode, ...] = (),
        mask: int = 0,
        at_least: int = 0,
        at_most: int | None = None,
    ) -> RegexNode:
        key = (shape, tuple(part.number for part in parts), mask, at_least, at_most)
        node = self._nodes.get(key)
        if node is None:
            node = RegexNode(len(self._nodes), shape, nullable, parts, mask, at_least, at_most)
            self._nodes[key] = node
        return node

    def letter(self, mask: int) -> RegexNode:
        return self._node("letter", False, mask=mask) if mask else self.nothing

    def sequence(self, head: RegexNode, tail: RegexNode) -> RegexNode:
        """`head ; tail`, nested to the right."""
        if head is self.nothing or tail is self.nothing:
            return self.nothing
        if head is self.empty:
            return tail
        if tail is self.empty:
            return head
        heads = []
        while head.shape == "sequence":
            heads.append(head.parts[0])
            head = head.parts[1]
        heads.append(head)
        self.budget.spend(len(heads))
        for part in reversed(heads):
            tail = self._join(part, tail)
        return tail

    def _join(self, head: RegexNode, tail: RegexNode) -> RegexNode:
        first = tail.parts[0] if tail.shape == "sequence" else tail
        if head is self.everything and first is self.everything:
            return tail
        return self._node("sequence", head.nullable and tail.nullable, (head, tail))

    def sequences(self, parts: Iterable[RegexNode]) -> RegexNode:
        node = self.empty
        for part in reversed(list(parts)):
            node = self.sequence(part, node)
        return node

    def union(self, parts: Iterable[RegexNode]) -> RegexNode:
        members: dict[int, RegexNode] = {}
        mask = 0
        pending = list(parts)
        while pending:
            part = pending.pop()
            if part.shape == "union":
                pending.extend(part.parts)
            elif part.shape == "letter":
                mask |= part.mask
            elif part is self.everything:
                return part
            elif part is not self.nothing:
                members[part.number] = part
        if mask:
            letter = self.letter(mask)
            members[letter.number] = letter
        if self.empty.number in members and any(p.nullable for p in members.values() if p is not self.empty):
            del members[self.empty.number]
        if len(members) > 1:
            self._absorb_suffixes(members)
            self._join_bounds(members)
        if not members:
            return self.nothing
        if len(members) == 1:
            return next(iter(members.values()))
        self.budget.spend(len(members))
        ordered = tuple(members[number] for number in sorted(members))
        return self._node("union", any(p.nullable for p in ordered), ordered)

    def _absorb_suffixes(self, members: dict[int, RegexNode]) -> None:
        """`any* ; Y` holds `Y` and every `Z ; Y` and `Z ; any* ; Y`."""
        absorbing = {
            part.parts[1].number: part.number
            for part in members.values()
            if part.shape == "sequence" and part.parts[0] is self.everything
        }
        if not absorbing:
            return
        absorbers = set(absorbing.values())
        for part in list(members.values()):
            suffix = part
            while True:
                self.budget.spend(1)
                absorber = absorbing.get(suffix.number, suffix.number if suffix.number in absorbers else None)
                if absorber is not None and absorber != part.number:
                    del members[part.number]
                    break
                if suffix.shape != "sequence":
                    break
                suffix = suffix.parts[1]

    def _join_bounds(self, members: dict[int, RegexNode]) -> None:
        """`R{n,} ; Y | R{m,} ; Y` is the one with the smaller bound."""
        smallest: dict[tuple[int, int], RegexNode] = {}
        for part in list(members.values()):
            head, tail = part.parts if part.shape == "sequence" else (part, self.empty)
            if head.shape != "iteration" or head.at_most is not None:
                continue
            key = (head.parts[0].number, tail.number)
            other = smallest.get(key)
            if other is None:
                smallest[key] = part
                continue
            other_head = other.parts[0] if other.shape == "sequence" else other
            loser = part if other_head.at_least <= head.at_least else other
            if loser is other:
                smallest[key] = part
            del members[loser.number]

    def intersection(self, parts: Iterable[RegexNode]) -> RegexNode:
        members: dict[int, RegexNode] = {}
        mask = self.full
        has_letter = False
        pending = list(parts)
        while pending:
            part = pending.pop()
            if part.shape == "intersection":
                pending.extend(part.parts)
            elif part.shape == "letter":
                mask &= part.mask
                has_letter = True
            elif part is self.nothing:
                return part
            elif part is not self.everything:
                members[part.number] = part
        if has_letter:
            letter = self.letter(mask)
            if letter is self.nothing or self.empty.number in members:
                return self.nothing
            members[letter.number] = letter
        if self.empty.number in members:
            return self.empty if all(part.nullable for part in members.values()) else self.nothing
        if not members:
            return self.everything
        if any(p.shape == "complement" and p.parts[0].number in members for p in members.values()):
            return self.nothing
        if len(members) == 1:
            return next(iter(members.values()))
        self.budget.spend(len(members))
        ordered = tuple(members[number] for number in sorted(members))
        return self._node("intersection", all(p.nullable for p in ordered), ordered)

    def complement(self, body: RegexNode) -> RegexNode:
        if body.shape == "complement":
            return body.parts[0]
        return self._node("complement", not body.nullable, (body,))

    def iteration(self, body: RegexNode, at_least: int, at_most: int | None) -> RegexNode:
        if at_most == 0 or body is self.empty:
            return self.empty
        if body is self.nothing:
            return self.empty if at_least == 0 else self.nothing
        if body.nullable:
            at_least = 0
        if body is self.everything or (
            body.shape == "letter" and body.mask == self.full and (at_least, at_most) == (0, None)
        ):
            return self.everything
        if (at_least, at_most) == (1, 1):
            return body
        if body.shape == "iteration" and body.at_most is None and body.at_least <= 1:
            return self.iteration(body.parts[0], at_least, None)
        return self._node("iteration", at_least == 0 or body.nullable, (body,), 0, at_least, at_most)

    def from_meaning(self, regex: m.Regex, mask_of: dict[m.Predicate, int]) -> RegexNode:
        """The node of a checked regex, its policies spelt out as they are defined."""
        made: list[RegexNode] = []
        waiting: list[tuple[m.Regex, bool]] = [(regex, False)]  # (regex, whether its parts are made)
        while waiting:
            item, is_ready = waiting.pop()
            parts = parts_of(item)
            if is_ready or not parts:
                nodes = made[len(made) - len(parts) :]
                del made[len(made) - len(parts) :]
                made.append(self._from_parts(item, nodes, mask_of))
            else:
                waiting.append((item, True))
                waiting += [(part, False) for part in reversed(parts)]
        return made[0]

    def _from_parts(self, regex: m.Regex, nodes: list[RegexNode], mask_of: dict[m.Predicate, int]) -> RegexNode:
        match regex:
            case m.Letter(predicate):
                return self.letter(mask_of[predicate])
            case m.Sequence():
                return self.sequences(nodes)
            case m.Union():
                return self.union(nodes)
            case m.Intersection():
                return self.intersection(nodes)
            case m.Complement():
                return self.complement(nodes[0])
            case m.Iteration(_, at_least, at_most):
                return self.iteration(nodes[0], at_least, at_most)
            case m.SkipAny():
                skipped = [nodes[0]]
                for node in nodes[1:]:
                    skipped += [self.everything, node]
                return self.sequences(skipped)
            case m.SkipNext():
                skipped = [nodes[0]]
                for node in nodes[1:]:
                    before = self.complement(self.sequences([self.everything, node, self.everything]))
                    skipped += [before, node]
                return self.sequences(skipped)


def parts_of(regex: m.Regex) -> tuple[m.Regex, ...]:
    """What a regex is directly made of."""
    match regex:
        case m.Letter():
            return ()
        case m.Complement(body) | m.Iteration(body):
            return (body,)
        case _:
            return regex.parts


def letters_of(regex: m.Regex) -> list[m.Letter]:
    """The letters of a checked regex, from left to right."""
    letters = []
    waiting = [regex]
    while waiting:
        item = waiting.pop()
        if isinstance(item, m.Letter):
            letters.append(item)
        waiting += reversed(parts_of(item))
    return letters
