"""`forecast P within 30 min with 0.7` becomes its meaning: a pattern, a horizon and a share."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.named_events import remembers
from wayeb_py.dsl.semantics.names import DeclaredNames
from wayeb_py.dsl.semantics.scope import Diagnostics
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.printer import print_tree
from wayeb_py.dsl.units import UNITS
from wayeb_py.errors import Note, SourceText, Span

USUAL_CONFIDENCE = Fraction(7, 10)
MOST_EVENTS = 10_000


def check_forecasts(
    gathered: DeclaredNames, patterns: Sequence[m.Pattern], report: Diagnostics
) -> tuple[m.Forecast, ...]:
    """The forecasts that the files declare."""
    by_name = {pattern.name: pattern for pattern in patterns}
    first: dict[tuple[str, m.Window], tuple[SourceText, Span]] = {}
    made = []
    for forecast, source in gathered.forecasts:
        confidence = USUAL_CONFIDENCE if forecast.confidence is None else forecast.confidence.value
        if not 0 < confidence < 1:
            assert forecast.confidence is not None
            report.error(
                source,
                "a forecast holds a share of the waiting time, between 0 and 1",
                forecast.confidence.span,
                "no such share",
                "write for example `with 0.7`",
            )
        horizon = _horizon(forecast.within)
        if not (horizon.seconds or horizon.events) or (horizon.events or 0) > MOST_EVENTS:
            report.error(
                source,
                f"a forecast looks some time ahead, or 1 to {MOST_EVENTS:,} events",
                forecast.within.span,
                "nothing ahead" if not (horizon.seconds or horizon.events) else "too many events",
            )
        if not _is_possible(forecast, by_name, gathered, source, report):
            continue
        known = first.setdefault((forecast.pattern, horizon), (source, forecast.span))
        if known != (source, forecast.span):
            note = Note(known[0], known[1], "declared first here")
            report.error(source, "this forecast is declared twice", forecast.span, "a second time", note=note)
            continue
        text = print_tree(forecast.within).removeprefix("within ")
        made.append(m.Forecast(forecast.pattern, horizon, confidence, text, source, span=forecast.name_span))
    return tuple(made)


def _horizon(within: t.Within) -> m.Window:
    if within.events:
        return m.Window(events=int(within.amount.literal))
    return m.Window(seconds=within.amount.value * UNITS[within.amount.unit or "s"].factor)


def _is_possible(
    forecast: t.Forecast,
    by_name: dict[str, m.Pattern],
    gathered: DeclaredNames,
    source: SourceText,
    report: Diagnostics,
) -> bool:
    """Whether there are forecasts of what is named; reports why not."""
    name, span = forecast.pattern, forecast.name_span
    if name in gathered.rules:
        report.error(source, "forecasts are of patterns", span, f"`{name}` is a rule")
        return False
    pattern = by_name.get(name)
    if pattern is None:
        if name not in gathered.patterns and name not in gathered.broken_patterns:
            hint = report.suggest(name, list(gathered.patterns))
            report.error(source, f"no pattern is called `{name}`", span, "a forecast names its pattern", hint)
        return False
    why = without_forecasts(pattern)
    if why is not None:
        report.error(source, f"there are no forecasts of `{name}`", span, why[0], why[1])
    return why is None


def without_forecasts(pattern: m.Pattern) -> tuple[str, str] | None:
    """Why there are no forecasts of a pattern, and what to write instead; None where there are."""
    if pattern.ends_word:
        return "it waits for the end of a word, and a forecast looks at events", "forecast it without its `; $`"
    if pattern.silence_s is not None:
        return "it ends in a silence, and a forecast looks at events", "forecast the pattern without its silence"
    if remembers(pattern.regex):
        return "its letters ask for other events of the match", "forecast one whose letters ask for one event each"
    return None
