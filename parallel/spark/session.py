"""Makes the Spark session of our jobs, or raises one clear message why there can be none.

The master is the given one, or else SPARK_MASTER's, or else what spark-submit and spark-defaults.conf say, or else this
machine. Python workers must run the same interpreter, or they find neither this package nor its dependencies. Ports are
ephemeral; with a local master everything is bound to loopback. A user's configuration stays, except for the few
settings that parcels need.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import wayeb_py
from wayeb_py.errors import DataError
from wayeb_py.parallel.spark.java import OLDEST_JAVA, find_java, require_java
from wayeb_py.parallel.spark.launch import start_jvm
from wayeb_py.run.choose_engine import configured_master
from wayeb_py.run.startup import compile_kernels

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

__all__ = ["OLDEST_JAVA", "find_java", "open_session", "require_java", "require_spark"]

# Without these our jobs would be wrong or slow.
_NEEDED = {
    "spark.sql.session.timeZone": "UTC",
    # Parcels are few and large: a batch of them must not grow with their number.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16",
    "spark.sql.adaptive.enabled": "false",
    # We show the progress; a terminal has no room for two bars.
    "spark.ui.showConsoleProgress": "false",
}

# What a user would choose, unless the configuration says otherwise.
_PREFERRED = {
    "spark.ui.enabled": "false",
    # What we shuffle is compressed already.
    "spark.shuffle.compress": "false",
    # A batch that finds too much for a limit would find as much again, and the stream would never get past it.
    "spark.driver.maxResultSize": "0",
}

_LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


def open_session(
    master: str | None = None,
    *,
    workers: int | None = None,
    name: str = "wayeb",
    settings: Mapping[str, str] = {},
    quick: bool | None = None,
) -> SparkSession:
    """A session on the given or configured master, or on this machine with as many threads as workers.

    A `quick` JVM compiles soon rather than well: right for a short job, or one in which the JVM only moves bytes. The
    environment's WAYEB_SPARK_QUICK=1 sets it where the caller does not say.
    """
    require_spark()
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    asked = master or os.environ.get("SPARK_MASTER")
    with ThreadPoolExecutor(1) as meanwhile:  # the JVM takes a while
        compiling = meanwhile.submit(_compile_kernels)
        conf = _start(asked, settings, os.environ.get("WAYEB_SPARK_QUICK") == "1" if quick is None else quick)
        compiling.result()
    chosen = asked or conf.get("spark.master", None) or f"local[{workers or '*'}]"
    conf.setMaster(chosen).setAppName(name)
    for key, value in _PREFERRED.items():
        conf.setIfMissing(key, value)
    for key, value in {**_NEEDED, **settings}.items():
        conf.set(key, value)
    if chosen.startswith("local"):
        _stay_here(conf)
    if not conf.contains("spark.pyspark.python"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    session: SparkSession = SparkSession.builder.config(conf=conf).getOrCreate()
    _quieten(session)
    return session


def _start(asked: str | None, settings: Mapping[str, str], quick: bool) -> SparkConf:
    """Starts the JVM, unless there is one; returns what spark-submit and spark-defaults.conf say."""
    from pyspark import SparkConf, SparkContext
    from pyspark.find_spark_home import _find_spark_home

    if SparkContext._gateway is None:
        # Known before there is a JVM to ask: bound to loopback, it is out of the reach of executors elsewhere.
        master = asked or configured_master(os.environ | {"SPARK_HOME": _find_spark_home()})
        gateway = start_jvm(settings, is_local=master is None or master.startswith("local"), quick=quick)
        SparkContext._ensure_initialized(gateway=gateway)
    return SparkConf()


def _quieten(session: SparkSession) -> None:
    """Silences py4j and the thread that takes counts: the thread that waits for a dying JVM reports it, they add
    tracebacks."""
    py4j = logging.getLogger("py4j")
    if py4j.level == logging.NOTSET:  # the user has not turned its messages on
        py4j.setLevel(logging.CRITICAL)
    server = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, address: None


def require_spark() -> None:
    """Raises DataError with the remedy where Spark cannot run."""
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise DataError(
            "Spark needs pyspark, which is not installed",
            hint="pip install 'wayeb-py[spark]', or run with --engine local",
        ) from error
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else spark-submit has a JVM already
        require_java()


def _stay_here(conf: SparkConf) -> None:
    """Loopback only; and since the workers run on this machine, they can be forked from a process that has loaded
    us."""
    for key, value in _LOOPBACK.items():
        conf.set(key, value)
    if not conf.contains("spark.python.daemon.module"):
        root = Path(wayeb_py.__file__).parent.parent
        conf.set("spark.python.daemon.module", "wayeb_py.parallel.spark.worker_daemon")
        found = [conf.get("spark.executorEnv.PYTHONPATH", None), str(root)]
        conf.set("spark.executorEnv.PYTHONPATH", os.pathsep.join(path for path in found if path))


def _compile_kernels() -> None:
    """Compiles kernels that are not in the cache once here, not in every worker."""
    compile_kernels()
