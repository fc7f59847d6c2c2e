"""Each episode on the map gets the explanation of its last detection, as far as there is room for it.

Where there is none, every pattern keeps some: its first episodes come before later ones of other patterns. The page and
the command say what is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from wayeb_py.errors import DataError
from wayeb_py.view.read_detections import ShownEpisode
from wayeb_py.why.entity_words import EntityWords, words_of
from wayeb_py.why.explain import Explainer
from wayeb_py.why.explanation import Folded, SeenEvent, Why, fold
from wayeb_py.why.indexed_words import Words
from wayeb_py.why.pairs.encounters import Encounters, encounters_of
from wayeb_py.why.table import values_text

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns

MOST_READ = 2_000  # events of one match
MOST_SHOWN = 60  # rows of one explanation
MOST_ROWS = 20_000  # rows of all explanations together


def reasons_of(
    patterns: CompiledPatterns, events: pa.Table, episodes: Sequence[ShownEpisode], most_rows: int = MOST_ROWS
) -> tuple[dict[str, Any], list[str]]:
    """The explanations by the number of the episode, and notes on those that are left out."""
    explainers = _Explainers(patterns, events, episodes)
    reasons: dict[str, Any] = {}
    n_rows = n_left_out = n_unexplained = 0
    for number in _in_turn(episodes):
        episode = episodes[number]
        if episode.pattern not in patterns.names:
            n_unexplained += 1
            continue
        if n_rows >= most_rows:
            n_left_out += 1
            continue
        why = explainers.why(episode)
        if why is None:
            n_unexplained += 1
            continue
        reasons[str(number)] = _brief(why, episode, episode in explainers.measured_whole)
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


class _Explainers:
    """Explains episodes of one entity or of two; makes once what several of them need."""

    def __init__(self, patterns: CompiledPatterns, events: pa.Table, episodes: Sequence[ShownEpisode]) -> None:
        self._patterns, self._events, self._episodes = patterns, events, episodes
        self._tables = {patterns.meaning.stream.name or "": events}  # a map is of one stream
        self._encounters: dict[str, Encounters] = {}  # by pattern
        self._explainers: dict[tuple[str, str | None], Explainer | None] = {}  # by pattern and place
        self.measured_whole: set[ShownEpisode] = set()  # measured over all their events, and not the last detection's

    def why(self, episode: ShownEpisode) -> Why | None:
        """Why the episode's last detection was made; None where the patterns do not detect it."""
        words, span = self._words_of(episode)
        if span is None:
            return None
        key = (episode.pattern, episode.place)
        if key not in self._explainers:
            self._explainers[key] = _explainer(self._patterns, words, episode)
        explainer = self._explainers[key]
        if explainer is None:
            return None
        begin, end = span
        times = words.chunk.ts[begin:end] / words.chunk.ticks_per_s
        since = begin + min(int(np.searchsorted(times, episode.start_s, "left")), end - begin - 1)
        last = begin + max(int(np.searchsorted(times, episode.end_s, "right")) - 1, 0)
        earliest = begin + int(np.searchsorted(times, episode.end_s, "left"))
        for row in range(last, min(earliest, last) - 1, -1):  # the last detection among several at one time
            why = explainer.explain(row, since)
            if why.detected:
                # Of several events at the time of the start, the rows do not say which one it was.
                n_starts = int(np.searchsorted(times, episode.start_s, "right")) - (since - begin)
                if episode.n_detections > 1 and n_starts == 1 and why.measures:
                    self.measured_whole.add(episode)
                    return replace(why, measures=explainer.measures(since, row))
                return why
        return None

    def _words_of(self, episode: ShownEpisode) -> tuple[Words, tuple[int, int] | None]:
        """The words that an episode lies in, and the rows of its entity or pair; None where there are none."""
        if episode.other is None:
            return self._entities, self._entities.first.get(episode.entity)
        name = episode.pattern
        if name not in self._encounters:
            wanted = [(e.entity, e.other) for e in self._episodes if e.pattern == name and e.other is not None]
            reaches_s = {} if self._reaches_s is None else dict.fromkeys(self._tables, self._reaches_s)
            self._encounters[name] = encounters_of(self._patterns, name, self._tables, wanted, reaches_s)
        return self._encounters[name], self._encounters[name].first.get((episode.entity, episode.other))

    @cached_property
    def _reaches_s(self) -> Fraction | None:
        """The time that the data reach: a detected silence shows that they continue beyond it, even where the map has a
        part."""
        decided = [Fraction(e.decided_s) for e in self._episodes if e.decided_s is not None]
        return max(decided) + Fraction(1, 1000) if decided else None

    @cached_property
    def _entities(self) -> EntityWords:
        return words_of(self._patterns, self._events, reaches_s=self._reaches_s)


def _in_turn(episodes: Sequence[ShownEpisode]) -> list[int]:
    """The numbers of the episodes: the first of every pattern, then the second of every pattern, and so on."""
    seen: Counter[str] = Counter()
    turns = []
    for number, episode in enumerate(episodes):
        turns.append((seen[episode.pattern], number))
        seen[episode.pattern] += 1
    return [number for _, number in sorted(turns)]


def _explainer(patterns: CompiledPatterns, words: Words, episode: ShownEpisode) -> Explainer | None:
    try:
        return Explainer(patterns, words, episode.pattern, episode.place, MOST_READ)
    except DataError:  # the place is no longer in the file
        return None


def _brief(why: Why, episode: ShownEpisode, is_whole: bool) -> dict[str, Any]:
    n = (why.seq or 0) + 1 - (why.start_seq or 0)
    rows = fold(why.events)
    shown = rows[-MOST_SHOWN:]
    n_shown = sum(row.n if isinstance(row, Folded) else 1 for row in shown)
    note = "" if n_shown == n else f", the last {n_shown} of them here"
    days = episode.start_s // 86400 != episode.until_s // 86400
    told = [_brief_row(row, days) for row in shown]
    if why.silence is not None:
        until = f"to {_clock(why.silence.until, days)}"
        told.append({"time": until, "letter": why.silence.letter, "values": "", "quiet": True})
    if why.measures:
        letter = "measured over the episode" if is_whole else "measured"
        told.append({"time": "", "letter": letter, "values": values_text(why.measures), "quiet": True})
    return {"summary": f"Why: the last detection is {n:,} {'event' if n == 1 else 'events'}{note}", "events": told}


def _brief_row(row: SeenEvent | Folded, days: bool) -> dict[str, Any]:
    if isinstance(row, Folded):
        text = f"{row.n:,} events: {row.first.read_as}"
        return {"time": f"to {_clock(row.last.ts, days)}", "letter": text, "values": "", "quiet": True}
    told = {
        "time": _clock(row.ts, days),
        "letter": row.read_as,
        "values": values_text(row.values),
        "quiet": not row.letters,
    }
    return told if row.sender is None else told | {"of": row.sender}


def _clock(ts: str, days: bool) -> str:
    """The time of day, after the date where an episode has several days; a number stays a number."""
    day, _, rest = ts.partition("T")
    clock = rest.removesuffix("Z").partition(".")[0]
    return ts if not clock else f"{day} {clock}" if days else clock
