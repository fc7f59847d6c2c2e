"""One bad file or row is one bad row: reported, counted, and in no other's way, by every way in."""

from __future__ import annotations

import json
import os
import pickle
import re
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

import wayeb_py
from tests.poison import POISON_FILES, POISON_ROWS, TEXT, PoisonFile, PoisonRow, write_poison
from wayeb_py import cli
from wayeb_py.files.formats import lines
from wayeb_py.files.formats.block import Selection, TimeRange
from wayeb_py.files.output.set_aside import render_aside
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.logs.folders import folder as folder_log
from wayeb_py.parallel.logs.folders.folder import FolderLog
from wayeb_py.parallel.logs.log import OffsetRange
from wayeb_py.parallel.logs.messages import Messages, parse_messages
from wayeb_py.run import startup

PATTERNS = wayeb_py.compile(TEXT)
WANTED = Wanted.from_needs(PATTERNS.needs, "s")
BEFORE, AFTER = b'{"id": "g", "ts": 1, "v": 60, "k": "a"}\n', b'{"id": "g", "ts": 2, "v": 70, "k": "b"}\n'
EACH_FILE = pytest.mark.parametrize("poison", POISON_FILES, ids=lambda poison: poison.name)
EACH_ROW = pytest.mark.parametrize("poison", POISON_ROWS, ids=lambda poison: poison.name)

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _short_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE_BYTES", 1 << 20)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """`wayeb run` over some data: exit code, detections, and what it says."""
    (tmp_path / "p.sre").write_text(TEXT)
    monkeypatch.setattr(startup, "spare_pandas", lambda: None)

    def call(*data: Path) -> tuple[int, str, str]:
        words = [word for path in data for word in ("--data", str(path))]
        out = tmp_path / "out.ndjson"
        monkeypatch.setattr(sys, "argv", ["wayeb", "run", str(tmp_path / "p.sre"), *words, "--out", str(out)])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        return code, out.read_text() if out.exists() else "", capfd.readouterr().err

    return call


def quieten(path: Path) -> None:
    """As if its writer had been quiet for a while."""
    os.utime(path, (time.time() - 3600, time.time() - 3600), follow_symlinks=False)


def say_no_names_of_errors(text: str) -> None:
    assert "Traceback" not in text
    assert re.search(r"\b\w+(Error|Exception)\b", text) is None, text


@EACH_ROW
def test_a_run_sets_a_row_aside_and_recognises_the_others(poison: PoisonRow, tmp_path: Path, run: Run) -> None:
    (tmp_path / "e.ndjson").write_bytes(BEFORE + poison.line + b"\n" + AFTER)
    code, found, said = run(tmp_path / "e.ndjson")
    assert code == 0, said
    assert [json.loads(line)["seq"] for line in found.splitlines()] == [1]
    aside = tmp_path / "out.ndjson.aside.ndjson"
    rows = [json.loads(line) for line in aside.read_bytes().splitlines()] if aside.exists() else []
    assert [(row["row"], row["reason"]) for row in rows] == ([] if poison.reason is None else [(2, poison.reason)])


@EACH_ROW
def test_a_row_is_judged_alike_whatever_stands_beside_it(poison: PoisonRow, tmp_path: Path) -> None:
    schema = _log(tmp_path, BEFORE + AFTER).schema(WANTED)
    assert schema is not None
    selection = Selection(WANTED, schema, TimeRange(), 1000)
    for others in ([BEFORE, AFTER], [BEFORE, b"no object\n", AFTER], []):
        values = [*others, poison.line]
        block = parse_messages(Messages(0, None, list(values)), "topic", selection)
        n_bad = sum(value.startswith(b"no") for value in others)
        assert block.n_rows == len(values)
        assert [row.reason for row in block.aside][n_bad:] == ([] if poison.reason is None else [poison.reason])
        assert sum(batch.num_rows for batch in block.batches) == len(values) - len(block.aside)
        for row in block.aside:
            assert json.loads(render_aside(row))["reason"] == row.reason


@EACH_FILE
def test_a_run_says_which_file_it_is_and_what_to_do(poison: PoisonFile, tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.ndjson").write_bytes(BEFORE)
    path = write_poison(poison, folder)
    for data in (folder, path):
        code, found, said = run(data)
        assert code == 3, said
        assert found == ""
        assert re.search(poison.message, said), said
        assert os.fsencode(path.name).decode("utf-8", "backslashreplace") in said
        assert "hint: " in said or "needs " in said  # the place in the pattern that reads the column
        say_no_names_of_errors(said)


def _log(folder: Path, first: bytes) -> FolderLog:
    (folder / "in").mkdir(exist_ok=True)
    path = folder / "in" / "a.ndjson"
    if not path.exists():
        path.write_bytes(first)
        quieten(path)
    log: FolderLog = pickle.loads(pickle.dumps(FolderLog(folder / "in", folder / "journal.ndjson")))
    return log


@EACH_FILE
def test_a_file_is_one_bad_row_of_a_folder(poison: PoisonFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = _log(tmp_path, BEFORE)
    path = write_poison(poison, tmp_path / "in")
    quieten(path)
    (tmp_path / "in" / "z.ndjson").write_bytes(AFTER)
    monkeypatch.setattr(folder_log, "UNFINISHED_S", 0.0)
    schema = log.schema(WANTED)
    assert schema is not None
    end = log.latest()[""]
    whole = list(log.read(OffsetRange("", 0, end), WANTED, schema))
    aside = [row for block in whole for row in block.aside]
    assert [(row.file, row.reason) for row in aside] == [(str(path), poison.reason)]
    assert json.loads(render_aside(aside[0]))["values"]["fault"]
    say_no_names_of_errors(render_aside(aside[0]).decode())
    times = [ts for block in whole for batch in block.batches for ts in batch.column("ts").to_pylist()]
    assert times == [1, 2]
    # Reading it again, after a restart and in other ranges, gives the same.
    again = _log(tmp_path, BEFORE)
    assert again.latest() == log.latest() == {"": end}
    cuts = sorted({0, 1, 2, end // 2, end - 1, end})
    pieces = [block for start, stop in pairwise(cuts)
              for block in again.read(OffsetRange("", start, stop), WANTED, schema)]  # fmt: skip
    assert [row for block in pieces for row in block.aside] == aside
    assert [ts for block in pieces for batch in block.batches for ts in batch.column("ts").to_pylist()] == times
