"""The options for compiling pattern files, shared by every command that compiles.

`PatternOptions` is a group of options (`option_groups`): commands take it whole and call `compile`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from wayeb_py.cli.exit_codes import PATTERN_FAULT, misuse
from wayeb_py.cli.options import TimeUnit

if TYPE_CHECKING:
    from wayeb_py.functions import UserFunction
    from wayeb_py.patterns import Patterns

FEW = 5  # names that a message can list

Key = Annotated[str | None, typer.Option(metavar="COLUMN", help="Key column, where there is no stream block.")]
Time = Annotated[str | None, typer.Option(metavar="COLUMN", help="Time column, where there is no stream block.")]
Functions = Annotated[
    list[Path] | None, typer.Option("--functions", metavar="FILE.py", help="Python file with predicates and functions.")
]
Outside = Annotated[bool, typer.Option("--outside", help="Pattern files may name files outside their own folder.")]
Places = Annotated[
    list[str] | None,
    typer.Option(
        "--places",
        metavar="NAME=FILE",
        help="The file of declared places or of a table, in the place of its own; behind it may stand: name COLUMN.",
    ),
]


@dataclass
class PatternOptions:
    """How to compile pattern files that keep the places they declare."""

    key: Key = None
    time: Time = None
    time_unit: TimeUnit = None
    functions: Functions = None
    outside: Outside = False

    def compile(self, files: list[Path], **others: Any) -> Patterns:
        """The patterns of the files; `others` are arguments of `compile_patterns`."""
        from wayeb_py.patterns import compile_patterns

        return compile_patterns(
            files, key=self.key, time=self.time, time_unit=self.unit, functions=self.user_functions,
            outside=self.outside, **others,
        )  # fmt: skip

    @property
    def unit(self) -> Literal["s", "ms", "us", "ns"] | None:
        return None if self.time_unit is None else self.time_unit.value

    @cached_property
    def user_functions(self) -> list[UserFunction]:
        """What the files of `--functions` define; each runs once however many pattern files there are."""
        if not self.functions:
            return []
        from wayeb_py.cli.function_files import load_functions

        try:
            return load_functions(self.functions)
        except ValueError as error:
            misuse(f"--functions {error}")


@dataclass
class PatternOptionsWithPlaces(PatternOptions):
    """How to compile pattern files with the user's places in place of the declared ones."""

    places: Places = None

    def compile(self, files: list[Path], **others: Any) -> Patterns:
        return self.compile_with(self.places or [], files, **others)

    def compile_with(self, places: list[str], files: list[Path], **others: Any) -> Patterns:
        """As `compile`, with these texts `NAME=FILE` instead of those of `--places`."""
        from wayeb_py.spatial.given_places import read_given

        return PatternOptions.compile(self, files, places=read_given(places), **others)

    def places_by_file(self, paths: list[Path]) -> list[list[str]]:
        """The texts of `--places` for each file; each file reports a name that no file declares."""
        from wayeb_py.cli.pattern_files import declared_places
        from wayeb_py.spatial.given_places import read_given

        if not self.places:
            return [[] for _ in paths]
        texts = dict(zip(read_given(self.places), self.places, strict=True))
        own = [declared_places(path) for path in paths]
        known = set().union(*own)
        return [[text for name, text in texts.items() if name in its or name not in known] for its in own]


def select_patterns(patterns: Patterns, names: list[str] | None) -> Patterns:
    """The patterns of these names, or all where none is given; a name that no pattern has is an error of usage."""
    if not names:
        return patterns
    known = (*patterns.names, *patterns.rule_names)
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, n=1) if len(known) > FEW else []
            told = f"did you mean `{close[0]}`?" if close else f"there are {', '.join(known)}"
            misuse(f"no pattern is called `{name}`; {told}")
    return patterns.select(names)


def show_warnings(patterns: Patterns, strict: bool, in_order: bool = False) -> None:
    """Prints the compiler's warnings that hold for events in order; with `--strict` they end the process."""
    warnings = [warning for warning in patterns.warnings if not (in_order and warning.of_arrival)]
    if warnings:
        print("\n\n".join(warning.render() for warning in warnings), file=sys.stderr)
        if strict:
            raise SystemExit(PATTERN_FAULT)
