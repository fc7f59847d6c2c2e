"""The last line of a stream: the cause found in Spark's text, and the rest in a file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from wayeb_py.cli.commands.stream import dying_in_one_line, memory_settings
from wayeb_py.errors import DataError, EventsError, PassingError
from wayeb_py.parallel.health.failure import as_error, find_cause, say_last
from wayeb_py.parallel.recovery.checkpoint import Checkpoint

SPARK_TEXT = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: \
Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3 in stage 1.0 (127.0.0.1 executor driver): \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/x/task.py", line 80, in recognise_range
    for block in reading.blocks():
{error}

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: org.apache.spark.SparkException: Job aborted
\tat org.apache.spark.Foo.bar(Foo.scala:1)
"""


def spark_error(error: str) -> Exception:
    return RuntimeError(SPARK_TEXT.replace("{error}", error))


@pytest.mark.parametrize(
    ("error", "message", "hint"),
    [
        (
            spark_error("wayeb_py.errors.DataError: the file has shrunk\n --> a.ndjson, row 7\n  = hint: put it back"),
            "the file has shrunk [a.ndjson, row 7]",
            "put it back",
        ),
        (spark_error("wayeb_py.errors.EventsError: the function `f` failed: ValueError: bad"),
         "the function `f` failed: ValueError: bad", None),
        (spark_error("ZeroDivisionError: division by zero"),
         "unexpected error: division by zero", None),
        (spark_error("AssertionError"), "unexpected error: it did not say what", None),
        (IndexError("list index out of range"),
         "unexpected error: list index out of range", None),
        (spark_error("OSError: [Errno 28] No space left on device"), "the disk is full", "make room"),
        (spark_error("x\nCaused by: java.lang.OutOfMemoryError: Java heap space"),
         "Java ran out of memory", "--memory 4g"),
        (spark_error("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"),
         "a worker process was killed", "start again"),
        (RuntimeError("py4j.protocol.Py4JJavaError: An error occurred while calling o1.getResult.\n"
                      "Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: output was lost"),
         "Spark gave up: output was lost", "goes on where it was"),
        (RuntimeError("[STREAM_FAILED] Query [id = 1] terminated with exception:  SQLSTATE: XXKST (no cause message)"),
         "a process of Spark's ended without a word", "goes on where it was"),
        (ConnectionRefusedError(111, "Connection refused"), "Spark's Java process is gone", "goes on where it was"),
        (Py4JNetworkError("Error while sending or receiving"), "Spark's Java process is gone", "goes on where it was"),
        (Py4JError("An error occurred while calling o82.awaitTermination"), "Spark's Java process is gone",
         "goes on where it was"),
        (Py4JError("An error occurred while calling o8.x. Trace:\nno such method"), "unexpected error", None),
        (DataError("too many bad rows", "a.csv", 3, hint="--max-bad"), "too many bad rows [a.csv, row 3]", "--max-bad"),
        (EventsError("the events need a key"), "the events need a key", None),
        (KeyboardInterrupt(), "interrupted", "goes on where it was"),
        (RuntimeError(""), "unexpected error: no message", None),
    ],
)  # fmt: skip
def test_the_cause_is_found_in_what_spark_says(error: BaseException, message: str, hint: str | None) -> None:
    cause = find_cause(error)
    assert cause.message.startswith(message)
    assert (cause.hint is None) if hint is None else (hint in (cause.hint or ""))
    assert "\n" not in cause.line(Path("x.log"))


STAYS, PASSES = 3, 75


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (spark_error("OSError: [Errno 28] No space left on device"), PASSES),
        (spark_error("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"), PASSES),
        (spark_error("wayeb_py.errors.PassingError: no Kafka broker has answered for 30 s"), PASSES),
        (PassingError("no Kafka broker has answered for 30 s"), PASSES),
        (ConnectionRefusedError(111, "Connection refused"), PASSES),
        (Py4JNetworkError("Error while sending or receiving"), PASSES),
        (RuntimeError("Job aborted due to stage failure: output was lost"), PASSES),
        # The planned batch is repeated as it is.
        (spark_error("x\nCaused by: java.lang.OutOfMemoryError: Java heap space"), STAYS),
        (spark_error("PermissionError: [Errno 13] Permission denied: '/out/a'"), STAYS),
        (spark_error("wayeb_py.errors.DataError: the file has shrunk"), STAYS),
        (spark_error("wayeb_py.errors.EventsError: the function `f` failed: ValueError: bad"), STAYS),
        (spark_error("ZeroDivisionError: division by zero"), STAYS),
        (DataError("too many bad rows"), STAYS),
        (RuntimeError("nobody foresaw this"), STAYS),
    ],
)
def test_a_supervisor_can_tell_what_passes_from_what_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    with pytest.raises(SystemExit) as ended, dying_in_one_line(tmp_path, "json", lambda: None):
        raise error
    assert ended.value.code == code
    told = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert told["passing"] is (code == PASSES)
    # `stream` reports the failure of a query as the same kind of error.
    made = as_error(error)
    assert isinstance(made, PassingError) is (code == PASSES)
    assert find_cause(made).passing is (code == PASSES)


def test_no_remedy_says_to_start_again_after_a_fault_that_stays() -> None:
    assert as_error(spark_error("ZeroDivisionError: division by zero")).hint == (
        "a start repeats the batch: the cause has to be mended before"
    )
    assert as_error(PassingError("somebody else is at it")).hint == (
        "start it again with the same --checkpoint: it goes on"
    )


def test_a_checkpoint_in_use_is_a_fault_that_passes(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "p.sre").write_text("stream s { key id time ts in s }\npattern P := (v > 0)\n")
    arguments = ["stream", "p.sre", "--source", "in", "--out", "found", "--checkpoint", "state"]
    with Checkpoint(tmp_path / "state"):
        done = subprocess.run(
            [sys.executable, "-m", "wayeb_py.cli", *arguments],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == PASSES
    assert done.stderr.startswith("another stream is using this checkpoint")


def test_the_memory_that_the_remedy_speaks_of_can_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert memory_settings(None) == {}
    assert memory_settings("4G") == {"spark.driver.memory": "4g", "spark.executor.memory": "4g"}
    for size in ("4", "4gb", "0g", "much"):
        with pytest.raises(SystemExit):
            memory_settings(size)
        assert f"--memory: `{size}` is no size" in capsys.readouterr().err


def test_the_last_line_names_cause_remedy_and_the_file_with_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        try:
            raise spark_error("OSError: [Errno 28] No space left on device")
        except RuntimeError as failure:
            raise DataError("the disk is full", hint="make room") from failure
    except DataError as error:
        say_last(error, tmp_path)
        say_last(error, tmp_path, "json")
    line, as_json = capsys.readouterr().err.splitlines()
    assert line.startswith("the disk is full (make room); details: ")
    assert "BasePythonRunner" in Path(line.rpartition("details: ")[2]).read_text()
    assert json.loads(as_json) | {"at": "", "details": ""} == {
        "at": "", "level": "error", "event": "died", "message": "the disk is full",
        "remedy": "make room", "passing": False, "details": "",
    }  # fmt: skip


def test_an_error_that_says_everything_needs_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    say_last(DataError("no such topic", hint="create it"), tmp_path)
    assert capsys.readouterr().err == "no such topic (create it)\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_command_ends_with_that_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: Literal["text", "json"]
) -> None:
    stopped: list[str] = []
    with pytest.raises(SystemExit) as ended, dying_in_one_line(tmp_path, form, lambda: stopped.append("Spark")):
        raise spark_error("OSError: [Errno 28] No space left on device")
    assert ended.value.code == 75
    assert stopped == ["Spark"]
    last = capsys.readouterr().err.splitlines()[-1]
    assert "the disk is full" in last
    assert "died-" in last


def test_a_stream_that_cannot_begin_says_so_in_json_where_all_else_is(tmp_path: Path) -> None:
    (tmp_path / "p.sre").write_text("stream s { key id time ts in s }\npattern P := (v > 0)\n")
    source = "ais://127.0.0.1:10110"  # nearly an address
    arguments = ["stream", "p.sre", "--source", source, "--out", "found", "--checkpoint", "state", "--log", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "wayeb_py.cli", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    told = [json.loads(line) for line in done.stderr.splitlines()]
    assert told[0]["message"] == f"`{source}` is not a folder"
    assert "nmea+udp://HOST:PORT" in told[1]["message"]


@pytest.mark.parametrize(
    ("lines", "code", "told"), [("", 0, ""), ("no object\n", 3, "nothing that has arrived is a JSON object")]
)
def test_a_stream_whose_input_ends_without_an_event_ends(tmp_path: Path, lines: str, code: int, told: str) -> None:
    (tmp_path / "p.sre").write_text("stream s { key id time ts in s attr v number }\npattern P := (v > 0)\n")
    arguments = [
        "stream",
        "p.sre",
        "--engine",
        "local",
        "--source",
        "-",
        "--out",
        "-",
        "--checkpoint",
        "state",
        "--quiet",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "wayeb_py.cli", *arguments],
        cwd=tmp_path, input=lines, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (code, "")
    assert told in done.stderr
