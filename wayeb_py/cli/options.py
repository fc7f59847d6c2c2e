"""The options and arguments that several commands take, each defined once: its names, its metavar, its help."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class UnitOption(StrEnum):
    """Units of a time that is a number."""

    S = "s"
    MS = "ms"
    US = "us"
    NS = "ns"


class CleanOption(StrEnum):
    """What values are checked against."""

    AIS = "ais"
    GPS = "gps"


PatternFiles = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Pattern files (.sre).")]
PatternFolders = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...",
        help="Pattern files, each by itself; a folder means all .sre below it, what they include with them.",
    ),
]
# Options about events.
EventFiles = Annotated[
    list[str],
    typer.Option("--data", metavar="PATH...", help="The events: files, folders, globs, as for `wayeb run`."),
]
TimeUnit = Annotated[UnitOption | None, typer.Option("--time-unit", help="Unit of a time that is a number.")]
Since = Annotated[str | None, typer.Option(metavar="TIME", help="Only events from this time on.")]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Only events before this time.")]
MaxBad = Annotated[
    str | None,
    typer.Option(
        "--max-bad",
        metavar="N|N%",
        help="Stop at more bad rows than this (default: the greater of 1000 and 1%, and half of all at the end).",
    ),
]
# Options about what is recognised.
ForcedPlans = Annotated[
    list[str] | None,
    typer.Option(
        "--plan",
        metavar='"RULE: MEMBER..."',
        help="The order in which a rule joins its members, parentheses first; `wayeb explain --plan` shows plans.",
    ),
]
ChosenPatterns = Annotated[
    list[str] | None, typer.Option("--pattern", metavar="NAME...", help="Only these patterns; by default all.")
]
Episodes = Annotated[bool, typer.Option("--episodes", help="Write episodes instead of single detections.")]
Longest = Annotated[bool, typer.Option("--longest", help="Starts of the longest matches.")]
CleanBy = Annotated[
    CleanOption | None, typer.Option("--clean", help="Take values that cannot be true as missing, and count them.")
]
# Options about what a command says.
Strict = Annotated[bool, typer.Option("--strict", help="Warnings are errors.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
