"""`--plan` alone shows plans, `--plan "Rule: a b c"` forces one: an option whose value may be missing.

*Not taken*: click's option with an optional value, which would take the name of a file that follows.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

ALONE = ""  # the value of a `--plan` without one


class CommandWithPlan(TyperCommand):
    """A command whose `--plan` has a value only if that names a rule: it has a colon."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments, with an empty value after a `--plan` that stands alone."""
        given = []
        for nth, arg in enumerate(args):
            follows = args[nth + 1] if nth + 1 < len(args) else ""
            is_alone = arg == "--plan" and (":" not in follows or follows.startswith("-"))
            given.append(f"--plan={ALONE}" if is_alone else arg)
        return super().parse_args(ctx, given)
