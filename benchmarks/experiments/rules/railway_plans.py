"""Orders of joins: the plans that a study of the Train Benchmark lists, forced, against the planner's own.

RouteSensor has plans A to C, SemaphoreNeighbor A to F (`inputs/railway_constraints.py` says which). Each is built over
models in memory, checked, and repaired one tie at a time. C, E and F begin with a product of two tables; they are run
as far as the limit on tuples lets them. Our plan is chosen from a sample of ten thousand rows a table; how long that
takes is recorded separately. Plans are compared by what they do, counted (tuples taken in, looked at and made), and by
the median of the processor seconds of rounds in which they take turns: they run in one thread of one process and wait
for nothing. Two plans that do the same differ in seconds by noise alone; then the count is what is judged, and the
record says so.

Analysis: a plan costs the tuples that its joins make and keep. Where each join follows a tie those are as many as there
are ties, whatever the order; a product makes as many as one table times the other, which is quadratic in the size.
"""

from __future__ import annotations

import statistics
import time
from typing import TypeVar

from benchmarks.experiments.scaling import growth
from benchmarks.harness.measure import Bound, Experiment, Figure, start, stay_on_one_core
from benchmarks.inputs.railway_constraints import (
    PLANS,
    PRODUCTS,
    QUERIES,
    SEED,
    CheckedRailway,
    Ties,
    labels_of,
    our_plan,
)
from wayeb_py.errors import LimitError
from wayeb_py.rules.planning.tree import text_of
from wayeb_py.simulate.railway import make_railway

Some = TypeVar("Some")
SIZES = {"quick": [1, 2], "usual": [1, 2, 4, 8, 16, 64, 256, 1024], "full": [1, 2, 4, 8, 16, 64, 256, 1024, 2048]}
COMPARED_FROM = {"quick": 2, "usual": 64, "full": 64}
REPEATS = {"quick": 3, "usual": 11, "full": 11}
N_REPAIRS = {"quick": 5, "usual": 100, "full": 100}
MOST_TUPLES = 10_000_000
MOST_OVER_BEST = 1.2
SAME = 0.01  # two plans whose work differs by less are alike
LEAST_EXPONENT = 1.7  # how the tuples of a product must grow


def ties_of(size: int) -> Ties:
    tables = make_railway(size, SEED)
    labels = dict.fromkeys(label for query in QUERIES.values() for label in labels_of(query))
    return {
        label: {
            "start": tables[label][":START_ID"].combine_chunks().to_numpy(),
            "end": tables[label][":END_ID"].combine_chunks().to_numpy(),
        }
        for label in labels
    }


def load(constraint: str, ties: Ties, plan: str) -> CheckedRailway:
    return CheckedRailway(QUERIES[constraint], ties, plan, MOST_TUPLES)


def fits(constraint: str, ties: Ties, plan: str) -> CheckedRailway | LimitError:
    try:
        return load(constraint, ties, plan)
    except LimitError as too_many:
        return too_many


def measure(experiment: Experiment, constraint: str, size: int, ties: Ties, stopped: set[str]) -> None:
    """Every plan that the limit has not stopped: what it makes, keeps and costs."""
    begin = time.perf_counter()
    chosen = text_of(our_plan(QUERIES[constraint], ties), QUERIES[constraint])
    experiment.report(f"choosing {chosen}, {constraint}, size {size}", 1e3 * (time.perf_counter() - begin), "ms")
    ours = load(constraint, ties, chosen)
    plans = {"ours": chosen, **PLANS[constraint]}
    running = {}
    for name, plan in plans.items():
        if name in stopped:
            continue
        railway = ours if name == "ours" else fits(constraint, ties, plan)
        if isinstance(railway, LimitError):
            stopped.add(name)
            experiment.note(f"{constraint}, plan {name}, size {size}: {railway.message}")
            continue
        if railway.matches != ours.matches:
            experiment.check(f"{constraint}, plan {name}, size {size}", False)
        running[name] = railway
    experiment.check(
        f"{len(ours.matches):,} matches of {constraint} at size {size} by plans {', '.join(running)}", True
    )
    loading = reload(experiment, constraint, ties, {name: plans[name] for name in running})
    worked = {name: railway.n_worked for name, railway in running.items()}
    again = repair(experiment, running)
    for name, railway in running.items():
        task = f"{constraint}, {size}, {name}"
        experiment.record.repeats_s |= {f"load, {task}": loading[name], f"again, {task}": again[name]}
        for what, seconds in (("load and check", loading[name]), ("again", again[name])):
            ms = [1e3 * one for one in seconds]
            experiment.row(
                what=f"{constraint}: {'repair and check again' if what == 'again' else what}", size=size, plan=name,
                ms=statistics.median(ms), low=min(ms), high=max(ms), made=railway.n_made, kept=railway.n_kept,
                worked=worked[name] if what == "load and check" else railway.n_worked - worked[name],
            )  # fmt: skip


def reload(experiment: Experiment, constraint: str, ties: Ties, plans: dict[str, str]) -> dict[str, list[float]]:
    """The processor seconds in which each plan loads and checks, in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in plans}
    with experiment.watched():
        n_rounds = REPEATS[experiment.size]
        for nth in range(n_rounds):
            experiment.progress.step(nth + 1, n_rounds, "round")
            for name, plan in _turned(plans, nth):
                begin = time.process_time()
                load(constraint, ties, plan)
                seconds[name].append(time.process_time() - begin)
    return seconds


def _turned(plans: dict[str, Some], nth: int) -> list[tuple[str, Some]]:
    """The plans, another one first in each round: none always comes after the same."""
    given = list(plans.items())
    first = nth % len(given)
    return given[first:] + given[:first]


def repair(experiment: Experiment, running: dict[str, CheckedRailway]) -> dict[str, list[float]]:
    """Makes the same repairs by every plan in turn; checks that the same matches are broken after each."""
    seconds: dict[str, list[float]] = {name: [] for name in running}
    ours = running["ours"]
    with experiment.watched():
        for nth in range(N_REPAIRS[experiment.size]):
            if not ours.matches:
                break
            match = min(ours.matches)
            for name, railway in _turned(running, nth):
                begin = time.process_time()
                railway.repair(match)
                seconds[name].append(time.process_time() - begin)
    for name, railway in running.items():
        if railway.matches != ours.matches:
            experiment.check(f"{railway.query.name} by plan {name} after repairs", False)
    return seconds


def main() -> None:
    stay_on_one_core()
    experiment = start("railway_plans", "orders of joins forced and chosen, over railways in memory, one core", SEED)
    sizes = SIZES[experiment.size]
    stopped: dict[str, set[str]] = {constraint: set() for constraint in QUERIES}
    for number, size in enumerate(sizes):
        experiment.progress.step(number + 1, len(sizes), "size")
        ties = ties_of(size)
        for constraint in QUERIES:
            measure(experiment, constraint, size, ties, stopped[constraint])
    for size in sizes:
        if size >= COMPARED_FROM[experiment.size]:
            for constraint in QUERIES:
                compare(experiment, constraint, size)
    for constraint, plan in sorted(PRODUCTS):
        blow_up(experiment, constraint, plan, plan in stopped[constraint])
    experiment.figure(
        Figure("Plans of the Train Benchmark, one core", "size", "ms", "plan", "what", low="low", high="high", log="xy")
    )
    experiment.finish()


def compare(experiment: Experiment, constraint: str, size: int) -> None:
    """Compares ours with the best forced plan: by what they do, and by processor seconds where they do not do the
    same."""
    for what in ("load and check", "repair and check again"):
        rows = {
            str(row["plan"]): (float(str(row["worked"])), float(str(row["ms"])))
            for row in experiment.record.rows
            if row["what"] == f"{constraint}: {what}" and row["size"] == size
        }
        own_work, own_ms = rows.pop("ours")
        for nth, by in ((0, "tuples worked on"), (1, "processor seconds")):
            best = min(rows, key=lambda name: rows[name][nth])
            ratio = (own_work, own_ms)[nth] / rows[best][nth]
            told = f"{constraint} at size {size}, {what}, {by}, ours over the best ({best})"
            if nth == 1 and abs(rows[best][0] / own_work - 1) < SAME:
                experiment.report(f"{told}, which does the same", ratio, "x")
            else:
                experiment.bound(Bound(told, ratio, MOST_OVER_BEST, "at most"))


def blow_up(experiment: Experiment, constraint: str, plan: str, was_stopped: bool) -> None:
    """Fits how the tuples of a product grow, as far as the limit allows."""
    rows = [row for row in experiment.record.rows if row["plan"] == plan and str(row["what"]).startswith(constraint)]
    made = {float(str(row["size"])): float(str(row["made"])) for row in rows}
    ours = {
        float(str(row["size"])): float(str(row["made"]))
        for row in experiment.record.rows
        if row["plan"] == "ours" and str(row["what"]).startswith(constraint)
    }
    most = max(made)
    experiment.report(f"{constraint}, plan {plan}, tuples at size {most:.0f} over ours", made[most] / ours[most], "x")
    if len(made) > 1:
        slope, _ = growth(list(made), list(made.values()))
        what = f"{constraint}, plan {plan}, growth of the tuples it makes"
        experiment.bound(Bound(what, slope, LEAST_EXPONENT, "at least", "exponent"))
    stops = f"{constraint}, plan {plan}, is stopped by the limit of {MOST_TUPLES:,} tuples"
    experiment.bound(Bound(stops, float(was_stopped), 1.0, "at least", ""))


if __name__ == "__main__":
    main()
