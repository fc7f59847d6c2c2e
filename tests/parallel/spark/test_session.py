"""A session: quiet, on loopback, with warm workers; a JVM that does not start says why."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from data.compare import compare
from tests.polling import poll
from wayeb_py.parallel.spark import class_archive, session
from wayeb_py.patterns import compile_patterns
from wayeb_py.run import runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
from tests.parallel.spark.command import FLEET, ROOT, fake_java, wayeb


@pytest.mark.parametrize(
    ("asked", "environment", "local"),
    [
        (None, {}, True),
        ("local[2]", {"SPARK_CONF_DIR": "{conf}"}, True),
        ("spark://h:7077", {}, False),
        (None, {"SPARK_CONF_DIR": "{conf}"}, False),
        (None, {"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"}, False),
    ],
)
def test_a_jvm_is_kept_to_loopback_only_if_its_master_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str | None, environment: Mapping[str, str], local: bool
) -> None:
    from pyspark import SparkContext

    class StartedError(Exception):
        pass

    def start_jvm(settings: object, *, is_local: bool, quick: bool) -> None:
        raise StartedError(is_local)

    (tmp_path / "spark-defaults.conf").write_text("spark.master spark://h:7077\n")
    for name in ("SPARK_MASTER", "SPARK_CONF_DIR", "SPARK_HOME", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(conf=tmp_path))
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(session, "start_jvm", start_jvm)
    with pytest.raises(StartedError) as started:
        session._start(asked, {}, quick=True)
    assert started.value.args == (local,)


def test_a_job_on_spark_says_what_it_has_to_say_and_leaves_nothing_about(tmp_path: Path) -> None:
    words = ["run", ROOT / FLEET[0], "--data", ROOT / FLEET[2], "--out", tmp_path / "out" / "d.parquet"]
    (tmp_path / "out").mkdir()
    (tmp_path / "here").mkdir()
    ended = wayeb(*words, "--engine", "spark", "--master", "local[2]", cwd=tmp_path / "here")
    assert ended.returncode == 0, ended.stderr
    for chatter in ("WARN", "log4j", "incubator", "Stage", "native-hadoop", "hostname"):
        assert chatter not in ended.stderr
    assert ended.stdout == ""
    assert ended.stderr.splitlines()[0].startswith("on Spark as asked for: scheme ")
    assert list((tmp_path / "here").iterdir()) == []
    runner.run(compile_patterns(ROOT / FLEET[0]), [ROOT / FLEET[2]], tmp_path / "local.parquet")
    assert compare(str(tmp_path / "local.parquet"), str(tmp_path / "out" / "d.parquet")) is None


def test_workers_are_forked_with_everything_loaded_and_without_pandas(spark: SparkSession) -> None:
    def look(_: int) -> tuple[str, bool, bool, bool, bool]:
        loaded, is_frozen = sys.modules, gc.get_freeze_count() > 10_000
        return sys.executable, "wayeb_py.engine.recogniser" in loaded, "numba" in loaded, "pandas" in loaded, is_frozen

    found = set(spark.sparkContext.parallelize(range(2), 2).map(look).collect())
    assert found == {(sys.executable, True, True, False, True)}


def test_loading_for_workers_starts_no_thread() -> None:
    program = (
        "import os\nfrom wayeb_py.parallel.spark.worker_daemon import load\n"
        "load()\nprint(len(os.listdir('/proc/self/task')) if os.path.isdir('/proc/self/task') else 1)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert ran.stdout.split() == ["1"], ran.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="glibc")
def test_workers_keep_what_tasks_free_unless_the_environment_says_otherwise() -> None:
    program = (
        "from wayeb_py.parallel.spark.worker_daemon import load\nload()\nimport numpy as np, pyarrow, resource\n"
        "def churn(): [np.ones(3_000_000) for _ in range(4)]\n"
        "for _ in range(5): churn()\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "for _ in range(20): churn()\n"
        "print(pyarrow.default_memory_pool().backend_name, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)"
    )
    found = []
    for more in ({}, {"MALLOC_ARENA_MAX": "4"}):
        environment = os.environ | more
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, env=environment)
        assert ran.returncode == 0, ran.stderr
        found.append(ran.stdout.split())
    assert found[0][0] == "system"
    assert int(found[0][1]) < 200
    assert found[1][0] != "system"


def test_a_local_session_listens_on_loopback_alone_at_ephemeral_ports(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.driver.host") == conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert conf.get("spark.ui.enabled") == "false"
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    assert {address for address, _ in _listening(jvm)} == {"127.0.0.1"}


def _listening(pid: int) -> set[tuple[str, int]]:
    """The addresses at which a process accepts connections."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(descriptor)
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                address, port = fields[1].split(":")
                # An IPv4 address is in the last four bytes, the lowest first, of either kind.
                bytes_ = [str(int(address[-8:][i : i + 2], 16)) for i in (6, 4, 2, 0)]
                found.add((".".join(bytes_), int(port, 16)))
    assert found
    return found


def test_an_error_in_the_jvm_is_not_silenced(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    logger = spark._jvm.org.apache.logging.log4j.LogManager.getLogger("org.apache.spark.Anything")  # type: ignore[union-attr]
    logger.warn("of no interest")
    logger.error("the disk is full")
    said = ""

    def heard() -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return "the disk is full" in said

    poll(heard, "the error", said=lambda: said)
    assert said.strip() == "spark: the disk is full"


def test_a_jvm_that_does_not_start_says_why(tmp_path: Path) -> None:
    home = fake_java(tmp_path, 'openjdk version "17.0.1"\nError: could not create the Java Virtual Machine.')
    ended = wayeb(
        "run", *FLEET, "--out", tmp_path / "d.parquet", "--engine", "spark", environment={"JAVA_HOME": str(home)}
    )
    assert ended.returncode == 3
    assert "Spark's JVM did not start" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_archive_of_classes_belongs_to_its_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = class_archive.archive_path()
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, 'openjdk version "21"')))
    assert here is not None
    assert class_archive.archive_path() != here
    assert class_archive.options() == []
