"""Measures how pairs grow with the number of vessels at a constant density, and with the number in one harbour.

At sea, from ten vessels to a million, every event has 2.5 others within a kilometre; the three patterns of `pairs` are
run over events in memory, on one core. In the harbour every vessel is within a kilometre of every other. The growth
exponent is that of the time that all vessels take for equally many reports each: the slope, on logarithmic axes, of the
time an event takes against vessels, plus one. It is fitted to the quickest of five repeats, since whatever else the
machine does only adds time, and most to what needs the caches. The events of pairs are compared with those of shapely's
STRtree, at every size.

Analysis: at sea an event looks at as many others whatever the number of vessels, so the exponent is 1 but for what
leaves the caches: a million vessels' positions, lists, pairs and states do not fit. What an event will look at is
prefetched some events before; what remains is a vessel that gets another list, and a million that report for the first
time. In the harbour every event counts for as many pairs as there are others, and each of them is measured and stepped:
that is quadratic, and must be so for the harbour alone. A sea around it costs the same as without the harbour.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from functools import partial

import pyarrow as pa

import wayeb_py
from benchmarks.experiments.scaling import growth
from benchmarks.experiments.several.pairs import BATCH_ROWS, FRESH_S, search
from benchmarks.harness.measure import Bound, Experiment, Figure, start, stay_on_one_core
from benchmarks.harness.record import Value
from benchmarks.inputs.open_sea import REACH_M, SEED, STREAM, make_sea
from benchmarks.references.near_pairs import Answer, heard_of
from benchmarks.references.near_pairs_trees import in_strtree
from benchmarks.references.pair_patterns_in_numpy import TEXT

SEA = {"quick": [10, 1_000, 10_000], "usual": [10, 100, 1_000, 10_000, 100_000, 1_000_000]}
HARBOUR = {"quick": [20, 40, 80], "usual": [25, 50, 100, 200, 400]}
# events at least; reports of each vessel at least; events of pairs in the harbour
N_EVENTS = {"quick": (50_000, 3, 200_000), "usual": (1_000_000, 20, 8_000_000)}
CHECKED_EVENTS = 20_000  # at least this many; as many as there are vessels where those are more
HARBOUR_M = 700.0  # its side: every vessel is within reach of every other
MOST_AT_SEA, MOST_IN_HARBOUR = 1.1, 2.1
N_SEA, N_HARBOUR = 5_000, 200  # vessels of both at once
MOST_TOGETHER = 1.25


def recognise(patterns: wayeb_py.Patterns, events: pa.Table) -> int:
    recogniser = wayeb_py.Recogniser(patterns, order="sorted")
    n_found = sum(len(recogniser.feed(batch)) for batch in events.to_batches(max_chunksize=BATCH_ROWS))
    return n_found + len(recogniser.finish())


def check(experiment: Experiment, where: str, n_vessels: int, events: pa.Table) -> None:
    """Compares the events of pairs at the beginning with those of a tree."""
    beginning = events.slice(0, max(CHECKED_EVENTS, n_vessels))
    heard = heard_of(beginning, REACH_M, FRESH_S)
    told: list[Answer] = []
    search(heard, told)
    ours = Answer(sum(one.count for one in told), sum(one.checksum for one in told))
    what = f"{ours.count:,} events of pairs of {n_vessels:,} vessels {where}, {ours.count / len(heard):.2f} an event"
    experiment.check(what, in_strtree(heard) == ours and ours.count > 0)


def measure(experiment: Experiment, where: str, seas: dict[int, pa.Table]) -> None:
    """Times every size in turn, and adds its rows."""
    patterns = wayeb_py.compile(STREAM + TEXT)
    for n_vessels, events in seas.items():
        check(experiment, where, n_vessels, events)
    tasks = {f"{n:,} {where}": partial(recognise, patterns, events) for n, events in seas.items()}
    experiment.median_seconds(tasks, 5, clock=time.process_time)
    for n_vessels, task in zip(seas, tasks, strict=True):
        n_events = seas[n_vessels].num_rows
        per_event = [1e9 * seconds / n_events for seconds in experiment.record.repeats_s[task]]
        experiment.row(
            where=where,
            at=n_vessels,
            **{"ns an event": statistics.median(per_event), "low": min(per_event), "high": max(per_event)},
            events=n_events,
        )


def bound_growth(experiment: Experiment, where: str, varied: str, most: float) -> None:
    """Fits how the time of all vessels grows, and bounds it."""
    rows = [row for row in experiment.record.rows if row["where"] == where]
    slope, error = growth(numbers(rows, "at"), numbers(rows, "low"))
    for row in rows:
        row["variation"] = f"{varied}, exponent {1 + slope:.2f} ± {error:.2f}"
    bound = Bound(f"growth with {varied}", 1 + slope, most, "at most", "exponent", 1 + slope - error, 1 + slope + error)
    experiment.bound(bound)


def numbers(rows: Sequence[dict[str, Value]], column: str) -> list[float]:
    return [float(str(row[column])) for row in rows]


def together(experiment: Experiment) -> None:
    """Measures a harbour in the middle of a sea, against both by themselves."""
    n_reports = 10 if experiment.size == "quick" else 100
    sea, harbour = make_sea(N_SEA, n_reports), make_sea(N_HARBOUR, n_reports, HARBOUR_M, SEED + 1)
    both = pa.concat_tables([sea, harbour]).sort_by("ts").combine_chunks()
    patterns = wayeb_py.compile(STREAM + TEXT)
    tasks = {"sea": sea, "harbour": harbour, "both": both}
    seconds = experiment.median_seconds(
        {name: partial(recognise, patterns, events) for name, events in tasks.items()}, clock=time.process_time
    )
    share = seconds["both"] / (seconds["sea"] + seconds["harbour"])
    what = f"{N_SEA:,} at sea and {N_HARBOUR} in a harbour, over both apart"
    experiment.bound(Bound(what, share, MOST_TOGETHER, "at most"))


def main() -> None:
    stay_on_one_core()
    experiment = start("pairs_growth", "the cost of pairs against vessels, at sea and in one harbour, one core", SEED)
    size = "quick" if experiment.size == "quick" else "usual"
    n_events, n_reports, n_met = N_EVENTS[size]
    at_sea = {n: make_sea(n, max(n_reports, n_events // n)) for n in SEA[size]}
    measure(experiment, "at sea", at_sea)
    bound_growth(experiment, "at sea", "vessels at sea", MOST_AT_SEA)
    del at_sea
    harbours = {n: make_sea(n, max(n_reports, n_met // (n * (n - 1))), HARBOUR_M) for n in HARBOUR[size]}
    measure(experiment, "in a harbour", harbours)
    bound_growth(experiment, "in a harbour", "vessels in a harbour", MOST_IN_HARBOUR)
    together(experiment)
    experiment.figure(
        Figure("Cost of pairs, one core", "at", "ns an event", panel="variation", low="low", high="high", log="xy")
    )
    experiment.finish()


if __name__ == "__main__":
    main()
