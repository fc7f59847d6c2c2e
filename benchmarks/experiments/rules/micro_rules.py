"""Fifteen micro-benchmarks of rule engines, after those of the gesture engine PARTE, against CLIPS with equal firings.

Each is a set of rules over facts, which `inputs/micro_rules.py` describes. Both sides begin with facts in a text file
(CSV here, CLIPS's own form there), take them in, and fire once for every match. Rules are read and planned before, and
CLIPS's network is built; ours is built anew each time. As in the paper the spread over the repeats, the standard
deviation over the mean, is told beside the time.

Analysis: CLIPS takes one fact at a time through a network of nodes, by interpreted tests; here a batch of facts goes
through a node at once, test by test over columns, and joins look up sorted runs. So the gain should be greatest where
many tests are done on many facts, and least where few facts make many matches, all of which have to be written out.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

from benchmarks.harness.measure import Bound, Experiment, asked_size, start, stay_on_one_core
from benchmarks.inputs.micro_rules import SEED, MicroBenchmark, Tables, in_clips, micro_benchmarks, query_of
from wayeb_py.rules.network import Network
from wayeb_py.rules.planning.build import build
from wayeb_py.rules.planning.planner import choose
from wayeb_py.rules.planning.query import Query
from wayeb_py.rules.planning.statistics import sampled
from wayeb_py.rules.planning.tree import Tree

N_FACTS = {"quick": 500, "usual": 20_000, "full": 100_000}
REPEATS = 5
LEAST_MEAN, LEAST = 20.0, 1.0


def write_files(tables: Tables, folder: Path) -> None:
    """Every table as CSV, and all of them as one file of facts."""
    with (folder / "all.facts").open("w") as out:
        for name, columns in tables.items():
            pcsv.write_csv(pa.table(dict(columns)), folder / f"{name}.csv")
            lists = [values.tolist() for values in columns.values()]
            slots = [f"({column} {{}})" for column in columns]
            for row in zip(*lists, strict=True):
                out.write(f"({name} {' '.join(slots).format(*row)})\n")


def read_tables(benchmark: MicroBenchmark, folder: Path) -> Tables:
    tables = {}
    for name in benchmark.tables:
        read = pcsv.read_csv(folder / f"{name}.csv")
        tables[name] = {
            column: values.combine_chunks().to_numpy()
            for column, values in zip(read.column_names, read.columns, strict=True)
        }
    return tables


def planned(benchmark: MicroBenchmark) -> list[tuple[Query, Tree]]:
    found = []
    for rule in benchmark.rules:
        query = query_of(rule)
        statistics = sampled(query, [benchmark.tables[member.table] for member in query.members])
        found.append((query, choose(query, statistics)))
    return found


def ours(benchmark: MicroBenchmark, plans: list[tuple[Query, Tree]], folder: Path) -> int:
    """All firings together."""
    tables = read_tables(benchmark, folder)
    network = Network(most_tuples=100_000_000)
    for name, columns in tables.items():
        network.table(name, dict.fromkeys(columns, np.int64))
    for query, tree in plans:
        build(network, query, tree)
    network.step(tables)
    return sum(len(network.take(query.name).added) for query, _ in plans)


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


def measure(experiment: Experiment, benchmark: MicroBenchmark) -> float:
    """How many times as long CLIPS takes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(benchmark.tables, folder)
        plans, environment = planned(benchmark), clips_network(benchmark)
        n_found, n_fired = ours(benchmark, plans, folder), clips_of(environment, folder)
        experiment.check(f"{n_fired:,} firings of {benchmark.name}", n_found == n_fired > 0)
        tasks = {"ours": partial(ours, benchmark, plans, folder), "CLIPS": partial(clips_of, environment, folder)}
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
    times = seconds[f"{benchmark.name}, CLIPS"] / seconds[f"{benchmark.name}, ours"]
    experiment.report(f"{benchmark.name}, CLIPS over ours", times, "x")
    return times


def main() -> None:
    stay_on_one_core()
    n_facts = N_FACTS[asked_size()]
    experiment = start("micro_rules", f"fifteen micro-benchmarks of rules, {n_facts:,} facts, one core", SEED)
    try:
        __import__("clips")
    except ImportError:
        experiment.missing("there is no clips; `pip install wayeb-py[peers]`")
    benchmarks = micro_benchmarks(n_facts)
    times = {}
    for number, benchmark in enumerate(benchmarks):
        experiment.progress.step(number + 1, len(benchmarks), "benchmark")
        times[benchmark.name] = measure(experiment, benchmark)
    mean = math.exp(statistics.mean(math.log(one) for one in times.values()))
    experiment.bound(Bound("CLIPS over ours, geometric mean of fifteen", mean, LEAST_MEAN, "at least"))
    least = min(times, key=times.__getitem__)
    experiment.bound(Bound(f"CLIPS over ours, the least ({least})", times[least], LEAST, "at least"))
    for who in ("ours", "CLIPS"):
        spreads = [float(str(row["spread"])) for row in experiment.record.rows if row["engine"] == who]
        experiment.report(f"spread over repeats, mean of fifteen, {who}", statistics.mean(spreads), "of the mean")
    experiment.bars("Micro-benchmarks of rules, one core", "benchmark", "ms", series="engine", log="y")
    experiment.finish()


if __name__ == "__main__":
    main()
