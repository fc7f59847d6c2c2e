"""Measures what a rule of two streams keeps while one lags: by lifetimes, a window and reference counts; work not done.

The rule wants a detection of A in one stream and then one of B in the other within ten minutes, of the same entity; a
condition wants a large value of B. A comes in the first ten minutes of each hour, B all the time. In the first third
both streams come in time; in the second B lags by half an hour; in the last A does. Rows are given minute by minute.
After every five minutes the experiment counts what is kept:

- *lifetimes*: what the network keeps: a row goes when nothing to come can join it;
- *window*: every row and every match for ten minutes of the stream that is behind;
- *reference counts*: a match for ten minutes from its last row on, a row as long as a match that holds it.

numpy counts the other two, which ask the condition of every row of B. *Work not done*: rows that nothing to come could
use when they came, which are not kept; and those of them that could meet nothing that is there either, of which the
condition is not asked. The condition counts the rows that it is asked of.

Analysis: a row of B meets rows of A that are there, or come from a stream that is behind. Where A is in time no row of
B is kept, and while none of A is there the condition is not asked; where A lags, rows of B wait for it, and those of A
are dead when they come.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.experiments.rules.kept_rows import Rows, pairs_of
from benchmarks.harness.measure import Bound, Figure, start, stay_on_one_core
from wayeb_py.arrays import I64
from wayeb_py.rules.conditions import Column, Equal, Expression, Within
from wayeb_py.rules.network import Network
from wayeb_py.rules.planning.build import build
from wayeb_py.rules.planning.planner import choose
from wayeb_py.rules.planning.query import Member, Query, Reach
from wayeb_py.rules.table import Array

SEED = 24
MINUTE = 60
WINDOW, LAG, COUNTED = 10 * MINUTE, 30 * MINUTE, 5 * MINUTE
HOURS = {"quick": 3, "usual": 9, "full": 24}
N_ENTITIES, A_MINUTE = 200, 120
BURST, BURST_EVERY = 10 * MINUTE, 60 * MINUTE  # how long A comes, and how often it begins to
VALUES, LARGE = 100, 25  # of B: how many there are, and the least that the rule wants
LEAST_SAVED = 1.3
LEAST_NOT_ASKED = 0.2  # of all rows of B


class Asked:
    """The condition on B's value, which counts the rows that it is asked of."""

    def __init__(self) -> None:
        self.n_rows = 0

    def __call__(self, values: Sequence[Array]) -> Array:
        self.n_rows += len(values[0])
        return np.asarray(values[0] >= LARGE)


def make_rows(hours: int) -> Rows:
    """Rows of both inputs in the order of time."""
    dice = np.random.default_rng(SEED)
    n = 60 * hours * A_MINUTE
    times = {"A": dice.integers(0, 3600 * hours, n), "B": dice.integers(0, 3600 * hours, n)}
    times["A"] = times["A"] // BURST_EVERY * BURST_EVERY + times["A"] % BURST
    rows = {name: {"ts": np.sort(ts), "entity": dice.integers(0, N_ENTITIES, n)} for name, ts in times.items()}
    rows["B"]["value"] = dice.integers(0, VALUES, n)
    return rows


def lags(time: int, end: int) -> dict[str, int]:
    """How far each stream is behind at a time."""
    third = 3 * time // end
    return {"A": LAG if third >= 2 else 0, "B": LAG if third == 1 else 0}


def query(asked: Asked) -> Query:
    a, b = Column(0, "ts"), Column(1, "ts")
    is_large = Expression((Column(1, "value"),), asked, "large", "b.value is large")
    conditions = (Equal((Column(0, "entity"),), (Column(1, "entity"),)), Within(a, b, 0, WINDOW), is_large)
    members = (Member("a", "A", "A"), Member("b", "B", "B"))
    return Query("R", members, 2, conditions, (), (Reach(a, 1, WINDOW), Reach(b, 0, 0)))


def by_lifetimes(rows: Rows, end: int) -> tuple[list[int], list[int], I64, int]:
    """What the network keeps, and how often it has asked the condition, after each time that counts; the matches; how
    many rows were dead when they came."""
    network, condition = Network(), Asked()
    network.table("A", {"ts": np.int64, "entity": np.int64})
    network.table("B", {"ts": np.int64, "entity": np.int64, "value": np.int64})
    build(network, query(condition), choose(query(condition)))
    kept, asked, found = [], [], []
    begin, clock = {"A": 0, "B": 0}, {"A": 0, "B": 0}
    for time in (*range(MINUTE, end + 1, MINUTE), end + LAG + WINDOW + 1):
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
        if time % COUNTED == 0:
            kept.append(sum(node.n_alive for node in report))
            asked.append(condition.n_rows)
        begin = until
    return kept, asked, np.concatenate(found, axis=1).T, sum(node.counters.n_dead for node in report)


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
    kept, asked, found, n_dead = by_lifetimes(rows, end)
    came = [int(np.searchsorted(rows["B"]["ts"], time - lags(time - 1, end)["B"])) for time in at.tolist()]
    came = np.maximum.accumulate(came).tolist()
    is_large = rows["B"].pop("value") >= LARGE
    rows["B"] = {name: values[is_large] for name, values in rows["B"].items()}
    pairs = pairs_of(rows, WINDOW)
    expected = np.column_stack([rows["A"]["ts"][pairs[0]], rows["B"]["ts"][pairs[1]]])
    same = np.array_equal(found[np.lexsort(found.T)], expected[np.lexsort(expected.T)])
    experiment.check(f"{len(found):,} matches, as numpy's", same and len(found) > 0)
    ways = {
        "lifetimes": kept,
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
        for way, n in (("lifetimes", asked[nth]), ("the others", came[nth])):
            experiment.row(minutes=time // MINUTE, asked_by=way, **{"rows asked": n})
    for way, total in space_time.items():
        experiment.report(f"space-time by {way}", total, "row hours")
    n_rows = len(is_large) + len(rows["A"]["ts"])
    experiment.report("rows that were dead when they came", n_dead, f"of {n_rows:,}")
    for way in ("window", "reference counts"):
        saved = space_time[way] / space_time["lifetimes"]
        experiment.bound(Bound(f"space-time by {way} over lifetimes", saved, LEAST_SAVED, "at least"))
    not_asked = 1 - asked[-1] / came[-1]
    told = "rows of B that the condition was not asked of, over all"
    experiment.bound(Bound(told, not_asked, LEAST_NOT_ASKED, "at least", "share"))
    experiment.figure(Figure("What a rule of two streams keeps", "minutes", "rows and tuples", "kept_by"))
    experiment.figure(Figure("Space-time of a rule of two streams", "minutes", "row hours", "kept_by"))
    experiment.figure(Figure("Rows that a condition is asked of", "minutes", "rows asked", "asked_by"))
    experiment.finish()


if __name__ == "__main__":
    main()
