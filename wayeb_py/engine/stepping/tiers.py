"""Patterns that read others are stepped after them: matches become a column that their letters look at.

    tier 1 ──found──▶ detected(P): one byte an event ──▶ tier 2 ──▶ …

Patterns of one tier are stepped together. A later tier sees only where in the chunk an earlier one was detected,
so it cannot change earlier results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wayeb_py.arrays import U8
from wayeb_py.compiler.for_each import Runnable, at_place, read_by
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.engine.stepping.steppers import Found


@dataclass(frozen=True, slots=True)
class _Read:
    """A runnable that a later tier reads, at one of the places that it steps, or at any."""

    runnable: int
    place: int | None


class Tiers:
    """The tier of every runnable, and which runnables each `detected(…)` of a later tier is about."""

    def __init__(self, patterns: CompiledPatterns) -> None:
        runnables, file = patterns.runnables, patterns.meaning.patterns
        self.of_runnable = [file[runnable.patterns[0]].tier for runnable in runnables]
        self.n = len(set(self.of_runnable))
        self._read: dict[str, list[_Read]] = {}
        for name in dict.fromkeys(name for runnable in runnables for name in read_by(runnable.compiled)):
            self._read[name] = list(_runnables_read(name, runnables, [pattern.name for pattern in file]))

    def parted(self, numbered: Sequence[tuple[int, Runnable]]) -> list[list[tuple[int, Runnable]]]:
        """The runnables by tier, the first tier first."""
        tiers: dict[int, list[tuple[int, Runnable]]] = {}
        for number, runnable in numbered:
            tiers.setdefault(self.of_runnable[number], []).append((number, runnable))
        return [tiers[tier] for tier in sorted(tiers)]

    def mark(self, found: Sequence[Found], detected: dict[str, U8], n: int) -> None:
        """detected[name][row] is 1 where one of the runnables with that name was found."""
        for name, runnables in self._read.items():
            for read in runnables:
                for part in found:
                    at = part.pattern == read.runnable
                    if read.place is not None and part.place is not None:
                        at &= part.place == read.place
                    if at.any():
                        detected.setdefault(name, np.zeros(n, dtype=np.uint8))[part.row[at]] = 1


def _runnables_read(name: str, runnables: Sequence[Runnable], names: Sequence[str]) -> list[_Read]:
    read = []
    for number, runnable in enumerate(runnables):
        for own in (names[pattern] for pattern in runnable.patterns):
            if own == name or (runnable.place is not None and at_place(own, runnable.place) == name):
                read.append(_Read(number, None))
            elif runnable.lookup is not None and name.startswith(at_place(own, "")):
                places = list(runnable.lookup.names)
                if name.removeprefix(at_place(own, "")) in places:
                    read.append(_Read(number, places.index(name.removeprefix(at_place(own, "")))))
    return read
