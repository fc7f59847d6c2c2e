"""Each episode on the map gets the explanation of its last detection, as far as there is room for it.

Where there is not, every pattern keeps some: its first episodes come before another one's later ones. What is left
out is told, on the page and by the command.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from wayeb_py.errors import DataError
from wayeb_py.view.read_detections import Episode
from wayeb_py.why.entity_words import Words, words_of
from wayeb_py.why.explain import Explainer
from wayeb_py.why.explanation import Folded, SeenEvent, Why, fold
from wayeb_py.why.table import values_text

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns

MOST_READ = 2_000  # events of one match
MOST_SHOWN = 60  # rows of one explanation
MOST_ROWS = 20_000  # of all explanations together


def reasons_of(
    patterns: CompiledPatterns, events: pa.Table, episodes: Sequence[Episode], most_rows: int = MOST_ROWS
) -> tuple[dict[str, Any], list[str]]:
    """The explanations by the number of the episode, and notes on those that are left out."""
    words = words_of(patterns, events)
    explainers: dict[tuple[str, str | None], Explainer | None] = {}
    reasons: dict[str, Any] = {}
    n_rows = n_left_out = n_unexplained = 0
    for number in _in_turn(episodes):
        episode = episodes[number]
        if episode.pattern not in patterns.names or episode.entity not in words.first:
            n_unexplained += 1
            continue
        if n_rows >= most_rows:
            n_left_out += 1
            continue
        key = (episode.pattern, episode.place)
        if key not in explainers:
            explainers[key] = _explainer(patterns, words, episode)
        explainer = explainers[key]
        since, row = _row_at(words, episode, episode.start_s, "left"), _row_at(words, episode, episode.end_s, "right")
        why = explainer.explain(episode.entity, row, since) if explainer is not None else None
        if why is None or not why.detected:
            n_unexplained += 1
            continue
        reasons[str(number)] = _brief(why, episode)
        n_rows += len(reasons[str(number)]["events"])
    notes = []
    if n_left_out:
        notes.append(
            f"{n_left_out:,} of {len(episodes):,} episodes have no reason here, since the page would be too large: "
            "`wayeb why` tells it, or a map of fewer (`wayeb map --since --until --entity --pattern`)."
        )
    if n_unexplained:
        notes.append(f"{n_unexplained:,} episodes have no reason here: the patterns do not detect them in the events.")
    return reasons, notes


def _in_turn(episodes: Sequence[Episode]) -> list[int]:
    """The numbers of the episodes: the first of every pattern, then the second of every pattern, and so on."""
    seen: Counter[str] = Counter()
    turns = []
    for number, episode in enumerate(episodes):
        turns.append((seen[episode.pattern], number))
        seen[episode.pattern] += 1
    return [number for _, number in sorted(turns)]


def _explainer(patterns: CompiledPatterns, words: Words, episode: Episode) -> Explainer | None:
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


def _brief(why: Why, episode: Episode) -> dict[str, Any]:
    n = why.seq + 1 - (why.start_seq or 0)
    rows = fold(why.events)
    shown = rows[-MOST_SHOWN:]
    n_shown = sum(row.n if isinstance(row, Folded) else 1 for row in shown)
    note = "" if n_shown == n else f", the last {n_shown} of them here"
    days = episode.start_s // 86400 != episode.end_s // 86400
    return {
        "summary": f"Why: the last detection is {n:,} {'event' if n == 1 else 'events'}{note}",
        "events": [_brief_row(row, days) for row in shown],
    }


def _brief_row(row: SeenEvent | Folded, days: bool) -> dict[str, Any]:
    if isinstance(row, Folded):
        text = f"{row.n:,} events: {row.first.read_as}"
        return {"time": f"to {_clock(row.last.ts, days)}", "letter": text, "values": "", "quiet": True}
    return {
        "time": _clock(row.ts, days),
        "letter": row.read_as,
        "values": values_text(row.values),
        "quiet": not row.letters,
    }


def _clock(ts: str, days: bool) -> str:
    """The time of the day, after the day where an episode has several; a number stays one."""
    day, _, rest = ts.partition("T")
    clock = rest.removesuffix("Z").partition(".")[0]
    return ts if not clock else f"{day} {clock}" if days else clock
