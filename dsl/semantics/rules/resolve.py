"""A condition of a rule becomes its meaning: as in a pattern, except that every value names its member.

`p.speed` is a column of a member's row, and `Of` says which member's. Times can be moved (`r.ts + 1 h`), which no
letter of a pattern needs. The resolver of patterns does everything else.
"""

from __future__ import annotations

from collections.abc import Sequence

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.functions import USAGE, ways_to_call
from wayeb_py.dsl.semantics import quantities
from wayeb_py.dsl.semantics.resolve import Resolver
from wayeb_py.dsl.semantics.rules import calls
from wayeb_py.dsl.semantics.rules.context import RuleContext, has_column
from wayeb_py.dsl.semantics.scope import text_at
from wayeb_py.dsl.semantics.typed_expressions import WRONG, Result, Valued, Wrong
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.units import SECONDS, describe_dimension, missing_unit
from wayeb_py.errors import Note, Span


class RuleResolver(RuleContext, Resolver):
    """Finds the meaning of conditions over some members of a rule, and notes which columns they read."""

    def parts(self, node: t.Expression) -> tuple[t.Expression, ...]:
        parts = t.parts_of(node)
        if isinstance(node, t.Call):
            if node.function not in USAGE and node.function not in self.scope.functions:
                return ()
            parts = parts[len(calls.members_of(self, node)) :]
            named = {need for way in ways_to_call(node.function) for need in way.needs}
            if named & {"places", "other patterns"} and parts and isinstance(parts[0], t.Name):
                return parts[1:]
        return parts

    def call(self, node: t.Call, parts: Sequence[Result]) -> Result:
        return calls.call(self, node, parts)

    # Names.

    def name(self, node: t.Name, in_regex: bool) -> Result:
        scope, name = self.scope, node.name
        if name in self.members or name in self.others:
            return self.member_alone(node)
        if (declared := self.declared(node)) is not None:
            return declared
        having = [member for member, rows in self.members.items() if has_column(rows, name)]
        if having:
            either = " or ".join(f"`{member}.{name}`" for member in having[:2])
            message = f"`{name}` stands alone, and a rule has members"
            label, hint = f"whose `{name}`?", f"write {either}"
            return self.error(message, node.span, label, hint, self.used_in)
        close = self.report.suggest(name, [*scope.lets, *self.members, "any", "none", "true", "false"])
        label = "neither a `let` nor a column of a member"
        return self.error(f"unknown name `{name}`", node.span, label, close)

    def column(self, node: t.Column) -> Result:
        if node.variable in self.members:
            return self.column_of_member(node.variable, node.column, node.span)
        if node.variable in self.others:
            return self.other_unless(node)
        hint = self.report.suggest(node.variable, list(self.members))
        known = ", ".join(f"`{member}`" for member in self.members)
        self.error(
            f"no member of this rule is called `{node.variable}`",
            Span(node.span.start, node.span.end - len(node.column) - 1),
            f"its members are {known}",
            hint,
        )
        return WRONG

    def other_unless(self, node: t.Column) -> Wrong:
        """Reports a member of another `unless`: the match has no row of it."""
        source, span = self.others[node.variable]
        later = source == self.source and span.start > node.span.start
        if not self.of_unless:
            message = f"`{node.variable}` belongs to an `unless`, and of its rows a match has none"
        elif later:
            message = f"`{node.variable}` belongs to a later `unless`, and of its rows a match has none"
        else:
            message = f"`{node.variable}` belongs to another `unless`, and of its rows a match has none"
        self.error(
            message,
            node.span,
            "asks for a row that is not there",
            "an `unless` asks for its own members and those of the rule: put both members into one `unless`",
            Note(source, span, "the member is here"),
        )
        return WRONG

    # Times.

    def moved_time(self, node: t.Arithmetic, left: Valued, right: Valued) -> Result | None:
        """`r.ts + 1 h`, `p.ts - 10 min`: a time."""
        if node.operator not in "+-" or "time" not in (left.kind, right.kind) or left.kind == right.kind:
            return None
        if right.kind == "time" and node.operator == "-":
            return None
        time, length, length_node = (left, right, node.right) if left.kind == "time" else (right, left, node.left)
        if length.kind not in ("number", None):
            return None
        unit = length.unit
        if unit is None or unit.dimension != SECONDS.dimension:
            text = text_at(self.source, length_node.span)
            hint = missing_unit(text, SECONDS) if isinstance(length_node, t.Number) and unit is None else None
            what = "has no unit" if unit is None else f"is {describe_dimension(unit)}"
            self.error(
                f"a time is moved by a length of time, and `{text}` {what}",
                length_node.span,
                "a unit is missing: `s`, `min`, `h` or `d`" if unit is None else "not a length of time",
                hint,
            )
            return WRONG
        moved = (time.value, quantities.scaled(length, unit.factor))
        return Valued(m.Arithmetic("-" if node.operator == "-" else "+", moved), "time")
