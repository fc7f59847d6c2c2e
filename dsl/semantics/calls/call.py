"""A call becomes its meaning: of a function of the language, of one that a user wrote in Python, or of none."""

from __future__ import annotations

from collections.abc import Sequence

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.borrowed_names import FUNCTIONS, IN_PREFIX_FORM, PREFIX_HEADS
from wayeb_py.dsl.functions import USAGE, ways_to_call
from wayeb_py.dsl.semantics import quantities
from wayeb_py.dsl.semantics.calls.arguments import wrong_count
from wayeb_py.dsl.semantics.calls.one_entity import call_of_one
from wayeb_py.dsl.semantics.calls.pairs import call_of_pair
from wayeb_py.dsl.semantics.context import Context
from wayeb_py.dsl.semantics.scope import KIND_NAMES, text_at
from wayeb_py.dsl.semantics.typed_expressions import WRONG, Predicated, Regexed, Result, Valued, Wrong
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.errors import Span


def call(c: Context, node: t.Call, parts: Sequence[Result]) -> Result:
    """The meaning of a call; `parts` are the results of its arguments, without the names of places and entities."""
    if ways_to_call(node.function):
        return call_of_pair(c, node, parts) if c.pair is not None else call_of_one(c, node, parts)
    return call_of_user(c, node, parts)


def call_of_user(c: Context, node: t.Call, parts: Sequence[Result]) -> Result:
    """A call of a function that the user wrote, or that does not exist."""
    signature = c.scope.functions.get(node.function)
    if signature is None:
        return _unknown(c, node, parts)
    return _user_call(c, node, parts, signature)


def _unknown(c: Context, node: t.Call, parts: Sequence[Result]) -> Wrong:
    name = node.function
    if name in c.scope.broken:
        return WRONG
    if name in c.scope.lets:
        let = c.scope.results.get(name)
        if isinstance(let, (Predicated, Regexed)):
            inner = text_at(c.source, Span(node.name_span.end, node.span.end))
            c.error(
                f"a `;` is missing between `{name}` and `{inner}`",
                Span(node.name_span.end, node.name_span.end + 1),
                "nothing joins the two",
                "write `;` for one event after the other",
            )
        elif let is not None and not isinstance(let, Wrong):
            c.error(f"`{name}` is not a function", node.name_span, "the name of a `let`")
        return WRONG
    if name in PREFIX_HEADS:
        message, label, remedy = IN_PREFIX_FORM
        return c.error(message, node.name_span, label, remedy)
    hint = FUNCTIONS.get(name.lower()) or c.report.suggest(name, [*USAGE, *c.scope.functions])
    return c.error(f"unknown function `{name}`", node.name_span, "no function has this name", hint)


def _user_call(c: Context, node: t.Call, parts: Sequence[Result], signature: m.Signature) -> Result:
    if len(parts) != len(signature.operands):
        return wrong_count(c, node, f"{signature.name}({', '.join(signature.operands)})")
    values: list[m.Value] = []
    for part, argument, kind in zip(parts, node.arguments, signature.operands, strict=True):
        value = quantities.as_value(c, part, argument, f"given to `{signature.name}`")
        if value is None:
            continue
        if c.want_kind(value, kind, argument.span):
            values.append(value.value)
            continue
        text = text_at(c.source, argument.span)
        c.error(
            f"`{text}` is {KIND_NAMES[value.kind or 'text']}, and `{signature.name}` takes {KIND_NAMES[kind]} here",
            argument.span,
            f"not {KIND_NAMES[kind]}",
        )
    if len(values) < len(parts):
        return WRONG
    if signature.result is None:
        return Predicated(m.PredicateCall(signature.name, tuple(values)))
    return Valued(m.FunctionCall(signature.name, tuple(values), signature.result), signature.result)
