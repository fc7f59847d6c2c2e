"""`wayeb run` over a file with several streams: which path belongs to which, and the messages where that is not
clear."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest

from wayeb_py import cli
from wayeb_py.run import startup

TWO = """\
stream vessels { key mmsi time ts in s position lon, lat attr speed number in kn }
stream radar { key track time t in ms position x, y attr speed number in m/s }
let slow = speed < 1 kn
pattern Slow on vessels := slow{2,}
pattern Drifter on radar := slow{2,} emit speed
pattern Seen for each pair a in vessels, b in radar within 1 km fresh 10 min := (distance(a, b) < 500 m){2,}
pattern Quiet on vessels := slow ; silence 60 s
"""
VESSELS = "mmsi,ts,lon,lat,speed\n1,0,5,50,0.5\n1,10,5,50,0.5\n2,200,5.1,50,9\n"
RADAR = "track,t,x,y,speed\nT1,5000,5.001,50,0.2\nT1,15000,5.001,50,0.3\n"

Call = Callable[..., tuple[int, str]]


@pytest.fixture
def wayeb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Call:
    """The command, run in a folder with patterns and events of two streams: its exit code and what it says."""
    (tmp_path / "two.sre").write_text(TWO)
    (tmp_path / "v.csv").write_text(VESSELS)
    (tmp_path / "r.csv").write_text(RADAR)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(startup, "spare_pandas", lambda: None)

    def call(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["wayeb", *words])
        code = 0
        try:
            cli.main()
        except SystemExit as error:
            code = int(error.code or 0)
        return code, capfd.readouterr().err.strip()

    return call


BOTH = ("--data", "vessels=v.csv", "--data", "radar=r.csv")


def test_detections_of_all_streams_come_in_one_table(wayeb: Call) -> None:
    code, said = wayeb("run", "two.sre", *BOTH, "--out", "found.parquet")
    assert code == 0, said
    rows = pq.read_table("found.parquet").to_pylist()
    assert sorted((row["pattern"], row["entity"], row["other"], row["ts"].timestamp()) for row in rows) == [
        ("Drifter", "T1", None, 15.0),
        ("Quiet", "1", None, 10.0),
        ("Seen", "1", "T1", 10.0),
        ("Seen", "1", "T1", 15.0),
        ("Slow", "1", None, 10.0),
    ]
    assert {row["speed"] for row in rows if row["pattern"] == "Drifter"} == {0.3}


def test_patterns_of_one_stream_need_the_data_of_that_one(wayeb: Call) -> None:
    code, said = wayeb("run", "two.sre", "--pattern", "Drifter", "--data", "radar=r.csv", "--out", "found.ndjson")
    assert code == 0, said
    (row,) = [json.loads(line) for line in Path("found.ndjson").read_text().splitlines()]
    assert (row["entity"], row["ts"]) == ("T1", 15000), "alone, a stream's types are its own"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            ["v.csv"],
            ("--data v.csv does not say of which stream: the file has `vessels` and `radar`; "
            "write --data vessels=v.csv"),
        ),
        (["vessel=v.csv"], "--data vessel=v.csv: no stream is called `vessel`; did you mean `vessels`?"),
        (["sonar=v.csv"], "--data sonar=v.csv: no stream is called `sonar`; the file has `vessels` and `radar`"),
        (
            ["vessels=v.csv"],
            "there are no events of the stream `radar`, which `Drifter` reads; add --data radar=PATH",
        ),
        (["vessels=", "radar=r.csv"], "--data vessels= names no path after the `=`"),
        (
            ["vessels=-", "radar=-"],
            "standard input is that of one stream: keep the events of the others in files",
        ),
    ],
)  # fmt: skip
def test_whose_paths_are_whose_is_said(wayeb: Call, data: list[str], said: str) -> None:
    words = [word for text in data for word in ("--data", text)]
    assert wayeb("run", "two.sre", *words, "--out", "found.csv") == (2, said)


def test_the_only_stream_may_be_named(wayeb: Call) -> None:
    lines = TWO.splitlines()
    Path("one.sre").write_text("\n".join([lines[0], lines[2], lines[3]]) + "\n")
    for data in ("v.csv", "vessels=v.csv"):
        code, said = wayeb("run", "one.sre", "--data", data, "--out", "found.csv")
        assert (code, Path("found.csv").read_text().splitlines()[1:]) == (0, ["Slow,,1,10,1,0,0"]), said
    folder = Path("vessels=2024")  # as Hive names the folder of a partition: it is there, and is meant
    folder.mkdir()
    (folder / "v.csv").write_text(VESSELS)
    assert wayeb("run", "one.sre", "--data", "vessels=2024", "--out", "found.csv")[0] == 0


def test_a_lateness_is_of_all_streams_or_of_one(wayeb: Call) -> None:
    for lateness in (["30s"], ["vessels=30s", "radar=1s"]):
        words = [word for text in lateness for word in ("--lateness", text)]
        code, said = wayeb("run", "two.sre", *BOTH, *words, "--out", "found.csv", "--quiet")
        assert (code, len(Path("found.csv").read_text().splitlines())) == (0, 6), said
    assert wayeb("run", "two.sre", *BOTH, "--lateness", "30s", "--lateness", "1s", "--out", "x.csv") == (
        2, "--lateness 30s: of several, each says of which stream it is: --lateness vessels=10min",
    )  # fmt: skip
    code, said = wayeb("run", "two.sre", *BOTH, "--lateness", "radars=30s", "--out", "x.csv")
    assert (code, said) == (3, "no stream is called `radars`\n  = hint: did you mean `radar`?")


def test_a_number_is_no_time_where_the_streams_count_in_different_units(wayeb: Call) -> None:
    code, said = wayeb("run", "two.sre", *BOTH, "--since", "5", "--out", "x.csv")
    assert code == 2
    assert said.endswith("write a time such as 2016-01-12T13:00:00Z")
    code, said = wayeb("run", "two.sre", *BOTH, "--since", "1970-01-01T00:00:06Z", "--out", "found.csv")
    assert "vessels" in said
    assert [line for line in Path("found.csv").read_text().splitlines() if line.startswith(("Slow", "Drifter"))] == []


def test_what_is_for_one_stream_says_so(wayeb: Call) -> None:
    code, said = wayeb("run", "two.sre", *BOTH, "--clean", "ais", "--out", "x.csv")
    assert (code, said) == (
        3, ("`clean ais` is for the events of one stream, and this file has 2\n"
        "  = hint: write `clean ais` into the block of the stream that is meant: `vessels`, `radar`"),
    )  # fmt: skip
    code, said = wayeb("run", "two.sre", *BOTH, "--map", "x.html", "--out", "x.csv")
    assert (code, said) == (
        2, "--map draws the events of one stream, and these patterns read `vessels` and `radar`: choose with --pattern"
    )  # fmt: skip


def test_patterns_whose_columns_a_stream_lacks_are_left_out(wayeb: Call) -> None:
    Path("r.csv").write_text("track,t,x,y\nT1,5000,5.001,50\nT1,15000,5.001,50\n")
    code, said = wayeb("run", "two.sre", *BOTH, "--skip-missing", "--out", "found.csv")
    assert code == 0, said
    assert "Drifter" in said
    assert "needs speed" in said
    found = {line.partition(",")[0] for line in Path("found.csv").read_text().splitlines()[1:]}
    assert found == {"Slow", "Seen", "Quiet"}


def test_why_reads_the_streams_of_its_pattern(wayeb: Call) -> None:
    told: dict[str, str] = {}

    def ask(name: str, *words: str) -> None:
        # The fixture throws away what is printed; so the output goes to a file as a document.
        with patch("builtins.print", lambda *what, **_: told.__setitem__(name, str(what[0]))):
            code, said = wayeb("why", "two.sre", "--pattern", name, *words, "--json")
        assert code == 0, said

    ask("Seen", *BOTH, "--entity", "1", "--other", "T1", "--at", "1970-01-01T00:00:10Z")
    ask("Drifter", "--data", "radar=r.csv", "--entity", "T1", "--at", "15000")
    ask("Quiet", "--data", "vessels=v.csv", "--entity", "1", "--at", "10")
    whys = {name: json.loads(text) for name, text in told.items()}
    assert {name: why["detected"] for name, why in whys.items()} == {"Seen": True, "Drifter": True, "Quiet": True}
    assert [len(why["events"]) for why in whys.values()] == [2, 2, 1]
    assert wayeb("why", "two.sre", "--data", "v.csv", "--pattern", "Quiet", "--entity", "1", "--at", "10") == (
        2, "--data v.csv does not say of which stream: the file has `vessels` and `radar`; write --data vessels=v.csv"
    )  # fmt: skip
