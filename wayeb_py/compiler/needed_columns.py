"""Checked patterns become the columns that their events must have, each with the span in the file that reads it."""

from __future__ import annotations

from collections.abc import Container, Iterator

from wayeb_py.compiler.rule_inputs import needs_of_rule
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.functions import needs
from wayeb_py.dsl.walk import walk
from wayeb_py.errors import Diagnostic
from wayeb_py.files.projection import Need


def needed_columns(meaning: m.Meaning, stream: m.Stream, names: Container[str] | None = None) -> Iterator[Need]:
    """Key, time and order of a stream's events, then the attributes in the order in which patterns read them.

    Counts the patterns and rules that read the stream; with `names`, only those with one of these names.
    """
    patterns = [p for p in meaning.patterns if reads(p, stream, meaning) and (names is None or p.name in names)]
    kinds = {attribute.name: attribute.kind for attribute in stream.attributes}
    lookups = {lookup.name for lookup in meaning.lookups}
    seen = set()
    if stream.key is not None:
        yield Need(stream.key, kinds.get(stream.key), "key")
    if stream.time is not None:
        yield Need(stream.time, None, "time")
    if stream.order is not None:
        yield Need(stream.order, kinds.get(stream.order), "order")
    for pattern in patterns:
        for attribute in _attributes_of(pattern, stream, lookups):
            if attribute.name not in seen and attribute.name != stream.time:
                seen.add(attribute.name)
                kind = attribute.kind or kinds.get(attribute.name)
                yield Need(attribute.name, kind, "attribute", _asked_for(pattern, attribute))
    for rule in meaning.rules if names is None else [rule for rule in meaning.rules if rule.name in names]:
        for need in needs_of_rule(rule, stream, meaning):
            if need.column not in seen and need.column not in (stream.key, stream.time):
                seen.add(need.column)
                yield need
    emitted = set(seen)
    looked_at = seen | {column for pattern in patterns for column in _emitted(pattern, stream)}
    if stream.clean is not None and stream.position is not None and looked_at & set(stream.position):
        # Half a position cannot be cleaned.
        for column in stream.position:
            if column not in seen:
                emitted.add(column)
                yield Need(column, "number", "attribute")
    for pattern in patterns:
        for column in _emitted(pattern, stream):
            if column not in emitted:
                emitted.add(column)
                yield Need(
                    column, kinds.get(column), "emit",
                    Diagnostic(
                        "error", f"the events have no column `{column}`", pattern.source, pattern.span,
                        f"pattern `{pattern.name}` emits it",
                    ),
                )  # fmt: skip


def reads(pattern: m.Pattern, stream: m.Stream, meaning: m.Meaning) -> bool:
    """Whether a pattern looks at events of a stream."""
    if pattern.pair is not None:
        return (stream.name or "") in pattern.pair.streams
    return meaning.stream_of(pattern) == stream


def _asked_for(pattern: m.Pattern, attribute: m.Attribute) -> Diagnostic:
    message = f"the events have no column `{attribute.name}`"
    text = pattern.source.text[attribute.span.start : attribute.span.end].strip("`")
    if text == attribute.name:  # a definition in an included file has its span there
        return Diagnostic("error", message, pattern.source, attribute.span, f"pattern `{pattern.name}` looks at it")
    return Diagnostic("error", message, pattern.source, pattern.span, f"this pattern looks at `{attribute.name}`")


def _emitted(pattern: m.Pattern, stream: m.Stream) -> Iterator[str]:
    """The columns of a stream's events that a pattern emits."""
    if pattern.pair is None:
        yield from pattern.emit
        return
    yield from (column for role, column in pattern.emit_of if _stream_of(pattern.pair, role) == stream.name)


def _stream_of(pair: m.EachPair, role: m.Role) -> str:
    return pair.streams[0 if role == "a" else 1]


def asks_for_motion(pattern: m.Pattern) -> bool:
    """Whether a pattern over pairs uses their motion."""
    asks = any(isinstance(part, m.Closing | m.Cpa | m.Tcpa) for part in pattern.parts)
    return asks or (pattern.pair is not None and pattern.pair.projected)


def _attributes_of(pattern: m.Pattern, stream: m.Stream, lookups: set[str]) -> Iterator[m.Attribute]:
    """The columns that a pattern looks at; a part that uses the position looks at its columns.

    A pair looks at the position of both, at their motion where it uses that, and at what it reads of the one or the
    other.
    """
    where = [m.Attribute(column, "number") for column in stream.position or ()]
    parts = pattern.parts
    if pattern.pair is not None:
        pair = pattern.pair
        if stream.name in pair.streams:
            yield from where
            if asks_for_motion(pattern):
                yield from (m.Attribute(column, "number") for column in stream.motion or ())
        asked = [part for part in parts if isinstance(part, m.Of | m.HoldsOf)]
        parts = (part for one in asked if _stream_of(pair, one.role) == stream.name for part in walk(one.operand))
    for part in parts:
        if needs(part, "position"):
            yield from where
        elif isinstance(part, m.Attribute):
            name, dot, _ = part.name.partition(".")
            if dot and name in lookups:
                yield from where
            else:
                yield part
