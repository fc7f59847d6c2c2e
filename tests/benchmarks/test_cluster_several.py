"""The simulation of streams of pairs and rules: what must hold whatever was measured, and a quick measurement."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

import wayeb_py
from benchmarks.experiments.spark import cluster_several
from benchmarks.experiments.spark.cluster_costs import Bench
from benchmarks.experiments.spark.cluster_model import THIS_MACHINE, Machines
from benchmarks.experiments.spark.cluster_several import (
    JOBS,
    SeveralCosts,
    batch_seconds,
    describe_growth,
    limit,
    measure_several,
)
from benchmarks.inputs.open_sea import make_sea
from wayeb_py.parallel.stream.plan import SHARDS_A_WORKER

COSTS = SeveralCosts(
    read_s=1e-7, pack_s=3e-7, entity_s=5e-7, all_s=1e-6, alone_s=1.2e-6, part_s=1e-7, entity_bytes=25, all_bytes=30
)
WITH_TASKS = replace(COSTS, shard_s=0.05, batch_s=0.3, launch_s=1e-3)
CORES = (1, 2, 4, 8, 16, 64, 256)


def test_one_worker_takes_the_sum_of_all_costs() -> None:
    expected = 0.3 + 1e6 * (1e-7 + 3e-7 + 1.2e-6) + 0.05 + 2 * 1e-3
    assert batch_seconds(WITH_TASKS, THIS_MACHINE, 1, 1e6) == pytest.approx(expected)


def test_two_workers_recognise_by_entity_beside_the_one_shard() -> None:
    n = 2 * SHARDS_A_WORKER
    reading, shards, parts = cluster_several.stages(COSTS, THIS_MACHINE, 2, 1e6)
    assert (len(reading), len(shards), len(parts)) == (2, n + 1, n + 1)
    assert shards[0] == pytest.approx(1.0), "the one shard starts first"
    assert shards[1:].sum() == pytest.approx(0.5)
    assert parts.sum() == pytest.approx(0.1)
    assert batch_seconds(COSTS, THIS_MACHINE, 2, 1e6) == pytest.approx(0.2 + 1.0 + 0.05)


@pytest.mark.parametrize("costs", [COSTS, WITH_TASKS])
def test_no_number_of_workers_is_faster_than_the_one_shard(costs: SeveralCosts) -> None:
    rates = [2e6 / batch_seconds(costs, Machines(), n, 2e6) for n in CORES]
    assert max(rates) < limit(costs) == pytest.approx(1e6)
    assert "the one shard, which takes at most 1.00 million events/s" in describe_growth(
        "pairs", replace(costs, batch_s=0), Machines(), CORES, 2_000_000
    )


def test_rules_alone_grow_with_workers_until_a_batch_is_too_small() -> None:
    rules = replace(WITH_TASKS, all_s=0, all_bytes=0)
    rates = [2e6 / batch_seconds(rules, Machines(), n, 2e6) for n in CORES]
    assert rates[3] > 2 * rates[1]
    large = [2e9 / batch_seconds(rules, Machines(), n, 2e9) for n in CORES]
    assert large[-1] > 100 * large[1]
    told = describe_growth("rules", replace(rules, shard_s=0, launch_s=0), Machines(), CORES, 200_000)
    assert told.endswith("what a batch costs whatever it holds")


def test_the_network_of_the_one_shard_s_machine_bounds_it() -> None:
    slow = Machines(cores_each=1, network_bytes_per_s=1e7)
    assert batch_seconds(COSTS, slow, 64, 1e6) >= 1e6 * COSTS.all_bytes / 1e7


@pytest.mark.parametrize("job", JOBS)
def test_costs_are_measured_by_the_code_that_runs_in_a_stream(
    job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_several, "sea_file", lambda n_reports: small_sea(tmp_path))
    spark: Any = None
    costs = measure_several(Bench(spark, 0, tmp_path, 1), wayeb_py.compile(JOBS[job]), 20)
    assert costs.entity_s > 0 < costs.read_s
    assert (costs.all_s > 0, costs.all_bytes > 0) == (job == "pairs and rules", job == "pairs and rules")
    assert costs.part_s > 0, "rows of `StoppedAlike` came to the parts"
    assert np.isfinite(batch_seconds(costs, Machines(), 4, 1e6))


def small_sea(folder: Path) -> Path:
    path = folder / "sea.parquet"
    pq.write_table(make_sea(60, 30), path)
    return path
