"""The package as a zip, and a cluster without the package runs it."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from data.compare import compare
from tests.parallel.spark.command import FLEET, ROOT
from tests.parallel.spark_cluster import HOME, QUICK, python_without_us, running_cluster
from wayeb_py.errors import DataError
from wayeb_py.parallel.spark.ship import write_zip
from wayeb_py.patterns import compile_patterns
from wayeb_py.run import runner


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
        "import wayeb_py; from wayeb_py.kernels.keys import number_keys\n"
        f"assert wayeb_py.__file__.startswith({str(archive)!r}), wayeb_py.__file__\n"
        "i, entity = np.int64, np.zeros(3, np.int32)\n"
        "numbers, known = np.full(8, -1, np.int32), np.zeros(8, i)\n"
        "number_keys(np.array([7, 9, 7]), np.zeros(8, i), numbers, known, 0, entity)\n"
        "print(json.dumps({'compiled': n, 'entities': entity.tolist()}))"
    )
    environment = os.environ | {"PYTHONPATH": str(archive), "XDG_CACHE_HOME": str(cache)}
    ran = subprocess.run([python, "-c", program], env=environment, cwd=cache.parent, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, object] = json.loads(ran.stdout)
    return found


LOOK = """
import json, os, runpy, sys
import wayeb_py
from pyspark.sql import SparkSession

for words in json.loads(sys.argv[1]):
    sys.argv[:] = words
    try:
        runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise

def where(_):
    import wayeb_py.engine.recogniser
    return os.path.abspath(wayeb_py.__file__)
spark = SparkSession.builder.getOrCreate()
files = spark.sparkContext.parallelize(range(2), 2).map(where).collect()
print("driver", os.path.abspath(wayeb_py.__file__))
print("workers", *sorted(set(files)))
"""


@pytest.mark.soak
@pytest.mark.parametrize("n_applications", [1, 2])
def test_a_cluster_that_has_only_our_dependencies_runs_us_from_the_zip(
    shipped: Path, tmp_path: Path, n_applications: int
) -> None:
    """A master and a worker on loopback; spark-submit with the zip; both examples, and the same detections as here.

    In one application, which costs half as much, or in one each, as a user would run them.
    """
    python = python_without_us(tmp_path / "python")
    (tmp_path / "look.py").write_text(LOOK)
    cache = tmp_path / "cache"
    frame, out = tmp_path / "frame", tmp_path / "d.parquet"
    examples, sre, data = ROOT / "docs/examples", str(ROOT / FLEET[0]), str(ROOT / FLEET[2])
    run = [f"{examples}/wayeb_on_spark.py", "run", sre, "--data", data, "--out", str(out), "--scheme", "partition"]
    recognise = [f"{examples}/recognise_frame.py", sre, data, str(frame)]
    said = ""
    with running_cluster(tmp_path, cores=2) as cluster:
        command = [str(HOME / "bin" / "spark-submit"), "--master", cluster.url, "--py-files", str(shipped)]
        command += ["--conf", f"spark.pyspark.python={python}", "--conf", "spark.ui.enabled=false"]
        command += ["--conf", "spark.sql.shuffle.partitions=2"]  # not 200, for the few rows that the second shows
        command += ["--conf", "spark.driver.host=127.0.0.1", "--conf", f"spark.executorEnv.XDG_CACHE_HOME={cache}"]
        quick = " ".join(QUICK)
        command += ["--conf", f"spark.executor.extraJavaOptions={quick}", "--driver-java-options", quick]
        environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "XDG_CACHE_HOME": str(cache)}
        environment.pop("PYTHONPATH", None)
        for programs in ([run, recognise],) if n_applications == 1 else ([run], [recognise]):
            ended = subprocess.run(
                [*command, str(tmp_path / "look.py"), json.dumps(programs)],
                cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300,
            )  # fmt: skip
            assert ended.returncode == 0, ended.stderr[-4000:]
            driver, workers = (line.split()[1:] for line in ended.stdout.splitlines()[-2:])
            assert driver == [f"{shipped}/wayeb_py/__init__.pyc"]
            for file in workers:
                assert file.startswith(str(tmp_path / "worker-0"))
                assert file.endswith("wayeb_py.zip/wayeb_py/__init__.pyc")
            said += ended.stdout
    plan = next(line for line in said.splitlines() if line.startswith("on Spark"))
    assert ": 8 shards" in plan, "four for each of the two cores"
    runner.run(compile_patterns(ROOT / FLEET[0]), [ROOT / FLEET[2]], tmp_path / "local.parquet")
    assert compare(str(tmp_path / "local.parquet"), str(out)) is None
    columns = ["pattern", "place", "entity", "seq", "start_seq"]
    by_all = [(column, "ascending") for column in columns]
    ordered = [pq.read_table(path, columns=columns).sort_by(by_all) for path in (frame, out)]
    assert ordered[0].num_rows > 0
    assert ordered[0].to_pylist() == ordered[1].to_pylist()
