"""Finds where other patterns are detected, for letters with `detected(P)` and `since(P)`.

The engine recognises these patterns over the same events, entity by entity, and marks each detection at its event, as
between the tiers of one run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from wayeb_py.columns import column_of, ticks_of
from wayeb_py.compiler.for_each import at_place
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.walk import walk
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.engine.values import Chunk
from wayeb_py.why.indexed_words import one_array

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns


def patterns_asked_for(patterns: CompiledPatterns) -> list[str]:
    """The patterns that letters read by `detected` or `since`."""
    asked = (part for pattern in patterns.meaning.patterns for part in pattern.parts)
    return sorted({part.pattern for part in asked if isinstance(part, m.Detected | m.Since)})


def mark_detected(
    patterns: CompiledPatterns, events: pa.RecordBatch, chunk: Chunk, first: dict[str, tuple[int, int]]
) -> None:
    """Marks in the chunk where the patterns that letters read are detected; its rows are these events."""
    asked = patterns_asked_for(patterns)
    if not asked:
        return
    recogniser = Recogniser(replace(patterns, n_hidden=0).select(asked), order="sorted")
    found = pa.concat_tables([recogniser.feed(events).to_arrow(), recogniser.finish().to_arrow()])
    time = column_of(one_array(found.column("ts")), "ts")
    ticks = ticks_of(time, patterns.meaning.stream.time_unit, "ts").values
    entities = np.array(found.column("entity").cast(pa.string()).to_pylist(), dtype=object)
    rows = np.zeros(len(ticks), dtype=np.int64)
    for entity in dict.fromkeys(entities.tolist()):
        begin, end = first[entity]
        own = np.flatnonzero(entities == entity)
        at = begin + np.searchsorted(chunk.ts[begin:end], ticks[own], "left")
        rows[own] = at - chunk.seq[at]  # the first event of the word; events of one time are of one word
    rows += found.column("seq").to_numpy()
    places = found.column("place").to_pylist()
    for row, pattern, place in zip(rows.tolist(), found.column("pattern").to_pylist(), places, strict=True):
        for name in (pattern, *(() if place is None else (at_place(pattern, place),))):
            chunk.detected.setdefault(name, np.zeros(len(chunk.ts), dtype=np.uint8))[row] = 1


def hints_of(regex: m.Regex, entity: str, other: str | None, ts: str) -> Iterator[str]:
    """How to ask why the patterns that letters read were detected, or not."""
    asked: dict[tuple[str, str], None] = {}
    roles = {"a": entity, "b": other}
    for part in walk(regex):
        if isinstance(part, m.HoldsOf) and isinstance(part.operand, m.Detected):
            asked[_asked(part.operand, roles[part.role] or entity)] = None
        elif isinstance(part, m.Detected | m.Since) and other is None:
            asked[_asked(part, entity)] = None
    for options, name in asked:
        yield f"{name} is a pattern of its own: ask for it with `{options} --at {ts}`"


def _asked(part: m.Detected | m.Since, entity: str) -> tuple[str, str]:
    name, _, place = part.pattern.partition(at_place("", ""))
    at = f' --place "{place}"' if place else ""
    return f"--pattern {name} --entity {entity}{at}", name
