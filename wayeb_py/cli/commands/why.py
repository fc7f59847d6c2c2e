"""`wayeb why`: a pattern, an entity (or two) and a time in, the events that matched out, or what stopped the match."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wayeb_py.cli.commands.forecasts.forecast import horizons_of, read_horizon
from wayeb_py.cli.event_files import read_data, time_unit_of
from wayeb_py.cli.exit_codes import explained, misuse
from wayeb_py.cli.option_groups import grouped
from wayeb_py.cli.option_values import read_instant
from wayeb_py.cli.options import AsJson, CleanBy, EventFiles, PatternFiles, Since, Until
from wayeb_py.cli.pattern_options import PatternOptionsWithPlaces, select_patterns
from wayeb_py.compiler.describe import amount_text
from wayeb_py.errors import visible_lines
from wayeb_py.run import startup

if TYPE_CHECKING:
    from wayeb_py.forecast.expected import Expected
    from wayeb_py.patterns import Patterns
    from wayeb_py.why.indexed_words import Words


@grouped
@explained()
def explain_detection(
    files: PatternFiles,
    data: EventFiles,
    pattern: Annotated[str, typer.Option(metavar="NAME", help="The pattern to explain.")],
    entity: Annotated[str, typer.Option(metavar="KEY", help="The entity, by its key.")],
    at: Annotated[str, typer.Option(metavar="TIME", help="When: the last event at or before this time is meant.")],
    *,
    other: Annotated[
        str | None, typer.Option(metavar="KEY", help="The other entity, for a pattern over pairs.")
    ] = None,
    place: Annotated[str | None, typer.Option(metavar="NAME", help="The place, for a pattern `for each`.")] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", metavar="DIR", help="What `wayeb learn` wrote: also say what is expected next."),
    ] = None,
    horizon: Annotated[
        str | None, typer.Option("--horizon", metavar="DURATION", help="With --model, how far to look: 30min.")
    ] = None,
    since: Since = None,
    until: Until = None,
    compiling: PatternOptionsWithPlaces,
    clean: CleanBy = None,
    as_json: AsJson = False,
) -> None:
    """Explain why a pattern was detected at an event, or how far it got and what stopped it."""
    patterns = compiling.compile(files, clean=None if clean is None else clean.value)
    if pattern in patterns.rule_names:
        misuse(f"`{pattern}` is a rule: ask why of the patterns that it reads")
    patterns = select_patterns(patterns, [pattern])
    is_pair = patterns.meaning.patterns[0].pair is not None
    if is_pair and other is None:
        misuse(f"`{pattern}` is about pairs: say which other entity, as in --entity {entity} --other KEY")
    if other is not None and not is_pair:
        misuse(f"`{pattern}` is about one entity: leave --other out")
    startup.spare_pandas()
    startup.spare_cffi()
    from wayeb_py.why.entity_words import read_events, words_of
    from wayeb_py.why.explain import explain
    from wayeb_py.why.pairs.explain import explain_pair, locate_pair
    from wayeb_py.why.table import output_width, render_why

    paths = read_data(patterns, data)
    unit = time_unit_of(patterns)
    at_s, since_s, until_s = (read_instant(text, unit) for text in (at, since, until))
    assert at_s is not None
    whose = [entity] if other is None else [entity, other]
    events = {
        name: read_events(part, paths[name], whose, since_s, until_s) for name, part in patterns.by_stream.items()
    }
    expected: list[Expected] = []
    if other is None:
        ((name, part),) = patterns.by_stream.items()
        own = patterns.of_stream(part.stream)
        words = words_of(own, events[name].table, entity, events[name].reaches_s)
        why = explain(own, words, pattern, entity, at_s, place)
        if model is not None:
            row = words.row_at(entity, float(at_s * words.chunk.ticks_per_s))
            expected = _expected(own, words, model, horizon, row, place)
            ticks_per_s = words.chunk.ticks_per_s
    else:
        tables = {name: one.table for name, one in events.items()}
        reaches_s = {name: one.reaches_s for name, one in events.items() if one.reaches_s is not None}
        why = explain_pair(patterns, tables, pattern, (entity, other), at_s, reaches_s)
        if model is not None:
            _, _, met, row = locate_pair(patterns, tables, pattern, (entity, other), at_s, reaches_s)
            ticks_per_s = met.chunk.ticks_per_s
            if row is not None:  # nothing is forecast of two that are apart
                expected = _expected(patterns, met, model, horizon, row, None)
    if as_json:
        told = why.to_json() | ({"expected": [asdict(one) for one in expected]} if model is not None else {})
        print(json.dumps(told, ensure_ascii=False, indent=2))
        return
    print(visible_lines(render_why(why, output_width())), end="")
    for one in expected:
        print(visible_lines(render_expected(one, ticks_per_s, why.ts)), end="")


def _expected(
    patterns: Patterns, words: Words, model: Path, horizon: str | None, row: int | None, place: str | None
) -> list[Expected]:
    """What the models expect after a row, for each horizon of the pattern."""
    from wayeb_py.compiler.for_each import at_one  # for start-up time: few calls need it
    from wayeb_py.forecast.expected import expected_after
    from wayeb_py.run.forecasts import load_tables

    tables = load_tables(patterns, model, horizons_of(patterns, read_horizon(horizon), None))
    assert row is not None  # it was explained
    each = patterns.meaning.patterns[0].each
    at = None if each is None or place is None else at_one(patterns.places(each[1]), place)
    return [expected_after(own, words.values, words.chunk, words.word_begin(row), row, at) for own in tables]


def render_expected(one: Expected, ticks_per_s: int, ts: str) -> str:
    """A forecast on a few lines: its probability, its interval, and the symbols that it follows from."""
    told = f"expected: {one.pattern} within {one.horizon} after {ts} with {one.probability:.3f}"
    if one.first is not None and one.last is not None:
        span = (
            f"{one.first} to {one.last} events"
            if one.in_events
            else (
                f"{amount_text(one.first / ticks_per_s, ' s')} to "
                f"{amount_text(one.last / ticks_per_s, ' s')}"
            )
        )
        told += f", {one.confidence:g} of it {span} from now"
    lines = [told]
    for symbol in one.symbols:
        then = "detected" if symbol.detects > 0.5 else f"then {symbol.afterwards:.3f}"
        lines.append(f"  {symbol.probability:.3f} that the next event is {symbol.text}: {then}")
    return "\n".join(lines) + "\n"
