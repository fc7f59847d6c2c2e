"""Each episode on the map gets the explanation of its last detection, as far as there is room for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from wayeb_py.errors import DataError
from wayeb_py.explanation import Why
from wayeb_py.view.found import Episode
from wayeb_py.why import Explainer
from wayeb_py.why_table import values_text
from wayeb_py.words import Words, words_of

if TYPE_CHECKING:
    from wayeb_py.patterns import Patterns

MOST_READ = 60  # events of one match
MOST_ROWS = 20_000  # of all explanations together


def reasons_of(patterns: Patterns, events: pa.Table, episodes: Sequence[Episode]) -> dict[str, Any]:
    """The explanations by the number of the episode; those of patterns that are not in the file have none."""
    words = words_of(patterns, events)
    explainers: dict[tuple[str, str | None], Explainer | None] = {}
    reasons: dict[str, Any] = {}
    n_rows = 0
    for number, episode in enumerate(episodes):
        if n_rows >= MOST_ROWS:
            break
        if episode.pattern not in patterns.names or episode.entity not in words.first:
            continue
        key = (episode.pattern, episode.place)
        if key not in explainers:
            explainers[key] = _explainer(patterns, words, episode)
        explainer = explainers[key]
        if explainer is None:
            continue
        since, row = _row_at(words, episode, episode.start_s, "left"), _row_at(words, episode, episode.end_s, "right")
        why = explainer.explain(episode.entity, row, since)
        if why.detected:
            reasons[str(number)] = _brief(why)
            n_rows += len(why.events)
    return reasons


def _explainer(patterns: Patterns, words: Words, episode: Episode) -> Explainer | None:
    try:
        return Explainer(patterns, words, episode.pattern, episode.place, MOST_READ)
    except DataError:  # the place is no longer in the file
        return None


def _row_at(words: Words, episode: Episode, seconds: float, side: str) -> int:
    """The entity's event at a time: the first of several, or the last."""
    begin, end = words.first[episode.entity]
    times = words.chunk.ts[begin:end] / words.chunk.ticks_per_s
    if side == "left":
        return begin + min(int(np.searchsorted(times, seconds, "left")), end - begin - 1)
    return begin + max(int(np.searchsorted(times, seconds, "right")) - 1, 0)


def _brief(why: Why) -> dict[str, Any]:
    n = why.seq + 1 - (why.start_seq or 0)
    shown = "" if len(why.events) == n else f", the last {len(why.events)} of them here"
    return {
        "summary": f"Why: the last detection is {n} {'event' if n == 1 else 'events'}{shown}",
        "events": [
            {
                "time": event.ts.partition("T")[2].removesuffix("Z").partition(".")[0] or event.ts,
                "letter": event.read_as,
                "values": values_text(event.values),
                "quiet": not event.letters,
            }
            for event in why.events
        ],
    }
