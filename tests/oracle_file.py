"""What a whole file detects in the events of its streams: patterns of one entity, tiers, silences and pairs together.

`oracle` and `oracle_several` judge each kind of pattern; this file says which events each of them is about. Patterns of
one entity read all events of their stream that are not late for their own entity; silences, pairs, and what a pair asks
of other patterns, those that are not late for the clock. It shares nothing with the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from tests import geodesy
from tests.oracle import EXACT, TICKS_PER_S, Answer, Arrived, Cell, Column, Detection, Settings, Word, detect, words_of
from tests.oracle_several import (
    Pairing,
    Sent,
    Stream,
    Timed,
    pair_silences,
    put_in_order,
    recognise_pairs,
    silences,
    since_detected,
    where_detected,
    word_ends,
)
from tests.pairs.forms import as_attributes, asked_of_a_way
from tests.spatial import ways_by_hand
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.walk import walk

Places = Mapping[str, Sequence[Any]]  # shapes by the name of their file


@dataclass(frozen=True, order=True)
class Row:
    """A detection; times are in seconds, what a row does not have is "" or -1."""

    pattern: str
    entity: str
    other: str
    ts: Fraction
    seq: int
    start_ts: Fraction
    start_seq: int
    decided_ts: Fraction


@dataclass
class Expected:
    """What a file gives: detections, and by stream how many events are late for their entity and for the clock."""

    rows: list[Row]
    n_late: dict[str, int]
    n_late_for_clock: dict[str, int]


class FileWord(Word):
    """The word of an entity that other patterns are asked about, and places by their name."""

    patterns: Mapping[str, m.Pattern]
    places: Places
    # What was found already: a question comes again at every event, and in every pattern.
    detected: dict[str, list[bool]]
    since: dict[str, list[Fraction | None]]
    answers: dict[tuple[m.Predicate, int], bool]

    @classmethod
    def of(cls, word: Word, patterns: Mapping[str, m.Pattern], places: Places) -> FileWord:
        own = cls(word.columns, word.arrived, word.settings)
        own.patterns, own.places = patterns, places
        own.detected, own.since, own.answers = {}, {}, {}
        return own

    def type_of(self, value: m.Value) -> Column:
        return EXACT if isinstance(value, m.Since) else super().type_of(value)

    def _value(self, value: m.Value, k: int) -> Cell:
        if isinstance(value, m.Since):
            if value.pattern not in self.since:
                self.since[value.pattern] = since_detected(self.patterns[value.pattern], self)
            return self.since[value.pattern][k]
        return super()._value(value, k)

    def holds(self, predicate: m.Predicate, k: int) -> bool:
        if isinstance(predicate, m.Detected):
            if predicate.pattern not in self.detected:
                self.detected[predicate.pattern] = where_detected(self.patterns[predicate.pattern], self)
            return self.detected[predicate.pattern][k]
        if isinstance(predicate, m.Crossed | m.Passed | m.Inside):
            if (predicate, k) not in self.answers:
                self.answers[predicate, k] = self._holds_about_places(predicate, k)
            return self.answers[predicate, k]
        return super().holds(predicate, k)

    def _holds_about_places(self, predicate: m.Predicate, k: int) -> bool:
        match predicate:
            case m.Crossed(m.Places(name)):
                return self._on_the_way(k, lambda begin, end: ways_by_hand.crossed_area(begin, end, self.places[name]))
            case m.Passed(m.Places(name), reach_m):
                return self._on_the_way(
                    k, lambda begin, end: ways_by_hand.nearest_m(begin, end, self.places[name]) <= reach_m
                )
            case m.Inside(m.Places(name)):
                return any(geodesy.is_inside(*self._position(k), shape) for shape in self.places[name])
        return super().holds(predicate, k)

    def _on_the_way(self, k: int, answer: Callable[[Any, Any], bool]) -> bool:
        begin, end = self._position(k - 1) if k else (None, None), self._position(k)
        return geodesy.is_on_earth(*begin) and geodesy.is_on_earth(*end) and bool(answer(begin, end))


def expect(
    meaning: m.Meaning, sent: Sequence[Sent], columns: Sequence[Mapping[str, Column]], places: Places | None = None
) -> Expected:
    """Everything that a file detects; a stream without a lateness is put in order, as a batch does it."""
    patterns, places = {pattern.name: pattern for pattern in meaning.patterns}, places or {}
    names = [stream.name or "" for stream in meaning.streams]
    settings = [_settings(stream) for stream in meaning.streams]
    streams = [_stream(*facts) for facts in zip(meaning.streams, columns, strict=True)]
    ordered = put_in_order(sent, streams, [one.in_order for one in settings])
    timed = _deduped(ordered.events, meaning.streams)
    rows: list[Row] = []
    n_late, n_late_for_clock = {}, {}
    clock_words: list[list[FileWord]] = []
    for number, (name, own) in enumerate(zip(names, settings, strict=True)):
        events = [one.event for one in sent if one.stream == number]
        answer = Answer()
        for word in words_of(columns[number], events, own, answer):
            for pattern in meaning.patterns:
                if pattern.pair is None and pattern.silence_s is None and meaning.stream_of(pattern).name == name:
                    detect(pattern, FileWord.of(word, patterns, places), own, answer)
        rows += [
            _row(d, d.entity, "", own.ticks_per_s, of_later_tier=_reads_patterns(patterns[d.pattern]))
            for d in answer.detections
        ]
        n_late[name] = answer.n_late
        counted = sum(one.stream == number for one in ordered.events)
        n_late_for_clock[name] = len(events) - answer.n_unread - counted
        words = [
            FileWord.of(Word(columns[number], word, own), patterns, places) for word in _clock_words(timed, number, own)
        ]
        clock_words.append(words)
        for pattern in meaning.patterns:
            if pattern.pair is None and pattern.silence_s is not None and meaning.stream_of(pattern).name == name:
                greatest_s = _greatest_s(sent, number, streams)
                if pattern.ends_word:
                    found = word_ends(pattern, words, own.forget_after_s, greatest_s)
                else:
                    found = silences(pattern.regex, pattern.window, pattern.silence_s, words, greatest_s)
                rows += [_silent(pattern.name, s.entity, "", s) for s in found]
    asked = _with_answers(timed, clock_words, meaning)
    for pattern in meaning.patterns:
        if pattern.pair is not None:
            rows += _rows_of_pairs(pattern, pattern.pair, asked, sent, streams, names, places)
    return Expected(sorted(rows), n_late, n_late_for_clock)


def _settings(stream: m.Stream) -> Settings:
    assert stream.key is not None
    assert stream.time is not None
    return Settings(
        stream.key, stream.time, TICKS_PER_S[stream.time_unit or "us"], in_order=stream.lateness_s is None,
        lateness_s=stream.lateness_s or Fraction(0), forget_after_s=stream.forget_after_s, dedupe=stream.dedupe,
        order=stream.order, position=stream.position,
    )  # fmt: skip


def _stream(stream: m.Stream, columns: Mapping[str, Column]) -> Stream:
    assert stream.key is not None
    assert stream.time is not None
    return Stream(
        stream.key, stream.time, TICKS_PER_S[stream.time_unit or "us"], stream.position, stream.motion, 1.0,
        stream.lateness_s or Fraction(0), stream.order, columns,
    )  # fmt: skip


def _greatest_s(sent: Sequence[Sent], number: int, streams: Sequence[Stream]) -> Fraction:
    stream = streams[number]
    times = [
        one.event[stream.time]
        for one in sent
        if one.stream == number and one.event[stream.key] is not None and one.event[stream.time] is not None
    ]
    return max((Fraction(time) / stream.ticks_per_s for time in times), default=Fraction(-(10**12)))  # type: ignore[arg-type]


def _deduped(events: Sequence[Timed], streams: Sequence[m.Stream]) -> list[Timed]:
    """Without the events of one entity and time but the first, where the stream says so."""
    kept: list[Timed] = []
    seen: set[Any] = set()
    for timed in events:
        if not streams[timed.stream].dedupe or (timed.who, timed.time_s) not in seen:
            kept.append(timed)
        seen.add((timed.who, timed.time_s))
    return kept


def _clock_words(events: Sequence[Timed], number: int, settings: Settings) -> Iterable[list[Arrived]]:
    """The words of a stream's entities over the events that count for the clock."""
    for key in sorted({timed.key for timed in events if timed.stream == number}):
        word: list[Arrived] = []
        for timed in events:
            if timed.who != (number, key):
                continue
            silent_for = settings.forget_after_s
            if word and silent_for is not None and timed.time_s - word[-1].time_s > silent_for:
                yield word
                word = []
            word.append(Arrived(timed.event, timed.time_s, None))
        if word:
            yield word


def _with_answers(events: Sequence[Timed], words: Sequence[Sequence[FileWord]], meaning: m.Meaning) -> list[Timed]:
    """The events, each with what a pair may ask about its own entity's past: `detected(P)`, `crossed(zone)`."""
    asked: set[m.Predicate] = set()
    for pattern in meaning.patterns:
        for part in walk(pattern.regex):
            if isinstance(part, m.HoldsOf) and isinstance(part.operand, m.Detected | m.Crossed | m.Passed):
                asked.add(part.operand)
    answers: dict[int, dict[str, bool]] = {}
    for own in words:
        for word in own:
            for k, arrived in enumerate(word.arrived):
                answers[id(arrived.event)] = {_name(question): _holds(word, question, k, meaning) for question in asked}
    return [replace(timed, event={**timed.event, **answers[id(timed.event)]}) for timed in events]


def _name(question: m.Predicate) -> str:
    if isinstance(question, m.Detected):
        return f"detected({question.pattern})"
    assert isinstance(question, m.Crossed | m.Passed)
    return asked_of_a_way(question)


def _holds(word: FileWord, question: m.Predicate, k: int, meaning: m.Meaning) -> bool:
    """The answer at an event; a pattern of another stream has none there."""
    if isinstance(question, m.Detected):
        stream = meaning.stream_of(word.patterns[question.pattern])
        if (stream.key, stream.time) != (word.settings.key, word.settings.time):
            return False
    return word.holds(question, k)


def _rows_of_pairs(
    pattern: m.Pattern, each: m.EachPair, events: Sequence[Timed], sent: Sequence[Sent], streams: Sequence[Stream],
    names: Sequence[str], places: Places,
) -> list[Row]:  # fmt: skip
    flat = replace(pattern, regex=as_attributes(pattern.regex), emit=(), emit_of=())
    a, b = (names.index(name) for name in each.streams)
    pairing = Pairing(float(each.reach_m), each.fresh_s, a, b, each.projected, each.ordered)
    if pattern.silence_s is not None:
        greatest_s = [_greatest_s(sent, number, streams) for number in range(len(streams))]
        found = pair_silences(flat, events, streams, pairing, greatest_s, places)
        return [_silent(pattern.name, one.entity[0], one.entity[1], one) for one in found]  # type: ignore[index]
    # What counts has been settled, and is in order.
    again = [Sent(timed.event, timed.stream) for timed in sorted(events, key=lambda timed: timed.arrival)]
    answer = recognise_pairs(flat, again, streams, pairing, places=places)
    return [
        _row(d, d.entity[0], d.entity[1], 1, of_later_tier=True)  # type: ignore[index]
        for d in answer.detections
    ]


def _reads_patterns(pattern: m.Pattern) -> bool:
    return any(isinstance(part, m.Detected | m.Since) for part in walk(pattern.regex))


def _row(d: Detection, entity: Any, other: Any, ticks_per_s: int, *, of_later_tier: bool) -> Row:
    """A detection that is known at its last event: of a later tier it says so."""
    ts, start_ts = (Fraction(time) / ticks_per_s for time in (d.ts, d.start_ts))  # type: ignore[arg-type]
    decided_ts = ts if of_later_tier else Fraction(-1)
    return Row(d.pattern, str(entity), str(other), ts, d.seq, start_ts, d.start_seq, decided_ts)


def _silent(pattern: str, entity: Any, other: Any, one: Any) -> Row:
    return Row(pattern, str(entity), str(other), one.ts, one.seq, one.start_ts, one.start_seq, one.decided_ts)
