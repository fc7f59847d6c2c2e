"""What the rules of a file read: streams and their columns, patterns, facts.

A rule reads the events of a stream, what patterns detect in it, and facts that a stream changes. A pattern that a rule
reads runs on the events that count for the clock; columns that the rule reads of its detections and the pattern does
not emit (their position) are emitted for the rule alone.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.rules.facts import OP
from wayeb_py.errors import Diagnostic
from wayeb_py.files.projection import Need

# The columns of a detection or an episode that its events do not have.
OWN_COLUMNS = frozenset(
    ("entity", "other", "place", "ts", "start_ts", "seq", "start_seq", "end_seq", "n_detections", "decided_ts")
)
_FOR_RULES = "\x1f"  # stands before the name of a column that is emitted for rules alone


def members_of(rule: m.Rule) -> tuple[m.Member, ...]:
    """The rule's own members and those of each `unless`, in the order of a query's numbers."""
    return (*rule.members, *(member for unless in rule.unless for member in unless.members))


def patterns_read(rules: tuple[m.Rule, ...]) -> dict[str, None]:
    """The patterns that rules read, in their order."""
    return {
        member.of: None
        for rule in rules for member in members_of(rule) if member.over in ("detections", "episodes")
    }  # fmt: skip


def rules_read(rules: tuple[m.Rule, ...], names: Container[str]) -> set[str]:
    """The rules of these names and those that they read."""
    found: set[str] = set()
    for rule in reversed(rules):  # each comes after those that it reads
        if rule.name in names or rule.name in found:
            found.add(rule.name)
            found |= {member.of for member in members_of(rule) if member.over in ("matches", "kept")}
    return found


def rule_reads(rule: m.Rule, stream: m.Stream, meaning: m.Meaning) -> bool:
    """Whether a rule looks at events of a stream, itself or through patterns and facts."""
    return any(_reads(member, stream, meaning) for member in members_of(rule))


def _reads(member: m.Member, stream: m.Stream, meaning: m.Meaning) -> bool:
    if member.over in ("events", "newest"):
        return member.of == (stream.name or "")
    if member.over == "facts":
        return facts_of(meaning, member.of).stream == stream.name and stream.name is not None
    if member.over in ("detections", "episodes"):
        pattern = _pattern(meaning, member.of)
        if pattern.pair is not None:
            return (stream.name or "") in pattern.pair.streams
        return meaning.stream_of(pattern) == stream
    return False


def facts_of(meaning: m.Meaning, name: str) -> m.Facts:
    """The facts with this name."""
    return next(facts for facts in meaning.facts if facts.name == name)


def _pattern(meaning: m.Meaning, name: str) -> m.Pattern:
    return next(pattern for pattern in meaning.patterns if pattern.name == name)


def needs_of_rule(rule: m.Rule, stream: m.Stream, meaning: m.Meaning) -> Iterator[Need]:
    """The columns of a stream's events that a rule reads."""
    kinds = {attribute.name: attribute.kind for attribute in stream.attributes}
    for member in members_of(rule):
        if not _reads(member, stream, meaning):
            continue
        for column, kind in _columns(member, stream, meaning):
            told = Diagnostic(
                "error", f"the events have no column `{column}`", rule.source, member.span,
                f"the rule `{rule.name}` looks at it",
            )  # fmt: skip
            yield Need(column, kind or kinds.get(column), "attribute", told)


def _columns(member: m.Member, stream: m.Stream, meaning: m.Meaning) -> Iterator[tuple[str, m.Kind | None]]:
    if member.over == "facts":
        yield from ((column.name, column.kind) for column in facts_of(meaning, member.of).columns)
        yield OP, "text"
        return
    if member.over in ("events", "newest"):
        yield from ((column.name, column.kind) for column in member.columns if column.name not in OWN_COLUMNS)
        return
    pattern = _pattern(meaning, member.of)
    for column in member.columns:
        if column.name in OWN_COLUMNS or is_measured(pattern, column.name):
            continue
        role, name = event_column(pattern, column.name)
        if pattern.pair is None or pattern.pair.streams[0 if role == "a" else 1] == (stream.name or ""):
            yield name, column.kind


def event_column(pattern: m.Pattern, name: str) -> tuple[m.Role, str]:
    """The entity and the column of the events that a column of a detection comes from."""
    if name in pattern.emit and pattern.emit_of:
        return pattern.emit_of[pattern.emit.index(name)]
    return "a", name  # the position; in a pair, that of a


def emitted_for_rules(pattern: m.Pattern, rules: tuple[m.Rule, ...]) -> m.Pattern:
    """The pattern with all columns that rules read of its detections; those for rules alone have names of their own."""
    asked = {
        column.name: None
        for rule in rules for member in members_of(rule)
        if member.of == pattern.name
        and (member.over == "detections" or (member.over == "episodes" and pattern.pair is not None))
        for column in member.columns if column.name not in OWN_COLUMNS and column.name not in pattern.emitted
    }  # fmt: skip
    if not asked:
        return pattern
    if pattern.pair is None:
        return replace(pattern, emit=(*pattern.emit, *asked))
    names = tuple(_FOR_RULES + name for name in asked)
    roles = tuple(event_column(pattern, name) for name in asked)
    return replace(pattern, emit=(*pattern.emit, *names), emit_of=(*pattern.emit_of, *roles))


def emitted_name(pattern: m.Pattern, column: str) -> str:
    """What the detections that are made for rules call a column."""
    if column in pattern.emitted or column in OWN_COLUMNS or pattern.pair is None:
        return column
    return _FOR_RULES + column


def is_measured(pattern: m.Pattern, column: str) -> bool:
    """Whether a column of a detection is computed over its match."""
    return any(own.name == column for own in pattern.measures)
