"""`wayeb fmt`: pattern files in, the same files laid out in the usual way."""

from __future__ import annotations

from typing import Annotated

import typer

from wayeb_py.cli.exit_codes import PATTERN_FAULT, explained
from wayeb_py.cli.options import PatternFolders, Quiet
from wayeb_py.cli.pattern_text import naming, replace_text


@explained()
def lay_out(
    files: PatternFolders,
    only_check: Annotated[bool, typer.Option("--check", help="Change nothing; tell which files would change.")] = False,
    quiet: Quiet = False,
) -> None:
    """Lay out pattern files in the usual way; comments are kept."""
    from wayeb_py.cli.pattern_files import find_files
    from wayeb_py.dsl import format_text
    from wayeb_py.dsl.reader import read_text

    n_changed = 0
    for path in find_files(files):
        text = read_text(path)
        with naming(path):
            laid_out = format_text(text)
        if laid_out == text:
            continue
        n_changed += 1
        if not only_check:
            replace_text(path, laid_out)
        if not quiet:
            print(f"{'would change' if only_check else 'changed'} {path}")
    if only_check and n_changed:
        raise SystemExit(PATTERN_FAULT)
