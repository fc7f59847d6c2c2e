"""Calls in a pattern over pairs: whose event a function is about, and what is measured between the two.

A function of one entity's event takes `a` or `b` before its own arguments. `near`, `inside`, `crossed` and `passed` may
leave it out: then the predicate must hold of both. Functions that look back (`prev`, `held`, `elapsed`) follow the
pair's word and take neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.functions import Function, ways_to_call
from wayeb_py.dsl.semantics.calls.arguments import wrong_count
from wayeb_py.dsl.semantics.calls.one_entity import call_of_one, not_here
from wayeb_py.dsl.semantics.context import Context
from wayeb_py.dsl.semantics.pairs import has_motion
from wayeb_py.dsl.semantics.scope import Pairing
from wayeb_py.dsl.semantics.typed_expressions import WRONG, Predicated, Result, Valued, Wrong
from wayeb_py.dsl.syntax import tree as t


def call_of_pair(c: Context, node: t.Call, parts: Sequence[Result]) -> Result:
    """A call of a function of the language in a pattern over pairs."""
    assert c.pair is not None
    ways = ways_to_call(node.function)
    roles = entities_of(c.pair, node)
    n_others = len(node.arguments) - len(roles)
    between = next((way for way in ways if "several entities" in way.needs), None)
    of_one = next((way for way in ways if not way.of_several), None)
    if between is None and of_one is None:
        return not_here(c, node)
    if between is not None and not n_others and len(roles) == len(between.takes):
        return _between(c, node, between, roles)
    if of_one is None or len(roles) > 1:
        return wrong_count(c, node, _usage(c.pair, between or ways[0]))
    if not of_one.whose:
        if roles:
            return _not_a_value(c, node)
        return call_of_one(c, node, parts)
    if of_one.whose == "neither":
        return _not_of_a_pair(c, node)
    if not roles and of_one.whose == "one":
        return _nobody(c, node, of_one)
    if not of_one.accepts(n_others):
        return wrong_count(c, node, _usage(c.pair, between if between is not None and not n_others else of_one))
    inner = replace(node, arguments=node.arguments[len(roles) :])
    found = [_of(c, inner, parts, role) for role in (roles or c.pair.scopes)]
    if any(isinstance(result, Wrong) for result in found):
        return WRONG
    if len(found) == 1:
        return found[0]
    predicates = tuple(result.predicate for result in found if isinstance(result, Predicated))
    return Predicated(m.And(predicates), placed=True)


def entities_of(pair: Pairing, node: t.Call) -> tuple[m.Role, ...]:
    """The entities of the pair that a call names first."""
    roles: list[m.Role] = []
    for argument in node.arguments:
        if not isinstance(argument, t.Name) or argument.name not in pair.roles:
            break
        roles.append(pair.roles[argument.name])
    return tuple(roles)


def _between(c: Context, node: t.Call, way: Function, roles: tuple[m.Role, ...]) -> Result:
    if len(roles) > len(set(roles)):
        return c.error(
            f"`{node.function}` is between the two of a pair",
            node.span,
            "the same entity twice",
            f"write `{_usage(c.pair, way)}`",
        )
    assert c.pair is not None
    assert way.becomes is not None
    if "motion" in way.needs and not has_motion(c.pair, node.function, c.source, node.name_span):
        return WRONG
    part = way.becomes(*roles) if way.becomes in (m.Age, m.Reports, m.Bearing) else way.becomes()
    if way.gives == "predicate":
        return Predicated(part)
    return Valued(part, "number", way.unit, strict=True)


def _of(c: Context, node: t.Call, parts: Sequence[Result], role: m.Role) -> Result:
    """The call about one of the two."""
    assert c.pair is not None
    own, c.scope = c.scope, c.pair.scopes[role]
    try:
        result = call_of_one(c, node, parts)
    finally:
        c.scope = own
    if isinstance(result, Predicated):  # events of a pair have a position: no guard is missing
        return Predicated(m.HoldsOf(role, result.predicate), placed=True)
    if isinstance(result, Valued):
        return Valued(m.Of(role, result.value), result.kind, result.unit, result.strict)
    return result


def _usage(pair: Pairing | None, way: Function) -> str:
    """How a call looks in this pair."""
    first, second = ("a", "b") if pair is None else pair.meaning.variables
    name, _, arguments = way.usage.partition("(")
    if way.whose:
        return f"{name}({first}{'' if arguments == ')' else ', '}{arguments}"
    return f"{name}({', '.join([first, second][: len(way.takes)])})"


def _nobody(c: Context, node: t.Call, way: Function) -> Wrong:
    return c.error(
        f"`{node.function}` is asked of one entity, and a pair has two",
        node.span,
        "whose?",
        f"write `{_usage(c.pair, way)}`",
    )


def _not_of_a_pair(c: Context, node: t.Call) -> Wrong:
    first = "a" if c.pair is None else c.pair.meaning.variables[0]
    return c.error(
        f"`{node.function}` is about one entity's own past, and is not known in a pair",
        node.span,
        "a pattern over pairs",
        f"put it in a pattern P of one entity, and ask for it by `detected({first}, P)`",
    )


def _not_a_value(c: Context, node: t.Call) -> Wrong:
    argument = node.arguments[0]
    assert isinstance(argument, t.Name)
    return c.error(
        f"`{argument.name}` is an entity of the pair, not a value",
        argument.span,
        "a value is expected here",
        f"write for example `{node.function}({argument.name}.speed)`",
    )
