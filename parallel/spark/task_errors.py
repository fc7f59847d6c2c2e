"""A task's error reaches the driver as the original error, and the job stops; no stack trace of Spark's.

A task that meets one of our errors ends as if it were done and leaves the error in an accumulator, which the driver
watches; raising it would make Spark try the task again, several times, and show it as text inside text. Other errors
are Spark's to report, and become one line.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.accumulators import AccumulatorParam

from wayeb_py.errors import DataError, WayebError
from wayeb_py.parallel.spark.interruption import Interruption

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext

T = TypeVar("T")
LOOK_EVERY_S = 0.2


class _Told(AccumulatorParam):  # type: ignore[type-arg]
    """(task, error) pairs."""

    def zero(self, value: Any) -> Any:
        return []

    def addInPlace(self, one: Any, other: Any) -> Any:  # noqa: N802 (Spark's name)
        return one + other


class Errors:
    """The errors of a job's tasks; travels with the tasks, and the driver reads it."""

    def __init__(self, context: SparkContext) -> None:
        self._told: Accumulator[Any] = context.accumulator([], _Told())

    def caught(self, task: int, results: Iterator[T]) -> Iterator[T]:
        """The results up to the error, if there is one."""
        try:
            yield from results
        except WayebError as error:
            self._told.add([(task, pickle.dumps(error))])

    def first(self) -> WayebError | None:
        """The error of the first task that has one."""
        told = sorted(self._told.value, key=lambda one: one[0])
        return None if not told else pickle.loads(told[0][1])


class Raised:
    """Lets errors through: a user's own job handles them."""

    def caught(self, task: int, results: Iterator[T]) -> Iterator[T]:
        return results


@contextmanager
def watched(
    context: SparkContext, interruption: Interruption, errors: Errors, tell: Callable[[], None]
) -> Iterator[None]:
    """Runs Spark jobs; ends them at the first error, and raises it. Calls `tell` now and then."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(LOOK_EVERY_S):
            tell()
            if errors.first() is not None:
                context.cancelJobGroup(interruption.group)
                return

    thread = threading.Thread(target=watch, name="wayeb-watch", daemon=True)
    thread.start()
    try:
        yield
    except Exception as error:
        interruption.check()  # a job that was cancelled has no error of its own
        raise errors.first() or _in_one_line(error) from None
    except BaseException:
        context.cancelJobGroup(interruption.group)  # an interrupted user does not want the cluster to continue
        raise
    finally:
        ended.set()
        thread.join()
    found = errors.first()
    if found is not None:
        raise found


def _in_one_line(error: Exception) -> Exception:
    """Spark's own failures without the frames of two languages; other errors pass as they are."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if not isinstance(error, Py4JError | PySparkException):
        return error
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if _is_python_error(line)]
    what = (
        python[-1] if python else next((line for line in lines if "failure" in line or "Exception" in line), lines[0])
    )
    return DataError(f"Spark could not finish the job: {what}", hint="the logs of the executors say more")


def _is_python_error(line: str) -> bool:
    name, colon, _ = line.partition(": ")
    return bool(colon) and name.isidentifier() and name.endswith(("Error", "Exception")) and name[0].isupper()
