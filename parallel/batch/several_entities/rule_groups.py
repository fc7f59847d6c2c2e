"""Rules become groups, and the rows of a group meet by a key that all its rules share, or in one part.

    sizes of tables ─┐
    keys of a rule  ─┴─▶ the key with which the fewest rows have to be everywhere ──▶ rules of the same key, one group

A member without a key column is in every part if its table is small. Rules that read each other, and rules over
facts alone, stay together in one part, as does every rule for which no key serves. Rows of detections are few beside
the events that they were found in, so that even one part has little to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.compiler.rule_inputs import facts_of, members_of, rules_read
from wayeb_py.compiler.rule_keys import RuleKey, keys_of, makes, routes_by, table_read, tables_read
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.wording import counted
from wayeb_py.engine.rules.inputs import RuleInputs
from wayeb_py.parallel.wire.keyed_rows import Routes, are_dealt_alike, bound_inputs

SMALL_ROWS = 100_000  # rows that may be in every part


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules whose rows meet in the same parts: by table, the column that says in which; None says in all of them.

    `read` are the rules themselves and those whose matches they read.
    """

    names: tuple[str, ...]
    read: tuple[str, ...]
    routes: Routes
    n_parts: int
    why: str


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many rows there are at most: of streams, by the footers of files or guessed from their size, and of facts."""

    n_events: Mapping[str, int]
    n_facts: Mapping[str, int]

    def of(self, member: m.Member, meaning: m.Meaning) -> int | None:
        """The most rows of a member; None where nothing bounds them: an event may end any number of pairs."""
        if makes("pairs", member, meaning):
            return None
        if member.over == "facts":
            facts = facts_of(meaning, member.of)
            return self.n_facts.get(member.of, 0) if facts.stream is None else self.n_events.get(facts.stream, 0)
        if member.over in ("events", "newest"):
            return self.n_events.get(member.of, 0)
        pattern = next(one for one in meaning.patterns if one.name == member.of)
        return self.n_events.get(meaning.stream_of(pattern).name or "", 0)


def group_rules(
    patterns: CompiledPatterns, schemas: Mapping[str, pa.Schema], names: Iterable[str], n_parts: int,
    n_events: Mapping[str, int],
) -> tuple[RuleGroup, ...]:  # fmt: skip
    """The groups of the rules with these names, and the reason for each."""
    meaning, wanted = patterns.meaning, set(names)
    rules = [rule for rule in meaning.rules if rule.name in wanted]
    inputs = bound_inputs(patterns, schemas)
    sizes = Sizes(n_events, {name: len(next(iter(file.values()))) for name, file in inputs.files.items()})
    groups: list[RuleGroup] = []
    for rule in rules:
        one = _group(rule, rules, inputs, n_parts, sizes)
        for place, other in enumerate(groups):
            merged = _merged(other, one)
            if merged is not None:
                groups[place] = merged
                break
        else:
            groups.append(one)
    return tuple(groups)


def can_move(rule: m.Rule, meaning: m.Meaning) -> bool:
    """Whether a rule, and those that it reads, find the same over rows that several tasks have made.

    A task cannot know which of two pairs at one time was reported first, so a rule with `once for`, which keeps the
    first match, may give another answer there.
    """
    read = [one for one in meaning.rules if one.name in rules_read(meaning.rules, (rule.name,))]
    return all(
        name in one.once_for
        for one in read
        if one.once_for
        for name in (member.name for member in one.members if makes("pairs", member, meaning))
    )


def _group(rule: m.Rule, rules: list[m.Rule], inputs: RuleInputs, n_parts: int, sizes: Sizes) -> RuleGroup:
    meaning = inputs.meaning
    why = _tied(rule, rules)
    if why is None and n_parts > 1:
        served = []
        for key in keys_of(rule, meaning):
            routes = routes_by(rule, key, meaning)
            n_everywhere = [sizes.of(member, meaning) for member in key.others]
            if routes is not None and are_dealt_alike(rule, key, inputs) and None not in n_everywhere:
                served.append((sum(n or 0 for n in n_everywhere), key, routes))
        best = min(served, key=lambda one: one[0], default=None)
        if best is not None and best[0] <= SMALL_ROWS:
            return RuleGroup((rule.name,), (rule.name,), best[2], n_parts, _by_key(rule, best[1], meaning, sizes))
        why = _no_key(rule, meaning, best, sizes)
    read = [one for one in meaning.rules if one.name in rules_read(meaning.rules, (rule.name,))]
    everywhere: dict[str, str | None] = dict.fromkeys(tables_read(read, meaning))
    return RuleGroup((rule.name,), tuple(one.name for one in read), everywhere, 1, why or "there is one worker")


def _tied(rule: m.Rule, rules: list[m.Rule]) -> str | None:
    """Why a rule has to be with others, or alone."""
    if rule.kept:
        return "it is kept"
    for member in members_of(rule):
        if member.over in ("matches", "kept"):
            return f"`{member.name}` is a match of the rule `{member.of}`"
    for other in rules:
        if any(member.over in ("matches", "kept") and member.of == rule.name for member in members_of(other)):
            return f"the rule `{other.name}` reads its matches"
    return None


def _by_key(rule: m.Rule, key: RuleKey, meaning: m.Meaning, sizes: Sizes) -> str:
    told = f"by {key}" if len(key.columns) > 1 else f"by {key}, the only member that is not everywhere"
    facts = [member for member in members_of(rule) if table_read(member, meaning) is None]
    everywhere = [f"`{one.name}` ({_rows(sizes.of(one, meaning))})" for one in (*key.others, *facts)]
    return f"{told}, with {', '.join(everywhere)} in every part" if everywhere else told


def _no_key(rule: m.Rule, meaning: m.Meaning, best: tuple[int, RuleKey, object] | None, sizes: Sizes) -> str:
    moving = [member for member in members_of(rule) if table_read(member, meaning) is not None]
    if not moving:
        return "it reads nothing that is spread"
    if best is None:
        names = ", ".join(f"`{member.name}` ({_rows(sizes.of(member, meaning))})" for member in moving)
        return f"no key serves for {names}"
    names = ", ".join(f"`{member.name}` ({_rows(sizes.of(member, meaning))})" for member in best[1].others)
    return f"{best[1]} says nothing of {names}, and more than {SMALL_ROWS:,} rows do not go everywhere"


def _rows(n: int | None) -> str:
    return "pairs, of any number" if n is None else f"at most {n:,} row{'s' if n != 1 else ''}"


def _merged(one: RuleGroup, other: RuleGroup) -> RuleGroup | None:
    """Two groups as one, where tables that both read are dealt alike; None where they are not."""
    if one.n_parts != other.n_parts:
        return None
    if any(other.routes[table] != column for table, column in one.routes.items() if table in other.routes):
        return None
    if one.n_parts > 1 and one.why != other.why:  # each group says what it chose
        return None
    read = tuple(dict.fromkeys((*one.read, *other.read)))
    why = one.why if one.why == other.why else f"{one.why}; {other.why}"
    return replace(one, names=(*one.names, *other.names), read=read, routes={**one.routes, **other.routes}, why=why)


def describe_groups(groups: Iterable[RuleGroup]) -> list[str]:
    """What each group is, and why, in the words of a plan."""
    found = []
    for group in groups:
        names = ", ".join(f"`{name}`" for name in group.names)
        if group.n_parts > 1:
            found.append(f"the rows of {names} in {counted(group.n_parts, 'part')} {group.why}")
        else:
            found.append(f"the rows of {names} in one task, since {group.why}")
    return found
