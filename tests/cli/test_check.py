"""`wayeb check` and its like: what it prints of pattern files, and with which exit code it ends."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.ended_command import FLEET, Ended, Wayeb


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


def test_convert_says_so_where_there_is_nothing_to_convert(wayeb: Wayeb) -> None:
    pair = "pattern Near for each pair a, b in v within 1 km fresh 3 min := (distance(a, b) < 200 m){2,}\n"
    stream = "stream v { key id time t in s position x, y attr x number attr y number }\n"
    Path("pairs.sre").write_text(f"{stream}{pair}rule Met := n: Near, m: Near where n.other = m.entity within 1 h\n")
    ended = wayeb("convert", "pairs.sre")
    told = "`pairs.sre` is in this language already: `wayeb fmt` lays it out, and nothing is to be converted\n"
    assert (ended.code, ended.out, ended.err) == (2, "", told)


def test_explain_shows_a_pattern_in_every_form(wayeb: Wayeb) -> None:
    assert "Swing" in wayeb("explain", "fleet.sre").out
    assert "digraph" in wayeb("explain", "fleet.sre", "--pattern", "Swing", "--form", "dot").out
    assert "flowchart" in wayeb("explain", "fleet.sre", "--form", "mermaid").out
    ended = wayeb("explain", "fleet.sre", "--pattern", "Swong")
    assert (ended.code, ended.err) == (2, "no pattern is called `Swong`; there are Swing\n")
