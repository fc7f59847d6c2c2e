"""Patterns that read others are stepped after them: what was found becomes a column that their letters look at.

    tier 1 ──found──▶ detected(P): one byte an event ──▶ tier 2 ──▶ …

Patterns of one tier are stepped together. A later tier sees of an earlier one only where in the chunk it was detected,
so that nothing which it does can change what was found before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wayeb_py.compiler.for_each import Member, at_place, read_by
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.engine.stepping.steppers import Found

U8 = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class _Read:
    """A member that a later tier reads, at one of the places that it steps, or at any."""

    member: int
    place: int | None


class Tiers:
    """The tier of every member, and which members each `detected(…)` of a later tier is about."""

    def __init__(self, patterns: CompiledPatterns) -> None:
        members, file = patterns.members, patterns.meaning.patterns
        self.of_member = [file[member.patterns[0]].tier for member in members]
        self.n = len(set(self.of_member))
        self._read: dict[str, list[_Read]] = {}
        for name in dict.fromkeys(name for member in members for name in read_by(member.compiled)):
            self._read[name] = list(_members_read(name, members, [pattern.name for pattern in file]))

    def parted(self, numbered: Sequence[tuple[int, Member]]) -> list[list[tuple[int, Member]]]:
        """Members by tier, the first tier first."""
        tiers: dict[int, list[tuple[int, Member]]] = {}
        for number, member in numbered:
            tiers.setdefault(self.of_member[number], []).append((number, member))
        return [tiers[tier] for tier in sorted(tiers)]

    def mark(self, found: Sequence[Found], detected: dict[str, U8], n: int) -> None:
        """detected[name][row] is 1 where one of the members that the name stands for was found."""
        for name, members in self._read.items():
            for read in members:
                for part in found:
                    at = part.pattern == read.member
                    if read.place is not None and part.place is not None:
                        at &= part.place == read.place
                    if at.any():
                        detected.setdefault(name, np.zeros(n, dtype=np.uint8))[part.row[at]] = 1


def _members_read(name: str, members: Sequence[Member], names: Sequence[str]) -> list[_Read]:
    read = []
    for number, member in enumerate(members):
        for own in (names[pattern] for pattern in member.patterns):
            if own == name or (member.place is not None and at_place(own, member.place) == name):
                read.append(_Read(number, None))
            elif member.lookup is not None and name.startswith(at_place(own, "")):
                places = list(member.lookup.names)
                if name.removeprefix(at_place(own, "")) in places:
                    read.append(_Read(number, places.index(name.removeprefix(at_place(own, "")))))
    return read
