"""Computes the output's columns before a job or a stream begins; raises for patterns that do not run on Spark."""

from __future__ import annotations

import pyarrow as pa

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.compiler.streams import quoted
from wayeb_py.engine.binding import bind_schema
from wayeb_py.errors import DataError


def schema_of_found(patterns: CompiledPatterns, events: pa.Schema, episodes: bool) -> pa.Schema:
    """The columns of the patterns' detections in such events; EventsError or DataError where they cannot run on
    them."""
    refuse_what_does_not_run(patterns)
    rows = bind_schema(patterns, events)
    return rows.episodes if episodes else rows.detections


def refuse_what_does_not_run(patterns: CompiledPatterns) -> None:
    """Raises DataError for patterns that one process runs and Spark does not."""
    clocked, streams = patterns.clocked, patterns.meaning.streams
    if clocked:
        what = "rule" if clocked[0] in patterns.rule_names else "pattern"
        raise DataError(
            f"{what} `{clocked[0]}` goes by a clock over all entities, which tasks on Spark do not share yet",
            hint="run it in one process: `wayeb run --engine local`",
        )
    if len(streams) > 1:
        names = quoted(stream.name or "" for stream in streams)
        raise DataError(
            f"this file has the streams {names}, and a job on Spark reads one",
            hint="run it in one process: `wayeb run --engine local`",
        )
