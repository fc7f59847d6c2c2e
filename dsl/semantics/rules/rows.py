"""What a member ranges over becomes its rows: their columns with kinds and units, their position, and their times.

Every kind of row is a `Scope`, as the events of a stream are, so that rules find, type and measure columns with the
code that patterns use. All rows call their times `ts` and `start_ts` and their key `entity`; the stream's own names for
them (`x.mmsi`) are the same columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.scope import Diagnostics, Kinds, Scope
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.errors import Note, SourceText

_INSTANTS = {"ts": m.Attribute("ts", "time"), "start_ts": m.Attribute("start_ts", "time")}
_NO_TIME = Fraction(0)


@dataclass(slots=True)
class Rows:
    """What the rows of a member are; `other_names` are second names of columns."""

    over: m.Over
    of: str
    scope: Scope
    lasts_s: Fraction | None = None
    delay_s: Fraction | None = None
    other_names: dict[str, str] = field(default_factory=dict)
    hint: str | None = None  # how to get a column that they lack

    @property
    def has_time(self) -> bool:
        return self.over not in ("facts", "kept")


@dataclass(slots=True)
class Inputs:
    """Everything that a member can range over, by its name."""

    scopes: Mapping[str | None, Scope]
    patterns: Mapping[str, m.Pattern]
    facts: Mapping[str, tuple[m.Facts, Scope]]
    rules: dict[str, m.Rule]  # the rules before the one that is checked
    declared_patterns: Mapping[str, tuple[t.Pattern, SourceText]]
    declared_rules: Mapping[str, tuple[t.Rule, SourceText]]
    broken: frozenset[str]  # names of declarations that could not be read
    report: Diagnostics

    def rows(self, member: t.Member, source: SourceText) -> Rows | None:
        """The rows of a member; None, and a report, if its name stands for nothing that has rows."""
        name = member.of
        meanings = [
            what
            for what, known in (
                ("a stream", self.scopes),
                ("a pattern", self.declared_patterns),
                ("a rule", self.declared_rules),
                ("facts", self.facts),
            )
            if name in known
        ]
        if name in self.broken:
            return None
        if not meanings:
            self._unknown(member, source)
            return None
        if len(meanings) > 1:
            both = " and ".join(meanings)
            self.report.error(
                source, f"`{name}` is {both}", member.of_span, "which is meant?", "give one of them another name"
            )
            return None
        (what,) = meanings
        if not self._fits(member, what, source):
            return None
        if what == "a stream":
            return rows_of_events(self.scopes[name], newest=member.which == "newest")
        if what == "facts":
            facts, scope = self.facts[name]
            hint = f"its columns are {', '.join(f'`{column.name}`' for column in facts.columns)}"
            return Rows("facts", name, scope, hint=hint)
        if what == "a rule":
            rule = self.rules.get(name)
            return None if rule is None else rows_of_rule(rule, next(iter(self.scopes.values())))
        pattern = self.patterns.get(name)
        if pattern is None:
            return None  # its own report says why
        return rows_of_pattern(pattern, self.scopes, episodes=member.which == "episode")

    def _unknown(self, member: t.Member, source: SourceText) -> None:
        known = [name for name in self.scopes if name is not None]
        known += [*self.declared_patterns, *self.declared_rules, *self.facts]
        self.report.error(
            source,
            f"no stream, pattern, rule or facts are called `{member.of}`",
            member.of_span,
            f"`{member.name}` ranges over nothing",
            self.report.suggest(member.of, known),
        )

    def _fits(self, member: t.Member, what: str, source: SourceText) -> bool:
        """Whether `newest of` stands before a stream, and `episode of` before a pattern that has episodes."""
        wanted = {"newest": "a stream", "episode": "a pattern"}
        if member.which is not None and wanted[member.which] != what:
            self.report.error(
                source,
                f"`{member.which} of` takes {wanted[member.which]}, and `{member.of}` is {what}",
                member.span,
                f"not {wanted[member.which]}",
                f"write `{member.name}: {member.of}`",
            )
            return False
        pattern = self.patterns.get(member.of) if what == "a pattern" else None
        if pattern is None or (member.which != "episode" and not pattern.ends_word):
            return True
        declared, pattern_source = self.declared_patterns[member.of]
        note = Note(pattern_source, declared.name_span, "the pattern is here")
        if member.which != "episode":
            if pattern.silence_s != m.NEVER_FORGOTTEN_S:
                return True
            self.report.error(
                source,
                f"`{member.of}` is known at the end of a word, which the stream never says to be over",
                member.span,
                "rows that wait for it would be kept for ever",
                "say in the stream block when an entity is forgotten, which ends its word: `forget after 1 d`",
                note,
            )
            return False
        if pattern.silence_s is not None:
            end, all_, one = "a silence", "silences", "silence"
            if pattern.ends_word:
                end, all_, one = "`$`", "ends of words", "word"
            self.report.error(
                source,
                f"`{member.of}` ends in {end}, and {all_} make no episodes",
                member.span,
                f"one detection for each {one}",
                f"write `{member.name}: {member.of}`",
                note,
            )
            return False
        stream = self.scopes[pattern.stream].stream
        if pattern.pair is None and stream.forget_after_s is None:
            self.report.error(
                source,
                f"an episode of `{member.of}` ends at its entity's next event, which may never come",
                member.span,
                "rows that wait for it would be kept for ever",
                "say in the stream block when an entity is forgotten, which ends it too: `forget after 1 d`",
                note,
            )
            return False
        return True


def rows_of_events(scope: Scope, newest: bool = False) -> Rows:
    """The events of a stream."""
    stream = scope.stream
    attributes = {name: known for name, known in scope.attributes.items() if name not in (stream.key, stream.time)}
    attributes |= {"entity": _key(scope), **_INSTANTS}
    other_names = {
        own: usual for own, usual in ((stream.key, "entity"), (stream.time, "ts")) if own is not None and own != usual
    }
    own_scope = replace(scope, attributes=attributes)
    over: m.Over = "newest" if newest else "events"
    return Rows(over, stream.name or "", own_scope, _NO_TIME, _NO_TIME, other_names)


def rows_of_pattern(pattern: m.Pattern, scopes: Mapping[str | None, Scope], episodes: bool) -> Rows:
    """The detections of a pattern, or its episodes; their position is that of the last event, in a pair that of a's."""
    scope = scopes[pattern.stream]
    attributes = {"entity": _key(scope), **_INSTANTS}
    if pattern.pair is not None:
        attributes["other"] = replace(_key(scopes[pattern.pair.streams[1]]), name="other")
    if pattern.each is not None:
        attributes["place"] = m.Attribute("place", "text")
    if episodes:
        counts: tuple[str, ...] = ("start_seq", "end_seq", "n_detections")
    else:
        counts = ("seq", "start_seq")
        if pattern.pair is not None or pattern.silence_s is not None:
            attributes["decided_ts"] = m.Attribute("decided_ts", "time")
    attributes |= _emitted(pattern, scopes)
    attributes |= {name: m.Attribute(name, "number") for name in counts}
    for column in scope.stream.position or ():
        attributes.setdefault(column, scope.attributes.get(column, m.Attribute(column, "number", "deg")))
    window_s = None if pattern.window is None or episodes else pattern.window.seconds
    if episodes:
        delay_s = pattern.pair.fresh_s if pattern.pair is not None else scope.stream.forget_after_s
        hint = f"an episode has the columns that its pattern emits: add it to `emit` of `{pattern.name}`"
    else:
        delay_s = pattern.silence_s or _NO_TIME
        hint = f"a detection has the columns that its pattern emits: add it to `emit` of `{pattern.name}`"
    own_scope = replace(scope, attributes=attributes, has_attr_lines=True)
    over: m.Over = "episodes" if episodes else "detections"
    other_names = {"end_ts": "ts"} if episodes else {}
    return Rows(over, pattern.name, own_scope, window_s, delay_s, other_names, hint)


def _emitted(pattern: m.Pattern, scopes: Mapping[str | None, Scope]) -> dict[str, m.Attribute]:
    """The columns that a pattern emits, with what their streams say of them."""
    found: dict[str, m.Attribute] = {}
    if pattern.pair is None:
        of = [(name, pattern.stream, name) for name in pattern.emit]
    else:
        streams = dict(zip(("a", "b"), pattern.pair.streams, strict=True))
        columns = zip(pattern.emit, pattern.emit_of, strict=True)
        of = [(name, streams[role], column) for name, (role, column) in columns]
    for name, stream, column in of:
        known = scopes[stream].attributes.get(column)
        kind = (known.kind if known is not None else None) or scopes[stream].kinds.known.get((column,))
        found[name] = m.Attribute(name, kind, None if known is None else known.unit)
    return found | {column.name: m.Attribute(column.name, column.kind, column.unit) for column in pattern.measures}


def rows_of_rule(rule: m.Rule, like: Scope) -> Rows:
    """The matches of a rule: what it emits, and its times."""
    attributes = {column.name: m.Attribute(column.name, column.kind, column.unit) for column in rule.emit}
    if not rule.kept:
        attributes |= {**_INSTANTS, "decided_ts": m.Attribute("decided_ts", "time")}
    scope = replace(like, stream=m.Stream(), attributes=attributes, has_attr_lines=True, kinds=Kinds())
    hint = f"a match has the columns that its rule emits: add it to `emit` of `{rule.name}`"
    return Rows("kept" if rule.kept else "matches", rule.name, scope, hint=hint)


def _key(scope: Scope) -> m.Attribute:
    """The key of a stream under the name that all rows call it by."""
    key = scope.stream.key
    known = scope.attributes.get(key) if key is not None else None
    kind = known.kind if known is not None else None
    return m.Attribute("entity", kind or (scope.kinds.known.get((key,)) if key is not None else None))
