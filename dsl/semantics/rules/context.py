"""Where a condition of a rule stands while it is checked: its members, and the columns that it reads of their rows."""

from __future__ import annotations

from collections.abc import Mapping

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.context import Context
from wayeb_py.dsl.semantics.rules.rows import Rows
from wayeb_py.dsl.semantics.scope import Scope
from wayeb_py.dsl.semantics.typed_expressions import WRONG, Result, Valued, Wrong
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.errors import Note, SourceText, Span


class RuleContext(Context):
    """The members that a condition may name, and those of another `unless`, which it may not.

    `asked` are the columns that conditions read, by member.
    """

    def __init__(
        self, scope: Scope, members: Mapping[str, Rows], others: Mapping[str, tuple[SourceText, Span]], of_unless: bool
    ) -> None:
        super().__init__(scope)
        self.members, self.others, self.of_unless = members, others, of_unless
        self.asked: dict[str, dict[str, m.Attribute]] = {}
        self.used_in: Note | None = None  # the rule, while a `let` that it uses is resolved

    def member_alone(self, node: t.Name) -> Wrong:
        """Reports a member where a value or a predicate is expected."""
        rows = self.members.get(node.name)
        columns = [] if rows is None else list(rows.scope.attributes)
        column = "entity" if not columns or "entity" in columns else columns[0]
        self.error(
            f"`{node.name}` is a member of the rule, not a value",
            node.span,
            "a value is expected here",
            f"write for example `{node.name}.{column}`",
        )
        return WRONG

    def column_of_member(self, member: str, column: str, span: Span) -> Result:
        """A column of a member's rows, under the name that all rows of its kind have."""
        rows = self.members[member]
        name = rows.other_names.get(column, column)
        if rows.scope.has_attr_lines and name not in rows.scope.attributes and not rows.scope.stream_is_broken:
            hint = self.report.suggest(column, [*rows.scope.attributes, *rows.other_names]) or rows.hint
            self.error(
                f"the rows of `{member}` have no column `{column}`",
                span,
                f"`{member}` ranges over {described(rows)}",
                hint,
            )
            return WRONG
        found = self.attribute(rows.scope, name, span)
        assert isinstance(found.value, m.Attribute)
        self.asked.setdefault(member, {}).setdefault(name, found.value)
        return Valued(m.Of(member, found.value), found.kind, found.unit)

    def scope_of(self, value: m.Value) -> Scope:
        """The scope of the rows that a column belongs to."""
        return self.members[value.role].scope if isinstance(value, m.Of) else self.scope

    def whose(self) -> str:
        return f"{next(iter(self.members))}, "


def described(rows: Rows) -> str:
    """What a member ranges over, for messages."""
    what = {
        "events": f"the events of `{rows.of}`",
        "newest": f"the newest event of each key of `{rows.of}`",
        "detections": f"the detections of `{rows.of}`",
        "episodes": f"the episodes of `{rows.of}`",
        "matches": f"the matches of `{rows.of}`",
        "kept": f"the matches of `{rows.of}`",
        "facts": f"the facts `{rows.of}`",
    }
    return what[rows.over]


def has_column(rows: Rows, column: str) -> bool:
    """Whether rows may have a column of this name."""
    name = rows.other_names.get(column, column)
    return name in rows.scope.attributes or not rows.scope.has_attr_lines
