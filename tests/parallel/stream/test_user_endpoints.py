"""A source and a sink that a user writes in a file: what the stream does with them, and its messages about wrong
ones."""

from __future__ import annotations

import pickle
import sqlite3
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import wayeb_py
from tests.cli.ended_command import Wayeb
from wayeb_py.errors import DataError
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.logs.log import OffsetRange
from wayeb_py.parallel.sinks.sinks import Batch
from wayeb_py.parallel.stream.user_endpoints import open_own_log, open_own_sink

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
HALF_A_LOG = """
from wayeb_py.parallel.logs.log import Log

class Mine(Log):
    name = "mine"
    def schema(self, wanted): ...
    def earliest(self): ...
    def latest(self): ...

def open_log():
    return Mine()
"""
PATTERNS = "stream s { key id time ts in s }\npattern Fast := (v > 5)\n"


def fill(path: Path, first: int, n: int) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE IF NOT EXISTS events (id INTEGER, ts INTEGER, v REAL)")
        db.executemany("INSERT INTO events VALUES (?, ?, ?)", [(1, i, float(i % 10)) for i in range(first, first + n)])


def test_a_log_of_ones_own_is_read_by_ranges_and_travels_to_where_its_file_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark import cloudpickle

    fill(tmp_path / "events.db", 0, 30)
    monkeypatch.setenv("EVENTS_DB", str(tmp_path / "events.db"))
    log = open_own_log(f"python:{EXAMPLES / 'sqlite_source.py'}")
    wanted = Wanted.from_needs(wayeb_py.compile(PATTERNS).needs, "s")
    schema = log.schema(wanted)
    assert schema is not None
    assert (log.earliest(), log.latest(), log.ends(), log.clock) == ({"": 0}, {"": 30}, None, None)
    (block,) = log.read(OffsetRange("", 10, 13), wanted, schema)
    assert [row["ts"] for batch in block.batches for row in batch.to_pylist()] == [10, 11, 12]
    sent = cloudpickle.dumps(log)
    code = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read()).latest())"
    told = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, check=True, cwd=tmp_path)
    assert told.stdout.decode().strip() == "{'': 30}"
    assert pickle.loads(sent).latest() == {"": 30}


def test_a_sink_of_ones_own_keeps_a_batch_that_comes_twice_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOUND_DB", str(tmp_path / "found.db"))
    sink = open_own_sink(f"python:{EXAMPLES / 'sqlite_sink.py'}")
    sink.open("abcd", is_new=True)
    found = pa.table({"detection_id": ["a", "b"], "pattern": ["P", "P"], "entity": [1, 2], "ts": [3, 4]})
    for _ in range(2):
        sink.write(Batch(0, found))
    sink.close()
    with sqlite3.connect(tmp_path / "found.db") as db:
        assert db.execute("SELECT * FROM found ORDER BY entity").fetchall() == [("a", "P", 1, 3), ("b", "P", 2, 4)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nothing_like_it\n", "it cannot be run: No module named 'nothing_like_it'"),
        ("x = 1\n", "there is no function `open_log` in it"),
        ("def open_log():\n    return 7\n", "`open_log` gives a int, which is no Log"),
        ("def open_log():\n    return 1 / 0\n", "`open_log` failed: division by zero"),
        (
            HALF_A_LOG,
            "what `open_log` gives has no `read` and no `forget`",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_one_message(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(DataError) as told:
        open_own_log(f"python:{path}")
    assert (told.value.message, told.value.file) == (said, str(path))


def test_a_file_that_is_not_there_and_a_sink_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such Python file"):
        open_own_sink(f"python:{tmp_path / 'nowhere.py'}")
    (tmp_path / "mine.py").write_text("class S:\n    def open(self, a, b): ...\ndef open_sink():\n    return S()\n")
    with pytest.raises(DataError, match="has no `write` and no `close`"):
        open_own_sink(f"python:{tmp_path / 'mine.py'}")


def test_the_command_reads_a_source_and_writes_a_sink_of_the_users_and_resumes(
    spark: SparkSession, wayeb: Wayeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENTS_DB", str(tmp_path / "events.db"))
    monkeypatch.setenv("FOUND_DB", str(tmp_path / "found.db"))
    (tmp_path / "p.sre").write_text(PATTERNS)
    words = ["--source", f"python:{EXAMPLES / 'sqlite_source.py'}", "--out", f"python:{EXAMPLES / 'sqlite_sink.py'}"]
    words += ["--checkpoint", str(tmp_path / "checkpoint"), "--once", "--quiet", "--workers", "1"]
    for first in (0, 30):
        fill(tmp_path / "events.db", first, 30)
        ended = wayeb("stream", str(tmp_path / "p.sre"), *words)
        assert ended.code == 0, ended.err
    with sqlite3.connect(tmp_path / "found.db") as db:
        found = [ts for (ts,) in db.execute("SELECT ts FROM found ORDER BY ts")]
    assert found == [ts for ts in range(60) if ts % 10 > 5]
