"""Why a pattern was detected at an event, or why it was not.

For a detection: the events of its shortest match, each with the letter that it was read as and the values that
satisfied it (`matches`). Otherwise: the run that came closest, the event that stopped it, and the comparison by which
it missed (`shortfall`). For a match that a silence must follow, the explanation adds what followed it (`silence`).
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.compiler.describe import amount_text, quantity_text
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.walk import walk
from wayeb_py.errors import DataError
from wayeb_py.why.entity_words import EntityWords
from wayeb_py.why.explanation import SeenEvent, Silence, Stop, Why
from wayeb_py.why.indexed_words import Words
from wayeb_py.why.matches import MOST_READ, MatchReader
from wayeb_py.why.pattern_events import PatternEvents
from wayeb_py.why.runs import Fate, Room, Run, follow, reported
from wayeb_py.why.shortfall import ShortfallFinder
from wayeb_py.why.silence import silence_after
from wayeb_py.why.tiers import hints_of

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns
    from wayeb_py.why.remembered.explain import WayExplainer


class Explainer:
    """Explains one pattern, or one of its places, over some words."""

    def __init__(
        self, patterns: CompiledPatterns, words: Words, name: str, place: str | None = None, most_read: int = MOST_READ
    ) -> None:
        self.over = PatternEvents(patterns, words, name, place)
        self._reader = MatchReader(self.over, most_read)
        self._shortfalls = ShortfallFinder(self.over)
        self._ways: WayExplainer | None = None
        if self.over.compiled.memory is not None:
            from wayeb_py.why.remembered.explain import WayExplainer  # for start-up time: few patterns remember

            self._ways = WayExplainer(self.over)

    def explain(self, row: int, since: int | None = None) -> Why:
        """Why the pattern was detected at a row or not; the search follows runs from the word's beginning, or
        `since`."""
        words = self.over.words
        begin = words.word_begin(row) if since is None else max(since, words.word_begin(row))
        if self._ways is not None:
            return self._of_ways(self._ways, begin, row)
        symbols, room = self.over.symbols[begin : row + 1].tolist(), self.over.room(begin, row + 1)
        if self.over.pattern.which not in ("every end", "from all starts"):
            begin = words.word_begin(row)
            symbols, room = self.over.symbols[begin : row + 1].tolist(), self.over.room(begin, row + 1)
            which, longest = self.over.pattern.which, self.over.compiled.longest
            told = reported(self.over.automaton, symbols, row - begin, room, which, longest)
            if told.start is not None:
                return self._match(row, begin + told.start)
            return self._unreported(row, begin, symbols, room, None if told.before is None else begin + told.before)
        fate = _moved(follow(self.over.automaton, symbols, 0, row - begin, room), begin)
        return self._match(row, fate.accepting.start) if fate.accepting is not None else self._no_match(row, fate)

    def _unreported(self, row: int, begin: int, symbols: list[int], room: Room, before: int | None) -> Why:
        """Why nothing is reported at a row by a pattern that does not report every match."""
        fate = _moved(follow(self.over.automaton, symbols, 0, row - begin, room), begin)
        run = fate.accepting
        if run is None or self._window_excess(run.start, row) is not None:
            return self._no_match(row, fate) if run is None else self._match(row, run.start)
        since = self.over.words.time_text(run.start)
        why = "the first match from its start was reported before, and each start has one"
        if before is not None:
            why = f"it overlaps the one that was detected at {self.over.words.time_text(before)}"
        return self._why(
            row, False, f"not detected: a match ends here, from {since} on, but {why}", run.start,
            steps=self.over.automaton.length, steps_needed=self.over.automaton.length,
            events=self._reader.seen(run.start, row + 1, is_whole=True),
        )  # fmt: skip

    def _of_ways(self, ways: WayExplainer, begin: int, row: int) -> Why:
        """The explanation of a pattern that remembers; events before the window began are in no way."""
        window, chunk = self.over.pattern.window, self.over.words.chunk
        assert window is not None
        if self.over.pattern.which not in ("every end", "from all starts"):
            begin = self.over.words.word_begin(row)
        elif window.events is not None:
            begin = max(begin, row + 1 - window.events)
        elif window.seconds is not None:
            earliest = ceil(int(chunk.ts[row]) - window.seconds * chunk.ticks_per_s)
            begin += int(np.searchsorted(chunk.ts[begin : row + 1], earliest, "left"))
        ended = ways.follow(begin, row)
        length = self.over.automaton.length
        if ended.accepting is not None:
            return self._match(row, ended.accepting.start, ways.seen(ended.accepting, is_whole=True))
        closest = ways.closest(row, ended)
        way, summary = closest.way, f"not detected: {closest.text}"
        if way is None:
            return self._why(row, False, summary)
        return self._why(
            row, False, summary, way.start if way.start <= way.row else None, steps=closest.steps, steps_needed=length,
            stop=closest.stop, events=ways.seen(way, is_whole=False),
        )  # fmt: skip

    def _match(self, row: int, start: int, seen: tuple[SeenEvent, ...] | None = None) -> Why:
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
        if n > self._reader.most_read and seen is None:
            summary += "; it is too long to be read letter by letter, and only its last events are shown"
        return self._why(
            row, excess is None and (silence is None or silence.is_kept), summary, start, steps=length,
            steps_needed=length, events=self._reader.seen(start, row + 1, is_whole=True) if seen is None else seen,
            window_excess=excess, silence=silence, measures=self.measures(start, row) if excess is None else {},
        )  # fmt: skip

    def measures(self, start: int, row: int) -> dict[str, str]:
        """What a match or an episode measures from a row to another, as far as it is computed without functions of the
        user's own."""
        columns = self.over.pattern.measures
        if not columns:
            return {}
        from wayeb_py.why.remembered.run_values import RunValues  # for start-up time: few patterns measure

        values = RunValues(self.over.words)
        own = [c for c in columns if not any(isinstance(part, m.FunctionCall) for part in walk(c.value))]
        return {column.name: values.emitted(column.value, row, start) for column in own}

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
        """What followed a match, where the pattern ends in a silence."""
        pattern = self.over.pattern
        return None if pattern.silence_s is None else silence_after(self.over.words, row, pattern)

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
    """The fate with events counted from the first row."""

    def moved(run: Run) -> Run:
        return Run(run.start + begin, run.state, run.event + begin)

    return Fate(
        None if fate.accepting is None else moved(fate.accepting),
        tuple(map(moved, fate.alive)),
        tuple(map(moved, fate.stopped)),
        tuple(map(moved, fate.stopped_before)),
        None if fate.matched_before is None else moved(fate.matched_before),
    )
