"""A data frame of events becomes a data frame of detections, inside a Spark user's own job.

    from wayeb_py.parallel import recognise
    found = recognise(events, wayeb_py.compile("patterns/fleet/driving.sre"))

Rows are packed into parcels by shard, shuffled and recognised like those of files, and the detections become rows at
the very end. Everything is lazy, as Spark's own transformations are. Events of one entity and time keep the order of
the data frame's partitions and of the rows in them, which is what arrival means here.

Values have Spark's types: times in microseconds, signed numbers. `wayeb_py.parallel.batch.job` reads files itself,
keeps every type exactly, and never makes rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import pyarrow as pa

from wayeb_py.compiler.placement import place_all
from wayeb_py.compiler.streams import given_by_stream, one_for_several
from wayeb_py.errors import DataError, EventsError
from wayeb_py.files.formats.arrow_types import TEXT, conform, is_text, plain, served_type
from wayeb_py.files.formats.block import TimeRange
from wayeb_py.files.projection import Wanted, absent
from wayeb_py.parallel.batch import schemes
from wayeb_py.parallel.batch.sample import COSTED_ROWS, equal_groups, measure_costs
from wayeb_py.parallel.batch.several_entities.frame_look import look_at
from wayeb_py.parallel.batch.several_entities.plan import (
    describe,
    names_by_place,
    pairs_together,
    rules_over_rows,
    with_cells,
)
from wayeb_py.parallel.batch.several_entities.spark_stages import read_frames, recognised
from wayeb_py.parallel.batch.several_entities.spec import (
    SeveralSpec,
    StreamSpec,
    looks_at_several,
    require_partition,
    schema_of_all,
)
from wayeb_py.parallel.batch.task import AsideLog, JobSpec, SetAside, conformed, finish, recognise_events
from wayeb_py.parallel.spark.pattern_bundle import pack_patterns
from wayeb_py.parallel.spark.shared import Shared, share, task_slots
from wayeb_py.parallel.spark.task_errors import Raised
from wayeb_py.parallel.wire.output_schema import output_schema
from wayeb_py.parallel.wire.packer import Packer, open_events
from wayeb_py.parallel.wire.parcel import DDL, Parcel, from_batch, pack, to_batch, unpack
from wayeb_py.parallel.wire.routing import SHARDS_A_WORKER, Routing, route_by_hash, route_to_groups
from wayeb_py.parallel.wire.spool import Rereadable
from wayeb_py.patterns import Patterns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Wish = Literal["detections", "episodes", "aside"]

ASIDE = pa.schema([("reason", pa.string()), ("values", pa.string())])


def recognise(
    events: DataFrame | Mapping[str, DataFrame],
    patterns: Patterns,
    *,
    scheme: Literal["auto", "source", "partition", "pattern"] = "auto",
    what: Wish = "detections",
    shards: int | None = None,
    heavy: Sequence[int | str] = (),
    look_first: bool = False,
    on_plan: Callable[[str], None] | None = None,
) -> DataFrame:
    """The detections of the patterns, or the episodes, in a data frame of events; or the rows that were set `aside`.

    Where patterns read several streams, there is a data frame for each, by its name.

    `partition`, which `auto` means here, shuffles by entity into `shards` shards, and gives each key in `heavy` a
    shard of its own; `pattern` sends all events to every group of patterns; `source` relies on each entity's events
    lying in one partition of the data frame already. It leaves out rows without key or time, and events that are too
    late; `aside` returns those instead, each with a reason and its values as JSON.

    Pairs, and rules over rows of several entities, run in one task. With `look_first` they are spread as those of files
    are: the call scans positions, and the data frames have to hold the same rows when they are read again.
    `on_plan` gets one line that says what runs where and why.
    """
    schemes.require_known(scheme)
    require_some(shards)
    if what not in get_args(Wish):
        raise ValueError(f"`{what}` is nothing to ask for; there are {', '.join(get_args(Wish))}")
    if looks_at_several(patterns):
        require_partition(scheme, patterns)
        return _Several(frames_by_stream(patterns, events), patterns, what, shards, heavy).start(look_first, on_plan)
    (events,) = frames_by_stream(patterns, events).values()
    spark = events.sparkSession
    wanted = patterns.wanted
    taken, schema = taken_columns(events, wanted)
    found = output_schema(patterns, schema, what == "episodes")
    n_workers = task_slots(spark) if shards is None or scheme == "pattern" else 1
    routing = route_by_hash(shards or SHARDS_A_WORKER * n_workers, heavy_keys(heavy, schema.field(0)))
    groups: tuple[tuple[str, ...], ...] = ()
    if scheme == "pattern":
        groups = _groups(patterns, taken, schema, n_workers)
        routing = route_to_groups(len(groups))
    spec = share(spark, JobSpec(pack_patterns(patterns), schema, found, TimeRange(), what == "episodes", groups))
    if scheme == "source":
        parcels = _recognised_in_place(taken, spec)
    else:
        parcels = schemes.shuffled(pack_rows(taken, spec, routing), spec, Raised(), routing)
    return _opened(parcels, what, ASIDE if what == "aside" else sparks_schema(found))


def frames_by_stream(patterns: Patterns, events: DataFrame | Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """The data frame of each stream that patterns read; DataError where a stream has none, or nothing says which stream
    a data frame is."""
    read, streams = list(patterns.by_stream), patterns.meaning.streams
    if not read:
        raise DataError(
            "these rules read facts alone, and no events", hint="run them in one process: `patterns.recognise()`"
        )
    if isinstance(events, Mapping):
        frames = given_by_stream(read, streams, events, "data frame")
    elif len(streams) > 1:
        raise one_for_several(streams, read, "data frame")
    else:
        frames = {read[0]: events}
    for frame in frames.values():
        if not hasattr(frame, "mapInArrow"):
            raise DataError(
                f"a {type(frame).__name__} of {type(frame).__module__.partition('.')[0]} is no data frame of Spark's",
                hint="`spark.createDataFrame(…)` makes one; `patterns.recognise(…)` takes it as it is, without Spark",
            )
    return frames


def require_some(shards: int | None) -> None:
    """Raises ValueError for a number of shards that could hold nothing."""
    if shards is not None and shards < 1:
        raise ValueError(f"`shards` is {shards}, and events need at least 1")


def taken_columns(events: DataFrame, wanted: Wanted) -> tuple[DataFrame, pa.Schema]:
    """The wanted columns of a data frame, and their types as Spark passes them."""
    for column in wanted.columns:
        if column.name not in events.columns:
            raise absent(column, "the data frame", events.columns)
    taken = events.select(*(f"`{name}`" for name in wanted.names))
    return taken, _arrow_schema(taken, wanted)


@dataclass(slots=True)
class _Several:
    """Patterns over several entities in data frames: Spark moves their events once, by entity, by place and
    together."""

    frames: dict[str, DataFrame]
    patterns: Patterns
    what: Wish
    shards: int | None
    heavy: Sequence[int | str]

    def start(self, look_first: bool, on_plan: Callable[[str], None] | None) -> DataFrame:
        """What the patterns find; only the presence scan runs at once."""
        parts, patterns = self.patterns.by_stream, self.patterns
        taken = {
            name: taken_columns(frame, Wanted.from_needs(parts[name].needs, parts[name].stream.time_unit))
            for name, frame in self.frames.items()
        }
        schemas = {name: schema for name, (_, schema) in taken.items()}
        joined = schema_of_all(patterns, schemas)
        found = joined.episodes if self.what == "episodes" else joined.detections
        spark = next(iter(self.frames.values())).sparkSession
        n_workers = task_slots(spark) if self.shards is None or look_first else 1
        keys = [] if len(schemas) > 1 else heavy_keys(self.heavy, next(iter(schemas.values())).field(0))
        routing = route_by_hash(self.shards or SHARDS_A_WORKER * n_workers, keys)
        streams = tuple(StreamSpec(name, schema, TimeRange()) for name, schema in schemas.items())
        placements = place_all(patterns)
        if not look_first:
            placements = pairs_together(placements, "the data frame is read once, without `look_first`")
        work = SeveralSpec(
            pack_patterns(patterns), pa.schema([]), found, TimeRange(), self.what == "episodes", streams=streams,
            names=names_by_place(placements), joined=joined, routing=routing,
        )  # fmt: skip
        by_place = ""
        rows = [frame for frame, _ in taken.values()]
        if look_first and n_workers > 1:
            look = look_at(rows, share(spark, work))
            placements, groups = rules_over_rows(patterns, schemas, n_workers, look.n_events)
            work = replace(work, names=names_by_place(placements), rule_groups=groups)
            work, placements, by_place = with_cells(work, placements, look.presence, n_workers)
        if on_plan is not None:
            on_plan(f"scheme partition, {describe(placements, routing, by_place, work.rule_groups)}")
        spec = share(spark, work)
        parcels = recognised(read_frames(rows, spec), spec, work.n_targets, Raised())
        return _opened(parcels, self.what, ASIDE if self.what == "aside" else sparks_schema(found))


def _arrow_schema(taken: DataFrame, wanted: Wanted) -> pa.Schema:
    """The types in which Spark passes the rows, text as we want it; EventsError where they do not serve."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        schema = to_arrow_schema(taken.schema, timezone=taken.sparkSession.conf.get("spark.sql.session.timeZone"))
    except PySparkException as error:
        raise EventsError(f"a column that the patterns need is of a type that Arrow has not: {error}") from error
    for column in wanted.columns:
        served_type(column, schema.field(column.name).type, wanted.time_unit, "the data frame")
    return pa.schema([pa.field(field.name, TEXT if is_text(field.type) else field.type) for field in schema])


def sparks_schema(schema: pa.Schema) -> pa.Schema:
    """The columns in types that Spark has."""
    return pa.schema([pa.field(field.name, _sparks_type(plain(field.type))) for field in schema])


def _sparks_type(type_: pa.DataType) -> pa.DataType:
    """The type that Spark has for the values: its times are of microseconds."""
    return pa.timestamp("us", type_.tz) if pa.types.is_timestamp(type_) else type_


def heavy_keys(heavy: Sequence[int | str], key: pa.Field) -> list[int | str]:
    """The keys in the type of their column; ValueError for one that cannot be in it."""
    keys: list[int | str] = []
    for word in map(str, heavy):
        try:
            keys.append(pa.scalar(word).cast(plain(key.type)).as_py())
        except pa.ArrowInvalid:
            raise ValueError(f"`{word}` in `heavy` is no key: the column `{key.name}` is of {key.type}") from None
    return keys


def _groups(patterns: Patterns, taken: DataFrame, schema: pa.Schema, n_groups: int) -> tuple[tuple[str, ...], ...]:
    """Groups of patterns of about equal cost, measured on the data frame's first rows."""
    sample = taken.limit(COSTED_ROWS).toArrow()
    columns = [conform(sample.column(field.name).combine_chunks(), field.type) for field in schema]
    return equal_groups(patterns, measure_costs(patterns, pa.Table.from_arrays(columns, schema=schema)), n_groups)


# ---- in the executors


def pack_rows(taken: DataFrame, spec: Shared[JobSpec], routing: Routing) -> DataFrame:
    """Rows as parcels by shard, numbered by partition and row in it."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        schema = spec.value.schema
        packer = Packer(routing, schema.names[0], 0 if context is None else context.partitionId())
        for batch in batches:
            for parcel in packer.add(conformed(batch, schema)):
                yield to_batch([parcel])
        for parcel in packer.finish():
            yield to_batch([parcel])

    return taken.mapInArrow(task, DDL)


def _recognised_in_place(taken: DataFrame, shared: Shared[JobSpec]) -> DataFrame:
    def parcels(batches: Iterator[pa.RecordBatch]) -> Iterator[Parcel]:
        spec = shared.value
        events = Rereadable(pack(conformed(batch, spec.schema)) for batch in batches)
        output, aside = spec.output(0, None), AsideLog()
        try:
            tally = recognise_events(spec, None, lambda: open_events(events), output, aside)
        finally:
            events.close()
        yield from finish(0, tally, output, aside, accounts=True)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for parcel in parcels(batches):
            yield to_batch([parcel])

    return taken.mapInArrow(task, DDL)


def _opened(parcels: DataFrame, what: Wish, schema: pa.Schema) -> DataFrame:
    """Parcels as rows of a Spark data frame."""
    from pyspark.sql.pandas.types import from_arrow_schema

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for parcel in from_batch(batch):
                if parcel.kind == what:
                    table = _aside_rows(parcel) if what == "aside" else unpack(parcel.payload)
                    yield from table.cast(schema).to_batches()

    opened: Any = parcels.mapInArrow(task, from_arrow_schema(schema))
    frame: DataFrame = opened
    return frame


def _aside_rows(parcel: Parcel) -> pa.Table:
    refused = SetAside.from_parcel(parcel).refused
    return pa.table(
        {
            "reason": pa.array([reason for reason, _ in refused], pa.string()),
            "values": pa.array([json.dumps(values, ensure_ascii=False, default=str) for _, values in refused]),
        }
    )
