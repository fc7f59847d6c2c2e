"""All patterns and rules of a file, or one of them, become one text: automata first, plans after them, levels last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from wayeb_py.compiler.explain import explain
from wayeb_py.explained_plans.drawing import dot_plan, mermaid_plan
from wayeb_py.explained_plans.level_text import level_lines
from wayeb_py.explained_plans.plan_text import estimate, order_text, rule_lines
from wayeb_py.explained_plans.plans import PlannedRule, plan_rules

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns
    from wayeb_py.run.sources import Paths

Form = Literal["table", "dot", "mermaid"]


def explain_file(patterns: CompiledPatterns, name: str | None, form: Form) -> str:
    """The text of all patterns and rules, or of the one with this name."""
    parts = []
    if patterns.names and name not in patterns.rule_names:
        parts.append(explain(patterns, name, form))
    if patterns.meaning.rules and name not in patterns.names:
        parts.append(explain_rules(patterns, form, name=name))
    if form == "table" and (levels := level_lines(patterns, name)):
        parts.append("\n".join(levels))
    return "\n\n".join(parts)


def explain_rules(
    patterns: CompiledPatterns,
    form: Form = "table",
    paths: Mapping[str, Paths] | None = None,
    forced: Mapping[str, str] | None = None,
    name: str | None = None,
) -> str:
    """The plans of the rules, or of the one with this name; a sample of the events, if any, gives the sizes."""
    cheapest: Mapping[str, str] = {}
    n_sampled = None
    if paths:
        from wayeb_py.explained_plans.measured_run import plan_by_sample  # for start-up time: it reads events

        sampled = plan_by_sample(patterns, paths, forced)
        rules, cheapest, n_sampled = sampled.rules, sampled.cheapest, sampled.n_events
    else:
        rules = plan_rules(patterns, forced)
    names = patterns.rule_names if name is None else (name,)
    shown = [one for one in rules if one.rule.name in names]
    if form == "table":
        return "\n\n".join("\n".join(_lines(one, rules, cheapest, n_sampled)) for one in shown)
    return (dot_plan if form == "dot" else mermaid_plan)(shown, estimate)


def _lines(
    one: PlannedRule, rules: list[PlannedRule], cheapest: Mapping[str, str], n_sampled: int | None
) -> Iterator[str]:
    yield from rule_lines(one, rules, n_sampled)
    name, order = one.rule.name, order_text(one)
    if cheapest.get(name, order) != order:
        yield f'  by this sample another order is cheaper: --plan "{name}: {cheapest[name]}"'
