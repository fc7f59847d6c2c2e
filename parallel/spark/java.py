"""Finds a Java that Spark runs on; if there is none, one message says so and what helps.

python -m wayeb_py.parallel.spark.java        says it, and fails if there is none
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from wayeb_py.errors import DataError

OLDEST_JAVA = 17

REMEDY = (
    f"install Java {OLDEST_JAVA} or newer (Debian, Ubuntu: sudo apt-get install default-jre-headless) and, where there "
    "are several, let JAVA_HOME name it; or run with --engine local, which needs none"
)


def require_java() -> None:
    """Raises DataError with the remedy where there is no Java that Spark can run on."""
    home = os.environ.get("JAVA_HOME")
    program = find_java()
    if program is None:
        where = f"JAVA_HOME is {home}, where there is no bin/java" if home else "there is none on the PATH"
        raise DataError(f"Spark needs Java {OLDEST_JAVA} or newer, and {where}", hint=REMEDY)
    version = java_version(program)
    if version is None:
        raise DataError(f"Spark needs Java {OLDEST_JAVA} or newer, and {program} does not say its version", hint=REMEDY)
    if version < OLDEST_JAVA:
        raise DataError(f"Spark needs Java {OLDEST_JAVA} or newer; {program} is Java {version}", hint=REMEDY)


def find_java() -> str | None:
    """The Java that Spark would start: that of JAVA_HOME where it is set, else that of the PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / "java"
        return str(program) if os.access(program, os.X_OK) else None
    return shutil.which("java")


def java_version(program: str) -> int | None:
    """The number of a Java: 8 for 1.8, 17 for 17.0.15; None if the program cannot run or does not say."""
    try:
        told = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    return None if version is None or told.returncode != 0 else int(version[1])


if __name__ == "__main__":
    try:
        require_java()
    except DataError as error:
        sys.exit(str(error))
