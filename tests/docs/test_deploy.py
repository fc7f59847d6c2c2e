"""The examples of docs/deploy parse, their tools find nothing in them, and wayeb has the options that they use."""

from __future__ import annotations

import ast
import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml
from jinja2 import Environment

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "docs/deploy"
UNITS = sorted(path.name for path in DEPLOY.glob("wayeb-*"))
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def commands() -> list[tuple[str, str]]:
    """(file, text) of each wayeb command in the examples."""
    job = json.loads((DEPLOY / "databricks_job.json").read_text())
    task = job["tasks"][0]["spark_python_task"]
    application = yaml.safe_load((DEPLOY / "spark-application.yaml").read_text())
    nodes = ast.walk(ast.parse((DEPLOY / "nightly_dag.py").read_text()))
    dag = "".join(str(node.value) for node in nodes if isinstance(node, ast.Constant))
    units = [(name, line) for name in UNITS for line in (DEPLOY / name).read_text().splitlines() if "ExecStart" in line]
    return [
        ("databricks_job.json", "wayeb " + " ".join(task["parameters"])),
        ("spark-application.yaml", "wayeb " + " ".join(application["spec"]["template"]["arguments"])),
        ("nightly_dag.py", dag[dag.index("wayeb run") :]),
        *units,
    ]


@pytest.mark.parametrize(("file", "text"), commands())
def test_a_command_has_options_that_the_reference_has_and_files_that_exist(file: str, text: str) -> None:
    called = re.search(r"\bwayeb (run|stream) ", text)
    assert called is not None, file
    reference = (ROOT / "docs/commands.md").read_text()
    section = reference[reference.index(f"## wayeb {called[1]}\n") :].split("\n## ", 1)[0]
    options = OPTION.findall(text)
    assert "--out" in options
    assert [option for option in options if f"`{option}" not in section] == []
    patterns = re.findall(r"patterns/[\w/]+\.sre", text)
    assert patterns
    assert all((ROOT / name).is_file() for name in patterns)


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_is_one(name: str, tmp_path: Path) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string((DEPLOY / name).read_text())
    assert unit["Unit"]["Description"].startswith("wayeb")
    assert {"Service", "Timer"} & set(unit.sections())


def test_a_night_of_systemds_is_yesterdays_folder() -> None:
    service = configparser.ConfigParser(strict=False, interpolation=None)
    service.optionxform = str  # type: ignore[assignment, method-assign]
    service.read_string((DEPLOY / "wayeb-nightly.service").read_text())
    command = service["Service"]["ExecStart"].replace("%%", "%").replace("$$", "$")  # as systemd unescapes it
    days = [f"events/{datetime.now(UTC).date() - timedelta(days=1)}/"]
    words = shlex.split(command.replace("exec /opt/wayeb/bin/wayeb", "echo"))
    ran = subprocess.run(words, capture_output=True, text=True)
    days.append(f"events/{datetime.now(UTC).date() - timedelta(days=1)}/")  # midnight may have passed
    assert ran.stdout.split()[ran.stdout.split().index("--data") + 1] in days


@pytest.mark.parametrize("spans", [True, False])
def test_a_night_of_airflows_is_the_folder_of_the_day_before(spans: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether Airflow is set to give a run the day before it as its interval, as 2 does, or the moment, as 3 does."""
    made: dict[str, dict[str, Any]] = {}

    class Made:
        def __init__(self, *_: object, **values: Any) -> None:
            made[type(self).__name__] = values

        def __enter__(self) -> None:
            """Tasks in the block are the DAG's."""

        def __exit__(self, *_: object) -> None:
            """Nothing is scheduled."""

    parts = "airflow", "airflow.sdk", "airflow.providers", "airflow.providers.standard"
    operators = "airflow.providers.standard.operators", "airflow.providers.standard.operators.bash"
    for name in (*parts, *operators):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys.modules["airflow.sdk"], "DAG", type("DAG", (Made,), {}), raising=False)
    monkeypatch.setattr(sys.modules[operators[1]], "BashOperator", type("BashOperator", (Made,), {}), raising=False)
    exec(compile((DEPLOY / "nightly_dag.py").read_text(), "nightly_dag.py", "exec"), {})
    at = datetime(2026, 11, 19, 2, tzinfo=UTC)
    begin = at - timedelta(days=1) if spans else at
    page = Environment()
    page.filters["ds"] = lambda moment: moment.strftime("%F")
    macros = SimpleNamespace(ds_add=lambda ds, days: str(date.fromisoformat(ds) + timedelta(days=days)))
    text = page.from_string(made["BashOperator"]["bash_command"]).render(
        ds=begin.strftime("%F"), data_interval_start=begin, data_interval_end=at, logical_date=begin, macros=macros
    )
    assert "--data s3://fleet/day=2026-11-18/ " in text
    assert made["DAG"]["default_args"]["depends_on_past"]  # a state takes nights in their order
    assert made["DAG"]["catchup"]


DRIVER = ["--properties-file", "/p", "--class", "org.apache.spark.deploy.PythonRunner", "local:///x.py", "run"]
EXECUTOR = [
    "-Da=1 2", "-Db=3", "-Xms4g", "-Xmx4g", "-cp", "/conf:/jars:/spark/jars/*",
    "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend", "--driver-url", "spark://d",
    "--executor-id", "1", "--cores", "2", "--app-id", "app", "--hostname", "10.0.0.2",
    "--resourceProfileId", "0", "--podName", "pod",
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "called", "given"),
    [
        (["run", "a b.sre", "--help"], "wayeb", ["run", "a b.sre", "--help"]),
        ([], "wayeb", []),
        (
            ["driver", *DRIVER], "spark-submit",
            ["--conf", "spark.driver.bindAddress=10.0.0.1", "--deploy-mode", "client", *DRIVER],
        ),
        (["executor"], "java", EXECUTOR),
    ],
)  # fmt: skip
def test_a_container_starts_what_it_is_asked_for(
    words: list[str], called: str, given: list[str], tmp_path: Path
) -> None:
    """With the arguments and the environment that Spark gives a pod."""
    stub = '#!/bin/bash\nif [ "${0##*/}" = find-spark-home ]; then echo /spark; exit; fi\nIFS="|"; echo "${0##*/} $*"\n'
    for name in ("wayeb", "java", "spark-submit", "find-spark-home"):
        (tmp_path / name).write_text(stub)
        (tmp_path / name).chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.1",
        "SPARK_JAVA_OPT_0": "-Da=1 2", "SPARK_JAVA_OPT_1": "-Db=3", "SPARK_EXECUTOR_MEMORY": "4g",
        "SPARK_CONF_DIR": "/conf", "SPARK_CLASSPATH": "/jars", "SPARK_DRIVER_URL": "spark://d",
        "SPARK_EXECUTOR_ID": "1", "SPARK_EXECUTOR_CORES": "2", "SPARK_APPLICATION_ID": "app",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.2", "SPARK_RESOURCE_PROFILE_ID": "0", "SPARK_EXECUTOR_POD_NAME": "pod",
    }  # fmt: skip
    ran = subprocess.run(["bash", DEPLOY / "entrypoint.sh", *words], capture_output=True, text=True, env=environment)
    assert (ran.stdout, ran.stderr) == (f"{called} {'|'.join(given)}\n", "")


def test_systemd_finds_nothing_in_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd here")
    for name in UNITS:
        text = (DEPLOY / name).read_text().replace("/opt/wayeb/bin/wayeb", "/bin/true")
        (tmp_path / name).write_text(text.replace("User=wayeb", "User=root"))
    ran = subprocess.run(
        ["systemd-analyze", "verify", *(str(tmp_path / name) for name in UNITS)], capture_output=True, text=True
    )
    assert [line for line in ran.stderr.splitlines() if "wayeb" in line] == []


def test_hadolint_finds_nothing_in_the_image() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    ran = subprocess.run([hadolint, DEPLOY / "Dockerfile"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")


def test_the_image_has_every_folder_that_the_package_is_made_of() -> None:
    copied = set(re.findall(r"^COPY (.*) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE))
    names = {name for line in copied for name in line.split()}
    assert {"pyproject.toml", "wayeb_py", "dsl", "parallel"} <= names
    assert all((ROOT / name).exists() for name in names)
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert json.loads(entry)[-1].removeprefix("/opt/wayeb/") in names


@pytest.mark.soak
def test_the_image_is_built_and_runs() -> None:
    if shutil.which("docker") is None or subprocess.run(["docker", "info"], capture_output=True).returncode != 0:
        pytest.skip("no docker runs here")
    built = subprocess.run(
        ["docker", "build", "-q", "-f", DEPLOY / "Dockerfile", ROOT], capture_output=True, text=True, check=True
    )
    command = ["docker", "run", "--rm", built.stdout.strip(), "check", "patterns/fleet/trips.sre"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
