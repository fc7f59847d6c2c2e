"""The options of `learn` and `forecast` that choose patterns and events become compiled patterns, paths and a period.

By default a command takes the patterns for which the files declare forecasts, or all where they declare none.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from wayeb_py.cli.option_values import read_instant
from wayeb_py.cli.options import ChosenPatterns, CleanBy, Since, Until
from wayeb_py.cli.pattern_options import PatternOptionsWithPlaces, select_patterns

if TYPE_CHECKING:
    from wayeb_py.patterns import Patterns


@dataclass
class HistoryOptions:
    """The options that choose patterns and events."""

    since: Since = None
    until: Until = None
    clean: CleanBy = None
    pattern: ChosenPatterns = None

    def patterns(self, files: list[Path], compiling: PatternOptionsWithPlaces) -> Patterns:
        """The chosen patterns of the files, compiled."""
        patterns = compiling.compile(files, clean=None if self.clean is None else self.clean.value)
        declared = dict.fromkeys(one.pattern for one in patterns.meaning.forecasts)
        return select_patterns(patterns, self.pattern or list(declared))

    def period(self, patterns: Patterns) -> dict[str, Fraction | None]:
        """The seconds at which the chosen events begin and end, as arguments of a run."""
        unit = patterns.meaning.stream.time_unit
        return {"since_s": read_instant(self.since, unit), "until_s": read_instant(self.until, unit)}
