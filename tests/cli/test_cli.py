"""The command line: what it prints, where, and with which exit code it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import wayeb_py
from tests.cli.ended_command import EVENTS, FLEET, Ended, Wayeb

ROOT = Path(__file__).parents[2]


def test_help_lists_every_format_of_the_output(wayeb: Wayeb) -> None:
    from wayeb_py.files.output import write

    told = " ".join(wayeb("run", "--help").out.split())
    assert [ending for ending in write._FORMATS if ending not in told] == []


def test_the_version_can_be_asked_for(wayeb: Wayeb) -> None:
    assert wayeb("--version") == Ended(0, f"{wayeb_py.__version__}\n", "")
    assert wayeb().code == 2


def test_the_command_is_a_module_too() -> None:
    ran = subprocess.run([sys.executable, "-m", "wayeb_py", "--version"], cwd=ROOT, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, f"{wayeb_py.__version__}\n")


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
        (["--data", "ftp://host/x.csv"], 3, "`ftp://…` is an address of a kind that is not read or written"),
        (["--state", "s3://bucket/state"], 3, "a state folder is locked while a run uses it, and a store has no locks"),
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


def test_a_state_folder_continues_where_it_ended(wayeb: Wayeb) -> None:
    header, *rows = EVENTS.splitlines(keepends=True)
    for night, part in enumerate([rows[:2], rows[2:]]):
        Path("events.csv").write_text(header + "".join(part))
        ended = wayeb(
            "run", "fleet.sre", "--data", "events.csv", "--out", f"{night}.ndjson", "--state", "state", "--json"
        )
        assert ended.code == 0
    assert Path("0.ndjson").read_text() == ""
    assert [json.loads(line)["start_seq"] for line in Path("1.ndjson").read_text().splitlines()] == [0, 1]


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
