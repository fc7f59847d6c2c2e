"""The priorities and time limits that a file gives its patterns become a few lines, level by level.

    levels, as a live stream serves them
      high    ManOverboard: valid for 2 s, else dropped
      normal  Turning
      low     Drifting: events are shed after 500 ms
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from wayeb_py.dsl.rules import LEVELS, USUAL_SERVICE, Service

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns


def level_lines(patterns: CompiledPatterns, name: str | None = None) -> list[str]:
    """The levels, with what is reported at each; nothing where a file says nothing about levels."""
    meaning = patterns.meaning
    services = {one.name: one.service for one in meaning.patterns[: patterns.n_reported]}
    services |= {rule.name: rule.service for rule in meaning.rules if rule.name in patterns.rule_names}
    replacing = [stream.name or "" for stream in meaning.streams if stream.replaces]
    shown = {own: service for own, service in services.items() if name in (None, own)}
    if not replacing and all(service == USUAL_SERVICE for service in shown.values()):
        return []
    lines = ["levels, as a live stream serves them"]
    for level in LEVELS:
        own = [(one, service) for one, service in shown.items() if service.level == level]
        for nth, (one, service) in enumerate(own):
            asked = ", ".join(_asked(service))
            lines.append(f"  {level if nth == 0 else '':<6}  {one}" + (f": {asked}" if asked else ""))
    lines += [f"  in `{stream}` a newer event of an entity takes the place of one that waits" for stream in replacing]
    return lines


def _asked(service: Service) -> Iterator[str]:
    if service.valid_s is not None:
        yield f"valid for {_length(service.valid_s)}, else {'dropped' if service.drops_stale else 'marked as stale'}"
    if service.shed_s is not None:
        yield f"events are shed after {_length(service.shed_s)}"


def _length(seconds: Fraction) -> str:
    for unit, size in (("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= size and (seconds / size).denominator == 1:
            return f"{seconds / size} {unit}"
    return f"{float(seconds * 1000):g} ms"
