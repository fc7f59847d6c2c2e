"""All rules of the files become their meaning: sorted, resolved, given tiers, and their bounds checked.

Each comes after those that it reads; rules that read each other in a circle are an error that lists the circle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.names import DeclaredNames
from wayeb_py.dsl.semantics.patterns import clocks_of, warn_of_lateness
from wayeb_py.dsl.semantics.rules.connections import check_connections
from wayeb_py.dsl.semantics.rules.rows import Inputs
from wayeb_py.dsl.semantics.rules.rule import Lets, resolve_rule
from wayeb_py.dsl.semantics.rules.times.bounds import check_times, ticks_per_s
from wayeb_py.dsl.semantics.rules.times.lifetimes import RuleTimes
from wayeb_py.dsl.semantics.scope import Diagnostics, Scope
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.errors import Note, SourceText

Scopes = Mapping[str | None, Scope]
FactScopes = Mapping[str, tuple[m.Facts, Scope]]
Declared = Mapping[str, tuple[t.Rule, SourceText]]


def resolve_rules(
    scopes: Scopes, facts: FactScopes, patterns: Sequence[m.Pattern], gathered: DeclaredNames, ordered: Lets
) -> list[m.Rule]:
    """The meaning of all rules, each after those that it reads; those with an error are reported and left out."""
    report = next(iter(scopes.values())).report
    inputs = Inputs(
        scopes,
        {pattern.name: pattern for pattern in patterns},
        facts,
        {},
        gathered.patterns,
        gathered.rules,
        frozenset(gathered.broken | gathered.broken_patterns | (gathered.facts.keys() - facts.keys())),
        report,
    )
    for rule, source in _ordered(gathered.rules, report):
        made = resolve_rule(rule, source, inputs, gathered, ordered)
        if made is not None:
            inputs.rules[made.name] = made
    return list(inputs.rules.values())


def check_rules(
    rules: Sequence[m.Rule],
    scopes: Scopes,
    facts: FactScopes,
    patterns: Sequence[m.Pattern],
    sizes: Mapping[str, int],
) -> None:
    """Reports what conditions leave open: members that nothing connects, and times that nothing bounds."""
    by_name = {pattern.name: pattern for pattern in patterns}
    clocks = {stream for pattern in patterns for stream in clocks_of(pattern)}
    streams = [scope.stream for scope in scopes.values()]
    report = next(iter(scopes.values())).report
    known: dict[str, RuleTimes] = {}
    for rule in rules:
        check_connections(rule, report, sizes)
        times = check_times(rule, known, ticks_per_s(streams), report)
        if times is not None:
            known[rule.name] = times
        streams_read = _streams_read(rule, by_name, facts)
        warn_of_lateness(scopes, streams_read, (rule.source, rule.span), f"`{rule.name}` is a rule", clocks)


def with_tiers_of_rules(rules: Sequence[m.Rule], patterns: Sequence[m.Pattern]) -> list[m.Rule]:
    """The rules, each with its tier."""
    by_name = {pattern.name: pattern for pattern in patterns}
    made: dict[str, m.Rule] = {}
    for rule in rules:
        made[rule.name] = replace(rule, tier=_tier(rule, by_name, made))
    return list(made.values())


def _streams_read(rule: m.Rule, patterns: Mapping[str, m.Pattern], facts: FactScopes) -> Iterator[str | None]:
    """The streams whose clocks a rule needs, besides those of the rules that it reads."""
    every = (*rule.members, *(member for unless in rule.unless for member in unless.members))
    for member in every:
        if member.over in ("events", "newest"):
            yield member.of
        elif member.over in ("detections", "episodes"):
            yield patterns[member.of].stream
        elif member.over == "facts" and facts[member.of][0].stream is not None:
            yield facts[member.of][0].stream


# Tiers.


def _ordered(declared: Declared, report: Diagnostics) -> list[tuple[t.Rule, SourceText]]:
    """The rules, each after those that it reads; those in a circle, and those that read them, are left out."""
    ordered: list[str] = []
    wrong: set[str] = set()
    for root in declared:
        path: list[tuple[str, list[str]]] = []
        if root not in ordered and root not in wrong:
            path.append((root, _read_by(declared[root][0], declared)))
        while path:
            name, rest = path[-1]
            if rest:
                asked = rest.pop(0)
                way = [step for step, _ in path]
                if asked in way:
                    circle = way[way.index(asked) :]
                    wrong.update(circle)
                    _report_circle(circle, declared, report)
                elif asked not in ordered and asked not in wrong:
                    path.append((asked, _read_by(declared[asked][0], declared)))
                continue
            path.pop()
            if wrong.intersection(_read_by(declared[name][0], declared)):
                wrong.add(name)
            if name not in wrong:
                ordered.append(name)
    return [declared[name] for name in ordered]


def _tier(rule: m.Rule, patterns: Mapping[str, m.Pattern], rules: Mapping[str, m.Rule]) -> int:
    """One more than the highest tier that a rule reads; streams and facts have none."""
    every = (*rule.members, *(member for unless in rule.unless for member in unless.members))
    read = [0]
    for member in every:
        if member.over in ("detections", "episodes"):
            read.append(patterns[member.of].tier)
        elif member.over in ("matches", "kept"):
            read.append(rules[member.of].tier)
    return 1 + max(read)


def _read_by(rule: t.Rule, declared: Declared) -> list[str]:
    """The rules that a rule reads, in the order of its text."""
    every = (*rule.members, *(member for unless in rule.unless for member in unless.members))
    return list(dict.fromkeys(member.of for member in every if member.of in declared))


def _report_circle(circle: list[str], declared: Declared, report: Diagnostics) -> None:
    first, source = declared[circle[0]]
    if len(circle) == 1:
        report.error(
            source,
            f"the rule `{first.name}` reads itself",
            first.name_span,
            "has matches only after it is known whether it has",
        )
        return
    second, second_source = declared[circle[1]]
    way = " → ".join(f"`{name}`" for name in [*circle, circle[0]])
    report.error(
        source,
        f"these rules read each other: {way}",
        first.name_span,
        f"reads `{circle[1]}`",
        "a rule reads only what can be known before it: leave one of the steps out",
        Note(second_source, second.name_span, f"which reads `{circle[2 % len(circle)]}`"),
    )
