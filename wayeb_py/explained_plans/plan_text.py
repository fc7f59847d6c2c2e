"""A planned rule becomes text: its tier, its plan as a tree, what it shares, how long it keeps rows and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.rules.times.explained import times_text
from wayeb_py.dsl.wording import counted
from wayeb_py.explained_plans.condition_text import conditions_text
from wayeb_py.explained_plans.plans import PlannedRule
from wayeb_py.rules.planning.plan import PlanPart
from wayeb_py.rules.planning.tree import text_of

_RANGES = {
    "events": "events of {}",
    "newest": "the newest of {}",
    "detections": "detections of {}",
    "episodes": "episodes of {}",
    "matches": "matches of {}",
    "kept": "matches of {} while they are valid",
    "facts": "facts {}",
}

AtNode = Callable[[PlanPart], str]
"""What follows the line of a part."""


def rule_lines(one: PlannedRule, others: Sequence[PlannedRule], n_sampled: int | None = None) -> Iterator[str]:
    """Everything that is known of a rule before it runs. `others` are the rules of its file; `n_sampled` is the number
    of events from which sizes were estimated."""
    yield f"rule {one.rule.name}"
    yield ""
    yield f"  {tier_text(one.rule)}"
    yield f"  plan: {order_text(one)}"
    yield from (f"    {line}" for line in tree_lines(one, estimate))
    told = "guesses" if n_sampled is None else f"a sample of {counted(n_sampled, 'event')}"
    facts = " and the files of facts" if one.fixed else ""
    yield f"  sizes: tuples at a time, by {told}{facts}"
    shared = list(shared_lines(one, others))
    if shared:
        yield "  shared"
        yield from (f"    {line}" for line in shared)
    yield f"  on Spark: {placement_text(one)}"
    yield "  kept"
    fixed = [member.of for member in one.members if member.over == "facts" and member.of in one.fixed]
    yield from (f"    {line}" for line in times_text(one.rule, one.times, one.ticks_per_s, fixed))
    if one.rule.once_for:
        yield f"    that {' and '.join(one.rule.once_for)} had a match: as long as another can come"


def placement_text(one: PlannedRule) -> str:
    """Where a rule runs when entities are spread over tasks, and why there."""
    where = {"by entity": "by entity", "by place": "by place", "together": "in one task"}[one.placement.where]
    told = f"{where}, since {one.placement.why}"
    if where != "in one task" or one.key is None:
        return told
    streams = ", or a stream has several workers" if one.has_key_in_streams else ""
    return f"{told}; where events are many{streams}, in parts by {one.key}"


def order_text(one: PlannedRule) -> str:
    """The order in which a rule joins its members, as `--plan` takes it."""
    return text_of(one.plan.tree, one.plan.query)


def tier_text(rule: m.Rule) -> str:
    """The tier of a rule, and what comes before it."""
    members = (*rule.members, *(member for unless in rule.unless for member in unless.members))
    read = dict.fromkeys(one.of or "the events" for one in members)
    kept = ", kept: its matches begin and end" if rule.kept else ""
    return f"tier {rule.tier}: reads {', '.join(read)}{kept}"


def tree_lines(one: PlannedRule, at_node: AtNode) -> Iterator[str]:
    """The plan as a tree, each part with what `at_node` says of it."""
    yield from _lines(one.plan.root, one, at_node, "", "")


def _lines(part: PlanPart, one: PlannedRule, at_node: AtNode, first: str, rest: str) -> Iterator[str]:
    told = at_node(part)
    yield f"{first}{part_text(part, one)}{f'  ({told})' if told else ''}"
    for nth, inner in enumerate(part.parts):
        is_last = nth == len(part.parts) - 1
        branch, below = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        yield from _lines(inner, one, at_node, rest + branch, rest + below)


def part_text(part: PlanPart, one: PlannedRule) -> str:
    """What a part does: a selection, a join with what it looks up, an antijoin."""
    query, ticks = one.plan.query, one.ticks_per_s
    if not part.parts:
        member = one.members[part.members[0]]
        asked = conditions_text(part.where[0], query, ticks)
        ranges = _RANGES[member.over].format(member.of or "the stream")
        return f"{member.name}: {ranges}{f' where {asked}' if asked else ''}"
    texts = []
    for links, where in zip(part.links, part.where, strict=True):
        looked_up = conditions_text(links, query, ticks)
        checked = conditions_text([other for other in where if other not in links], query, ticks)
        texts.append(f"on {looked_up}" if looked_up else "every combination")
        texts[-1] += f", where {checked}" if checked else ""
    if not part.absences:
        return f"join {texts[0]}"
    sides = []
    for inner, text in zip(part.parts[1:], texts, strict=True):
        names = " ".join(query.members[member].name for member in inner.members)
        sides.append(f"{names if len(inner.members) == 1 else f'({names})'} {text}")
    waits = "" if query.kept else ", once the clock has passed"
    return f"antijoin with {' and with '.join(sides)}{waits}"


def estimate(part: PlanPart) -> str:
    """How many tuples of a part the planner expects at a time."""
    return "" if part.node.estimate is None else f"about {number_text(part.node.estimate)}"


def number_text(number: float) -> str:
    """A number that is not exact: whole from 10 on, with three digits below."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.3g}"


def shared_lines(one: PlannedRule, others: Sequence[PlannedRule]) -> Iterator[str]:
    """The largest parts that other rules use as well."""
    yield from _shared(one.plan.root, one, others)


def _shared(part: PlanPart, one: PlannedRule, others: Sequence[PlannedRule]) -> Iterator[str]:
    sharing = one.sharing(part, others)
    if sharing:
        names = " ".join(one.plan.query.members[member].name for member in part.members)
        yield f"{names}: with {', '.join(sharing)}"
        return
    for inner in part.parts:
        yield from _shared(inner, one, others)
