"""The options that say whose files are read and which column is what, shared by the commands about data."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from wayeb_py.cli.exit_codes import misuse


class Provider(StrEnum):
    """Whose files are read."""

    NOAA = "noaa"
    DMA = "dma"
    NMEA = "nmea"
    GTFS = "gtfs"
    BREST = "brest"
    CSV = "csv"


Paths = Annotated[list[str], typer.Argument(metavar="PATH...", help="Files, folders, globs.")]
ColumnMap = Annotated[
    list[str] | None,
    typer.Option(
        "--map", metavar="NAME=COLUMN", help="With csv: which column is what, such as speed=SOG, or speed=SOG*0.1."
    ),
]
Header = Annotated[
    str | None,
    typer.Option("--header", metavar="NAME,NAME", help="With csv: the columns of files that begin with a row."),
]


def read_header(text: str | None, provider: Provider | None) -> list[str]:
    """The names of `--header t,mmsi,lon,lat`."""
    if text is None:
        return []
    if provider not in (None, Provider.CSV):
        misuse("--header is for `--from csv`: the other providers' columns are known")
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        misuse(f"`--header {text}` leaves a column without a name; write --header t,mmsi,lon,lat")
    return names


def read_mapping(columns: list[str] | None, provider: Provider | None) -> dict[str, str]:
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
