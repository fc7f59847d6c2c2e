"""Printed text takes no orders from data, and a picture on a terminal can be erased whole."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from wayeb_py.cli.commands.stream import render
from wayeb_py.errors import DataError, Diagnostic, EventsError, SourceText, Span, visible, visible_lines
from wayeb_py.files.output.set_aside import kind_of
from wayeb_py.parallel.health.failure import Cause
from wayeb_py.parallel.health.log_lines import LogLines
from wayeb_py.parallel.health.metrics import MOST_REASONS, OTHER, samples
from wayeb_py.parallel.health.screen import Screen, draw
from wayeb_py.parallel.health.stream_summary import StreamSummary
from wayeb_py.parallel.health.stream_view import StreamView
from wayeb_py.run.progress import render_summary, shown
from wayeb_py.run.summary import Progress, Summary

EVIL = "a\x1b[2J\nall is well\r\x9b31m\u202e\u2028[red]b[/red]\udcff"
SHOWN = "a\\x1b[2J\\nall is well\\r\\x9b31m\\u202e\\u2028[red]b[/red]\\udcff"
ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff]")


def test_what_acts_is_written_out_and_what_does_not_is_kept() -> None:
    assert visible(EVIL) == SHOWN
    assert visible("Pätra, Πάτρα, 神戸: a\tb") == "Pätra, Πάτρα, 神戸: a\\tb"
    assert visible_lines("ours\n\ttoo, \x1b[31mnot this") == "ours\n\ttoo, \\x1b[31mnot this"


def a_view(batch: int = -1, **sums: dict[str, float]) -> StreamView:
    return StreamView("2026-01-01T00:00:00Z", batch, {}, sums)


def a_summary() -> Summary:
    return Summary(
        events=1, entities=1, detections={EVIL: 1}, aside={EVIL: 1}, aside_file=EVIL, notes=[EVIL],
        unreadable={EVIL: {"count": 1, "example": EVIL, "file": EVIL, "row": 1}}, out=EVIL,
    )  # fmt: skip


def printed_log(message: str) -> str:
    out = io.StringIO()
    LogLines("text", out).tell("said", message)
    return out.getvalue()


def drawn(view: StreamView, title: str = "stream") -> str:
    console = Console(width=120, file=io.StringIO(), color_system=None)
    console.print(draw(title, view))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


ANY_NUMBER = range(1, 100)  # of lines: tables may wrap


def just(n_lines: int) -> range:
    return range(n_lines, n_lines + 1)


@pytest.mark.parametrize(
    ("text", "n_lines"),
    [
        (str(DataError(EVIL, EVIL, 3, hint=EVIL)), just(3)),
        (str(EventsError(EVIL, hint=EVIL)), just(2)),
        (Diagnostic("error", EVIL, SourceText(EVIL, "x = \x1b[2J1"), Span(0, 1), EVIL, EVIL).render(), just(6)),
        (render_summary(a_summary()), ANY_NUMBER),
        (render(StreamSummary(detections=Counter({EVIL: 1}), bad=Counter({EVIL: 2}), end=EVIL)), ANY_NUMBER),
        (printed_log(EVIL), just(1)),
        (Cause(EVIL, EVIL).line(Path("x.log")), just(1)),
        (drawn(a_view(bad={EVIL: 3}, detections={EVIL: 1}), EVIL), ANY_NUMBER),
    ],
    ids=["data", "events", "pattern", "summary", "stream summary", "log", "last words", "screen"],
)
def test_nothing_from_data_acts_on_who_reads_it(text: str, n_lines: range) -> None:
    assert ACTS.findall(text) == []
    assert "\\x1b[2J" in text
    assert len(text.splitlines()) in n_lines


def test_markup_in_a_name_is_its_letters() -> None:
    assert "[red]b[/red]" in drawn(a_view(bad={"[red]b[/red]": 3}))


def test_json_stays_exact() -> None:
    out = io.StringIO()
    LogLines("json", out).tell("said", "a\x1b\n", name="\u202e")
    told = json.loads(out.getvalue())
    assert (told["message"], told["name"]) == ("a\x1b\n", "\u202e")


def test_a_command_shows_a_file_name_for_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "p.sre").write_text("stream s { key id time ts in s }\npattern P := (v > 0)\n")
    name = "no\x1b[2J\nsuch.csv"
    done = subprocess.run(
        [sys.executable, "-m", "wayeb_py.cli", "run", "p.sre", "--data", name, "--out", "-"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert "\x1b" not in done.stderr
    assert "no\\x1b[2J\\nsuch.csv" in done.stderr


# Reasons as metrics.


def test_reasons_with_numbers_are_one_series() -> None:
    assert kind_of("line 7 has 3 fields, not 4") == kind_of("line 1,203 has 12 fields, not 4")
    assert kind_of("`a7` is no time") == kind_of("`b` is no time") == "`…` is no time"
    assert kind_of("no time") == "no time"
    assert kind_of("utf8 is broken at -1.5e7") == "utf8 is broken at N"
    view = a_view(bad={f"row {n} is bad": 1.0 for n in range(1000)} | {"no time": 5.0})
    found = {label: value for metric, label, value in samples(view) if metric.name == "bad_rows_total"}
    assert found == {"row N is bad": 1000.0, "no time": 5.0}


def test_there_are_never_many_series_of_reasons() -> None:
    view = a_view(bad={"reason " + chr(97 + n // 26) + chr(97 + n % 26): 1.0 for n in range(400)})
    found = {label: value for metric, label, value in samples(view) if metric.name == "bad_rows_total"}
    assert len(found) == MOST_REASONS + 1
    assert found[OTHER] == 400 - MOST_REASONS


# Pictures.


class Terminal:
    """As much of a terminal as rich uses: lines, the cursor, and a last column after which the next letter wraps."""

    def __init__(self, width: int) -> None:
        self.width, self.lines, self.row, self.column = width, [""], 0, 0

    def write(self, text: str) -> None:
        for code, letter in re.findall(r"\x1b\[([\d;?]*[A-Za-z])|(.|\n)", text):
            if letter == "\n":
                self.row, self.column = self.row + 1, 0
                self.lines += [""] * (self.row + 1 - len(self.lines))
            elif letter == "\r":
                self.column = 0
            elif letter:
                if self.column == self.width:
                    self.write("\n")
                line = self.lines[self.row].ljust(self.column)
                self.lines[self.row] = line[: self.column] + letter + line[self.column + 1 :]
                self.column += 1
            elif code == "2K":
                self.lines[self.row] = ""
            elif code.endswith("A"):
                self.row = max(0, self.row - int(code[:-1] or 1))


@pytest.mark.parametrize("width", [60, 100])
def test_an_interruption_leaves_no_part_of_a_picture(width: int) -> None:
    terminal, out = Terminal(width), io.StringIO()
    screen = Screen("stream", Console(file=out, force_terminal=True, width=width, color_system=None))

    def pass_on() -> None:
        terminal.write(out.getvalue())
        out.seek(0)
        out.truncate()

    screen.show(a_view(0, detections={"Up": 1.0}))
    pass_on()
    terminal.write("^C")  # the terminal itself writes this
    screen.show(a_view(0, detections={"Up": 2.0}, late={"": 3.0}))
    pass_on()
    terminal.write("^C")
    screen.show(a_view(1, detections={"Up": 2.0}))
    screen.close()
    pass_on()
    assert sum(line.startswith("╭") for line in terminal.lines) == 1
    assert sum(line.startswith("╰") for line in terminal.lines) == 1


def test_before_the_first_batch_the_picture_says_so() -> None:
    assert "no batch yet" in drawn(a_view(-1))
    assert "batch -1" not in drawn(a_view(-1))
    assert "batch 0" in drawn(a_view(0))


def test_a_terminal_is_told_that_spark_starts_until_it_has() -> None:
    out = io.StringIO()
    with shown(True, Console(file=out, force_terminal=True, width=100, color_system=None)) as tell:
        assert tell is not None
        tell(Progress("starting Spark", 0, 0, 0))
        first = out.getvalue()
        tell(Progress("recognising", 10, 10, 20))
    waiting = Terminal(100)
    waiting.write(out.getvalue())
    assert "starting Spark" in first + out.getvalue()
    assert not [line for line in waiting.lines if line.strip()]


def test_a_fault_on_a_pseudo_terminal_takes_no_orders_from_an_argument() -> None:
    main, other = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "wayeb_py.cli", "run", "nowhere.sre", "--data", "x\x1b[31m.csv", "--out", "-"],
        stdin=other, stdout=other, stderr=other, check=False,
    )  # fmt: skip
    os.close(other)
    said = os.read(main, 65536).decode()
    os.close(main)
    assert done.returncode == 3
    assert "\x1b[31m" not in said
