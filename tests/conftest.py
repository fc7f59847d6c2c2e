"""What test modules share: the command, and one Spark session, Kafka broker, S3 server and browser a process: they
start slowly.

With several workers (`pytest -n 4 --dist loadgroup`) the tests that share a JVM form three groups of about equal cost,
which begin first, each on a worker: streams, batches, and what has a broker or kills. All other tests go one by one to
the worker that is free, those of the longest files first: no worker is left with a long tail. There are more workers
than processors on a machine of two, since tests on Spark often wait.
"""

from __future__ import annotations

import os
import sys
import uuid
import warnings
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import pytest
from hypothesis import settings as hypothesis_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.cli.ended_command import Wayeb
    from tests.view.browser import Browser
    from tools.azure_server import AzureServer
    from tools.gcs_server import GcsServer
    from tools.hdfs.cluster import HdfsCluster
    from tools.kafka.broker import Broker
    from tools.s3_server import S3Server
    from wayeb_py.files.stores import StorePath

TESTS = Path(__file__).parent
PARALLEL = TESTS / "parallel"
STREAMS = [PARALLEL / folder for folder in ("stream", "recovery", "health")]
KILLS = PARALLEL / "recovery" / "test_kills.py"
LONG = [  # half a minute and more on a busy machine, the longest first; `--durations` or the report for JUnit tells
    KILLS,
    *(
        TESTS / file
        for file in (
            "parallel/spark/test_ship.py", "docs/test_docs.py", "simulate/test_generators.py", "engine/test_corpus.py",
            "library/test_table.py", "parallel/stream/test_core.py", "engine/test_properties.py",
            "parallel/recovery/test_mending.py", "spatial/test_index.py", "parallel/batch/test_moved.py",
            "simulate/test_staged_scenes.py", "library/test_library.py", "library/test_encounters.py",
            "pairs/test_operator.py", "several/test_against_oracle.py", "engine/test_for_each_by_hand.py",
            "dsl/test_fuzz.py", "engine/test_few.py", "compiler/test_for_each.py", "explained_plans/test_bounds.py",
            "engine/test_silence.py", "spatial/test_ways.py", "providers/test_convert.py",
        )
    ),
    PARALLEL,
]  # fmt: skip

# Continuous integration tries the same cases at every run, so that a case found by chance stops the change that brings
# it in and no other; `make test` and `make soak` on a developer's machine draw new ones.
hypothesis_settings.register_profile("same cases", derandomize=True)
if os.environ.get("CI"):
    hypothesis_settings.load_profile("same cases")

# Sessions of tests are short, and so are those of the commands that tests start: each costs what its start costs.
os.environ.setdefault("WAYEB_SPARK_QUICK", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads spin, and each worker would have some
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:+UseSerialGC")  # half the memory, and no threads that collect
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(PARALLEL / "quick_python")]))


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist, which reads the groups at this hook as well
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if (group := _group(item)) is not None:
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=_turn)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuses to go on where pytest-xdist does not see the groups: each worker would start a Spark of its own."""
    if getattr(session.config.option, "loadgroup", False):
        unseen = [item for item in session.items if item.get_closest_marker("xdist_group") and "@" not in item.nodeid]
        if unseen:
            raise pytest.UsageError(f"pytest-xdist does not see the group of {unseen[0].nodeid}: take another pytest")


GROUPS = ["broker", "streams", "batches", "browser", "stores", None]  # None: no group, the test goes alone


def _group(item: pytest.Item) -> str | None:
    """Which tests share a process, since they share what takes long to start."""
    shared = set(getattr(item, "fixturenames", ()))
    if "broker" in shared or ("spark" in shared and item.path == KILLS):
        return "broker"
    if "spark" in shared:
        return "streams" if any(folder in item.path.parents for folder in STREAMS) else "batches"
    if shared & {"s3_server", "gcs_server", "azure_server", "hdfs_cluster", "any_store"}:
        return "stores"
    return "browser" if "browser" in shared else None


def _turn(item: pytest.Item) -> tuple[int, int]:
    """When a test has its turn: groups before all others, long tests before short ones."""
    return GROUPS.index(_group(item)), _turn_of_file(item.path)


@cache  # a file has hundreds of tests
def _turn_of_file(file: Path) -> int:
    long = [place for place, path in enumerate(LONG) if path == file or path in file.parents]
    return min(long, default=len(LONG))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    return _must_run(report, item.path)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    return _must_run(report, collector.path)


Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def _must_run(report: Report, file: Path) -> Report:
    """The report, with a skip turned into a failure where nothing on Spark may be skipped."""
    if (
        os.environ.get("CI")
        and PARALLEL in file.parents
        and report.outcome == "skipped"
        and not hasattr(report, "wasxfail")
    ):
        report.outcome = "failed"
        report.longrepr = f"{file.name} may not be skipped in continuous integration: {report.longrepr}"
    return report


@pytest.fixture(scope="session", autouse=True)
def unforced() -> Iterator[None]:
    """Nothing that a test writes is forced to the disk, which is most of what many tests would wait for.

    No test cuts the power: `parallel/crash_images.py` makes what a cut would leave from a record of what was forced.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # which also fails where there is no such descriptor
        yield


@pytest.fixture(scope="session")
def spark_traps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of traps for the processes that the shared session starts: see `parallel/durable/failpoints.py`."""
    return tmp_path_factory.mktemp("traps")


@pytest.fixture(scope="session")
def spark(spark_traps: Path) -> Iterator[SparkSession]:
    """A session on this machine with two workers."""
    from wayeb_py.errors import DataError
    from wayeb_py.parallel.spark.session import open_session, require_spark

    try:
        require_spark()
    except DataError as error:
        pytest.skip(f"no Spark here: {error}")
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as environment:
        warnings.simplefilter("ignore")
        environment.setenv("WAYEB_FAILPOINTS", str(spark_traps))  # for what the JVM starts, not for this process
        settings = {
            "spark.sql.shuffle.partitions": "2",  # not 200, for a handful of rows
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        }
        session = open_session("local[2]", quick=True, settings=_connector() | settings)
    yield session
    session.stop()


def _connector() -> dict[str, str]:
    """Spark's Kafka connector, which only a session that starts with it has; without it where it cannot be fetched."""
    from wayeb_py.parallel.spark.jars import MissingJarsError, connector_jars

    try:
        return {"spark.jars": ",".join(map(str, connector_jars()))}
    except MissingJarsError:
        return {}


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A real broker; where it cannot be fetched its tests are skipped."""
    from tools.kafka.broker import Broker
    from tools.kafka.broker_jars import broker_jars
    from wayeb_py.parallel.spark.jars import MissingJarsError

    try:
        broker_jars()
    except MissingJarsError as error:
        pytest.skip(f"no Kafka broker here: {error}")
    with Broker() as running:
        yield running


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    from benchmarks.harness.chromium import REMEDY, start_chromium
    from tests.view.browser import Browser

    driver = start_chromium(tmp_path_factory.mktemp("profile"))
    if driver is None:
        if os.environ.get("CI"):
            pytest.fail(REMEDY)
        pytest.skip(REMEDY)
    try:
        yield Browser(driver, tmp_path_factory.mktemp("pages"))
    finally:
        driver.quit()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    from tools.s3_server import S3Server

    with S3Server() as running:
        yield running


@pytest.fixture
def bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> StorePath:
    """An empty bucket, with the environment in which it can be reached."""
    from wayeb_py.files.stores import StorePath

    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return StorePath.parse(f"s3://{s3_server.make_bucket()}")


@pytest.fixture(scope="session")
def hdfs_cluster() -> Iterator[HdfsCluster]:
    """A real HDFS; where it cannot be fetched its tests are skipped."""
    from tools.hdfs.cluster import HdfsCluster, hdfs_jars
    from wayeb_py.parallel.spark.jars import MissingJarsError

    try:
        hdfs_jars()
    except MissingJarsError as error:
        pytest.skip(f"no HDFS here: {error}")
    with HdfsCluster() as running:
        yield running


@pytest.fixture
def hdfs(hdfs_cluster: HdfsCluster) -> StorePath:
    """An empty folder of the HDFS."""
    from wayeb_py.files.stores import StorePath

    return StorePath.parse(f"{hdfs_cluster.address}/{uuid.uuid4().hex}")


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[GcsServer]:
    from tools.gcs_server import GcsServer

    with GcsServer() as running:
        yield running


@pytest.fixture
def gs_bucket(gcs_server: GcsServer, monkeypatch: pytest.MonkeyPatch) -> StorePath:
    """An empty bucket of Google's store, with the environment in which it can be reached."""
    from wayeb_py.files.stores import StorePath

    for name, value in gcs_server.environment.items():
        monkeypatch.setenv(name, value)
    return StorePath.parse(f"gs://{gcs_server.make_bucket()}")


@pytest.fixture(scope="session")
def azure_server() -> Iterator[AzureServer]:
    """An emulator of Azure's store, which takes npm half a minute to fetch; without npm its tests are skipped."""
    from tools.azure_server import AzureServer, fetch_azurite

    program = fetch_azurite()
    if program is None:
        pytest.skip("no npm here, which fetches the emulator of Azure's store")
    with AzureServer(program) as running:
        yield running


@pytest.fixture
def container(azure_server: AzureServer, monkeypatch: pytest.MonkeyPatch) -> StorePath:
    """An empty container of Azure's store, with the environment in which it can be reached."""
    from wayeb_py.files.stores import StorePath

    for name, value in azure_server.environment.items():
        monkeypatch.setenv(name, value)
    return StorePath.parse(azure_server.make_container())


@pytest.fixture(params=["bucket", "gs_bucket", "hdfs", pytest.param("container", marks=pytest.mark.soak)])
def any_store(request: pytest.FixtureRequest) -> StorePath:
    """An empty place in each of the stores in turn; Azure's in the long tests."""
    return cast("StorePath", request.getfixturevalue(request.param))


@pytest.fixture
def wayeb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Wayeb:
    """The command, run in this process, in a folder with patterns and events."""
    from tests.cli.ended_command import EVENTS, FLEET, Ended
    from wayeb_py import cli
    from wayeb_py.run import startup

    (tmp_path / "fleet.sre").write_text(FLEET)
    (tmp_path / "events.csv").write_text(EVENTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(startup, "spare_pandas", lambda: None)  # this process has other tests to run

    def call(*words: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["wayeb", *words])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capfd.readouterr()
        return Ended(code, captured.out, captured.err)

    return call
