"""Counts the tasks that a master runs at a time: as configured, or by the executors that register.

The session of a cluster is open before an executor has registered, and would report two cores, whatever there is. So
the settings count first, and where they say nothing the session waits for executors: until no more of them register,
and not for long, since a busy cluster may have none to give.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from wayeb_py.clock import SYSTEM, Clock

if TYPE_CHECKING:
    from pyspark import SparkContext

PATIENCE_S = 15.0  # how long to wait for the first executor
SETTLED_S = 1.0  # after this long without another one, all are here
LOOK_EVERY_S = 0.1


def count_task_slots(context: SparkContext) -> int:
    """The tasks that run at a time."""
    if context.master is not None and (context.master == "local" or context.master.startswith("local[")):
        return context.defaultParallelism
    settings = dict(context.getConf().getAll())
    told = configured_task_slots(settings)
    if told is not None:
        return told
    n_cores = awaited(lambda: _registered(context)) if _brings_executors(settings) else 0
    return max(1, (n_cores or context.defaultParallelism) // _number(settings, "spark.task.cpus", 1))


def count_cores_of_one(context: SparkContext) -> int:
    """The cores that a single task can use while no other runs beside it: those of its executor."""
    master = context.master or ""
    if master == "local" or master.startswith("local["):
        return context.defaultParallelism
    return _number(dict(context.getConf().getAll()), "spark.executor.cores", 1)


def configured_task_slots(settings: Mapping[str, str]) -> int | None:
    """The tasks that settings allow at a time; None where they do not say."""
    told = _number(settings, "spark.default.parallelism")
    if told:
        return told
    cpus = _number(settings, "spark.task.cpus", 1)
    most = "dynamicAllocation.maxExecutors" if _is_dynamic(settings) else "executor.instances"
    executors = _number(settings, f"spark.{most}")
    cores = _number(settings, "spark.cores.max")
    # An executor of a standalone cluster takes all cores of its machine where the configuration names no number.
    cores_of_one = 0 if settings.get("spark.master", "").startswith("spark:") else 1
    by_executor = executors * _number(settings, "spark.executor.cores", cores_of_one)
    found = [n_cores for n_cores in (by_executor, cores) if n_cores]
    return max(1, min(found) // cpus) if found else None


def _brings_executors(settings: Mapping[str, str]) -> bool:
    """Whether executors exist by themselves, and not for a job alone."""
    first = ("dynamicAllocation.minExecutors", "dynamicAllocation.initialExecutors", "executor.instances")
    return not _is_dynamic(settings) or any(_number(settings, f"spark.{name}") for name in first)


def _is_dynamic(settings: Mapping[str, str]) -> bool:
    return settings.get("spark.dynamicAllocation.enabled", "").lower() == "true"


def awaited(registered: Callable[[], tuple[int, int]], clock: Clock = SYSTEM) -> int:
    """The cores of the executors once no more of them register; 0 if none does in time.

    `registered` returns how many executors there are and how many cores they have.
    """
    began = changed = clock.steady_s()
    seen = (0, 0)
    while True:
        found = registered()
        if found != seen:
            seen, changed = found, clock.steady_s()
        now_s = clock.steady_s()
        if (seen[0] and now_s - changed >= SETTLED_S) or now_s - began >= PATIENCE_S:
            return seen[1] if seen[0] else 0
        clock.sleep(LOOK_EVERY_S)


def _registered(context: SparkContext) -> tuple[int, int]:
    blocks = context._jsc.sc().getExecutorMemoryStatus()  # includes the driver's
    return blocks.size() - 1, context.defaultParallelism


def _number(settings: Mapping[str, str], name: str, default: int = 0) -> int:
    text = settings.get(name, "")
    return int(text) if text.isdigit() and int(text) > 0 else default
