"""Measures what a rule keeps over time: by lifetimes, against keeping by the window and by reference counts.

The rule wants a detection of A, then one of B within ten minutes, then one of C within two minutes of B, all of one
entity, and none of D between B and C. Detections come at random, four times as many in every second hour. After every
five minutes of data the experiment counts what is kept, rows and joined tuples together:

- *lifetimes*: what the network keeps; a row or a tuple goes when nothing to come can join it; by the planner's order of
  joins, and where A and B are joined first, as in the other two;
- *window*: every row and every tuple is kept for the twelve minutes that a match can last, as a window over the rule
  would have it;
- *reference counts*: a tuple goes when its window, from its last row on, is over, and a row when the last tuple that
  holds it goes, as where nothing but its use says that a row can go.

numpy counts the other two. The space-time of each is what it keeps summed over time.

Analysis: rows of C and D wait for nothing once the clock has passed them; those of B wait for two minutes, only those
of A for ten. So most of what a window keeps is dead.
"""

from __future__ import annotations

import numpy as np

from benchmarks.harness.measure import Bound, Figure, start, stay_on_one_core
from wayeb_py.arrays import I64
from wayeb_py.rules.conditions import Column, Equal, Within
from wayeb_py.rules.network import Network
from wayeb_py.rules.planning.build import build
from wayeb_py.rules.planning.planner import choose
from wayeb_py.rules.planning.query import Absence, Member, Query, Reach
from wayeb_py.rules.planning.tree import read_tree

SEED = 22
MINUTE = 60
FIRST, SECOND = 10 * MINUTE, 2 * MINUTE  # from A to B, from B to C
WINDOW = FIRST + SECOND
HOURS = {"quick": 1, "usual": 8, "full": 24}
N_ENTITIES = 200
A_MINUTE = 60  # rows a minute of each input in a quiet hour
COUNTED = 5 * MINUTE
LEAST_SAVED = 2.0
TABLES = ("A", "B", "C", "D")
Rows = dict[str, dict[str, I64]]


def make_rows(hours: int) -> Rows:
    """Rows of each input in the order of time."""
    dice = np.random.default_rng(SEED)
    rows = {}
    for table in TABLES:
        by_hour = [A_MINUTE * 60 * (1 if hour % 2 == 0 else 4) for hour in range(hours)]
        ts = np.concatenate([3600 * hour + dice.integers(0, 3600, n) for hour, n in enumerate(by_hour)])
        ts.sort()
        rows[table] = {"ts": ts, "entity": dice.integers(0, N_ENTITIES, len(ts))}
    return rows


def query() -> Query:
    members = tuple(Member(name.lower(), name, name) for name in TABLES)

    def same(one: int, other: int) -> Equal:
        return Equal((Column(one, "entity"),), (Column(other, "entity"),))

    a, b, c, d = (Column(member, "ts") for member in range(4))
    conditions = (same(0, 1), same(1, 2), Within(a, b, 0, FIRST), Within(b, c, 0, SECOND))
    absence = Absence((3,), (same(1, 3), Within(b, d, 1), Within(c, d, most=-1)))
    most = {(0, 1): FIRST, (1, 0): 0, (1, 2): SECOND, (2, 1): 0, (0, 2): WINDOW, (2, 0): 0}
    most |= {(0, 3): WINDOW - 1, (1, 3): SECOND - 1, (2, 3): -1, (3, 0): -1, (3, 1): -1, (3, 2): SECOND - 1}
    reaches = tuple(Reach(Column(one, "ts"), other, ticks) for (one, other), ticks in most.items())
    return Query("R", members, 3, conditions, (absence,), reaches)


def by_lifetimes(rows: Rows, until: I64, plan: str | None) -> tuple[list[int], list[I64]]:
    """What the network keeps after each time; and the matches, as the times of their rows, in the order of decision."""
    network = Network()
    for table in TABLES:
        network.table(table, {"ts": np.int64, "entity": np.int64})
    build(network, query(), choose(query()) if plan is None else read_tree(plan, query()))
    kept, found = [], []
    begin = dict.fromkeys(TABLES, 0)
    for time in until.tolist():
        end = {table: int(np.searchsorted(rows[table]["ts"], time)) for table in TABLES}
        batch = {
            table: {name: values[begin[table] : end[table]] for name, values in rows[table].items()}
            for table in TABLES
            if end[table] > begin[table]
        }
        network.step(batch, clocks=dict.fromkeys(TABLES, time))
        added = network.take("R").added
        found.append(np.array([added.values(Column(member, "ts")) for member in range(3)]))
        kept.append(sum(node.n_alive for node in network.report()))
        begin = end
    return kept, found


def pairs_of(rows: Rows, within: int) -> tuple[I64, I64]:
    """The rows of A and B of one entity of which B comes at most `within` after A."""
    order = np.lexsort((rows["A"]["ts"], rows["A"]["entity"]))
    span = max(int(rows["A"]["ts"].max()), int(rows["B"]["ts"].max())) + within + 1
    key = rows["A"]["entity"][order] * span + rows["A"]["ts"][order]
    of_b = rows["B"]["entity"] * span + rows["B"]["ts"]
    first = np.searchsorted(key, of_b - np.minimum(within, rows["B"]["ts"]))
    n_found = np.searchsorted(key, of_b, side="right") - first
    b = np.repeat(np.arange(len(of_b)), n_found)
    a = np.repeat(first, n_found) + np.arange(len(b)) - np.repeat(np.cumsum(n_found) - n_found, n_found)
    return order[a], b


def alive(begins: I64, ends: I64, at: I64) -> I64:
    """How many rows have begun before each time and have not ended by it."""
    return np.searchsorted(np.sort(begins), at) - np.searchsorted(np.sort(ends), at)


def by_window(rows: Rows, pairs: tuple[I64, I64], at: I64) -> I64:
    """What a window keeps: every row for the window, every tuple for as long as its first row."""
    kept = sum(alive(columns["ts"], columns["ts"] + WINDOW, at) for columns in rows.values())
    a, b = pairs
    return np.asarray(kept + alive(rows["B"]["ts"][b], rows["A"]["ts"][a] + WINDOW, at))


def by_references(rows: Rows, pairs: tuple[I64, I64], at: I64) -> I64:
    """What reference counts keep: a tuple for the window from its last row on, a row as long as a tuple holds it."""
    a, b = pairs
    tuple_ends = rows["B"]["ts"][b] + WINDOW
    ends = {table: columns["ts"] + WINDOW for table, columns in rows.items()}
    np.maximum.at(ends["A"], a, tuple_ends)
    np.maximum.at(ends["B"], b, tuple_ends)
    kept = sum(alive(rows[table]["ts"], ends[table], at) for table in TABLES)
    return np.asarray(kept + alive(rows["B"]["ts"][b], tuple_ends, at))


def matches_in_numpy(rows: Rows, pairs: tuple[I64, I64]) -> I64:
    """The times of A, B and C of every match, from the definition: C soon after B, and no D between."""
    a, b = pairs
    found = []
    by_entity = {
        table: [rows[table]["ts"][rows[table]["entity"] == entity] for entity in range(N_ENTITIES)]
        for table in ("C", "D")
    }
    for nth_a, nth_b in zip(a.tolist(), b.tolist(), strict=True):
        entity, ts = int(rows["B"]["entity"][nth_b]), int(rows["B"]["ts"][nth_b])
        c, d = by_entity["C"][entity], by_entity["D"][entity]
        soon = c[np.searchsorted(c, ts) : np.searchsorted(c, ts + SECOND, side="right")]
        free = soon[
            np.searchsorted(d, soon) == np.minimum(np.searchsorted(d, ts, side="right"), np.searchsorted(d, soon))
        ]
        found += [(int(rows["A"]["ts"][nth_a]), ts, int(one)) for one in free]
    return np.array(sorted(found), dtype=np.int64).reshape(-1, 3)


def main() -> None:
    stay_on_one_core()
    experiment = start("kept_rows", "what a rule keeps over time, by lifetimes, window and reference counts", SEED)
    hours = HOURS[experiment.size]
    rows = make_rows(hours)
    at = np.arange(COUNTED, 3600 * hours + 1, COUNTED)
    until = np.append(at, 3600 * hours + WINDOW + 1)
    kept, found = by_lifetimes(rows, until, None)
    kept_in_order, _ = by_lifetimes(rows, until, "a b c d")
    first_hour = {
        table: {name: values[columns["ts"] < 3600] for name, values in columns.items()}
        for table, columns in rows.items()
    }
    ours = np.concatenate(found, axis=1).T
    ours = np.array(sorted(map(tuple, ours[ours[:, 2] < 3600].tolist())), dtype=np.int64).reshape(-1, 3)
    expected = matches_in_numpy(first_hour, pairs_of(first_hour, FIRST))
    experiment.check(
        f"{len(ours):,} matches of the first hour, as numpy's", len(ours) > 0 and np.array_equal(ours, expected)
    )
    pairs = pairs_of(rows, FIRST)
    ways = {
        "lifetimes": np.array(kept_in_order[:-1]),
        "lifetimes, planned": np.array(kept[:-1]),
        "window": by_window(rows, pairs, at),
        "reference counts": by_references(rows, pairs, at),
    }
    for nth, time in enumerate(at.tolist()):
        for way, counts in ways.items():
            experiment.row(minutes=time // MINUTE, kept_by=way, **{"rows and tuples": int(counts[nth])})
    space_time = {way: float(counts.sum()) * COUNTED / 3600 for way, counts in ways.items()}
    for way, total in space_time.items():
        experiment.report(f"space-time by {way}", total, "row hours")
    for way in ("window", "reference counts"):
        what = f"space-time by {way} over lifetimes"
        experiment.bound(Bound(what, space_time[way] / space_time["lifetimes"], LEAST_SAVED, "at least"))
    experiment.figure(Figure("What a rule keeps", "minutes", "rows and tuples", "kept_by"))
    experiment.finish()


if __name__ == "__main__":
    main()
