"""What commands share: their options, and how a fault becomes a message and an exit code.

Everything heavy is imported by the command that needs it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from wayeb_py.errors import (
    DataError,
    EventsError,
    LimitError,
    MissingColumnError,
    PassingError,
    PatternError,
    UsageError,
    visible_lines,
)

if TYPE_CHECKING:
    from wayeb_py.functions import UserFunction
    from wayeb_py.patterns import Patterns

FEW = 5  # names that a message can list
PATTERN_FAULT, USAGE_FAULT, DATA_FAULT, LIMIT_FAULT, INTERRUPTED, PIPE_CLOSED = 1, 2, 3, 4, 130, 141
PASSING_FAULT = 75  # what sysexits.h calls EX_TEMPFAIL: the same call may do better later


class Unit(StrEnum):
    """Units of a time that is a number."""

    S = "s"
    MS = "ms"
    US = "us"
    NS = "ns"


class Clean(StrEnum):
    """What values are checked against."""

    AIS = "ais"
    GPS = "gps"


Key = Annotated[str | None, typer.Option(metavar="COLUMN", help="Key column, where there is no stream block.")]
Time = Annotated[str | None, typer.Option(metavar="COLUMN", help="Time column, where there is no stream block.")]
TimeUnit = Annotated[Unit | None, typer.Option("--time-unit", help="Unit of a time that is a number.")]
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
Strict = Annotated[bool, typer.Option("--strict", help="Warnings are errors.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")]
Chosen = Annotated[
    list[str] | None, typer.Option("--pattern", metavar="NAME...", help="Only these patterns; by default all.")
]
SkipMissing = Annotated[
    bool, typer.Option("--skip-missing", help="Leave out patterns whose columns the events lack, and name them.")
]
CsvSafe = Annotated[
    bool, typer.Option("--csv-safe", help="In CSV, put a ' before texts that a spreadsheet would take for formulas.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

CleanOption = Annotated[
    Clean | None, typer.Option("--clean", help="Take values that cannot be true as missing, and count them.")
]


@contextmanager
def explained(skipping: str = "") -> Iterator[None]:
    """Turns every fault of a user's into its message and exit code; stands around each command.

    `skipping` is what a command says further where some patterns ask for a column that is missing.

    Around all of them it would come too late: what reads the arguments has its own ideas of an interruption.
    """
    try:
        yield
    except PatternError as error:
        fail(error, PATTERN_FAULT)
    except UsageError as error:
        fail(error, USAGE_FAULT)
    except MissingColumnError as error:
        fail(f"{error}{skipping}", DATA_FAULT)
    except PassingError as error:
        fail(error, PASSING_FAULT)
    except (EventsError, DataError) as error:
        fail(error, DATA_FAULT)
    except LimitError as error:
        fail(error, LIMIT_FAULT)
    except KeyboardInterrupt:
        fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # Whoever read the output has enough; what Python would still flush has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(PIPE_CLOSED) from None


def fail(error: object, code: int) -> NoReturn:
    print(visible_lines(str(error)), file=sys.stderr)
    raise SystemExit(code)


def misuse(message: str) -> NoReturn:
    fail(message, USAGE_FAULT)


def compile_files(
    files: list[Path],
    key: str | None,
    time: str | None,
    time_unit: Unit | None,
    functions: list[UserFunction],
    places: list[str] | None,
    **options: Any,
) -> Patterns:
    from wayeb_py.patterns import compile_patterns
    from wayeb_py.spatial.given_places import read_given

    unit = None if time_unit is None else time_unit.value
    given = read_given(places or ())
    return compile_patterns(files, key=key, time=time, time_unit=unit, functions=functions, places=given, **options)


def places_by_file(paths: list[Path], places: list[str] | None) -> list[list[str]]:
    """For each file the `--places` that are its own; names that no file declares stay with all, who report them."""
    from wayeb_py.cli.pattern_files import declared_places
    from wayeb_py.spatial.given_places import read_given

    if not places:
        return [[] for _ in paths]
    texts = dict(zip(read_given(places), places, strict=True))
    own = [declared_places(path) for path in paths]
    known = set().union(*own)
    return [[text for name, text in texts.items() if name in its or name not in known] for its in own]


def leave_out(patterns: Patterns, data: list[str]) -> tuple[Patterns, dict[str, tuple[str, ...]]]:
    """What `--skip-missing` leaves of the patterns, and what the others lack."""
    from wayeb_py.run.left_out import columns_of, leave_out_missing

    if "-" in data:
        misuse("--skip-missing looks at the columns before the run, which standard input does not allow")
    return leave_out_missing(patterns, columns_of(data))


def select_patterns(patterns: Patterns, names: list[str] | None) -> Patterns:
    """The patterns of these names, or all where none is given; a name that no pattern has is an error of usage."""
    if not names:
        return patterns
    for name in names:
        if name not in patterns.names:
            close = get_close_matches(name, patterns.names, n=1) if len(patterns.names) > FEW else []
            told = f"did you mean `{close[0]}`?" if close else f"there are {', '.join(patterns.names)}"
            misuse(f"no pattern is called `{name}`; {told}")
    return patterns.select(names)


def show_warnings(patterns: Patterns, strict: bool) -> None:
    if patterns.warnings:
        print("\n\n".join(warning.render() for warning in patterns.warnings), file=sys.stderr)
        if strict:
            raise SystemExit(PATTERN_FAULT)


def load_functions(paths: list[Path] | None) -> list[UserFunction]:
    if not paths:
        return []
    from wayeb_py.cli import function_files

    try:
        return function_files.load_functions(paths)
    except ValueError as error:
        misuse(f"--functions {error}")
