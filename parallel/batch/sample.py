"""A few parts of the input become a sample: how often each entity occurs, and what patterns cost on it.

The parts come from all over the requested time range, because the beginning of a day is not like its middle: a row
group each from Parquet files, the first block from text files.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import pyarrow as pa

from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.files.projection import Wanted
from wayeb_py.files.read import EventReader
from wayeb_py.parallel.batch.splits import Split, even_splits
from wayeb_py.patterns import Patterns
from wayeb_py.run.whole_table import put_in_order

SAMPLED = 8  # parts of the input
COSTED_ROWS = 50_000
MOST_MEASURED = 64  # sets of patterns


def sample_events(reader: EventReader, wanted: Wanted | None = None) -> pa.Table:
    """Some events of the input, of all wanted columns or of those given."""
    wanted = wanted or reader.wanted
    schema = pa.schema([reader.schema.field(name) for name in wanted.names])
    pieces = []
    for split in even_splits(reader.files, SAMPLED, reader.selection):
        file = split.files[0]
        if file.groups is not None:
            middle = (file.groups[0] + file.groups[1]) // 2
            middle = min(middle, file.groups[1] - 1)
            file = replace(file, groups=(middle, middle + 1))
        blocks = Split((file,), 0).open(wanted, schema, reader.selection.time_range).blocks()
        try:
            for block in islice(blocks, 1):
                pieces.append(pa.Table.from_batches(block.batches, schema))
        finally:
            blocks.close()  # type: ignore[attr-defined]
    return pa.concat_tables([schema.empty_table(), *pieces]).unify_dictionaries()


def sample_keys(reader: EventReader) -> pa.Array:
    """The keys of a sample of events, one for each event."""
    wanted = Wanted(reader.wanted.columns[:2], reader.wanted.time_unit)
    keys = sample_events(reader, wanted).column(0).combine_chunks()
    return keys.dictionary_decode() if pa.types.is_dictionary(keys.type) else keys


def measure_costs(patterns: Patterns, sample: pa.Table) -> dict[str, float]:
    """Seconds that each pattern takes on the sample by itself; those that mean the same share one measurement.

    If there are too many patterns to measure one by one, it measures sets of neighbours, whose patterns share the time.
    """
    events = put_in_order(patterns.meaning.stream, sample).slice(0, COSTED_ROWS)
    sets = [tuple(patterns.compiled[number].name for number in same) for same in patterns.numbers_of_distinct]
    size = -(-len(sets) // MOST_MEASURED)
    costs: dict[str, float] = {}
    for start in range(0, len(sets), size):
        together = sets[start : start + size]
        names = [name for same in together for name in same]
        seconds = recognition_s(patterns.select(names), events)
        for same in together:
            costs |= dict.fromkeys(same, seconds / len(together) / len(same))
    return costs


def recognition_s(patterns: Patterns, events: pa.Table) -> float:
    """The time of all patterns together, the better of two runs: the first also builds tables and touches memory."""
    best = float("inf")
    for _ in range(2):
        recogniser = Recogniser(patterns, order="arrival")
        began = time.perf_counter()
        recogniser.feed(events)
        best = min(best, time.perf_counter() - began)
    return best


def equal_groups(patterns: Patterns, costs: dict[str, float], n_groups: int) -> tuple[tuple[str, ...], ...]:
    """At most `n_groups` groups of patterns of about equal cost; those that mean the same stay together."""
    sets: Sequence[tuple[str, ...]] = [
        tuple(patterns.compiled[number].name for number in same) for same in patterns.numbers_of_distinct
    ]
    groups: list[tuple[float, list[str]]] = [(0.0, []) for _ in range(max(1, min(n_groups, len(sets))))]
    for same in sorted(sets, key=lambda same: -sum(costs[name] for name in same)):
        lightest = min(range(len(groups)), key=lambda number: groups[number][0])
        cost, names = groups[lightest]
        groups[lightest] = cost + sum(costs[name] for name in same), [*names, *same]
    place = {name: number for number, name in enumerate(patterns.names)}
    return tuple(tuple(sorted(names, key=place.__getitem__)) for _, names in groups if names)
