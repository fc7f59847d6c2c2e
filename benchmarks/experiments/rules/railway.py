"""The Train Benchmark's repair scenario: a railway is read and checked, then repaired and checked again, one at a time.

RouteSensor and SemaphoreNeighbor are kept over models of growing size (5 routes, 700 track elements and 3,000 ties for
each unit of size) by the plan that the planner chooses from a sample. Beside it run engines that run the query again:
DuckDB, SQLite (with indexes) and Polars; and CLIPS, whose rules are kept as well, at a size that it can do. All read
the same files. What is broken is compared after reading, and after the repairs. The process stays on one core, and
times are processor seconds, which others on the machine disturb less.

Analysis: reading and checking is a sort for every index and a merge for every join, and grows with the size. A repair
touches one row and the matches that hang on it, by a search in a few sorted runs: its cost should not depend on the
size beyond the caches. An engine that runs the query again reads every table again.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.harness.measure import Bound, Experiment, Figure, start, stay_on_one_core
from benchmarks.inputs.railway_constraints import (
    QUERIES,
    SEED,
    CheckedRailway,
    Match,
    labels_of,
    read_ties,
    repaired_tie,
    write_model,
)
from benchmarks.references.railway_in_clips import load_and_check, write_facts
from benchmarks.references.railway_queries import REFERENCES

SIZES = {"quick": [1, 4], "usual": [64, 128, 256, 512, 1024], "full": [64, 128, 256, 512, 1024, 2048, 4096]}
CLIPS_SIZE = {"quick": 1, "usual": 64, "full": 64}
MOST_IN_SQLITE = 256  # larger models take it minutes
N_REPAIRS = {"quick": 10, "usual": 200, "full": 200}
N_ASKED_AGAIN = 3  # repairs after which the others run the query again
MOST_GROWTH, LEAST_FASTER, LEAST_CLIPS = 2.0, 1_000.0, 20.0


def read_and_check(constraint: str, size: int, folder: Path) -> CheckedRailway:
    query = QUERIES[constraint]
    return CheckedRailway(query, read_ties(size, folder, labels_of(query)))


def ask(engine: str, constraint: str, size: int, folder: Path) -> int:
    return len(REFERENCES[engine](constraint, size, folder, labels_of(QUERIES[constraint])).broken())


def measure_reading(experiment: Experiment, constraint: str, size: int, folder: Path) -> None:
    engines = [name for name in REFERENCES if name != "SQLite" or size <= MOST_IN_SQLITE]
    names = {f"read and check, {constraint}, {size}, {engine}": engine for engine in ("ours", *engines)}
    tasks = {
        name: partial(read_and_check, constraint, size, folder)
        if engine == "ours"
        else partial(ask, engine, constraint, size, folder)
        for name, engine in names.items()
    }
    experiment.median_seconds(tasks, 3, warm=size == min(SIZES[experiment.size]), clock=time.process_time)
    experiment.yardsticks(name for name, engine in names.items() if engine != "ours")
    for name, engine in names.items():
        add_row(experiment, f"{constraint}: read and check", size, engine, experiment.record.repeats_s[name])


def add_row(experiment: Experiment, what: str, size: int, engine: str, seconds: list[float]) -> None:
    ms = [1e3 * one for one in seconds]
    experiment.row(what=what, size=size, engine=engine, ms=statistics.median(ms), low=min(ms), high=max(ms))


def measure_repairs(experiment: Experiment, constraint: str, size: int, folder: Path) -> None:
    """Measures repairs, one after another, each engine by itself, as it would run; after the first ones and at the end
    all must agree."""
    ours = read_and_check(constraint, size, folder)
    labels = labels_of(QUERIES[constraint])
    engines = [name for name in REFERENCES if name != "SQLite" or size <= MOST_IN_SQLITE]
    others = {name: REFERENCES[name](constraint, size, folder, labels) for name in engines}
    n_at_first = len(ours.matches)
    for name, other in others.items():
        agree = other.broken() == ours.matches
        experiment.check(
            f"{n_at_first:,} matches of {constraint} at size {size}, as {name}'s", agree and n_at_first > 0
        )
    seconds: dict[str, list[float]] = {name: [] for name in ("ours", *others)}
    ties: list[tuple[str, int, int]] = []
    broken_after: list[set[Match]] = []
    with experiment.watched():
        gc.collect()
        while ours.matches and len(ties) < N_REPAIRS[experiment.size]:
            match = min(ours.matches)
            begin = time.process_time()
            ours.repair(match)
            seconds["ours"].append(time.process_time() - begin)
            ties.append(repaired_tie(constraint, match))
            if len(ties) <= N_ASKED_AGAIN:
                broken_after.append(set(ours.matches))
        for name, other in others.items():
            for nth, tie in enumerate(ties):
                begin = time.process_time()
                other.repair(*tie)
                if nth < N_ASKED_AGAIN:
                    broken = other.broken()
                    seconds[name].append(time.process_time() - begin)
                    if broken != broken_after[nth]:
                        experiment.check(f"{constraint} at size {size} after repair {nth + 1}, as {name}'s", False)
    n_repairs = len(seconds["ours"])
    duckdb = others["DuckDB"]
    what = f"{len(ours.matches):,} matches of {constraint} at size {size} after {n_repairs} repairs, as DuckDB's"
    experiment.check(what, duckdb.broken() == ours.matches)
    for name, told in seconds.items():
        experiment.record.repeats_s[f"repair and check again, {constraint}, {size}, {name}"] = told
        add_row(experiment, f"{constraint}: repair and check again", size, name, told)
    experiment.yardsticks(f"repair and check again, {constraint}, {size}, {name}" for name in others)


def median_ms(experiment: Experiment, constraint: str, size: int, engine: str) -> float:
    return 1e3 * statistics.median(
        experiment.record.repeats_s[f"repair and check again, {constraint}, {size}, {engine}"]
    )


def against_clips(experiment: Experiment, size: int, folder: Path) -> None:
    """Measures loading and checking, from files on both sides."""
    write_model(size, folder)
    for constraint, query in QUERIES.items():
        labels = labels_of(query)
        facts = folder / f"{constraint}.facts"
        write_facts(read_ties(size, folder, labels), labels, facts)
        n_ours = len(read_and_check(constraint, size, folder).matches)
        n_fired = load_and_check(constraint, labels, facts)
        experiment.check(f"{n_fired:,} firings of CLIPS, {constraint} at size {size}", n_fired == n_ours > 0)
        ours, clips = (f"load and check, {constraint}, {size}, {engine}" for engine in ("ours", "CLIPS"))
        experiment.median_seconds(
            {
                ours: partial(read_and_check, constraint, size, folder),
                clips: partial(load_and_check, constraint, labels, facts),
            },
            3,
            clock=time.process_time,
        )
        experiment.yardsticks([clips])
        for engine, name in (("ours", ours), ("CLIPS", clips)):
            add_row(experiment, f"{constraint}: read and check", size, engine, experiment.record.repeats_s[name])
        experiment.bound_ratio(f"{constraint}, load and check, CLIPS over ours", clips, ours, LEAST_CLIPS, "at least")


def main() -> None:
    stay_on_one_core()
    experiment = start("railway", "a railway is read, checked, repaired and checked again, one core", SEED)
    for module in ("clips", "duckdb", "polars"):
        try:
            __import__(module)
        except ImportError:
            experiment.missing(f"there is no {module}; `pip install wayeb-py[peers]`")
    sizes = SIZES[experiment.size]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        against_clips(experiment, CLIPS_SIZE[experiment.size], folder)
        for number, size in enumerate(sizes):
            experiment.progress.step(number + 1, len(sizes), "size")
            write_model(size, folder)
            for constraint in QUERIES:
                measure_reading(experiment, constraint, size, folder)
                measure_repairs(experiment, constraint, size, folder)
            for file in folder.glob(f"railway-repair-{size}-*.csv"):
                file.unlink()
    least, most = sizes[0], 1024 if 1024 in sizes else sizes[-1]
    small, large = (median_ms(experiment, "SemaphoreNeighbor", size, "ours") for size in (least, most))
    what = f"SemaphoreNeighbor, repair and check again, size {most} over {least}"
    experiment.bound(Bound(what, large / small, MOST_GROWTH, "at most"))
    again = median_ms(experiment, "SemaphoreNeighbor", most, "DuckDB")
    what = f"SemaphoreNeighbor at size {most}, DuckDB asking again over ours"
    experiment.bound(Bound(what, again / large, LEAST_FASTER, "at least"))
    experiment.figure(
        Figure("The Train Benchmark, one core", "size", "ms", "engine", "what", low="low", high="high", log="xy")
    )
    experiment.finish()


if __name__ == "__main__":
    main()
