"""Measures what a rule of two streams keeps while one lags: by lifetimes, a window and reference counts; work not done.

The rule wants a detection of A in one stream and then one of B in the other within ten minutes, of the same entity. In
the first third both streams come in time; in the second B lags by half an hour; in the last A does. After every five
minutes the experiment counts what is kept:

- *lifetimes*: what the network keeps: a row goes when nothing to come can join it;
- *window*: every row and every match for ten minutes of the stream that is behind;
- *reference counts*: a match for ten minutes from its last row on, a row as long as a match that holds it.

numpy counts the other two. *Work not done*: rows that nothing to come could use when they came, which are not
kept.

Analysis: a row of B meets rows of A that are there, or come from a stream that is behind. Where A is in time no row of
B is kept; where A lags, rows of B wait for it, and those of A are dead when they come.
"""

from __future__ import annotations

import numpy as np

from benchmarks.experiments.rules.kept_rows import Rows, pairs_of
from benchmarks.harness.measure import Bound, Figure, start, stay_on_one_core
from wayeb_py.arrays import I64
from wayeb_py.rules.conditions import Column, Equal, Within
from wayeb_py.rules.network import Network
from wayeb_py.rules.planning.build import build
from wayeb_py.rules.planning.planner import choose
from wayeb_py.rules.planning.query import Member, Query, Reach

SEED = 24
MINUTE = 60
WINDOW, LAG, COUNTED = 10 * MINUTE, 30 * MINUTE, 5 * MINUTE
HOURS = {"quick": 3, "usual": 9, "full": 24}
N_ENTITIES, A_MINUTE = 200, 120
LEAST_SAVED = 1.3


def make_rows(hours: int) -> Rows:
    """Rows of both inputs in the order of time."""
    dice = np.random.default_rng(SEED)
    n = 60 * hours * A_MINUTE
    return {
        table: {"ts": np.sort(dice.integers(0, 3600 * hours, n)), "entity": dice.integers(0, N_ENTITIES, n)}
        for table in ("A", "B")
    }


def lags(time: int, end: int) -> dict[str, int]:
    """How far each stream is behind at a time."""
    third = 3 * time // end
    return {"A": LAG if third >= 2 else 0, "B": LAG if third == 1 else 0}


def query() -> Query:
    a, b = Column(0, "ts"), Column(1, "ts")
    conditions = (Equal((Column(0, "entity"),), (Column(1, "entity"),)), Within(a, b, 0, WINDOW))
    members = (Member("a", "A", "A"), Member("b", "B", "B"))
    return Query("R", members, 2, conditions, (), (Reach(a, 1, WINDOW), Reach(b, 0, 0)))


def by_lifetimes(rows: Rows, at: I64, end: int) -> tuple[list[int], I64, dict[str, int]]:
    """What the network keeps after each time, the matches, and the work that it did not do."""
    network = Network()
    for table in ("A", "B"):
        network.table(table, {"ts": np.int64, "entity": np.int64})
    build(network, query(), choose(query()))
    kept, found = [], []
    begin, clock = {"A": 0, "B": 0}, {"A": 0, "B": 0}
    for time in at.tolist():
        behind = lags(time - 1, end)
        clock = {table: max(clock[table], time - behind[table]) for table in begin}
        until = {table: int(np.searchsorted(rows[table]["ts"], clock[table])) for table in begin}
        batch = {
            table: {name: values[begin[table] : until[table]] for name, values in rows[table].items()}
            for table in begin
            if until[table] > begin[table]
        }
        network.step(batch, clocks=dict(clock))
        added = network.take("R").added
        found.append(np.array([added.values(Column(member, "ts")) for member in range(2)]))
        report = network.report()
        kept.append(sum(node.n_alive for node in report))
        begin = until
    not_done = {
        "rows that were dead when they came": sum(node.counters.n_dead for node in report),
        "conditions of dead rows that were not evaluated": sum(node.counters.n_skipped for node in report),
    }
    return kept, np.concatenate(found, axis=1).T, not_done


def kept_otherwise(rows: Rows, pairs: tuple[I64, I64], at: I64, end: int, by: str) -> list[int]:
    """Rows and matches that are there after each time, kept by a window or by reference counts."""
    a, b = pairs
    last = np.maximum(rows["A"]["ts"][a], rows["B"]["ts"][b])
    ends = {table: columns["ts"] + WINDOW for table, columns in rows.items()}
    pair_ends = rows["A"]["ts"][a] + WINDOW if by == "window" else last + WINDOW
    if by != "window":
        np.maximum.at(ends["A"], a, pair_ends)
        np.maximum.at(ends["B"], b, pair_ends)
    counts, clock = [], {"A": 0, "B": 0}
    for time in at.tolist():
        behind = lags(time - 1, end)
        clock = {table: max(clock[table], time - behind[table]) for table in clock}
        slowest = min(clock.values())
        n = sum(int(((rows[name]["ts"] < clock[name]) & (ends[name] > slowest)).sum()) for name in rows)
        is_there = (rows["A"]["ts"][a] < clock["A"]) & (rows["B"]["ts"][b] < clock["B"])
        counts.append(n + int((is_there & (pair_ends > slowest)).sum()))
    return counts


def main() -> None:
    stay_on_one_core()
    experiment = start("lagging_stream", "what a rule of two streams keeps while one of them lags; work not done", SEED)
    hours = HOURS[experiment.size]
    end, rows = 3600 * hours, make_rows(hours)
    at = np.arange(COUNTED, end + 1, COUNTED)
    kept, found, not_done = by_lifetimes(rows, np.append(at, end + LAG + WINDOW + 1), end)
    pairs = pairs_of(rows, WINDOW)
    expected = np.column_stack([rows["A"]["ts"][pairs[0]], rows["B"]["ts"][pairs[1]]])
    same = np.array_equal(found[np.lexsort(found.T)], expected[np.lexsort(expected.T)])
    experiment.check(f"{len(found):,} matches, as numpy's", same and len(found) > 0)
    ways = {
        "lifetimes": kept[: len(at)],
        "window": kept_otherwise(rows, pairs, at, end, "window"),
        "reference counts": kept_otherwise(rows, pairs, at, end, "reference counts"),
    }
    space_time = {way: sum(counts) * COUNTED / 3600 for way, counts in ways.items()}
    for nth, time in enumerate(at.tolist()):
        for way, counts in ways.items():
            grown = sum(counts[: nth + 1]) * COUNTED / 3600
            experiment.row(
                minutes=time // MINUTE, kept_by=way, **{"rows and tuples": counts[nth], "row hours": grown}
            )
    for way, total in space_time.items():
        experiment.report(f"space-time by {way}", total, "row hours")
    for what, n in not_done.items():
        experiment.report(what, n, f"of {sum(len(one['ts']) for one in rows.values()):,} rows")
    for way in ("window", "reference counts"):
        saved = space_time[way] / space_time["lifetimes"]
        experiment.bound(Bound(f"space-time by {way} over lifetimes", saved, LEAST_SAVED, "at least"))
    experiment.figure(Figure("What a rule of two streams keeps", "minutes", "rows and tuples", "kept_by"))
    experiment.figure(Figure("Space-time of a rule of two streams", "minutes", "row hours", "kept_by"))
    experiment.finish()


if __name__ == "__main__":
    main()
