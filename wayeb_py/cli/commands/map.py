"""`wayeb map`: detections and events in, a page out that shows them on a map."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wayeb_py.cli.exit_codes import explained, misuse
from wayeb_py.cli.option_groups import grouped
from wayeb_py.cli.option_values import read_instant
from wayeb_py.cli.options import CleanBy, EventFiles, Quiet
from wayeb_py.cli.pattern_options import PatternOptionsWithPlaces
from wayeb_py.errors import visible
from wayeb_py.files.tables import is_table
from wayeb_py.run import startup

if TYPE_CHECKING:
    from fractions import Fraction

    from wayeb_py.patterns import Patterns

Position = Annotated[
    str | None,
    typer.Option("--position", metavar="LON,LAT", help="The columns of the position, where no stream block says."),
]


@grouped
@explained()
def draw_detections(
    detections: Annotated[
        str, typer.Argument(metavar="DETECTIONS", help="What `wayeb run` wrote: .parquet, .csv or .ndjson.")
    ],
    data: EventFiles,
    out: Annotated[Path, typer.Option("--out", metavar="FILE.html", help="The page to write.")],
    *,
    patterns: Annotated[
        list[Path] | None,
        typer.Option("--patterns", metavar="FILE.sre", help="The patterns: columns, places, and why each was found."),
    ] = None,
    forecasts: Annotated[
        Path | None,
        typer.Option("--forecasts", metavar="FILE", help="What `wayeb forecast` wrote: shaded bars in the timeline."),
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
    position: Position = None,
    compiling: PatternOptionsWithPlaces,
    clean: CleanBy = None,
    quiet: Quiet = False,
) -> None:
    """Draw detections on a map: one page that needs no network."""
    compiled: Patterns | None = None
    columns = read_position(position)
    if patterns:
        compiled = compiling.compile(patterns, clean=None if clean is None else clean.value)
    startup.spare_pandas()
    from wayeb_py.dsl import meaning as m
    from wayeb_py.files.stores import located
    from wayeb_py.view.draw import draw_map
    from wayeb_py.view.read_detections import read_found, read_rows
    from wayeb_py.view.shown_part import ShownPart

    stream = m.Stream(
        key=compiling.key,
        time=compiling.time,
        time_unit=compiling.unit,
        clean=None if clean is None else clean.value,
    )
    unit = stream.time_unit or "s" if compiled is None else compiled.meaning.stream.time_unit
    choice = ShownPart(
        read_instant(since, unit),
        read_instant(until, unit),
        None if entity is None else tuple(entity),
        None if pattern is None else tuple(pattern),
    )
    scene = draw_map(
        read_found(found := located(detections)),
        data,
        out,
        patterns=compiled,
        stream=stream,
        position=columns,
        title=title or found.stem,
        name=name,
        choice=choice,
        forecasts=None if forecasts is None else read_rows(forecasts),
    )
    if not quiet:
        for note in scene["notes"]:
            print(visible(note), file=sys.stderr)
        print(out)


def read_position(text: str | None) -> tuple[str, str] | None:
    """The two columns of a `--position`."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(parts):
        misuse(f"`{text}` does not name two columns; write --position LON,LAT")
    return parts[0], parts[1]


def refuse_to_draw(patterns: Patterns, data: list[str], out: str) -> None:
    """Reports at once what would stop `run --map` only after the run, which reads the events and the detections
    again."""
    if len(patterns.by_stream) > 1:
        names = " and ".join(f"`{name}`" for name in patterns.by_stream)
        misuse(f"--map draws the events of one stream, and these patterns read {names}: choose with --pattern")
    if "-" in data:
        misuse("--map reads the events a second time, which standard input does not allow")
    if out == "-" or is_table(out) or Path(out).suffix.lower() in (".geojson", ".kml"):
        misuse("--map reads the detections that were written: let --out be a .parquet, .csv or .ndjson file")


def draw_run(
    patterns: Patterns, data: list[str], out: str | None, page: Path, since_s: Fraction | None, until_s: Fraction | None
) -> None:
    """The map of a run that has just ended."""
    from wayeb_py.files.stores import located
    from wayeb_py.view.draw import draw_map
    from wayeb_py.view.read_detections import read_found

    assert out is not None
    if len(patterns.meaning.streams) > 1:
        (part,) = patterns.by_stream.values()
        patterns = patterns.of_stream(part.stream)
    draw_map(
        read_found(located(out)), data, page, patterns=patterns, title=Path(out).stem, since_s=since_s, until_s=until_s
    )
