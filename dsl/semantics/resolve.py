"""An expression of the tree becomes its meaning, bottom up: names are found, kinds and units checked, letters
recognised.

The walk keeps its own stack, since trees may be 500 levels high. Each kind of expression has one function, which gets
the results of its parts. The walk notes every use that reveals the kind of an attribute that no `attr` line declares.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.functions import USAGE, needs, ways_to_call
from wayeb_py.dsl.semantics import letters, quantities
from wayeb_py.dsl.semantics.calls.call import call
from wayeb_py.dsl.semantics.calls.pairs import entities_of
from wayeb_py.dsl.semantics.context import Context
from wayeb_py.dsl.semantics.matches import registers
from wayeb_py.dsl.semantics.matches.measures import measure, measure_of
from wayeb_py.dsl.semantics.scope import Pairing, text_at
from wayeb_py.dsl.semantics.typed_expressions import WRONG, Placed, Predicated, Regexed, Result, Valued, Wrong
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.tree_height import MAX_HEIGHT, too_high
from wayeb_py.dsl.units import UNITS
from wayeb_py.dsl.walk import transform, walk
from wayeb_py.errors import Diagnostic, LimitError, Note, SourceText, Span

MAX_SIZE = 200_000

_REGEXES = (t.Sequence, t.Intersection, t.Union, t.Complement, t.Iteration, t.Named, t.Skip)
_HYPHENATED = re.compile(r"[^\W\d]\w*(?:-\w+)+")


class Resolver(Context):
    """Finds the meaning of expressions of one file at a time."""

    def resolve(
        self,
        root: t.Expression,
        source: SourceText,
        each: tuple[str, str] | None = None,
        in_regex: bool = True,
        pair: Pairing | None = None,
        named: frozenset[str] = frozenset(),
    ) -> Result:
        """The meaning of an expression; Wrong if something in it was reported."""
        self.source, self.each, self.pair, self.registers = source, each, pair, named
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
            inside = isinstance(node, _REGEXES) or letters.is_permutation(node)
            for part in reversed(parts):
                waiting.append((part, 0, inside))
        return done[0]

    def grown(self, node: t.Expression, parts: Sequence[Result], result: Result) -> Result:
        """The result with its height and size, which the limits bound."""
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
        if isinstance(node, t.Call) and not letters.is_permutation(node):
            if self.asks_register(node):
                return ()
            if measure_of(node) is not None:
                return parts
            if node.function == "elapsed" and self.pair is None:
                return ()  # the argument would be an event that no letter names
            if node.function not in USAGE and node.function not in self.scope.functions:
                return ()  # an unknown function could make anything of its arguments
            ways = ways_to_call(node.function)
            if self.pair is not None:
                parts = parts[len(entities_of(self.pair, node)) :]
            elif ways and all(way.of_several for way in ways):
                return ()  # the arguments are entities, and here there is only one
            named = {need for way in ways for need in way.needs}
            if named & {"places", "other patterns"} and parts and isinstance(parts[0], t.Name):
                return parts[1:]  # the check of the call looks the first one up among the knowledge, or the patterns
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
        self.error("a name cannot hold a hyphen", node.span, "`-` is the minus sign", hint)
        return True

    # Leaves.

    def leaf(self, node: t.Expression, in_regex: bool) -> Result:
        match node:
            case t.Name():
                return self.name(node, in_regex)
            case t.Number():
                value = node.value
                unit = UNITS[node.unit] if node.unit else None
                return Valued(m.Constant(value, "number"), "number", unit)
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
            case t.Call() if letters.is_permutation(node):
                return letters.permutation(self, node, [])
            case t.Call():
                return self.call(node, ())
        raise TypeError(f"not an expression without parts: {type(node).__name__}")

    def name(self, node: t.Name, in_regex: bool) -> Result:
        scope, name = self.scope, node.name
        if self.each is not None and name == self.each[0]:
            return Placed(m.Places(self.each[1], each=True), scope.knowledge[self.each[1]].shape)
        if self.pair is not None and name in self.pair.roles:
            return self.entity_alone(node)
        if name in self.registers and name not in scope.attributes:
            return registers.alone(self, node)
        if (declared := self.declared(node)) is not None:
            return declared
        if name not in scope.attributes and (in_regex or scope.has_attr_lines):
            return self.unknown(node, in_regex)
        if self.pair is not None:
            return self.without_entity(node)
        return self.attribute(scope, name, node.span)

    def declared(self, node: t.Name) -> Result | None:
        """What a declared name means, a `let` or places; None where no declaration has the name."""
        if node.name in self.scope.lets:
            return self.let(node)
        if node.name in self.scope.broken:
            return WRONG
        if node.name in self.scope.knowledge:
            return Placed(m.Places(node.name), self.scope.knowledge[node.name].shape)
        return None

    def without_entity(self, node: t.Name) -> Wrong:
        """Reports an attribute in a pair that does not say whose it is."""
        assert self.pair is not None
        a, b = self.pair.meaning.variables
        return self.error(
            f"`{node.name}` stands alone, and a pair has two",
            node.span,
            f"whose `{node.name}`?",
            f"write `{a}.{node.name}` or `{b}.{node.name}`",
        )

    def entity_alone(self, node: t.Name) -> Wrong:
        """Reports an entity of the pair where a value or a predicate is expected."""
        return self.error(
            f"`{node.name}` is an entity of the pair, not a value",
            node.span,
            "a value is expected here",
            f"write for example `{node.name}.speed`",
        )

    def unknown(self, node: t.Name, in_regex: bool) -> Wrong:
        name, scope = node.name, self.scope
        if name in ("null", "NULL", "None", "nan", "NaN"):
            hint: str | None = "write `missing(x)` to ask whether a value is missing"
        elif name == "silence":
            hint = "say for how long: `silence 1 h`"
        elif name in USAGE:
            hint = f"a function is called with parentheses: `{USAGE[name]}`"
        else:
            words = ["any", "none"] if in_regex else ["any", "none", "true", "false"]
            hint = self.report.suggest(name, [*scope.lets, *scope.attributes, *words])
            before = self.source.text[max(0, node.span.start - 60) : node.span.start]
            if name == "_":
                hint = "write `any` for any event, `any*` for any number of them"
            elif hint is None and re.search(r"(?:(?<![<>])=|in\s*\{[^{}]*)\s*$", before) and not in_regex:
                hint = f'write `"{name}"` if a text is meant'
        if in_regex:
            label = "neither a `let` nor a predicate in parentheses"
            self.error(f"unknown name `{name}`", node.span, label, hint)
        else:
            self.error(f"unknown attribute `{name}`", node.span, "not in the event schema", hint)
        return WRONG

    def let(self, node: t.Name) -> Result:
        result = self.scope.results.get(node.name, WRONG)
        if isinstance(result, Wrong):
            if self.pair is None and node.name in self.scope.lets_of_pairs:
                return self.let_of_a_pair(node)
            of_rule = node.name in self.scope.lets_of_rules - self.scope.lets_of_pairs
            return self.let_of_a_rule(node) if of_rule else WRONG
        if self.pair is not None and node.name not in self.scope.lets_of_pairs and not self.fits_a_pair(node, result):
            return WRONG
        height, size = result.height + 1, result.size
        self.check_limits(node.span, height, size)
        _, source = self.scope.lets[node.name]
        if isinstance(result, Regexed) and source != self.source:
            result = Regexed(respan(result.regex, node.span))
        return replace(result, height=height, size=size)

    def fits_a_pair(self, node: t.Name, result: Result) -> bool:
        """Whether a `let` says nothing about one entity's event alone; a report if it does."""
        meaning = getattr(result, "value", None) or getattr(result, "predicate", None) or getattr(result, "regex", None)
        bare = next((part for part in walk(meaning) if isinstance(part, m.Attribute) or needs(part, "position")), None)
        if bare is None or self.pair is None:
            return True
        what = f"`{bare.name}`" if isinstance(bare, m.Attribute) else "the position"
        self.error(
            f"`{node.name}` asks for {what} of one entity, and a pair has two",
            node.span,
            "a `let` about one entity",
            f"write it with `{self.pair.meaning.variables[0]}.`, here or in a `let` of its own",
        )
        return False

    def let_of_a_pair(self, node: t.Name) -> Wrong:
        """Reports a `let` about a pair in a pattern of one entity."""
        let, source = self.scope.lets[node.name]
        return self.error(
            f"`{node.name}` is about a pair of entities",
            node.span,
            "this pattern looks at one entity at a time",
            "write `for each pair a, b in vessels within 1 km fresh 10 min` after the pattern's name",
            Note(source, let.name_span, "the `let` is here"),
        )

    def let_of_a_rule(self, node: t.Name) -> Wrong:
        """Reports a `let` about members of a rule in a pattern."""
        let, source = self.scope.lets[node.name]
        note = Note(source, let.name_span, "the `let` is here")
        return self.error(f"`{node.name}` is about members of a rule", node.span, "a pattern has none", note=note)

    def column(self, node: t.Column) -> Result:
        if self.pair is not None and node.variable in self.pair.roles:
            return self.column_of(self.pair, node)
        is_row = self.each is not None and node.variable == self.each[0]
        if node.variable in self.registers and not is_row:
            return registers.column(self, node)
        if node.variable in self.scope.lookups and not is_row:
            return self.looked_up(node)
        if self.each is None or node.variable != self.each[0]:
            hint = "write `for each p in port` after the pattern's name, then `p.limit` is a column of that row"
            if "prev" in (node.variable, node.column):
                other = node.column if node.variable == "prev" else node.variable
                hint = f"did you mean `prev({other})`?"
            elif node.variable in self.scope.lets:
                hint = f"name an event where it is read, `{node.variable} as x`, and write `x.{node.column}` later"
            elif node.column in self.scope.attributes and self.pair is None:
                hint = f"write `{node.column}`: the columns of an event stand by themselves; those of an earlier event "
                hint += f"of the match need its name, `(…) as {node.variable}`"
            elif self.each is not None:
                hint = f"did you mean `{self.each[0]}.{node.column}`?"
            elif self.pair is not None:
                a, b = self.pair.meaning.variables
                hint = f"the entities of this pair are `{a}` and `{b}`"
            what = "a row of places" if self.pair is None else "an entity of this pair"
            return self.error(f"`{node.variable}` is not {what}", node.span, "no `for each` names it", hint)
        kind = self.scope.kinds.known.get((self.each[1], node.column))
        return Valued(m.PlaceColumn(self.each[1], node.column, kind), kind)

    def column_of(self, pair: Pairing, node: t.Column) -> Result:
        """An attribute of one of the two: `a.speed`."""
        role = pair.roles[node.variable]
        scope = pair.scopes[role]
        if node.column not in scope.attributes and scope.has_attr_lines:
            hint = self.report.suggest(node.column, list(scope.attributes))
            label = f"not in the event schema of `{scope.stream.name}`"
            return self.error(f"unknown attribute `{node.column}`", node.span, label, hint)
        found = self.attribute(scope, node.column, node.span)
        return Valued(m.Of(role, found.value), found.kind, found.unit)

    def looked_up(self, node: t.Column) -> Result:
        """An attribute that a lookup joins to the event by place and time."""
        stream = self.scope.stream
        if stream.position is None and not self.scope.stream_is_broken:
            return self.error(
                f"`{node.variable}` is looked up by the position, which the stream does not have",
                node.span,
                "asks for the position",
                "declare it in the stream block: `position lon, lat`",
            )
        name = f"{node.variable}.{node.column}"
        kind = self.scope.kinds.known.get((name,))
        self.scope.mentioned.add(name)
        return Valued(m.Attribute(name, kind, None, span=node.span), kind)

    # What has parts.

    def combine(self, node: t.Expression, parts: list[Result]) -> Result:
        handler = None if letters.is_permutation(node) else _HANDLERS.get(type(node))
        return letters.regex(self, node, parts) if handler is None else handler(self, node, parts)

    def asks_register(self, node: t.Call) -> bool:
        """Whether it is `elapsed(x)` or `distance(x)` of a named event."""
        match node.function, node.arguments:
            case "elapsed" | "distance", (t.Name(name=name),):
                return name in self.registers
        return False

    def call(self, node: t.Call, parts: Sequence[Result]) -> Result:
        if self.asks_register(node):
            return registers.call(self, node)
        way = measure_of(node)
        if way is not None and self.pair is not None and not self.of_whole_match:
            return self.error(f"`{way.usage}` in a letter is of one entity's match so far, and a pair has two",
                              node.span, "a pattern over pairs",
                              "`emit` computes it over the whole match of a pair")  # fmt: skip
        if way is not None:
            return measure(self, node, way, parts)
        return call(self, node, parts)

    def arithmetic(self, node: t.Arithmetic, parts: list[Result]) -> Result:
        left, right = parts
        if isinstance(left, Wrong) or isinstance(right, Wrong):
            return WRONG
        joins = isinstance(left, (Predicated, Regexed)) and not isinstance(right, Placed)
        if node.operator in "+*" and joins:
            before = text_at(self.source, Span(node.left.span.start, node.operator_span.end))
            after = text_at(self.source, node.right.span)
            if self.source.text[node.operator_span.start - 1].isspace():
                if node.operator == "*" and isinstance(node.right, t.Number):
                    once = text_at(self.source, node.left.span)
                    return self.error(
                        "how often comes in braces, after what is repeated",
                        node.operator_span.to(node.right.span),
                        "not in braces",
                        f"write `{once}{{{node.right.literal}}}`",
                    )
                return self.error(
                    f"`{node.operator}` does not join regexes",
                    node.operator_span,
                    "both sides are predicates or regexes",
                    "write `;` for one event after the other, `|` for either of the two",
                )
            gap = Span(node.operator_span.end, max(node.right.span.start, node.operator_span.end + 1))
            return self.error(
                f"a `;` is missing between `{before}` and `{after}`",
                gap,
                "nothing joins the two",
                "write `;` for one event after the other",
            )
        return quantities.arithmetic(self, node, left, right)


_Handler = Callable[[Resolver, Any, list[Result]], Result]

_HANDLERS: dict[type, _Handler] = {
    t.Parentheses: lambda r, node, parts: parts[0],
    t.Call: lambda r, node, parts: r.call(node, parts),
    t.Negative: lambda r, node, parts: quantities.negative(r, node, parts[0]),
    t.Arithmetic: Resolver.arithmetic,
    t.Compare: quantities.compare,
    t.Between: quantities.between,
    t.OneOf: quantities.one_of,
    t.Not: letters.negation,
    t.And: letters.connective,
    t.Or: letters.connective,
    t.Named: registers.named,
}


def respan(root: m.Regex, span: Span) -> m.Regex:
    """The same regex with every span replaced: a `let` of another file has no place in this one."""
    return transform(root, lambda part: replace(part, span=span) if isinstance(part, m.Regex) else part)
