"""Makes an environment for Flink, as apache-flink from PyPI brings it, since its needs conflict with ours.

The environment is made once; its jars serve the DataStream API as well.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.peers.jvm.libraries import KEPT
from benchmarks.peers.peer import MissingError, java_tool

VERSION = "2.3.0"
# Flink's own serialisers reach into the JVM's classes, which must be opened to them.
OPENED = tuple(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "util", "time", "net", "nio"))


def flink_python() -> Path:
    """The interpreter of the environment for Flink."""
    java_tool("java")
    folder = KEPT / "flink"
    python = folder / "bin" / "python"
    installed = folder / f"installed-{VERSION}"
    if not installed.exists():
        print(f"  installing apache-flink {VERSION} into {folder.name}/ (once, some minutes) ...", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(folder)])
        _run([str(python), "-m", "pip", "install", "--quiet", f"apache-flink=={VERSION}"])
        installed.touch()
    return python


def flink_jars() -> str:
    """The class path of Flink with its pattern library."""
    (found,) = flink_python().parent.parent.glob("lib/python*/site-packages/pyflink/lib")
    return str(found / "*")


def _run(command: list[str]) -> None:
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        said = ended.stderr.strip().splitlines()
        raise MissingError(f"apache-flink {VERSION} cannot be installed: {said[-1] if said else 'no reason given'}")
