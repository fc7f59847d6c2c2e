"""Warns of a pattern whose detections are known only when their validity is over: every one of them would be stale.

    event ──lateness──▶ recognised ──silence──▶ known    `valid for` less than that finds every detection stale

A file where nothing waits is not concerned, and shows no such warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.scope import Diagnostics
from wayeb_py.dsl.semantics.times import duration_text
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.errors import SourceText


def warn_of_validity(
    patterns: Iterable[m.Pattern],
    trees: Mapping[str, tuple[t.Pattern, SourceText]],
    streams: Mapping[str | None, m.Stream],
    report: Diagnostics,
) -> None:
    """Warns of each pattern whose `valid for` is over before its detections are known."""
    for pattern in patterns:
        (tree, source), service = trees[pattern.name], pattern.service
        if service.valid_s is None or tree.service is None or tree.service.valid is None:
            continue
        wait_s = (streams[pattern.stream].lateness_s or Fraction(0)) + (pattern.silence_s or Fraction(0))
        if wait_s and service.valid_s <= wait_s:
            told = "dropped" if service.drops_stale else "marked"
            ends = wait_s >= m.NEVER_FORGOTTEN_S
            when = "when the input ends" if ends else f"{duration_text(wait_s)} after its last event"
            report.warn(
                source,
                f"every detection of `{pattern.name}` would be {told}: it is known {when}",
                tree.service.valid.span,
                "over by then",
                "its time counts from the last event: give it more than it waits for late events and silence",
                of_arrival=True,
            )
