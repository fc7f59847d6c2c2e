"""The commands about data: `wayeb data convert`, `describe` and `generate`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from wayeb_py.cli.options import AsJson, Quiet, TimeUnit, explained, misuse
from wayeb_py.errors import visible, visible_lines
from wayeb_py.run import startup

app = typer.Typer(name="data", help="Providers' files, made-up events, and what is in a file.", no_args_is_help=True)


class Provider(StrEnum):
    """Whose files are read."""

    NOAA = "noaa"
    DMA = "dma"
    NMEA = "nmea"
    GTFS = "gtfs"
    BREST = "brest"
    CSV = "csv"


class Traffic(StrEnum):
    """What is made up."""

    FLEET = "fleet"
    MARITIME = "maritime"


Paths = Annotated[list[str], typer.Argument(metavar="PATH...", help="Files, folders, globs.")]
Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map", metavar="NAME=COLUMN", help="With csv: which column is what, such as speed=SOG, or speed=SOG*0.1."
    ),
]
Header = Annotated[
    str | None,
    typer.Option("--header", metavar="NAME,NAME", help="With csv: the columns of files that begin with a row."),
]


@app.command("convert")
@explained()
def convert_files(
    paths: Paths,
    provider: Annotated[Provider, typer.Option("--from", help="Whose files they are.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder for the Parquet files.")],
    partitions: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many files; by default one for every 128 MB.")
    ] = None,
    columns: Map = None,
    header: Header = None,
    time_unit: TimeUnit = None,
    max_bad: Annotated[
        str | None,
        typer.Option(
            "--max-bad",
            metavar="N|N%",
            help="Stop at more bad rows than this (default: the greater of 1000 and 1%, and half of all at the end).",
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write a provider's files as Parquet, partitioned by entity and ordered in time; goes on where it was stopped."""
    startup.spare_pandas()
    from wayeb_py.arguments import read_bad_limit
    from wayeb_py.providers.convert import convert

    try:
        limit = None if max_bad is None else read_bad_limit(max_bad)
    except ValueError as error:
        misuse(str(error))
    with _bar(visible=not quiet and sys.stderr.isatty()) as tell:
        done = convert(
            paths,
            provider.value,
            out,
            partitions=partitions,
            mapping=_mapping(columns, provider),
            time_unit=None if time_unit is None else time_unit.value,
            header=_header(header, provider),
            max_bad=limit,
            on_progress=tell,
        )
    if as_json:
        print(json.dumps(asdict(done), ensure_ascii=False, indent=2))
    elif not quiet:
        events, entities, files = (
            f"{number:,} {one if number == 1 else several}"
            for number, one, several in (
                (done.events, "event", "events"),
                (done.entities, "entity", "entities"),
                (done.partitions, "file", "files"),
            )
        )
        print(f"{events} of {entities} in {files} below {done.out}")
        for reason, count in sorted(done.aside.items()):
            print(f"  set aside: {count:,} ({visible(reason)})")
        for name, facts in sorted(done.unreadable.items()):
            print(visible(f"  unreadable: {facts['count']:,} of `{name}`, first `{facts['example']}`"))


@app.command("describe")
@explained()
def describe_files(
    paths: Paths,
    provider: Annotated[Provider | None, typer.Option("--from", help="Whose files they are.")] = None,
    columns: Map = None,
    header: Header = None,
    time_unit: TimeUnit = None,
    as_json: AsJson = False,
) -> None:
    """Say what is in event files, and suggest the stream block for them."""
    startup.spare_pandas()
    from wayeb_py.providers.survey import render_survey, survey

    found = survey(
        paths,
        None if provider is None else provider.value,
        _mapping(columns, provider),
        None if time_unit is None else time_unit.value,
        _header(header, provider),
    )
    if as_json:
        print(json.dumps(found.to_json(), ensure_ascii=False, indent=2, default=str))
    else:
        print(visible_lines(render_survey(found)), end="")


@app.command("generate")
@explained()
def generate_events(
    traffic: Annotated[Traffic, typer.Argument(help="What to make up.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder for events, occurrences and places.")],
    events: Annotated[int, typer.Option(metavar="N", min=1, help="How many events.")] = 100_000,
    entities: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many vehicles or vessels; by default it goes by events.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed gives the same events.")] = 1,
    quiet: Quiet = False,
) -> None:
    """Make up traffic: events.parquet, what occurs in it (_occurrences.csv), and the places around it (_geo/)."""
    startup.spare_pandas()
    from wayeb_py.simulate import fleet, maritime
    from wayeb_py.simulate.invented_roads import write_roads
    from wayeb_py.simulate.invented_sea import write_sea
    from wayeb_py.simulate.occurrences import write_generated

    if traffic == Traffic.FLEET:
        pieces, schema = fleet.generate_fleet(events, entities, seed), fleet.SCHEMA
        write_roads(out / "_geo")
    else:
        pieces, schema = maritime.generate_maritime(events, entities, seed), maritime.SCHEMA
        write_sea(out / "_geo")
    with _bar(visible=not quiet and sys.stderr.isatty()) as tell:
        occurring = write_generated(
            pieces,
            schema,
            out / "events.parquet",
            out / "_occurrences.csv",
            None if tell is None else lambda n: tell("generating", n, events),
        )
    if not quiet:
        print(f"{events:,} events in {out / 'events.parquet'}")
        width = max(map(len, occurring), default=0)
        for name, count in occurring.items():
            print(f"  {name:<{width}} {count:>9,}")


def _header(text: str | None, provider: Provider | None) -> list[str]:
    """The names of `--header t,mmsi,lon,lat`."""
    if text is None:
        return []
    if provider not in (None, Provider.CSV):
        misuse("--header is for `--from csv`: the other providers' columns are known")
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        misuse(f"`--header {text}` leaves a column without a name; write --header t,mmsi,lon,lat")
    return names


def _mapping(columns: list[str] | None, provider: Provider | None) -> dict[str, str]:
    """`speed=SOG` and the like as a mapping."""
    if columns and provider not in (None, Provider.CSV):
        misuse("--map is for `--from csv`: the other providers' columns are known")
    mapping = {}
    for text in columns or []:
        name, equals, column = text.partition("=")
        if not equals or not name or not column:
            misuse(f"`--map {text}` does not say which column is what; write it as speed=SOG")
        mapping[name] = column
    return mapping


@contextmanager
def _bar(visible: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """Somebody to tell progress to: a bar for each phase, or nobody."""
    if not visible:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, TaskID

    tasks: dict[str, TaskID] = {}
    with Progress(console=Console(stderr=True), transient=True) as bars:

        def tell(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = bars.add_task(phase, total=total)
            bars.update(tasks[phase], completed=done, total=total)

        yield tell
