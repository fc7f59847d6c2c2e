"""The operator of rules: what the clock has passed, and what patterns detect in it, goes in; matches come out.

    events ──▶ rows of each stream (cleaned; detections and episodes of patterns) ─┐
    silences, pairs ──▶ rows of their detections and episodes ─────────────────────┼──▶ rules in time ──▶ matches
    files and changes of facts ──▶ kept rules ──▶ matches that begin and end ──────┘

A row enters once the clock has passed the time at which it is known, together with all others of that time, and the
clocks of the tables advance with it. So matches come out in the order in which they are decided, however the input is
cut into batches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import floor

import pyarrow as pa

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.compiler.rule_keys import tables_read
from wayeb_py.engine.arrival.entities import Entities
from wayeb_py.engine.arrival.file_clock import Passed
from wayeb_py.engine.operator import Operator
from wayeb_py.engine.rows.detection_schema import DetectionSchema
from wayeb_py.engine.rows.detections import Detections
from wayeb_py.engine.rules.bound_rules import Running
from wayeb_py.engine.rules.column_types import Words
from wayeb_py.engine.rules.event_rules import Found
from wayeb_py.engine.rules.inputs import FoundBefore, RuleInputs
from wayeb_py.engine.rules.match_rows import OWN, MatchRows
from wayeb_py.engine.rules.plans import Orders
from wayeb_py.engine.rules.row_batches import RowBatch
from wayeb_py.engine.rules.saved import SavedRules, save

MOST_WORDS = 100_000  # texts that rules hold before they are looked through


class RuleOperator:
    """Recognises the rules of a file. `finders` are the operators that find silences and pairs, by the names of the
    patterns; `forced` are plans of rules by their names, as `text_of` writes them. For rules that are `elsewhere` it
    only makes the rows, and keeps them in `leaving` for the caller."""

    kind, stream = "rules", ""

    def __init__(
        self,
        patterns: CompiledPatterns,
        finders: Mapping[str, Operator],
        forced: Mapping[str, str] | None = None,
        elsewhere: Collection[str] = (),
    ) -> None:
        self.patterns = patterns
        self._inputs = RuleInputs(patterns, finders, elsewhere)
        others = [rule for rule in patterns.meaning.rules if rule.name in elsewhere]
        self._leave = tables_read(others, patterns.meaning)
        self.leaving: list[tuple[str, RowBatch]] = []  # rows by table, in ticks of `ticks_per_s`
        self._orders = Orders(dict(forced or {}))
        self._words = Words()
        self.most_words: float = MOST_WORDS
        self._n_words = 0  # texts that were left after the last search for unused ones
        self._made: tuple[Running, MatchRows] | None = None
        self._saved: SavedRules | None = None  # a saved state, until rules are bound
        self._nothing: Detections | None = None
        self.reached_s: Mapping[str, Fraction] = {}  # the greatest time that has arrived of each stream
        self.passed_s: Fraction | None = None  # the time that the clock has passed; None while it is unknown

    @property
    def fingerprint(self) -> str:
        """Empty: each part of the state has a fingerprint of its own."""
        return ""

    def bind(self, stream: str, schema: pa.Schema, entities: Entities) -> None:
        """Takes the types of a stream's events, and the object that numbers its entities."""
        if self._made is not None and not self._inputs.knows(stream):  # rules continue with more types
            self._make_anew()
        self._inputs.bind(stream, schema, entities)

    def _make_anew(self) -> None:
        """Makes the networks again, with the state that they are in."""
        self._take_up(SavedRules(self.save()))
        self._made = self._nothing = None

    def _take_up(self, saved: SavedRules) -> None:
        self._saved = saved
        self._words.learn(saved.words)
        self._n_words = len(saved.words)
        self._orders = replace(self._orders, earlier=saved.plans)

    def _make(self) -> tuple[Running, MatchRows]:
        if self._made is None:
            running = Running(self._inputs, self.patterns, self._words, self._orders)
            if self._saved is not None:
                self._saved.restore(running)
                self._saved = None
            rows = MatchRows(
                self.patterns.rule_names, running.plans.emitted, self._inputs.types_of_times(), running.ticks_per_s,
                self._has_kept, self._words,
            )  # fmt: skip
            self._made, self._nothing = (running, rows), None
        return self._made

    @property
    def running(self) -> Running:
        """The networks of the rules, built at first use; types that no stream has shown yet count as unknown."""
        return self._make()[0]

    @property
    def n_spared(self) -> int:
        """How many events patterns skipped for rules, since no rule can use what they would detect."""
        return sum(stream.n_spared for stream in self._inputs.streams.values())

    @property
    def _has_kept(self) -> bool:
        return any(rule.kept for rule in self.patterns.meaning.rules if rule.name in self.patterns.rule_names)

    @property
    def schema(self) -> DetectionSchema:
        """The columns of its detections, as far as their types are known."""
        if self._made is not None or (self._inputs.are_bound and self._inputs.rules):
            return self._make()[1].schema
        names = {
            one.name
            for rule in self.patterns.meaning.rules if rule.name in self.patterns.rule_names
            for one in rule.emit
        }  # fmt: skip
        emitted = {name: pa.null() for name in sorted(names) if name not in OWN}
        return DetectionSchema(
            pa.null(), pa.null(), None, emitted, has_decided=True, has_pairs="other" in names, has_kept=self._has_kept
        )

    # Feeding.

    def nothing(self) -> Detections:
        """No detections."""
        if self._nothing is None or self._made is None:
            schema = self.schema
            self._nothing = Detections(schema.no_detections, schema.no_episodes)
        return self._nothing

    def feed(self, passed: Passed, before: FoundBefore) -> Detections:
        """The matches that are decided now that the clock has passed these events; `before` is what other operators
        found in them."""
        self.reached_s = passed.reached_s
        self.passed_s = self.passed_s if passed.until_s is None else passed.until_s
        if len(self._words.words) > max(self.most_words, 2 * self._n_words):  # many of them may be in no row any more
            self._make_anew()
        if passed.until_s is None and not passed.rows and not any(len(found) for _, found in before):
            return self.nothing()
        until = passed.until(self._inputs.ticks_per_s)
        rows = self._rows(passed, before, until)
        if not self._inputs.rules:
            return self.nothing()
        running, _ = self._make()
        running.hold(rows)
        return self.nothing() if until is None else self._told([*running.begin(), *running.run(until)])

    def finish(self, before: FoundBefore = ()) -> Detections:
        """The matches that are decided at the latest time in the data; later ones stay undecided."""
        if not self._inputs.rules:
            self._rows(Passed({}, None, self.reached_s), before, self._end(self.reached_s))
            return self.nothing()
        running, _ = self._make()
        until = self._end(self.reached_s)
        if until is None:
            return self._told([*running.begin()])
        running.hold(self._rows(Passed({}, None, self.reached_s), before, until))
        return self._told([*running.begin(), *running.run(until)])

    def _end(self, reached_s: Mapping[str, Fraction]) -> int | None:
        """The time in ticks up to which everything is known at the end of the input; None without any event."""
        return floor(max(reached_s.values()) * self._inputs.ticks_per_s) + 1 if reached_s else None

    def _rows(self, passed: Passed, before: FoundBefore, until: int | None) -> list[tuple[str, RowBatch]]:
        if self._saved is not None and self._inputs.are_bound:
            self._make()  # rows go on from the saved state: it is not what `save` returns any more
        rows = list(self._inputs.rows(passed, before, until, self._inputs.ticks_per_s))
        self.leaving += [one for one in rows if one[0] in self._leave]
        return rows

    # Rows that were made elsewhere.

    @property
    def ticks_per_s(self) -> int:
        """The unit of the times of rows: the finest of all streams."""
        return self._inputs.ticks_per_s

    def take(self, rows: Iterable[tuple[str, RowBatch]], until: int) -> Detections:
        """The matches that are decided once the clock has reached a time in ticks: `rows` by table, all that became
        known before it and have not been taken."""
        running, _ = self._make()
        running.hold(rows)
        return self._told([*running.begin(), *running.run(until)])

    def end(self, rows: Iterable[tuple[str, RowBatch]], reached_s: Mapping[str, Fraction]) -> Detections:
        """The last matches: the streams that the rows were made of have ended at these times."""
        until = self._end(reached_s)
        return self._told([*self._make()[0].begin()]) if until is None else self.take(rows, until)

    def _told(self, found: Sequence[Found]) -> Detections:
        if not found:  # the case after most batches
            return self.nothing()
        _, rows = self._make()
        return Detections(rows.table(found), rows.schema.no_episodes)

    # State.

    def save(self) -> bytes:
        """The state; empty where there is none yet."""
        if self._made is None and (self._saved is not None or not self._inputs.are_bound):
            return b"" if self._saved is None else self._saved.data
        streams = {name: rows.save() for name, rows in self._inputs.streams.items()}
        places = {name: where.save() for name, where in self._inputs.pair_places.items()}
        return save(self._make()[0], self._words.words, streams, places)

    def restore(self, data: bytes) -> None:
        """Continues from a saved state as soon as all streams' types are known; DataError where it does not fit."""
        saved = SavedRules(data)
        self._take_up(saved)
        for name, where in self._inputs.pair_places.items():
            where.restore(saved.pair_places.get(name, []))
        for name, own in saved.streams.items():
            if name in self._inputs.streams and own:
                self._inputs.streams[name].restore(own)
