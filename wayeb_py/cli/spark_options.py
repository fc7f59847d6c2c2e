"""The options about Spark decide where a batch runs, in this process or on Spark, and say why there.

Nothing here imports Spark until Spark is chosen.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from wayeb_py.cli.exit_codes import misuse
from wayeb_py.errors import DataError
from wayeb_py.run.choose_engine import Machine
from wayeb_py.run.choose_engine import choose_engine as engine_for

if TYPE_CHECKING:
    from wayeb_py.files.output.set_aside import BadLimit
    from wayeb_py.parallel.batch.task_output import By as OutputFolders
    from wayeb_py.patterns import Patterns
    from wayeb_py.run.summary import Progress, Summary


class Engine(StrEnum):
    """Where patterns are run."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


class Scheme(StrEnum):
    """How Spark spreads the work."""

    AUTO = "auto"
    SOURCE = "source"
    PARTITION = "partition"
    PATTERN = "pattern"


EngineChoice = Annotated[
    Engine, typer.Option("--engine", help="In this process, or on Spark; auto takes Spark if a master is configured.")
]
Master = Annotated[str | None, typer.Option(metavar="URL", help="Spark's master: local[4], spark://HOST:7077, yarn.")]
SparkScheme = Annotated[
    Scheme | None,
    typer.Option("--scheme", help="On Spark: recognise where files are read, shuffle by entity, or split patterns."),
]
By = Annotated[
    str | None,
    typer.Option("--by", metavar="pattern,day", help="On Spark: folders of the output, by pattern and by day."),
]


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """What only Spark understands."""

    master: str | None
    scheme: Scheme | None
    by: tuple[OutputFolders, ...]

    def named(self) -> str | None:
        """The first option that was given."""
        given = {"--master": self.master, "--scheme": self.scheme, "--by": self.by}
        return next((name for name, value in given.items() if value), None)


def read_spark_options(master: str | None, scheme: Scheme | None, by: str | None) -> SparkOptions:
    """The options, or one line on what is wrong with them."""
    names = [] if by is None else [name.strip() for name in by.split(",")]
    unknown = [name for name in names if name not in ("pattern", "day")]
    if unknown or len(set(names)) < len(names):
        misuse(f"--by {by}: write pattern, day, or pattern,day")
    return SparkOptions(master, scheme, cast("tuple[OutputFolders, ...]", tuple(names)))


def choose_engine(engine: Engine, options: SparkOptions, data: list[str], state: str | None) -> tuple[Engine, str]:
    """Where to run, and why there."""
    named = options.named()
    if engine == Engine.LOCAL:
        if named is not None:
            misuse(f"{named} is for Spark: run with --engine spark, or without {named}")
        return engine, "as asked for"
    only_here = "--state" if state is not None else "--data -" if "-" in data else None
    if engine == Engine.SPARK or named is not None:
        if only_here == "--state":
            misuse(
                "--state keeps state in one process, which Spark has not: run with --engine local, "
                "or use `wayeb stream` with --checkpoint"
            )
        if only_here is not None:
            misuse("Spark cannot read standard input: keep the events in a file, or run with --engine local")
        return Engine.SPARK, "as asked for" if engine == Engine.SPARK else f"because of {named}"
    if only_here is not None:
        return Engine.LOCAL, f"because of {only_here}"
    if not data:
        return Engine.LOCAL, "there are no events"
    where, why = engine_for(_n_bytes(data), os.environ, Machine.here(), _hindrance)
    return Engine(where), f"because {why}" if where == "spark" else why


def _hindrance() -> str | None:
    """Why Spark cannot run here, if it cannot."""
    from wayeb_py.parallel.spark.session import require_spark

    try:
        require_spark()
    except DataError as error:
        return error.message
    return None


def _n_bytes(data: list[str]) -> int:
    from wayeb_py.files.discover import find_files

    return sum(file.n_bytes for file in find_files(data))


def run_on_spark(
    patterns: Patterns,
    paths: Mapping[str, list[str]],
    out: str,
    options: SparkOptions,
    *,
    workers: int | None,
    why: str,
    plans: Mapping[str, str],
    episodes: bool,
    since_s: Fraction | None,
    until_s: Fraction | None,
    max_bad: BadLimit | None,
    aside: Path | None,
    csv_safe: bool,
    on_progress: Callable[[Progress], None] | None,
    on_plan: Callable[[str], None] | None,
) -> Summary:
    """The run as a job of Spark's."""
    from wayeb_py.parallel.spark.session import require_spark

    require_spark()  # what comes next imports Spark
    from wayeb_py.parallel.batch import job

    scheme: Any = "auto" if options.scheme is None else options.scheme.value
    return job.run(
        patterns,
        paths,
        out,
        master=options.master,
        scheme=scheme,
        workers=workers,
        by=options.by,
        episodes=episodes,
        since_s=since_s,
        until_s=until_s,
        max_bad=max_bad,
        aside=aside,
        csv_safe=csv_safe,
        plans=plans,
        on_progress=on_progress,
        on_plan=None if on_plan is None else lambda plan: on_plan(f"on Spark {why}: {plan}"),
    )
