"""The command as a process of its own: pipes, signals, and what it loads."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.ended_command import EVENTS
from wayeb_py.cli.exit_codes import explained


def process(folder: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wayeb_py.cli", *words]
    return subprocess.run(command, cwd=folder, input=stdin, capture_output=True, text=True)


@pytest.mark.usefixtures("wayeb")
def test_standard_input_to_standard_output(tmp_path: Path) -> None:
    header, *rows = [line.split(",") for line in EVENTS.splitlines()]
    lines = "".join(json.dumps(dict(zip(header, row, strict=True))) + "\n" for row in rows)
    ended = process(tmp_path, "run", "fleet.sre", "--data", "-", "--out", "-", "-q", stdin=lines)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [json.loads(line)["entity"] for line in ended.stdout.splitlines()] == ["a", "b"]


@pytest.mark.usefixtures("wayeb")
def test_a_detection_is_printed_before_the_input_ends(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "wayeb_py.cli", "run", "fleet.sre", "--data", "-", "--out", "-", "-q"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        for second, speed in enumerate([60, 0]):
            event = {"id": "a", "ts": f"2016-01-01T00:00:0{second}Z", "speed": speed}
            running.stdin.write(json.dumps(event) + "\n")
        running.stdin.flush()
        assert json.loads(running.stdout.readline())["pattern"] == "Swing"
        assert running.poll() is None
        running.stdin.close()
    assert running.returncode == 0


@pytest.mark.usefixtures("wayeb")
def test_a_reader_that_has_enough_is_no_error_worth_a_word(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "wayeb_py.cli", "run", "fleet.sre", "--data", "events.csv", "--out", "-", "-q"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == ""
    assert running.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
@pytest.mark.parametrize("words", [("run", "--data"), ("stream", "--once", "--quiet", "--checkpoint=c", "--source")])
@pytest.mark.usefixtures("wayeb")
def test_a_full_disk_may_have_room_later(tmp_path: Path, words: tuple[str, ...]) -> None:
    command, *options = words
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "events.csv").write_text(EVENTS)
    line = [sys.executable, "-m", "wayeb_py.cli", command, "fleet.sre", *options, "in", "--out", "-"]
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(line, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 75
    assert "cannot write standard output: No space left on device" in ended.stderr
    assert "make room, then give the same command again" in ended.stderr


def test_a_full_disk_that_nothing_else_tells_of_is_no_fault_of_the_data(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised, explained():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "some.file")
    assert raised.value.code == 75
    assert capsys.readouterr().err.startswith("cannot write `some.file`: No space left on device\n  = hint: make room")


@pytest.mark.usefixtures("wayeb")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_stopped_leaves_nothing_behind(tmp_path: Path, number: signal.Signals, code: int) -> None:
    program = (
        "import signal, sys, wayeb_py.cli, wayeb_py.files.output.write as write\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # which a shell ignores in the background
        "began = write.TextOutput.open\n"
        "def tell(output):\n    began(output)\n    print('under way', flush=True)\n"
        "write.TextOutput.open = tell\n"
        "sys.argv = ['wayeb', 'run', 'fleet.sre', '--data', '-', '--out', 'd.csv', '-q']\n"
        "wayeb_py.cli.main()"
    )
    command, pipe = [sys.executable, "-c", program], subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdin.write('{"id": "a", "ts": "2016-01-01T00:00:00Z", "speed": 60}\n')
        running.stdin.flush()
        assert running.stdout.readline() == "under way\n"
        assert list(tmp_path.glob(".d.csv.*.tmp")) != []
        running.send_signal(number)
        assert running.wait(30) == code
        assert "Traceback" not in running.stderr.read()
    assert sorted(os.listdir(tmp_path)) == ["events.csv", "fleet.sre"]


@pytest.mark.usefixtures("wayeb")
def test_a_run_loads_neither_pandas_nor_spark(tmp_path: Path) -> None:
    program = (
        "import sys, wayeb_py.cli\n"
        "sys.argv = ['wayeb', 'run', 'fleet.sre', '--data', 'events.csv', '--out', 'd.parquet', '-q']\n"
        "try:\n    wayeb_py.cli.main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print(sorted({'pandas', 'pyspark', 'pyarrow.dataset', 'rich.progress'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert ended.stdout == "[]\n", ended.stderr


@pytest.mark.usefixtures("wayeb")
@pytest.mark.parametrize("source", ["-?format=csv", "vehicles=-?format=csv"])
def test_a_stream_over_standard_input_may_be_final_also_by_its_name(tmp_path: Path, source: str) -> None:
    words = ["--engine", "local", "--final", "-q", "--out", "-", "--checkpoint", "c"]
    ended = process(tmp_path, "stream", "fleet.sre", "--source", source, *words, stdin=EVENTS)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [json.loads(line)["entity"] for line in ended.stdout.splitlines()] == ["a", "b"]
