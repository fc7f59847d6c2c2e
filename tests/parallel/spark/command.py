"""The command as a process of its own, with another Java or another environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[3]
WAYEB = Path(sys.executable).with_name("wayeb")
FLEET = ["patterns/fleet/places.sre", "--data", "data/fleet_sample.parquet"]


def wayeb(
    *words: object, cwd: Path = ROOT, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, with changes to the environment; an empty value takes a variable away."""
    kept = {**os.environ, **(environment or {})}
    kept = {name: value for name, value in kept.items() if value}
    return subprocess.run([WAYEB, *map(str, words)], cwd=cwd, env=kept, capture_output=True, text=True, timeout=300)


def fake_java(folder: Path, says: str, code: int = 0) -> Path:
    """A JAVA_HOME whose java gives this version, and does no more."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
    program.chmod(0o755)
    return folder
