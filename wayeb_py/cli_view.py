"""The commands that show: `wayeb map` draws detections on a page, `wayeb why` explains one, or its absence."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wayeb_py import startup
from wayeb_py.cli_options import (
    Functions,
    Key,
    Outside,
    Quiet,
    Time,
    TimeUnit,
    compile_files,
    explained,
    load_functions,
    misuse,
)

if TYPE_CHECKING:
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
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="What stands on top of the page.")] = None,
    position: PositionOption = None,
    key: Key = None,
    time: Time = None,
    time_unit: TimeUnit = None,
    functions: Functions = None,
    outside: Outside = False,
    quiet: Quiet = False,
) -> None:
    """Draw detections on a map: one page that needs no network."""
    compiled: Patterns | None = None
    columns = read_position(position)
    if patterns:
        compiled = compile_files(patterns, key, time, time_unit, load_functions(functions), outside=outside)
    startup.spare_pandas()
    from wayeb_py.dsl import meaning as m
    from wayeb_py.view.draw import draw_map as draw
    from wayeb_py.view.found import read_found

    stream = m.Stream(key=key, time=time, time_unit=None if time_unit is None else time_unit.value)
    scene = draw(
        read_found(detections),
        data,
        out,
        patterns=compiled,
        stream=stream,
        position=columns,
        title=title or detections.stem,
    )
    if not quiet:
        for note in scene["notes"]:
            print(note, file=sys.stderr)
        print(out)


def read_position(text: str | None) -> tuple[str, str] | None:
    """The two columns of a `--position`."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(parts):
        misuse(f"`{text}` does not name two columns; write --position LON,LAT")
    return parts[0], parts[1]
