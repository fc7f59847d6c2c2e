"""Recorded events are sent again by their own time: all of them, in order, none before it is due."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

from tests.polling import DEADLINE_S, poll
from wayeb_py.clock import Clock
from wayeb_py.errors import DataError, EventsError
from wayeb_py.files import sort
from wayeb_py.parallel.replay import recorded as recorded_module
from wayeb_py.parallel.replay import replay as replay_module
from wayeb_py.parallel.replay.recorded import Recorded, open_recorded
from wayeb_py.parallel.replay.replay import TICK_S, ReplaySummary, replay
from wayeb_py.parallel.replay.replay_sinks import FolderReplaySink, TopicReplaySink

START = 1_700_000_000


def events(n: int = 300, n_entities: int = 7, step_s: float = 1.0) -> pa.Table:
    dice = np.random.default_rng(4)
    ticks = (START * 1000 + np.arange(n) * step_s * 1000).astype(np.int64)
    return pa.table(
        {
            "id": pa.array([f"e{number % n_entities}" for number in range(n)]),
            "ts": pa.array(ticks).cast(pa.timestamp("ms", "UTC")),
            "v": dice.uniform(0, 100, n),
            "place": pa.array([None if number % 3 else 'a "b"' for number in range(n)]),
            "number": np.arange(n),
        }
    )


class Passing(threading.Event):
    """Time that passes only while a replay waits, and a stop that ends it."""

    def __init__(self, now_s: float = 0.0) -> None:
        super().__init__()
        self.now_s = now_s

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.now_s += timeout
        return self.is_set()


def by_hand(recorded: Recorded, target: Sent, speed: float) -> ReplaySummary:
    """A replay on the target's clock."""
    passing = target.passing
    return replay(recorded, target, speed, stop=passing, clock=Clock(steady_s=lambda: passing.now_s))


class Sent:
    """A target that keeps the events that it gets, and when."""

    def __init__(self, passing: Passing | None = None, wait_s: float = 0.0, stop_after: int | None = None) -> None:
        self.passing = passing or Passing()
        self.batches: list[pa.RecordBatch] = []
        self.at_s: list[float] = []
        self.closed: bool | None = None
        self._wait_s, self._stop_after = wait_s, stop_after

    def open(self, schema: pa.Schema, key: str) -> None:
        self.opened_s = self.passing.now_s

    def encode(self, events: pa.RecordBatch) -> pa.RecordBatch:
        return events

    def send(self, encoded: pa.RecordBatch, start: int, end: int) -> None:
        self.batches.append(encoded.slice(start, end - start))
        self.at_s += [self.passing.now_s] * (end - start)
        self.passing.now_s += self._wait_s
        if self._stop_after is not None and len(self.at_s) >= self._stop_after:
            self.passing.set()

    def idle(self) -> None:
        pass

    def close(self, failed: bool) -> None:
        self.closed = failed

    @property
    def table(self) -> pa.Table:
        return pa.Table.from_batches(self.batches)


def sorted_rows(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row["number"])


def in_order(table: pa.Table, folder: Path) -> None:
    pq.write_table(table, folder / "a.parquet", row_group_size=100)


def by_entity(table: pa.Table, folder: Path) -> None:
    for entity in range(7):
        own = table.filter(pa.array(table["number"].to_numpy() % 7 == entity))
        pq.write_table(own, folder / f"{entity}.parquet")


def shuffled(table: pa.Table, folder: Path) -> None:
    order = np.random.default_rng(1).permutation(len(table))
    pq.write_table(table.take(pa.array(order)), folder / "a.parquet")


def csv_by_day(table: pa.Table, folder: Path) -> None:
    for number, start in enumerate(range(0, 2000, 700)):
        pcsv.write_csv(table.slice(start, 700), folder / f"{number}.csv")


def ndjson(table: pa.Table, folder: Path) -> None:
    lines = [json.dumps(row, default=lambda at: at.isoformat()) for row in table.to_pylist()]
    (folder / "a.ndjson").write_text("\n".join(lines))


@pytest.mark.parametrize(
    ("lay_out", "is_in_order"),
    [(in_order, True), (by_entity, False), (shuffled, False), (csv_by_day, True), (ndjson, True)],
)
def test_whatever_the_files_events_come_in_the_order_of_time(
    tmp_path: Path, lay_out: Callable[[pa.Table, Path], None], is_in_order: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded_module, "CHUNK_ROWS", 37)
    monkeypatch.setattr(sort, "RUN_BYTES", 1 << 12)
    table = events(2000, step_s=60)
    lay_out(table, tmp_path)
    recorded = open_recorded([tmp_path], "id", "ts")
    assert recorded.is_in_order() == is_in_order
    target = Sent()
    summary = replay(recorded, target, None)
    assert summary.events == 2000
    assert summary.end == "everything was sent"
    assert target.closed is False
    assert target.table["number"].to_pylist() == list(range(2000))
    assert set(target.table.column_names) == {"id", "ts", "v", "place", "number"}
    assert target.table["v"].to_pylist() == pytest.approx(table["v"].to_pylist(), rel=1e-12)


@pytest.mark.parametrize("speed", [500.0, 333.0, 7.3])
@pytest.mark.parametrize("opened_s", [0.0, 123_456.789])
def test_no_event_is_sent_before_it_is_due(tmp_path: Path, speed: float, opened_s: float) -> None:
    pq.write_table(events(400), tmp_path / "a.parquet")
    target = Sent(Passing(opened_s))
    summary = by_hand(open_recorded([tmp_path], "id", "ts"), target, speed)
    # The schedule begins with the first event, which goes out as soon as the target is open.
    late_s = [at_s - target.opened_s - number / speed for number, at_s in enumerate(target.at_s)]
    assert min(late_s) >= 0.0
    assert max(late_s) <= TICK_S + 1e-9
    assert summary.seconds >= 399 / speed
    assert len(target.batches) > 5, "events were not sent as they became due"
    assert (summary.first_event_s, summary.last_event_s) == (START, START + 399)


def test_a_target_that_cannot_keep_up_shows_as_lag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_module, "SENT_ROWS", 150)
    pq.write_table(events(400), tmp_path / "a.parquet")
    at_ease = replay(open_recorded([tmp_path], "id", "ts"), Sent(), None)
    assert at_ease.to_json()["lag"] is None
    slow = Sent(wait_s=0.3)
    # Everything is due within 0.004 s, and the second part cannot go before the first was taken.
    summary = by_hand(open_recorded([tmp_path], "id", "ts"), slow, 100_000.0)
    assert summary.events == 400
    assert summary.lag.greatest_s == pytest.approx(0.9, abs=0.01), (
        "the last part waits for the first event and two parts"
    )
    assert summary.to_json()["lag"]["greatest_s"] == round(summary.lag.greatest_s, 3)
    assert 0 < summary.lag.mean_s <= summary.lag.greatest_s
    assert (summary.reached_speed or 0) < 100_000 / 10


def test_a_replay_that_is_stopped_ends_after_what_it_is_sending(tmp_path: Path) -> None:
    pq.write_table(events(1000), tmp_path / "a.parquet")
    target = Sent(stop_after=10)
    summary = by_hand(open_recorded([tmp_path], "id", "ts"), target, 200.0)
    assert summary.end == "stopped as asked"
    assert 10 <= summary.events < 1000
    assert summary.events == len(target.at_s)
    assert target.closed is False


def test_a_failing_target_is_closed_and_its_error_told(tmp_path: Path) -> None:
    class Full(Sent):
        def send(self, encoded: pa.RecordBatch, start: int, end: int) -> None:
            raise DataError("no room left")

    pq.write_table(events(50), tmp_path / "a.parquet")
    target = Full()
    with pytest.raises(DataError, match="no room left"):
        replay(open_recorded([tmp_path], "id", "ts"), target, None)
    assert target.closed is True


def test_as_recorded_late_events_stay_late(tmp_path: Path) -> None:
    table = events(100)
    order = [*range(50), 10, *range(50, 100), 20]
    pq.write_table(table.take(pa.array(order)), tmp_path / "a.parquet")
    target = Sent()
    recorded = open_recorded([tmp_path], "id", "ts", as_recorded=True)
    by_hand(recorded, target, 1000.0)
    assert target.table["number"].to_pylist() == order
    due_s = [due for chunk, _ in recorded.chunks() for due in chunk.tolist()]
    assert due_s[50] == START + 49, "a late event is due as soon as what stands before it"


def test_rows_that_are_no_events_are_counted_and_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,ts,v\na,2024-01-01T00:00:00Z,1\n,2024-01-01T00:00:01Z,2\nb,soon,3\n")
    recorded = open_recorded([tmp_path], "id", "ts")
    summary = replay(recorded, Sent(), None)
    assert (summary.events, summary.bad) == (1, {"no key": 1, "the time cannot be read": 1})
    assert recorded.first_bad is not None
    assert recorded.first_bad.row == 3


def test_a_data_set_without_events_is_replayed_as_such(tmp_path: Path) -> None:
    pq.write_table(events(10).slice(0, 0), tmp_path / "a.parquet")
    summary = replay(open_recorded([tmp_path], "id", "ts"), Sent(), 10.0)
    assert (summary.events, summary.reached_speed, summary.first_event_s) == (0, None, None)


def test_since_until_and_columns_select(tmp_path: Path) -> None:
    from fractions import Fraction

    pq.write_table(events(100), tmp_path / "a.parquet")
    target = Sent()
    recorded = open_recorded(
        [tmp_path], "id", "ts", columns=["number"], since_s=Fraction(START + 10), until_s=Fraction(START + 20)
    )
    replay(recorded, target, None)
    assert target.table.column_names == ["id", "ts", "number"]
    assert target.table["number"].to_pylist() == list(range(10, 20))
    with pytest.raises(EventsError, match="did you mean `id`"):
        open_recorded([tmp_path], "Id", "ts")


def rows_of_parquet(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.ParquetFile(path).read().to_pylist()
    return rows


def rows_of_ndjson(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(("file_format", "rows_of"), [("parquet", rows_of_parquet), ("ndjson", rows_of_ndjson)])
def test_a_folder_holds_an_entity_in_one_partition_in_order(
    tmp_path: Path,
    file_format: Any,
    rows_of: Callable[[Path], list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replay_module, "SENT_ROWS", 50)
    pq.write_table(events(500), tmp_path / "a.parquet")
    target = FolderReplaySink(tmp_path / "out", 3, file_format, every_s=60, file_rows=120)
    replay(open_recorded([tmp_path / "a.parquet"], "id", "ts"), target, None)
    seen: dict[str, str] = {}
    numbers = []
    for part in sorted((tmp_path / "out").iterdir()):
        own = []
        for path in sorted(part.iterdir()):
            rows = rows_of(path)
            own += [row["number"] for row in rows]
            for row in rows:
                assert seen.setdefault(row["id"], part.name) == part.name
        assert own == sorted(own)
        numbers += own
    assert sorted(numbers) == list(range(500))
    assert len(set(seen.values())) > 1
    assert len(list((tmp_path / "out").rglob("events-*"))) > 3, "file_rows was not heeded"
    assert not list((tmp_path / "out").rglob(".*"))


def test_one_partition_needs_no_sub_folder_and_a_folder_with_events_is_refused(tmp_path: Path) -> None:
    pq.write_table(events(20), tmp_path / "a.parquet")
    recorded = open_recorded([tmp_path / "a.parquet"], "id", "ts")
    replay(recorded, FolderReplaySink(tmp_path / "out", 1), None)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["events-000000001.parquet"]
    with pytest.raises(DataError, match="already holds events"):
        replay(recorded, FolderReplaySink(tmp_path / "out", 1), None)


def test_a_folder_gets_a_file_for_every_interval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_module, "SENT_ROWS", 5)
    pq.write_table(events(20), tmp_path / "a.parquet")
    often = FolderReplaySink(tmp_path / "often", 1, every_s=60.0, clock=Clock(steady_s=count(step=60).__next__))
    replay(open_recorded([tmp_path / "a.parquet"], "id", "ts"), often, None)
    assert len(list((tmp_path / "often").iterdir())) == 4


def test_what_json_cannot_hold_plainly_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    table = events(3).append_column("tags", pa.array([["a"], [], ["b", "c"]]))
    pq.write_table(table, tmp_path / "a.parquet")
    recorded = open_recorded([tmp_path / "a.parquet"], "id", "ts")
    for target in (TopicReplaySink("kafka://127.0.0.1:1/x"), FolderReplaySink(tmp_path / "out", 1, "ndjson")):
        with pytest.raises(DataError, match="column `tags` is list") as refused:
            replay(recorded, target, None)
        assert "--columns" in (refused.value.hint or "")
    replay(recorded, FolderReplaySink(tmp_path / "parquet", 1), None)
    assert pq.read_table(tmp_path / "parquet")["tags"].to_pylist() == [["a"], [], ["b", "c"]]


def wayeb(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from wayeb_py.cli import main; main()", "replay", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_command_replays_into_a_folder_and_reports(tmp_path: Path) -> None:
    pq.write_table(events(100), tmp_path / "a.parquet")
    told = wayeb(tmp_path / "a.parquet", "--to", tmp_path / "out", "--key", "id", "--time", "ts", "--speed", "4320")
    assert told.returncode == 0, told.stderr
    assert "everything was sent" in told.stderr
    assert "4,320 asked for" in told.stderr
    assert " s at most" in told.stderr
    again = wayeb(
        tmp_path / "a.parquet", "--to", tmp_path / "two", "--key", "id", "--time", "ts", "--speed", "max", "--json"
    )
    facts = json.loads(again.stdout)
    assert (facts["events"], facts["speed"], facts["lag"], facts["end"]) == (100, None, None, "everything was sent")


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--speed", "fast"], 2, "--speed fast: it is a number above 0, such as 4320, or max"),
        (["--speed", "0"], 2, "it is a number above 0"),
        (["--every", "soon"], 2, "`soon` is not a duration"),
        (["--to", "http://x"], 2, "it is kafka://HOST:PORT/TOPIC, or a folder"),
        (["--to", "kafka://a:9092/"], 3, "names no topic"),
        (["--key", "nobody"], 3, "has no key column `nobody`"),
        (["--time", "number"], 3, "its unit is not known"),
    ],
)
def test_a_command_line_that_cannot_be_meant_is_told_why(
    tmp_path: Path, options: list[str], code: int, message: str
) -> None:
    from typer.testing import CliRunner

    from wayeb_py.cli import app

    pq.write_table(events(5), tmp_path / "a.parquet")
    usual = ["replay", str(tmp_path / "a.parquet"), "--to", str(tmp_path / "out"), "--key", "id", "--time", "ts"]
    told = CliRunner().invoke(app, [*usual, *options])
    assert told.exit_code == code
    assert message in told.stderr
    assert not (tmp_path / "out").exists()


def test_sigterm_ends_a_replay_in_order(tmp_path: Path) -> None:
    pq.write_table(events(1000), tmp_path / "a.parquet")
    program = "from wayeb_py.cli import main; main()"
    usual = ["replay", str(tmp_path / "a.parquet"), "--to", str(tmp_path / "out"), "--key", "id", "--time", "ts"]
    command = [sys.executable, "-c", program, *usual, "--speed", "20", "--every", "100ms", "--json"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    poll(lambda: list((tmp_path / "out").rglob("*.parquet")), "the first file")
    os.kill(running.pid, signal.SIGTERM)
    out, _ = running.communicate(timeout=DEADLINE_S)
    facts = json.loads(out)
    assert facts["end"] == "stopped as asked"
    written = sum(pq.ParquetFile(path).metadata.num_rows for path in (tmp_path / "out").rglob("*.parquet"))
    assert written == facts["events"] < 1000
