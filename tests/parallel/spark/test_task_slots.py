"""How many tasks a cluster runs at a time: as configured, or by the executors that come."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from wayeb_py.clock import Clock
from wayeb_py.parallel.spark import task_slots


@pytest.mark.parametrize(
    ("settings", "n_slots"),
    [
        ({}, None),
        ({"spark.cores.max": "12"}, 12),
        ({"spark.cores.max": "12", "spark.task.cpus": "2"}, 6),
        ({"spark.executor.instances": "3", "spark.executor.cores": "4"}, 12),
        ({"spark.executor.instances": "3"}, 3),
        ({"spark.executor.instances": "3", "spark.master": "spark://h:7077"}, None),
        ({"spark.executor.instances": "3", "spark.executor.cores": "4", "spark.cores.max": "8"}, 8),
        ({"spark.dynamicAllocation.enabled": "true", "spark.executor.instances": "1"}, None),
        ({"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.maxExecutors": "5"}, 5),
        ({"spark.default.parallelism": "7", "spark.cores.max": "12"}, 7),
    ],
)
def test_settings_tell_how_many_tasks_run_at_a_time(settings: Mapping[str, str], n_slots: int | None) -> None:
    assert task_slots.configured_task_slots(settings) == n_slots


@pytest.mark.parametrize(
    ("master", "settings", "n_cores"),
    [
        ("local[3]", {"spark.executor.cores": "8"}, 3),
        ("spark://h:7077", {"spark.executor.cores": "8"}, 8),
        ("local-cluster[2,4,2048]", {"spark.executor.cores": "4"}, 4),
        ("spark://h:7077", {}, 1),
    ],
)
def test_a_task_that_others_wait_for_has_the_cores_of_its_executor(
    master: str, settings: Mapping[str, str], n_cores: int
) -> None:
    conf = SimpleNamespace(getAll=lambda: list(settings.items()))
    context: Any = SimpleNamespace(master=master, defaultParallelism=3, getConf=lambda: conf)
    assert task_slots.count_cores_of_one(context) == n_cores


@pytest.mark.parametrize(
    ("arrivals", "n_cores", "until_s"),
    [
        ([(3.0, (1, 4)), (3.5, (2, 8)), (4.0, (3, 12))], 12, 5.0),
        ([(0.0, (2, 8))], 8, 1.0),
        ([], 0, task_slots.PATIENCE_S),
    ],
)
def test_a_cluster_is_waited_for_until_no_more_executors_come(
    arrivals: list[tuple[float, tuple[int, int]]], n_cores: int, until_s: float
) -> None:
    clock = [0.0]

    def registered() -> tuple[int, int]:
        return next((found for at_s, found in reversed(arrivals) if clock[0] >= at_s), (0, 2))

    def pause(seconds: float) -> None:
        clock[0] += seconds

    assert task_slots.awaited(registered, Clock(steady_s=lambda: clock[0], sleep=pause)) == n_cores
    assert clock[0] == pytest.approx(until_s, abs=0.3)


def test_executors_that_only_a_job_brings_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"spark.dynamicAllocation.enabled": "true"}
    conf = SimpleNamespace(getAll=lambda: list(settings.items()))
    context: Any = SimpleNamespace(master="yarn", getConf=lambda: conf, defaultParallelism=2)
    monkeypatch.setattr(task_slots, "awaited", lambda registered: 12)
    assert task_slots.count_task_slots(context) == 2
    settings["spark.dynamicAllocation.minExecutors"] = "3"
    assert task_slots.count_task_slots(context) == 12
