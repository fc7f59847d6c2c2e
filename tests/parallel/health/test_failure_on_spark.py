"""The cause of a failure, found in what Spark itself says of a task that failed; `test_failure.py` has the rest."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from wayeb_py.errors import DataError, EventsError
from wayeb_py.parallel.health.failure import find_cause


def shrunk(_: Any) -> None:
    raise DataError("the file has shrunk", "a.ndjson", 7, hint="put it back")


def of_a_user(_: Any) -> None:
    raise EventsError("the function `f` failed: ValueError: bad")


def unforeseen(_: Any) -> None:
    raise ZeroDivisionError("division by zero")


def full(_: Any) -> None:
    raise OSError(28, "No space left on device")


def killed(_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("fail", "message", "hint", "passing"),
    [
        (shrunk, "the file has shrunk [a.ndjson, row 7]", "put it back", False),
        (of_a_user, "the function `f` failed: ValueError: bad", "", False),
        (unforeseen, "unexpected error: division by zero", "", False),
        (full, "the disk is full", "make room", True),
        (killed, "a worker process was killed", "start again", True),
    ],
)
def test_the_cause_is_found_in_what_spark_says_of_a_task(
    spark: SparkSession, fail: Callable[[Any], None], message: str, hint: str, passing: bool
) -> None:
    with pytest.raises((PythonException, Py4JJavaError)) as failed:
        spark.sparkContext.parallelize([0], 1).foreach(fail)
    cause = find_cause(failed.value)
    assert cause.message.startswith(message)
    assert hint in (cause.hint or "")
    assert cause.passing is passing
    assert "\n" not in cause.line(Path("x.log"))
