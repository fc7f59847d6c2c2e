"""What commands share: their options, and how a fault becomes a message and an exit code.

Everything heavy is imported by the command that needs it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from wayeb_py.errors import DataError, EventsError, LimitError, PatternError

if TYPE_CHECKING:
    from wayeb_py.functions import UserFunction
    from wayeb_py.patterns import Patterns

PATTERN_FAULT, USAGE_FAULT, DATA_FAULT, LIMIT_FAULT, INTERRUPTED, PIPE_CLOSED = 1, 2, 3, 4, 130, 141


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
Strict = Annotated[bool, typer.Option("--strict", help="Warnings are errors.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

CleanOption = Annotated[
    Clean | None, typer.Option("--clean", help="Take values that cannot be true as missing, and count them.")
]


@contextmanager
def explained() -> Iterator[None]:
    """Turns every fault of a user's into its message and exit code; stands around each command.

    Around all of them it would come too late: what reads the arguments has its own ideas of an interruption.
    """
    try:
        yield
    except PatternError as error:
        fail(error, PATTERN_FAULT)
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
    print(error, file=sys.stderr)
    raise SystemExit(code)


def misuse(message: str) -> NoReturn:
    fail(message, USAGE_FAULT)


def compile_files(
    files: list[Path],
    key: str | None,
    time: str | None,
    time_unit: Unit | None,
    functions: list[UserFunction],
    **options: Any,
) -> Patterns:
    from wayeb_py.patterns import compile_patterns

    unit = None if time_unit is None else time_unit.value
    return compile_patterns(files, key=key, time=time, time_unit=unit, functions=functions, **options)


def show_warnings(patterns: Patterns, strict: bool) -> None:
    if patterns.warnings:
        print("\n\n".join(warning.render() for warning in patterns.warnings), file=sys.stderr)
        if strict:
            raise SystemExit(PATTERN_FAULT)


def load_functions(paths: list[Path] | None) -> list[UserFunction]:
    if not paths:
        return []
    from wayeb_py import function_files

    try:
        return function_files.load_functions(paths)
    except ValueError as error:
        misuse(f"--functions {error}")
