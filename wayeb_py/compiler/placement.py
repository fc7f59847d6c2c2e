"""Where each pattern and rule of a file can run when entities are spread over tasks, and why there.

    by entity   a task has all events of some entities: patterns of one entity, and rules whose rows all share it
    by place    a task has all events of entities that are ever near some others: pairs
    together    one task has all events: rules that join rows of different entities

A rule runs by entity where its conditions say that all its rows, those of an `unless` too, have the same `entity`;
files of facts go to every task, so they need nothing. What is kept, reads other rules, or follows facts that a
stream changes runs together. Nothing here changes what a rule finds: it says only which rows can meet.

Rules that are together here may be matched in a second stage, over rows that were made where events are, by another
column than the key: see `rule_keys`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.compiler.rule_inputs import facts_of, members_of
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.rules.links import links_of

Where = Literal["by entity", "by place", "together"]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a pattern or a rule runs, and why there."""

    name: str
    where: Where
    why: str


def place_all(patterns: CompiledPatterns) -> tuple[Placement, ...]:
    """Where each reported pattern and rule runs, in the order of the file."""
    reported = patterns.meaning.patterns[: patterns.n_reported]
    rules = [rule for rule in patterns.meaning.rules if rule.name in patterns.rule_names]
    return (*map(_place_pattern, reported), *(place_rule(rule, patterns.meaning) for rule in rules))


def _place_pattern(pattern: m.Pattern) -> Placement:
    if pattern.pair is not None:
        return Placement(pattern.name, "by place", "a pair has events of two entities that are near each other")
    return Placement(pattern.name, "by entity", "it looks at one entity")


def place_rule(rule: m.Rule, meaning: m.Meaning) -> Placement:
    """Where a rule runs."""
    hindrance = _hindrance(rule, meaning)
    if hindrance is not None:
        return Placement(rule.name, "together", hindrance)
    happening = [one.name for one in members_of(rule) if one.over != "facts"]
    apart = _apart(rule, happening)
    if apart is not None:
        first, other = apart
        return Placement(rule.name, "together", f"nothing says that `{first}` and `{other}` have the same entity")
    if len(happening) == 1:
        return Placement(rule.name, "by entity", f"`{happening[0]}` is its only member that is no fact")
    return Placement(rule.name, "by entity", "all its members have the same entity")


def _hindrance(rule: m.Rule, meaning: m.Meaning) -> str | None:
    """What keeps a rule from running by entity, whatever its conditions say."""
    if rule.kept:
        return "it is kept"
    for member in members_of(rule):
        if member.over in ("matches", "kept"):
            return f"`{member.name}` is a match of the rule `{member.of}`"
        if member.over == "facts" and facts_of(meaning, member.of).stream is not None:
            return f"a stream changes the facts `{member.of}`"
        if member.over in ("detections", "episodes"):
            pattern = next(one for one in meaning.patterns if one.name == member.of)
            if pattern.pair is not None:
                return f"`{member.name}` is a pair"
    return None


def _apart(rule: m.Rule, names: list[str]) -> tuple[str, str] | None:
    """Two members that need not have the same entity; None where all have.

    What a rule's own conditions say holds for the rows of each `unless` as well.
    """
    group = {name: name for name in names}

    def join(conditions: tuple[m.Condition, ...], known: dict[str, str]) -> dict[str, str]:
        known = dict(known)
        for key in links_of(conditions).keys:
            if len(key.equal) == 1 and all(_is_entity(value) for value in key.equal[0]):
                one, other = known.get(key.first), known.get(key.second)
                if one is not None and other is not None:
                    known = {name: one if of == other else of for name, of in known.items()}
        return known

    own = join(rule.conditions, group)
    scopes = [([one.name for one in rule.members], own)]
    scopes += [
        ([one.name for one in (*rule.members, *unless.members)], join(unless.conditions, own)) for unless in rule.unless
    ]
    for members, known in scopes:
        here = [name for name in members if name in known]
        for name in here[1:]:
            if known[name] != known[here[0]]:
                return here[0], name
    return None


def _is_entity(value: m.Value) -> bool:
    return isinstance(value, m.Of) and isinstance(value.operand, m.Attribute) and value.operand.name == "entity"
