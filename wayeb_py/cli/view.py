"""The commands that show: `wayeb map` draws detections on a page, `wayeb why` explains one, or its absence."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wayeb_py.cli.options import (
    AsJson,
    CleanOption,
    Functions,
    Key,
    Outside,
    Places,
    Quiet,
    Time,
    TimeUnit,
    compile_files,
    explained,
    load_functions,
    misuse,
    select_patterns,
)
from wayeb_py.errors import visible, visible_lines
from wayeb_py.run import startup

if TYPE_CHECKING:
    from fractions import Fraction

    from wayeb_py.patterns import Patterns

Events = Annotated[
    list[str],
    typer.Option("--data", metavar="PATH...", help="The events: files, folders, globs, as for `wayeb run`."),
]
PositionOption = Annotated[
    str | None,
    typer.Option("--position", metavar="LON,LAT", help="The columns of the position, where no stream block says."),
]


@explained()
def draw_map(
    detections: Annotated[
        Path, typer.Argument(metavar="DETECTIONS", help="What `wayeb run` wrote: .parquet, .csv or .ndjson.")
    ],
    data: Events,
    out: Annotated[Path, typer.Option("--out", metavar="FILE.html", help="The page to write.")],
    patterns: Annotated[
        list[Path] | None,
        typer.Option("--patterns", metavar="FILE.sre", help="The patterns: columns, places, and why each was found."),
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Show only what is at or after this time.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Show only what is before this time.")] = None,
    entity: Annotated[
        list[str] | None, typer.Option(metavar="KEY...", help="Show only these entities, by their key.")
    ] = None,
    pattern: Annotated[list[str] | None, typer.Option(metavar="NAME...", help="Show only these patterns.")] = None,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="What stands on top of the page.")] = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column with the entities' names; else it is guessed."),
    ] = None,
    position: PositionOption = None,
    key: Key = None,
    time: Time = None,
    time_unit: TimeUnit = None,
    clean: CleanOption = None,
    functions: Functions = None,
    places: Places = None,
    outside: Outside = False,
    quiet: Quiet = False,
) -> None:
    """Draw detections on a map: one page that needs no network."""
    compiled: Patterns | None = None
    columns = read_position(position)
    if patterns:
        compiled = compile_files(
            patterns,
            key,
            time,
            time_unit,
            load_functions(functions),
            places,
            outside=outside,
            clean=None if clean is None else clean.value,
        )
    startup.spare_pandas()
    from wayeb_py.dsl import meaning as m
    from wayeb_py.view.choice import Choice
    from wayeb_py.view.draw import draw_map as draw
    from wayeb_py.view.found import read_found

    stream = m.Stream(
        key=key,
        time=time,
        time_unit=None if time_unit is None else time_unit.value,
        clean=None if clean is None else clean.value,
    )
    unit = stream.time_unit or "s" if compiled is None else compiled.meaning.stream.time_unit
    choice = Choice(
        _instant(since, unit),
        _instant(until, unit),
        None if entity is None else tuple(entity),
        None if pattern is None else tuple(pattern),
    )
    scene = draw(
        read_found(detections),
        data,
        out,
        patterns=compiled,
        stream=stream,
        position=columns,
        title=title or detections.stem,
        name=name,
        choice=choice,
    )
    if not quiet:
        for note in scene["notes"]:
            print(visible(note), file=sys.stderr)
        print(out)


def _instant(text: str | None, unit: str | None) -> Fraction | None:
    from wayeb_py.arguments import read_instant_s

    try:
        return None if text is None else read_instant_s(text, unit)
    except ValueError as error:
        misuse(str(error))


def refuse_to_draw(data: list[str], out: str) -> None:
    """Says at once what would stop `run --map` only after the run: it reads the events and the detections again."""
    if "-" in data:
        misuse("--map reads the events a second time, which standard input does not allow")
    if out == "-" or Path(out).suffix.lower() in (".geojson", ".kml"):
        misuse("--map reads the detections that were written: let --out be a .parquet, .csv or .ndjson file")


def draw_run(
    patterns: Patterns, data: list[str], out: str | None, page: Path, since_s: Fraction | None, until_s: Fraction | None
) -> None:
    """The map of a run that has just ended."""
    from wayeb_py.view.draw import draw_map as draw
    from wayeb_py.view.found import read_found

    assert out is not None
    draw(read_found(Path(out)), data, page, patterns=patterns, title=Path(out).stem, since_s=since_s, until_s=until_s)


@explained()
def explain_why(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Pattern files (.sre).")],
    data: Events,
    pattern: Annotated[str, typer.Option(metavar="NAME", help="The pattern to explain.")],
    entity: Annotated[str, typer.Option(metavar="KEY", help="The entity, by its key.")],
    at: Annotated[str, typer.Option(metavar="TIME", help="When: its last event at or before this time is meant.")],
    place: Annotated[str | None, typer.Option(metavar="NAME", help="The place, for a pattern `for each`.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Only events from this time on.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Only events before this time.")] = None,
    key: Key = None,
    time: Time = None,
    time_unit: TimeUnit = None,
    clean: CleanOption = None,
    functions: Functions = None,
    places: Places = None,
    outside: Outside = False,
    as_json: AsJson = False,
) -> None:
    """Explain why a pattern was detected at an event, or how far it got and what stopped it."""
    patterns = compile_files(
        files,
        key,
        time,
        time_unit,
        load_functions(functions),
        places,
        outside=outside,
        clean=None if clean is None else clean.value,
    )
    patterns = select_patterns(patterns, [pattern])
    startup.spare_pandas()
    from wayeb_py.why.explain import explain
    from wayeb_py.why.table import output_width, render_why
    from wayeb_py.why.words import read_words

    unit = patterns.meaning.stream.time_unit
    at_s = _instant(at, unit)
    assert at_s is not None
    words = read_words(patterns, data, entity, _instant(since, unit), _instant(until, unit))
    why = explain(patterns, words, pattern, entity, at_s, place)
    if as_json:
        print(json.dumps(why.to_json(), ensure_ascii=False, indent=2))
    else:
        print(visible_lines(render_why(why, output_width())), end="")


def read_position(text: str | None) -> tuple[str, str] | None:
    """The two columns of a `--position`."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(parts):
        misuse(f"`{text}` does not name two columns; write --position LON,LAT")
    return parts[0], parts[1]
