"""The command line: what it prints, where, and with which exit code it ends."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest
from rich.console import Console

import wayeb_py
from wayeb_py import cli
from wayeb_py.run import startup
from wayeb_py.run.progress import render_summary, shown
from wayeb_py.run.runner import Progress, Summary
from wayeb_py.text_values import read_duration_s, read_instant_s

FLEET = """\
stream vehicles {
    key  id
    time ts
    attr speed number
}

pattern Swing := (speed > 50) ; (speed = 0)

test Swing {
    speed: 60 0 0
    detects at 1 from 0
}
"""

EVENTS = """\
id,ts,speed
a,2016-01-01T00:00:00Z,60
b,2016-01-01T00:00:01Z,0
a,2016-01-01T00:00:02Z,0
b,2016-01-01T00:00:03Z,60
b,2016-01-01T00:00:04Z,0
"""


@dataclass
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


Wayeb = Callable[..., Ended]


@pytest.fixture
def wayeb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Wayeb:
    """The command, run in a folder with patterns and events."""
    (tmp_path / "fleet.sre").write_text(FLEET)
    (tmp_path / "events.csv").write_text(EVENTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(startup, "spare_pandas", lambda: None)  # this process has other tests to run

    def call(*words: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["wayeb", *words])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capfd.readouterr()
        return Ended(code, captured.out, captured.err)

    return call


# ---- check


def test_check_says_that_all_is_well(wayeb: Wayeb) -> None:
    assert wayeb("check", "fleet.sre") == Ended(0, "1 pattern in 1 file: no errors\n", "")
    assert wayeb("check", "--quiet", ".") == Ended(0, "", "")


def test_check_shows_every_error_and_ends_with_1(wayeb: Wayeb) -> None:
    Path("wrong.sre").write_text(FLEET.replace("speed = 0", "speeed = 0 and sped > 1"))
    ended = wayeb("check", "wrong.sre", "fleet.sre")
    assert (ended.code, ended.out) == (1, "")
    assert "unknown attribute `speeed`" in ended.err
    assert "unknown attribute `sped`" in ended.err
    assert " --> wrong.sre:7:" in ended.err


def test_check_gives_json_for_editors(wayeb: Wayeb) -> None:
    Path("wrong.sre").write_text(FLEET.replace("speed = 0", "speeed = 0"))
    ended = wayeb("check", "--json", "wrong.sre")
    (found,) = json.loads(ended.out)
    assert (found["severity"], found["file"], found["line"], found["column"]) == ("error", "wrong.sre", 7, 34)
    assert ended.code == 1


def test_warnings_are_errors_only_if_asked_for(wayeb: Wayeb) -> None:
    Path("odd.sre").write_text(FLEET + "\npattern Never := (speed > 1) & ((speed > 1) ; (speed > 1))\n")
    ended = wayeb("check", "odd.sre")
    assert ended.code == 0
    assert "warning: no sequence of events matches pattern `Never`" in ended.err
    assert ended.out == "2 patterns in 1 file: no errors, 1 warning\n"
    assert wayeb("check", "--strict", "odd.sre").code == 1
    run = ("run", "odd.sre", "--data", "events.csv", "--out", "d.csv", "--quiet")
    assert wayeb(*run, "--strict").code == 1
    assert not Path("d.csv").exists()
    assert wayeb(*run).code == 0


def test_a_pattern_beyond_a_limit_ends_with_4(wayeb: Wayeb) -> None:
    Path("deep.sre").write_text("pattern Deep := " + "!" * 2000 + "(x > 1)\n")
    ended = wayeb("check", "deep.sre")
    assert ended.code == 4
    assert "deep.sre:1:" in ended.err


def test_a_file_that_is_not_there_ends_with_3(wayeb: Wayeb) -> None:
    for words in (["check", "none.sre"], ["fmt", "none.sre"], ["convert", "none.sre"], ["test", "none.sre"]):
        ended = wayeb(*words)
        assert (ended.code, "none.sre" in ended.err) == (3, True)


def test_files_outside_the_folder_are_read_only_if_allowed(wayeb: Wayeb) -> None:
    Path("sub").mkdir()
    Path("sub/mine.sre").write_text('include "../fleet.sre"\n')
    ended = wayeb("check", "sub/mine.sre")
    assert (ended.code, "sub/mine.sre:1:" in ended.err) == (1, True)
    for words in (["check"], ["test"], ["run", "--data", "events.csv", "--out", "d.csv", "-q"]):
        assert wayeb(words[0], "sub/mine.sre", *words[1:], "--outside").code == 0


def test_a_file_outside_the_folder_names_the_option_that_allows_it(wayeb: Wayeb) -> None:
    Path("sub").mkdir()
    Path("sub/mine.sre").write_text('include "../fleet.sre"\n')
    Path("sub/places.sre").write_text(FLEET + '\npoints port from "../ports.csv"\n')
    for name in ("mine", "places"):
        assert "hint: allow it with --outside (in Python: outside=True)" in wayeb("check", f"sub/{name}.sre").err


def test_help_lists_every_format_of_the_output(wayeb: Wayeb) -> None:
    from wayeb_py.files import write

    told = " ".join(wayeb("run", "--help").out.split())
    assert [ending for ending in write._FORMATS if ending not in told] == []


def test_the_version_can_be_asked_for(wayeb: Wayeb) -> None:
    assert wayeb("--version") == Ended(0, f"{wayeb_py.__version__}\n", "")
    assert wayeb().code == 2


# ---- run


def test_run_writes_detections_and_a_summary(wayeb: Wayeb) -> None:
    ended = wayeb("run", "fleet.sre", "--data", "events.csv", "--out", "d.csv")
    assert ended.code == 0
    assert Path("d.csv").read_text() == (
        "pattern,place,entity,ts,seq,start_ts,start_seq\n"
        "Swing,,a,2016-01-01T00:00:02Z,1,2016-01-01T00:00:00Z,0\n"
        "Swing,,b,2016-01-01T00:00:04Z,2,2016-01-01T00:00:03Z,1\n"
    )
    assert ended.out == ""
    lines = [line.split() for line in ended.err.splitlines()]
    assert lines[0][:2] == ["events", "5"]
    assert lines[1:4] == [["entities", "2"], ["detections", "2"], ["Swing", "2"]]
    assert lines[4][:5] == ["engine", "local:", "one", "process", "is"]
    assert lines[5:] == [["written", "to", "d.csv"]]


def test_quiet_is_quiet_and_json_is_json(wayeb: Wayeb) -> None:
    run = ("run", "fleet.sre", "--data", "events.csv")
    assert wayeb(*run, "--out", "d.csv", "-q") == Ended(0, "", "")
    summary = json.loads(wayeb(*run, "--out", "d.csv", "--json").out)
    assert summary["detections"] == {"Swing": 2}
    ended = wayeb(*run, "--out", "-", "--json")
    assert [json.loads(line)["entity"] for line in ended.out.splitlines()] == ["a", "b"]
    assert json.loads(ended.err)["events"] == 5


def test_without_a_stream_block_the_command_line_names_key_and_time(wayeb: Wayeb) -> None:
    Path("bare.sre").write_text("pattern Swing := (speed > 50) ; (speed = 0)\n")
    run = ("run", "bare.sre", "--data", "events.csv", "--out", "d.csv", "-q")
    ended = wayeb(*run)
    assert ended.code == 3
    assert "--key" in ended.err
    assert wayeb(*run, "--key", "id", "--time", "ts").code == 0
    assert Path("d.csv").read_text().count("Swing") == 2


def test_data_takes_several_paths_wherever_it_stands(wayeb: Wayeb) -> None:
    Path("more.csv").write_text(EVENTS.replace("a,", "c,").replace("b,", "d,"))
    for words in (
        ["fleet.sre", "--data", "events.csv", "more.csv", "--out", "d.csv"],
        ["--data", "events.csv", "more.csv", "fleet.sre", "--out", "d.csv"],
        ["--out", "d.csv", "fleet.sre", "--data=events.csv", "more.csv"],
    ):
        summary = json.loads(wayeb("run", *words, "--json").out)
        assert summary["entities"] == 4


def test_functions_come_from_a_python_file(wayeb: Wayeb) -> None:
    Path("mine.py").write_text(
        "import wayeb_py\n@wayeb_py.predicate('number')\ndef brisk(speed):\n    return speed > 50\n"
    )
    Path("mine.sre").write_text(FLEET.replace("speed > 50", "brisk(speed)"))
    assert wayeb("check", "mine.sre").code == 1
    assert wayeb("test", "mine.sre", "--functions", "mine.py").code == 0
    ended = wayeb("test", "mine.sre", "--functions", "none.py")
    assert (ended.code, ended.err) == (2, "--functions none.py: there is no such Python file\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "own.py: there is no @predicate or @function in it"),
        ("\nimport nothing_of_it\n", "own.py, line 2: it cannot be run: No module named 'nothing_of_it'"),
        ("def f(x)\n", "own.py: it cannot be run: expected ':' (own.py, line 1)"),
        (
            "from wayeb_py import predicate\n@predicate\ndef f(x):\n    return x > 1\n",
            'own.py, line 2: it cannot be run: give the kinds of the operands, as in @predicate("number", "text")',
        ),
        (
            "from wayeb_py import function\n@function('number', result='num')\ndef f(x):\n    return x\n",
            (
                "own.py, line 2: it cannot be run: "
                "`num` is no kind of operand or result; there are number, text, bool, time"
            ),
        ),
    ],
)
def test_a_python_file_that_cannot_serve_is_told_in_a_sentence(wayeb: Wayeb, text: str, message: str) -> None:
    Path("own.py").write_text(text)
    ended = wayeb("check", "fleet.sre", "--functions", "own.py")
    assert (ended.code, ended.err) == (2, f"--functions {message}\n")


def test_bad_rows_stop_a_run_beyond_the_limit(wayeb: Wayeb) -> None:
    Path("events.csv").write_text(EVENTS + "c,never,0\n")
    run = ("run", "fleet.sre", "--data", "events.csv", "--out", "d.csv")
    ended = wayeb(*run)
    assert ended.code == 0
    assert "the time cannot be read" in ended.err
    os.remove("d.csv")
    ended = wayeb(*run, "--max-bad", "0")
    assert ended.code == 3
    assert ended.err.startswith("1 of 6 rows cannot be read, more than --max-bad allows (0)")
    assert not Path("d.csv").exists()


def test_a_clean_that_takes_much_away_is_a_warning_of_its_own_line_even_if_quiet(wayeb: Wayeb) -> None:
    Path("events.csv").write_text(EVENTS.replace(",60", ",400"))
    run = ("run", "fleet.sre", "--data", "events.csv", "--out", "d.csv", "--clean", "gps")
    said = "warning: clean gps took the speed of "
    assert [line for line in wayeb(*run).err.splitlines() if line.startswith(said)]
    assert wayeb(*run, "-q").err.startswith(said)
    assert json.loads(wayeb(*run, "--json").out)["warnings"][0].startswith(said.removeprefix("warning: "))
    assert "warning" not in wayeb(*run[:-2]).err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--engine", "local", "--scheme", "source"], 2, "--scheme is for Spark: run with --engine spark, or without"),
        (["--engine", "spark", "--state", "s"], 2, "--state keeps state in one process, which Spark has not"),
        (["--scheme", "source", "--data", "-"], 2, "Spark cannot read standard input: keep the events in a file"),
        (["--by", "pattern,hour"], 2, "--by pattern,hour: write pattern, day, or pattern,day"),
        (["--lateness", "10"], 2, "`10` is not a duration; write a number with its unit"),
        (["--since", "yesterday"], 2, "`yesterday` is not a time"),
        (["--until", "12"], 2, "`12` is a number, and the stream's time is not"),
        (["--max-bad", "some"], 2, "`some` is neither a number of rows nor a share"),
        (["--final"], 2, "it needs --state"),
        (["--workers", "0"], 2, "--workers"),
        (["--data", "none.csv"], 3, "`none.csv` does not exist"),
        (["--data", "s3://bucket/*.parquet"], 3, "`s3://bucket/*.parquet` is an address, and files are"),
        (["--out", "hdfs://host/found/"], 3, "mount it and name the path; or read it with Spark"),
        (["--out", "d.xls"], 2, "it is not clear in which format to write `d.xls`"),
    ],
)
def test_misuse_is_told_in_a_sentence(wayeb: Wayeb, words: list[str], code: int, message: str) -> None:
    ended = wayeb("run", "fleet.sre", "--data", "events.csv", "--out", "d.csv", *words)
    assert (ended.code, message in ended.err) == (code, True), ended.err
    assert "Traceback" not in ended.err
    assert not Path("d.csv").exists()


def test_a_missing_column_names_the_patterns_place(wayeb: Wayeb) -> None:
    Path("events.csv").write_text(EVENTS.replace("speed", "velocity"))
    ended = wayeb("run", "fleet.sre", "--data", "events.csv", "--out", "d.csv")
    assert ended.code == 3
    assert ended.err.splitlines()[:2] == ["events.csv has no column `speed`", " --> fleet.sre:7:19"]


def test_since_until_and_lateness_reach_the_run(wayeb: Wayeb) -> None:
    run = ("run", "fleet.sre", "--data", "events.csv", "--out", "d.csv", "--json")
    selected = wayeb(*run, "--since", "2016-01-01T00:00:01Z", "--until", "2016-01-01T00:00:04Z")
    assert json.loads(selected.out)["events"] == 3
    header, *rows = EVENTS.splitlines(keepends=True)
    Path("events.csv").write_text(header + "".join(reversed(rows)))
    in_order = json.loads(wayeb(*run).out)
    assert (in_order["sorted_on_disk"], in_order["detections"]) == (True, {"Swing": 2})
    arriving = json.loads(wayeb(*run, "--lateness", "1s").out)
    assert (arriving["sorted_on_disk"], arriving["aside"]) == (False, {"late": 2})


def test_a_state_folder_goes_on_where_it_ended(wayeb: Wayeb) -> None:
    header, *rows = EVENTS.splitlines(keepends=True)
    for night, part in enumerate([rows[:2], rows[2:]]):
        Path("events.csv").write_text(header + "".join(part))
        ended = wayeb(
            "run", "fleet.sre", "--data", "events.csv", "--out", f"{night}.ndjson", "--state", "state", "--json"
        )
        assert ended.code == 0
    assert Path("0.ndjson").read_text() == ""
    assert [json.loads(line)["start_seq"] for line in Path("1.ndjson").read_text().splitlines()] == [0, 1]


# ---- test, fmt, convert, explain


def test_examples_are_run_and_failures_shown(wayeb: Wayeb) -> None:
    assert wayeb("test", ".") == Ended(0, "1 example, 0 failed\n", "")
    Path("fleet.sre").write_text(FLEET.replace("detects at 1 from 0", "detects at 2"))
    ended = wayeb("test", "fleet.sre")
    assert ended.code == 1
    assert ended.out == "1 example, 1 failed\n"
    assert ended.err == (
        "this example of `Swing` does not hold\n"
        " --> fleet.sre:9:6\n"
        "  |\n"
        "9 | test Swing {\n"
        "  |      ^^^^^ expected detections at 2; detected at 1 from 0\n"
    )
    report = json.loads(wayeb("test", "fleet.sre", "--json").out)
    assert (report["examples"], len(report["failed"])) == (1, 1)


def test_an_example_may_expect_nothing_and_times_of_its_own(wayeb: Wayeb) -> None:
    Path("t.sre").write_text(
        "stream s {\n key id\n time ts\n}\n"
        'pattern Pause := (elapsed() > 5 min and on = true) ; (name = "x")\n'
        "test Pause {\n at: 0 1min 10min 11min\n on: true true true false\n name: - - - x\n detects at 3 from 2\n}\n"
        "test Pause {\n on: true true\n name: x x\n detects nothing\n}\n"
        "test Pause {\n on: true true\n name: x x\n detects at 1\n}\n"
    )
    ended = wayeb("test", "t.sre")
    assert ended.out == "3 examples, 1 failed\n"
    assert "expected detections at 1; detected nothing" in ended.err


def test_fmt_rewrites_in_place_and_keeps_comments(wayeb: Wayeb) -> None:
    Path("fleet.sre").write_text("// fast\n" + FLEET.replace(" := ", ":=   "))
    ended = wayeb("fmt", "--check", "fleet.sre")
    assert (ended.code, ended.out) == (1, "would change fleet.sre\n")
    assert ":=   " in Path("fleet.sre").read_text()
    assert wayeb("fmt", "fleet.sre") == Ended(0, "changed fleet.sre\n", "")
    text = Path("fleet.sre").read_text()
    assert text.startswith("// fast\n")
    assert "pattern Swing := (speed > 50) ; (speed = 0)" in text
    assert wayeb("fmt", "--check", "fleet.sre") == Ended(0, "", "")


def test_fmt_leaves_a_broken_file_alone(wayeb: Wayeb) -> None:
    Path("wrong.sre").write_text("pattern P := (x > \n")
    ended = wayeb("fmt", "wrong.sre")
    assert ended.code == 1
    assert "wrong.sre:1:" in ended.err
    assert Path("wrong.sre").read_text() == "pattern P := (x > \n"


def test_convert_gives_a_file_that_can_be_checked(wayeb: Wayeb) -> None:
    Path("old.sre").write_text(";(GT(speed,50),EQ(speed,0)){partitionBy:id}")
    assert wayeb("convert", "old.sre", "-o", "new.sre").code == 0
    ended = wayeb("convert", "old.sre")
    assert ended.out == Path("new.sre").read_text()
    assert wayeb("check", "new.sre", "--time", "ts", "--key", "id").code == 0


def test_explain_shows_a_pattern_in_every_form(wayeb: Wayeb) -> None:
    assert "Swing" in wayeb("explain", "fleet.sre").out
    assert "digraph" in wayeb("explain", "fleet.sre", "--pattern", "Swing", "--form", "dot").out
    assert "flowchart" in wayeb("explain", "fleet.sre", "--form", "mermaid").out
    ended = wayeb("explain", "fleet.sre", "--pattern", "Swong")
    assert (ended.code, ended.err) == (2, "no pattern is called `Swong`; there are Swing\n")


# ---- the process itself


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


@pytest.mark.usefixtures("wayeb")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_stopped_leaves_nothing_behind(tmp_path: Path, number: signal.Signals, code: int) -> None:
    program = (
        "import sys, wayeb_py.cli, wayeb_py.files.write as write\n"
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


# ---- what a person sees


@pytest.mark.parametrize("content", ["", "id,ts,speed\n"], ids=["no byte", "a header alone"])
def test_a_run_over_nothing_says_that_its_input_is_empty(wayeb: Wayeb, tmp_path: Path, content: str) -> None:
    (tmp_path / "nothing.csv").write_text(content)
    ended = wayeb("run", "fleet.sre", "--data", "nothing.csv", "--out", "d.csv")
    assert ended.code == 0
    assert ended.err.splitlines()[0] == "events      0  the input is empty: there was not one to read"


def test_a_quiet_run_over_nothing_says_so_too(wayeb: Wayeb, tmp_path: Path) -> None:
    (tmp_path / "nothing.csv").write_text("")
    ended = wayeb("run", "fleet.sre", "--data", "nothing.csv", "--out", "d.csv", "--quiet")
    assert ended == Ended(0, "", "warning: no events: the input is empty: there was not one to read\n")


def test_a_run_that_selects_nothing_does_not_call_its_input_empty(wayeb: Wayeb, tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("id,ts,speed\n1,0,5\n")
    run = ("run", "fleet.sre", "--data", "old.csv", "--out", "d.csv", "--time-unit", "s")
    ended = wayeb(*run, "--since", "1970-01-02")
    assert ended.err.splitlines()[0] == "events      0  the input has none between --since and --until"


def test_the_summary_tells_everything_that_was_not_as_usual() -> None:
    summary = Summary(
        events=1_000,
        entities=3,
        detections={"Swing": 20, "Still": 0},
        episodes=4,
        aside={"late": 2, "no key": 1},
        unreadable={"speed": {"count": 5, "example": "fast", "file": "e.csv", "row": 9}},
        duplicates=6,
        sorted_on_disk=True,
        seconds=0.5,
        out="d.csv",
        aside_file="d.csv.aside.ndjson",
    )
    assert render_summary(summary) == (
        "events              1,000  2,000/s in 0.50 s\n"
        "entities                3\n"
        "detections             20\n"
        "  Swing                20\n"
        "  Still                 0\n"
        "episodes                4\n"
        "set aside               3  d.csv.aside.ndjson\n"
        "  late                  2\n"
        "  no key                1\n"
        "unreadable values       5  taken as missing\n"
        "  speed                 5  first `fast` in e.csv, row 9\n"
        "duplicates              6  dropped\n"
        "order              sorted  the events were not in the order of time\n"
        "written to                 d.csv"
    )


def test_progress_has_events_and_only_if_somebody_looks() -> None:
    with shown(visible=False) as nobody:
        assert nobody is None
    screen = io.StringIO()
    with shown(visible=True, console=Console(file=screen, force_terminal=True, width=120)) as tell:
        assert tell is not None
        tell(Progress("recognising", 1_000, 50, 100))
        tell(Progress("recognising", 2_000, 100, 100))
    assert "recognising" in screen.getvalue()
    assert "2,000 events" in screen.getvalue()


# ---- words of the command line


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("10min", 600), ("1.5 h", 5400), ("1 d", 86400), ("250ms", Fraction(1, 4))],
)
def test_durations(text: str, seconds: int | Fraction) -> None:
    assert read_duration_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "unit", "seconds"),
    [
        ("1970-01-01", None, 0),
        ("1970-01-01T01:00:00", None, 3600),
        ("1970-01-01T01:00:00+01:00", None, 0),
        ("1970-01-01T00:00:00.000000001Z", None, Fraction(1, 10**9)),
        ("1969-12-31T23:59:59.5Z", None, Fraction(-1, 2)),
        ("1500", "ms", Fraction(3, 2)),
        ("-7", "s", -7),
    ],
)
def test_instants(text: str, unit: str | None, seconds: int | Fraction) -> None:
    assert read_instant_s(text, unit) == seconds
