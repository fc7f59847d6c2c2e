"""`wayeb bench`: passes its arguments to the benchmarks of the repository, which are not part of the installed
package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import typer

from wayeb_py.cli.exit_codes import USAGE_FAULT, fail


def run_benchmarks(context: typer.Context) -> None:
    """Measure: run experiments, report, compare (`wayeb bench --help`); needs the repository."""
    root = Path(__file__).resolve().parents[3]
    if not (root / "benchmarks" / "__main__.py").exists():
        fail("the benchmarks are part of the repository: clone it, `make bench`", USAGE_FAULT)
    # The folder is found by path and not by working directory: the arguments may name files relative to the latter.
    paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "benchmarks", *context.args]
    raise SystemExit(subprocess.run(command, env=environment).returncode)
