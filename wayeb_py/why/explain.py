"""Why a pattern was detected at an event, or why it was not.

For a detection: the events of its shortest match, each with the letter that it was read as and the values that
satisfied it (`matches`). Otherwise: the run that came closest, the event that stopped it, and the comparison by which
it missed (`shortfall`). For a match that a silence must follow, the explanation adds what followed it (`silence`).
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.compiler.describe import amount_text, quantity_text
from wayeb_py.errors import DataError
from wayeb_py.why.entity_words import EntityWords
from wayeb_py.why.explanation import Silence, Stop, Why
from wayeb_py.why.matches import MOST_READ, MatchReader
from wayeb_py.why.pattern_events import PatternEvents
from wayeb_py.why.runs import Fate, Run, follow
from wayeb_py.why.shortfall import ShortfallFinder
from wayeb_py.why.silence import silence_after
from wayeb_py.why.tiers import hints_of
from wayeb_py.why.words import Words

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns


class Explainer:
    """Explains one pattern, or one of its places, over some words."""

    def __init__(
        self, patterns: CompiledPatterns, words: Words, name: str, place: str | None = None, most_read: int = MOST_READ
    ) -> None:
        self.over = PatternEvents(patterns, words, name, place)
        self._reader = MatchReader(self.over, most_read)
        self._shortfalls = ShortfallFinder(self.over)

    def explain(self, row: int, since: int | None = None) -> Why:
        """Why the pattern was detected at a row or not; the search follows runs from the word's beginning, or
        `since`."""
        words = self.over.words
        begin = words.word_begin(row) if since is None else max(since, words.word_begin(row))
        symbols, room = self.over.symbols[begin : row + 1].tolist(), self.over.room(begin, row + 1)
        fate = _moved(follow(self.over.automaton, symbols, 0, row - begin, room), begin)
        return self._match(row, fate.accepting.start) if fate.accepting is not None else self._no_match(row, fate)

    def _match(self, row: int, start: int) -> Why:
        words, length = self.over.words, self.over.automaton.length
        n = row + 1 - start
        events = f"{n} {'event' if n == 1 else 'events'} from {words.time_text(start)}"
        excess, silence = self._window_excess(start, row), None
        if excess is not None:
            summary = f"not detected: the shortest match, {events}, {excess}"
        else:
            events, silence = f"{events} to {words.time_text(row)}", self._silence_after(row)
            summary = f"detected: {events}"
            if silence is not None:
                summary = f"detected: {events}, " if silence.is_kept else f"not detected: a match of {events}, but "
                summary += silence.text
        if n > self._reader.most_read:
            summary += "; it is too long to be read letter by letter, and only its last events are shown"
        return self._why(
            row, excess is None and (silence is None or silence.is_kept), summary, start, steps=length,
            steps_needed=length, events=self._reader.seen(start, row + 1, is_whole=True), window_excess=excess,
            silence=silence,
        )  # fmt: skip

    def _no_match(self, row: int, fate: Fate) -> Why:
        short = self._shortfalls.find(row, fate)
        run, summary = short.run, f"not detected: {short.text}"
        if fate.matched_before is not None:
            silence = self._silence_after(fate.matched_before.event)
            if silence is not None:
                found = f"it was detected at {silence.after}" if silence.is_kept else f"it matched at {silence.after}"
                summary += f"; {found}, {'' if silence.is_kept else 'but '}{silence.text}"
        if run is None:
            return self._why(row, False, summary)
        return self._why(
            row, False, summary, run.start if run.start <= run.event else None, steps=short.steps,
            steps_needed=self.over.automaton.length, stop=short.stop, waits_for=short.waits_for,
            events=self._reader.seen(run.start, run.event + 1, is_whole=False),
        )  # fmt: skip

    def _silence_after(self, row: int) -> Silence | None:
        """What followed a match, where the pattern asks for a silence."""
        pattern = self.over.pattern
        if pattern.silence_s is None:
            return None
        return silence_after(self.over.words, row, pattern.silence_s, pattern.silence_of)

    def _why(
        self, row: int, detected: bool, summary: str, start: int | None = None, stop: Stop | None = None, **more: Any
    ) -> Why:
        words, pattern = self.over.words, self.over.pattern
        entity, other = words.who(row)
        ts = words.time_text(row)
        return Why(
            pattern.name, self.over.place, entity, int(words.chunk.seq[row]), ts, detected, summary,
            None if start is None else int(words.chunk.seq[start]),
            None if start is None else words.time_text(start), stop=stop, other=other,
            called=None if other is None else self.over.names,
            hints=tuple(hints_of(pattern.regex, entity, other, ts if stop is None else stop.ts)), **more,
        )  # fmt: skip

    def _window_excess(self, start: int, row: int) -> str | None:
        window, chunk = self.over.pattern.window, self.over.words.chunk
        if window is None:
            return None
        if window.seconds is not None:
            span = Fraction(int(chunk.ts[row]) - int(chunk.ts[start]), chunk.ticks_per_s)
            if span > window.seconds:
                longer = amount_text(float(span - window.seconds), " s")
                lasting = amount_text(float(span), " s")
                return f"lasts {lasting}, {longer} longer than the window of {quantity_text(window.seconds, ' s')}"
        if window.events is not None and row + 1 - start > window.events:
            return f"has {row + 1 - start - window.events} more than the {window.events} events of the window"
        return None


def explain(
    patterns: CompiledPatterns, words: EntityWords, name: str, entity: str, at_s: Fraction, place: str | None = None
) -> Why:
    """Why a pattern was detected, or not, at an entity's last event at or before a time."""
    if entity not in words.first:
        raise DataError(f"the events have no entity `{entity}`")
    row = words.row_at(entity, float(at_s * words.chunk.ticks_per_s))
    if row is None:
        first = words.time_text(words.first[entity][0])
        raise DataError(f"the entity `{entity}` has no event so early: its first is at {first}")
    return Explainer(patterns, words, name, place).explain(row)


def explain_event(
    patterns: CompiledPatterns, words: EntityWords, name: str, entity: str, ts: pa.ChunkedArray, seq: int,
    place: str | None,
) -> Why:  # fmt: skip
    """Why a pattern was detected at the event of an entity, given by its time (a column of one) and its number."""
    begin, end = words.first[entity]
    rows = rows_of(words, ts, seq, begin, end)
    return Explainer(patterns, words, name, place).explain(int(rows[0]))


def rows_of(words: Words, ts: pa.ChunkedArray, seq: int, begin: int, end: int) -> npt.NDArray[np.intp]:
    """The events between two rows, each given by its time (a column of one) and its number in the word."""
    chunk = words.chunk
    rows = np.flatnonzero((chunk.ts[begin:end] == words.instant_of(ts)) & (chunk.seq[begin:end] == seq))
    if not len(rows):
        raise DataError(
            "in the order of time the events do not have the one of this detection",
            hint="events came late when it was detected, and were set aside; an explanation takes all of them",
        )
    return begin + rows


def _moved(fate: Fate, begin: int) -> Fate:
    """The same with events counted from the first row."""

    def moved(run: Run) -> Run:
        return Run(run.start + begin, run.state, run.event + begin)

    return Fate(
        None if fate.accepting is None else moved(fate.accepting),
        tuple(map(moved, fate.alive)),
        tuple(map(moved, fate.stopped)),
        tuple(map(moved, fate.stopped_before)),
        None if fate.matched_before is None else moved(fate.matched_before),
    )
