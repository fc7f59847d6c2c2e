"""The bounds of a file's rules become text: rows that are needed, work for an event, and its time on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from wayeb_py.compiler.rule_query import table_of
from wayeb_py.dsl import meaning as m
from wayeb_py.explained_plans.bounds import Bounds, Number, Sources, bounds_of, product_of, rate_of_matches
from wayeb_py.explained_plans.plans import PlannedRule, planned_rules
from wayeb_py.explained_plans.rates import Rate, supply_of
from wayeb_py.explained_plans.step_cost import StepCost
from wayeb_py.rules.planning.plan import PlanPart
from wayeb_py.text_table import table

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns
    from wayeb_py.engine.rules.bound_rules import Running


@dataclass(frozen=True, slots=True)
class RuleCost:
    """The bounds of a rule, its work for one event of each stream that it reads, and the tables that no rate was given
    for."""

    planned: PlannedRule
    bounds: Bounds
    work: Mapping[str, Number]  # by stream
    lacks: tuple[str, ...]


def costs_of(running: Running, patterns: CompiledPatterns, given: Mapping[str, Rate]) -> list[RuleCost]:
    """The costs of all rules at these rates; a rule that reads another comes after it."""
    rules = planned_rules(running)
    sources = Sources({}, dict(running.delays), running.most_sharing, running.plans.times)
    arriving: dict[str, dict[str, Number]] = {}  # by table: the most rows that an event of each stream makes
    found = []
    for one in rules:
        lacks: dict[str, None] = {}
        for member in one.members:
            own = table_of(member)
            if own not in sources.rates:
                rate = supply_of(member, patterns, given, running.fact_sizes)
                if rate is None and own not in arriving:
                    lacks[member.of or "the stream"] = None
                if rate is not None:
                    sources.rates[own] = rate
            if own not in arriving:
                arriving[own] = _arriving(member, patterns)
        bounds = bounds_of(one, sources)
        work: dict[str, Number] = {}
        made: dict[str, Number] = {}
        for number, member in enumerate(one.members):
            for stream, n in arriving[table_of(member)].items():
                work[stream] = work.get(stream, 0) + product_of(bounds.work[number], n)
                if number in bounds.made:
                    made[stream] = made.get(stream, 0) + product_of(bounds.made[number], n)
        over = "kept" if one.rule.kept else "matches"
        arriving[f"{over} {one.rule.name}"] = made
        if not one.rule.kept:
            sources.delays = {**sources.delays, f"matches {one.rule.name}": running.plans.delay(one.rule.name)}
            rate = given.get(one.rule.name) or rate_of_matches(one, bounds, sources.rates)
            if rate is not None:
                sources.rates[f"matches {one.rule.name}"] = rate
        found.append(RuleCost(one, bounds, work, tuple(lacks)))
    return found


def _arriving(member: m.Member, patterns: CompiledPatterns) -> dict[str, Number]:
    """The most rows of a member that an event of each stream makes."""
    meaning = patterns.meaning
    if member.over in ("events", "newest"):
        return {member.of: 1}
    if member.over == "facts":
        stream = next(facts.stream for facts in meaning.facts if facts.name == member.of)
        return {} if stream is None else {stream: 1}
    pattern = next((one for one in meaning.patterns if one.name == member.of), None)
    if pattern is None:
        return {}
    if pattern.pair is not None:
        return dict.fromkeys(pattern.pair.streams, inf)
    n_places = 1 if pattern.each is None else patterns.places(pattern.each[1]).shapes.n_places
    return {meaning.stream_of(pattern).name or "": n_places}


def cost_lines(cost: RuleCost, step: StepCost | None) -> Iterator[str]:
    """The bounds of a rule; with the cost of a step, also the longest time that an event takes."""
    one, bounds = cost.planned, cost.bounds
    yield f"rule {one.rule.name}"
    yield ""
    if cost.lacks:
        names = " and ".join(f"`{name}`" for name in cost.lacks)
        yield f"  not bounded: nothing says how many rows of {names} come; add --rate {cost.lacks[0]}=NUMBER/s"
    yield f"  needed at a time: {_at_most(bounds.n_stored)} rows and tuples"
    rows = []
    for part, n in bounds.stored:
        if part.node.memories():
            alike = [other for other in one.plan.root.every() if other.node is part.node]
            rows.append((f"    {', '.join(names_of(other, one) for other in alike)}", _number(n)))
    if one.rule.once_for:
        rows.append((f"    had a match: {' '.join(one.rule.once_for)}", _number(bounds.had)))
    yield from table(rows, right=(1,)).splitlines() if rows else ()
    for stream, work in cost.work.items():
        of = f" of {stream}" if stream else ""
        yield f"  work: {_at_most(work)} combinations and tuples for an event{of}"
        if step is not None and work != inf:
            n_nodes = len({part.node.number for part in one.plan.root.every()}) + 1
            yield f"  latency: at most {_time(step.seconds(n_nodes, work))} for an event{of}, by {step}"
    if not cost.work:
        yield "  work: none for an event, since it reads files of facts alone"


def names_of(part: PlanPart, one: PlannedRule) -> str:
    """The names of a part's members; for an antijoin of a rule in time it adds that they wait there."""
    names = " ".join(one.plan.query.members[member].name for member in part.members)
    return f"{names}, waiting" if part.absences and not one.rule.kept else names


def _at_most(number: Number) -> str:
    return "not bounded in" if number == inf else f"at most {_number(number)}"


def _number(number: Number) -> str:
    return "not bounded" if number == inf else f"{number:,.0f}"


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:,.3g} {unit}"
    return f"{seconds * 1e9:,.3g} ns"
