"""`wayeb explain`: pattern files in, the automata that they compile to out, as a table or as a picture's source."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from wayeb_py.cli.exit_codes import explained
from wayeb_py.cli.option_groups import grouped
from wayeb_py.cli.options import PatternFiles
from wayeb_py.cli.pattern_options import PatternOptionsWithPlaces, select_patterns


class ExplainForm(StrEnum):
    """How an automaton is shown."""

    TABLE = "table"
    DOT = "dot"
    MERMAID = "mermaid"


@grouped
@explained()
def show_automata(
    files: PatternFiles,
    pattern: Annotated[str | None, typer.Option(metavar="NAME", help="Only this pattern.")] = None,
    form: Annotated[
        ExplainForm, typer.Option("--form", help="A readable table, or a picture's source.")
    ] = ExplainForm.TABLE,
    *,
    compiling: PatternOptionsWithPlaces,
    longest: Annotated[bool, typer.Option("--longest", help="As it is run for the longest matches.")] = False,
) -> None:
    """Show what patterns are compiled to: predicates, minterms, states, cost."""
    patterns = compiling.compile(files, longest=longest)
    select_patterns(patterns, None if pattern is None else [pattern])
    from wayeb_py.compiler.explain import explain

    print(explain(patterns, pattern=pattern, form=form.value))
