"""Patterns that read what other patterns detect get tiers: the engine recognises each after those that it reads.

The tier of a pattern is one more than the highest that it reads. A circle has no such order, and becomes an error that
shows the way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.scope import Diagnostics
from wayeb_py.errors import Note


def read_by(pattern: m.Pattern) -> list[str]:
    """The patterns that a pattern reads, in the order of its text."""
    asked = (part.pattern for part in pattern.parts if isinstance(part, m.Detected | m.Since))
    return list(dict.fromkeys(asked))


def with_tiers(patterns: Sequence[m.Pattern], report: Diagnostics) -> list[m.Pattern]:
    """The patterns, each with its tier; those in a circle are reported."""
    by_name = {pattern.name: pattern for pattern in patterns}
    tiers: dict[str, int] = {}
    for root in by_name:
        path: list[tuple[str, list[str]]] = [(root, [])] if root not in tiers else []
        if path:
            path[0][1].extend(reversed(read_by(by_name[root])))
        while path:
            name, rest = path[-1]
            if not rest:
                path.pop()
                read = [tiers.get(asked, 0) for asked in read_by(by_name[name]) if asked in by_name]
                tiers[name] = 1 + max(read, default=0)
                continue
            asked = rest.pop()
            way = [step for step, _ in path]
            if asked in way:
                _report_circle(way[way.index(asked) :], by_name, report)
            elif asked in by_name and asked not in tiers:
                path.append((asked, list(reversed(read_by(by_name[asked])))))
    return [replace(pattern, tier=tiers[pattern.name]) if tiers[pattern.name] > 1 else pattern for pattern in patterns]


def _report_circle(circle: list[str], by_name: dict[str, m.Pattern], report: Diagnostics) -> None:
    first = by_name[circle[0]]
    if len(circle) == 1:
        report.error(
            first.source,
            f"the pattern `{first.name}` asks for itself",
            first.span,
            "is detected only after it is known whether it is",
        )
        return
    second = by_name[circle[1]]
    way = " → ".join(f"`{name}`" for name in [*circle, circle[0]])
    note = Note(second.source, second.span, f"which asks for `{circle[2 % len(circle)]}`")
    report.error(
        first.source,
        f"these patterns ask for each other: {way}",
        first.span,
        f"asks for `{circle[1]}`",
        "a pattern asks only for those that can be known before it: leave one of the steps out",
        note,
    )
