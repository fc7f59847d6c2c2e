"""Decides where a run happens, in this process or on Spark, by the configuration and the size of the input.

Nothing here imports Spark. One process reads and recognises some hundred megabytes a second and core, in bounded
memory. An input that would keep it for more than ten minutes, or is many times its memory (sorting would then be all
disk), is more than one machine should take. `WAYEB_ONE_MACHINE=200GB` sets another limit.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wayeb_py.errors import DataError

BYTES_A_CORE = 64 << 30  # input on disk for each core
MEMORIES = 8  # how many times the machine's memory the input on disk may be
LIMIT_VARIABLE = "WAYEB_ONE_MACHINE"

_UNITS = {"": 1, "B": 1} | {
    letter + unit: step**power
    for power, letter in enumerate("KMGT", 1)
    for unit, step in (("", 1000), ("B", 1000), ("IB", 1024))
}


@dataclass(frozen=True, slots=True)
class Machine:
    """What one process has to work with."""

    n_cores: int
    memory_bytes: int

    @classmethod
    def here(cls) -> Machine:
        n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return cls(n_cores, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def choose_engine(
    n_bytes: int,
    environment: Mapping[str, str],
    machine: Machine,
    hindrance: Callable[[], str | None] = lambda: None,
) -> tuple[Literal["local", "spark"], str]:
    """Where to run if the user does not say, and why there. `hindrance` says why Spark cannot run here, if it
    cannot."""
    master = find_master(environment)
    most = read_limit(environment, machine)
    size, limit = _amount(n_bytes), _amount(most)
    if master is not None:
        wanted = f"{master} is configured"
    elif n_bytes > most:
        wanted = f"{size} of input are more than the {limit} that one machine should take"
    else:
        return "local", "one process is enough, and no Spark master is configured"
    hindered = hindrance()
    if hindered is not None:
        return "local", f"{wanted}, but {hindered}"
    return "spark", wanted


def find_master(environment: Mapping[str, str]) -> str | None:
    """What names a master: the environment, spark-submit, or spark-defaults.conf."""
    if environment.get("SPARK_MASTER"):
        return f"SPARK_MASTER={environment['SPARK_MASTER']}"
    if "PYSPARK_GATEWAY_PORT" in environment:
        return "spark-submit's master"
    found = _master_in_defaults(environment)
    return None if found is None else f"spark.master {found[0]} of {found[1]}"


def configured_master(environment: Mapping[str, str]) -> str | None:
    """The master that a new JVM would have, according to the environment or to spark-defaults.conf."""
    if environment.get("SPARK_MASTER"):
        return environment["SPARK_MASTER"]
    words = shlex.split(environment.get("PYSPARK_SUBMIT_ARGS", ""))  # precede the file, as on a command line
    if "--master" in words[:-1]:
        return words[words.index("--master") + 1]
    found = _master_in_defaults(environment)
    return None if found is None else found[0]


def _master_in_defaults(environment: Mapping[str, str]) -> tuple[str, Path] | None:
    """The master that spark-defaults.conf names, and where that file is."""
    if not environment.get("SPARK_CONF_DIR") and not environment.get("SPARK_HOME"):
        return None
    folder = environment.get("SPARK_CONF_DIR") or os.path.join(environment["SPARK_HOME"], "conf")
    path = Path(folder) / "spark-defaults.conf"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        words = line.replace("=", " ", 1).split()
        if words[:1] == ["spark.master"] and len(words) > 1:
            return words[1], path
    return None


def read_limit(environment: Mapping[str, str], machine: Machine) -> int:
    """How many bytes on disk one machine should take."""
    told = environment.get(LIMIT_VARIABLE)
    if not told:
        return min(BYTES_A_CORE * machine.n_cores, MEMORIES * machine.memory_bytes)
    text = told.replace(" ", "")
    number = text.rstrip("BbKkMmGgTtIi")
    try:
        return int(float(number) * _UNITS[text[len(number) :].upper()])
    except (ValueError, KeyError):
        raise DataError(
            f"{LIMIT_VARIABLE}={told} is not an amount of data", hint="write it as 200GB or 1.5TiB"
        ) from None


def _amount(n_bytes: int) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= size:
            return f"{n_bytes / size:,.1f} {unit}"
    return f"{n_bytes:,} bytes"
