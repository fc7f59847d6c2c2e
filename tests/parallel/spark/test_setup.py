"""Set-up of Spark: without Java; quietly, with warm workers; as a zip, on a cluster that has never heard of us."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from data.compare import compare
from tests.parallel.spark_cluster import HOME, python_without_us, running_cluster
from tests.polling import poll
from wayeb_py.errors import DataError
from wayeb_py.parallel.spark import class_archive, session, task_slots
from wayeb_py.parallel.spark.java import java_version, require_java
from wayeb_py.parallel.spark.ship import write_zip
from wayeb_py.run.choose_engine import Machine, choose_engine, find_master, read_limit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
WAYEB = Path(sys.executable).with_name("wayeb")
FLEET = ["patterns/fleet.sre", "--data", "data/fleet_sample.parquet"]


def wayeb(
    *words: object, cwd: Path = ROOT, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, with changes to the environment; an empty value takes a variable away."""
    kept = {**os.environ, **(environment or {})}
    kept = {name: value for name, value in kept.items() if value}
    return subprocess.run([WAYEB, *map(str, words)], cwd=cwd, env=kept, capture_output=True, text=True, timeout=300)


def fake_java(folder: Path, says: str, code: int = 0) -> Path:
    """A JAVA_HOME whose java says so, and does no more."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
    program.chmod(0o755)
    return folder


# Java.


@pytest.fixture
def no_java(tmp_path: Path) -> dict[str, str]:
    """An environment in which there is a shell and no Java."""
    return {"PATH": str(tmp_path), "JAVA_HOME": ""}


def test_without_java_a_run_on_spark_ends_in_one_message_with_the_remedy(
    tmp_path: Path, no_java: dict[str, str]
) -> None:
    ended = wayeb("run", *FLEET, "--out", tmp_path / "d.parquet", "--engine", "spark", environment=no_java)
    assert ended.returncode == 3
    first, hint = ended.stderr.splitlines()
    assert first == "Spark needs Java 17 or newer, and there is none on the PATH"
    assert "apt-get install default-jre-headless" in hint
    assert "--engine local" in hint
    assert not (tmp_path / "d.parquet").exists()


def test_without_java_everything_local_works_and_auto_is_local(tmp_path: Path, no_java: dict[str, str]) -> None:
    ended = wayeb("run", *FLEET, "--out", tmp_path / "d.parquet", environment={"SPARK_MASTER": "", **no_java})
    assert ended.returncode == 0, ended.stderr
    assert "local: one process is enough, and no Spark master is configured" in ended.stderr


def test_a_master_without_java_does_not_stop_a_run_that_nobody_sent_to_spark(
    tmp_path: Path, no_java: dict[str, str]
) -> None:
    ended = wayeb("run", *FLEET, "--out", tmp_path / "d.parquet", environment={"SPARK_MASTER": "local[2]", **no_java})
    assert ended.returncode == 0, ended.stderr
    assert "local: SPARK_MASTER=local[2] is configured, but Spark needs Java 17" in ended.stderr


@pytest.mark.parametrize(
    ("says", "code", "message"),
    [
        ('openjdk version "1.8.0_402"', 0, "is Java 8"),
        ('openjdk version "11.0.22" 2024-01-16', 0, "is Java 11"),
        ("I am not Java", 0, "does not say its version"),
        ('openjdk version "21"', 1, "does not say its version"),
    ],
)
def test_a_java_that_spark_cannot_use_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, code: int, message: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, says, code)))
    with pytest.raises(DataError, match=message) as raised:
        require_java()
    assert str(tmp_path) in raised.value.message
    assert "JAVA_HOME" in str(raised.value.hint)


@pytest.mark.parametrize(
    ("says", "version"), [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "25" 2025-09-16 LTS', 25)]
)
def test_a_java_tells_its_version(tmp_path: Path, says: str, version: int) -> None:
    assert java_version(str(fake_java(tmp_path, says) / "bin" / "java")) == version


def test_a_java_home_without_java_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(DataError, match="where there is no bin/java"):
        require_java()


def test_without_pyspark_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(DataError, match="pyspark, which is not installed") as raised:
        session.require_spark()
    assert "wayeb-py[spark]" in str(raised.value.hint)


def test_without_pyspark_a_run_on_spark_ends_in_one_message_with_the_remedy(tmp_path: Path) -> None:
    program = "import sys; sys.modules['pyspark'] = None; from wayeb_py.cli import main; main()"
    words = ["run", *FLEET, "--out", str(tmp_path / "d.parquet"), "--engine", "spark"]
    ended = subprocess.run([sys.executable, "-c", program, *words], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 3
    first, hint = ended.stderr.splitlines()
    assert first == "Spark needs pyspark, which is not installed"
    assert "pip install 'wayeb-py[spark]'" in hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ('openjdk version "17.0.15" 2025-04-15', ""),
        ('openjdk version "1.8.0_402"', "==> Java 8 here, and Spark needs 17 or newer. Remedy: sudo apt-get install"),
        ("I am not Java", "==> no Java here, and Spark needs 17 or newer. Remedy: sudo apt-get install"),
    ],
)
def test_make_looks_for_a_java_and_says_what_is_missing(tmp_path: Path, says: str, message: str) -> None:
    environment = os.environ | {"JAVA_HOME": str(fake_java(tmp_path, says))}  # a Java of the user's is left to the user
    ran = subprocess.run(["sh", ".ci/java"], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith(message)
    assert bool(ran.stdout) == bool(message)


def test_make_looks_again_after_it_has_installed_a_java(tmp_path: Path) -> None:
    programs = fake_java(tmp_path, 'openjdk version "1.8.0_402"') / "bin"  # which stays the first on the PATH
    for name, does in (("apt-get", "exit 0"), ("sudo", 'shift; exec "$@"')):
        (programs / name).write_text(f"#!/bin/sh\n{does}\n")
        (programs / name).chmod(0o755)
    environment = {"PATH": f"{programs}:/usr/bin:/bin"}
    ran = subprocess.run(["/bin/sh", ".ci/java"], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "installing default-jre-headless" in ran.stdout
    assert "==> Java 8 here, and Spark needs 17 or newer. Remedy" in ran.stdout


def test_the_comparison_of_the_demo_sees_one_changed_value(tmp_path: Path) -> None:
    for name, seq in (("a", [1, 2]), ("b", [2, 1]), ("c", [1, 3]), ("d", [1])):
        pq.write_table(pa.table({"pattern": ["X"] * len(seq), "seq": seq}), tmp_path / f"{name}.parquet")
    a, b, c, d = (str(tmp_path / f"{name}.parquet") for name in "abcd")
    assert compare(a, b) is None
    assert "row 1" in str(compare(a, c))
    assert str(compare(a, d)).startswith("2 detections")


# Where a run is done.

HERE = Machine(n_cores=4, memory_bytes=16 << 30)


@pytest.mark.parametrize(
    ("n_bytes", "environment", "engine", "why"),
    [
        (10**6, {}, "local", "one process is enough"),
        (10**6, {"SPARK_MASTER": "spark://h:7077"}, "spark", "SPARK_MASTER=spark://h:7077 is configured"),
        (10**6, {"PYSPARK_GATEWAY_PORT": "1234"}, "spark", "spark-submit's master is configured"),
        (10**12, {}, "spark", "1.0 TB of input are more than the 137.4 GB that one machine should take"),
        (10**12, {"WAYEB_ONE_MACHINE": "2TB"}, "local", "one process is enough"),
        (10**7, {"WAYEB_ONE_MACHINE": "5 MB"}, "spark", "10.0 MB of input are more than the 5.0 MB"),
    ],
)
def test_auto_follows_what_is_configured_and_how_much_there_is(
    n_bytes: int, environment: Mapping[str, str], engine: str, why: str
) -> None:
    chosen, said = choose_engine(n_bytes, environment, HERE)
    assert chosen == engine
    assert said.startswith(why)


def test_a_small_machine_takes_less() -> None:
    assert read_limit({}, Machine(64, 4 << 30)) == 32 << 30
    assert read_limit({}, Machine(1, 512 << 30)) == 64 << 30


def test_a_limit_that_is_none_is_refused() -> None:
    with pytest.raises(DataError, match="WAYEB_ONE_MACHINE=plenty"):
        read_limit({"WAYEB_ONE_MACHINE": "plenty"}, HERE)


@pytest.mark.parametrize("line", ["spark.master  spark://h:7077", "spark.master=spark://h:7077"])
def test_spark_defaults_may_name_the_master(tmp_path: Path, line: str) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(f"# ours\nspark.executor.memory 2g\n{line}\n")
    for environment in ({"SPARK_CONF_DIR": str(tmp_path / "conf")}, {"SPARK_HOME": str(tmp_path)}):
        assert str(find_master(environment)).startswith("spark.master spark://h:7077 of ")
    assert find_master({"SPARK_HOME": str(tmp_path / "elsewhere")}) is None


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


# How many tasks run at a time.


@pytest.mark.parametrize(
    ("settings", "n_slots"),
    [
        ({}, None),
        ({"spark.cores.max": "12"}, 12),
        ({"spark.cores.max": "12", "spark.task.cpus": "2"}, 6),
        ({"spark.executor.instances": "3", "spark.executor.cores": "4"}, 12),
        ({"spark.executor.instances": "3"}, 3),
        ({"spark.executor.instances": "3", "spark.master": "spark://h:7077"}, None),
        ({"spark.executor.instances": "3", "spark.executor.cores": "4", "spark.cores.max": "8"}, 8),
        ({"spark.dynamicAllocation.enabled": "true", "spark.executor.instances": "1"}, None),
        ({"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.maxExecutors": "5"}, 5),
        ({"spark.default.parallelism": "7", "spark.cores.max": "12"}, 7),
    ],
)
def test_settings_tell_how_many_tasks_run_at_a_time(settings: Mapping[str, str], n_slots: int | None) -> None:
    assert task_slots.configured_task_slots(settings) == n_slots


@pytest.mark.parametrize(
    ("arrivals", "n_cores", "until_s"),
    [
        ([(3.0, (1, 4)), (3.5, (2, 8)), (4.0, (3, 12))], 12, 5.0),
        ([(0.0, (2, 8))], 8, 1.0),
        ([], 0, task_slots.PATIENCE_S),
    ],
)
def test_a_cluster_is_waited_for_until_no_more_executors_come(
    arrivals: list[tuple[float, tuple[int, int]]], n_cores: int, until_s: float
) -> None:
    clock = [0.0]

    def registered() -> tuple[int, int]:
        return next((found for at_s, found in reversed(arrivals) if clock[0] >= at_s), (0, 2))

    def pause(seconds: float) -> None:
        clock[0] += seconds

    assert task_slots.awaited(registered, lambda: clock[0], pause) == n_cores
    assert clock[0] == pytest.approx(until_s, abs=0.3)


def test_executors_that_only_a_job_brings_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"spark.dynamicAllocation.enabled": "true"}
    conf = SimpleNamespace(getAll=lambda: list(settings.items()))
    context: Any = SimpleNamespace(master="yarn", getConf=lambda: conf, defaultParallelism=2)
    monkeypatch.setattr(task_slots, "awaited", lambda registered: 12)
    assert task_slots.count_task_slots(context) == 2
    settings["spark.dynamicAllocation.minExecutors"] = "3"
    assert task_slots.count_task_slots(context) == 12


# A session.


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
    here = wayeb("run", *FLEET, "--out", tmp_path / "local.parquet", "--engine", "local", "--quiet")
    assert here.returncode == 0, here.stderr
    assert compare(str(tmp_path / "local.parquet"), str(tmp_path / "out" / "d.parquet")) is None


def test_workers_are_forked_with_everything_loaded_and_without_pandas(spark: SparkSession) -> None:
    def look(_: int) -> tuple[str, bool, bool, bool, bool]:
        loaded, is_frozen = sys.modules, gc.get_freeze_count() > 10_000
        return sys.executable, "wayeb_py.engine.recogniser" in loaded, "numba" in loaded, "pandas" in loaded, is_frozen

    found = set(spark.sparkContext.parallelize(range(2), 2).map(look).collect())
    assert found == {(sys.executable, True, True, False, True)}


def test_loading_for_workers_starts_no_thread() -> None:
    program = "from wayeb_py.parallel.spark import daemon; daemon.load(); print(daemon.n_threads())"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert ran.stdout.split() == ["1"], ran.stderr


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


# The zip.


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_zip(tmp_path_factory.mktemp("shipped") / "wayeb_py.zip")


def test_the_zip_holds_every_module_and_what_the_map_page_is_made_of(shipped: Path) -> None:
    names = zipfile.ZipFile(shipped).namelist()
    found = (str(path.relative_to(ROOT)) for path in (ROOT / "wayeb_py").glob("**/*.py"))
    sources = {path for path in found if "__pycache__" not in path}
    layers = {
        f"wayeb_py/{path.relative_to(ROOT)}" for layer in ("dsl", "parallel") for path in ROOT.glob(f"{layer}/*.py")
    }
    assert sources | layers <= set(names)
    assert {f"{name}c" for name in layers} <= set(names)
    assert {f"wayeb_py/view/page/{path.name}" for path in (ROOT / "wayeb_py/view/page").iterdir()} <= set(names)
    assert not [name for name in names if "__pycache__" in name]


def test_a_wheel_is_refused_since_spark_would_ignore_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"\.zip alone"):
        write_zip(tmp_path / "wayeb_py.whl")


def test_kernels_from_a_zip_are_compiled_once_or_brought_along(shipped: Path, tmp_path: Path) -> None:
    python = python_without_us(tmp_path / "python")
    bare = write_zip(tmp_path / "bare.zip", machine_code=False)
    first = _count_from_zip(python, bare, tmp_path / "cache")
    assert first["compiled"] == 1
    moved = bare.rename(tmp_path / "moved.zip")  # as Spark does, to another place for every job
    assert _count_from_zip(python, moved, tmp_path / "cache")["compiled"] == 0
    brought = _count_from_zip(python, shipped, tmp_path / "fresh")
    assert brought["compiled"] == 0
    assert brought["entities"] == first["entities"] == [0, 1, 0]


def _count_from_zip(python: Path, archive: Path, cache: Path) -> dict[str, object]:
    program = (
        "import json, numpy as np, numba.core.compiler as c\n"
        "n = 0\nbefore = c.compile_extra\n"
        "def counted(*a, **k):\n    global n; n += 1\n    return before(*a, **k)\n"
        "c.compile_extra = counted\n"
        "import wayeb_py; from wayeb_py.kernels import arrival as kernels\n"
        f"assert wayeb_py.__file__.startswith({str(archive)!r}), wayeb_py.__file__\n"
        "i, entity = np.int64, np.zeros(3, np.int32)\n"
        "numbers, known = np.full(8, -1, np.int32), np.zeros(8, i)\n"
        "kernels.number_keys(np.array([7, 9, 7]), np.zeros(8, i), numbers, known, 0, entity)\n"
        "print(json.dumps({'compiled': n, 'entities': entity.tolist()}))"
    )
    environment = os.environ | {"PYTHONPATH": str(archive), "XDG_CACHE_HOME": str(cache)}
    ran = subprocess.run([python, "-c", program], env=environment, cwd=cache.parent, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, object] = json.loads(ran.stdout)
    return found


# A cluster.

LOOK = """
import os, runpy, sys
import wayeb_py
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
def where(_):
    import wayeb_py.engine.recogniser
    return os.path.abspath(wayeb_py.__file__)
files = spark.sparkContext.parallelize(range(2), 2).map(where).collect()
print("driver", os.path.abspath(wayeb_py.__file__))
print("workers", *sorted(set(files)))
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_a_cluster_that_has_only_our_dependencies_runs_us_from_the_zip(shipped: Path, tmp_path: Path) -> None:
    """A master and a worker on loopback; spark-submit with the zip; both examples, and the same detections as here."""
    python = python_without_us(tmp_path / "python")
    (tmp_path / "look.py").write_text(LOOK)
    cache = tmp_path / "cache"
    with running_cluster(tmp_path, cores=3) as cluster:

        def submit(*words: object) -> subprocess.CompletedProcess[str]:
            command = [str(HOME / "bin" / "spark-submit"), "--master", cluster.url, "--py-files", str(shipped)]
            command += ["--conf", f"spark.pyspark.python={python}", "--conf", "spark.ui.enabled=false"]
            command += ["--conf", "spark.driver.host=127.0.0.1", "--conf", f"spark.executorEnv.XDG_CACHE_HOME={cache}"]
            quick = " ".join(["-XX:TieredStopAtLevel=1", "-Xlog:disable", *class_archive.options()])
            command += ["--conf", f"spark.executor.extraJavaOptions={quick}", "--driver-java-options", quick]
            environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "XDG_CACHE_HOME": str(cache)}
            environment.pop("PYTHONPATH", None)
            ended = subprocess.run(
                [*command, *map(str, words)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
            )
            assert ended.returncode == 0, ended.stderr[-4000:]
            return ended

        frame, example = tmp_path / "frame", ROOT / "docs/examples/recognise_frame.py"
        ended = submit(tmp_path / "look.py", example, ROOT / FLEET[0], ROOT / FLEET[2], frame)
        driver, workers = (line.split()[1:] for line in ended.stdout.splitlines()[:2])
        assert driver == [f"{shipped}/wayeb_py/__init__.pyc"]
        for file in workers:
            assert file.startswith(str(tmp_path / "worker-0"))
            assert file.endswith("wayeb_py.zip/wayeb_py/__init__.pyc")

        inputs = [ROOT / FLEET[0], "--data", ROOT / FLEET[2]]
        out = tmp_path / "d.parquet"
        ran = submit(ROOT / "docs/examples/wayeb_on_spark.py", "run", *inputs, "--out", out, "--scheme", "partition")
        plan = next(line for line in ran.stdout.splitlines() if line.startswith("on Spark"))
        assert ": 12 shards" in plan, "four for each of the three cores"
    here = wayeb("run", *FLEET, "--out", tmp_path / "local.parquet", "--engine", "local", "--quiet")
    assert here.returncode == 0, here.stderr
    assert compare(str(tmp_path / "local.parquet"), str(out)) is None
    columns = ["pattern", "place", "entity", "seq", "start_seq"]
    by_all = [(column, "ascending") for column in columns]
    ordered = [pq.read_table(path, columns=columns).sort_by(by_all) for path in (frame, out)]
    assert ordered[0].num_rows > 0
    assert ordered[0].to_pylist() == ordered[1].to_pylist()
