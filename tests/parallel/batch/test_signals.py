"""A signal ends a run on Spark soon, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests.parallel.batch.small_jobs import STREAM, events
from tests.polling import DEADLINE_S, poll

SLOW = """
import time
from pathlib import Path
import numpy
import wayeb_py

@wayeb_py.predicate("number")
def slow(speed):
    Path("begun").touch()
    time.sleep(300)
    return numpy.zeros(len(speed), bool)
"""


@pytest.mark.parametrize(
    ("number", "code", "says"),
    [("SIGTERM", 143, []), pytest.param("SIGINT", 130, ["interrupted"], marks=pytest.mark.soak)],
)
def test_a_signal_ends_a_run_on_spark_soon_and_leaves_nothing(
    tmp_path: Path, number: str, code: int, says: list[str]
) -> None:
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir()
    temporary.mkdir()
    (here / "x.sre").write_text(STREAM + "pattern Slow := (slow(speed))")
    (here / "mine.py").write_text(SLOW)
    pq.write_table(events(300), here / "a.parquet")
    words = ["run", "x.sre", "--functions", "mine.py", "--data", "a.parquet", "--out", "found/", "--quiet"]
    words += ["--engine", "spark", "--master", "local[1]", "--scheme", "partition"]
    root = str(Path(wayeb_py.__file__).parent.parent)
    process = subprocess.Popen(
        [sys.executable, "-c", "from wayeb_py.cli import main; main()", *words],
        cwd=here,
        env=os.environ | {"TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join([root, os.environ["PYTHONPATH"]])},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        poll(
            (here / "begun").exists,
            "the function to be called",
            in_vain=lambda: process.poll() is not None,
            said=lambda: "" if process.poll() is None else process.communicate()[1],
        )
        process.send_signal(getattr(signal, number))
        process.send_signal(getattr(signal, number))  # an impatient user does no harm
        _, said = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
    assert (process.returncode, said.splitlines()) == (code, says)
    assert {path.name for path in here.iterdir()} - {"begun", "__pycache__"} == {"x.sre", "mine.py", "a.parquet"}
    assert not [path.name for path in temporary.iterdir() if path.name.startswith("wayeb-")]
