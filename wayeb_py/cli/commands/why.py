"""`wayeb why`: a pattern, an entity and a time in, the events that matched out, or what stopped the match."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from wayeb_py.cli.exit_codes import explained
from wayeb_py.cli.option_groups import grouped
from wayeb_py.cli.option_values import read_instant
from wayeb_py.cli.options import AsJson, CleanBy, EventFiles, PatternFiles, Since, Until
from wayeb_py.cli.pattern_options import PatternOptionsWithPlaces, select_patterns
from wayeb_py.errors import visible_lines
from wayeb_py.run import startup


@grouped
@explained()
def explain_detection(
    files: PatternFiles,
    data: EventFiles,
    pattern: Annotated[str, typer.Option(metavar="NAME", help="The pattern to explain.")],
    entity: Annotated[str, typer.Option(metavar="KEY", help="The entity, by its key.")],
    at: Annotated[str, typer.Option(metavar="TIME", help="When: its last event at or before this time is meant.")],
    *,
    place: Annotated[str | None, typer.Option(metavar="NAME", help="The place, for a pattern `for each`.")] = None,
    since: Since = None,
    until: Until = None,
    compiling: PatternOptionsWithPlaces,
    clean: CleanBy = None,
    as_json: AsJson = False,
) -> None:
    """Explain why a pattern was detected at an event, or how far it got and what stopped it."""
    patterns = compiling.compile(files, clean=None if clean is None else clean.value)
    patterns = select_patterns(patterns, [pattern])
    startup.spare_pandas()
    from wayeb_py.why.entity_words import read_words
    from wayeb_py.why.explain import explain
    from wayeb_py.why.table import output_width, render_why

    unit = patterns.meaning.stream.time_unit
    at_s = read_instant(at, unit)
    assert at_s is not None
    words = read_words(patterns, data, entity, read_instant(since, unit), read_instant(until, unit))
    why = explain(patterns, words, pattern, entity, at_s, place)
    if as_json:
        print(json.dumps(why.to_json(), ensure_ascii=False, indent=2))
    else:
        print(visible_lines(render_why(why, output_width())), end="")
