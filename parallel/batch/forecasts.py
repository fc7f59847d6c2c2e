"""A data frame of events becomes a data frame of forecasts: at each event, how likely the patterns are detected soon.

    from wayeb_py.parallel import forecast
    soon = forecast(events, wayeb_py.compile("trips.sre"), "model/", "10min", at_least=0.7)

A forecast depends on the word of its own entity alone, so the events are shuffled by entity, as for detections, and
each shard makes its forecasts in one process. Rows without key or time, and late ones, are left out: `recognise` with
`what="aside"` returns them, the same ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from wayeb_py.engine.arrival.tie_order import Disorder
from wayeb_py.errors import UsageError
from wayeb_py.files.formats.block import TimeRange
from wayeb_py.files.sort import sort_events
from wayeb_py.forecast.operator import ForecastOperator
from wayeb_py.forecast.tables import ForecastTables, Horizon, reading_also
from wayeb_py.parallel.batch.dataframe import frames_by_stream, pack_rows, sparks_schema, taken_columns
from wayeb_py.parallel.batch.task import JobSpec
from wayeb_py.parallel.spark.pattern_bundle import pack_patterns
from wayeb_py.parallel.spark.shared import share, task_slots
from wayeb_py.parallel.wire.packer import open_events
from wayeb_py.parallel.wire.parcel import from_batch
from wayeb_py.parallel.wire.routing import SHARDS_A_WORKER, route_by_hash
from wayeb_py.parallel.wire.spool import Rereadable
from wayeb_py.run.forecasts import load_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from wayeb_py.patterns import Patterns


def forecast(
    events: DataFrame,
    patterns: Patterns,
    model: str | os.PathLike[str],
    horizon: str,
    *,
    confidence: float = 0.7,
    at_least: float = 0.0,
    shards: int | None = None,
) -> DataFrame:
    """The forecasts at each event of a data frame, by the models in a folder that the driver can read.

    The rows are those of `wayeb forecast`; those with a probability below `at_least` are left out.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    _refuse_several(patterns)
    (events,) = frames_by_stream(patterns, events).values()
    tables = load_tables(patterns, model, [(name, Horizon.parse(horizon), confidence) for name in patterns.names])
    reading: Any = reading_also(patterns, *(own.model.by for own in tables))
    taken, schema = taken_columns(events, reading.wanted)
    made = sparks_schema(ForecastOperator(patterns, tables).bind(schema))
    spark = events.sparkSession
    routing = route_by_hash(shards or SHARDS_A_WORKER * task_slots(spark), [])
    n_targets = len(routing.targets)
    spec = share(spark, JobSpec(pack_patterns(reading), schema, made, TimeRange(), False, ()))
    shared = share(spark, tuple(tables))

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        incoming = (parcel for batch in batches for parcel in from_batch(batch))
        for target, own in groupby(incoming, key=lambda parcel: parcel.split):
            if target < n_targets:
                held = Rereadable(parcel.payload for parcel in own)
                try:
                    for table in _forecasts(spec.value, shared.value, at_least, partial(open_events, held)):
                        yield from table.cast(made).to_batches()
                finally:
                    held.close()

    parcels = pack_rows(taken, spec, routing)
    arranged = parcels.repartitionById(n_targets + 1, parcels["split"].cast("int"))
    ordered: Any = arranged.sortWithinPartitions("split", "number")
    frame: DataFrame = ordered.mapInArrow(task, from_arrow_schema(made))
    return frame


def _refuse_several(patterns: Patterns) -> None:
    """Raises UsageError where a forecast depends on more than the events of one entity."""
    if patterns.clocked or len(patterns.meaning.streams) > 1:
        told = f"`{patterns.clocked[0]}` is over pairs" if patterns.clocked else "this file has several streams"
        raise UsageError(
            f"on Spark there are forecasts of the patterns of one entity and one stream, and {told}",
            hint="forecast it in one process: `wayeb forecast`, or patterns.forecaster(…)",
        )


def _forecasts(
    spec: JobSpec, tables: Sequence[ForecastTables], at_least: float, read: Callable[[], Iterable[pa.RecordBatch]]
) -> list[pa.Table]:
    """The forecasts of a shard, whose events are put in the order of time if they are not."""
    patterns = spec.patterns_of(None)
    stream = patterns.meaning.stream
    assert stream.time is not None
    if stream.lateness_s is not None:
        return _attempt(ForecastOperator(patterns, tables, at_least=at_least), spec.schema, read())
    try:
        return _attempt(ForecastOperator(patterns, tables, at_least=at_least, order="sorted"), spec.schema, read())
    except Disorder:
        events = sort_events(read(), spec.schema, stream.time, stream.order)
        return _attempt(ForecastOperator(patterns, tables, at_least=at_least, order="sorted"), spec.schema, events)


def _attempt(operator: ForecastOperator, schema: pa.Schema, events: Iterable[pa.RecordBatch]) -> list[pa.Table]:
    operator.bind(schema)
    made = [operator.feed(batch) for batch in events]
    return [*made, operator.finish()]
