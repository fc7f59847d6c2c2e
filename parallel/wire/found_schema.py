"""Computes the output's columns before a job or a stream begins; raises for patterns that do not run as a stream."""

from __future__ import annotations

import pyarrow as pa

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.compiler.streams import quoted
from wayeb_py.engine.binding import bind_schema
from wayeb_py.errors import DataError


def schema_of_found(patterns: CompiledPatterns, events: pa.Schema, episodes: bool) -> pa.Schema:
    """The columns of the patterns' detections in such events, of patterns of one entity and one stream; EventsError or
    DataError where they cannot run on them."""
    refuse_what_does_not_run(patterns)
    rows = bind_schema(patterns, events)
    return rows.episodes if episodes else rows.detections


def refuse_what_does_not_run(patterns: CompiledPatterns) -> None:
    """Raises DataError for patterns that a batch runs, in one process or on Spark, and a stream does not."""
    clocked, streams = patterns.clocked, patterns.meaning.streams
    if clocked:
        what = "rule" if clocked[0] in patterns.rule_names else "pattern"
        raise DataError(
            f"{what} `{clocked[0]}` goes by a clock over all entities, which partitions of a stream do not share yet",
            hint="run it over what has arrived, as a batch: `wayeb run`, with `--engine spark` on Spark",
        )
    if len(streams) > 1:
        names = quoted(stream.name or "" for stream in streams)
        raise DataError(
            f"this file has the streams {names}, and a running stream on Spark reads one",
            hint="run it over what has arrived, as a batch: `wayeb run`, with `--engine spark` on Spark",
        )
