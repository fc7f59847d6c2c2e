"""Measures what a silence costs: `(v > 0.5) ; silence D` over up to a million entities, against the pattern without it.

Every entity reports every ten minutes or so, and some stay away for twice as long as the silence. numpy counts the
silences over the events laid out as [step, entity]. Half of all events match, and wait; all but a few are followed by
the entity's next report long before the silence is over.

Analysis: the clock puts the events of all entities in one order, and the operator of silences makes a second pass over
them. A match waits in a queue until the clock has passed its silence, so that neither the number of entities nor the
length of the silence should matter beyond the caches.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

import wayeb_py
from benchmarks.experiments.scaling import growth
from benchmarks.harness.measure import Bound, Experiment, Figure, start, stay_on_one_core

SEED = 13
REPORT_S = 600
SHARE_AWAY = 0.2  # share of the entities that stay away once
BATCH_ROWS = 1 << 17
MOST_NS = 1_000  # for each event, with a million entities
STREAM = "stream made {\n    key  id\n    time t in s\n    lateness 1 min\n    attr v number\n}\n"
HOUR, DAY = 3_600, 86_400
# entities, reports of each, silence in s
SIZES = {
    "quick": [(100, 1_000, HOUR), (10_000, 20, HOUR)],
    "usual": [(1_000, 2_000, HOUR), (30_000, 200, HOUR), (30_000, 200, DAY), (1_000_000, 12, HOUR)],
}
SAY = {HOUR: "1 h", DAY: "1 d"}


def make_events(n_entities: int, n_reports: int, silence_s: int) -> pa.Table:
    """Reports in the order of time; those of one second are in no order of keys."""
    dice = np.random.default_rng(SEED)
    t = REPORT_S * np.arange(n_reports)[:, None] + dice.integers(0, REPORT_S, n_entities) + dice.integers(
        0, 30, (n_reports, n_entities)
    )  # fmt: skip
    v = dice.random((n_reports, n_entities), dtype=np.float32)
    away = np.where(dice.random(n_entities) < SHARE_AWAY, dice.integers(0, REPORT_S * n_reports, n_entities), -(10**9))
    there = (t < away) | (t > away + 2 * silence_s)
    ids = np.broadcast_to(dice.permutation(3 * n_entities)[:n_entities].astype(np.int64), t.shape)
    order = np.argsort(t[there], kind="stable")
    return pa.table({name: column[there][order] for name, column in (("id", ids), ("t", t), ("v", v))})


def count_silences(events: pa.Table, silence_s: int) -> int:
    """Counts matches that no event of their entity follows for `silence_s`, as far as the data show."""
    ids, t, v = (events[name].to_numpy() for name in ("id", "t", "v"))
    order = np.lexsort((np.arange(len(t)), t, ids))
    ids, t, v, last = ids[order], t[order], v[order], int(t.max())
    same = ids[1:] == ids[:-1]
    following = np.append(np.where(same, t[1:], last + silence_s), last + silence_s)  # nothing is known of the last one
    over = np.where(np.append(same, False), following > t + silence_s, t + silence_s < last)
    return int(np.count_nonzero((v > 0.5) & over))


def recognise(patterns: wayeb_py.Patterns, events: pa.Table) -> int:
    recogniser = wayeb_py.Recogniser(patterns, order="sorted")
    n_found = sum(len(recogniser.feed(batch)) for batch in events.to_batches(max_chunksize=BATCH_ROWS))
    return n_found + len(recogniser.finish())


def measure(experiment: Experiment, n_entities: int, n_reports: int, silence_s: int) -> float:
    """Measures nanoseconds for each event."""
    events = make_events(n_entities, n_reports, silence_s)
    said = SAY[silence_s]
    silent = wayeb_py.compile(f"{STREAM}pattern Silent := (v > 0.5) ; silence {said}\n")
    alone = wayeb_py.compile(f"{STREAM}pattern Rising := (v > 0.5)\n")
    found, expected = recognise(silent, events), count_silences(events, silence_s)
    experiment.check(f"{found:,} silences of {said}, {n_entities:,} entities, as numpy's", found == expected > 0)
    tasks = {f"silence of {said}": silent, "without it": alone}
    names = {f"{way}, {n_entities:,}, {said}": way for way in tasks}
    runs: dict[str, Callable[[], int]] = {name: partial(recognise, tasks[way], events) for name, way in names.items()}
    experiment.median_seconds(runs, 3, clock=time.process_time)
    for name, way in names.items():
        per_event = [1e9 * seconds / len(events) for seconds in experiment.record.repeats_s[name]]
        experiment.row(
            entities=n_entities,
            set=way,
            **{"ns an event": statistics.median(per_event), "low": min(per_event), "high": max(per_event)},
            events=len(events),
        )
    return statistics.median(experiment.record.repeats_s[next(iter(names))]) / len(events) * 1e9


def main() -> None:
    stay_on_one_core()
    experiment = start("silence", "patterns that end in a silence, up to a million entities, one core", SEED)
    sizes = SIZES["quick" if experiment.size == "quick" else "usual"]
    costs = {}
    for number, size in enumerate(sizes):
        experiment.progress.step(number + 1, len(sizes), "size")
        costs[size] = measure(experiment, *size)
    of_an_hour = {size[0]: cost for size, cost in costs.items() if size[2] == HOUR}
    if len(of_an_hour) > 2:
        slope, error = growth(list(of_an_hour), list(of_an_hour.values()))
        experiment.report("growth exponent with entities", 1 + slope, "exponent")
        experiment.report("growth exponent with entities, standard error", error, "exponent")
    most = max(of_an_hour)
    rows = [row for row in experiment.record.rows if row["entities"] == most and str(row["set"]).startswith("silence")]
    low, high = (float(rows[0][name] or 0) for name in ("low", "high"))
    experiment.bound(Bound(f"silence, {most:,} entities", of_an_hour[most], MOST_NS, "at most", "ns", low, high))
    experiment.figure(
        Figure(
            "Silences, one core", "entities", "ns an event", "set", low="low", high="high", log="x",
            limit=MOST_NS, limit_name="the bound",
        )
    )  # fmt: skip
    experiment.finish()


if __name__ == "__main__":
    main()
