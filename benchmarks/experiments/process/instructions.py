"""Counts, by valgrind, the instructions that an event costs in the main kernels: a measure without noise.

`instructions_work` does the work in a process, for n events and for twice as many; the difference by n is what an event
costs. Valgrind knows no AVX-512, so the kernels are compiled for a Haswell processor, into a cache of their own; the
same sources and versions then give the same counts on every machine, and `wayeb bench compare` takes 1 % for a change.
perf could count too, where a machine allows it, but counts what the processor really ran: two tools for one number
would not compare.

Analysis: an instruction is not a time. Work that waits for memory costs more than is counted here, and work that runs
side by side less; the count says that the code has changed, and a time on a quiet machine what the change is worth.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import REPOSITORY
from benchmarks.experiments.process.instructions_work import N_EVENTS
from benchmarks.experiments.process.latency import count_in_polars
from benchmarks.harness.measure import start
from benchmarks.inputs.fleet_events import FOLDER, read_fleet

WORK = [sys.executable, "-m", "benchmarks.experiments.process.instructions_work"]
VALGRIND = ["--tool=callgrind", "--instr-atstart=no", "--quiet"]
ENVIRONMENT = {
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "",  # the features that the name implies
    "NUMBA_CACHE_DIR": str(FOLDER / "kernels-haswell"),
    "PYTHONHASHSEED": "0",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "OPENBLAS_NUM_THREADS": "1",
}


def run_work(valgrind: list[str]) -> dict[str, list[int]]:
    """The results of the work, by piece: n, the detections in n events, and those in twice as many."""
    environment = os.environ | ENVIRONMENT
    ran = subprocess.run([*valgrind, *WORK], cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{' '.join(WORK)} ended with {ran.returncode}: {ran.stderr[-2000:]}")
    found: dict[str, list[int]] = json.loads(ran.stdout.splitlines()[-1])
    return found


def read_counts(folder: Path) -> dict[str, int]:
    """The instructions of each dumped part, by its name."""
    counts = {}
    for path in folder.iterdir():
        text = path.read_text()
        name = re.search(r"^desc: Trigger: Client Request: (.+)$", text, re.MULTILINE)
        total = re.search(r"^totals: (\d+)$", text, re.MULTILINE)
        if name and total:
            counts[name[1].strip()] = int(total[1])
    return counts


def main() -> None:
    experiment = start("instructions", f"instructions of the kernels by event, over {N_EVENTS:,} and twice as many")
    valgrind = shutil.which("valgrind")
    if valgrind is None or platform.machine() != "x86_64":
        experiment.missing("there is no valgrind for x86-64: apt-get install valgrind")
    experiment.progress.step(1, 2, "run")
    expected = run_work([])
    experiment.progress.step(2, 2, "run")
    with tempfile.TemporaryDirectory() as folder:
        found = run_work([valgrind, *VALGRIND, f"--callgrind-out-file={folder}/counts"])
        counts = read_counts(Path(folder))
    for name, (n, once, twice) in found.items():
        experiment.check(f"{name}: {twice:,} found under valgrind as without", [n, once, twice] == expected[name])
        experiment.check(f"{name}: something is found", 0 < once < twice)
    six = count_in_polars(read_fleet(2 * N_EVENTS))
    experiment.check(f"{six:,} detections of the six, as many as by Polars", found["six patterns"][2] == six)
    for name, (n, _, _) in found.items():
        once, twice = counts[f"{name} of {n}"], counts[f"{name} of {2 * n}"]
        by_event = (twice - once) / n
        experiment.row(kernel=name, **{"instructions an event": by_event, "of a call besides": 2 * once - twice})
        experiment.report(f"{name}, an event", by_event, "instructions")
    version = subprocess.run([valgrind, "--version"], capture_output=True, text=True).stdout.strip()
    experiment.record.versions["valgrind"] = version.removeprefix("valgrind-")
    experiment.note("The kernels were compiled for a Haswell processor, since valgrind knows no AVX-512.")
    experiment.bars("Instructions an event", "kernel", "instructions an event", log="y")
    experiment.finish()


if __name__ == "__main__":
    main()
