"""Fifteen micro-benchmarks of rule engines, after those of the gesture engine PARTE, against CLIPS with equal firings.

Each is a set of rules over facts, which `inputs/micro_rules.py` describes. Both sides begin with the text of the rules,
which they read and build into their networks before the clock starts, and with facts in a text file (CSV here, CLIPS's
own form there): what is timed is to take these in and to fire once for every match; here that is a row of the output,
through the same recogniser that runs any file. Ours is timed on one core and on two; CLIPS has one thread. As in the
paper the spread over the repeats, the standard deviation over the mean, is told beside the time.

Analysis: CLIPS takes one fact at a time through a network of nodes, by interpreted tests; here a batch of facts goes
through a node at once, test by test over columns, and joins look up sorted runs. So the gain should be greatest where
many tests are done on many facts, and least where few facts make many matches, all of which have to be written out, and
where there are few facts for many tests, each of which costs the same however few facts it sees.
"""

from __future__ import annotations

import math
import os
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

import wayeb_py
from benchmarks.harness.measure import Bound, Experiment, asked_size, start
from benchmarks.inputs.micro_rules import SEED, MicroBenchmark, Tables, in_clips, in_wayeb, micro_benchmarks

N_FACTS = {"quick": 2_000, "usual": 20_000, "full": 100_000}
REPEATS = 5
OWN_CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
CORES = {n: f"{n} core{'s' if n > 1 else ''}" for n in (1, 2) if n <= len(OWN_CORES)}
LEAST_MEAN, LEAST = 20.0, 1.0


def write_files(tables: Tables, folder: Path) -> None:
    """Every table as CSV, and all of them as one file of facts."""
    with (folder / "all.facts").open("w") as out:
        for name, columns in tables.items():
            n_rows = len(next(iter(columns.values())))
            zeros = np.zeros(n_rows, dtype=np.int64)
            stated = {"fact_id": zeros, "stated_at": zeros, "op": ["+"] * n_rows}
            pcsv.write_csv(pa.table({**stated, **columns}), folder / f"{name}.csv")
            lists = [values.tolist() for values in columns.values()]
            slots = [f"({column} {{}})" for column in columns]
            for row in zip(*lists, strict=True):
                out.write(f"({name} {' '.join(slots).format(*row)})\n")


class Ready:
    """Rules from their text, read, planned and built into networks, as CLIPS's are, once for each run to come."""

    def __init__(self, benchmark: MicroBenchmark, folder: Path, n_runs: int) -> None:
        (folder / "rules.sre").write_text(in_wayeb(benchmark))
        self.patterns = wayeb_py.compile(folder / "rules.sre")
        self.paths = {f"{name}_facts": folder / f"{name}.csv" for name in benchmark.tables}
        self.schemas = {name: pcsv.read_csv(path).schema for name, path in self.paths.items()}
        self.waiting = [self._made() for _ in range(n_runs)]

    def _made(self) -> wayeb_py.Recogniser:
        recogniser = wayeb_py.Recogniser(self.patterns, saves=False)
        for name, schema in self.schemas.items():
            recogniser.bind(schema, name)
        assert recogniser.rules is not None
        assert recogniser.rules.running  # which makes the networks
        return recogniser

    def run(self) -> int:
        """All firings together: a row of the output for each."""
        recogniser = self.waiting.pop()
        found = [recogniser.feed(pcsv.read_csv(path), name) for name, path in self.paths.items()]
        return sum(map(len, found)) + len(recogniser.finish())


def clips_network(benchmark: MicroBenchmark) -> Any:
    """An environment with the rules."""
    import clips

    environment = clips.Environment()
    environment.build("(defglobal ?*found* = 0)")
    for name, columns in benchmark.tables.items():
        slots = " ".join(f"(slot {column} (type INTEGER))" for column in columns)
        environment.build(f"(deftemplate {name} {slots})")
    for rule in benchmark.rules:
        environment.build(in_clips(rule, {name: list(columns) for name, columns in benchmark.tables.items()}))
    return environment


def clips_of(environment: Any, folder: Path) -> int:
    """All firings together."""
    environment.reset()
    environment.load_facts(str(folder / "all.facts"))
    n_fired: int = environment.run()
    return n_fired


def measure(experiment: Experiment, benchmark: MicroBenchmark) -> dict[str, float]:
    """How many times as long CLIPS takes, by the cores that we have."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(benchmark.tables, folder)
        ready, environment = Ready(benchmark, folder, 1 + len(CORES) * REPEATS), clips_network(benchmark)
        n_found, n_fired = ready.run(), clips_of(environment, folder)
        experiment.check(f"{n_fired:,} firings of {benchmark.name}", n_found == n_fired > 0)
        tasks = {f"ours, {told}": partial(on_cores, n, ready.run) for n, told in CORES.items()}
        tasks |= {"CLIPS": partial(on_cores, 1, partial(clips_of, environment, folder))}
        seconds = experiment.median_seconds(
            {f"{benchmark.name}, {who}": task for who, task in tasks.items()}, REPEATS, warm=False
        )
    experiment.yardsticks([f"{benchmark.name}, CLIPS"])
    for who in tasks:
        repeats = experiment.record.repeats_s[f"{benchmark.name}, {who}"]
        ms = [1e3 * one for one in repeats]
        experiment.row(
            benchmark=benchmark.name,
            engine=who,
            ms=statistics.median(ms),
            low=min(ms),
            high=max(ms),
            spread=statistics.stdev(repeats) / statistics.mean(repeats),
            firings=n_fired,
        )
    of_clips = seconds[f"{benchmark.name}, CLIPS"]
    times = {told: of_clips / seconds[f"{benchmark.name}, ours, {told}"] for told in CORES.values()}
    for told, ratio in times.items():
        experiment.report(f"{benchmark.name}, CLIPS over ours, {told}", ratio, "x")
    return times


def on_cores(n: int, task: Callable[[], int]) -> int:
    """What a task gives on so many of the cores that this process began with."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(OWN_CORES[:n]))
    pa.set_cpu_count(n)
    return task()


def main() -> None:
    n_facts = N_FACTS[asked_size()]
    experiment = start("micro_rules", f"fifteen micro-benchmarks of rules, {n_facts:,} facts, 1 and 2 cores", SEED)
    try:
        __import__("clips")
    except ImportError:
        experiment.missing("there is no clips; `pip install wayeb-py[peers]`")
    benchmarks = micro_benchmarks(n_facts)
    times = {}
    for number, benchmark in enumerate(benchmarks):
        experiment.progress.step(number + 1, len(benchmarks), "benchmark")
        times[benchmark.name] = measure(experiment, benchmark)
    for told in CORES.values():
        mean = math.exp(statistics.mean(math.log(one[told]) for one in times.values()))
        experiment.bound(Bound(f"CLIPS over ours, {told}, geometric mean of fifteen", mean, LEAST_MEAN, "at least"))
        least = min(times, key=lambda name: times[name][told])
        experiment.bound(Bound(f"CLIPS over ours, {told}, the least ({least})", times[least][told], LEAST, "at least"))
    for who in (*(f"ours, {told}" for told in CORES.values()), "CLIPS"):
        spreads = [float(str(row["spread"])) for row in experiment.record.rows if row["engine"] == who]
        experiment.report(f"spread over repeats, mean of fifteen, {who}", statistics.mean(spreads), "of the mean")
    experiment.bars("Micro-benchmarks of rules", "benchmark", "ms", series="engine", log="y")
    experiment.finish()


if __name__ == "__main__":
    main()
