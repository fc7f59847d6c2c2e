"""Without a Java that Spark runs on, or without pyspark: one message with the remedy, and everything else works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from data.compare import compare
from tests.parallel.spark.command import FLEET, ROOT, fake_java, wayeb
from wayeb_py.errors import DataError
from wayeb_py.parallel.spark import session
from wayeb_py.parallel.spark.java import java_version, require_java


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


def test_a_master_without_java_does_not_stop_a_run_in_process(
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
