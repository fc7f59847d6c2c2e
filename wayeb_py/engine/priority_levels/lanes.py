"""The patterns and rules of a file become lanes: those of one level that shed alike, which take their turn together.

Every lane has a recogniser of its own, since lanes are at different points of the stream. What a pattern or rule reads
runs in its lane too, unreported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.rules import LEVELS, Level
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
        if sheds is not None and (why := why_not_shed(pattern, patterns.meaning)) is not None:
            raise DataError(
                f"`{pattern.name}` cannot shed: {why}",
                hint="leave out `shed after`, or give the pattern a level of its own",
            )
        lanes.setdefault((pattern.service.level, sheds), []).append(pattern.name)
    for rule in patterns.meaning.rules:
        if rule.name in patterns.rule_names:
            lanes.setdefault((rule.service.level, None), []).append(rule.name)
    ordered = sorted(lanes, key=lambda lane: (LEVELS.index(lane[0]), lane[1] is not None, lane[1] or 0))
    return [Lane(level, sheds, tuple(lanes[level, sheds])) for level, sheds in ordered]


def why_not_shed(pattern: m.Pattern, meaning: m.Meaning) -> str | None:
    """Why a pattern with skipped events could find what is not there, or why the engine cannot skip them; None if
    neither is so."""
    if pattern.pair is not None or pattern.silence_s is not None:
        return "a missing event would look like a silence, or like a pair that has parted"
    if pattern.which != "every end":
        return f"it reports matches {pattern.which}, and one that is missed would let another be reported"
    if pattern.tier > 1:
        return "it reads what another pattern detects, which could look as if it were not detected"
    if meaning.stream_of(pattern).lateness_s or meaning.stream_of(pattern).order is not None:
        return "its stream waits for late events, and a gap has no place among those that wait"
    return None
