"""`wayeb data generate`: a seed becomes made-up traffic, what occurs in it, and the places around it."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from wayeb_py.cli.exit_codes import explained
from wayeb_py.cli.options import Quiet
from wayeb_py.cli.progress_bar import progress_bar
from wayeb_py.run import startup


class Traffic(StrEnum):
    """The kinds of traffic."""

    FLEET = "fleet"
    MARITIME = "maritime"


@explained()
def generate_events(
    traffic: Annotated[Traffic, typer.Argument(help="What to make up.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder for events, occurrences and places.")],
    events: Annotated[int, typer.Option(metavar="N", min=1, help="How many events.")] = 100_000,
    entities: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many vehicles or vessels; by default it goes by events.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed gives the same events.")] = 1,
    scenes: Annotated[
        bool, typer.Option("--scenes", help="Stage scenes for the rules of the library as well, one an hour.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Make up traffic: events.parquet, what occurs in it (_occurrences.csv), and the places around it (_geo/)."""
    startup.spare_pandas()
    from wayeb_py.simulate import fleet, maritime
    from wayeb_py.simulate.generated_files import write_generated
    from wayeb_py.simulate.invented_roads import write_roads
    from wayeb_py.simulate.invented_sea import write_sea

    if traffic == Traffic.FLEET:
        pieces, schema = fleet.generate_fleet(events, entities, seed), fleet.SCHEMA
        write_roads(out / "_geo")
    else:
        pieces, schema = maritime.generate_maritime(events, entities, seed), maritime.SCHEMA
        write_sea(out / "_geo")
    if scenes:
        from wayeb_py.simulate.staged_roads import ROAD_STAGE
        from wayeb_py.simulate.staged_scenes import with_scenes
        from wayeb_py.simulate.staged_sea import SEA_STAGE

        pieces = with_scenes(pieces, ROAD_STAGE if traffic == Traffic.FLEET else SEA_STAGE)
    with progress_bar(visible=not quiet and sys.stderr.isatty()) as tell:
        occurring = write_generated(
            pieces,
            schema,
            out / "events.parquet",
            out / "_occurrences.csv",
            None if tell is None else lambda n: tell("generating", n, events),
        )
    if not quiet:
        more = " and those of scenes" if scenes else ""
        print(f"{events:,} events{more} in {out / 'events.parquet'}")
        width = max(map(len, occurring), default=0)
        for name, count in occurring.items():
            print(f"  {name:<{width}} {count:>9,}")
