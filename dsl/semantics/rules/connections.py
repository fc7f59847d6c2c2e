"""Whether conditions connect all members of a rule: if not, its matches are every combination of rows.

Any condition that mentions two members connects them, even one on their times. `within` does not: it bounds the
combinations, but does not choose among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.rules.links import members_in
from wayeb_py.dsl.semantics.scope import Diagnostics
from wayeb_py.errors import Note


def groups(members: Sequence[m.Member], conditions: Sequence[m.Condition]) -> list[list[m.Member]]:
    """The members in groups that conditions connect, in the order of the rule."""
    group_of = {member.name: {member.name} for member in members}
    for condition in conditions:
        names = members_in(condition.predicate) & group_of.keys()
        joined = set().union(*(group_of[name] for name in names)) if names else set()
        for name in joined:
            group_of[name] = joined
    found: list[list[m.Member]] = []
    for member in members:
        if not any(member in group for group in found):
            found.append([other for other in members if other.name in group_of[member.name]])
    return found


def check_connections(rule: m.Rule, report: Diagnostics, sizes: Mapping[str, int]) -> None:
    """Reports members that no condition connects; `sizes` holds the known numbers of rows, by name."""
    separate = groups(rule.members, rule.conditions)
    if len(separate) > 1 and not rule.every_combination:
        _report_product(rule, separate, report, sizes)
        return
    if len(separate) == 1 and rule.every_combination:
        report.warn(
            rule.source,
            "conditions connect all members: these are not every combination",
            rule.span,
            "says `every combination of`",
            "leave it out",
        )
    for unless in rule.unless:
        every = (*rule.members, *unless.members)
        own = {member.name for member in rule.members}
        for group in groups(every, (*rule.conditions, *unless.conditions)):
            if not any(member.name in own for member in group):
                _report_unless(rule, group[0], report)
                return


def _report_product(
    rule: m.Rule, separate: list[list[m.Member]], report: Diagnostics, sizes: Mapping[str, int]
) -> None:
    first, second = separate[0][0], separate[1][0]
    known = [sizes.get(member.of) for group in separate for member in group[:1]]
    size = ""
    if all(n is not None for n in known):
        counts = [n for n in known if n is not None]
        size = f": {' × '.join(f'{n:,}' for n in counts)} = {prod(counts):,}"
    report.error(
        rule.source,
        f"no condition connects `{first.name}` and `{second.name}`: every combination of their rows is a match{size}",
        second.span,
        "joined with nothing",
        f"write a condition such as `{_equality(first, second)}`, "
        "or `every combination of` after `:=` if that is meant",
        Note(rule.source, first.span, "and this"),
    )


def _equality(first: m.Member, second: m.Member) -> str:
    """A condition that connects two members, by columns that they have."""

    def column(member: m.Member) -> str:
        if member.over in ("events", "newest", "detections", "episodes"):
            return "entity"
        return member.columns[0].name if member.columns else "…"

    return f"{first.name}.{column(first)} = {second.name}.{column(second)}"


def _report_unless(rule: m.Rule, member: m.Member, report: Diagnostics) -> None:
    report.error(
        rule.source,
        f"no condition connects `{member.name}` with the members of the rule: one row of it prevents every match",
        member.span,
        "joined with nothing",
        f"write a condition such as `{_equality(rule.members[0], member)}`",
    )
