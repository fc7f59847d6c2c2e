"""What members of rules range over in a whole file, straight from the definitions: rows of events, of what patterns
detect in those that count for the clock, and of facts.

Patterns are the business of `oracle`, `oracle_several` and `oracle_file`. An episode is known when an event of its
entity has ended it, or when the entity has been silent for so long that it is forgotten; one of a pair when the pair is
no longer fresh.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from tests.oracle import Answer, Arrived, Cell, Column, Word, detect
from tests.oracle_file import FileWord, Places, _clock_words, _deduped, _greatest_s, _settings, _stream
from tests.oracle_several import (
    SETTINGS,
    Pairing,
    Sent,
    _Columns,
    pair_silences,
    pairs_of,
    put_in_order,
    silences,
    words_of_pair,
)
from tests.pairs.forms import as_attributes
from tests.rules.oracle_rows import Input, Row, events, from_changes, from_file, happened, newest
from wayeb_py.dsl import meaning as m


class FileInputs:
    """The rows of a file's inputs; `files` are the rows of its files of facts."""

    def __init__(
        self,
        meaning: m.Meaning,
        sent: Sequence[Sent],
        columns: Sequence[Mapping[str, Column]],
        files: Mapping[str, Sequence[Mapping[str, Cell]]],
        places: Places | None = None,
    ) -> None:
        self.meaning, self.sent, self.columns, self.files = meaning, sent, columns, files
        self.names = [stream.name or "" for stream in meaning.streams]
        self.settings = [_settings(stream) for stream in meaning.streams]
        self.streams = [_stream(*both) for both in zip(meaning.streams, columns, strict=True)]
        self.ordered = put_in_order(sent, self.streams, [one.in_order for one in self.settings])
        self.ordered = replace(self.ordered, events=_deduped(self.ordered.events, meaning.streams))
        self.patterns = {pattern.name: pattern for pattern in meaning.patterns}
        self.places = places or {}

    @property
    def ticks_per_s(self) -> int:
        return max(stream.ticks_per_s for stream in self.streams)

    def greatest_s(self, read: Sequence[str]) -> Fraction | None:
        """The time that the data of some streams reach; None where there are none."""
        times = [_greatest_s(self.sent, number, self.streams) for number, name in enumerate(self.names) if name in read]
        return max((time for time in times if time > -(10**12)), default=None)

    def rows(self, rules: Sequence[m.Rule]) -> dict[Input, Sequence[Row]]:
        """The rows of everything that rules read, but those of other rules."""
        found: dict[Input, Sequence[Row]] = {}
        for rule in rules:
            for member in (*rule.members, *(one for unless in rule.unless for one in unless.members)):
                if (member.over, member.of) not in found and member.over not in ("matches", "kept"):
                    found[member.over, member.of] = self._rows(member)
        return found

    def _rows(self, member: m.Member) -> list[Row]:
        if member.over in ("events", "newest"):
            rows = self._events(self.names.index(member.of))
            return newest(rows) if member.over == "newest" else rows
        if member.over == "facts":
            facts = next(one for one in self.meaning.facts if one.name == member.of)
            if facts.stream is None:
                return from_file(self.files[facts.name])
            columns = [column.name for column in facts.columns]
            return from_changes(self.ordered, columns, self.names.index(facts.stream))
        pattern = self.patterns[member.of]
        if pattern.pair is not None:
            return self._of_pairs(pattern, pattern.pair, member.over == "episodes")
        return self._of_one(pattern, member.over == "episodes")

    def _events(self, number: int) -> list[Row]:
        return events(self.ordered, number)

    def _words(self, number: int) -> list[FileWord]:
        own = self.settings[number]
        return [
            FileWord.of(Word(self.columns[number], word, own), self.patterns, self.places)
            for word in _clock_words(self.ordered.events, number, own)
        ]

    def _of_one(self, pattern: m.Pattern, episodes: bool) -> list[Row]:
        number = self.names.index(pattern.stream or "")
        words = self._words(number)
        if pattern.silence_s is not None:
            greatest_s = _greatest_s(self.sent, number, self.streams)
            found = silences(pattern.regex, pattern.window, pattern.silence_s, words, greatest_s)
            rows = []
            for one in found:
                word = next(
                    w for w in words if w.entity == one.entity and w.time_s(0) <= one.ts <= w.time_s(len(w) - 1)
                )
                cells = {
                    **word.arrived[one.seq].event,
                    "entity": one.entity,
                    "seq": one.seq,
                    "start_seq": one.start_seq,
                }
                rows.append(happened(cells, one.ts, one.start_ts, one.decided_ts, order=(one.entity, one.seq)))
            return rows
        rows = []
        for word in words:
            answer = Answer()
            detect(replace(pattern, emit=()), word, word.settings, answer)
            if episodes:
                rows += self._episodes(number, word, answer)
                continue
            for d in answer.detections:
                cells = {**word.arrived[d.seq].event, "entity": d.entity, "seq": d.seq, "start_seq": d.start_seq}
                times = word.time_s(d.seq), word.time_s(d.start_seq)
                rows.append(happened(cells, *times, order=(d.entity, d.seq)))
        return sorted(rows, key=lambda row: row.order)

    def _episodes(self, number: int, word: FileWord, answer: Answer) -> list[Row]:
        own = [timed.event for timed in self.ordered.events if timed.who == (number, word.entity)]
        times = [timed.time_s for timed in self.ordered.events if timed.who == (number, word.entity)]
        forget_s = word.settings.forget_after_s
        assert forget_s is not None
        rows = []
        for one in answer.episodes:
            last = word.arrived[one.end_seq].event
            place = next(k for k, event in enumerate(own) if event is last)
            end_s = word.time_s(one.end_seq)
            known_s = min([end_s + forget_s, *times[place + 1 : place + 2]])
            cells = {
                **last, "entity": one.entity, "start_seq": one.start_seq, "end_seq": one.end_seq,
                "n_detections": one.n_detections,
            }  # fmt: skip
            rows.append(happened(cells, end_s, word.time_s(one.start_seq), known_s, order=(one.entity, one.end_seq)))
        return rows

    def _of_pairs(self, pattern: m.Pattern, each: m.EachPair, episodes: bool) -> list[Row]:
        flat = replace(pattern, regex=as_attributes(pattern.regex), emit=(), emit_of=())
        a, b = (self.names.index(name) for name in each.streams)
        pairing = Pairing(float(each.reach_m), each.fresh_s, a, b, each.projected, each.ordered)
        silent = []
        if pattern.silence_s is not None:
            greatest_s = [_greatest_s(self.sent, number, self.streams) for number in range(len(self.streams))]
            silent = pair_silences(flat, self.ordered.events, self.streams, pairing, greatest_s, self.places)
        place = {id(timed.event): n for n, timed in enumerate(self.ordered.events)}
        rows = []
        for x, y in pairs_of(self.ordered.events, pairing):
            keys = x[1], y[1]
            for word in words_of_pair(self.ordered.events, self.streams, pairing, x, y, self.places):
                arrived = [Arrived(one, one.e.time_s, None) for one in word]
                answer = Answer()
                detect(flat, Word(_Columns(self.streams, pairing), arrived, SETTINGS), SETTINGS, answer)
                for one in answer.episodes if episodes else ():
                    last = word[one.end_seq].e
                    of_pair = {"entity": keys[0], "other": keys[1], "n_detections": one.n_detections}
                    order = (place[id(last.event)], keys)
                    rows.append(happened(of_pair, last.time_s, one.start_ts, last.time_s + each.fresh_s, order=order))
                if episodes:
                    continue
                for d in answer.detections:
                    at = word[d.seq]
                    wanted: Any = (keys, at.e.time_s, d.seq)
                    decided = [one.decided_ts for one in silent if (one.entity, one.ts, one.seq) == wanted]
                    if pattern.silence_s is None or decided:
                        cells = {**at.newest["a"].event, "entity": keys[0], "other": keys[1], "seq": d.seq}
                        for name, (role, column) in zip(pattern.emit, pattern.emit_of, strict=True):
                            cells[name] = at.newest[role].event[column]
                        order = (place[id(at.e.event)], keys)
                        rows.append(happened(cells, d.ts, d.start_ts, decided[0] if decided else None, order=order))
        return sorted(rows, key=lambda row: row.order)
