"""In a stream the rows of a rule meet by any key that they share, and it finds what it finds in one process: random
files and the sentences of `docs/several.md`, however the stream is cut and whichever process has the state.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

import wayeb_py
from tests.parallel.killing import Traps, streaming
from tests.parallel.stream_parts.driven_parts import DrivenParts, cut
from tests.rules import random_files
from tests.several.test_sentences import CASES, batch_of, compile_case, name_of, sent_in
from tests.strategies import examples
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.engine.rows.detection_id import DETECTION_ID, with_ids
from wayeb_py.errors import PatternError
from wayeb_py.parallel.health.stream_summary import StreamSummary
from wayeb_py.parallel.logs.folders.folder import FolderLog
from wayeb_py.parallel.logs.several_logs import StreamLogs
from wayeb_py.parallel.recovery.checkpoint import Checkpoint
from wayeb_py.parallel.recovery.snapshots import Epoch
from wayeb_py.parallel.sinks.sinks import ParquetSink
from wayeb_py.parallel.stream.plan import StreamPlan, describe_places
from wayeb_py.parallel.stream.stream import stream
from wayeb_py.parallel.wire import overflow
from wayeb_py.parallel.wire.event_schemas import join_streams
from wayeb_py.parallel.wire.keyed_rows import keyed_rules
from wayeb_py.patterns import Patterns

HEAD = """
stream cars  { key id time t in s lateness 5 s forget after 40 s position lon, lat  attr route text  attr v number }
stream calls { key caller time t in s lateness 2 s  attr route text  attr code number }
facts district(route, name) from "districts.csv"
facts closed(route) from changes notes
stream notes { key note time t in s  attr route text  attr op text }
pattern Stops on cars := (v < 1){2,}
pattern Stand on cars := (v < 1) ; (v < 1) emit route
pattern Busy on calls := (code > 1) emit route
pattern Quiet on cars := (v > 2) ; silence 20 s
pattern Meet for each pair a, b in cars within 1 km fresh 1 min := any
"""
BY_ROUTE = (
    "rule Again := a: Stand, b: Stand where a.route = b.route and a.entity < b.entity and b.ts - a.ts in 0..60 s "
    "emit a.entity as one, b.entity as two"
)
UNANSWERED = (
    "rule Unanswered := s: Stand, d: district where d.route = s.route "
    "unless c: calls where c.route = s.route and c.ts - s.ts in 0..30 s emit s.entity as one, d.name"
)
ONCE = (
    "rule Once := e: calls, s: cars where e.route = s.route and s.ts - e.ts in 0..30 s once for e "
    "emit e.caller as two"
)
CARS = pa.schema([("id", pa.int64()), ("t", pa.int64()), ("lon", pa.float64()), ("lat", pa.float64()),
                  ("route", pa.string()), ("v", pa.float64())])  # fmt: skip
CALLS = pa.schema([("caller", pa.int64()), ("t", pa.int64()), ("route", pa.string()), ("code", pa.int64())])
NOTES = pa.schema([("note", pa.int64()), ("t", pa.int64()), ("route", pa.string()), ("op", pa.string())])
SCHEMAS = {"cars": CARS, "calls": CALLS, "notes": NOTES}


def compiled(folder: Path, *rules: str) -> Patterns:
    (folder / "districts.csv").write_text("route,name\nA,North\nB,South\n,Nowhere\n")
    path = folder / f"file{len(list(folder.glob('*.sre')))}.sre"
    path.write_text("\n".join([HEAD, *rules]))
    return wayeb_py.compile(path)


def make_tables(n_events: int, seed: int) -> dict[str, pa.Table]:
    dice = random.Random(seed)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in SCHEMAS}
    now = 100
    for _ in range(n_events):
        now += dice.choice((0, 0, 1, 2, 5, 11))
        t, route = now - dice.choice((0, 0, 0, 1, 4, 9)), dice.choice(("A", "B", "C", None))
        if dice.random() < 0.6:
            own = {"lon": dice.choice((0.0, 0.001, 0.1)), "lat": 0.0, "v": dice.choice((0.0, 9.0))}
            rows["cars"].append({"id": dice.randrange(5), "t": t, "route": route, **own})
        else:
            rows["calls"].append({"caller": dice.randrange(3), "t": t, "route": route, "code": dice.randrange(4)})
    rows["notes"].append({"note": 1, "t": now, "route": "A", "op": "+"})
    return {name: pa.Table.from_pylist(own, SCHEMAS[name]) for name, own in rows.items()}


def told(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(repr(sorted((k, v) for k, v in row.items() if k != DETECTION_ID and v is not None)) for row in rows)


def of_one_process(
    patterns: Patterns, tables: Mapping[str, pa.Table], episodes: bool = False
) -> tuple[Counter[str], Recogniser]:
    """What one process finds in events that arrive; each stream is one partition, so it is fed whole."""
    recogniser = Recogniser(patterns, order="arrival", episodes=episodes)
    for name, table in tables.items():
        recogniser.bind(table.schema, name)
    found = [recogniser.feed(table, name) for name, table in tables.items()]
    found.append(recogniser.finish())
    tables_found = [some.episodes() if episodes else some.to_arrow() for some in found]
    return told([row for table in tables_found for row in table.to_pylist()]), recogniser


def compare(
    patterns: Patterns, sent: Mapping[str, pa.Table], dice: random.Random, episodes: bool = False
) -> DrivenParts:
    """Drives a stream of these events, cut at random, and compares everything with one process."""
    columns = {
        name: list(dict.fromkeys(need.column for need in part.needs)) for name, part in patterns.by_stream.items()
    }
    tables = {name: sent[name].select(own) for name, own in columns.items()}
    driven = DrivenParts(
        [patterns], {name: table.schema for name, table in tables.items()}, dice, n_by_entity=dice.choice((1, 2, 4)),
        n_parts=dice.choice((1, 2, 3)), episodes=episodes,
    )  # fmt: skip
    for batch in cut(tables, dice):
        driven.take(batch)
    driven.take({name: table.slice(0, 0) for name, table in tables.items()}, Epoch(ended_at=1))
    expected, alone = of_one_process(patterns, tables, episodes)
    assert told(driven.rows) == expected
    assert driven.total("late_for_clock") == alone.counts.late_for_clock
    assert len({row.get(DETECTION_ID) for row in driven.rows}) == len(driven.rows)
    return driven


BY_EVENT = "rule R := a: cars, b: calls where a.route = b.route and b.ts - a.ts in 0..20 s emit b.code"
FOUND = {
    "by a column of events": BY_EVENT,
    "detections of one pattern": BY_ROUTE,
    "an absence, and facts of a file": UNANSWERED,
    "once for": ONCE,
    "two patterns": (
        "rule R := s: Stand, b: Busy where s.route = b.route and b.ts - s.ts in -9..30 s emit b.entity as two"
    ),
    "the newest row of a key that another member names": (
        "rule R := c: calls, n: newest of cars where n.entity = c.code and c.ts - n.ts in 0..30 s emit n.v"
    ),
    "a silence": (
        "rule R := q: Quiet, c: calls where c.code = q.entity and c.ts - q.ts in 0..40 s emit q.entity as one, c.route"
    ),
    "what a silence measures": (
        "pattern Gone on cars := (v > 2) ; silence 20 s emit count() as n\n"
        "rule R := g: Gone, c: calls where c.code = g.n and c.ts - g.ts in 0..40 s emit g.entity as one, g.n"
    ),
    "an episode": (
        "rule R := e: episode of Stops, c: calls where c.code = e.entity and c.ts - e.ts in 0..60 s emit c.caller"
    ),
    "a whole number and one with a fraction": (
        "rule R := a: cars, c: calls where a.v = c.code and c.ts - a.ts in 0..30 s emit a.entity as one"
    ),
}


@pytest.mark.parametrize("what", FOUND)
def test_a_rule_finds_the_same_by_its_key(tmp_path: Path, what: str) -> None:
    patterns, tables = compiled(tmp_path, FOUND[what]), make_tables(160, 5)
    schemas = {name: SCHEMAS[name] for name in patterns.by_stream}
    assert len(keyed_rules(patterns, schemas)) == 1
    driven = compare(patterns, tables, random.Random(what))
    rule = patterns.rule_names[0]
    assert any(row["pattern"] == rule for row in driven.rows)
    assert driven.sent.total()


def test_rules_with_different_keys_go_each_by_its_own(tmp_path: Path) -> None:
    by_code = FOUND["a silence"].replace("rule R", "rule ByCode")
    over_other = "rule Above := a: Again, c: calls where c.ts - a.ts in 0..50 s and c.code = a.one emit c.caller"
    patterns = compiled(tmp_path, BY_ROUTE, UNANSWERED, ONCE, by_code, over_other)
    schemas = {name: SCHEMAS[name] for name in patterns.by_stream}
    keys = {rule.name: str(rule.key) for rule in keyed_rules(patterns, schemas)}
    assert keys == {
        "Again": "a.route = b.route", "Unanswered": "s.route = c.route", "Once": "e.route = s.route",
        "ByCode": "q.entity = c.code",
    }  # fmt: skip
    driven = compare(patterns, make_tables(200, 8), random.Random(4))
    assert {row["pattern"] for row in driven.rows} >= {*keys, "Above"}


STAY = {
    "nothing says that `a` and `b` have the same entity": (
        "rule R := a: cars, b: calls where b.ts - a.ts in 0..9 s emit b.code"
    ),
    "`m` is a pair": "rule R := m: Meet, c: cars where c.entity = m.entity and c.ts - m.ts in 0..9 s emit c.v",
    "a stream changes the facts `closed`": (
        "rule R := c: cars, x: closed where x.route = c.route and c.v > 5 emit c.v"
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", STAY)
def test_what_has_no_key_for_all_its_rows_stays_where_all_events_are(tmp_path: Path, why: str) -> None:
    patterns = compiled(tmp_path, STAY[why], BY_ROUTE)
    schemas = {name: SCHEMAS[name] for name in patterns.by_stream}
    schema = join_streams(patterns, schemas)
    assert [rule.name for rule in keyed_rules(patterns, schemas)] == ["Again"]
    plan = StreamPlan("partition", "", 1, 5, has_all=True, n_parts=4)
    said = describe_places(plan, patterns, schema)
    assert "`Again` by a.route = b.route; " in said
    assert f"`R` in the shard that has all events, since {why}" in said, said
    compare(patterns, make_tables(120, 3), random.Random(1))


def test_rows_without_a_key_are_in_no_match_and_go_nowhere(tmp_path: Path) -> None:
    patterns, tables = compiled(tmp_path, FOUND["by a column of events"]), make_tables(80, 2)
    nowhere = {
        name: table.set_column(table.column_names.index("route"), "route", pa.nulls(len(table), pa.string()))
        for name, table in tables.items()
    }
    driven = compare(patterns, nowhere, random.Random(0))
    assert not driven.sent.total()


NUMBERS = (
    ("vessels", "x"), ("vessels", "entity"), ("radar", "x"), ("Slow", "entity"), ("Slow", "seq"), ("Quiet", "entity"),
    ("episode of Slow", "entity"), ("episode of Slow", "n_detections"), ("newest of vessels", "entity"),
)  # fmt: skip


def keyed_rule(dice: random.Random) -> str:
    """A rule all of whose rows share a number."""
    own = {name: dice.choice(NUMBERS) for name in "abc"[: dice.choice((2, 2, 3))]}
    absent = {"u": dice.choice(NUMBERS)} if dice.random() < 0.5 else {}
    rule = f"rule Keyed := {', '.join(f'{name}: {of}' for name, (of, _) in own.items())} where "
    rule += " and ".join(f"{name}.{column} = a.{own['a'][1]}" for name, (_, column) in own.items() if name != "a")
    for name, (of, column) in absent.items():
        rule += f" unless {name}: {of} where {name}.{column} = a.{own['a'][1]} and {name}.ts - a.ts in 0..4 s"
    rule += " once for a" if dice.random() < 0.3 else ""
    return rule + f" within {dice.choice((3, 8, 20))} s emit " + ", ".join(
        f"{name}.{column} as k{name}" for name, (_, column) in own.items()
    )


@settings(max_examples=examples(8), deadline=None)
@given(seed=st.integers(0, 1 << 30), episodes=st.booleans())
def test_random_rules_find_the_same(tmp_path_factory: pytest.TempPathFactory, seed: int, episodes: bool) -> None:
    dice = random.Random(seed)
    world = random_files.make_world(dice)
    head = world.text
    for _ in range(50):
        world.text = f"{head}{keyed_rule(dice)}\n"
        try:
            patterns = world.compile(tmp_path_factory.mktemp("world"))
        except PatternError:  # a member of an `unless` is newest, …
            continue
        schemas = {name: random_files.SCHEMAS[name] for name in patterns.by_stream}
        if keyed_rules(patterns, schemas):
            break
    else:
        pytest.fail("no rule was drawn that shares a key")
    tables = {name: pa.Table.from_pylist(list(world.sent[name]), schemas[name]) for name in schemas}
    compare(patterns, tables, dice, episodes)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_sentence_holds_in_shards_and_parts(tmp_path: Path, case: dict[str, Any]) -> None:
    patterns = compile_case(case, tmp_path)
    if not patterns.by_stream:
        pytest.skip("rules over facts alone are refused in a stream")
    tables = {name: pa.Table.from_batches([batch_of(rows)]) for name, rows in sent_in(case).items()}
    compare(patterns, tables, random.Random(case["name"]))


def test_the_others_keep_their_state_when_a_rule_changes(tmp_path: Path) -> None:
    changed = ONCE.replace("0..30 s", "0..31 s")
    versions = [compiled(tmp_path, BY_ROUTE, changed), compiled(tmp_path, ONCE, BY_ROUTE)]
    schemas = {name: SCHEMAS[name] for name in versions[0].by_stream}
    driven = DrivenParts(versions, schemas, random.Random(2))
    rows: dict[str, list[dict[str, Any]]] = {
        "cars": [{"id": 1, "t": t, "lon": 0.0, "lat": 0.0, "route": "A", "v": 0.0} for t in (100, 101)],
        "calls": [{"caller": 7, "t": 102, "route": "A", "code": 0}],
    }
    later: dict[str, list[dict[str, Any]]] = {
        "cars": [{"id": 2, "t": t, "lon": 0.0, "lat": 0.0, "route": "A", "v": 0.0} for t in (115, 116, 200)],
        "calls": [{"caller": 8, "t": 200, "route": "B", "code": 0}],
    }

    def tables(own: dict[str, list[dict[str, Any]]]) -> dict[str, pa.Table]:
        return {name: pa.Table.from_pylist(own.get(name, []), schemas[name]) for name in schemas}

    batches = [
        tables(rows),
        tables({"calls": [{"caller": 9, "t": 111, "route": "C", "code": 0}],
                "cars": [{"id": 9, "t": 113, "lon": 0.0, "lat": 0.0, "route": "C", "v": 9.0}]}),
        tables(later),
    ]  # fmt: skip
    for batch, version in zip(batches, (0, 0, 1), strict=True):
        driven.take(batch, Epoch(version=version))
    alone, saved, expected = versions[0], b"", []
    for batch, alone in zip(batches, (versions[0], versions[0], versions[1]), strict=True):
        recogniser = Recogniser(alone, order="arrival", saved=saved)
        for name, table in batch.items():
            recogniser.bind(table.schema, name)
        for name, table in batch.items():
            expected += recogniser.feed(table, name).to_arrow().to_pylist()
        saved = recogniser.save()
    assert told(driven.rows) == told(expected)
    assert [(row["one"], row["two"]) for row in driven.rows if row["pattern"] == "Again"] == [(1, 2)]


NEWEST = FOUND["the newest row of a key that another member names"].replace("rule R", "rule Last")
WIDE = BY_EVENT.replace("0..20", "0..90")
BESIDE = "rule Beside := a: cars, b: calls where b.ts - a.ts in 0..1 s emit b.code"


def round_at(t: int, patterns: Patterns) -> dict[str, pa.Table]:
    """Some cars at a time, and a second later a call about each."""
    rows: dict[str, list[dict[str, Any]]] = {
        "cars": [{"id": i, "t": t, "lon": 0.0, "lat": 0.0, "route": "ABC"[i], "v": 5.0} for i in range(3)],
        "calls": [{"caller": 7, "t": t + 1, "route": "ABC"[i], "code": i} for i in range(3)],
    }
    return {name: pa.Table.from_pylist(rows[name], SCHEMAS[name]) for name in patterns.by_stream}


def driven_by(versions: Sequence[Patterns], in_turn: Sequence[int], n_parts: int = 2) -> DrivenParts:
    """A round in each batch, with these versions of the file."""
    schemas = {name: SCHEMAS[name] for name in versions[0].by_stream}
    driven = DrivenParts(versions, schemas, random.Random(n_parts), n_parts=n_parts)
    for number, version in enumerate(in_turn):
        driven.take(round_at(100 + 20 * number, versions[version]), Epoch(version=version))
    return driven


@pytest.mark.parametrize(
    ("files", "in_turn"),
    [
        (((NEWEST,), (WIDE, NEWEST)), (0, 0, 1, 1, 1)),  # it reads a column more of both streams
        (((WIDE, NEWEST), (NEWEST,), (WIDE, NEWEST)), (0, 0, 1, 2, 2)),
        (((WIDE,), (BESIDE,), (WIDE,)), (0, 0, 1, 2, 2)),  # for a batch no rule has a key
    ],
)
def test_rules_come_and_go_as_in_one_process(
    tmp_path: Path, files: Sequence[Sequence[str]], in_turn: Sequence[int]
) -> None:
    versions = [compiled(tmp_path, *rules) for rules in files]
    saved, expected = b"", []
    for number, version in enumerate(in_turn):
        alone = Recogniser(versions[version], order="arrival", saved=saved)
        batch = round_at(100 + 20 * number, versions[version])
        for name, table in batch.items():
            alone.bind(table.schema, name)
        for name, table in batch.items():
            expected += alone.feed(table, name).to_arrow().to_pylist()
        saved = alone.save()
    assert told(driven_by(versions, in_turn).rows) == told(expected)
    assert len({row["pattern"] for row in expected} & {"R", "Last"}) == len({*files[0], *files[-1]} - {BESIDE})


@pytest.mark.parametrize("n_parts", [1, 3])
def test_a_rule_with_another_key_begins_without_rows(tmp_path: Path, n_parts: int) -> None:
    either = FOUND["by a column of events"].replace("where", "where a.entity = b.code and").replace("0..20", "0..90")
    by_route = either.replace(" emit", " unless u: Busy where u.route = a.route and u.ts - a.ts in 40..41 s emit")
    versions = [compiled(tmp_path, either), compiled(tmp_path, by_route)]
    schemas = {name: SCHEMAS[name] for name in versions[0].by_stream}
    keys = [str(rule.key) for one in versions for rule in keyed_rules(one, schemas)]
    assert keys == ["a.entity = b.code", "a.route = b.route = u.route"]
    driven = driven_by(versions, (0, 0, 1, 1, 1, 1), n_parts)
    later = [row for row in driven.rows if row["pattern"] == "R" and row["ts"] > 101]
    assert later
    assert min(row["start_ts"] for row in later) == 120, "the cars of 100 were known before the change, and went"


def test_matches_that_are_alike_have_the_ids_of_one_process_wherever_they_meet(tmp_path: Path) -> None:
    patterns = compiled(tmp_path, BY_EVENT.removesuffix(" emit b.code"))
    driven = driven_by([patterns], [0, 0], n_parts=3)
    alike = [row[DETECTION_ID] for row in driven.rows if row["pattern"] == "R"]
    batch = round_at(100, patterns)
    later = round_at(120, patterns)
    alone = Recogniser(patterns, order="arrival")
    for name, table in batch.items():
        alone.bind(table.schema, name)
    found = [alone.feed(table, name).to_arrow() for part in (batch, later) for name, table in part.items()]
    expected = [row for table in found for row in with_ids(table, patterns.rule_names).to_pylist()]
    assert sorted(alike) == sorted(row[DETECTION_ID] for row in expected if row["pattern"] == "R")
    assert len(set(alike)) == len(alike) == 3


def test_a_part_waits_for_no_stream_that_is_away(tmp_path: Path) -> None:
    patterns = compiled(tmp_path, UNANSWERED)
    schemas = {name: SCHEMAS[name] for name in patterns.by_stream}
    driven = DrivenParts([patterns], schemas, random.Random(6))

    def sent(*cars: int, calls: Sequence[int] = ()) -> dict[str, pa.Table]:
        place = {"lon": 0.0, "lat": 0.0}
        rows: dict[str, list[dict[str, Any]]] = {
            "cars": [{"id": 1, "t": t, "route": "A", "v": 0.0, **place} for t in cars],
            "calls": [{"caller": 1, "t": t, "route": "A", "code": 0} for t in calls],
        }
        return {name: pa.Table.from_pylist(rows[name], own) for name, own in schemas.items()}

    def unanswered() -> list[int]:
        return [row["ts"] for row in driven.rows if row["pattern"] == "Unanswered"]

    driven.take(sent(100, 101, calls=[90]), clock_s=1000)
    driven.take(sent(200), clock_s=1060)
    assert not unanswered(), "an older call may still come"
    driven.take(sent(201), Epoch(tick=1001), clock_s=1061)
    assert unanswered() == [101]
    driven.take(sent(calls=[110]), Epoch(tick=1001), clock_s=1062)
    assert driven.total("late_for_clock") == 1, "the calls are back, and the clock has passed 110"
    driven.take(sent(400), Epoch(tick=1063), clock_s=1100)
    assert unanswered() == [101, 201]


# On Spark.


def write(folder: Path, number: int, tables: Mapping[str, pa.Table]) -> None:
    for name, table in tables.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        pq.write_table(table, folder / name / f"{number:03}.parquet")


def run(spark: SparkSession, patterns: Patterns, folder: Path, said: list[str], **options: Any) -> StreamSummary:
    with Checkpoint(folder / "checkpoint") as checkpoint:
        logs = {name: FolderLog(folder / name, folder / f"{name}.ndjson") for name in patterns.by_stream}
        return stream(
            spark, patterns, StreamLogs(logs), ParquetSink(folder / "out"), checkpoint, once=True, max_rows=80,
            say=said.append, **options,
        )  # fmt: skip


def test_on_spark_with_a_restart_and_another_rule(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overflow, "PASSED_BYTES", 0)
    patterns, tables = compiled(tmp_path, BY_ROUTE, UNANSWERED, STAY["`m` is a pair"]), make_tables(200, 8)
    used = {name: tables[name] for name in patterns.by_stream}
    said: list[str] = []
    write(tmp_path, 0, {name: table.slice(0, 60) for name, table in used.items()})
    summaries = [run(spark, patterns, tmp_path, said, workers=2)]
    assert "4 shards by entity, 4 parts by key and one shard that has all events" in " ".join(said), said
    assert any("`Again` by a.route = b.route; `Unanswered` by s.route = c.route; " in one for one in said), said
    write(tmp_path, 1, {name: table.slice(60) for name, table in used.items()})
    summaries.append(run(spark, patterns, tmp_path, said, final=True))
    found = pq.read_table(tmp_path / "out")
    expected, alone = of_one_process(patterns, used)
    assert told(found.to_pylist()) == expected
    assert {"Again", "Unanswered", "R"} <= set(found["pattern"].to_pylist())
    assert len(set(found[DETECTION_ID].to_pylist())) == len(found)
    assert sum((one.detections for one in summaries), Counter()) == Counter(found["pattern"].to_pylist())
    assert sum(one.late_for_clock for one in summaries) == alone.counts.late_for_clock > 0
    assert not list((tmp_path / "checkpoint" / "overflow").glob("*"))


@pytest.mark.soak
def test_killed_parts_and_drivers_lose_and_repeat_nothing(tmp_path: Path) -> None:
    tables = {"cars": make_tables(300, 9)["cars"]}
    text = "\n".join(line for line in HEAD.splitlines() if line.startswith(("stream cars", "pattern Stand")))
    text = f"{text.replace(' on cars', '')}\n{BY_ROUTE}\n"
    (tmp_path / "events").mkdir()
    pq.write_table(tables["cars"], tmp_path / "events" / "000.parquet")
    traps = Traps(tmp_path / "traps")
    traps.lay("part:state", "counted:2")
    options = ("--source", str(tmp_path / "events"), "--once", "--max-events", "70", "--workers", "2")
    with streaming(tmp_path, *options, environment=traps.environment, patterns=text) as running:
        assert running.end() != 0, running.said()
    assert traps.caught("part:state") != traps.caught("counted:2") == running.process.pid
    with streaming(tmp_path, *options, "--final", patterns=text) as running:
        assert running.end() == 0, running.said()
    expected, _ = of_one_process(wayeb_py.compile(text), tables)
    assert told(pq.read_table(tmp_path / "out").to_pylist()) == expected
    assert sum("'Again'" in row for row in expected) > 0
