"""Finds what all rows of a rule share: columns that are equal in every match, by which rows can be dealt to tasks.

    x: DepotVisit, y: DepotVisit where x.place = y.place …
    unless l: LeavingDepot where l.place = x.place …          ──▶ the key {x.place, y.place, l.place}

Rows whose key is missing are in no match. A member without a key column has to be everywhere, as files of facts
are: then a match is found exactly where the rows of its own members with a key are. Which tables a rule reads, and who
makes their rows, is here too, for tasks that make rows and tasks that match them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.compiler.rule_inputs import facts_of, members_of
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.rules.links import links_of

Maker = Literal["entities", "pairs"]
P = TypeVar("P", bound=CompiledPatterns)
_TIMES = ("ts", "start_ts", "decided_ts")
_READS = "\x1frows of "  # stands before the name of a rule that only makes its rows
_Place = tuple[str, str]  # a member and a column of it


@dataclass(frozen=True, slots=True)
class RuleKey:
    """The column of each member that is equal in every match, and the members that have no such column."""

    columns: Mapping[str, str]  # the key column of each member
    others: tuple[m.Member, ...]  # members without a key column, except files of facts

    def __str__(self) -> str:
        return " = ".join(f"{member}.{column}" for member, column in self.columns.items())


def table_read(member: m.Member, meaning: m.Meaning) -> str | None:
    """The table of rows that a member is made of; None for files of facts and for what other rules find."""
    if member.over in ("events", "newest"):
        return f"events {member.of}"
    if member.over == "facts":
        stream = facts_of(meaning, member.of).stream
        return None if stream is None else f"events {stream}"
    return f"{member.over} {member.of}" if member.over in ("detections", "episodes") else None


def tables_read(rules: Iterable[m.Rule], meaning: m.Meaning) -> dict[str, None]:
    """The tables of rows that rules read, in the order of their members."""
    found = (table_read(member, meaning) for rule in rules for member in members_of(rule))
    return {table: None for table in found if table is not None}


def keys_of(rule: m.Rule, meaning: m.Meaning) -> list[RuleKey]:
    """The keys of a rule, those with columns of the most members first."""
    moving = [member for member in members_of(rule) if table_read(member, meaning) is not None]
    own = {member.name: None for member in rule.members if member in moving}
    inside = [
        ({member.name for member in unless.members}, _classes((*rule.conditions, *unless.conditions)))
        for unless in rule.unless
    ]
    alone = dict.fromkeys((name, "entity") for name in own)
    alone |= dict.fromkeys(place for _, classes in inside for place in classes if place[0] in own)
    keys: dict[tuple[_Place, ...], RuleKey] = {}
    for places in _classes(rule.conditions, alone).values():
        # What an `unless` says about the rule's own members holds only where its rows are.
        known = {*places, *(one for names, found in inside for one in found.get(places[0], ()) if one[0] in names)}
        columns = {
            member.name: min(column for name, column in known if name == member.name)
            for member in moving
            if member.over != "facts" and any(name == member.name for name, _ in known)
        }
        if own.keys() & columns.keys():
            others = tuple(member for member in moving if member.name not in columns)
            keys[tuple(sorted(known))] = RuleKey(columns, others)
    return sorted(keys.values(), key=lambda key: len(key.others))


def _classes(conditions: tuple[m.Condition, ...], alone: Iterable[_Place] = ()) -> dict[_Place, list[_Place]]:
    """The columns equal to each column, itself included; also for those that stand `alone`."""
    found = {place: [place] for place in alone}
    for key in links_of(conditions).keys:
        if len(key.equal) > 1:  # one of several is enough
            continue
        match key.equal[0]:
            case (m.Of(one, m.Attribute(first)), m.Of(other, m.Attribute(second))):
                if first in _TIMES or second in _TIMES:
                    continue
                merged = [*found.get((one, first), [(one, first)])]
                merged += [place for place in found.get((other, second), [(other, second)]) if place not in merged]
                found |= dict.fromkeys(merged, merged)
    return found


def routes_by(rule: m.Rule, key: RuleKey, meaning: m.Meaning) -> dict[str, str | None] | None:
    """The column of each table that says where a row is needed; None where it is needed everywhere.

    None if the key does not serve: two members read one table by different columns, the newest row of an entity is
    looked up by something else than the entity, or `once for` counts matches of several tasks together.
    """
    if rule.once_for and not any(name in key.columns for name in rule.once_for):
        return None
    routes: dict[str, str | None] = {}
    for member in members_of(rule):
        table, column = table_read(member, meaning), key.columns.get(member.name)
        if table is None:
            continue
        if member.over == "newest" and column not in (None, "entity"):
            return None
        if routes.setdefault(table, column) != column:
            return None
    return routes


def shared_key(rule: m.Rule, meaning: m.Meaning) -> RuleKey | None:
    """A key that all members except files of facts have; None where there is none, or it does not serve."""
    if rule.kept or any(member.over in ("matches", "kept") for member in members_of(rule)):
        return None
    keys = (key for key in keys_of(rule, meaning) if not key.others and len(key.columns) > 1)
    return next((key for key in keys if routes_by(rule, key, meaning) is not None), None)


def key_in_streams(rule: m.Rule, meaning: m.Meaning) -> RuleKey | None:
    """The key by which a stream with several workers matches a rule that joins rows of different entities.

    A stream has no end, so no member may be everywhere except facts of files; and pairs are found where all events are,
    so rules over them are best matched there.
    """
    if any(makes("pairs", member, meaning) for member in members_of(rule)):
        return None
    return shared_key(rule, meaning)


def makes(maker: Maker, member: m.Member, meaning: m.Meaning) -> bool:
    """Whether `maker` makes the rows of a member: the tasks by entity, or those that find pairs."""
    if table_read(member, meaning) is None:
        return False
    if member.over not in ("detections", "episodes"):
        return maker == "entities"
    pattern = next(one for one in meaning.patterns if one.name == member.of)
    return (pattern.pair is None) == (maker == "entities")


def readers(names: Iterable[str]) -> frozenset[str]:
    """What `for_rows` calls rules that only make their rows."""
    return frozenset(_READS + name for name in names)


def for_rows(patterns: P, names: Iterable[str], rules: Collection[str], maker: Maker) -> P:
    """Selects the patterns and rules with these names, and reduces each of `rules` to the members whose rows this kind
    of task makes, under a name of its own (`readers`).

    The rows carry the keys of their entities, by which another task sorts them.
    """
    meaning = patterns.meaning
    found: list[m.Rule] = []
    for rule in meaning.rules:
        members = tuple(_with_keys(one, meaning) for one in members_of(rule) if makes(maker, one, meaning))
        if rule.name in rules and members:
            found.append(replace(rule, name=_READS + rule.name, members=members, conditions=(), unless=(), once_for=(),
                                 emit=(), kept=False))  # fmt: skip
    asked = {rule.name for rule in found}
    chosen = replace(patterns, meaning=replace(meaning, rules=(*meaning.rules, *found))).part({*names, *asked})
    return replace(chosen, hidden_rules=chosen.hidden_rules | asked)


def _with_keys(member: m.Member, meaning: m.Meaning) -> m.Member:
    pattern = next((one for one in meaning.patterns if one.name == member.of), None)
    is_pair = member.over in ("detections", "episodes") and pattern is not None and pattern.pair is not None
    if member.over == "facts":
        return member
    told = {column.name for column in member.columns}
    keys = [name for name in ("entity", *(("other",) if is_pair else ())) if name not in told]
    return replace(member, columns=(*member.columns, *(m.Attribute(name, None) for name in keys)))
