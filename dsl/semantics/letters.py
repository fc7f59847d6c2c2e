"""Predicates and regexes: what may be an operand of `and`, and what may be a letter.

A regex is made of letters, and a letter is a predicate in parentheses or by name. Most slips confuse the two: `;` where
`and` belongs, a predicate without its parentheses, `!` for `not`. This file tells them apart, since it knows what each
operand is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import factorial

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.context import Context
from wayeb_py.dsl.semantics.scope import KIND_NAMES, text_at
from wayeb_py.dsl.semantics.typed_expressions import WRONG, Placed, Predicated, Regexed, Result, Valued, Wrong
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.printer import print_expression
from wayeb_py.errors import SourceText, Span

# What may stand in a regex without parentheses of its own.
_LETTERS = (t.Name, t.Word, t.Parentheses)


def negation(c: Context, node: t.Not, parts: list[Result]) -> Result:
    """`not x`."""
    operand = as_predicate(c, parts[0], node.operand, "not", node.operator_span)
    if operand is None:
        return WRONG
    return Predicated(
        m.Not(operand.predicate), operand.unguarded, operand.lookups, operand.placed_unless, operand.placed
    )


def connective(c: Context, node: t.And | t.Or, parts: list[Result]) -> Result:
    """`x and y`, `x or y`."""
    word = "and" if isinstance(node, t.And) else "or"
    operands: list[Predicated] = []
    for i, (part, operand) in enumerate(zip(parts, node.operands, strict=True)):
        place = node.operator_spans[max(0, i - 1)] if node.operator_spans else node.span
        found = as_predicate(c, part, operand, word, place)
        if found is not None:
            operands.append(found)
        elif isinstance(part, Regexed):
            return WRONG  # one regex is enough to show that `and` is the wrong word
    if len(operands) < len(parts):
        return WRONG
    predicates = tuple(operand.predicate for operand in operands)
    lookups = tuple(place for operand in operands for place in operand.lookups)
    unguarded = tuple(place for operand in operands for place in operand.unguarded)
    all_placed, any_placed = all(o.placed for o in operands), any(o.placed for o in operands)
    all_unless, any_unless = all(o.placed_unless for o in operands), any(o.placed_unless for o in operands)
    if word == "and":
        # `not missing(lon) and not near(…)`: with the guard, the lookup counts only where it has an answer.
        return Predicated(m.And(predicates), lookups, () if any_placed else unguarded, any_placed, all_unless)
    return Predicated(m.Or(predicates), () if any_unless else lookups, unguarded, all_placed, any_unless)


def regex(c: Context, node: t.Expression, parts: list[Result]) -> Result:
    """Sequences, unions, iterations and all other regexes."""
    operands = t.parts_of(node)
    regexes = [as_regex(c, part, operand, node) for part, operand in zip(parts, operands, strict=True)]
    found = [regex for regex in regexes if regex is not None]
    if len(found) < len(parts):
        return WRONG
    warn_of_complements(c, node, operands, found)
    warn_of_laziness(c, node)
    span = node.span
    if is_permutation(node):
        return permutation(c, node, found)
    match node:
        case t.Sequence():
            return Regexed(m.Sequence(tuple(found), span=span))
        case t.Union():
            return Regexed(m.Union(tuple(found), span=span))
        case t.Intersection():
            return Regexed(m.Intersection(tuple(found), span=span))
        case t.Complement():
            return Regexed(m.Complement(found[0], span=span))
        case t.Iteration(at_least=at_least, at_most=at_most):
            return Regexed(m.Iteration(found[0], at_least, at_most, span=span))
        case t.Skip(policy="#"):
            return Regexed(m.SkipAny(tuple(found), span=span))
        case t.Skip():
            return Regexed(m.SkipNext(tuple(found), span=span))
    raise TypeError(f"not an expression: {type(node).__name__}")


MOST_PERMUTED = 6


def is_permutation(node: t.Expression) -> bool:
    """Whether it is `permute(a, b, c)`: a, b and c one after the other, in any order."""
    return isinstance(node, t.Call) and node.function == "permute"


def permutation(c: Context, node: t.Expression, parts: Sequence[m.Regex]) -> Result:
    """The union of all orders; what can follow the same parts is shared, so that it has fewer parts than orders."""
    if len(parts) < 2:
        return c.error("`permute` needs at least two parts", node.span, "nothing to put in another order",
                       "it is called as `permute(a, b, c)`")  # fmt: skip
    if len(parts) > MOST_PERMUTED:
        return c.error(
            f"`permute` takes at most {MOST_PERMUTED} parts, and here are {len(parts)}", node.span,
            f"{len(parts)} parts have {factorial(len(parts)):,} orders",
            "write `#(…)` for parts in one order, or say by `&` that each occurs: "
            "`(any* ; a ; any*) & (any* ; b ; any*)`",
        )  # fmt: skip
    made: dict[tuple[int, ...], m.Regex] = {}
    for size in range(1, len(parts) + 1):
        for left in combinations(range(len(parts)), size):
            ways = [
                m.Sequence((parts[first], made[rest]), span=node.span) if rest else parts[first]
                for first in left
                for rest in [tuple(other for other in left if other != first)]
            ]
            made[left] = ways[0] if len(ways) == 1 else m.Union(tuple(ways), span=node.span)
    return Regexed(made[tuple(range(len(parts)))])


def warn_of_complements(
    c: Context, node: t.Expression, operands: Sequence[t.Expression], found: Sequence[m.Regex]
) -> None:
    """Warns where `!off` stands among letters and `(not off)` is probably meant."""
    if not isinstance(node, (t.Sequence, t.Skip, t.Iteration)):
        return
    for operand, regex in zip(operands, found, strict=True):
        written = _unwrapped(operand)
        if not isinstance(written, t.Complement) or not isinstance(regex, m.Complement):
            continue
        body = _unwrapped(written.operand)
        if not isinstance(regex.body, m.Letter) or isinstance(body, t.Word):
            continue
        whole, inner = text_at(c.source, written.span), text_at(c.source, body.span)
        inner = f"({inner})" if isinstance(body, (t.And, t.Or)) else inner
        c.report.warn(
            c.source,
            f"`{whole}` holds every sequence of any length, the empty one too, except one event that is `{inner}`",
            written.span,
            "the complement of a regex",
            f"write `(not {inner})` for one event that is not",
        )


def warn_of_laziness(c: Context, node: t.Expression) -> None:
    """Warns of `a*?`, which is lazy in regular expressions of text and means `(a*)?` here."""
    if not isinstance(node, t.Iteration) or not isinstance(node.operand, t.Iteration):
        return
    sign = text_at(c.source, node.operator_span)
    if sign not in ("?", "+", "*"):
        return
    once = text_at(c.source, node.operand.span)
    c.report.warn(
        c.source,
        f"`{text_at(c.source, node.span)}` means `({once}){sign}`",
        node.operator_span,
        "a second iteration of what is iterated already",
        "leave it out: where matches start is told by `--longest`; write the parentheses if both are meant",
    )


def as_predicate(c: Context, result: Result, node: t.Expression, word: str, place: Span) -> Predicated | None:
    """The result as an operand of `and`, `or` or `not`; None, and a report, if it cannot be one."""
    match result:
        case Wrong():
            return None
        case Predicated():
            return result
        case Regexed():
            other = {"and": "&", "or": "|", "not": "!"}[word]
            joins = f"`{word}` joins predicates" if word != "not" else "`not` is for a predicate"
            c.error(
                f"{joins}, and `{text_at(c.source, node.span)}` is a regex",
                place,
                "one of its sides is a regex" if word != "not" else "what follows is a regex",
                f"write `{other}` for regexes",
            )
            return None
        case Placed():
            text = text_at(c.source, node.span)
            c.error(
                f"`{text}` are places, not a predicate",
                node.span,
                "not true or false",
                f"write `{_lookup(result, text)}`",
            )
            return None
        case Valued():
            return truth(c, result, node)
    return None


def truth(c: Context, result: Valued, node: t.Expression) -> Predicated | None:
    """A value that is true or false as a predicate."""
    if isinstance(result.value, m.Constant) and result.kind == "bool":
        return Predicated(m.Always() if result.value.value else m.Never())
    if not c.want_kind(result, "bool", node.span):
        text = text_at(c.source, _unwrapped(node).span)
        kind = KIND_NAMES[result.kind or "number"]
        hint = _comparison_hint(text, result, parentheses=isinstance(node, t.Parentheses))
        if isinstance(result.value, m.Constant) and result.kind in ("text", "number"):
            hint = "write `x in {a, b}` for one of several values"
        c.error(f"`{text}` is {kind}, not a predicate", node.span, "not true or false", hint)
        return None
    value = result.value
    if isinstance(value, m.Attribute) and value.kind is None and result.kind is None:
        value = m.Attribute(value.name, "bool", value.unit, span=value.span)
    return Predicated(m.Compare("=", value, m.Constant(True, "bool")))


def as_regex(c: Context, result: Result, node: t.Expression, parent: t.Expression | None) -> m.Regex | None:
    """The result as a part of a regex; None, and a report, if it cannot be one."""
    if isinstance(result, Wrong):
        return None
    if isinstance(result, Regexed):
        return result.regex
    named = isinstance(node, t.Name) and node.name in c.scope.lets
    if (
        isinstance(result, Valued)
        and not isinstance(node, t.Parentheses)
        and not (named and result.kind in ("bool", None))
    ):
        not_a_letter(c, result, node, parent)
        return None
    if isinstance(result, Placed):
        not_a_letter(c, result, node, parent)
        return None
    predicated = as_predicate(c, result, node, "and", node.span)
    if predicated is None:
        return None
    if not isinstance(node, _LETTERS):
        bare_letter(c, node, parent)
        return None
    for source, span in predicated.unguarded:
        warn_of_lookup(c, source, span)
    return m.Letter(predicated.predicate, span=node.span, text=written_text(c.source, _unwrapped(node)))


def written_text(source: SourceText, node: t.Expression) -> str:
    """An expression as the file writes it, on one line and without comments."""
    text = source.text[node.span.start : node.span.end]
    return print_expression(node) if "\n" in text or "//" in text else text


def warn_of_lookup(c: Context, source: SourceText, span: Span) -> None:
    position = c.scope.stream.position
    if position is None:
        return
    c.report.warn(
        source,
        f"`not {text_at(source, span)}` is true of an event without a position",
        span,
        "negated without a guard",
        f"write `not missing({position[0]}) and not …` if such events do not count",
    )


def not_a_letter(c: Context, result: Valued | Placed, node: t.Expression, parent: t.Expression | None) -> None:
    text = text_at(c.source, node.span)
    if isinstance(result, Placed):
        what: str = "are places"
        hint: str | None = f"write `({_lookup(result, text)})`"
    elif result.kind is None or result.kind == "bool":
        what, hint = "is an attribute", f"put it in parentheses: `({text})`"
        if isinstance(parent, t.Complement):
            hint = f"write `(not {text})` for one event that is not"
    else:
        what, hint = f"is {KIND_NAMES[result.kind]}", _comparison_hint(text, result, parentheses=True)
        if isinstance(node, t.Number) and node.unit is not None and node.unit in c.scope.lets:
            # `3 s` is three seconds, whatever else is called `s`.
            hint = f"write `{node.unit}{{{node.literal}}}` for `{node.unit}` {node.literal} times in a row"
    c.error(f"`{text}` {what}, not a regex", node.span, "a predicate is expected here", hint)


def bare_letter(c: Context, node: t.Expression, parent: t.Expression | None) -> None:
    """Reports a predicate that stands in a regex without parentheses."""
    text = text_at(c.source, node.span)
    signs = {t.Sequence: ";", t.Intersection: "&", t.Union: "|", t.Complement: "!"}
    sign = signs.get(type(parent)) if parent is not None else None
    if isinstance(parent, t.Complement):
        c.error(
            "`!` is the complement of a regex, and a predicate in a regex stands in parentheses",
            node.span,
            "a predicate without parentheses",
            f"write `(not …)` for one event, `!({text})` for the complement",
        )
        return
    if isinstance(parent, (t.Sequence, t.Intersection, t.Union)) and is_grouped(c, parent):
        other = {"&": "and", "|": "or", ";": None}[sign or ";"]
        hint = f"write `{other}` between predicates" if other else f"put each letter in its own parentheses: `({text})`"
        place = parent.operator_spans[0]
        c.error(f"`{sign}` stands inside a predicate", place, f"`{sign}` joins regexes, not predicates", hint)
        return
    hint = f"write `({text})`"
    if isinstance(node, (t.And, t.Or)) and parent is None:
        other = "&" if isinstance(node, t.And) else "|"
        hint += f", or `{other}` if sequences are meant"
    elif isinstance(node, (t.And, t.Or)):
        word = "and" if isinstance(node, t.And) else "or"
        c.error(
            f"`{word}` stands between the letters of a regex",
            node.operator_spans[0] if node.operator_spans else node.span,
            f"`{word}` joins predicates, inside parentheses",
            f"write `({text})` for one event, or `{'&' if word == 'and' else '|'}` between regexes",
        )
        return
    c.error("a predicate in a regex stands in parentheses", node.span, "a predicate without parentheses", hint)


def is_grouped(c: Context, node: t.Expression) -> bool:
    """Whether the expression stands directly inside parentheses."""
    text, start, end = c.source.text, node.span.start, node.span.end
    before, after = text[max(0, start - 200) : start], text[end : end + 200]
    return before.rstrip().endswith("(") and after.lstrip().startswith(")")


def _lookup(places: Placed, text: str) -> str:
    """A predicate about places."""
    return f"inside({text})" if places.shape == "areas" else f"near({text}, 500 m)"


def _unwrapped(node: t.Expression) -> t.Expression:
    while isinstance(node, t.Parentheses):
        node = node.body
    return node


# A built-in length or time refuses a plain number: a hint must not propose one.
_STRICT_LIMITS = {(1, 0, 0): "50 m", (0, 1, 0): "5 min"}


def _comparison_hint(text: str, result: Valued, parentheses: bool = False) -> str | None:
    if result.kind not in ("number", "text"):
        return None
    limit = _STRICT_LIMITS.get(result.unit.dimension, "50") if result.strict and result.unit is not None else "50"
    example = f"{text} > {limit}" if result.kind == "number" else f'{text} = "…"'
    if isinstance(result.value, m.Constant):
        return None
    return f"compare it: `({example})`" if parentheses else f"compare it, as in `{example}`"
