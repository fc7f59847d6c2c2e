"""Processor seconds: those that all processes of the machine have used, and those of this process and what it started.

Spark works in a JVM and in Python workers below it, so the own part is that of a whole tree of processes, ended ones
included. Both count from the start of the machine, and only differences matter. /proc holds them: without it, the own
part is that of this process and its ended children, and the machine's is unknown.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from pathlib import Path

PROC = Path("/proc")
_CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def machine_cpu_s() -> float | None:
    """The seconds that all processes have used, and other machines on the same processors; None where the system does
    not say."""
    try:
        fields = (PROC / "stat").read_text().split("\n", 1)[0].split()[1:]
    except OSError:
        return None
    user, nice, system, _idle, _iowait, irq, soft, stolen = (int(field) for field in fields[:8])
    return (user + nice + system + irq + soft + stolen) / os.sysconf("SC_CLK_TCK")


def adopt_orphans() -> None:
    """Keeps descendants below this process when their parents end, so that their JVMs do not count as others'."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER; Linux has it


def tree_cpu_s() -> float:
    """The seconds that this process, those below it, and their ended children have used.

    They are exact to the nanosecond for this process, to the kernel's tick for the others.
    """
    own = os.times()
    below_s = _tree_cpu_s(os.getpid())
    if below_s is None:
        return time.process_time() + own.children_user + own.children_system
    return time.process_time() + below_s - own.user - own.system


def _tree_cpu_s(pid: int) -> float | None:
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        threads = list((PROC / str(pid) / "task").iterdir())
    except OSError:  # it has ended meanwhile
        return None
    children: list[int] = []
    for thread in threads:
        # A thread may end meanwhile; that is no reason to forget the others' children.
        with contextlib.suppress(OSError):
            children.extend(int(child) for child in (thread / "children").read_text().split())
    ticks = sum(int(value) for value in fields[11:15])  # its own, and of its children that have ended
    return ticks / os.sysconf("SC_CLK_TCK") + sum(_tree_cpu_s(child) or 0.0 for child in children)


def keep_tree_on(n_cores: int) -> None:
    """Keeps this process and its descendants, present and future, on `n_cores` of the cores that it began with."""
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = set(sorted(_CORES)[:n_cores])
    for pid in _tree(os.getpid()):
        with contextlib.suppress(OSError):  # it, or a thread of it, has ended meanwhile
            for thread in (PROC / str(pid) / "task").iterdir():
                os.sched_setaffinity(int(thread.name), cores)


def _tree(pid: int) -> list[int]:
    found = [pid]
    with contextlib.suppress(OSError):
        for thread in (PROC / str(pid) / "task").iterdir():
            for child in (thread / "children").read_text().split():
                found += _tree(int(child))
    return found
