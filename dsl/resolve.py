"""An expression of the tree becomes its meaning, bottom up: names are found, kinds and units checked, letters told.

The walk keeps its own stack, since trees may be 500 levels high. Each kind of expression has one function, which gets
the results of its parts. Where a use tells the kind of an attribute that no `attr` line declares, it is noted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from wayeb_py.dsl import calls, quantities
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl import tree as t
from wayeb_py.dsl.faults import MAX_HEIGHT
from wayeb_py.dsl.functions import USAGE
from wayeb_py.dsl.parser import too_high
from wayeb_py.dsl.results import WRONG, Place, Placed, Predicated, Regexed, Result, Valued, Wrong
from wayeb_py.dsl.scope import KIND_NAMES, Scope, column_key, text_at
from wayeb_py.dsl.units import UNITS
from wayeb_py.errors import Diagnostic, LimitError, Source, Span

MAX_SIZE = 200_000

_REGEXES = (t.Sequence, t.Intersection, t.Union, t.Complement, t.Iteration, t.Skip)
# What may stand in a regex without parentheses of its own.
_LETTERS = (t.Name, t.Word, t.Group)
_HYPHENATED = re.compile(r"[^\W\d]\w*(?:-\w+)+")
_PLACE_CALLS = frozenset(["near", "inside", "distance"])


class Resolver:
    """Finds the meaning of expressions of one file at a time."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.report = scope.report
        self.source = Source("", "")
        self.each: tuple[str, str] | None = None

    def resolve(
        self, root: t.Expression, source: Source, each: tuple[str, str] | None = None, in_regex: bool = True
    ) -> Result:
        """The meaning of an expression; Wrong if something in it was reported."""
        self.source, self.each = source, each
        waiting: list[tuple[t.Expression, int, bool]] = [
            (root, 0, in_regex)
        ]  # (node, number of parts done, in a regex)
        done: list[Result] = []
        while waiting:
            node, n_parts, in_regex = waiting.pop()
            if n_parts:
                results = done[-n_parts:]
                del done[-n_parts:]
                done.append(self.grown(node, results, self.combine(node, results)))
                continue
            parts = self.parts(node)
            if not parts:
                done.append(self.leaf(node, in_regex))
                continue
            if isinstance(node, t.Arithmetic) and self.is_hyphenated(node):
                done.append(WRONG)
                continue
            waiting.append((node, len(parts), in_regex))
            inside = isinstance(node, _REGEXES)
            for part in reversed(parts):
                waiting.append((part, 0, inside))
        return done[0]

    def grown(self, node: t.Expression, parts: Sequence[Result], result: Result) -> Result:
        """The result with its height and size, which the limits are about."""
        if isinstance(result, Wrong):
            return result
        height = 1 + max(part.height for part in parts)
        size = 1 + sum(part.size for part in parts)
        self.check_limits(node.span, height, size)
        if isinstance(result, Valued) and any(isinstance(part, Valued) and part.looks_up for part in parts):
            result.looks_up = True
        result.height, result.size = height, size
        return result

    def check_limits(self, span: Span, height: int, size: int) -> None:
        if height > MAX_HEIGHT:
            raise too_high(self.source, Span(span.start, min(span.end, span.start + 60)))
        if size > MAX_SIZE:
            message = "this is too large once every `let` is written out"
            knob = "use fewer or smaller `let`s in one expression"
            label = f"more than {MAX_SIZE} parts"
            place = Span(span.start, min(span.end, span.start + 60))
            raise LimitError(
                message, size, MAX_SIZE, knob, Diagnostic("error", message, self.source, place, label, knob)
            )

    def parts(self, node: t.Expression) -> tuple[t.Expression, ...]:
        """The parts that have a meaning of their own."""
        parts = t.parts_of(node)
        if isinstance(node, t.Call):
            if node.function not in USAGE and node.function not in self.scope.functions:
                return ()  # what an unknown function would make of its arguments, nobody knows
            if node.function in _PLACE_CALLS and parts and isinstance(parts[0], t.Name):
                return parts[1:]  # its call looks it up among the knowledge
        return parts

    def is_hyphenated(self, node: t.Arithmetic) -> bool:
        """Whether `gas-station` is a slip for a name, which is then reported, and not a difference."""
        text = self.source.text[node.span.start : node.span.end]
        if node.operator != "-" or _HYPHENATED.fullmatch(text) is None:
            return False
        scope = self.scope
        known = {*scope.attributes, *scope.lets, *scope.knowledge}
        joined = text.replace("-", "_")
        is_column = text in known
        strangers = scope.has_attr_lines and any(word not in known for word in text.split("-"))
        if joined not in known and not is_column and not strangers:
            return False
        hint = f"did you mean `{joined}`?" if joined in known else f"if a column has this name, write `` `{text}` ``"
        self.report.error(self.source, "a name cannot hold a hyphen", node.span, "`-` is the minus sign", hint)
        return True

    # Leaves.

    def leaf(self, node: t.Expression, in_regex: bool) -> Result:
        match node:
            case t.Name():
                return self.name(node, in_regex)
            case t.Number():
                value = node.value
                unit = UNITS[node.unit] if node.unit else None
                return Valued(m.Constant(value, "number", value.denominator == 1), "number", unit)
            case t.Text(value=text):
                return Valued(m.Constant(text, "text"), "text")
            case t.Word(word="any"):
                return Predicated(m.Always())
            case t.Word(word="none"):
                return Predicated(m.Never())
            case t.Word(word=word):
                return Valued(m.Constant(word == "true", "bool"), "bool")
            case t.Entry(places=places, entry=entry):
                found = self.places(places, node.span)
                return Placed(m.Places(places, entry), found) if found else WRONG
            case t.Column():
                return self.column(node)
            case t.Call():
                return calls.call(self, node, ())
        raise TypeError(f"not an expression without parts: {type(node).__name__}")

    def name(self, node: t.Name, in_regex: bool) -> Result:
        scope, name = self.scope, node.name
        if self.each is not None and name == self.each[0]:
            return Placed(m.Places(self.each[1], each=True), scope.knowledge[self.each[1]].shape)
        if name in scope.lets:
            return self.let(node)
        if name in scope.broken:
            return WRONG
        if name in scope.knowledge:
            return Placed(m.Places(name), scope.knowledge[name].shape)
        attribute = scope.attributes.get(name)
        if attribute is None and (in_regex or scope.has_attr_lines):
            return self.unknown(node, in_regex)
        if attribute is None:
            attribute = m.Attribute(name, scope.kinds.known.get((name,)))
        scope.mentioned.add(name)
        unit = UNITS[attribute.unit] if attribute.unit else None
        kind = attribute.kind or scope.kinds.known.get((name,))
        return Valued(m.Attribute(name, kind, attribute.unit, node.span), kind, unit)

    def unknown(self, node: t.Name, in_regex: bool) -> Wrong:
        name, scope = node.name, self.scope
        if name in ("null", "NULL", "None", "nan", "NaN"):
            hint: str | None = "write `missing(x)` to ask whether a value is missing"
        elif name in USAGE:
            hint = f"a function is called with parentheses: `{USAGE[name]}`"
        else:
            words = ["any", "none"] if in_regex else ["any", "none", "true", "false"]
            hint = self.report.suggest(name, [*scope.lets, *scope.attributes, *words])
        if in_regex:
            label = "neither a `let` nor a predicate in parentheses"
            self.report.error(self.source, f"unknown name `{name}`", node.span, label, hint)
        else:
            self.report.error(self.source, f"unknown attribute `{name}`", node.span, "not in the event schema", hint)
        return WRONG

    def let(self, node: t.Name) -> Result:
        result = self.scope.results.get(node.name, WRONG)
        if isinstance(result, Wrong):
            return WRONG
        height, size = result.height + 1, result.size
        self.check_limits(node.span, height, size)
        _, source = self.scope.lets[node.name]
        if isinstance(result, Regexed) and source != self.source:
            result = Regexed(respan(result.regex, node.span))
        return replace(result, height=height, size=size)

    def column(self, node: t.Column) -> Result:
        if self.each is None or node.variable != self.each[0]:
            hint = "write `for each p in port` after the pattern's name, then `p.limit` is a column of that row"
            if "prev" in (node.variable, node.column):
                other = node.column if node.variable == "prev" else node.variable
                hint = f"did you mean `prev({other})`?"
            elif self.each is not None:
                hint = f"did you mean `{self.each[0]}.{node.column}`?"
            self.report.error(
                self.source, f"`{node.variable}` is not a row of places", node.span, "no `for each` names it", hint
            )
            return WRONG
        kind = self.scope.kinds.known.get((self.each[1], node.column))
        return Valued(m.PlaceColumn(self.each[1], node.column, kind), kind)

    def places(self, name: str, span: Span) -> str | None:
        """The shape of background knowledge by its name; None, and a report, if there is none."""
        if name in self.scope.broken:
            return None
        known = self.scope.knowledge.get(name)
        if known is None:
            hint = self.report.suggest(name, list(self.scope.knowledge))
            hint = hint or f'declare them: `points {name} from "{name}.csv"`'
            self.report.error(
                self.source, f"unknown places `{name}`", span, "no `points`, `lines` or `areas` of this name", hint
            )
            return None
        return known.shape

    # What has parts.

    def combine(self, node: t.Expression, parts: list[Result]) -> Result:
        handler = _HANDLERS.get(type(node))
        return self.regex(node, parts) if handler is None else handler(self, node, parts)

    def arithmetic(self, node: t.Arithmetic, parts: list[Result]) -> Result:
        left, right = parts
        if isinstance(left, Wrong) or isinstance(right, Wrong):
            return WRONG
        letters = (Predicated, Regexed)
        if node.operator in "+*" and isinstance(left, letters) and isinstance(right, (*letters, Valued)):
            before = text_at(self.source, Span(node.left.span.start, node.operator_span.end))
            after = text_at(self.source, node.right.span)
            if self.source.text[node.operator_span.start - 1].isspace():
                self.report.error(
                    self.source,
                    f"`{node.operator}` does not join regexes",
                    node.operator_span,
                    "both sides are predicates or regexes",
                    "write `;` for one event after the other, `|` for either of the two",
                )
                return WRONG
            gap = Span(node.operator_span.end, max(node.right.span.start, node.operator_span.end + 1))
            self.report.error(
                self.source,
                f"a `;` is missing between `{before}` and `{after}`",
                gap,
                "nothing joins the two",
                "write `;` for one event after the other",
            )
            return WRONG
        return quantities.arithmetic(self, node, left, right)

    def negation(self, node: t.Not, part: Result) -> Result:
        operand = self.as_predicate(part, node.operand, "not", node.operator_span)
        if operand is None:
            return WRONG
        return Predicated(m.Not(operand.predicate), operand.unguarded, operand.lookups)

    def connective(self, node: t.And | t.Or, parts: list[Result]) -> Result:
        word = "and" if isinstance(node, t.And) else "or"
        operands: list[Predicated] = []
        for i, (part, operand) in enumerate(zip(parts, node.operands, strict=True)):
            place = node.operator_spans[max(0, i - 1)] if node.operator_spans else node.span
            found = self.as_predicate(part, operand, word, place)
            if found is not None:
                operands.append(found)
            elif isinstance(part, Regexed):
                return WRONG  # one regex is enough to tell that `and` is the wrong word
        if len(operands) < len(parts):
            return WRONG
        predicates = tuple(operand.predicate for operand in operands)
        lookups = tuple(place for operand in operands for place in operand.lookups)
        unguarded = tuple(place for operand in operands for place in operand.unguarded)
        if word == "and":
            # `not missing(lon) and not near(…)`: with the guard, the lookup counts only where it has an answer.
            guarded = any(isinstance(p, m.Not) and self.asks_position(p.operand) for p in predicates)
            return Predicated(m.And(predicates), lookups, () if guarded else unguarded)
        guarded = any(self.asks_position(p) for p in predicates)
        return Predicated(m.Or(predicates), () if guarded else lookups, unguarded)

    def asks_position(self, predicate: m.Predicate) -> bool:
        """Whether the predicate is `missing(lon)` or `missing(lat)`."""
        position = self.scope.stream.position or ()
        operand = predicate.operand if isinstance(predicate, m.Missing) else None
        return isinstance(operand, m.Attribute) and operand.name in position

    def regex(self, node: t.Expression, parts: list[Result]) -> Result:
        operands = t.parts_of(node)
        regexes = [self.as_regex(part, operand, node) for part, operand in zip(parts, operands, strict=True)]
        found = [regex for regex in regexes if regex is not None]
        if len(found) < len(parts):
            return WRONG
        self.warn_of_complements(node, operands, found)
        span = node.span
        match node:
            case t.Sequence():
                return Regexed(m.Sequence(tuple(found), span))
            case t.Union():
                return Regexed(m.Union(tuple(found), span))
            case t.Intersection():
                return Regexed(m.Intersection(tuple(found), span))
            case t.Complement():
                return Regexed(m.Complement(found[0], span))
            case t.Iteration(at_least=at_least, at_most=at_most):
                return Regexed(m.Iteration(found[0], at_least, at_most, span))
            case t.Skip(policy="#"):
                return Regexed(m.SkipAny(tuple(found), span))
            case t.Skip():
                return Regexed(m.SkipNext(tuple(found), span))
        raise TypeError(f"not an expression: {type(node).__name__}")

    def warn_of_complements(
        self, node: t.Expression, operands: Sequence[t.Expression], found: Sequence[m.Regex]
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
            whole, inner = text_at(self.source, written.span), text_at(self.source, body.span)
            inner = f"({inner})" if isinstance(body, (t.And, t.Or)) else inner
            self.report.warn(
                self.source,
                f"`{whole}` holds every sequence of any length, the empty one too, except one event that is `{inner}`",
                written.span,
                "the complement of a regex",
                f"write `(not {inner})` for one event that is not",
            )

    # Turning one kind of result into another.

    def as_predicate(self, result: Result, node: t.Expression, word: str, place: Span) -> Predicated | None:
        """The result as an operand of `and`, `or` or `not`; None, and a report, if it cannot be one."""
        match result:
            case Wrong():
                return None
            case Predicated():
                return result
            case Regexed():
                other = {"and": "&", "or": "|", "not": "!"}[word]
                joins = f"`{word}` joins predicates" if word != "not" else "`not` is for a predicate"
                self.report.error(
                    self.source,
                    f"{joins}, and `{text_at(self.source, node.span)}` is a regex",
                    place,
                    "one of its sides is a regex" if word != "not" else "what follows is a regex",
                    f"write `{other}` for regexes",
                )
                return None
            case Placed():
                text = text_at(self.source, node.span)
                self.report.error(
                    self.source,
                    f"`{text}` are places, not a predicate",
                    node.span,
                    "not true or false",
                    f"write `inside({text})` or `near({text}, 500 m)`",
                )
                return None
            case Valued():
                return self.truth(result, node)
        return None

    def truth(self, result: Valued, node: t.Expression) -> Predicated | None:
        """A value that is true or false as a predicate."""
        if isinstance(result.value, m.Constant) and result.kind == "bool":
            return Predicated(m.Always() if result.value.value else m.Never())
        if not self.want_kind(result, "bool", node.span):
            text = text_at(self.source, node.span)
            kind = KIND_NAMES[result.kind or "number"]
            hint = _comparison_hint(text, result)
            if isinstance(result.value, m.Constant) and result.kind in ("text", "number"):
                hint = "write `x in {a, b}` for one of several values"
            self.report.error(self.source, f"`{text}` is {kind}, not a predicate", node.span, "not true or false", hint)
            return None
        value = result.value
        if isinstance(value, m.Attribute) and value.kind is None and result.kind is None:
            value = m.Attribute(value.name, "bool", value.unit, value.span)
        return Predicated(m.Compare("=", value, m.Constant(True, "bool")))

    def as_regex(self, result: Result, node: t.Expression, parent: t.Expression | None) -> m.Regex | None:
        """The result as a part of a regex; None, and a report, if it cannot be one."""
        if isinstance(result, Wrong):
            return None
        if isinstance(result, Regexed):
            return result.regex
        named = isinstance(node, t.Name) and node.name in self.scope.lets
        if (
            isinstance(result, Valued)
            and not isinstance(node, t.Group)
            and not (named and result.kind in ("bool", None))
        ):
            self.not_a_letter(result, node)
            return None
        if isinstance(result, Placed):
            self.not_a_letter(result, node)
            return None
        predicated = self.as_predicate(result, node, "and", node.span)
        if predicated is None:
            return None
        if not isinstance(node, _LETTERS):
            self.bare_letter(node, parent)
            return None
        for source, span in predicated.unguarded:
            self.warn_of_lookup(source, span)
        return m.Letter(predicated.predicate, node.span)

    def warn_of_lookup(self, source: Source, span: Span) -> None:
        position = self.scope.stream.position
        if position is None:
            return
        self.report.warn(
            source,
            f"`not {text_at(source, span)}` is true of an event without a position",
            span,
            "negated without a guard",
            f"write `not missing({position[0]}) and not …` if such events do not count",
        )

    def not_a_letter(self, result: Valued | Placed, node: t.Expression) -> None:
        text = text_at(self.source, node.span)
        if isinstance(result, Placed):
            what: str = "are places"
            hint: str | None = f"write `(inside({text}))` or `(near({text}, 500 m))`"
        elif result.kind is None or result.kind == "bool":
            what, hint = "is an attribute", f"put it in parentheses: `({text})`"
        else:
            what, hint = f"is {KIND_NAMES[result.kind]}", _comparison_hint(text, result, parentheses=True)
        self.report.error(self.source, f"`{text}` {what}, not a regex", node.span, "a predicate is expected here", hint)

    def bare_letter(self, node: t.Expression, parent: t.Expression | None) -> None:
        """Reports a predicate that stands in a regex without parentheses."""
        text = text_at(self.source, node.span)
        signs = {t.Sequence: ";", t.Intersection: "&", t.Union: "|", t.Complement: "!"}
        sign = signs.get(type(parent)) if parent is not None else None
        if isinstance(parent, t.Complement):
            self.report.error(
                self.source,
                "`!` is the complement of a regex, and a predicate in a regex stands in parentheses",
                node.span,
                "a predicate without parentheses",
                f"write `(not …)` for one event, `!({text})` for the complement",
            )
            return
        if isinstance(parent, (t.Sequence, t.Intersection, t.Union)) and self.is_grouped(parent):
            other = {"&": "and", "|": "or", ";": None}[sign or ";"]
            hint = (
                f"write `{other}` between predicates"
                if other
                else f"put each letter in its own parentheses: `({text})`"
            )
            place = parent.operator_spans[0]
            self.report.error(
                self.source,
                f"`{sign}` stands inside a predicate",
                place,
                f"`{sign}` joins regexes, not predicates",
                hint,
            )
            return
        hint = f"write `({text})`"
        if isinstance(node, (t.And, t.Or)) and parent is None:
            other = "&" if isinstance(node, t.And) else "|"
            hint += f", or `{other}` if sequences are meant"
        elif isinstance(node, (t.And, t.Or)):
            word = "and" if isinstance(node, t.And) else "or"
            self.report.error(
                self.source,
                f"`{word}` stands between the letters of a regex",
                node.operator_spans[0] if node.operator_spans else node.span,
                f"`{word}` joins predicates, inside parentheses",
                f"write `({text})` for one event, or `{'&' if word == 'and' else '|'}` between regexes",
            )
            return
        self.report.error(
            self.source,
            "a predicate in a regex stands in parentheses",
            node.span,
            "a predicate without parentheses",
            hint,
        )

    def is_grouped(self, node: t.Expression) -> bool:
        """Whether the expression stands directly inside parentheses."""
        text, start, end = self.source.text, node.span.start, node.span.end
        before, after = text[max(0, start - 200) : start], text[end : end + 200]
        return before.rstrip().endswith("(") and after.lstrip().startswith(")")

    def want_kind(self, result: Valued, kind: m.Kind, span: Span) -> bool:
        """Whether a value is of a kind, or may be; a use that tells the kind of a column is noted."""
        if result.kind is not None:
            return result.kind == kind
        key = column_key(result.value)
        if key is not None:
            self.scope.kinds.use(key, kind, (self.source, span))
        return True

    def place(self, span: Span) -> Place:
        return (self.source, span)


_Handler = Callable[[Resolver, Any, list[Result]], Result]

_HANDLERS: dict[type, _Handler] = {
    t.Group: lambda r, node, parts: parts[0],
    t.Call: calls.call,
    t.Negative: lambda r, node, parts: quantities.negative(r, node, parts[0]),
    t.Arithmetic: Resolver.arithmetic,
    t.Compare: quantities.compare,
    t.Between: quantities.between,
    t.OneOf: quantities.one_of,
    t.Not: lambda r, node, parts: r.negation(node, parts[0]),
    t.And: Resolver.connective,
    t.Or: Resolver.connective,
}


def _unwrapped(node: t.Expression) -> t.Expression:
    while isinstance(node, t.Group):
        node = node.body
    return node


def _comparison_hint(text: str, result: Valued, parentheses: bool = False) -> str | None:
    if result.kind not in ("number", "text"):
        return None
    example = f"{text} > 50" if result.kind == "number" else f'{text} = "…"'
    if isinstance(result.value, m.Constant):
        return None
    return f"compare it: `({example})`" if parentheses else f"compare it, as in `{example}`"


def respan(root: m.Regex, span: Span) -> m.Regex:
    """The same regex with every span replaced: a `let` of another file has no place in this one."""
    made: dict[int, Any] = {}
    waiting: list[tuple[Any, bool]] = [(root, False)]
    while waiting:
        node, ready = waiting.pop()
        if id(node) in made:
            continue
        parts: tuple[Any, ...] = getattr(node, "parts", ()) or ((node.body,) if hasattr(node, "body") else ())
        if parts and not ready:
            waiting.append((node, True))
            waiting.extend((part, False) for part in parts)
            continue
        build: Callable[..., Any] = type(node)
        if isinstance(node, m.Letter):
            made[id(node)] = m.Letter(node.predicate, span)
        elif isinstance(node, m.Iteration):
            made[id(node)] = m.Iteration(made[id(node.body)], node.at_least, node.at_most, span)
        elif isinstance(node, m.Complement):
            made[id(node)] = m.Complement(made[id(node.body)], span)
        else:
            made[id(node)] = build(tuple(made[id(part)] for part in parts), span)
    result: m.Regex = made[id(root)]
    return result
