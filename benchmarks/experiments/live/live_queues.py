"""Measures what queues cost: events that wait and are taken by level, against feeding a recogniser directly.

Events come together in portions of one to ten thousand. *Directly*: each portion is fed to one recogniser with all six
patterns. *One level*: it arrives in a queue, from which one lane takes it. *Three levels*: two patterns at each of
three. Processor time, in turns; detections are compared.

Analysis: a queue costs some microseconds for each portion, and nothing for an event. Three levels cost three
recognisers: each numbers the entities and steps its own automaton, so that patterns of one level are cheaper together.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

import wayeb_py
from benchmarks.harness.measure import Bound, Figure, start, stay_on_one_core
from benchmarks.inputs.fleet_events import SIX_PATTERNS, read_fleet
from wayeb_py.engine.priority_levels.leveled_recogniser import LeveledRecogniser
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.engine.rows.detection_id import with_ids

PORTIONS = (1, 10, 100, 1_000, 10_000)
N_EVENTS = {"quick": 100_000, "usual": 2_000_000, "full": 2_000_000}
MOST_PORTIONS = {"quick": 2_000, "usual": 20_000, "full": 50_000}
MOST_COST = 1.5  # the most that one level may cost against feeding directly, in portions of a thousand
LEVELS = ("high", "high", "normal", "normal", "low", "low")


def leveled() -> wayeb_py.Patterns:
    """The six patterns, two at each level."""
    levels, lines = iter(LEVELS), SIX_PATTERNS.read_text().splitlines()
    return wayeb_py.compile(
        "\n".join(f"{line} priority {next(levels)}" if line.startswith("pattern ") else line for line in lines) + "\n"
    )


def directly(patterns: wayeb_py.Patterns, portions: list[pa.RecordBatch]) -> int:
    """As a stream without levels has them: a table with ids leaves, as what a level finds does."""
    recogniser = Recogniser(patterns, listens=False)
    return sum(with_ids(recogniser.feed(batch).to_arrow(), patterns.rule_names).num_rows for batch in portions)


def queued(patterns: wayeb_py.Patterns, portions: list[pa.RecordBatch]) -> int:
    recogniser, n_found = LeveledRecogniser(patterns), 0
    for batch in portions:
        recogniser.arrive(batch)
        while (left := recogniser.work()) is not None:
            n_found += left.found.num_rows
    return n_found


def main() -> None:
    stay_on_one_core()
    experiment = start("live_queues", "events that wait and are taken by level, against feeding them directly")
    events = read_fleet(N_EVENTS[experiment.size])
    alike, by_level = wayeb_py.compile(SIX_PATTERNS), leveled()
    ways: dict[str, Callable[[list[pa.RecordBatch]], int]] = {
        "directly": lambda portions: directly(alike, portions),
        "one level": lambda portions: queued(alike, portions),
        "three levels": lambda portions: queued(by_level, portions),
    }
    repeats = 2 if experiment.size == "quick" else 5
    costs: dict[tuple[str, int], float] = {}
    for number, size in enumerate(PORTIONS):
        experiment.progress.step(number + 1, len(PORTIONS), "portions")
        n = min(len(events), size * MOST_PORTIONS[experiment.size])
        portions = [events.slice(at, size).combine_chunks().to_batches()[0] for at in range(0, n, size)]
        took_s: dict[str, list[float]] = {way: [] for way in ways}
        found: dict[str, int] = {}
        with experiment.watched():
            for repeat in range(repeats + 1):
                for way, run in ways.items():
                    began_s = time.thread_time()
                    found[way] = run(portions)
                    if repeat:
                        took_s[way].append(time.thread_time() - began_s)
        told = f"{found['directly']:,} detections in portions of {size:,}, the same three ways"
        experiment.check(told, len(set(found.values())) == 1)
        for way, some in took_s.items():
            us = [1e6 * s / n for s in some]
            costs[way, size] = float(np.median(us))
            experiment.row(portion=size, way=way, **{"us an event": costs[way, size]}, low=min(us), high=max(us))
    ratio = costs["one level", 1_000] / costs["directly", 1_000]
    experiment.bound(Bound("one level over feeding directly, portions of 1,000", ratio, MOST_COST, "at most"))
    for way in ("one level", "three levels"):
        experiment.report(f"{way} over directly, events one by one", costs[way, 1] / costs["directly", 1], "x")
    figure = Figure("The cost of queues", "portion", "us an event", "way", low="low", high="high", log="xy")
    experiment.figure(figure)
    experiment.finish()


if __name__ == "__main__":
    main()
