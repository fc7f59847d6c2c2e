"""Describes a peer to the harness: its name, its start, and what it cannot express."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
SIX = (
    "Route",
    "ParkedMovingSwing",
    "IdleParkedSwing",
    "SpeedSwing",
    "MovingWithZeroSpeed",
    "MovingWithBadSignal",
)
# A task: patterns that are recognised together, by a name.
TASKS: dict[str, tuple[str, ...]] = {
    "six": SIX,
    "StopAndGo": ("StopAndGo",),
    "Legs": ("Legs",),
    "CalmTrip": ("CalmTrip",),
    "Towed": ("Towed",),
}
# Tasks of `wayeb bench measures`: the six with measures, whose values are part of a detection's name, and with named
# events.
MATCH_TASKS: dict[str, tuple[str, ...]] = {
    "measured": tuple(f"Measured{name}" for name in SIX),
    "named": tuple(f"Named{name}" for name in SIX),
}
_COMMENT = re.compile(r"(#|//|--|;;)")
_MARK = re.compile(r"lines: (\w+)")


class MissingError(Exception):
    """The peer cannot run here; the text says why, and what would help."""


def _python(module: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"benchmarks.peers.{module}"]


@dataclass(frozen=True, slots=True)
class Form:
    """A peer's own form of the patterns, and the process that runs it.

    `start` prepares what the process needs (an environment, compiled classes) and returns its command; it raises
    `MissingError` where that is not available.
    """

    name: str  # as `--only` has it
    title: str
    module: str
    form: str  # one sentence for the reader of the table
    needs: tuple[str, ...] = ()  # Python modules that must be importable
    cannot: Mapping[str, str] = field(default_factory=dict)  # task: why
    written: tuple[str, ...] = ()  # files with the user's own lines
    columns: str = "parquet"  # what the process reads: "parquet", or "csv", made from it beforehand
    make_ready: Callable[[], list[str]] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)  # for engines that cannot report it themselves
    marks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # task: its marks, where they are several

    def start(self) -> list[str]:
        absent = [name for name in self.needs if importlib.util.find_spec(name) is None]
        if absent:
            raise MissingError(f"{', '.join(absent)} is not installed: pip install 'wayeb-py[peers,spark]'")
        return (self.make_ready or _python(self.module))()

    def lines(self, task: str) -> int | None:
        """How many lines the user writes for a task: neither blank nor comment."""
        return (
            None
            if task in self.cannot
            else sum(count_lines(HERE / file, mark) for file in self.written for mark in self.marks.get(task, (task,)))
        )


def count_lines(path: Path, task: str) -> int:
    counts, n = False, 0
    for line in path.read_text().splitlines():
        mark = _MARK.search(line)
        if mark:
            counts = mark[1] == task
        elif counts and line.strip() and not _COMMENT.match(line.strip()):
            n += 1
    return n


def section(path: Path, task: str) -> str:
    """The text between a task's mark and the next."""
    pieces = _MARK.split(path.read_text())
    # The line of the next mark begins with its comment sign, which is left at the end of the piece before.
    return {name: text.rsplit("\n", 1)[0] for name, text in zip(pieces[1::2], pieces[2::2], strict=True)}[task]


def java_tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise MissingError(f"{name} is not on the PATH")
    return found
