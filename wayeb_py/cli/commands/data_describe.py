"""`wayeb data describe`: event files in, their columns and a stream block for them out."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from wayeb_py.cli.exit_codes import explained
from wayeb_py.cli.options import AsJson, TimeUnit
from wayeb_py.cli.provider_options import ColumnMap, Header, Paths, Provider, read_header, read_mapping
from wayeb_py.errors import visible_lines
from wayeb_py.run import startup


@explained()
def describe_files(
    paths: Paths,
    provider: Annotated[Provider | None, typer.Option("--from", help="Whose files they are.")] = None,
    columns: ColumnMap = None,
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
        read_mapping(columns, provider),
        None if time_unit is None else time_unit.value,
        read_header(header, provider),
    )
    if as_json:
        print(json.dumps(found.to_json(), ensure_ascii=False, indent=2, default=str))
    else:
        print(visible_lines(render_survey(found)), end="")
