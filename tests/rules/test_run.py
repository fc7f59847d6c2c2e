"""Rules run: each sentence of the page by a few events, from the text of a file to its detections."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wayeb_py
from wayeb_py.errors import DataError, EventsError
from wayeb_py.patterns import Patterns

HEAD = """
stream ships { key id time t in s position lon, lat lateness 1 s forget after 50 s attr id number
               attr speed number in kn attr kind text }
stream radar { key track time ms in ms position lon, lat lateness 1 s attr track number attr speed number in m/s }
stream register { key id time t in s lateness 1 s attr mmsi number attr op text }
facts owner(mmsi, company) from "owners.csv"
facts listed(mmsi)         from changes register
pattern Call on ships := (speed < 1){3,} within 100 s
pattern Slow on ships := (speed < 1)+
pattern Dark on ships := (speed > 9) ; silence 10 s
pattern Meet for each pair a, b in ships within 1 km fresh 5 s := (a.speed < 100){2,} emit b.kind as kind
"""
SHIPS = pa.schema([("id", pa.int64()), ("t", pa.int64()), ("speed", pa.float64()), ("kind", pa.string()),
                   ("lon", pa.float64()), ("lat", pa.float64())])  # fmt: skip
RADAR = pa.schema([("track", pa.int64()), ("ms", pa.int64()), *((n, pa.float64()) for n in ("speed", "lon", "lat"))])
REGISTER = pa.schema([("id", pa.int64()), ("t", pa.int64()), ("mmsi", pa.int64()), ("op", pa.string())])
SCHEMAS = {"ships": SHIPS, "radar": RADAR, "register": REGISTER}
OWNERS = "mmsi,company\n1,A\n1,A\n3,\n2,B\n"

Rows = Sequence[Mapping[str, Any]]


def ship(t: int, key: int, **more: Any) -> dict[str, Any]:
    return {"id": key, "t": t, "speed": 0.0, "kind": "cargo", "lon": 0.0, "lat": 0.0, **more}


def track(ms: int, key: int, speed: float = 0.0) -> dict[str, Any]:
    return {"track": key, "ms": ms, "speed": speed, "lon": 0.0, "lat": 0.0}


def change(t: int, mmsi: int | None, op: str | None) -> dict[str, Any]:
    return {"id": 0, "t": t, "mmsi": mmsi, "op": op}


def compiled(text: str, folder: Path, **options: Any) -> Patterns:
    (folder / "owners.csv").write_text(OWNERS)
    (folder / "file.sre").write_text(HEAD + text)
    return wayeb_py.compile(folder / "file.sre", **options)


def rows_of(patterns: Patterns, events: Mapping[str, Rows], rule: str = "R") -> list[dict[str, Any]]:
    """The detections of a rule in the order in which they come."""
    tables = {name: pa.Table.from_pylist(list(events.get(name, ())), SCHEMAS[name]) for name in patterns.by_stream}
    return [row for row in patterns.recognise(tables) if row["pattern"] == rule]


def found(text: str, folder: Path, rule: str = "R", **events: Rows) -> list[tuple[Any, ...]]:
    """What a rule emits of its matches."""
    patterns = compiled(text, folder)
    emitted = next(one.emit for one in patterns.meaning.rules if one.name == rule)
    return [tuple(row[column.name] for column in emitted) for row in rows_of(patterns, events, rule)]


def seconds(time: Any) -> Any:
    return time if time is None or isinstance(time, int) else time.timestamp()


def times(text: str, folder: Path, **events: Rows) -> list[tuple[Any, ...]]:
    """(start_ts, ts, decided_ts) of each match."""
    rows = rows_of(compiled(text, folder), events)
    return [tuple(seconds(row[name]) for name in ("start_ts", "ts", "decided_ts")) for row in rows]


# Members, conditions, what comes out.


def test_a_match_has_the_rule_s_name_its_times_and_what_it_emits(tmp_path: Path) -> None:
    text = (
        "rule R := x: ships, y: ships where x.speed < y.speed and y.ts - x.ts in 0..9 s emit x.entity, y.id as other_id"
    )
    patterns = compiled(text, tmp_path)
    (row,) = rows_of(patterns, {"ships": [ship(0, 1, speed=3.0), ship(2, 2, speed=5.0)]})
    assert row == {
        "pattern": "R", "place": None, "entity": 1, "ts": 2, "seq": None, "start_ts": 0, "start_seq": None,
        "decided_ts": 2, "other_id": 2,
    } | {"kind": None, "other": None}  # of the patterns of the file  # fmt: skip


def test_units_of_streams_and_of_their_times_are_converted(tmp_path: Path) -> None:
    text = (
        "rule R := x: ships, y: radar where x.speed > y.speed and abs(x.ts - y.ts) <= 1.5 s emit y.entity, y.ts as at"
    )
    ships, radar = [ship(10, 1, speed=36.0)], [track(8_499, 6, 1.0), track(8_500, 7, 18.0), track(11_000, 8, 19.0)]
    (row,) = rows_of(compiled(text, tmp_path), {"ships": ships, "radar": radar})  # 36 knots are 18.52 m/s
    assert (row["entity"], seconds(row["at"]), seconds(row["ts"])) == (7, 8.5, 10.0)


@pytest.mark.parametrize(
    ("condition", "expected"),
    {
        'x.kind = y.kind and x.kind != "tug"': [(1, 2)],
        'y.kind in {"tug", "ferry"} and x.id < y.id': [(1, 3), (2, 3)],
        "missing(y.kind)": [(1, 4), (2, 4), (3, 4)],
        "distance(x, y) < 500 m": [(1, 2)],
        "not distance(x, y) < 500 m": [(1, 3), (1, 4), (2, 3), (2, 4), (3, 4)],
        "(x.id = y.id - 1 or x.id = y.id - 3)": [(1, 2), (1, 4), (2, 3), (3, 4)],
        'near(x, point(0, 0), 10 m) and hour(y, "UTC") < 1': [(1, 2), (1, 3), (1, 4)],
        "far_apart(x.id, y.id)": [(1, 3), (1, 4), (2, 4)],
        "doubled(x.id) = y.id": [(1, 2), (2, 4)],
    }.items(),
)
def test_conditions_are_over_several_members(condition: str, expected: list[Any], tmp_path: Path) -> None:
    @wayeb_py.predicate("number", "number")
    def far_apart(one: Any, other: Any) -> Any:
        return abs(one - other) > 1

    @wayeb_py.function("number")
    def doubled(one: Any) -> Any:
        return 2 * one

    ships = [ship(0, 1), ship(1, 2, lat=0.001), ship(2, 3, lat=0.1, kind="tug"), ship(3, 4, lat=0.3, kind=None)]
    text = f"rule R := x: ships, y: ships where x.ts < y.ts and {condition} within 9 s emit x.id as a, y.id as b"
    patterns = compiled(text, tmp_path, functions=[far_apart, doubled])
    assert sorted((row["a"], row["b"]) for row in rows_of(patterns, {"ships": ships})) == expected


def test_detections_silences_pairs_and_episodes_are_members(tmp_path: Path) -> None:
    ships = [*(ship(t, key) for t in range(5) for key in (1, 2)), ship(6, 3, speed=10.0), ship(40, 4, speed=5.0)]
    text = "rule R := {} emit x.entity, x.ts as at"
    assert found(text.format("x: Call where x.entity = 1"), tmp_path, ships=ships) == [(1, 2), (1, 3), (1, 4)]
    assert found(text.format("x: Dark"), tmp_path, ships=ships) == [(3, 6)]
    assert times(text.format("x: Dark"), tmp_path, ships=ships) == [(6, 6, 16)]
    assert [one for one, _ in found(text.format('x: Meet where x.kind = "cargo"'), tmp_path, ships=ships)] == [1] * 8
    assert found(text.format("x: episode of Meet"), tmp_path, ships=ships) == [(1, 4)]
    assert times(text.format("x: episode of Meet"), tmp_path, ships=ships) == [(0, 4, 9)]  # no longer fresh after 5 s


def test_an_episode_is_known_at_the_event_that_ends_it_or_when_its_entity_is_forgotten(tmp_path: Path) -> None:
    ships = [ship(0, 1), ship(1, 1), ship(1, 2), ship(7, 1, speed=5.0), ship(30, 3, speed=5.0), ship(60, 3, speed=5.0)]
    text = "rule R := x: episode of Slow emit x.entity, x.n_detections"
    assert found(text, tmp_path, ships=ships) == [(1, 2), (2, 1)]
    assert times(text, tmp_path, ships=ships) == [(0, 1, 7), (1, 1, 51)]
    assert times(text, tmp_path, ships=ships[:-1]) == [(0, 1, 7)]  # the second stays undecided


def test_an_episode_of_a_pair_is_over_by_the_clock_though_no_event_comes(tmp_path: Path) -> None:
    text = """rule R := x: ships where x.speed > 20
        unless e: episode of Meet where x.ts - e.ts in 0..6 s and x.speed > e.n_detections emit x.id as a"""
    patterns = compiled(text, tmp_path)
    recogniser = wayeb_py.Recogniser(patterns)
    ships = [*(ship(t, key) for t in range(5) for key in (1, 2)), ship(6, 3, speed=30.0, lat=50.0)]
    tables = [recogniser.feed(pa.Table.from_pylist(some, SHIPS)) for some in (ships, [ship(40, 4, lat=60.0)])]
    tables.append(recogniser.finish())
    assert [row["a"] for table in tables for row in table if row["pattern"] == "R"] == []


NEXT: dict[str, Callable[[Patterns, wayeb_py.Recogniser], wayeb_py.Recogniser]] = {
    "go on": lambda _, recogniser: recogniser,
    "from a state": lambda patterns, recogniser: wayeb_py.Recogniser(patterns, saved=recogniser.save()),
}


@pytest.mark.parametrize("cut", [1, 3, 100])
@pytest.mark.parametrize("after", ["go on", "from a state"])
def test_an_episode_of_a_pair_is_where_the_first_of_the_two_was_at_its_last_detection(
    cut: int, after: str, tmp_path: Path
) -> None:
    text = """rule R := e: episode of Meet, y: ships
        where distance(e, y) < 100 m and y.id = 9 and y.ts - e.ts in 0..60 s
        emit e.ts as met, y.id as at, y.lat"""
    patterns = compiled(text, tmp_path)
    # Two meet twice, going north by 0.001 degrees a second, and part in between; 9 lies where the first was in the end.
    first = [ship(t, key, lat=0.001 * t) for t in (0, 1, 2, 3) for key in (1, 2)]
    second = [ship(t, key, lat=0.001 * t) for t in (20, 21, 22) for key in (1, 2)]
    apart = [ship(10, 2, lat=1.0)]
    ninth = [ship(30, 9, lat=0.003), ship(31, 9, lat=0.022), ship(32, 9, lat=0.020), ship(90, 9, lat=5.0)]
    ships = [*first, *apart, *second, *ninth]
    recogniser, rows = wayeb_py.Recogniser(patterns), []
    for at in range(0, len(ships), cut):
        rows += list(recogniser.feed(pa.Table.from_pylist(ships[at : at + cut], SHIPS)))
        recogniser = NEXT[after](patterns, recogniser)
    rows += list(recogniser.finish())
    assert [(row["met"], row["lat"]) for row in rows if row["pattern"] == "R"] == [(3, 0.003), (22, 0.022)]


# Absence and `once for`.


def test_a_match_waits_for_what_must_not_happen(tmp_path: Path) -> None:
    text = """rule R := x: ships where x.speed > 5
        unless c: Call where c.entity = x.entity and c.ts - x.ts in 0..10 s emit x.id as a"""
    calls = [ship(t, 1) for t in (1, 2, 3)]
    ships = [ship(0, 1, speed=8.0), ship(0, 2, speed=8.0), *calls, ship(20, 3)]
    assert found(text, tmp_path, ships=ships) == [(2,)]
    assert times(text, tmp_path, ships=ships) == [(0, 0, 9)]
    assert found(text, tmp_path, ships=[*ships[:-1], ship(8, 3)]) == []  # not decided when the data end
    assert found(text, tmp_path, ships=[*ships[:-1], ship(9, 3)]) == [(2,)]


def test_several_unless_and_once_for(tmp_path: Path) -> None:
    text = """rule R := x: ships, y: ships where x.id = 1 and y.id > 1 and y.ts - x.ts in 0..9 s
        unless r: radar where r.track = y.id and r.ts - x.ts in 0..9 s
        unless c: Call where c.entity = y.id and c.ts - x.ts in 0..9 s once for x emit y.id as b"""
    ships = [ship(0, 1, speed=3.0), ship(3, 2, speed=3.0), *(ship(t, 3) for t in (3, 4, 5)), ship(6, 4, speed=3.0)]
    ships += [ship(7, 5, speed=3.0), ship(30, 9)]
    assert found(text, tmp_path, ships=ships, radar=[track(2_000, 2), track(30_000, 9)]) == [(4,)]


# What stands.


def test_the_newest_row_is_the_one_that_is_valid_at_the_time(tmp_path: Path) -> None:
    text = "rule R := x: ships, n: newest of radar where n.entity = x.entity emit x.ts as at, n.speed"
    radar = [track(0, 7, 1.0), track(4_000, 8, 3.0), track(10_000, 7, 2.0), track(10_000, 7, 4.0)]
    rows = found(text, tmp_path, ships=[ship(t, 7) for t in (0, 9, 10, 11)], radar=radar)
    assert [(seconds(at), speed) for at, speed in rows] == [(0, 1), (9, 1), (10, 4), (11, 4)]


def test_facts_are_joined_while_they_are_valid(tmp_path: Path) -> None:
    changes = [(2, 1, "+"), (5, 1, "-"), (5, 2, "+"), (7, 1, "+"), (7, 1, "-"), (8, 2, "?"), (8, 2, None)]
    register = [change(*one) for one in changes]
    ships = [ship(t, key) for t in (1, 2, 4, 5, 7, 9) for key in (1, 2)]
    text = "rule R := x: ships, l: listed where l.mmsi = x.id emit x.id as a, x.t as at"
    assert found(text, tmp_path, ships=ships, register=register) == [(1, 2), (1, 4), (2, 5), (2, 7), (2, 9)]
    text = "rule R := x: ships where x.id = 1 unless l: listed where l.mmsi = x.id emit x.t as at"
    assert found(text, tmp_path, ships=ships, register=register) == [(1,), (5,), (7,), (9,)]
    text = "rule R := x: ships, o: owner where o.mmsi = x.id emit o.company"
    assert found(text, tmp_path, ships=[ship(0, 1), ship(5, 2), ship(6, 3)]) == [("A",), ("B",), (None,)]


def test_a_rule_over_facts_alone_is_kept(tmp_path: Path) -> None:
    changes = [(2, 1, "+"), (4, 2, "+"), (6, 1, "-"), (8, 1, "+"), (9, 2, "-"), (9, 2, "+")]
    register = [change(*one) for one in changes]

    def changed(text: str) -> list[tuple[Any, ...]]:
        rows = rows_of(compiled(text, tmp_path), {"register": register})
        return [(row["op"], row["start_ts"], row["ts"], row["mmsi"]) for row in rows]

    text = "rule R := l: listed, o: owner where l.mmsi = o.mmsi emit l.mmsi"
    assert changed(text) == [("+", 2, 2, 1), ("+", 4, 4, 2), ("-", 2, 6, 1), ("+", 8, 8, 1)]
    text = "rule R := o: owner unless l: listed where l.mmsi = o.mmsi emit o.mmsi"
    assert changed(text) == [
        ("+", None, None, 1), ("+", None, None, 3), ("+", None, None, 2), ("-", None, 2, 1), ("-", None, 4, 2),
        ("+", 6, 6, 1), ("-", 6, 8, 1),
    ]  # fmt: skip


def test_rules_read_rules(tmp_path: Path) -> None:
    text = """rule First := x: ships, y: ships where x.entity = y.entity and y.ts - x.ts in 1..4 s
    unless c: Call where c.entity = x.entity and c.ts - y.ts in 0..10 s
    emit x.entity
rule R := f: First, z: ships where f.entity = z.entity and z.ts - f.ts in 1..4 s
    emit f.start_ts as since, f.ts as till, f.decided_ts as known"""
    ships = [ship(t, 1, speed=2.0) for t in (0, 3, 6)] + [ship(100, 2)]
    assert found(text, tmp_path, ships=ships) == [(0, 3, 12)]
    assert times(text, tmp_path, ships=ships) == [(0, 6, 12)]
    kept = """rule Bad := l: listed, o: owner where l.mmsi = o.mmsi emit o.mmsi, o.company
rule R := x: ships, b: Bad where b.mmsi = x.id emit x.t as at, b.company
rule Worse := b: Bad, o: owner where b.company = o.company emit b.mmsi as worse"""
    register = [change(2, 1, "+"), change(6, 1, "-"), change(8, 1, "+")]
    ships = [ship(t, 1) for t in (1, 2, 5, 6, 7, 8)]
    assert found(kept, tmp_path, ships=ships, register=register) == [(2, "A"), (5, "A"), (8, "A")]
    rows = rows_of(compiled(kept, tmp_path), {"ships": ships, "register": register}, "Worse")
    assert [(row["op"], row["ts"], row["worse"]) for row in rows] == [("+", 2, 1), ("-", 6, 1), ("+", 8, 1)]


# Files of facts.


def test_facts_come_from_csv_ndjson_and_parquet(tmp_path: Path) -> None:
    rows = [{"a b": 1, "c": "A"}, {"a b": 2, "c": None}]
    (tmp_path / "f.csv").write_text("a b,c\n1,A\n2,\n")
    (tmp_path / "f.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "f.parquet")
    for name in ("f.csv", "f.ndjson", "f.parquet"):
        text = f'facts f(x, y) from "{name}" columns ("a b", "c")\nrule R := f: f emit f.x, f.y'
        (tmp_path / "file.sre").write_text(text)
        found_rows = wayeb_py.compile(tmp_path / "file.sre").recognise().to_arrow().to_pylist()
        assert [(row["op"], row["x"], row["y"]) for row in found_rows] == [("+", 1, "A"), ("+", 2, None)]


def test_what_is_wrong_with_a_file_of_facts_is_told(tmp_path: Path) -> None:
    def run(text: str) -> None:
        (tmp_path / "file.sre").write_text(text)
        wayeb_py.compile(tmp_path / "file.sre").recognise()

    (tmp_path / "f.csv").write_text("mmsi,company\n1,A\n")
    with pytest.raises(DataError, match="there is no such file"):
        run('facts f(x) from "g.csv"\nrule R := f: f')
    with pytest.raises(DataError, match="has no column `compny`") as told:
        run('facts f(compny) from "f.csv"\nrule R := f: f')
    assert "did you mean `company`?" in str(told.value)
    with pytest.raises(DataError, match="holds texts, and rules use it as numbers"):
        run('facts f(company) from "f.csv"\nrule R := f: f where f.company > 3')
    with pytest.raises(
        EventsError, match=r"compares `a\.mmsi`, which holds numbers, with `b\.company`, which holds texts"
    ):
        run('facts f(mmsi, company) from "f.csv"\nrule R := a: f, b: f where a.mmsi = b.company')


# Late rows, patterns beside rules.


def test_what_is_late_for_the_clock_is_set_aside_and_counted_once(tmp_path: Path) -> None:
    patterns = compiled("rule R := x: ships emit x.id as a\nrule Q := x: Dark, y: ships where x.ts = y.ts", tmp_path)
    recogniser = wayeb_py.Recogniser(patterns)
    ships = [ship(10, 1), ship(9, 2), ship(8, 3), ship(5, 1)]
    detections = [recogniser.feed(pa.Table.from_pylist(ships, SHIPS)), recogniser.finish()]
    assert [row["a"] for table in detections for row in table if row["pattern"] == "R"] == [2, 1]
    assert recogniser.counts_of["ships"].late_for_clock == 2
    assert sum(batch.num_rows for _, batch in recogniser.aside) == 2


def test_a_rule_changes_nothing_of_what_patterns_detect(tmp_path: Path) -> None:
    ships = [ship(t, key, speed=speed) for t, speed in enumerate((0.0, 0.0, 12.0, 0.0, 0.0, 0.0)) for key in (1, 2)]
    ships.append(ship(90, 3))
    alone, beside = compiled("", tmp_path), compiled("rule R := m: Meet, c: Call where m.ts = c.ts", tmp_path)
    tables = {"ships": pa.Table.from_pylist(ships, SHIPS)}
    columns = alone.recognise(tables).to_arrow().column_names
    expected = alone.recognise(tables).to_arrow().to_pylist()
    found_rows = [row for row in beside.recognise(tables) if row["pattern"] != "R"]
    assert expected
    assert [{name: row[name] for name in columns} for row in found_rows] == expected
    assert beside.recognise(tables).episodes().equals(alone.recognise(tables).episodes())
    only = beside.select(["R"])
    assert {row["pattern"] for row in only.recognise(tables)} == {"R"}
    assert not only.recognise(tables).episodes().num_rows, "those of `Meet` are for the rule alone"


def test_functions_are_called_in_the_order_of_decision(tmp_path: Path) -> None:
    patterns = compiled(
        "rule R := x: ships emit x.id as a\n"
        "rule Q := x: ships unless y: radar where y.track = x.id and y.ts - x.ts in 0..3 s emit x.id as a", tmp_path
    )  # fmt: skip
    heard: list[tuple[Any, ...]] = []
    for name in ("Q", "R"):
        patterns.on(name, lambda row: heard.append((row["pattern"], row["a"], seconds(row["decided_ts"]))))
    events = {"ships": [ship(t, t) for t in (1, 2, 9)], "radar": [track(9_000, 9)]}
    rows_of(patterns, events)
    expected = [("R", 1, 1), ("R", 2, 2), ("Q", 1, 3.999), ("Q", 2, 4.999), ("R", 9, 9)]
    assert heard == expected
    heard.clear()
    recogniser = wayeb_py.Recogniser(patterns)
    for name, rows in events.items():
        for row in rows:
            recogniser.feed(pa.Table.from_pylist([row], SCHEMAS[name]), name)
    recogniser.finish()
    assert heard == expected
    with pytest.raises(wayeb_py.WayebError, match="no pattern or rule is called `Z`"):
        patterns.on("Z", print)


def test_the_rule_of_the_reference_finds_a_transshipment(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/language.md").read_text()
    block = next(one for one in re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL) if "\nrule " in one)
    (tmp_path / "file.sre").write_text(block)
    (tmp_path / "ports.csv").write_text("name,lon,lat\nBrest,0.5,0\nCork,9,9\n")
    (tmp_path / "owners.csv").write_text("mmsi,company\n2,ACME\n1,Other\n")
    together = [(60 * minute, key, 0.0) for minute in range(0, 40, 5) for key in (1, 2)]
    arriving = [(60 * minute, 2, 0.5) for minute in range(100, 140, 5)]
    rows = [*together, *arriving, (72_000, 9, 5.0)]
    patterns = wayeb_py.compile(tmp_path / "file.sre")

    def found_with(speed: float) -> list[tuple[Any, ...]]:
        events = [
            {"mmsi": key, "ts": t, "lon": lon, "lat": 0.0, "speed": speed if t == 4000 or t < 6000 else 5.0}
            for t, key, lon in rows
        ]
        told = [row for row in patterns.recognise(pa.Table.from_pylist(events)) if row["pattern"] == "Transshipment"]
        return [(row["other"], row["place"], row["company"], row["start_ts"], row["ts"]) for row in told]

    assert found_with(5.0) == [(2, "Brest", "ACME", 0, 6300)]
    rows += [(60 * minute, 2, 0.2) for minute in range(50, 70)]  # stopped for an inspection on the way
    rows.sort()
    assert found_with(0.0) == []


def test_a_rule_may_ask_for_nothing_that_is_in_the_rows(tmp_path: Path) -> None:
    (tmp_path / "owners.csv").write_text(OWNERS)
    text = 'facts owner(mmsi, company) from "owners.csv"\nrule R := every combination of o: owner, p: owner'
    (tmp_path / "file.sre").write_text(text)
    assert len(wayeb_py.Recogniser(wayeb_py.compile(tmp_path / "file.sre")).finish()) == 9


def test_a_stream_that_no_rule_reads_is_read_by_its_pattern() -> None:
    patterns = wayeb_py.compile(
        """
        stream vessels { key mmsi time ts in s attr x number }
        stream radar   { key track time t in s attr x number }
        pattern Fast on vessels := (x > 1)
        pattern Seen on radar := (x > 1)
        rule Again := a: Fast, b: Fast where a.entity = b.entity and b.ts - a.ts in 1..5 s emit a.entity
        """
    )
    vessels = pa.table({"mmsi": [1, 1], "ts": [1, 2], "x": [2.0, 3.0]})
    radar = pa.table({"track": ["A", "B"], "t": [1, 2], "x": [2.0, 0.0]})
    found = patterns.recognise({"vessels": vessels, "radar": radar}).to_arrow()
    assert sorted(found.column("pattern").to_pylist()) == ["Again", "Fast", "Fast", "Seen"]
