"""Back-pressure: the arithmetic with a clock of our own, the buffer in a task, and a data set that is replayed."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.polling import poll
from wayeb_py.clock import Clock
from wayeb_py.errors import DataError
from wayeb_py.files.formats.block import Block
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.logs.back_pressure import (
    Arrivals,
    Capacity,
    LivePressure,
    SourceState,
    Timetable,
    pass_time,
    read_states,
    take,
    write_states,
)
from wayeb_py.parallel.logs.log import OffsetRange
from wayeb_py.parallel.logs.replay import MAX, ReplayLog, Schedule, read_speed
from wayeb_py.parallel.logs.replay_store import store_events
from wayeb_py.parallel.stream.buffer import ReadAhead
from wayeb_py.patterns import compile_patterns

STREAM = "stream v {\n key id\n time ts in s\n attr speed number\n}\npattern Fast := (speed > 50) ; (speed > 50)\n"


def wanted() -> Wanted:
    patterns = compile_patterns(STREAM)
    return patterns.wanted


# The arithmetic.


def every_second(n: int, per_s: int = 1) -> Schedule:
    return Schedule(np.arange(n) / per_s, 0.0, 1.0)


def recognise_for(
    timetable: Timetable, capacity: Capacity, *, batch_s: float, per_s: float, wall_s: float
) -> tuple[SourceState, int]:
    """A recogniser that takes every offered event, and then is busy: for `batch_s`, and for each event."""
    state = SourceState(0.0, 0.0, 0, 0)
    now_s = 0.0
    while now_s < wall_s:
        before = state.taken
        state = take(state, state.offered)
        busy_s = batch_s + (state.taken - before) / per_s
        now_s += busy_s
        state = pass_time(state, now_s, timetable, capacity, stands=True)
    return state, state.taken


def test_no_source_waits_for_a_recogniser_that_keeps_up() -> None:
    state, _ = recognise_for(every_second(10**6, 100), Capacity(seconds=10), batch_s=0.5, per_s=1000, wall_s=600)
    assert state.ratio == 0.0


def test_no_source_waits_without_load() -> None:
    """A backlog between two batches is no reason to wait, nor is a source that has ended."""
    state, taken = recognise_for(every_second(50), Capacity(events=10), batch_s=5, per_s=1e9, wall_s=600)
    assert taken == 50
    assert state.ratio == 0.0


@pytest.mark.parametrize("per_s", [50.0, 10.0, 1.0])
def test_the_ratio_is_the_share_of_the_rate_that_is_not_taken(per_s: float) -> None:
    """100 events a second are due and `per_s` are recognised: for 1 - per_s / 100 of the time the source waits."""
    state, taken = recognise_for(every_second(10**7, 100), Capacity(seconds=1), batch_s=0, per_s=per_s, wall_s=10_000)
    assert state.ratio == pytest.approx(1 - per_s / 100, abs=0.02)
    assert taken / state.watched_s == pytest.approx(per_s, rel=0.05)


def test_the_ratio_rises_from_nothing_to_nearly_one_as_the_recogniser_is_slowed() -> None:
    ratios = [
        recognise_for(every_second(10**7, 100), Capacity(seconds=5), batch_s=0.5, per_s=per_s, wall_s=3000)[0].ratio
        for per_s in (1000, 200, 80, 40, 10, 2, 0.5)
    ]
    assert ratios == sorted(ratios)
    assert ratios[:2] == [0.0, 0.0]
    assert ratios[-1] > 0.98


def test_the_time_a_source_stood_is_what_it_is_behind_its_own_schedule() -> None:
    schedule = every_second(10**6, 100)
    state, _ = recognise_for(schedule, Capacity(seconds=1), batch_s=0.1, per_s=30, wall_s=1000)
    assert state.clock_s + state.waited_s == pytest.approx(state.at_s)
    behind = schedule.n_due(state.at_s) - state.offered
    assert behind / 100 == pytest.approx(state.waited_s, abs=1.1)


@settings(max_examples=100)
@given(
    st.lists(st.floats(0, 20), min_size=1, max_size=30),
    st.lists(st.floats(0.001, 30), min_size=1, max_size=10),
    st.integers(1, 5),
)
def test_one_long_step_is_the_same_as_many_short_ones(gaps: list[float], steps: list[float], events: int) -> None:
    """How often a test looks has no influence on the measurement."""
    schedule, capacity = Schedule(np.cumsum(gaps), 0.0, 1.0), Capacity(events=events)
    short = long = SourceState(0.0, 0.0, 0, 0)
    for now_s in np.cumsum(steps).tolist():
        short = pass_time(short, now_s, schedule, capacity, stands=True)
    long = pass_time(long, float(np.cumsum(steps)[-1]), schedule, capacity, stands=True)
    assert short.waited_s == pytest.approx(long.waited_s)
    assert short.offered == long.offered
    assert short.offered - short.taken <= events


def test_a_source_stops_at_the_moment_at_which_a_further_event_is_due() -> None:
    capacity = Capacity(events=3)
    state = pass_time(SourceState(0.0, 0.0, 0, 0), 10.0, every_second(100), capacity, stands=True)
    assert state.offered == 3  # due at 0, 1 and 2; the one that is due at 3 does not fit
    assert state.clock_s == 3.0
    assert state.waited_s == 7.0


def test_a_capacity_is_events_or_seconds() -> None:
    assert Capacity.parse("10") == Capacity(events=10)
    assert Capacity.parse("10s") == Capacity(seconds=10.0)


@pytest.mark.parametrize("text", ["0", "many", "-5"])
def test_a_capacity_that_is_neither_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="--buffer"):
        Capacity.parse(text)


# Live logs, which cannot be stopped.


def test_a_live_log_waits_while_more_has_arrived_than_the_buffer_holds() -> None:
    pressure = LivePressure(Capacity(events=100))
    pressure.look(0.0, {"a": 0}, {"a": 0})
    pressure.look(10.0, {"a": 200}, {"a": 0})  # evenly, so the buffer was full after 5 s
    assert pressure.states["a"].waited_s == pytest.approx(5.0, abs=0.06)
    pressure.take({"a": 200})
    pressure.look(20.0, {"a": 250}, {"a": 200})
    assert pressure.states["a"].waited_s == pytest.approx(5.0, abs=0.06)
    assert pressure.states["a"].ratio == pytest.approx(0.25, abs=0.01)


def test_a_live_log_that_is_taken_batch_by_batch_does_not_wait() -> None:
    pressure = LivePressure(Capacity(events=1000))
    taken = 0
    for second in range(0, 600, 3):
        pressure.look(float(second), {"a": second * 100}, {"a": taken})
        taken = second * 100
        pressure.take({"a": taken})
    assert pressure.states["a"].ratio == 0.0


def test_a_backlog_at_the_start_makes_a_live_log_wait_until_it_is_worked_off() -> None:
    pressure = LivePressure(Capacity(events=100))
    for second in range(20):
        pressure.look(float(second), {"a": 1000}, {"a": min(1000, second * 100)})
    assert pressure.states["a"].waited_s == pytest.approx(8.0)  # until 900 are taken and the last 100 fit
    assert pressure.states["a"].lag_events == 0


@settings(max_examples=60)
@given(st.lists(st.tuples(st.floats(0.01, 5), st.integers(0, 50)), min_size=1, max_size=30))
def test_arrivals_are_a_timetable(looks: list[tuple[float, int]]) -> None:
    arrivals = Arrivals(0.0, 0)
    at_s, arrived = 0.0, 0
    for passed_s, more in looks:
        at_s, arrived = at_s + passed_s, arrived + more
        arrivals.look(at_s, arrived)
    due = [arrivals.due_s(offset) for offset in range(arrived)]
    assert due == sorted(due)
    assert arrivals.n_due(at_s) == arrived
    assert arrivals.due_s(arrived) == float("inf")
    assert all(arrivals.n_due(moment) >= offset for offset, moment in enumerate(due))


def test_arrivals_of_a_long_backlog_are_thinned_and_keep_their_ends() -> None:
    arrivals = Arrivals(0.0, 0)
    for second in range(3 * Arrivals.MOST_LOOKS):
        arrivals.look(float(second), second)
    assert arrivals.due_s(3 * Arrivals.MOST_LOOKS - 2) == 3 * Arrivals.MOST_LOOKS - 1
    assert arrivals.due_s(1000) == pytest.approx(1001, abs=8)
    arrivals.forget(3 * Arrivals.MOST_LOOKS)
    assert arrivals.n_due(1e9) == 3 * Arrivals.MOST_LOOKS - 1


def test_states_travel_as_a_file(tmp_path: Path) -> None:
    states = {"0": SourceState(1.0, 0.5, 3, 7, 1.0, 0.5)}
    assert read_states(tmp_path / "states.json") == {}
    write_states(tmp_path / "states.json", states)
    assert read_states(tmp_path / "states.json") == states


# The buffer in a task.


def blocks(sizes: list[int]) -> Iterator[Block]:
    for number, size in enumerate(sizes):
        yield Block([pa.record_batch({"n": [number] * size})], n_rows=size)


def test_a_reader_faster_than_the_recogniser_fills_the_buffer_and_not_the_memory() -> None:
    handed_out = 0

    def endless() -> Iterator[Block]:
        nonlocal handed_out
        while True:
            handed_out += 10
            yield Block(n_rows=10)

    reading = ReadAhead(endless(), capacity_rows=50)
    deadline = threading.Event()
    while handed_out < 60 and not deadline.wait(0.001):  # five blocks fit, the sixth is in the reader's hands
        pass
    for _ in range(100):
        next(reading)
    reading.close()
    assert reading.waits.most_rows == 50
    assert handed_out <= 1000 + 50 + 10


def test_blocks_come_in_order_and_a_large_one_goes_in_alone() -> None:
    sizes = [3, 100, 1, 1, 200, 2]
    with ReadAhead(blocks(sizes), capacity_rows=10) as reading:
        assert [block.n_rows for block in reading] == sizes
    assert reading.waits.most_rows == 200


def test_the_one_who_waits_is_told_from_the_one_who_is_waited_for() -> None:
    """Time passes only while the recogniser works, and while the reader does."""
    now_s = [0.0]
    filled = threading.Event()

    def fast() -> Iterator[Block]:
        yield Block(n_rows=10)
        filled.set()
        yield Block(n_rows=10)

    reading = ReadAhead(fast(), capacity_rows=10, clock=Clock(steady_s=lambda: now_s[0]))
    assert filled.wait(10)
    poll(lambda: reading.is_full, "a full buffer")
    now_s[0] = 7.0  # the recogniser is slow
    assert len(list(reading)) == 2
    reading.close()
    assert reading.waits.reader_waited_s == 7.0
    assert reading.waits.recogniser_waited_s == 0.0


def test_what_fails_in_the_reader_fails_in_the_recogniser() -> None:
    def failing() -> Iterator[Block]:
        yield Block(n_rows=1)
        raise DataError("a bad sector")

    reading = ReadAhead(failing())
    next(reading)
    with pytest.raises(DataError, match="bad sector"):
        next(reading)
    reading.close()


def test_closing_ends_the_reader_and_closes_what_it_reads() -> None:
    closed = threading.Event()

    def endless() -> Iterator[Block]:
        try:
            while True:
                yield Block(n_rows=5)
        finally:
            closed.set()

    reading = ReadAhead(endless(), capacity_rows=20)
    next(reading)
    reading.close()
    assert closed.is_set()


# The replayed data set.


def write_csv(path: Path, rows: list[tuple[object, object, object]]) -> Path:
    path.write_text("id,ts,speed\n" + "".join(f"{key},{ts},{speed}\n" for key, ts, speed in rows))
    return path


def replayed(log: ReplayLog, partition: str, start: int, end: int) -> list[tuple[int, int, float]]:
    schema = log.schema(wanted())
    assert schema is not None
    rows: list[tuple[int, int, float]] = []
    for block in log.read(OffsetRange(partition, start, end), wanted(), schema):
        for batch in block.batches:
            rows += [(row["id"], row["ts"], row["speed"]) for row in batch.to_pylist()]
    return rows


def test_events_are_offered_when_their_time_has_come(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "a.csv", [(1, 100 + 10 * n, n) for n in range(10)])
    store_events([data], wanted(), tmp_path / "store")
    clock = Clock(steady_s=lambda: 1003.5)
    log = ReplayLog(tmp_path / "store", speed=10.0, capacity=Capacity(events=100), clock=clock)
    assert log.offer(1000.0, {"0": 0}) == {"0": 1}
    assert log.latest() == {"0": 4}
    assert log.offer(1100.0, {}) == {"0": 10}
    assert log.ends() == {"0": 10}
    assert log.states["0"].ratio == 0.0


def test_the_clock_of_a_replay_stands_while_its_buffer_is_full(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "a.csv", [(1, n, n) for n in range(100)])
    store_events([data], wanted(), tmp_path / "store")
    log = ReplayLog(tmp_path / "store", speed=1.0, capacity=Capacity(events=5))
    assert log.offer(0.0, {}) == {"0": 1}
    assert log.offer(45.0, {}) == {"0": 5}  # from 5 s on it stands
    assert log.states["0"].waited_s == 40.0
    log.take("0", 5)
    assert log.offer(47.0, {}) == {"0": 8}
    assert log.states["0"].clock_s + log.states["0"].waited_s == 47.0


def test_a_restarted_replay_resumes_where_the_checkpoint_is(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "a.csv", [(1, n, n) for n in range(100)])
    store_events([data], wanted(), tmp_path / "store")
    log = ReplayLog(tmp_path / "store", speed=2.0)
    copy: ReplayLog = pickle.loads(pickle.dumps(log))
    assert copy.offer(500.0, {"0": 40}) == {"0": 41}
    assert copy.offer(510.0, {"0": 41}) == {"0": 61}
    assert replayed(copy, "0", 40, 42) == [(1, 40, 40.0), (1, 41, 41.0)]


def test_at_the_speed_max_everything_that_fits_is_offered_at_once(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "a.csv", [(1, n * 86400, n) for n in range(100)])
    store_events([data], wanted(), tmp_path / "store")
    log = ReplayLog(tmp_path / "store", speed=read_speed("max"), capacity=Capacity(events=30))
    assert log.offer(0.0, {}) == {"0": 30}
    assert log.offer(1.0, {"0": 30}) == {"0": 60}
    assert log.states["0"].ratio == 1.0
    assert ReplayLog(tmp_path / "store", MAX).offer(0.0, {}) == {"0": 100}
    with pytest.raises(DataError, match="as a number of events"):
        ReplayLog(tmp_path / "store", MAX, Capacity(seconds=10))


@pytest.mark.parametrize("text", ["0", "-1", "fast", "inf", "nan"])
def test_a_speed_is_a_positive_number_or_max(text: str) -> None:
    with pytest.raises(DataError, match="--speed"):
        read_speed(text)


def test_files_by_day_and_files_by_entity_are_one_stream(tmp_path: Path) -> None:
    """However the data set is cut, each entity is in one partition, and all are merged in the order of time."""
    rng = np.random.default_rng(5)
    times = np.sort(rng.integers(0, 1000, 300))
    rows = [(int(key), int(ts), float(speed)) for key, ts, speed in zip(
        rng.integers(1, 20, 300), times, rng.integers(0, 100, 300), strict=True)]  # fmt: skip
    write_csv(tmp_path / "monday.csv", [row for row in rows if row[1] < 500])
    write_csv(tmp_path / "tuesday.csv", [row for row in rows if row[1] >= 500])
    by_day = store_events([tmp_path / "monday.csv", tmp_path / "tuesday.csv"], wanted(), tmp_path / "by_day", 3)
    for name, kept in (("odd", 1), ("even", 0)):
        ids, ts, speed = zip(*[row for row in rows if row[0] % 2 == kept], strict=True)
        table = pa.table({"id": pa.array(ids, pa.int64()), "ts": pa.array(ts, pa.int64()), "speed": list(speed)})
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=37)
    by_entity = store_events([tmp_path / "even.parquet", tmp_path / "odd.parquet"], wanted(), tmp_path / "by_entity", 3)
    assert by_day.rows == by_entity.rows
    assert sum(by_day.rows) == 300
    one, other = ReplayLog(tmp_path / "by_day"), ReplayLog(tmp_path / "by_entity")
    everything = []
    for partition, n_rows in enumerate(by_day.rows):
        of_day, of_entity = (replayed(log, str(partition), 0, n_rows) for log in (one, other))
        assert [row[1] for row in of_day] == sorted(row[1] for row in of_day)
        assert sorted(of_day) == sorted(of_entity)
        for key in {row[0] for row in of_day}:
            of_key = [row for row in rows if row[0] == key]
            assert [row for row in of_day if row[0] == key] == of_key
            assert [row for row in of_entity if row[0] == key] == of_key
        everything += of_day
    assert sorted(everything) == sorted(rows)


def test_a_range_is_the_same_however_it_is_cut(tmp_path: Path) -> None:
    n_rows = 40_000  # more than two stored batches
    table = pa.table({"id": np.arange(n_rows) % 7, "ts": np.arange(n_rows), "speed": np.arange(n_rows) / 2})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=3000)
    store_events([tmp_path / "a.parquet"], wanted(), tmp_path / "store")
    log = ReplayLog(tmp_path / "store")
    whole = replayed(log, "0", 0, n_rows)
    cuts = [0, 1, 16_383, 16_384, 16_385, 32_768, 39_999, n_rows]
    assert [row for start, end in pairwise(cuts) for row in replayed(log, "0", start, end)] == whole
    assert [row[1] for row in whole] == list(range(n_rows))


def test_late_events_are_replayed_late(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "a.csv", [(1, 0, 0), (1, 50, 1), (1, 20, 2), (1, 60, 3)])
    store_events([data], wanted(), tmp_path / "store")
    log = ReplayLog(tmp_path / "store")
    assert [row[1] for row in replayed(log, "0", 0, 4)] == [0, 50, 20, 60]
    log.offer(0.0, {})
    assert log.offer(49.9, {"0": 1}) == {"0": 1}
    assert log.offer(50.0, {}) == {"0": 3}


def test_rows_that_are_no_events_keep_their_places(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,ts,speed\n1,0,5\n1,,6\n1,10,abc\n1,20,7\n")
    stored = store_events([tmp_path / "a.csv"], wanted(), tmp_path / "store")
    assert stored.rows == (4,)
    log = ReplayLog(tmp_path / "store")
    schema = log.schema(wanted())
    assert schema is not None
    read = list(log.read(OffsetRange("0", 0, 4), wanted(), schema))
    assert sum(block.n_rows for block in read) == 4
    assert [(row.row, row.reason) for block in read for row in block.aside] == [(3, "no time")]
    assert [block.unreadable["speed"].example for block in read] == ["abc"]
    assert sum(batch.num_rows for block in read for batch in block.batches) == 3


def test_a_replay_of_changed_data_is_refused(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "a.csv", [(1, 0, 0)])
    stored = store_events([data], wanted(), tmp_path / "store")
    assert store_events([data], wanted(), tmp_path / "store") == stored
    with pytest.raises(DataError, match="began with 1 source partitions, not 2"):
        store_events([data], wanted(), tmp_path / "store", 2)
    write_csv(data, [(1, 0, 0), (1, 1, 1)])
    with pytest.raises(DataError, match="not the one that this replay began with"):
        store_events([data], wanted(), tmp_path / "store")


def test_a_replay_whose_patterns_ask_for_more_columns_keeps_its_offsets(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,ts,speed,fuel\n" + "".join(f"{n % 5},{n},{n},{n}\n" for n in range(50)))
    before = store_events([tmp_path / "a.csv"], wanted(), tmp_path / "store", 2)
    more = compile_patterns(STREAM.replace("attr speed number", "attr speed number\n attr fuel number") + (
        "pattern Low := (fuel < 3)\n"))  # fmt: skip
    wider = Wanted.from_needs(more.needs, "s")
    after = store_events([tmp_path / "a.csv"], wider, tmp_path / "store", 2)
    assert (after.rows, after.data) == (before.rows, before.data)
    schema = ReplayLog(tmp_path / "store").schema(wider)
    assert schema is not None
    assert set(schema.names) == {"id", "ts", "speed", "fuel"}
