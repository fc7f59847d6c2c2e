"""Rules run over events without an output, and say what they did: rows in and out, state, time, by node.

A run over the first events of a file shows the planner how many rows there are and how often conditions hold; a run
over all events shows what the rules really cost (`--analyze`). Every sweep then looks at everything that is kept, so
that the reported state is exact.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Literal

from wayeb_py.explained_plans.plan_text import tree_lines
from wayeb_py.explained_plans.plans import PlannedRule, planned_rules, running_of
from wayeb_py.explained_plans.step_cost import measure_step
from wayeb_py.files.output.set_aside import DEFAULT_LIMIT, Aside
from wayeb_py.rules.planning.plan import PlanPart
from wayeb_py.run.sources import Paths, Sources, paths_by_stream
from wayeb_py.text_table import table

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns
    from wayeb_py.engine.rules.bound_rules import Running
    from wayeb_py.engine.rules.plans import Samples
    from wayeb_py.engine.rules.row_batches import RowBatch

MOST_EVENTS = 100_000  # the most events of a sample


@dataclass
class Measured:
    """Rules after a run; `seen` holds the rows that came to their tables, if the run recorded them."""

    running: Running
    n_events: int = 0
    seconds: float = 0.0
    matches: Counter[str] = field(default_factory=Counter)
    seen: dict[str, list[RowBatch]] = field(default_factory=dict)
    n_spared: int = 0

    @property
    def rules(self) -> list[PlannedRule]:
        return planned_rules(self.running)


def measure(
    patterns: CompiledPatterns,
    paths: Mapping[str, Paths],
    forced: Mapping[str, str] | None = None,
    *,
    most_events: int | None = None,
) -> Measured:
    """Runs rules over events. With `most_events`, stops after that many and records the tables' rows."""
    from wayeb_py.engine.arrival.tie_order import Disorder  # for start-up time

    measure_step()  # loads the kernels of joins, so that no node is charged for it
    by_stream = paths_by_stream(patterns, paths)
    sources = Sources(
        patterns, by_stream, since_s=None, until_s=None, threads=1, before=lambda _: None, on_progress=None
    )
    try:
        return _attempt(patterns, sources, forced, most_events, ())
    except Disorder:
        return _attempt(patterns, sources, forced, most_events, sources.in_order)


def _attempt(
    patterns: CompiledPatterns, sources: Sources, forced: Mapping[str, str] | None, most_events: int | None,
    to_sort: Collection[str],
) -> Measured:  # fmt: skip
    from wayeb_py.engine.recogniser import Recogniser  # for start-up time

    order: dict[str, Literal["arrival", "sorted"]] = {
        name: "sorted" if name in sources.in_order else "arrival" for name in sources.readers
    }
    recogniser = Recogniser(patterns, order=order, plans=forced)
    for name, reader in sources.readers.items():
        recogniser.bind(reader.schema, name)
    measured = Measured(running_of(recogniser))
    assert recogniser.rules is not None
    recogniser.rules.most_words = inf  # what is measured stays the same network to the end
    measured.running.in_time.network.is_exact = True
    if most_events is not None:
        measured.running.in_time.watch = lambda name, batch: measured.seen.setdefault(name, []).append(batch)
    began = time.perf_counter()
    events = sources.batches(Aside(None, DEFAULT_LIMIT), lambda: recogniser.behind, to_sort)
    try:
        for name, batch in events:
            measured.matches.update(recogniser.feed(batch, name).counts())
            measured.n_events += batch.num_rows
            if most_events is not None and measured.n_events >= most_events:
                break
    finally:
        events.close()  # type: ignore[attr-defined]
    measured.matches.update(recogniser.finish().counts())
    measured.n_spared = recogniser.rules.n_spared
    measured.seconds = time.perf_counter() - began
    return measured


# A sample.


@dataclass(frozen=True, slots=True)
class SampledPlans:
    """The plans of rules with sizes estimated from a sample, and the orders that are cheapest by that sample."""

    rules: list[PlannedRule]
    cheapest: Mapping[str, str]
    n_events: int


def plan_by_sample(
    patterns: CompiledPatterns, paths: Mapping[str, Paths], forced: Mapping[str, str] | None = None
) -> SampledPlans:
    """The plans that a run would use, with sizes estimated from the first events; and the orders cheapest by these."""
    measured = measure(patterns, paths, forced, most_events=MOST_EVENTS)
    running = measured.running
    samples = running.sampled(measured.seen)
    cheapest = _trees(running, samples, forced or {})
    running.in_time = running.in_time_by(samples, running.in_time.trees)
    return SampledPlans(planned_rules(running), cheapest, measured.n_events)


def _trees(running: Running, samples: Samples, forced: Mapping[str, str]) -> dict[str, str]:
    return dict(running.in_time_by(samples, forced).trees)


# What a run did.

_HEAD = ("in", "looked at", "out", "most needed", "kept", "dead", "dropped", "skipped", "ms")


def analysis_lines(measured: Measured) -> Iterator[str]:
    """What each node of each rule did, and what was neither kept nor computed."""
    yield f"{measured.n_events:,} events in {measured.seconds:.3g} s"
    for network in {id(one.network): one.network for one in measured.rules}.values():
        network.report()  # sweeps, so that the counts of live tuples are exact
    for one in measured.rules:
        yield ""
        yield f"rule {one.rule.name}: {_counted(measured.matches[one.rule.name])}"
        yield ""
        rows = [_HEAD, *(_row(part) for part in _in_tree_order(one.plan.root))]
        numbers = table(rows, right=range(len(_HEAD))).splitlines()
        trees = ["", *tree_lines(one, lambda _: "")]
        yield from (f"  {line}  {tree}".rstrip() for line, tree in zip(numbers, trees, strict=True))
    yield ""
    yield from _totals(measured)


def _counted(n: int) -> str:
    return f"{n:,} match" if n == 1 else f"{n:,} matches"


def _in_tree_order(part: PlanPart) -> Iterator[PlanPart]:
    yield part
    for inner in part.parts:
        yield from _in_tree_order(inner)


def _row(part: PlanPart) -> tuple[str, ...]:
    counters = part.node.counters
    n_in = counters.n_in if part.parts else part.node.tables[0].n_arrived
    numbers = (
        n_in, counters.n_candidates, counters.n_out, counters.n_needed, part.node.n_alive, counters.n_dead,
        counters.n_expired, counters.n_skipped,
    )  # fmt: skip
    return (*(f"{number:,}" for number in numbers), f"{counters.seconds * 1000:.1f}")


def _totals(measured: Measured) -> Iterator[str]:
    """What was dropped, what was not stored and what was not computed, over all rules."""
    networks = [measured.running.in_time.network, measured.running.kept.network]
    counters = [node.counters for network in networks for node in network.nodes]
    yield "dead rows"
    rows = [
        (
            "  dropped",
            sum(one.n_expired for one in counters),
            "kept until the clock had passed all that they waited for",
        ),
        ("  dropped early", sum(one.n_useless for one in counters), "a later join had no partner for what they become"),
        ("  dead on arrival", sum(one.n_dead for one in counters), "not stored: nothing to come could use them"),
        ("  skipped", sum(one.n_skipped for one in counters), "dead, and nothing to meet: no condition was evaluated"),
    ]
    unwanted = sum(one.n_arrived - one.n_taken for network in networks for one in network.tables.values())
    rows.append(("  spared", measured.n_spared, "events of entities that no fact joins: for rules no pattern saw them"))
    rows.append(("  not taken", unwanted, "rows of which no column was made beyond those that conditions asked for"))
    yield from table([(name, f"{n:,}", told) for name, n, told in rows], right=(1,)).splitlines()
