"""Forecasts of a log are those of its events as one batch, however they arrive and wherever a run is stopped."""

from __future__ import annotations

import json
import threading
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests.cli.ended_command import Wayeb
from tests.forecast import test_pairs, test_places
from tests.forecast.test_forecasts import PATTERNS, STREAM, events
from tests.parallel.live.live_loops import TableLog
from wayeb_py.clock import Clock
from wayeb_py.errors import DataError
from wayeb_py.forecast.operator import ForecastOperator
from wayeb_py.forecast.tables import Horizon
from wayeb_py.parallel.live.live_forecasts import live_forecasts
from wayeb_py.parallel.logs.log import Offsets
from wayeb_py.run.forecasts import forecast, learn, load_tables

NAMES = ["AfterA", "Rise"]


def chosen() -> wayeb_py.Patterns:
    return wayeb_py.compile(STREAM + PATTERNS).select(NAMES)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    pq.write_table(events(), folder / "history.parquet")
    learn(chosen(), [str(folder / "history.parquet")], folder / "model")
    return folder / "model"


def forecaster(model: Path) -> ForecastOperator:
    return chosen().forecaster(model, "2min", at_least=0.05)


def as_one_batch(model: Path, table: pa.Table) -> list[dict[str, object]]:
    return by_pattern(forecaster(model).feed(table.to_batches()[0]).to_pylist())


def by_pattern(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """The rows, those of each pattern in their order: of many events one pattern's may come before the next one's."""
    return sorted(rows, key=lambda row: str(row["pattern"]))


class ArrivingLog(TableLog):
    """A table that is there bit by bit: each time it is asked, some more; it ends with its last event."""

    def __init__(self, table: pa.Table, step: int) -> None:
        super().__init__(table)
        self._all, self._step, self._there = table, step, 0

    def latest(self) -> Offsets:
        self._there = min(self._there + self._step, self._all.num_rows)
        return {"0": self._there}

    def ends(self) -> Offsets | None:
        return {"0": self._all.num_rows}


@pytest.mark.parametrize("step", [1000, 97])
def test_events_that_arrive_bit_by_bit_have_the_forecasts_of_one_batch(model: Path, step: int) -> None:
    given: list[pa.Table] = []
    n = live_forecasts(forecaster(model), ArrivingLog(events(4), step), given.append)
    rows = [row for table in given for row in table.to_pylist()]
    assert by_pattern(rows) == as_one_batch(model, events(4))
    assert n == len(rows) > 50
    assert len(given) >= events(4).num_rows // step


def test_forecasts_for_each_place_are_those_of_one_batch(tmp_path: Path) -> None:
    test_places.write_files(tmp_path)
    patterns, table, given = wayeb_py.compile(tmp_path / "each.sre"), test_places.events(600), list[pa.Table]()
    learn(patterns, [str(tmp_path / "events.parquet")], tmp_path / "model")
    live_forecasts(patterns.forecaster(tmp_path / "model", "2min"), ArrivingLog(table, 97), given.append)
    whole = patterns.forecaster(tmp_path / "model", "2min").feed(table.to_batches()[0]).to_pylist()
    assert [row for some in given for row in some.to_pylist()] == whole
    assert {row["place"] for row in whole} == {"A", "B", "C"}


def named(log: TableLog, name: str) -> TableLog:
    log.name = name
    return log


@pytest.mark.parametrize("way", ["ordered", "two streams"])
def test_forecasts_of_pairs_are_those_of_files_wherever_a_run_is_stopped(way: str, tmp_path: Path) -> None:
    case = test_pairs.case_of(way)
    patterns, tables, paths = case.patterns(), case.tables(), {}
    for name, table in tables.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
        paths[name] = [str(tmp_path / f"{name}.parquet")]
    learn(patterns, paths, tmp_path / "model")
    horizons = [(name, Horizon.parse("2min"), 0.7) for name in patterns.names]
    forecast(patterns, load_tables(patterns, tmp_path / "model", horizons), paths, tmp_path / "soon.parquet")
    given, state = list[pa.Table](), tmp_path / "soon.state"
    for n in (50, 51, 120):
        logs = {name: named(TableLog(table.slice(0, n)), name) for name, table in tables.items()}
        soon = patterns.forecaster(tmp_path / "model", "2min")
        live_forecasts(soon, logs, given.append, state=state, once=True)
    logs = {name: named(ArrivingLog(table, 37), name) for name, table in tables.items()}
    live_forecasts(patterns.forecaster(tmp_path / "model", "2min"), logs, given.append, state=state)
    rows = [row for some in given for row in some.to_pylist()]
    assert rows == pq.read_table(tmp_path / "soon.parquet").to_pylist()
    assert len(given) > 5


def test_a_run_goes_on_where_the_one_before_was_stopped(model: Path, tmp_path: Path) -> None:
    table, given, state = events(4), list[pa.Table](), tmp_path / "soon.state"
    for end in (0, 200, 201, 640, 900):
        log = TableLog(table.slice(0, end) if end else table.slice(0, 1))
        live_forecasts(forecaster(model), log, given.append, state=state, once=True)
    assert by_pattern([row for some in given for row in some.to_pylist()]) == as_one_batch(model, table)


def test_the_state_is_kept_on_the_way(model: Path, tmp_path: Path) -> None:
    given, state = list[pa.Table](), tmp_path / "soon.state"

    def give(rows: pa.Table) -> None:
        if len(given) == 5:
            raise KeyboardInterrupt
        given.append(rows)

    clock = Clock(steady_s=count(step=30).__next__)  # at every look half a minute later
    with pytest.raises(KeyboardInterrupt):
        live_forecasts(forecaster(model), ArrivingLog(events(4), 97), give, state=state, interval_s=30.0, clock=clock)
    live_forecasts(forecaster(model), ArrivingLog(events(4), 97), given.append, state=state)
    assert by_pattern([row for some in given for row in some.to_pylist()]) == as_one_batch(model, events(4))


def test_it_ends_when_it_is_told_to(model: Path) -> None:
    stop, given = threading.Event(), list[pa.Table]()

    def give(rows: pa.Table) -> None:
        given.append(rows)
        stop.set()

    assert live_forecasts(forecaster(model), TableLog(events(4)), give, stop=stop) > 0
    assert given


def test_a_file_of_something_else_is_refused(model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("{}")
    with pytest.raises(DataError, match="keeps no forecasts"):
        live_forecasts(forecaster(model), TableLog(events(4)), print, state=other, once=True)


def test_the_command_goes_on_with_a_folder_that_grows(model: Path, wayeb: Wayeb, tmp_path: Path) -> None:
    table, source, out = events(4), tmp_path / "events", tmp_path / "soon.ndjson"
    source.mkdir()
    (tmp_path / "p.sre").write_text(STREAM + PATTERNS)
    words = ["forecast", str(tmp_path / "p.sre"), "--model", str(model), "--horizon", "2min", "--at-least", "0.05"]
    words += ["--source", str(source), "--checkpoint", str(tmp_path / "kept"), "--once", "--out", str(out)]
    words += [word for name in NAMES for word in ("--pattern", name)]
    for number, (begin, end) in enumerate([(0, 300), (300, 900)]):
        pq.write_table(table.slice(begin, end - begin), source / f"{number}.parquet")
        wayeb(*words)
    rows = by_pattern([json.loads(line) for line in out.read_text().splitlines()])
    expected = as_one_batch(model, table)
    assert [(row["pattern"], row["entity"], row["ts"], row["probability"]) for row in rows] == [
        (row["pattern"], row["entity"], row["ts"], row["probability"]) for row in expected
    ]
