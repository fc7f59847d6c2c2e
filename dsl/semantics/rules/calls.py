"""Calls in a rule: about the row of one member, between two members, and Allen's relations between the times of two.

Functions that look back (`prev`, `held`, `elapsed`, `crossed`, …) need one entity's past, which a row does not
have: such conditions belong in a pattern, whose detections a rule then reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.functions import Function, ways_to_call
from wayeb_py.dsl.semantics.calls.arguments import wrong_count
from wayeb_py.dsl.semantics.calls.call import call_of_user
from wayeb_py.dsl.semantics.calls.one_entity import call_of_one
from wayeb_py.dsl.semantics.rules.context import RuleContext
from wayeb_py.dsl.semantics.scope import text_at
from wayeb_py.dsl.semantics.typed_expressions import WRONG, Predicated, Result, Valued, Wrong
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.units import METRES


def call(c: RuleContext, node: t.Call, parts: Sequence[Result]) -> Result:
    """The meaning of a call; `parts` are the results of those arguments that name neither members nor places."""
    ways = ways_to_call(node.function)
    if not ways:
        return call_of_user(c, node, parts)
    members = members_of(c, node)
    n_others = len(node.arguments) - len(members)
    between = next((way for way in ways if "members of a rule" in way.needs), None)
    of_one = next((way for way in ways if not way.of_several), None)
    if between is not None and not n_others and len(members) == len(between.takes):
        return _between(c, node, between, members)
    if of_one is None:
        return wrong_count(c, node, between.usage) if between is not None else _of_pairs(c, node)
    if "previous event" in of_one.needs or "other patterns" in of_one.needs:
        return _of_the_past(c, node)
    if "position" in of_one.needs or of_one.becomes is m.Hour:
        return _of_row(c, node, parts, of_one, members)
    return c.member_alone(members[0]) if members else call_of_one(c, node, parts)


def members_of(c: RuleContext, node: t.Call) -> list[t.Name]:
    """The members that a call names first."""
    found: list[t.Name] = []
    for argument in node.arguments:
        if not isinstance(argument, t.Name) or argument.name not in c.members:
            break
        found.append(argument)
    return found


def _between(c: RuleContext, node: t.Call, way: Function, members: Sequence[t.Name]) -> Result:
    first, second = members
    if first.name == second.name:
        message = f"`{node.function}` is between two members"
        return c.error(message, node.span, "the same member twice", f"it is called as `{way.usage}`")
    if way.becomes is m.Apart:
        if not all(_has_position(c, node, member) for member in members):
            return WRONG
        return Valued(m.Apart(first.name, second.name), "number", METRES, strict=True)
    for member in members:
        if not c.members[member.name].has_time:
            c.error(
                f"`{node.function}` compares times, and what `{member.name}` ranges over has none",
                member.span,
                "valid for a while, and not at one time",
            )
            return WRONG
    return Predicated(_related(c, node.function, first, second))


def _related(c: RuleContext, relation: str, x: t.Name, y: t.Name) -> m.Predicate:
    """Allen's relation of [start_ts, ts] of two members, as comparisons."""
    start, end, other_start, other_end = (
        _time(c, member, column) for member in (x, y) for column in ("start_ts", "ts")
    )
    before, equal = "<", "="
    compared: dict[str, list[tuple[m.Value, str, m.Value]]] = {
        "before": [(end, before, other_start)],
        "meets": [(end, equal, other_start)],
        "overlaps": [(start, before, other_start), (other_start, before, end), (end, before, other_end)],
        "during": [(other_start, before, start), (end, before, other_end)],
        "starts": [(start, equal, other_start), (end, before, other_end)],
        "finishes": [(end, equal, other_end), (other_start, before, start)],
        "same_time": [(start, equal, other_start), (end, equal, other_end)],
    }
    made = tuple(m.Compare("<" if sign == before else "=", a, b) for a, sign, b in compared[relation])
    return made[0] if len(made) == 1 else m.And(made)


def _time(c: RuleContext, member: t.Name, column: str) -> m.Value:
    found = c.column_of_member(member.name, column, member.span)
    assert isinstance(found, Valued)
    return found.value


def _of_row(c: RuleContext, node: t.Call, parts: Sequence[Result], way: Function, members: Sequence[t.Name]) -> Result:
    """A call about the event of one member: where it is, what the hour was."""
    first = next(iter(c.members))
    if not members:
        written = text_at(c.source, node.span).removeprefix(f"{node.function}(")
        c.error(
            f"`{node.function}` is asked of one row, and a rule has several members",
            node.span,
            "whose?",
            f"write `{node.function}({first}, {written}`",
        )
        return WRONG
    member, *more = members
    if more and "position" in way.needs and len(members) == 2 and way.becomes is not m.Hour:
        label = f"`{more[0].name}` is a member of the rule, and `{node.function}` is asked of places"
        apart = f"distance({member.name}, {more[0].name}) < 500 m"
        return c.error(f"`{node.function}` does not compare two members", node.span, label, f"write `{apart}`")
    if more or not way.accepts(len(node.arguments) - 1):
        name, _, arguments = way.usage.partition("(")
        return wrong_count(c, node, f"{name}({first}, {arguments}")
    rows = c.members[member.name]
    if "position" in way.needs and not _has_position(c, node, member):
        return WRONG
    if way.becomes is m.Hour:
        if not rows.has_time:
            label = "valid for a while, and not at one time"
            return c.error(f"what `{member.name}` ranges over has no time", member.span, label)
        _time(c, member, "ts")
    own, c.scope = c.scope, replace(c.scope, stream=rows.scope.stream)
    try:
        result = call_of_one(c, replace(node, arguments=node.arguments[1:]), parts)
    finally:
        c.scope = own
    if isinstance(result, Predicated):
        return Predicated(m.HoldsOf(member.name, result.predicate), placed=True)
    if isinstance(result, Valued):
        return Valued(m.Of(member.name, result.value), result.kind, result.unit, result.strict)
    return result


def _has_position(c: RuleContext, node: t.Call, member: t.Name) -> bool:
    """Whether a member's rows have a position; reports an error if not."""
    rows = c.members[member.name]
    position = rows.scope.stream.position
    if position is None:
        if not rows.scope.stream_is_broken:
            c.error(
                f"`{node.function}` needs a position, and the rows of `{member.name}` have none",
                member.span,
                "asks where a row is",
                "declare it in the stream block: `position lon, lat`"
                if rows.over in ("events", "newest", "detections", "episodes")
                else None,
            )
        return False
    for column in position:
        c.column_of_member(member.name, column, member.span)
    return True


def _of_pairs(c: RuleContext, node: t.Call) -> Wrong:
    c.error(
        f"`{node.function}` is about a pair of entities",
        node.name_span,
        "a rule has rows, and not pairs that move",
        "ask for it in a pattern `for each pair`, and take its detections as a member",
    )
    return WRONG


def _of_the_past(c: RuleContext, node: t.Call) -> Wrong:
    c.error(
        f"`{node.function}` is about one entity's own past, and a row has none",
        node.name_span,
        "asks for what was before",
        "ask for it in a pattern P, and take its detections as a member: `p: P`",
    )
    return WRONG
