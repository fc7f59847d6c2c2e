"""Forms that the language knows and no engine runs yet: compiling a file that uses one says so.

Each line goes as soon as something runs its form; the file goes with the last of them.
"""

from __future__ import annotations

from collections.abc import Callable

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.walk import walk
from wayeb_py.errors import Diagnostic, PatternError


def _asks(*kinds: type) -> Callable[[m.Meaning, m.Pattern], bool]:
    return lambda meaning, pattern: any(isinstance(part, kinds) for part in walk(pattern.regex))


NOT_RUN_YET: dict[str, Callable[[m.Meaning, m.Pattern], bool]] = {
    "a pair that reads other patterns": lambda meaning, pattern: (
        pattern.pair is not None and _asks(m.Detected, m.Since)(meaning, pattern)
    ),
    "a pair that asks for `crossed` or `passed`": lambda meaning, pattern: (
        pattern.pair is not None and _asks(m.Crossed, m.Passed)(meaning, pattern)
    ),
    "a file with several streams": lambda meaning, pattern: bool(meaning.other_streams),
}


def refuse_what_is_not_run_yet(meaning: m.Meaning) -> None:
    """Raises PatternError with a message for each pattern that nothing can run."""
    found = []
    for pattern in meaning.patterns:
        form = next((form for form, uses in NOT_RUN_YET.items() if uses(meaning, pattern)), None)
        if form is not None:
            message = f"{form} is not run yet"
            label = f"the pattern `{pattern.name}` uses it"
            found.append(Diagnostic("error", message, pattern.source, pattern.span, label))
    if found:
        raise PatternError(found)
