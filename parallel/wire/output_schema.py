"""Computes the output's columns before a job or a stream begins; raises for patterns that do not run there."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.binding import bind_schema
from wayeb_py.engine.priority_levels.validity import Validity
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.engine.rows.detection_id import with_id_first
from wayeb_py.engine.rows.detection_schema import STALE
from wayeb_py.errors import DataError
from wayeb_py.parallel.wire.event_schemas import by_stream, has_several


def output_schema(patterns: CompiledPatterns, events: pa.Schema, episodes: bool) -> pa.Schema:
    """The columns of the patterns' detections in these events (`event_schemas`: of all streams); EventsError or
    DataError where they cannot run on them."""
    refuse_no_stream(patterns)
    if patterns.clocked or has_several(patterns):
        return bound_schema(patterns, by_stream(patterns, events), episodes)
    rows = bind_schema(patterns, events)
    return rows.episodes if episodes else rows.detections


def bound_schema(patterns: CompiledPatterns, events: Mapping[str, pa.Schema], episodes: bool) -> pa.Schema:
    """The columns of the patterns' detections in events of these types, by stream."""
    recogniser = Recogniser(patterns, saves=False)
    for name, schema in events.items():
        recogniser.bind(schema, name)
    return recogniser.schema.episodes if episodes else recogniser.schema.detections


def written_schema(patterns: CompiledPatterns, found: pa.Schema) -> pa.Schema:
    """The columns that a stream writes of what was found: the id first, and last whether it left too late, where the
    patterns say so."""
    found = with_id_first(found)
    return found.append(pa.field(STALE, pa.bool_())) if Validity(patterns).marks else found


def refuse_no_stream(patterns: CompiledPatterns) -> None:
    """Raises DataError for a file that a batch runs, in one process or on Spark, and a running stream does not."""
    if not patterns.by_stream:
        raise DataError(
            "these rules read files of facts alone, and a running stream would have nothing to wait for",
            hint="run them as a batch: `wayeb run`",
        )


def refuse_service(patterns: CompiledPatterns, marks: bool = False) -> None:
    """Raises DataError for clauses about the quality of service that a stream on Spark would silently ignore;
    `marks` says that detections which leave too late are marked."""
    meaning = patterns.meaning
    for stream in meaning.streams:
        if stream.replaces:
            raise DataError(
                f"the stream `{stream.name}` says `replace`, and a stream on Spark keeps all events",
                hint="run it in one process (`wayeb stream --engine local`), or leave the line out",
            )
    every: list[m.Pattern | m.Rule] = [*meaning.patterns, *meaning.rules]
    for one in every:
        service = one.service
        is_valid_for = service.valid_s is not None and (service.drops_stale or not marks)
        clause = "valid for … else drop" if service.drops_stale else "valid for"
        if service.shed_s is not None or is_valid_for:
            raise DataError(
                f"`{one.name}` says `{'shed after' if service.shed_s is not None else clause}`, and a stream on Spark "
                "keeps all events and all detections",
                hint="run it in one process (`wayeb stream --engine local`), or leave the clause out",
            )
