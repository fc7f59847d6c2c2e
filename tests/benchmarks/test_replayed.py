"""What a replayed stream's numbers are made of: timetables in rounds, the steady state, latency, the highest held
rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wayeb_py
from benchmarks.inputs.ports_sea import N_IN_REACH, messages, port_patterns
from benchmarks.replays.endless_log import PAUSE_S, SKIPPED, EndlessLog, RoundSchedule
from benchmarks.replays.highest_speed import find_highest
from benchmarks.replays.steady_state import latency_s, offered_at_s, plans, steady
from benchmarks.replays.watched_replay import Subject, expected_ids
from wayeb_py.engine.rows.detection_id import with_ids
from wayeb_py.parallel.logs.back_pressure import Capacity, SourceState, pass_time, take
from wayeb_py.parallel.logs.log import OffsetRange
from wayeb_py.parallel.logs.replay import MAX, Schedule
from wayeb_py.parallel.logs.replay_store import store_events
from wayeb_py.parallel.wire.shards import shard_of

PATTERNS = """stream v {
    key id
    time ts
    attr speed number
}
pattern Stops := (speed > 50) ; (speed < 10)
"""
BEGAN_S = 1_700_000_000
N_EVENTS, N_IDS = 1200, 12
BUFFER = Capacity(seconds=2.0)


def events(rounds: int = 1, span_s: int = 0) -> pa.Table:
    """An event every quarter of a second; each round later by a span."""
    dice = np.random.default_rng(5)
    speed = dice.uniform(0, 100, N_EVENTS)
    ts_ms = 1000 * BEGAN_S + np.arange(N_EVENTS) * 250
    return pa.table(
        {
            "id": np.tile(np.arange(N_EVENTS) % N_IDS, rounds),
            "ts": pa.array(
                np.concatenate([ts_ms + 1000 * span_s * n for n in range(rounds)]), pa.timestamp("ms", tz="UTC")
            ),
            "speed": np.tile(speed, rounds),
        }
    )


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    pq.write_table(events(), tmp_path / "events.parquet")
    return Subject("made up", tmp_path / "events.parquet", wayeb_py.compile(PATTERNS))


@pytest.fixture
def endless(subject: Subject, tmp_path: Path) -> Callable[[int, float], EndlessLog]:
    def open_log(partitions: int, speed: float) -> EndlessLog:
        folder = tmp_path / f"store-{partitions}"
        store_events([subject.events], subject.wanted, folder, partitions)
        return EndlessLog(folder, speed, BUFFER)

    return open_log


# Rounds.


@pytest.mark.parametrize("speed", [1.0, 7.3, 86_400.0])
def test_a_timetable_in_rounds_is_that_of_the_rounds_one_after_the_other(speed: float) -> None:
    due_s = BEGAN_S + np.sort(np.random.default_rng(1).uniform(0, 100, 50)).round(1)
    in_rounds = RoundSchedule(due_s, BEGAN_S, speed, 110.0)
    whole = Schedule(np.concatenate([due_s + 110.0 * n for n in range(5)]), BEGAN_S, speed)
    for offset in range(200):
        assert in_rounds.due_s(offset) == pytest.approx(whole.due_s(offset), abs=1e-5 / speed)
        assert in_rounds.n_due(in_rounds.due_s(offset)) > offset
        assert in_rounds.n_due(np.nextafter(in_rounds.due_s(offset), -1)) <= offset
    for clock_s in np.random.default_rng(2).uniform(0, 400 / speed, 300):
        assert in_rounds.n_due(clock_s) == whole.n_due(clock_s)


def test_the_second_round_is_read_later_and_reading_may_begin_and_end_anywhere(
    subject: Subject, endless: Callable[[int, float], EndlessLog]
) -> None:
    log = endless(1, 1.0)
    assert log.span_s == N_EVENTS // 4 + PAUSE_S
    schema = log.schema(subject.wanted)
    assert schema is not None
    whole = events(3, log.span_s).select(list(subject.wanted.names)).cast(schema)
    for start, end in [(0, 3 * N_EVENTS), (1190, 1210), (N_EVENTS, 2 * N_EVENTS), (2500, 2501)]:
        blocks = log.read(OffsetRange("0", start, end), subject.wanted, schema)
        read = pa.Table.from_batches([batch for block in blocks for batch in block.batches], schema)
        assert read.equals(whole.slice(start, end - start))


def test_what_one_process_finds_is_found_over_the_rounds(
    subject: Subject, endless: Callable[[int, float], EndlessLog]
) -> None:
    log = endless(3, 1.0)
    whole = events(2, log.span_s)
    seconds = whole["ts"].cast(pa.int64()).to_numpy() / 1000
    whole = whole.filter(pa.array(seconds > BEGAN_S + SKIPPED * log.span_s))
    taken = {str(n): 2 * int((shard_of(events()["id"], 3) == n).sum()) for n in range(3)}
    found = with_ids(subject.patterns.recognise(whole).to_arrow())
    expected = expected_ids(log, subject, taken)
    assert 0 < sum(log.earliest().values()) == 2 * N_EVENTS - len(whole)
    assert expected == sorted(found["detection_id"].to_pylist()) != []
    assert len(expected_ids(log, subject, taken | {"1": taken["1"] // 2})) < len(expected)


# The steady state.


def test_a_replay_begins_with_full_buffers_and_nothing_waited(endless: Callable[[int, float], EndlessLog]) -> None:
    log = endless(2, 20.0)
    offered = log.offer(50.0, {})
    assert sum(offered.values()) == pytest.approx(4 * 20 * 2.0, abs=4)
    assert all(state.watched_s == state.waited_s == 0.0 for state in log.states.values())
    later = log.offer(51.0, {})
    assert sum(later.values()) == pytest.approx(sum(offered.values()), abs=4)  # nothing was taken
    assert all(state.waited_s == pytest.approx(1.0, abs=0.1) for state in log.states.values())


def watched(log: EndlessLog, batch_s: float, n_batches: int, started_s: float = 30.0) -> list[dict[str, SourceState]]:
    """Looks at sources whose batches take `batch_s`, each planned when the previous one is done; the first starts
    late."""
    names = list(log.earliest())
    log.start(0.0, {})
    states, now_s = dict(log.states), 0.0
    looks = []
    for number in range(n_batches):
        now_s += started_s if number == 0 else batch_s
        for name in names:
            states[name] = pass_time(states[name], now_s, log.schedule(name), log.capacity, stands=True)
        looks.append(dict(states))
        states = {name: take(state, state.offered) for name, state in states.items()}
        looks.append(dict(states))
    return looks


def test_a_recogniser_that_keeps_up_has_no_pressure_and_takes_what_is_due(
    endless: Callable[[int, float], EndlessLog],
) -> None:
    log = endless(2, 50.0)
    between = steady(watched(log, 1.5, 20), log, since_s=31.0)
    assert between.ratio == 0.0
    assert between.taken_per_s == pytest.approx(between.due_per_s)
    assert between.seconds == pytest.approx(18 * 1.5)
    assert between.batches == 18
    assert between.due_per_s == pytest.approx(log.events_per_s * 50, rel=0.2)


def test_a_batch_twice_as_long_as_the_buffer_makes_sources_wait_half_of_the_time(
    endless: Callable[[int, float], EndlessLog],
) -> None:
    log = endless(2, 20.0)
    looks = watched(log, 4.0, 6)  # within a round
    between = steady(looks, log, since_s=31.0)
    assert between.ratio == pytest.approx(0.5, abs=0.02)
    assert set(between.ratios) == {"0", "1"}
    assert between.taken_per_s == pytest.approx(4 * 20 * (1 - between.ratio), rel=0.01)
    with_start = steady(looks, log, since_s=0.0)
    assert with_start.began_s < between.began_s


def test_what_happened_before_the_steady_state_does_not_count(endless: Callable[[int, float], EndlessLog]) -> None:
    log = endless(1, 50.0)
    looks = watched(log, 1.0, 20, started_s=100.0)
    assert looks[-1]["0"].ratio > 0.7  # over all of the run
    assert steady(looks, log, since_s=100.5).ratio == 0.0


def test_a_run_without_a_whole_batch_has_no_steady_state(endless: Callable[[int, float], EndlessLog]) -> None:
    log = endless(1, 50.0)
    looks = watched(log, 1.0, 5)
    assert len(plans(looks, 33.5)) == 1
    with pytest.raises(ValueError, match="too short"):
        steady(looks, log, since_s=33.5)


def test_at_the_speed_max_nothing_is_due_at_a_rate(endless: Callable[[int, float], EndlessLog], tmp_path: Path) -> None:
    endless(1, 1.0)
    log = EndlessLog(tmp_path / "store-1", MAX, Capacity(events=1000))
    between = steady(watched(log, 2.0, 10), log, since_s=31.0)
    assert between.due_per_s is None
    assert between.taken_per_s == pytest.approx(500)
    assert between.ratio == 1.0


# Latency.


def test_an_event_is_offered_when_its_clock_reaches_it_and_a_clock_may_stand() -> None:
    # It runs from 10 to 12, stands until 14, runs on to 16.
    state = SourceState(at_s=10.0, clock_s=1.0, taken=0, offered=0)
    looks = [
        {"0": state},
        {"0": replace(state, at_s=12.0, clock_s=3.0)},
        {"0": replace(state, at_s=14.0, clock_s=3.0)},
        {"0": replace(state, at_s=16.0, clock_s=5.0)},
    ]
    offered = offered_at_s(looks, "0", np.array([1.5, 3.0, 3.5, 5.0]))
    assert offered.tolist() == [10.5, 12.0, 14.5, 16.0]


def test_latency_is_from_the_offer_to_the_sink_by_the_clock_of_the_entitys_own_source(
    endless: Callable[[int, float], EndlessLog],
) -> None:
    log = endless(2, 10.0)
    ids = pa.array([0, 1, 2, 3, 4, 5])
    source = shard_of(ids, 2)
    assert set(source.tolist()) == {0, 1}
    early = SourceState(at_s=100.0, clock_s=0.0, taken=0, offered=0)
    late = replace(early, at_s=107.0)  # whose clock began seven seconds later
    looks = [
        {"0": early, "1": late},
        {"0": replace(early, at_s=130.0, clock_s=30.0), "1": replace(late, at_s=130.0, clock_s=23.0)},
    ]
    data_s = np.array([10, 20, 30, 40, 50, 60])  # after the first event; a tenth of it by the clock
    ts = pa.array((BEGAN_S + data_s) * 1000, pa.timestamp("ms", tz="UTC"))
    found = pa.table({"entity": ids, "ts": ts})
    expected = 140.0 - (100.0 + 7.0 * source + data_s / 10)
    assert latency_s(found, 140.0, looks, log, since_s=0.0) == pytest.approx(expected)
    since_s = 105.0
    counted = expected[140.0 - expected >= since_s]
    assert 0 < len(counted) < 6
    assert latency_s(found, 140.0, looks, log, since_s) == pytest.approx(counted)


# The highest that is held.


@pytest.mark.parametrize("guess", [1.0, 90.0, 100.0, 110.0, 5000.0])
@pytest.mark.parametrize("precision", [1.5, 1.1, 1.01])
def test_the_highest_rate_held_is_found_from_any_guess(guess: float, precision: float) -> None:
    asked = []

    def ratio(rate: float) -> float:
        asked.append(rate)
        return max(0.0, 1 - 100 / rate)  # passes 0.1 at 111.1

    highest = find_highest(lambda rate: ratio(rate) < 0.1, guess, precision)
    assert ratio(highest) < 0.1 <= ratio(highest * precision)
    assert len(asked) < 25
    assert highest in asked


# The sea.


def test_vessels_call_at_the_ports_and_every_port_pattern_occurs(tmp_path: Path) -> None:
    batches = list(messages(1500))
    table = pa.Table.from_batches(batches)
    assert table.num_rows == 1500 * N_IN_REACH
    assert np.all(np.diff(table["ts"].cast(pa.int64()).to_numpy()) >= 0)
    assert table.equals(pa.Table.from_batches(list(messages(1500))))
    found = port_patterns(tmp_path).recognise(table)
    counts = found.counts()
    assert set(counts) == {"Approaching", "CarefulApproaching", "PortCall", "Leaving"}
    assert all(counts.values())
