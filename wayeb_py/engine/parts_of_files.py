"""Some of a file's patterns become parts by stream, where other recognisers run the rest of the file.

A recogniser that counts a stream's events, and sets aside what is none, asks of them what all of the file's patterns
do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from wayeb_py.compiler.patterns import CompiledPatterns, StreamPart


def parts_of(
    whole: CompiledPatterns, patterns: CompiledPatterns, counted: Collection[str] | None
) -> dict[str, StreamPart]:
    """What some of a file's patterns ask of the streams that they read, and of those that are counted here: there with
    the columns that all of the file's patterns read."""
    parts = dict(patterns.by_stream)
    for name, part in whole.by_stream.items():
        if counted is None or name in counted:
            nothing = StreamPart(part.stream, whole.of_stream(part.stream).select(()), None, part.needs, (), None)
            parts[name] = replace(parts[name], needs=part.needs) if name in parts else nothing
    return {name: parts[name] for name in whole.by_stream if name in parts}


def watched_by_clock(
    whole: CompiledPatterns, parts: Mapping[str, StreamPart], orders: Mapping[str, str]
) -> dict[str, StreamPart]:
    """Streams whose late events the clock sets aside for patterns of the file that are not run here."""
    return {
        name: part
        for name, part in whole.by_stream.items()
        if name in parts and orders[name] == "arrival" and part.clocked_needs and not parts[name].clocked_needs
    }
