"""A pattern that could invent a match where events are skipped may not shed.

Skipped events are a gap, after which an entity's word begins again. Some patterns would take the gap for something that
happened, and a stream that waits for late events has no place for it: both are errors, with their place in the file.
What only the command line gives (`--shed`, `--lateness`) is judged by the same `why_not_shed` where a stream starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.scope import Diagnostics
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.errors import SourceText


def check_shedding(
    patterns: Iterable[m.Pattern],
    trees: Mapping[str, tuple[t.Pattern, SourceText]],
    streams: Mapping[str | None, m.Stream],
    report: Diagnostics,
) -> None:
    """Reports `shed after` where a pattern cannot have it."""
    for pattern in patterns:
        tree, source = trees[pattern.name]
        shed = None if tree.service is None else tree.service.shed
        if shed is None:
            continue
        why = why_not_shed(pattern, streams[pattern.stream])
        if why is not None:
            report.error(
                source,
                f"`{pattern.name}` cannot shed: {why}",
                shed.span,
                "not possible here",
                "leave out `shed after`: `priority low` has it wait, and changes nothing that it finds",
            )


def why_not_shed(pattern: m.Pattern, stream: m.Stream) -> str | None:
    """Why a pattern with skipped events could find what is not there, or why the engine cannot skip those of its
    stream; None if neither is so."""
    if pattern.pair is not None or pattern.silence_s is not None:
        return "a missing event would look like a silence, or like a pair that has parted"
    if pattern.which != "every end":
        return f"it reports matches {pattern.which}, and one that is missed would let another be reported"
    if pattern.tier > 1:
        return "it reads what another pattern detects, which could look as if it were not detected"
    if stream.lateness_s or stream.order is not None:
        return "its stream waits for late events, and a gap has no place among those that wait"
    return None
