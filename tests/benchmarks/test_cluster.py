"""The simulation of larger clusters: what must hold whatever was measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pyspark")

from benchmarks.experiments.spark.cluster_model import (
    THIS_MACHINE,
    ClusterCosts,
    EntityWeights,
    Job,
    Machines,
    efficiency,
    end_of,
    packed,
    partition,
    reason,
    seconds_of,
    shares_by_shard,
    source,
    spread_like,
    stops_at,
    zipf,
)
from wayeb_py.parallel.batch.schemes import SCHEMES, Scheme
from wayeb_py.parallel.wire.packer import GATHERED_ROWS

FREE = ClusterCosts(
    read_s=0, recognise_s=0, pattern_s=0, pack_s=0, unpack_s=0, pack_parcel_s=0, unpack_parcel_s=0, move_parcel_s=0,
    move_byte_s=0, event_bytes=0, parcel_bytes=0, file_bytes=0, task_s=0, task_pattern_s=0, launch_s=0, job_s=0,
    job_pattern_s=0,
)  # fmt: skip
EVENTS = replace(FREE, read_s=1e-7, recognise_s=1e-7, pattern_s=1e-8, pack_s=1e-7, unpack_s=5e-8)  # and nothing else
USUAL = replace(
    EVENTS, pack_parcel_s=5e-5, unpack_parcel_s=1e-4, move_parcel_s=1e-4, move_byte_s=2e-9, event_bytes=20,
    parcel_bytes=500, file_bytes=20, task_s=0.02, task_pattern_s=1e-4, launch_s=1e-3, job_s=0.5, job_pattern_s=1e-3,
)  # fmt: skip
MANY = Job(1e9, 48, zipf(100_000, 0.0), n_parts=4_096, group_events=1 << 17)


def test_one_core_takes_the_sum_of_all_costs() -> None:
    job = replace(MANY, n_events=1e6, n_parts=1)
    expected = USUAL.job_s + 48 * USUAL.job_pattern_s + USUAL.task_s + 48 * USUAL.task_pattern_s
    expected += 1e6 * (USUAL.read_s + USUAL.recognise_s + 48 * USUAL.pattern_s) + 2 * USUAL.launch_s
    assert seconds_of("source", job, USUAL, THIS_MACHINE, 1) == pytest.approx(expected)
    assert seconds_of("pattern", job, USUAL, THIS_MACHINE, 1) == pytest.approx(expected - USUAL.launch_s)


def test_a_shuffle_costs_its_events_its_parcels_and_its_bytes_once() -> None:
    job = replace(MANY, n_events=1e6, group_events=1e6)
    first, second = partition(job, USUAL, THIS_MACHINE, 1)
    parcels = 4 * np.ceil(1e6 / GATHERED_ROWS)  # four shards a worker
    n_bytes = 1e6 * USUAL.event_bytes + parcels * USUAL.parcel_bytes
    by_event = USUAL.read_s + USUAL.pack_s + USUAL.unpack_s + USUAL.recognise_s + 48 * USUAL.pattern_s
    by_parcel = USUAL.pack_parcel_s + USUAL.move_parcel_s + USUAL.unpack_parcel_s
    tasks = 5 * USUAL.task_s + 4 * 48 * USUAL.task_pattern_s
    expected = 1e6 * by_event + parcels * by_parcel + n_bytes * USUAL.move_byte_s + tasks
    assert first.sum() + second.sum() == pytest.approx(expected)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("n_cores", [2, 7, 64, 1_000])
def test_nothing_is_faster_than_perfect(scheme: Scheme, n_cores: int) -> None:
    for costs in (EVENTS, USUAL):
        assert efficiency(scheme, MANY, costs, Machines(), n_cores) <= 1 + 1e-9


def test_events_alone_are_spread_perfectly_where_shares_are_equal() -> None:
    assert efficiency("source", MANY, EVENTS, THIS_MACHINE, 16) > 0.95
    assert efficiency("partition", MANY, EVENTS, THIS_MACHINE, 16) > 0.95


@pytest.mark.parametrize("scheme", ["source", "partition"])
def test_one_entity_with_all_events_gains_nothing_from_cores_in_recognition(scheme: Scheme) -> None:
    job = replace(MANY, entities=zipf(1, 0.0))
    recognition = 1e9 * (EVENTS.recognise_s + 48 * EVENTS.pattern_s)
    for n_cores in (1, 16, 256):
        assert seconds_of(scheme, job, EVENTS, THIS_MACHINE, n_cores) >= recognition
    only_recognition = replace(EVENTS, read_s=0, pack_s=0)
    assert efficiency(scheme, job, only_recognition, THIS_MACHINE, 16) == pytest.approx(1 / 16)
    assert reason(scheme, job, only_recognition, THIS_MACHINE, 16) == "entities of unequal size"


def test_the_heaviest_entity_bounds_a_partition() -> None:
    even, skewed = (replace(MANY, entities=zipf(100_000, exponent)) for exponent in (0.0, 1.2))
    heaviest_s = 1e9 * skewed.entities.shares[0] * (EVENTS.unpack_s + EVENTS.recognise_s + 48 * EVENTS.pattern_s)
    assert seconds_of("partition", skewed, EVENTS, THIS_MACHINE, 256) >= heaviest_s
    assert seconds_of("partition", even, EVENTS, THIS_MACHINE, 256) < heaviest_s


def test_the_pattern_scheme_is_limited_by_reading() -> None:
    reading_s = 1e9 * (EVENTS.read_s + EVENTS.recognise_s)
    for n_cores in (1, 48, 1_000):
        assert seconds_of("pattern", MANY, EVENTS, THIS_MACHINE, n_cores) > reading_s
    dear_reading = replace(EVENTS, recognise_s=0)
    assert reason("pattern", MANY, dear_reading, THIS_MACHINE, 48) == "each group of patterns reading everything"


def test_more_cores_than_patterns_are_of_no_use_to_the_pattern_scheme() -> None:
    with_48, with_1000 = (seconds_of("pattern", MANY, EVENTS, THIS_MACHINE, n) for n in (48, 1_000))
    assert with_48 == with_1000


def test_more_cores_than_parts_are_of_no_use_to_the_source_scheme() -> None:
    job = replace(MANY, n_parts=32)
    assert len(source(job, EVENTS, THIS_MACHINE, 1_000)[0]) == 32
    assert seconds_of("source", job, EVENTS, THIS_MACHINE, 1_000) >= 1e9 / 32 * EVENTS.read_s
    assert reason("source", job, EVENTS, THIS_MACHINE, 1_000) == "the number of parts"


def test_the_driver_is_what_tiny_tasks_wait_for() -> None:
    assert end_of(np.full(1_000, 1e-6), 64, launch_s=0.01) == pytest.approx(10, rel=1e-3)
    assert end_of(np.full(1_000, 1.0), 10, launch_s=0.01) == pytest.approx(100, rel=0.01)
    slow_driver = replace(EVENTS, launch_s=0.05)
    assert reason("source", MANY, slow_driver, THIS_MACHINE, 1_000).startswith("the driver")


def test_a_job_of_few_events_is_held_up_by_its_own_cost() -> None:
    job = replace(MANY, n_events=1e7)
    assert reason("source", job, replace(EVENTS, job_s=0.5), THIS_MACHINE, 256).startswith("what a job costs")


def test_parcels_get_small_as_shards_become_many() -> None:
    dear_parcels = replace(EVENTS, unpack_parcel_s=1e-4)
    assert reason("partition", MANY, dear_parcels, THIS_MACHINE, 1_000).startswith("parcels")
    assert efficiency("partition", MANY, dear_parcels, THIS_MACHINE, 1_000) < 0.5


def test_a_network_that_a_machine_s_cores_share_bounds_reading_and_grows_with_machines() -> None:
    slow, costs = Machines(cores_each=16, network_bytes_per_s=1e8), replace(EVENTS, file_bytes=20)
    by_network_s = 1e9 * 20 / (4 * 1e8)  # four machines
    assert seconds_of("source", MANY, costs, slow, 64) >= by_network_s * 0.99
    assert seconds_of("source", MANY, costs, THIS_MACHINE, 64) < by_network_s / 2
    assert seconds_of("source", MANY, costs, slow, 128) < by_network_s * 0.6


def test_a_scheme_stops_where_less_than_half_of_the_cores_is_put_to_use() -> None:
    cores = [1, 2, 4, 8, 16, 32, 64]
    stop = stops_at("source", replace(MANY, n_parts=10), EVENTS, THIS_MACHINE, cores)
    assert stop == 32  # 10 of 16 are more than half, unless parts differ by much
    assert stops_at("source", MANY, EVENTS, THIS_MACHINE, cores) is None


def test_shares_add_up_and_heavy_entities_stand_apart() -> None:
    entities = EntityWeights(np.array([0.5, *[0.5 / 999] * 999]))
    together, apart = (shares_by_shard(entities, 8, apart=apart) for apart in (False, True))
    assert together.sum() == pytest.approx(1)
    assert apart.sum() == pytest.approx(1)
    assert together[0] > 0.5 > 0.2 > apart[1]
    assert apart[0] == 0.5
    assert len(apart) == 9
    assert packed(np.array([4.0, 3.0, 2.0, 1.0]), 2).tolist() == [5.0, 5.0]
    assert packed(np.array([4.0, 3.0]), 5).tolist() == [4.0, 3.0]


def test_entities_are_spread_like_those_that_were_seen() -> None:
    assert spread_like([1, 3], 4).shares.tolist() == [0.125, 0.375, 0.125, 0.375]
