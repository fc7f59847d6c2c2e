"""A real Spark cluster for tests: a master and workers on loopback, ports as they come, everything below one folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from tests.polling import DEADLINE_S, poll
from wayeb_py.parallel.spark import class_archive

HOME = Path(pyspark.__file__).parent
# Of a JVM that lives for a short time.
QUICK = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable", *class_archive.options()]


@dataclass(slots=True)
class Cluster:
    """Its master's address, and its workers, which can be killed."""

    url: str
    folder: Path
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)


@contextmanager
def running_cluster(folder: Path, n_workers: int = 1, cores: int = 2) -> Iterator[Cluster]:
    """A master and workers for as long as the context lasts."""
    with ExitStack() as stack:
        master = stack.enter_context(_started(folder, "master", ["deploy.master.Master"], "127.0.0.1"))
        url = _told(folder / "master.log", r"Starting Spark master at (spark://\S+)", master)
        cluster = Cluster(url, folder)
        for number in range(n_workers):
            name = f"worker-{number}"
            words = ["deploy.worker.Worker", "--cores", str(cores), "--memory", "1g"]
            words += ["--work-dir", str(folder / name), url]
            worker = stack.enter_context(_started(folder, name, words, f"127.0.0.{number + 1}"))
            cluster.workers.append(worker)
            _told(folder / f"{name}.log", r"(Successfully registered with master)", worker)
        yield cluster


@contextmanager
def _started(folder: Path, name: str, words: list[str], host: str) -> Iterator[subprocess.Popen[bytes]]:
    role, *options = words
    command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.{role}"]
    command += ["--host", host, "--port", "0", "--webui-port", "0", *options]
    environment = os.environ | {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": host, "SPARK_LOG_DIR": str(folder)}
    environment["SPARK_DAEMON_JAVA_OPTS"] = " ".join(QUICK)
    with open(folder / f"{name}.log", "wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


def _told(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    """A line of a process's log, as soon as it appears."""

    def said() -> str:
        return log.read_text(errors="replace")

    def has_ended() -> bool:
        return process.poll() is not None

    return poll(lambda: re.search(pattern, said()), f"{pattern} in the log", in_vain=has_ended, said=said)[1]


def python_without_us(folder: Path) -> Path:
    """An interpreter that has all that is installed here, but not this project."""
    venv.create(folder, symlinks=True, with_pip=False)
    program = folder / "bin" / "python"
    paths = [path for path in sys.path if path.endswith("site-packages")]
    site = next((folder / "lib").glob("python*/site-packages"))
    # As plain paths: the hooks by which an editable installation is found are not run there.
    (site / "packages.pth").write_text("\n".join(paths) + "\n")
    tried = subprocess.run([program, "-I", "-c", "import pyspark, numba, wayeb_py"], capture_output=True, text=True)
    assert "No module named 'wayeb_py'" in tried.stderr, tried.stderr
    return program
