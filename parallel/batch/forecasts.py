"""A data frame of events becomes a data frame of forecasts: at each event, how likely the patterns are detected soon.

    from wayeb_py.parallel import forecast
    soon = forecast(events, wayeb_py.compile("trips.sre"), "model/", "10min", at_least=0.7)

A forecast of one entity depends on its own word alone, so the events are shuffled by entity, as for detections, and
each shard makes its forecasts in one process; those of pairs are made in one task, as their detections in a data frame.
Rows without key or time, and late ones, are left out: `recognise` with `what="aside"` returns them, the same ones.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from wayeb_py.engine.arrival.tie_order import Disorder
from wayeb_py.engine.recogniser import Order
from wayeb_py.files.formats.block import TimeRange
from wayeb_py.files.projection import Wanted
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
    events: DataFrame | Mapping[str, DataFrame],
    patterns: Patterns,
    model: str | os.PathLike[str],
    horizon: str,
    *,
    confidence: float = 0.7,
    at_least: float = 0.0,
    shards: int | None = None,
) -> DataFrame:
    """The forecasts at each event of a data frame, by the models in a folder that the driver can read.

    The rows are those of `wayeb forecast`; those with a probability below `at_least` are left out. Where patterns read
    several streams, there is a data frame for each, by its name. Pairs, and several streams, run in one task.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    frames = frames_by_stream(patterns, events)
    tables = load_tables(patterns, model, [(name, Horizon.parse(horizon), confidence) for name in patterns.names])
    reading: Any = reading_also(patterns, *(own.model.by for own in tables))
    operator = ForecastOperator(patterns, tables)
    taken: dict[str, tuple[DataFrame, pa.Schema]] = {}
    for name, part in reading.by_stream.items():
        taken[name] = taken_columns(frames[name], Wanted.from_needs(part.needs, part.stream.time_unit))
        operator.bind(taken[name][1], name)
    made = sparks_schema(operator.schema)
    spark = next(iter(frames.values())).sparkSession
    is_together = operator.has_clock or len(frames) > 1
    routing = route_by_hash(1 if is_together else shards or SHARDS_A_WORKER * task_slots(spark), [])
    n_targets = len(routing.targets)
    packed = pack_patterns(reading)
    specs = [share(spark, JobSpec(packed, schema, made, TimeRange(), False, ())) for _, schema in taken.values()]
    schemas = share(spark, {name: schema for name, (_, schema) in taken.items()})
    shared = share(spark, tuple(tables))

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        incoming = (parcel for batch in batches for parcel in from_batch(batch))
        names = list(schemas.value)
        held: dict[str, Rereadable] = {}

        def forecasts() -> Iterator[pa.RecordBatch]:
            try:
                reads = {name: partial(open_events, own) for name, own in held.items()}
                for table in _forecasts(specs[0].value, schemas.value, shared.value, at_least, reads):
                    yield from table.cast(made).to_batches()
            finally:
                for own in held.values():
                    own.close()
                held.clear()

        for split, own in groupby(incoming, key=lambda parcel: parcel.split):
            number, target = divmod(split, n_targets + 1)
            if target < n_targets:
                rows = held[names[number]] = Rereadable(parcel.payload for parcel in own)
                if is_together:
                    deque(rows, maxlen=0)  # the parcels of the next stream come after these
                else:
                    yield from forecasts()
        if held:
            yield from forecasts()

    parcels = [pack_rows(rows, spec, routing) for (rows, _), spec in zip(taken.values(), specs, strict=True)]
    joined = parcels[0]
    for number, more in enumerate(parcels[1:], 1):
        joined = joined.union(more.withColumn("split", more["split"] + number * (n_targets + 1)))
    if is_together:
        arranged = joined.repartition(1)
    else:
        arranged = joined.repartitionById(n_targets + 1, joined["split"].cast("int"))
    ordered: Any = arranged.sortWithinPartitions("split", "number")
    frame: DataFrame = ordered.mapInArrow(task, from_arrow_schema(made))
    return frame


Reads = Mapping[str, Callable[[], Iterable[pa.RecordBatch]]]


def _forecasts(
    spec: JobSpec, schemas: Mapping[str, pa.Schema], tables: Sequence[ForecastTables], at_least: float, reads: Reads
) -> list[pa.Table]:
    """The forecasts of a shard, whose events are put in the order of time if they are not."""
    patterns = spec.patterns_of(None)
    streams = {name: part.stream for name, part in patterns.by_stream.items()}
    orders: dict[str, Order] = {
        name: "arrival" if stream.lateness_s is not None else "sorted" for name, stream in streams.items()
    }

    def attempt(reads: Reads) -> list[pa.Table]:
        operator = ForecastOperator(patterns, tables, at_least=at_least, order=orders)
        for name, schema in schemas.items():
            operator.bind(schema, name)
        left = {name: iter(read()) for name, read in reads.items()}
        made = []
        while left:
            name = operator.behind if operator.behind in left else next(iter(left))
            batch = next(left[name], None)
            if batch is None:
                del left[name]
            else:
                made.append(operator.feed(batch, name))
        return [*made, operator.finish()]

    def in_order(name: str) -> Iterable[pa.RecordBatch]:
        stream = streams[name]
        assert stream.time is not None
        return sort_events(reads[name](), schemas[name], stream.time, stream.order)

    try:
        return attempt(reads)
    except Disorder:
        return attempt(
            {name: partial(in_order, name) if orders[name] == "sorted" else read for name, read in reads.items()}
        )
