"""Parcels go through tasks of Spark's that keep no state of its own: those of a shard, or of a part, together.

    parcels ──repartition by number──▶ all that one shard gets in a batch ──▶ step ──▶ parcels

*Not taken*: batch queries inside of `foreachBatch`, one for each stage, whose first would have to be kept while the
next runs; these are stages of the stream's own query, as the stateful operators are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from wayeb_py.parallel.wire.parcel import DDL, Parcel, from_batch, to_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Step = Callable[[list[Parcel]], Iterator[Parcel]]


def spread(parcels: DataFrame, n_tasks: int, step: Step, *, last_first: bool = False) -> DataFrame:
    """What a step makes of all parcels whose numbers are the same modulo the tasks. Tasks start in the order of their
    numbers, or the last one first."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        arrived = [parcel for batch in batches for parcel in from_batch(batch)]
        if arrived:
            for found in step(arrived):
                yield to_batch([found])

    number = parcels["split"].cast("int") % n_tasks
    arranged = parcels.repartitionById(n_tasks, n_tasks - 1 - number if last_first else number)
    return arranged.mapInArrow(task, DDL)
