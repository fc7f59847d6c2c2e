"""Runs the examples of a pattern file (`test` blocks): recognises their events and compares the detections.

The events of an example are those of one entity, unless the example gives the key itself. Only the example's own
pattern runs, so that attributes of other patterns need not be there; columns that the example does not give are
missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from wayeb_py.dsl.meaning import Example, Expected, Kind, RuleExample
from wayeb_py.errors import Diagnostic
from wayeb_py.files.formats.arrow_types import TEXT
from wayeb_py.files.formats.lenient_parse import NUMBER, convert, matches
from wayeb_py.run.rule_examples import fault_of

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns
    from wayeb_py.files.projection import Need

Found = tuple[int, int]  # (at, start)


@dataclass(frozen=True, slots=True)
class Outcome:
    """An example, and what is wrong with it; None if it holds."""

    example: Example | RuleExample
    fault: Diagnostic | None


def run_examples(patterns: CompiledPatterns) -> Iterator[Outcome]:
    """Each example of the patterns with its outcome, in the order of the files; then those of the rules."""
    for example in patterns.meaning.examples:
        own = patterns.select([example.pattern]).with_given(column for column, _ in example.columns)
        yield Outcome(example, _compare(example, _recognise(own, example)))
    for rule_example in patterns.meaning.rule_examples:
        yield Outcome(rule_example, fault_of(patterns, rule_example))


def _recognise(patterns: CompiledPatterns, example: Example) -> list[Found]:
    from wayeb_py.run.whole_table import recognise  # for start-up time: most commands run no example

    events: pa.Table | dict[str, pa.Table]
    if len(patterns.meaning.streams) > 1:
        events = {name: build_events(part.needs, example, name) for name, part in patterns.by_stream.items()}
    else:
        events = build_events(patterns.needs, example)
    table = recognise(patterns, events, 1, example.ends_s).to_arrow()
    if example.who:  # a pair counts within an encounter, an example from its first event: times decide
        nth = {round(time_s * 1_000_000): number for number, time_s in enumerate(example.times_s)}
        ends, starts = (table.column(name).cast(pa.int64()).to_pylist() for name in ("ts", "start_ts"))
        return sorted((nth[end], nth[start]) for end, start in zip(ends, starts, strict=True))
    return sorted(zip(table.column("seq").to_pylist(), table.column("start_seq").to_pylist(), strict=True))


def build_events(needs: Iterable[Need], example: Example, stream: str | None = None) -> pa.Table:
    """The example's events with all columns that are needed; for a pair over two streams, the events of one of them."""
    given = dict(example.columns)
    n_events = len(example.times_s)
    columns: dict[str, pa.Array] = {}
    for need in needs:
        if need.column in columns:
            continue
        if need.column in given:
            columns[need.column] = _values(given[need.column], need.kind)
        elif need.role == "key":
            columns[need.column] = pa.array(example.who or ["example"] * n_events, pa.string())
        elif need.role == "time":
            ticks = [round(time_s * 1_000_000) for time_s in example.times_s]
            columns[need.column] = pa.array(ticks, pa.timestamp("us"))
        elif need.role == "order":
            columns[need.column] = pa.array(range(n_events), pa.int64())
        else:
            columns[need.column] = pa.nulls(n_events, _type_of(need.kind, None))
    events = pa.table(columns)
    if stream is None or not example.streams:
        return events
    return events.filter(pa.array([one == stream for one in example.streams]))


def _values(words: tuple[str | None, ...], kind: Kind | None) -> pa.Array:
    texts = pa.array(words, pa.string())
    target = _type_of(kind, texts)
    if target == pa.string():
        return texts
    # The checker has made sure that every word can be read.
    values, _ = convert(texts, target)
    return values.cast(pa.string()) if target == TEXT else values


def _type_of(kind: Kind | None, texts: pa.Array | None) -> pa.DataType:
    if kind == "number":
        return pa.float64()
    if kind == "bool":
        return pa.bool_()
    if kind == "time":
        return pa.timestamp("us", "UTC")
    if kind is None and texts is not None:
        known = texts.drop_null()
        if len(known) and pa.compute.all(matches(known, NUMBER)).as_py():
            return pa.float64()
    return pa.string()


def _compare(example: Example, found: list[Found]) -> Diagnostic | None:
    wanted = {expected.at: expected for expected in example.detects}
    starts = dict(found)
    fits = wanted.keys() == starts.keys() and all(
        expected.start is None or expected.start == starts[at] for at, expected in wanted.items()
    )
    if fits:
        return None
    shown = ", ".join(_describe(expected) for expected in sorted(example.detects, key=lambda e: e.at))
    got = ", ".join(_describe(Expected(at, start)) for at, start in found)
    return Diagnostic(
        "error",
        f"this example of `{example.pattern}` does not hold",
        example.source,
        example.span,
        f"expected {f'detections at {shown}' if shown else 'nothing'}; detected {f'at {got}' if got else 'nothing'}",
    )


def _describe(expected: Expected) -> str:
    return f"{expected.at}" if expected.start is None else f"{expected.at} from {expected.start}"
