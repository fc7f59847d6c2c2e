"""Finds which streams and which other patterns the patterns of a file read, and applies a caller's settings of
streams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from fractions import Fraction
from typing import Literal, TypeVar

from wayeb_py.compiler.needed_columns import reads
from wayeb_py.compiler.rule_inputs import rule_reads
from wayeb_py.dsl import meaning as m
from wayeb_py.errors import DataError

Given = TypeVar("Given")
Settings = float | Fraction | Mapping[str, float | Fraction]


def streams_read(meaning: m.Meaning) -> tuple[m.Stream, ...]:
    """The streams that some pattern or rule reads, in the order of the file; the first where nothing reads any.

    Rules over files of facts alone read none.
    """
    read = tuple(
        stream
        for stream in meaning.streams
        if any(reads(pattern, stream, meaning) for pattern in meaning.patterns)
        or any(rule_reads(rule, stream, meaning) for rule in meaning.rules)
    )
    return read or (() if meaning.rules else meaning.streams[:1])


def with_given_settings(
    meaning: m.Meaning,
    lateness_s: Settings | None,
    forget_after_s: float | Fraction | None,
    clean: Literal["ais", "gps"] | None,
) -> m.Meaning:
    """The meaning with the caller's settings of the streams in place of what their blocks say."""
    names = [stream.name or "" for stream in meaning.streams]
    if isinstance(lateness_s, Mapping):
        for name in lateness_s:
            if name not in names:
                raise no_such_stream(name, names)
    if clean is not None and len(names) > 1:
        raise DataError(
            f"`clean {clean}` is for the events of one stream, and this file has {len(names)}",
            hint=f"write `clean {clean}` into the block of the stream that is meant: {quoted(names)}",
        )

    def given(stream: m.Stream) -> m.Stream:
        late = lateness_s.get(stream.name or "") if isinstance(lateness_s, Mapping) else lateness_s
        if late is not None:
            stream = replace(stream, lateness_s=Fraction(late))
        if forget_after_s is not None:
            stream = replace(stream, forget_after_s=Fraction(forget_after_s))
        return stream if clean is None else replace(stream, clean=clean)

    first, *others = (given(stream) for stream in meaning.streams)
    patterns = meaning.patterns
    if forget_after_s is not None:
        forgotten_s = Fraction(forget_after_s)
        patterns = tuple(replace(own, silence_s=forgotten_s) if own.ends_word else own for own in patterns)
    return replace(meaning, stream=first, other_streams=tuple(others), patterns=patterns)


def asked_of_the_past(meaning: m.Meaning, stream: m.Stream) -> list[m.Detected | m.Crossed | m.Passed]:
    """The predicates on the own past of a stream's entities that pairs use, each once, in the order of the file."""
    asked: dict[m.Detected | m.Crossed | m.Passed, None] = {}
    for pattern in meaning.patterns:
        for part in pattern.parts if pattern.pair is not None else ():
            if isinstance(part, m.HoldsOf) and isinstance(part.operand, m.Detected | m.Crossed | m.Passed):
                assert pattern.pair is not None
                if pattern.pair.streams[0 if part.role == "a" else 1] == (stream.name or ""):
                    asked[part.operand] = None
    return list(asked)


def stream_fingerprint(stream: m.Stream) -> str:
    """A digest that changes with everything that gives the state of a stream's entities its meaning."""
    return " ".join(str(part) for part in (stream.name, stream.key, stream.time, stream.time_unit))


def given_by_stream(
    read: Iterable[str], streams: Sequence[m.Stream], given: Mapping[str, Given], noun: str
) -> dict[str, Given]:
    """What a caller gives for each stream that patterns read; DataError for a name that no stream has, and for a stream
    without any."""
    names = [stream.name or "" for stream in streams]
    for name in given:
        if name not in names:
            raise no_such_stream(str(name), names)
    for name in read:
        if name not in given:
            raise DataError(f"there are no events of the stream `{name}`", hint=f'give a {noun} for it: "{name}": …')
    return {name: given[name] for name in read}


def one_for_several(streams: Sequence[m.Stream], read: Iterable[str], noun: str) -> DataError:
    """The error where a caller gives one table or data frame for a file with several streams."""
    return DataError(
        f"this file has {len(streams)} streams, and one {noun} is no answer",
        hint=f"give a {noun} for each: {{" + ", ".join(f'"{name}": …' for name in read) + "}",
    )


def no_such_stream(name: str, names: Sequence[str]) -> DataError:
    """The error for a stream that the file does not have."""
    near = get_close_matches(name, names, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"the streams are {quoted(names)}"
    return DataError(f"no stream is called `{name}`", hint=hint)


def quoted(names: Iterable[str]) -> str:
    """Names as a message lists them."""
    return ", ".join(f"`{name}`" for name in names)


def names_read(pattern: m.Pattern) -> set[str]:
    """The patterns that a pattern reads by `detected` or `since`."""
    return {part.pattern for part in pattern.parts if isinstance(part, m.Detected | m.Since)}


def closure(patterns: Sequence[m.Pattern], names: Iterable[str]) -> set[str]:
    """These patterns and all that they read, directly or through others."""
    by_name = {pattern.name: pattern for pattern in patterns}
    found = set(names)
    open_ = list(found)
    while open_:
        for name in names_read(by_name[open_.pop()]) - found:
            found.add(name)
            open_.append(name)
    return found
