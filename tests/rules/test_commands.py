"""Files with rules on the command line: run without events, with a state, and their tests."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.rules.test_railway import FOLDER, LABELS
from wayeb_py.cli import app

RAILWAY = """
rule RouteSensor :=
    f: follows, t: target, s: monitoredBy
    where f.end = t.start and t.end = s.start
    unless q: requires where q.start = f.start and q.end = s.end
    emit f.start as route, s.end as sensor, f.end as position, t.end as switch

rule SemaphoreNeighbor :=
    x: exit, r1: requires, m1: monitoredBy, c: connectsTo, m2: monitoredBy, r2: requires
    where x.start = r1.start and r1.end = m1.end and m1.start = c.start and c.end = m2.start and m2.end = r2.end
      and r1.start != r2.start
    unless e: entry where e.start = r2.start and e.end = x.end
    emit x.end as semaphore, r1.start as first, r2.start as second
"""


def wayeb(*arguments: str | Path, fails: bool = False) -> str:
    ran = CliRunner().invoke(app, [str(one) for one in arguments])
    assert (ran.exit_code != 0) == fails, ran.output
    return ran.output


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.skipif(FOLDER is None, reason="the railway models are not at hand (shared/data)")
@pytest.mark.parametrize(("model", "n_route_sensor", "n_semaphore_neighbor"), [(1, 18, 3), (2, 33, 6)])
def test_a_railway_model_is_checked_without_events(
    model: int, n_route_sensor: int, n_semaphore_neighbor: int, tmp_path: Path
) -> None:
    facts = [
        f'facts {label}(start, end) from "{FOLDER}/railway-repair-{model}-{label}.csv" columns (":START_ID", ":END_ID")'
        for label in LABELS
    ]
    (tmp_path / "railway.sre").write_text("\n".join([*facts, RAILWAY]))
    wayeb("run", tmp_path / "railway.sre", "--outside", "--out", tmp_path / "found.csv")
    rows = rows_of(tmp_path / "found.csv")
    assert {row["op"] for row in rows} == {"+"}
    counts = {name: sum(row["pattern"] == name for row in rows) for name in ("RouteSensor", "SemaphoreNeighbor")}
    assert counts == {"RouteSensor": n_route_sensor, "SemaphoreNeighbor": n_semaphore_neighbor}


SHIPS = """
stream ships { key id time t in s lateness 1 s attr id number attr speed number }
pattern Slow := (speed < 1){2,}
rule Again := x: Slow, y: ships where y.id = x.entity and y.speed > 5 and y.ts - x.ts in 1..20 s emit x.entity, y.speed
test Again {
    of:     x  y  y
    entity: 1  1  2
    speed:  -  9  9
    at:     0  3  4
    detects 0 1 at 3 from 0
}
"""


def test_a_run_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    (tmp_path / "file.sre").write_text(SHIPS)
    (tmp_path / "1.csv").write_text("id,t,speed\n1,0,0\n1,1,0\n1,2,0\n")
    (tmp_path / "2.csv").write_text("id,t,speed\n1,9,7\n2,30,0\n")
    (tmp_path / "both.csv").write_text("id,t,speed\n1,0,0\n1,1,0\n1,2,0\n1,9,7\n2,30,0\n")
    wayeb("run", tmp_path / "file.sre", "--data", tmp_path / "both.csv", "--out", tmp_path / "whole.csv")
    expected = [row for row in rows_of(tmp_path / "whole.csv") if row["pattern"] == "Again"]
    assert [(row["start_ts"], row["ts"], row["decided_ts"]) for row in expected] == [("0", "9", "9"), ("1", "9", "9")]
    found = []
    for day in ("1", "2"):
        out = tmp_path / f"out{day}.csv"
        wayeb(
            "run", tmp_path / "file.sre", "--data", tmp_path / f"{day}.csv", "--out", out,
            "--state", tmp_path / "state", *(["--final"] if day == "2" else []),
        )  # fmt: skip
        found += [row for row in rows_of(out) if row["pattern"] == "Again"]
    assert found == expected


def test_only_what_is_asked_for_comes_out(tmp_path: Path) -> None:
    (tmp_path / "file.sre").write_text(SHIPS)
    (tmp_path / "ships.csv").write_text("id,t,speed\n1,0,0\n1,1,0\n1,9,7\n2,30,0\n")
    common = ("run", tmp_path / "file.sre", "--data", tmp_path / "ships.csv", "--out", tmp_path / "found.csv")
    told = wayeb(*common, "--pattern", "Again")
    assert [row["pattern"] for row in rows_of(tmp_path / "found.csv")] == ["Again"]
    assert "Again" in told
    wayeb(*common, "--pattern", "Slow")
    assert {row["pattern"] for row in rows_of(tmp_path / "found.csv")} == {"Slow"}
    assert "there are no events" in wayeb("run", tmp_path / "file.sre", "--out", tmp_path / "x.csv", fails=True)
    why = ("why", tmp_path / "file.sre", "--data", tmp_path / "ships.csv", "--entity", "1", "--at", "9")
    assert "`Again` is a rule" in wayeb(*why, "--pattern", "Again", fails=True)


def test_the_tests_of_rules_are_run(tmp_path: Path) -> None:
    (tmp_path / "file.sre").write_text(SHIPS)
    assert "1 example, 0 failed" in wayeb("test", tmp_path / "file.sre")
    (tmp_path / "file.sre").write_text(SHIPS.replace("detects 0 1 at 3 from 0", "detects 0 1 at 4"))
    told = wayeb("test", tmp_path / "file.sre", fails=True)
    assert "this example of `Again` does not hold" in told
    assert "detected 0 1 at 3 s from 0 s decided 3 s" in told
    (tmp_path / "file.sre").write_text(SHIPS.replace("detects 0 1 at 3 from 0", "detects nothing"))
    assert "expected nothing" in wayeb("test", tmp_path / "file.sre", fails=True)


OWNED = """
stream vessels { key mmsi  time ts in s  lateness 1 s  attr speed number  ATTRIBUTES }
facts owner(mmsi, company) from "owners.csv"
pattern Slow on vessels := (speed < 1){2,}
rule Owned := g: Slow, o: owner where o.mmsi = g.entity emit g.entity, o.company
"""


@pytest.mark.parametrize("attributes", ["", "attr mmsi number"])
@pytest.mark.parametrize("content", ["", "mmsi,ts,speed\n"], ids=["no byte", "a header alone"])
def test_rules_that_join_numbers_to_the_key_run_over_no_events(attributes: str, content: str, tmp_path: Path) -> None:
    (tmp_path / "owned.sre").write_text(OWNED.replace("ATTRIBUTES", attributes))
    (tmp_path / "owners.csv").write_text("mmsi,company\n1,A\n")
    (tmp_path / "e.csv").write_text(content)
    wayeb("run", tmp_path / "owned.sre", "--data", tmp_path / "e.csv", "--out", tmp_path / "out.csv")
    assert rows_of(tmp_path / "out.csv") == []


def test_a_night_without_events_leaves_the_types_to_the_next(tmp_path: Path) -> None:
    (tmp_path / "owned.sre").write_text(OWNED.replace("ATTRIBUTES", ""))
    (tmp_path / "owners.csv").write_text("mmsi,company\n1,A\n")
    for night, rows in enumerate(["", "1,0,0\n1,1,0\n2,2,0\n", ""]):
        (tmp_path / "e.csv").write_text("mmsi,ts,speed\n" + rows)
        out = tmp_path / f"{night}.csv"
        wayeb("run", tmp_path / "owned.sre", "--data", tmp_path / "e.csv", "--out", out, "--state", tmp_path / "state",
              "--final")  # fmt: skip
        expected = [("Owned", "1", "A")] if night == 1 else []
        found = [(row["pattern"], row["entity"], row["company"]) for row in rows_of(out) if row["pattern"] != "Slow"]
        assert found == expected, night


def test_a_run_over_facts_alone_does_not_call_its_input_empty(tmp_path: Path) -> None:
    (tmp_path / "owners.csv").write_text("mmsi,company\n1,A\n")
    text = 'facts owner(mmsi, company) from "owners.csv"\nrule R := o: owner where o.mmsi > 0 emit o.company'
    (tmp_path / "facts.sre").write_text(text)
    told = wayeb("run", tmp_path / "facts.sre", "--out", tmp_path / "out.csv").splitlines()[0]
    assert told.startswith("events      0  the rules read facts alone; ")
    assert wayeb("run", tmp_path / "facts.sre", "--out", tmp_path / "out.csv", "--quiet") == ""
