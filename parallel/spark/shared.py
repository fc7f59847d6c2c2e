"""What all tasks of a data frame's job share, and how many of them run at a time, in any session of Spark's.

A classic session broadcasts a value, once to every executor. Spark Connect has neither broadcasts nor a context: there
it goes with each function that needs it, and a tiny job counts the tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from wayeb_py.errors import DataError
from wayeb_py.parallel.spark.task_slots import count_task_slots

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Shared(Protocol[T_co]):
    """A broadcast, or what stands for one."""

    @property
    def value(self) -> T_co: ...


@dataclass(frozen=True, slots=True)
class _Carried(Generic[T]):
    value: T


def is_connect(spark: SparkSession) -> bool:
    """Whether a session goes through Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def share(spark: SparkSession, value: T) -> Shared[T]:
    """The value for all tasks."""
    if is_connect(spark):
        return _Carried(value)
    return spark.sparkContext.broadcast(value)


def task_slots(spark: SparkSession) -> int:
    """The tasks that run at a time."""
    if not is_connect(spark):
        return count_task_slots(spark.sparkContext)
    from pyspark.sql import functions as f

    return spark.range(1 << 16).select(f.spark_partition_id().alias("task")).distinct().count()


def require_context(spark: SparkSession, what: str) -> None:
    """Raises DataError for a session through Spark Connect, where something needs Spark's own context."""
    if is_connect(spark):
        raise DataError(
            f"{what} counts and cancels its tasks by Spark's own context, and a session through Spark Connect has none",
            hint="recognise a data frame (`wayeb_py.parallel.recognise`, `recognise_stream`), which runs there; or "
            "give a master instead of a remote",
        )
