"""Facts about patterns and input become a choice of scheme, with the reason in one line.

    survey ──▶ Facts (counts, layout)  ──▶ decide ──▶ Choice
    measure ─▶ Costs (on a sample)     ──▶

Facts are cheap: names, footers, sizes. Costs are measured on a sample of the job's own events with its own patterns: to
read an event, to pack it for a shuffle, to recognise it, by pattern; and the share of events that the heaviest entity
has. The driver measures them only where the layout leaves a choice. `decide` is arithmetic: for each scheme, the
seconds of the task that ends last. The numbers serve comparison only: a whole run takes longer by what Spark needs for
itself.

*Not taken*: a fixed rule by number of patterns (six spatial ones cost more than sixty comparisons); Spark's adaptive
execution (it sees rows of bytes).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from math import ceil

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from wayeb_py.dsl.wording import counted
from wayeb_py.files.read import EventReader
from wayeb_py.parallel.batch.sample import COSTED_ROWS, measure_costs, recognition_s, sample_events
from wayeb_py.parallel.batch.schemes import Scheme
from wayeb_py.parallel.batch.splits import Layout, even_splits, pack_splits
from wayeb_py.parallel.wire.parcel import pack, unpack
from wayeb_py.patterns import Patterns
from wayeb_py.run.whole_table import put_in_order

STAGE_S = 0.3  # a further, empty stage of tasks
MOVED = 2.0  # what Spark adds to packing: the bytes are written, sent and read again
BALANCED = 1.25  # the fullest worker may get this many times its share
A_BYTE_IN_ROWS = 1 / 60  # rows in a byte of text, where no footer counts rows


@dataclass(frozen=True, slots=True)
class JobFacts:
    """Facts about a job that need no event."""

    n_patterns: int  # patterns that differ
    n_files: int
    n_events: int  # by the footers, or guessed from the size
    n_workers: int
    n_even_splits: int  # pieces that can be read by themselves, up to one a worker
    promise: str | None  # what guarantees that each entity is in one split
    n_splits: int = 1  # splits by entity
    fullest: float = 1.0  # the share of the bytes that the fullest worker gets of those splits


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds an event takes, measured on a sample; and the share of all events that the heaviest entity has."""

    read_s: float
    pack_s: float  # to pack and unpack
    recognise_s: float  # with all patterns at once
    pattern_s: tuple[float, ...]  # with each alone
    heaviest: float


@dataclass(frozen=True, slots=True)
class SchemeChoice:
    """A scheme, the reason for it, and into how many groups patterns may be split for entities that are too heavy."""

    scheme: Scheme
    why: str
    most_groups: int = 1
    seconds: dict[Scheme, float] = field(default_factory=dict)  # estimated


def choose(patterns: Patterns, reader: EventReader, layout: Layout, n_workers: int) -> SchemeChoice:
    """The scheme for a job."""
    facts = survey(patterns, reader, layout, n_workers)
    return settled(facts) or decide(facts, measure(patterns, reader))


def survey(patterns: Patterns, reader: EventReader, layout: Layout, n_workers: int) -> JobFacts:
    """Facts from names, sizes and footers."""
    total = max(1, sum(split.n_bytes for split in layout.splits))
    packed = pack_splits(layout.splits, n_workers)
    rows = [
        opened.n_rows if opened.n_rows is not None else ceil(opened.file.n_bytes * A_BYTE_IN_ROWS)
        for opened in reader.files
    ]
    return JobFacts(
        n_patterns=len(patterns.distinct),
        n_files=len(reader.files),
        n_events=sum(rows),
        n_workers=n_workers,
        n_even_splits=max(1, len(even_splits(reader.files, n_workers))),
        promise=layout.promise,
        n_splits=len(layout.splits),
        fullest=max((split.n_bytes for split in packed), default=0) / total,
    )


def settled(facts: JobFacts) -> SchemeChoice | None:
    """The choice, where no cost can change it: this scheme reads once, never shuffles, and keeps all workers busy."""
    if facts.promise is not None and facts.fullest * facts.n_workers <= BALANCED:
        return SchemeChoice("source", f"{_describe(facts)}; nothing needs to be shuffled")
    return None


def measure(patterns: Patterns, reader: EventReader) -> Costs | None:
    """Costs on a sample of the events; None if the sample is empty."""
    began = time.perf_counter()
    sample = sample_events(reader)
    read_s = time.perf_counter() - began
    if not sample.num_rows:
        return None
    heaviest = share_of_heaviest(sample.column(reader.wanted.key.name))
    few = put_in_order(patterns.meaning.stream, sample).slice(0, COSTED_ROWS)
    n_few = few.num_rows
    began = time.perf_counter()
    unpack(pack(few.take(np.random.default_rng(0).permutation(n_few))))
    pack_s = time.perf_counter() - began
    costs = measure_costs(patterns, few)
    apart = [sum(costs[patterns.compiled[n].name] for n in same) for same in patterns.numbers_of_distinct]
    return Costs(
        read_s / sample.num_rows,
        pack_s / n_few,
        min(recognition_s(patterns, few), sum(apart)) / n_few,
        tuple(cost / n_few for cost in apart),
        heaviest,
    )


def share_of_heaviest(keys: pa.ChunkedArray) -> float:
    """The share of the most frequent key."""
    plain = keys.cast(keys.type.value_type) if pt.is_dictionary(keys.type) else keys
    counts = pc.value_counts(plain.drop_null()).field("counts")
    return float(pc.max(counts).as_py() or 0) / max(1, len(keys))


def decide(facts: JobFacts, costs: Costs | None) -> SchemeChoice:
    """The scheme whose last task ends first; of schemes that take about as long, the one that reads least."""
    if costs is None:  # the scheme that suits every input
        return SchemeChoice("partition", f"{_describe(facts)}; no event in a sample")
    most_groups = _most_groups(facts, costs)
    seconds: dict[Scheme, float] = {}
    if facts.promise is not None:
        seconds["source"] = facts.n_events * facts.fullest * (costs.read_s + costs.recognise_s)
    seconds["partition"] = _partition_s(facts, costs, most_groups)
    seconds["pattern"] = _pattern_s(facts, costs)
    best = min(seconds, key=lambda scheme: seconds[scheme])
    scheme = next(scheme for scheme in seconds if seconds[scheme] <= 1.1 * seconds[best])
    others = [other for other in seconds if other != scheme]
    # Only for comparison: the time that Spark takes to start and to plan is the same for all, and left out.
    shares = " and ".join(f"{seconds[scheme] / max(seconds[other], 1e-9):.0%} of that of {other}" for other in others)
    heavy = f", one entity has {costs.heaviest:.0%} of the events" if costs.heaviest * facts.n_workers > 1 else ""
    why = f"{_describe(facts)}{heavy}; by a sample its work takes {shares}"
    return SchemeChoice(scheme, why, most_groups, seconds)


def _partition_s(facts: JobFacts, costs: Costs, most_groups: int) -> float:
    readers = min(facts.n_workers, facts.n_even_splits)
    moved_s = costs.pack_s * MOVED
    copies = _copies(facts, costs, most_groups)
    first = (costs.read_s + moved_s * (1 + costs.heaviest * (copies - 1))) / readers
    heavy = costs.heaviest * (costs.pack_s + _share_of_largest(costs, copies) * costs.recognise_s)
    second = max((costs.pack_s + costs.recognise_s) / facts.n_workers, heavy)
    return STAGE_S + facts.n_events * (first + second)


def _pattern_s(facts: JobFacts, costs: Costs) -> float:
    n_groups = min(facts.n_workers, facts.n_patterns)
    return facts.n_events * (costs.read_s + _share_of_largest(costs, n_groups) * costs.recognise_s)


def _most_groups(facts: JobFacts, costs: Costs) -> int:
    """How many groups may share a heavy entity: it is sent to each, which pays only where recognising costs more."""
    return max(1, facts.n_patterns) if costs.recognise_s > costs.pack_s * MOVED else 1


def _copies(facts: JobFacts, costs: Costs, most_groups: int) -> int:
    """How many tasks recognise the heaviest entity; as `wire.routing.route` decides it."""
    return max(1, min(most_groups, ceil(costs.heaviest * facts.n_workers)))


def _share_of_largest(costs: Costs, n_groups: int) -> float:
    """The share of the cost that falls to the most expensive of `n_groups` groups, when patterns are dealt out dearest
    first."""
    groups = [0.0] * max(1, n_groups)
    for cost in sorted(costs.pattern_s, reverse=True):
        groups[groups.index(min(groups))] += cost
    total = sum(groups)
    return max(groups) / total if total > 0 else 1.0


def _describe(facts: JobFacts) -> str:
    layout = "in no order of entities" if facts.promise is None else f"where {facts.promise}"
    parts = [counted(facts.n_patterns, "pattern"), f"{counted(facts.n_files, 'file')} {layout}"]
    return ", ".join([*parts, counted(facts.n_workers, "worker")])
