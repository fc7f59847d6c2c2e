"""`wayeb convert`: a pattern file of the older prefix form becomes one of this language."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wayeb_py.cli.exit_codes import explained
from wayeb_py.cli.pattern_text import naming, replace_text


@explained()
def convert_prefix_form(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file in the older prefix form.")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Where to write; standard output without it.")
    ] = None,
) -> None:
    """Rewrite a file of the older prefix form in this language."""
    from wayeb_py.dsl import convert_prefix
    from wayeb_py.dsl.reader import read_text
    from wayeb_py.dsl.syntax.parser import parse_source
    from wayeb_py.dsl.syntax.prefix.which_form import is_prefix_form
    from wayeb_py.errors import SourceText, UsageError

    text = read_text(file)
    if not is_prefix_form(text) and not parse_source(SourceText(str(file), text))[1]:
        told = "is in this language already: `wayeb fmt` lays it out, and nothing is to be converted"
        raise UsageError(f"`{file}` {told}")
    with naming(file):
        converted = convert_prefix(text)
    if out is None:
        print(converted, end="" if converted.endswith("\n") else "\n")
    else:
        replace_text(out, converted)
