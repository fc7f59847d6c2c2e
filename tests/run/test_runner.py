"""A run over files: the same detections whatever the order, the cuts and the number of runs; nothing lost or twice."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests.run.event_runs import EVENTS, PATTERNS, rows_of, shuffled_but_for_ties
from wayeb_py.errors import DataError, EventsError
from wayeb_py.files.output.set_aside import DEFAULT_LIMIT, BadLimit
from wayeb_py.run import runner
from wayeb_py.run.runner import run
from wayeb_py.run.summary import Progress


@pytest.fixture
def expected(tmp_path: Path) -> list[dict[str, Any]]:
    found = PATTERNS.recognise(EVENTS).to_arrow()
    pq.write_table(found, tmp_path / "expected.parquet")
    return rows_of(tmp_path / "expected.parquet")


def test_a_run_gives_what_the_library_gives(tmp_path: Path, expected: list[dict[str, Any]]) -> None:
    pq.write_table(EVENTS, tmp_path / "e.parquet", row_group_size=300)
    summary = run(PATTERNS, [tmp_path / "e.parquet"], tmp_path / "d.parquet", workers=2)
    assert rows_of(tmp_path / "d.parquet") == expected
    assert len(expected) > 100
    assert summary.events == 2000
    assert summary.entities == 7
    assert sum(summary.detections.values()) == len(expected)
    assert list(summary.detections) == ["Swing", "Still", "Slow"]
    assert not summary.sorted_on_disk
    assert summary.aside == {}
    assert not (tmp_path / "d.parquet.aside.ndjson").exists()


def test_entity_and_times_keep_their_types(tmp_path: Path) -> None:
    pq.write_table(EVENTS, tmp_path / "e.parquet")
    run(PATTERNS, [tmp_path / "e.parquet"], tmp_path / "d.parquet")
    schema = pq.read_schema(tmp_path / "d.parquet")
    assert schema.names == ["pattern", "place", "entity", "ts", "seq", "start_ts", "start_seq", "engine"]
    assert [str(schema.field(name).type) for name in ("entity", "ts", "engine")] == [
        "string",
        "timestamp[ms]",
        "string",
    ]


def test_a_file_in_disorder_gives_the_same_detections(
    tmp_path: Path, expected: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wayeb_py.files.sort.RUN_BYTES", 1000)
    pq.write_table(shuffled_but_for_ties(EVENTS), tmp_path / "e.parquet", row_group_size=100)
    summary = run(PATTERNS, [tmp_path / "e.parquet"], tmp_path / "d.parquet")
    assert summary.sorted_on_disk
    assert rows_of(tmp_path / "d.parquet") == expected
    assert sum(summary.detections.values()) == len(expected)


def test_standard_output_shows_nothing_twice_if_the_run_starts_again(
    tmp_path: Path, expected: list[dict[str, Any]], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    late_disorder = pa.concat_tables([EVENTS.slice(0, 1000), shuffled_but_for_ties(EVENTS.slice(1000))])
    pq.write_table(late_disorder, tmp_path / "e.parquet", row_group_size=100)
    run(PATTERNS, [tmp_path / "e.parquet"], "-")
    lines = capfdbinary.readouterr().out.splitlines()
    assert len(lines) == len(expected)
    assert {json.loads(line)["pattern"] for line in lines} == {"Swing", "Still", "Slow"}


def write_csv(path: Path) -> None:
    pcsv.write_csv(EVENTS, path)


def write_arrow(path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, EVENTS.schema) as writer:
        writer.write_table(EVENTS, max_chunksize=77)


def write_ndjson(path: Path) -> None:
    path.write_text("".join(json.dumps(row, default=str) + "\n" for row in EVENTS.to_pylist()))


@pytest.mark.parametrize(
    ("name", "write"), [("e.csv", write_csv), ("e.arrow", write_arrow), ("e.ndjson", write_ndjson)]
)
def test_every_format_gives_the_same_detections(
    tmp_path: Path, name: str, write: Callable[[Path], None], expected: list[dict[str, Any]]
) -> None:
    path = tmp_path / name
    write(path)
    run(PATTERNS, [path], tmp_path / "d.parquet")
    assert rows_of(tmp_path / "d.parquet") == expected


def test_a_folder_is_one_stream(tmp_path: Path, expected: list[dict[str, Any]]) -> None:
    (tmp_path / "days").mkdir()
    for day in range(4):
        pq.write_table(EVENTS.slice(500 * day, 500), tmp_path / "days" / f"{day}.parquet")
    run(PATTERNS, [tmp_path / "days"], tmp_path / "d.parquet")
    assert rows_of(tmp_path / "d.parquet") == expected


def test_since_and_until_select_before_words_begin(tmp_path: Path) -> None:
    pq.write_table(EVENTS, tmp_path / "e.parquet", row_group_size=100)
    run(PATTERNS, [tmp_path / "e.parquet"], tmp_path / "d.parquet", since_s=Fraction(200), until_s=Fraction(700))
    selected = PATTERNS.recognise(EVENTS.slice(400, 1000)).to_arrow()
    pq.write_table(selected, tmp_path / "s.parquet")
    assert rows_of(tmp_path / "d.parquet") == rows_of(tmp_path / "s.parquet")


def test_no_events_give_an_output_with_columns(tmp_path: Path) -> None:
    pq.write_table(EVENTS.slice(0, 0), tmp_path / "e.parquet")
    (tmp_path / "e.csv").write_text("id,ts,speed,engine\n")
    for name in ("e.parquet", "e.csv"):
        run(PATTERNS, [tmp_path / name], tmp_path / "d.csv")
        assert (tmp_path / "d.csv").read_text() == "pattern,place,entity,ts,seq,start_ts,start_seq,engine\n"


def test_episodes_instead_of_detections(tmp_path: Path) -> None:
    pq.write_table(EVENTS, tmp_path / "e.parquet", row_group_size=300)
    summary = run(PATTERNS, [tmp_path / "e.parquet"], f"{tmp_path}/out/", episodes=True)
    expected = PATTERNS.recognise(EVENTS).episodes()
    pq.write_table(expected, tmp_path / "x.parquet")
    assert rows_of(tmp_path / "out/episodes.parquet") == rows_of(tmp_path / "x.parquet")
    assert summary.episodes == expected.num_rows > 50


DAY_S = 86_400


@pytest.mark.parametrize(
    ("time_type", "unit", "day"),
    [
        (pa.date32(), None, 1),
        (pa.timestamp("ns", "Europe/Athens"), None, DAY_S * 10**9),
        (pa.timestamp("ms"), None, DAY_S * 10**3),
        (pa.int64(), "ms", DAY_S * 10**3),
        (pa.uint32(), "s", DAY_S),
        (pa.float64(), "s", float(DAY_S)),
        (pa.decimal128(12, 3), "s", Decimal(DAY_S)),
    ],
    ids=str,
)
@pytest.mark.parametrize("rows", [[0, 1, 2], [2, 0, 1]])
def test_every_type_of_time_is_ordered_selected_and_kept(
    tmp_path: Path, time_type: pa.DataType, unit: str | None, day: Any, rows: list[int]
) -> None:
    time = "ts" if unit is None else f"ts in {unit}"
    patterns = wayeb_py.compile(f"stream s {{\n key id\n time {time}\n}}\npattern P := (x = 2) ; (x = 3)\n")
    storage = {"date32[day]": pa.int32(), "decimal128(12, 3)": time_type}.get(str(time_type))
    times = pa.array([0 * day, day, 2 * day], storage).cast(time_type)
    events = pa.table({"id": ["a"] * 3, "ts": times, "x": [1, 2, 3]}).take(pa.array(rows))
    pq.write_table(events, tmp_path / "e.parquet")
    summary = run(patterns, [tmp_path / "e.parquet"], tmp_path / "d.parquet", since_s=Fraction(DAY_S))
    assert (summary.events, summary.detections) == (2, {"P": 1})
    found = pq.read_table(tmp_path / "d.parquet")
    assert found.schema.field("ts").type == time_type
    assert found.column("ts").combine_chunks().equals(times.slice(2))


@pytest.mark.parametrize("numbers", [[2, 1, 3], [30, 4, 5]])
def test_the_order_column_breaks_ties_also_against_the_order_of_rows(tmp_path: Path, numbers: list[int]) -> None:
    patterns = wayeb_py.compile(
        "stream s {\n key id\n time ts\n order n\n}\n"
        'pattern P := (x = "b") ; (x = "a")\npattern Q := (x = "c") ; (x = "a")\n'
    )
    times = pa.array([5, 5, 5], pa.timestamp("s"))
    pq.write_table(pa.table({"id": [1] * 3, "ts": times, "n": numbers, "x": ["a", "b", "c"]}), tmp_path / "e.parquet")
    summary = run(patterns, [tmp_path / "e.parquet"], tmp_path / "d.csv")
    in_order = "".join(word for _, word in sorted(zip(numbers, "abc", strict=True)))
    assert summary.sorted_on_disk
    assert summary.detections == {"P": int("ba" in in_order), "Q": int("ca" in in_order)}


def test_duplicates_are_dropped_and_counted(tmp_path: Path) -> None:
    patterns = wayeb_py.compile("stream s {\n key id\n time ts\n dedupe\n}\npattern P := (x > 0) ; (x > 0)\n")
    times = pa.array([1, 1, 2, 1], pa.timestamp("s"))
    pq.write_table(pa.table({"id": [1, 1, 1, 2], "ts": times, "x": [1, 1, 1, 1]}), tmp_path / "e.parquet")
    summary = run(patterns, [tmp_path / "e.parquet"], tmp_path / "d.csv")
    assert (summary.duplicates, summary.events, summary.detections) == (1, 3, {"P": 1})


@pytest.mark.parametrize("lateness", [None, 0, 10])
@pytest.mark.parametrize("n_others", [0, 2], ids=["alone", "in disorder"])
@pytest.mark.parametrize("order", [None, [2, 1, 1, None, 3], [1, 1, 1, 1, 1]])
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_the_duplicate_that_stays_is_the_first_by_order_else_by_arrival(
    tmp_path: Path, lateness: int | None, n_others: int, order: list[int | None] | None, suffix: str
) -> None:
    lines = [
        "dedupe",
        *([] if order is None else ["order n"]),
        *([] if lateness is None else [f"lateness {lateness} s"]),
    ]
    patterns = wayeb_py.compile(
        "stream s {\n key id\n time ts in s\n" + "\n".join(lines) + "\n}\npattern P := (x >= 0)   emit x\n"
    )
    n_rows = 5
    table = pa.table({"id": [1] * n_rows, "ts": [4, 4, 4, 4, 4], "n": order or [0] * n_rows, "x": [0, 1, 2, 3, 4]})
    # The disorder of another entity must not matter to the first.
    others = pa.table({"id": [2, 2], "ts": [9, 8], "n": [0, 0], "x": [5, 6]}, schema=table.schema).slice(0, n_others)
    table = pa.concat_tables([table.slice(0, 2), others, table.slice(2)])
    path = tmp_path / f"e.{suffix}"
    pcsv.write_csv(table, path) if suffix == "csv" else pq.write_table(table, path)
    summary = run(patterns, [path], tmp_path / "d.parquet")
    stays = 0 if order is None else order.index(None) if None in order else order.index(min(filter(None, order)))
    found = [row["x"] for row in rows_of(tmp_path / "d.parquet") if row["entity"] == 1]
    assert (found, summary.duplicates) == ([stays], n_rows - 1)
    whole = [row["x"] for row in patterns.recognise(table).to_arrow().to_pylist() if row["entity"] == 1]
    assert whole == [stays]


# ---- rows that are no events


def write_csv_with_faults(path: Path, n_bad: int) -> None:
    lines = ["id,ts,speed,engine"]
    lines += [f"v1,2016-01-01T00:{i // 60:02}:{i % 60:02},{60 if i % 2 else 0},on" for i in range(100)]
    lines += [f"v1,someday,{i},off" for i in range(n_bad)]
    lines += ["v1,2016-01-01T01:00:00,fast,on"]
    path.write_text("\n".join(lines) + "\n")


def test_bad_rows_go_to_a_side_file_with_their_reason(tmp_path: Path) -> None:
    write_csv_with_faults(tmp_path / "e.csv", 2)
    summary = run(PATTERNS, [tmp_path / "e.csv"], tmp_path / "d.ndjson")
    assert summary.aside == {"the time cannot be read": 2}
    assert summary.unreadable["speed"]["count"] == 1
    assert summary.aside_file == str(tmp_path / "d.ndjson.aside.ndjson")
    rows = [json.loads(line) for line in Path(summary.aside_file).read_text().splitlines()]
    assert rows[0] == {
        "file": str(tmp_path / "e.csv"),
        "row": 102,
        "reason": "the time cannot be read",
        "values": {"id": "v1", "ts": "someday", "speed": "0", "engine": "off"},
    }
    assert summary.events == 101


def test_an_old_side_file_does_not_stay_beside_a_clean_run(tmp_path: Path) -> None:
    write_csv_with_faults(tmp_path / "e.csv", 2)
    run(PATTERNS, [tmp_path / "e.csv"], tmp_path / "d.ndjson")
    write_csv_with_faults(tmp_path / "e.csv", 0)
    run(PATTERNS, [tmp_path / "e.csv"], tmp_path / "d.ndjson")
    assert sorted(os.listdir(tmp_path)) == ["d.ndjson", "e.csv"]


def test_too_many_bad_rows_stop_the_run_and_can_be_looked_at(tmp_path: Path) -> None:
    write_csv_with_faults(tmp_path / "e.csv", 5)
    with pytest.raises(DataError) as raised:
        run(PATTERNS, [tmp_path / "e.csv"], tmp_path / "d.ndjson", max_bad=BadLimit.parse("4"))
    assert str(raised.value) == (
        "5 of 106 rows cannot be read, more than --max-bad allows (4); the first: the time cannot be read\n"
        f" --> {tmp_path}/e.csv, row 102\n"
        f"  = hint: they are in {tmp_path}/d.ndjson.aside.ndjson"
    )
    assert sorted(os.listdir(tmp_path)) == ["d.ndjson.aside.ndjson", "e.csv"]
    run(PATTERNS, [tmp_path / "e.csv"], tmp_path / "d.ndjson", max_bad=BadLimit.parse("5%"))
    assert (tmp_path / "d.ndjson").exists()


@pytest.mark.parametrize(
    ("limit", "n_bad", "n_rows", "allowed"),
    [
        (BadLimit(), 1000, 1000, True),
        (BadLimit(), 1001, 2000, False),
        (BadLimit(), 1001, 1_000_000, True),
        (BadLimit.parse("0"), 1, 10**9, False),
        (BadLimit.parse("2%"), 3, 100, False),
        (BadLimit.parse("2 %"), 2, 100, True),
    ],
)
def test_a_limit_is_a_number_or_a_share(limit: BadLimit, n_bad: int, n_rows: int, allowed: bool) -> None:
    assert limit.allows(n_bad, n_rows) is allowed


@pytest.mark.parametrize(
    ("limit", "n_bad", "n_rows", "allowed"),
    [
        (DEFAULT_LIMIT, 2, 3, False),
        (DEFAULT_LIMIT, 1, 1, True),  # a single row is no share
        (DEFAULT_LIMIT, 2, 4, True),
        (DEFAULT_LIMIT, 600, 1000, False),
        (DEFAULT_LIMIT, 20_000, 1_000_000, False),
        (BadLimit.parse("100%"), 3, 3, True),
        (BadLimit.parse("2"), 2, 3, True),
        (BadLimit.parse("1"), 2, 3, False),
    ],
)
def test_at_the_end_half_of_all_rows_is_too_many_unless_the_user_said_otherwise(
    limit: BadLimit, n_bad: int, n_rows: int, allowed: bool
) -> None:
    assert limit.allows_at_end(n_bad, n_rows) is allowed


def test_a_file_most_of_whose_rows_are_bad_is_a_wrong_file(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("id,ts,speed,engine\nv,never,1,\nv,2024-01-01T00:00:00Z,60,on\nv,nor now,1,\n")
    with pytest.raises(DataError) as raised:
        run(PATTERNS, [tmp_path / "e.csv"], tmp_path / "d.ndjson")
    assert str(raised.value) == (
        "2 of 3 rows cannot be read, more than half; the first: the time cannot be read\n"
        f" --> {tmp_path}/e.csv, row 2\n"
        f"  = hint: they are in {tmp_path}/d.ndjson.aside.ndjson; if that is as it should be, run with --max-bad 100%"
    )
    assert sorted(os.listdir(tmp_path)) == ["d.ndjson.aside.ndjson", "e.csv"]
    assert run(PATTERNS, [tmp_path / "e.csv"], tmp_path / "d.ndjson", max_bad=BadLimit.parse("100%")).events == 1
    (tmp_path / "e.csv").write_text("id,ts,speed,engine\nv,2024-01-01T00:00:00Z,60,on\nv,never,1,\n")
    assert run(PATTERNS, [tmp_path / "e.csv"], tmp_path / "d.ndjson").events == 1


@pytest.mark.parametrize("text", ["", "many", "-1", "200%", "1.5"])
def test_a_limit_that_is_neither_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="`"):
        BadLimit.parse(text)


def test_late_events_go_to_the_side_file_if_a_lateness_is_given(tmp_path: Path) -> None:
    patterns = wayeb_py.compile("stream s {\n key id\n time ts\n lateness 2 s\n}\npattern P := (x > 0) ; (x > 1)\n")
    times = [0, 3, 1, 2, 10, 7]  # 7 comes after 10; so does 1 after 3, but within 2 s
    table = pa.table({"id": [1] * 6, "ts": pa.array(times, pa.timestamp("s")), "x": [1, 4, 2, 3, 5, 6]})
    pq.write_table(table, tmp_path / "e.parquet")
    summary = run(patterns, [tmp_path / "e.parquet"], tmp_path / "d.ndjson")
    assert summary.aside == {"late": 1}
    assert summary.events == 5
    (row,) = [json.loads(line) for line in (tmp_path / "d.ndjson.aside.ndjson").read_text().splitlines()]
    assert row["values"] == {"id": 1, "ts": "1970-01-01T00:00:07", "x": 6}
    found = [json.loads(line)["seq"] for line in (tmp_path / "d.ndjson").read_text().splitlines()]
    assert found == [1, 2, 3, 4]


def test_a_time_beyond_all_times_is_set_aside(tmp_path: Path) -> None:
    patterns = wayeb_py.compile("stream s {\n key id\n time ts in s\n}\npattern P := (x > 0)\n")
    pq.write_table(pa.table({"id": [1, 1], "ts": [1.5, 1e300], "x": [1, 2]}), tmp_path / "e.parquet")
    summary = run(patterns, [tmp_path / "e.parquet"], tmp_path / "d.ndjson")
    assert (summary.events, sum(summary.aside.values())) == (1, 1)
    with pytest.raises(DataError, match="more than --max-bad allows"):
        run(patterns, [tmp_path / "e.parquet"], tmp_path / "d.ndjson", max_bad=BadLimit.parse("0"))


# ---- whole or not at all


def test_a_missing_column_stops_before_anything_is_written(tmp_path: Path) -> None:
    pq.write_table(EVENTS.drop_columns(["speed"]), tmp_path / "e.parquet")
    with pytest.raises(EventsError, match="has no column `speed`"):
        run(PATTERNS, [tmp_path / "e.parquet"], tmp_path / "d.parquet")
    assert os.listdir(tmp_path) == ["e.parquet"]


def test_an_interrupted_run_leaves_the_old_output_and_nothing_else(tmp_path: Path) -> None:
    pq.write_table(EVENTS, tmp_path / "e.parquet", row_group_size=100)
    (tmp_path / "d.csv").write_text("old")

    def interrupt(progress: Progress) -> None:
        if progress.n_events >= 500:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(PATTERNS, [tmp_path / "e.parquet"], tmp_path / "d.csv", on_progress=interrupt)
    assert sorted(os.listdir(tmp_path)) == ["d.csv", "e.parquet"]
    assert (tmp_path / "d.csv").read_text() == "old"


def test_the_output_never_replaces_its_own_input(tmp_path: Path) -> None:
    pq.write_table(EVENTS, tmp_path / "e.parquet")
    with pytest.raises(DataError, match="the output would replace its own input"):
        run(PATTERNS, [tmp_path], tmp_path / "e.parquet")


def test_progress_ends_with_all_that_there_is_to_read(tmp_path: Path) -> None:
    pq.write_table(EVENTS, tmp_path / "e.parquet", row_group_size=100)
    told: list[Progress] = []
    run(PATTERNS, [tmp_path / "e.parquet"], tmp_path / "d.csv", on_progress=told.append)
    assert [progress.n_events for progress in told] == list(range(100, 2001, 100))
    assert told[-1].n_bytes == pytest.approx(told[-1].total_bytes, rel=0.01)


def test_the_summary_can_be_written_as_json(tmp_path: Path) -> None:
    pq.write_table(EVENTS, tmp_path / "e.parquet")
    summary = runner.run(PATTERNS, [tmp_path / "e.parquet"], tmp_path / "d.csv")
    facts = json.loads(json.dumps(summary.to_json()))
    assert facts["events"] == 2000
    assert facts["events_per_s"] > 0
