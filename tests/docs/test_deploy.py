"""The examples of docs/deploy parse, their tools find nothing in them, and wayeb has the options that they use."""

from __future__ import annotations

import ast
import configparser
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

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
        ("spark-application.yaml", "wayeb " + " ".join(application["spec"]["arguments"])),
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
