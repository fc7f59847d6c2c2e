"""The rules of a file become plans to look at: the engine plans them as it does for a run, without running them.

So `explain` shows what `run` runs. Without events neither types nor the unit of times are known: a stream then counts
in the unit that it declares, or in seconds.

*Not taken*: planning from the queries alone. The engine chooses by the sizes of the files of facts, which it has read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from wayeb_py.compiler.placement import Placement, place_rule
from wayeb_py.compiler.rule_keys import RuleKey, key_in_streams, shared_key
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.rules.times.lifetimes import RuleTimes
from wayeb_py.errors import UsageError
from wayeb_py.rules.network import Network
from wayeb_py.rules.planning.plan import Plan, PlanPart

if TYPE_CHECKING:

    from wayeb_py.compiler.patterns import CompiledPatterns
    from wayeb_py.engine.recogniser import Recogniser
    from wayeb_py.engine.rules.bound_rules import Running


@dataclass(frozen=True, slots=True)
class PlannedRule:
    """A rule with its plan in a network that it may share with others."""

    rule: m.Rule
    plan: Plan
    network: Network
    times: RuleTimes
    ticks_per_s: int
    placement: Placement
    fixed: tuple[str, ...] = ()  # the facts that a file gives, which never change
    key: RuleKey | None = None  # the key that all rows share
    has_key_in_streams: bool = False  # whether a stream with several workers matches it by a key as well

    @property
    def members(self) -> tuple[m.Member, ...]:
        """The rule's own members and those of each `unless`, in the order of their numbers."""
        return (*self.rule.members, *(member for unless in self.rule.unless for member in unless.members))

    def sharing(self, part: PlanPart, others: Sequence[PlannedRule]) -> list[str]:
        """The other rules that use the node of a part."""
        return [
            other.rule.name
            for other in others
            if other is not self
            and other.network is self.network
            and any(one.node is part.node for one in other.plan.root.every())
        ]


def planned_rules(running: Running) -> list[PlannedRule]:
    """The rules of running networks, in the order of the file."""
    found = []
    for rule in running.plans.rules:
        network = (running.kept if rule.kept else running.in_time).network
        times = running.plans.times[rule.name]
        plan, ticks = network.plans[rule.name], running.ticks_per_s
        placement = place_rule(rule, running.meaning)
        key = shared_key(rule, running.meaning)
        streams = key_in_streams(rule, running.meaning) is not None
        found.append(PlannedRule(rule, plan, network, times, ticks, placement, running.fixed, key, streams))
    return found


def plan_rules(patterns: CompiledPatterns, forced: Mapping[str, str] | None = None) -> list[PlannedRule]:
    """The plans of a file's rules, before any event; `forced` are orders of joins by rule."""
    from wayeb_py.engine.recogniser import Recogniser  # for start-up time

    if not patterns.meaning.rules:
        return []
    return planned_rules(running_of(Recogniser(patterns, plans=forced)))


def running_of(recogniser: Recogniser) -> Running:
    """The networks of a recogniser's rules."""
    assert recogniser.rules is not None
    return recogniser.rules.running


def read_plans(texts: Sequence[str], rules: Sequence[str]) -> dict[str, str]:
    """`RouteSensor: follows target` and the like by the names of rules; UsageError for text of another form."""
    found: dict[str, str] = {}
    for text in texts:
        name, sign, order = (part.strip() for part in text.partition(":"))
        if not sign or not order:
            raise UsageError(
                f"`--plan {text}` does not say in which order a rule joins its members",
                hint='write the rule and its members: --plan "Rule: a b c"',
            )
        if name not in rules:
            near = get_close_matches(name, rules, n=1)
            told = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(rules)}" if rules else None
            raise UsageError(f"`--plan {text}`: no rule is called `{name}`", hint=told)
        if name in found:
            raise UsageError(f"there are two plans of the rule `{name}`", hint="leave one of them out")
        found[name] = order
    return found
