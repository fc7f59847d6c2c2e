"""Patterns look, for rules, only at events of entities that facts of a file join; what is found is the same."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import wayeb_py

HEAD = """
stream ships { key id  time t in s  forget after 50 s  lateness 2 s  attr id number  attr speed number }
facts listed(mmsi, level) from "listed.csv"
facts owner(mmsi) from changes register
stream register { key id time t in s lateness 2 s attr id number attr mmsi number attr op text }
pattern Slow on ships := (speed < 1){2,}
pattern Fast on ships := (speed > 9)
"""
BOTH = "rule R := s: Slow, l: listed where l.mmsi = s.entity and l.level > 1 emit s.entity"


LISTED = "mmsi,level\n3,2\n,5\n7,1\n3,1\n"


def run(text: str, folder: Path, listed: str = LISTED) -> tuple[list[tuple[object, ...]], int]:
    """What the rules find in the events of ten ships, and the events that no pattern saw for them."""
    (folder / "listed.csv").write_text(listed)
    (folder / "file.sre").write_text(HEAD + text)
    patterns = wayeb_py.compile(folder / "file.sre")
    ships = [{"id": i % 10, "t": i, "speed": 0.0 if i % 3 else 10.0} for i in range(100)]
    register = [{"id": 0, "t": 0, "mmsi": 4, "op": "+"}, {"id": 0, "t": 101, "mmsi": 9, "op": "+"}]
    recogniser = wayeb_py.Recogniser(patterns)
    found = []
    tables = {"ships": ships, "register": register}
    for name in recogniser.patterns.by_stream:
        found.append(recogniser.feed(pa.Table.from_pylist(tables[name]), name))
    found.append(recogniser.finish())
    assert recogniser.rules is not None
    rows = [row for part in found for row in part.to_arrow().to_pylist() if row["pattern"].startswith("R")]
    return [(row["pattern"], row["entity"], row["ts"]) for row in rows], recogniser.rules.n_spared


def test_events_of_entities_that_no_fact_joins_are_spared(tmp_path: Path) -> None:
    found, n_spared = run(BOTH, tmp_path)
    assert n_spared == 80  # of ten ships two are in the file
    assert {entity for _, entity, _ in found} == {3}
    assert found == run(BOTH.replace("l.mmsi = s.entity", "l.mmsi + 0 = s.entity"), tmp_path)[0]


@pytest.mark.parametrize(
    "other",
    [
        "rule R2 := s: Slow where s.entity > 5 emit s.entity",
        "rule R2 := s: ships where s.speed > 100 emit s.entity",
        "rule R2 := f: Fast, o: owner where o.mmsi = f.entity emit f.entity",
        "rule R2 := l: listed, f: Fast, g: Fast where f.entity = l.mmsi and g.ts - f.ts in 0..2 s emit g.entity",
        "rule R2 := l: listed, f: Fast where l.mmsi in {f.entity, f.seq} emit f.entity",
        ("rule R2 := f: Fast, l: listed where l.mmsi = f.entity"
        " unless g: Slow where g.ts - f.ts in 0..5 s emit f.entity"),
    ],
)
def test_nothing_is_spared_that_another_rule_may_use(other: str, tmp_path: Path) -> None:
    assert run(f"{BOTH}\n{other}", tmp_path)[1] == 0


def test_an_unless_may_name_the_facts_of_its_rule(tmp_path: Path) -> None:
    text = (
        "rule R := f: Fast, l: listed where l.mmsi = f.entity and l.level = 1"
        " unless g: Slow where g.entity = l.mmsi and g.seq < 5 and g.ts - f.ts in 0..25 s emit f.entity"
    )
    found, n_spared = run(text, tmp_path)
    assert n_spared == 80
    asked_otherwise = text.replace("g.entity = l.mmsi", "g.entity + 0 = l.mmsi")
    assert run(asked_otherwise, tmp_path) == (found, 0)
    assert len(found) > 0


def test_an_empty_file_spares_all(tmp_path: Path) -> None:
    assert run(BOTH, tmp_path, "mmsi,level\n") == ([], 100)
