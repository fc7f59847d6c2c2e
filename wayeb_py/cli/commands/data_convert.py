"""`wayeb data convert`: a provider's files become Parquet, partitioned by entity and ordered in time."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from wayeb_py.cli.exit_codes import explained
from wayeb_py.cli.option_values import read_bad_limit
from wayeb_py.cli.options import AsJson, MaxBad, Quiet, TimeUnit
from wayeb_py.cli.progress_bar import progress_bar
from wayeb_py.cli.provider_options import ColumnMap, Header, Paths, Provider, read_header, read_mapping
from wayeb_py.errors import visible
from wayeb_py.run import startup


@explained()
def convert_files(
    paths: Paths,
    provider: Annotated[Provider, typer.Option("--from", help="Whose files they are.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder for the Parquet files.")],
    partitions: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many files; by default one for every 128 MB.")
    ] = None,
    columns: ColumnMap = None,
    header: Header = None,
    time_unit: TimeUnit = None,
    max_bad: MaxBad = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write a provider's files as Parquet, partitioned by entity and ordered in time; goes on where it was stopped."""
    startup.spare_pandas()
    from wayeb_py.providers.convert import convert

    limit = read_bad_limit(max_bad)
    with progress_bar(visible=not quiet and sys.stderr.isatty()) as tell:
        done = convert(
            paths,
            provider.value,
            out,
            partitions=partitions,
            mapping=read_mapping(columns, provider),
            time_unit=None if time_unit is None else time_unit.value,
            header=read_header(header, provider),
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
