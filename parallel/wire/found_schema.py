"""Computes the output's columns before a job or a stream begins; raises for patterns that do not run there."""

from __future__ import annotations

import pyarrow as pa

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.compiler.streams import quoted
from wayeb_py.engine.binding import bind_schema
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.errors import DataError


def schema_of_found(patterns: CompiledPatterns, events: pa.Schema, episodes: bool) -> pa.Schema:
    """The columns of the patterns' detections in such events, of one stream; EventsError or DataError where they cannot
    run on them."""
    refuse_several_streams(patterns)
    if patterns.clocked:
        recogniser = Recogniser(patterns, saves=False)
        recogniser.bind(events)
        rows = recogniser.schema
    else:
        rows = bind_schema(patterns, events)
    return rows.episodes if episodes else rows.detections


def refuse_several_streams(patterns: CompiledPatterns) -> None:
    """Raises DataError for a file that a batch runs, in one process or on Spark, and a running stream does not."""
    streams = patterns.meaning.streams
    if len(streams) > 1:
        names = quoted(stream.name or "" for stream in streams)
        raise DataError(
            f"this file has the streams {names}, and a running stream on Spark reads one",
            hint="run it over what has arrived, as a batch: `wayeb run`, with `--engine spark` on Spark",
        )
    if not patterns.by_stream:
        raise DataError(
            "these rules read files of facts alone, and a running stream would have nothing to wait for",
            hint="run them as a batch: `wayeb run`",
        )


def refuse_several_entities(patterns: CompiledPatterns) -> None:
    """Raises DataError for patterns that go by a clock, where nothing says which partition an event comes from."""
    if patterns.clocked:
        what = "rule" if patterns.clocked[0] in patterns.rule_names else "pattern"
        raise DataError(
            f"{what} `{patterns.clocked[0]}` goes by a clock over all entities, and the rows of a streaming data frame "
            "do not say from which partition they come",
            hint="run it with `wayeb stream` (in Python: `parallel.stream.stream.stream`), which reads the source "
            "itself, or over what has arrived, as a batch",
        )
