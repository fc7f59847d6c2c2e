"""Where a run happens: in this process or on Spark, by the configuration and the size of the input."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from wayeb_py.errors import DataError
from wayeb_py.run.choose_engine import Machine, choose_engine, find_master, read_limit

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
