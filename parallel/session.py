"""A Spark session that our jobs run in, made in this one place; or one clear message why there can be none.

Python workers must be the interpreter that runs us, or they find neither us nor our dependencies. Ports are
ephemeral and, for a local master, on loopback only.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from wayeb_py.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17

_ALWAYS = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # Parcels are few and large: a batch of them must not grow with their number.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16",
    "spark.sql.adaptive.enabled": "false",
}


def open_session(
    master: str | None = None, *, workers: int | None = None, name: str = "wayeb", settings: Mapping[str, str] = {}
) -> SparkSession:
    """A session on the master that is given, or configured, or on this machine with as many threads as workers."""
    require_java()
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise DataError(
            "--engine spark needs pyspark, which is not installed", hint="pip install 'wayeb-py[spark]'"
        ) from error
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    chosen = master or os.environ.get("SPARK_MASTER") or os.environ.get("MASTER") or f"local[{workers or '*'}]"
    builder = SparkSession.builder.appName(name).master(chosen)
    for key, value in (_ALWAYS | dict(settings)).items():
        builder = builder.config(key, value)
    if chosen.startswith("local"):
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    session: SparkSession = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def require_java() -> None:
    """Raises DataError with the remedy where there is no Java that Spark can run on."""
    remedy = (
        f"install Java {OLDEST_JAVA} or newer (sudo apt-get install openjdk-{OLDEST_JAVA}-jre-headless), "
        "or run with --engine local, which needs none"
    )
    program = find_java()
    if program is None:
        raise DataError("Spark needs Java, and there is none here", hint=remedy)
    told = subprocess.run([program, "-version"], capture_output=True, text=True).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', told)
    if version is None or int(version[1]) < OLDEST_JAVA:
        found = version[1] if version else "of unknown version"
        raise DataError(f"Spark needs Java {OLDEST_JAVA} or newer; {program} is Java {found}", hint=remedy)


def find_java() -> str | None:
    """The Java that Spark would start: that of JAVA_HOME, or else of the PATH."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    return shutil.which("java")
