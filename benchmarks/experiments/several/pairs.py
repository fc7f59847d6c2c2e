"""Measures three patterns over pairs of 5,000 vessels on one core, against others that only find near pairs.

Every event has two to three vessels within a kilometre of it. The three patterns share one search, and each event of a
pair is measured (distance, approach, both speeds) and stepped. The others stop at the events of pairs: DuckDB and
Polars join tables, cKDTree, STRtree and MEOS search slices of time (`benchmarks/references` says how). They run over
the beginning of the same events, for they would take minutes over all of them, a range join hours; and every answer is
compared: how many events of pairs, and a sum over who and when. The detections over those events are compared with
numpy's, which takes its events of pairs from STRtree. The process stays on one core, and so does every library, each
with one thread; times are processor seconds of the process, which on an idle core equal wall-clock seconds.

Analysis: a vessel's list holds those that could be near it, and an event measures their distances, whatever came
before; every seventh event searches the grid. A range join by cell and time looks at everything that happened in a
cell, so that it becomes slower the longer the data last, and is flattered by getting few events: the bound is against
the faster of the two. Cutting time into buckets by hand cures that, and is the fastest join of tables; the record shows
how far ours is from it, without a bound: a join that only counts near pairs costs three times all of ours. A tree is
built again for each slice.
"""

from __future__ import annotations

import importlib.util
import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # Polars reads it at its first import

import statistics
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

import wayeb_py
from benchmarks.harness.measure import Bound, Experiment, asked_size, start, stay_on_one_core
from benchmarks.inputs.open_sea import REACH_M, SEED, STREAM, make_sea
from benchmarks.references.near_pairs import Answer, Heard, answer_of, heard_of
from benchmarks.references.near_pairs_joins import InDuckDB, InPolars
from benchmarks.references.near_pairs_trees import Slices, by_strtree, in_ckdtree, in_meos, in_strtree
from benchmarks.references.pair_patterns_in_numpy import TEXT, detect
from wayeb_py.pairs.meetings import Meetings

N_VESSELS = 5_000
# reports of a vessel; those of them that the others get; those that range joins get; those that MEOS gets
N_REPORTS = {"quick": (40, 20, 20, 4), "usual": (4_000, 100, 100, 4), "full": (4_000, 400, 100, 20)}
BATCH_ROWS = 1 << 17
FRESH_S = 180
LEAST_RATE = 1.0  # million events/s
LEAST = 20  # the least factor over the others
OURS, SEARCH = "three patterns", "the search alone"
RANGES = ("DuckDB, range join", "Polars, range join")
JOINS = ("DuckDB, buckets", "Polars, buckets")


def recognise(patterns: wayeb_py.Patterns, events: pa.Table) -> list[pa.Table]:
    recogniser = wayeb_py.Recogniser(patterns, order="sorted")
    found = [recogniser.feed(batch) for batch in events.to_batches(max_chunksize=BATCH_ROWS)]
    return [one.to_arrow() for one in (*found, recogniser.finish())]


def search(heard: Heard, told: list[Answer] | None = None) -> int:
    """How many events of pairs the grid finds; appends the pairs to `told` where it is given."""
    n_vessels = int(heard.vessel.max()) + 1
    meetings = Meetings(heard.reach_m, heard.fresh_s, 1)
    meetings.grow(n_vessels)
    rank = np.arange(n_vessels, dtype=np.int64)
    n_found = 0
    for begin in range(0, len(heard), BATCH_ROWS):
        at = slice(begin, begin + BATCH_ROWS)
        entity = heard.vessel[at]
        for met in meetings.meet(entity, heard.ts[at], heard.lon[at], heard.lat[at], rank):
            n_found += len(met)
            if told is not None:
                # One of the two rows is the event's own; a row below 0 is an entity of an earlier batch.
                other = np.where(met.a_row == met.row, met.b_row, met.a_row)
                vessel = np.where(other >= 0, entity[np.maximum(other, 0)], -1 - other)
                told.append(answer_of(met.row.astype(np.int64) + begin, vessel.astype(np.int64)))
        meetings.settle(entity)
        meetings.sweep(int(heard.ts[at][-1]))
        meetings.release()
    return n_found


def answered(heard: Heard) -> Answer:
    """The events of pairs that the grid finds."""
    told: list[Answer] = []
    search(heard, told)
    return Answer(sum(one.count for one in told), sum(one.checksum for one in told))


def check_detections(experiment: Experiment, patterns: wayeb_py.Patterns, events: pa.Table, heard: Heard) -> None:
    """Compares all detections over these events with numpy's."""
    order = np.lexsort((events["mmsi"].to_numpy(), events["ts"].to_numpy()))
    speed, course = (events[name].to_numpy()[order] for name in ("speed", "course"))
    near = list(by_strtree(Slices(heard)))
    event, other = (np.concatenate([part[nth] for part in near]) for nth in range(2))
    expected = detect(heard, speed, course, event, other)
    keys = np.unique(events["mmsi"].to_numpy())
    found = pa.concat_tables(recognise(patterns, events))
    a, b = (np.searchsorted(keys, found[name].to_numpy()) for name in ("entity", "other"))
    # A pair has one event for each time and vessel; the later of two at one time belongs to the greater key.
    for name in patterns.names:
        of_pattern = np.asarray(found["pattern"].to_numpy() == name)
        told = sorted(zip(*(x[of_pattern].tolist() for x in (found["ts"].to_numpy(), a, b)), strict=True))
        wanted = sorted((int(heard.ts[e]), x, y) for e, x, y in expected[name])
        experiment.check(f"{len(wanted):,} detections of {name}, as numpy's", told == wanted and len(wanted) > 0)


def main() -> None:
    n_reports, n_for_others, n_for_range, n_for_meos = N_REPORTS[asked_size()]
    n_events = N_VESSELS * n_reports
    experiment = start("pairs", f"pairs of {N_VESSELS:,} vessels, {n_events:,} events, 1 km, one core", SEED)
    events = make_sea(N_VESSELS, n_reports)
    stay_on_one_core()
    beginning = events.slice(0, N_VESSELS * n_for_others).combine_chunks()
    heard = heard_of(beginning, REACH_M, FRESH_S)
    experiment.report("events that the joins and trees get", len(heard), "events")
    for_range = heard_of(events.slice(0, N_VESSELS * n_for_range), REACH_M, FRESH_S)
    for_meos = heard_of(events.slice(0, N_VESSELS * n_for_meos), REACH_M, FRESH_S)
    patterns = wayeb_py.compile(STREAM + TEXT)

    ours = {id(part): answered(part) for part in (heard, for_range, for_meos)}
    experiment.report("neighbours of an event", ours[id(heard)].count / len(heard), "vessels")
    others: dict[str, tuple[Callable[[], Answer], Heard]] = {}
    if has(experiment, "duckdb"):
        others["DuckDB, buckets"] = InDuckDB(heard, True), heard
        others[RANGES[0]] = InDuckDB(for_range, False), for_range
    if has(experiment, "polars"):
        others["Polars, buckets"] = InPolars(heard, True), heard
        others[RANGES[1]] = InPolars(for_range, False), for_range
    if has(experiment, "scipy"):
        others["cKDTree"] = lambda: in_ckdtree(heard), heard
    others["STRtree"] = lambda: in_strtree(heard), heard
    if has(experiment, "pymeos_cffi"):
        others["MEOS"] = lambda: in_meos(for_meos), for_meos
    for name, (ask, of) in others.items():
        found = ask()
        experiment.check(f"{found.count:,} events of pairs by {name}, and the same ones", found == ours[id(of)])
    check_detections(experiment, patterns, beginning, heard)

    all_heard = heard_of(events, REACH_M, FRESH_S)
    tasks: dict[str, Callable[[], object]] = {
        OURS: lambda: recognise(patterns, events),
        SEARCH: lambda: search(all_heard),
        **{name: ask for name, (ask, _) in others.items()},
    }
    seconds = experiment.median_seconds(tasks, 3, warm=False, clock=time.process_time)
    experiment.yardsticks(others)
    sizes = {OURS: n_events, SEARCH: n_events} | {name: len(of) for name, (_, of) in others.items()}
    for task, n in sizes.items():
        experiment.rate_rows(n, {task: task})
    rates = [n_events / each / 1e6 for each in experiment.record.repeats_s[OURS]]
    middle = statistics.median(rates)
    what = "three patterns over pairs"
    experiment.bound(Bound(what, middle, LEAST_RATE, "at least", "million events/s", min(rates), max(rates)))
    for names, of in ((RANGES, for_range), (JOINS, heard)):
        there = [name for name in names if name in seconds]
        if not there:
            continue
        fastest, weight = min(there, key=seconds.__getitem__), n_events / len(of)
        if names == RANGES:
            experiment.bound_ratio(f"{OURS} over {fastest}", fastest, OURS, LEAST, "at least", weight)
        else:
            for name in (OURS, SEARCH):
                experiment.report(f"{name} over {fastest}, by hand", weight * seconds[fastest] / seconds[name], "x")
    experiment.bars("Pairs of 5,000 vessels, one core", "way", "million events/s", LEAST_RATE, "the bound", log="y")
    experiment.finish()


def has(experiment: Experiment, module: str) -> bool:
    """Whether a peer is here; where it is not, the record says so."""
    if importlib.util.find_spec(module) is None:
        experiment.note(f"{module} is not here: pip install -e '.[peers]'")
        return False
    return True


if __name__ == "__main__":
    main()
