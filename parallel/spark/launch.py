"""Starts the JVM: quietly, with a folder of its own for Spark's scratch files, on loopback if it stays on this machine.

By default Spark greets with a dozen lines of warnings, draws bars over whatever the terminal shows, and makes
`spark-warehouse` in the current folder. Log4j gets its settings, the JVM its options, through SPARK_SUBMIT_OPTS, which
adds to what spark-defaults.conf says and replaces nothing. What the JVM writes to standard error is passed on, less the
greeting that no option silences. Errors come through.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wayeb_py.errors import DataError
from wayeb_py.parallel.spark import class_archive

_LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %m%n%ex{short}
# Without a level of its own the gateway takes us for a shell, and sets and announces one for everything.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
# A lost heartbeat at shut-down, a task that was interrupted because the job was: of no use to a user.
logger.shutdown.name = org.apache.spark.util.ShutdownHookManager
logger.shutdown.level = off
# The driver raises what a task or a query died of, with the whole message: once is enough.
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = off
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.query.name = org.apache.spark.sql.execution.streaming
logger.query.level = off
logger.write.name = org.apache.spark.sql.execution.datasources.v2
logger.write.level = off
logger.runner.name = org.apache.spark.api.python.PythonRunner
logger.runner.level = off
"""

_GREETINGS = (b"WARNING: Using incubator modules:", b"WARNING: package sun.security.action not in java.base")

_hushed = threading.Event()

_QUICK = "-XX:TieredStopAtLevel=1"


def start_jvm(settings: Mapping[str, str], *, is_local: bool, quick: bool) -> Any:
    """A gateway to a new JVM, or to the one that spark-submit started us from."""
    from pyspark import SparkConf
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        conf.set(key, value)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return launch_gateway(conf)
    folder = Path(tempfile.mkdtemp(prefix="wayeb-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    conf.set("spark.sql.warehouse.dir", str(folder / "warehouse"))
    options = [f"-Dderby.system.home={folder}", "-Xlog:disable", "-Xlog:all=error:stderr"]
    if not _user_configures_logging():
        (folder / "log4j2.properties").write_text(_LOG4J)
        options.append(f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}")
    options += [_QUICK] if quick else []
    options += class_archive.options()
    told: deque[str] = deque(maxlen=20)
    reading, writing = os.pipe()
    quoted = [f'"{option}"' if " " in option else option for option in options]
    environment = {"SPARK_SUBMIT_OPTS": " ".join([os.environ.get("SPARK_SUBMIT_OPTS", ""), *quoted]).strip()}
    if is_local:
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    threading.Thread(target=_pass_on, args=(reading, told), name="spark-stderr", daemon=True).start()
    try:
        with _environment(environment):
            # In a group of its own: a signal to our whole group is one to us, and we stop the JVM after the batch.
            return launch_gateway(conf, {"stderr": writing, "start_new_session": True})
    except (PySparkRuntimeError, OSError) as error:
        said = "; ".join(told) or str(error)
        raise DataError(
            f"Spark's JVM did not start: {said}", hint="`java -version` and SPARK_HOME may tell why"
        ) from error
    finally:
        os.close(writing)


def hush() -> None:
    """Stops passing lines on: a JVM that is stopped in the middle of its work prints errors."""
    _hushed.set()


def _user_configures_logging() -> bool:
    for folder in (os.environ.get("SPARK_CONF_DIR"), _conf_of(os.environ.get("SPARK_HOME"))):
        if folder and any(Path(folder).glob("log4j2.*")):
            return True
    return "log4j2.configurationFile" in os.environ.get("SPARK_SUBMIT_OPTS", "")


def _conf_of(home: str | None) -> str | None:
    return None if home is None else str(Path(home) / "conf")


def _pass_on(reading: int, told: deque[str]) -> None:
    """Copies the JVM's standard error to ours, without its greetings."""
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            if not line.startswith(_GREETINGS) and not _hushed.is_set():
                told.append(line.decode(errors="replace").rstrip())
                try:
                    os.write(2, line)
                except OSError:  # the reader is gone, but the JVM must not be blocked
                    continue


@contextmanager
def _environment(additions: Mapping[str, str]) -> Iterator[None]:
    """The environment with some additions, for processes that start meanwhile."""
    before = {name: os.environ.get(name) for name in additions}
    os.environ.update(additions)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
