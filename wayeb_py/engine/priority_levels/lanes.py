"""The patterns and rules of a file become lanes: those of one level that shed alike, which take their turn together.

Every lane has a recogniser of its own, since lanes are at different points of the stream. What a pattern or rule reads
runs in its lane too, unreported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.dsl.rules import LEVELS, Level
from wayeb_py.dsl.semantics.matches.shedding import why_not_shed
from wayeb_py.errors import DataError


@dataclass(frozen=True, slots=True)
class Lane:
    """Patterns and rules by name; their events are skipped once they have waited longer than `shed_s`."""

    level: Level
    shed_s: Fraction | None
    names: tuple[str, ...]


def lanes_of(patterns: CompiledPatterns, shed_s: Mapping[Level, Fraction] | None = None) -> list[Lane]:
    """The lanes, the most urgent first; `shed_s` holds for patterns of a level that say nothing of their own."""
    lanes: dict[tuple[Level, Fraction | None], list[str]] = {}
    for pattern in patterns.meaning.patterns[: patterns.n_reported]:
        own = pattern.service.shed_s
        sheds = (shed_s or {}).get(pattern.service.level) if own is None else own
        if sheds is not None and (why := why_not_shed(pattern, patterns.meaning.stream_of(pattern))) is not None:
            remedy = "give the pattern a level that does not shed (--shed)" if own is None else "leave out `shed after`"
            raise DataError(f"`{pattern.name}` cannot shed: {why}", hint=remedy)
        lanes.setdefault((pattern.service.level, sheds), []).append(pattern.name)
    for rule in patterns.meaning.rules:
        if rule.name in patterns.rule_names:
            lanes.setdefault((rule.service.level, None), []).append(rule.name)
    ordered = sorted(lanes, key=lambda lane: (LEVELS.index(lane[0]), lane[1] is not None, lane[1] or 0))
    return [Lane(level, sheds, tuple(lanes[level, sheds])) for level, sheds in ordered]


def without_patterns(patterns: CompiledPatterns, shed_s: Mapping[Level, Fraction]) -> list[Level]:
    """The levels that `shed_s` says something of in vain: no pattern of theirs is without a time of its own."""
    services = [pattern.service for pattern in patterns.meaning.patterns[: patterns.n_reported]]
    asking = {service.level for service in services if service.shed_s is None}
    return [level for level in LEVELS if level in shed_s and level not in asking]
