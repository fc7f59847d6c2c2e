"""Rules, which the language knows and no engine runs yet: compiling a file that has one says so.

The file goes as soon as an engine joins the rows of rules.
"""

from __future__ import annotations

from wayeb_py.dsl import meaning as m
from wayeb_py.errors import Diagnostic, PatternError


def refuse_what_is_not_run_yet(meaning: m.Meaning) -> None:
    """Raises PatternError with a message for each rule."""
    found = [
        Diagnostic("error", "a rule is not run yet", rule.source, rule.span, f"the rule `{rule.name}`")
        for rule in meaning.rules
    ]
    if found:
        raise PatternError(found)
