"""Measures how the cost of an event grows with patterns, entities, events, the length of the window, the share
detected.

One thing is varied at a time, over events in memory, on one core. A growth exponent is the slope on logarithmic
axes, with its standard error: of the total time against events and patterns, of the time an event takes against the
others; 0 means free, 1 in proportion. Expected counts come from numpy, over the events laid out as [step, entity].

analysis: time should be in proportion to events, all but independent of entities until their states leave the caches,
independent of the window, and grow with the share detected by what a row of output costs. With patterns it grows by
groups: distinct patterns that share their letters are stepped as one automaton.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import wayeb_py
from benchmarks.harness.measure import Experiment, Figure, start, stay_on_one_core
from benchmarks.inputs.fleet_events import QUICK_EVENTS, as_numpy, read_fleet
from benchmarks.inputs.pattern_sets import thousand, write_sre
from benchmarks.references.boundary_sets import EntityRows

SEED = 5
BATCH_ROWS = 1 << 20
STREAM = "stream made {\n    key  id\n    time t in s\n    attr v number\n}\n"
VARIED = ("events", "entities", "window in s", "share detected", "patterns")
SWING = "pattern Swing := (v > 0.5) ; (v <= 0.5) ; (v > 0.5)"


@dataclass(frozen=True, slots=True)
class ScalePoint:
    """One setting: its input, and how many detections there must be."""

    varied: str
    at: float
    patterns: wayeb_py.Patterns
    events: pa.Table
    expected: int


def made(n_events: int, n_entities: int) -> tuple[np.ndarray, pa.Table]:
    """Values as [step, entity], and the same as events: every entity reports once a second, in one order."""
    n_steps = max(1, n_events // n_entities)
    v = np.random.default_rng(SEED).random((n_steps, n_entities), dtype=np.float32)
    t = np.repeat(np.arange(n_steps, dtype=np.int64), n_entities)
    ids = np.tile(np.random.default_rng(SEED + 1).permutation(n_entities).astype(np.int64), n_steps)
    return v, pa.table({"id": ids, "t": t, "v": v.reshape(-1)})


def count_swings(v: np.ndarray) -> int:
    high = v > 0.5
    return int(np.count_nonzero(high[:-2] & ~high[1:-1] & high[2:]))


def count_within(v: np.ndarray, window_s: int) -> int:
    """Counts events above 0.999 with one below 0.001 at most `window_s` before."""
    step = np.arange(len(v))[:, None]
    last = np.maximum.accumulate(np.where(v < 0.001, step, -1), axis=0)
    before = np.vstack([np.full((1, v.shape[1]), -1), last[:-1]])
    return int(np.count_nonzero((v > 0.999) & (before >= 0) & (step - before <= window_s)))


def points(size: str) -> Iterator[list[ScalePoint]]:
    """Each variation in turn."""
    n_events = QUICK_EVENTS if size == "quick" else 10_000_000
    swing = wayeb_py.compile(f"{STREAM}{SWING}\n")
    counts = [50_000, 150_000, 500_000] if size == "quick" else [100_000, 1_000_000, 10_000_000, 30_000_000]
    yield [ScalePoint("events", n, swing, *_counted(n, 1_000)) for n in counts]

    entities = [10, 1_000, 100_000] if size == "quick" else [10, 1_000, 100_000, 1_000_000, 5_000_000]
    yield [ScalePoint("entities", n, swing, *_counted(max(n_events, 3 * n), n)) for n in entities]

    v, events = made(n_events, 1_000)
    within = []
    for window_s in (10, 100, 1_000, 10_000):
        text = f"{STREAM}pattern W := #((v < 0.001), (v > 0.999)) within {window_s} s\n"
        within.append(ScalePoint("window in s", window_s, wayeb_py.compile(text), events, count_within(v, window_s)))
    yield within

    shares = []
    for share in (0.0, 0.0001, 0.001, 0.01, 0.1, 0.5):
        edge = float(np.float32(1 - share))
        patterns = wayeb_py.compile(f"{STREAM}pattern High := (v > {edge!r})\n")
        shares.append(
            ScalePoint("share detected", share, patterns, events, int(np.count_nonzero(v > np.float32(edge))))
        )
    yield shares

    fleet = read_fleet(QUICK_EVENTS if size == "quick" else 1_000_000)
    words = EntityRows(fleet["vehicle_id"].combine_chunks().dictionary_encode().indices.to_numpy(), as_numpy(fleet))
    chosen = thousand()
    several = []
    for n in (1, 10, 100) if size == "quick" else (1, 10, 100, 300, 1_000):
        names = list(chosen)[:: len(chosen) // n][:n]
        patterns = wayeb_py.compile(write_sre({name: chosen[name] for name in names}))
        expected = sum(len(words.detect(chosen[name].formula)) for name in names)
        several.append(ScalePoint("patterns", n, patterns, fleet, expected))
    yield several


def _counted(n_events: int, n_entities: int) -> tuple[pa.Table, int]:
    v, events = made(n_events, n_entities)
    return events, count_swings(v)


def recognise(point: ScalePoint) -> int:
    recogniser = wayeb_py.Recogniser(point.patterns, order="sorted")
    return sum(len(recogniser.feed(batch)) for batch in point.events.to_batches(max_chunksize=BATCH_ROWS))


def measure(experiment: Experiment, variation: list[ScalePoint]) -> None:
    """Times every setting of a variation in turn, and fits how it grows."""
    for point in variation:
        found = recognise(point)
        experiment.check(f"{found:,} detections at {point.at:,g} {point.varied}", found == point.expected)
    tasks = {f"{point.varied} {point.at:g}": (lambda point=point: recognise(point)) for point in variation}
    experiment.median_seconds(tasks, 3)
    totals = []
    for point, task in zip(variation, tasks, strict=True):
        repeats = experiment.record.repeats_s[task]
        per_event = [1e9 * value / point.events.num_rows for value in repeats]
        totals.append(statistics.median(repeats))
        experiment.row(
            varied=point.varied,
            at=point.at,
            **{"ns an event": statistics.median(per_event), "low": min(per_event), "high": max(per_event)},
            detections=point.expected,
        )
    by_event = variation[0].varied in ("entities", "window in s", "share detected")
    costs = [t / p.events.num_rows for t, p in zip(totals, variation, strict=True)] if by_event else totals
    # A share of 0 has no logarithm: it is measured, and left out of the slope.
    fitted = [(p.at, cost) for p, cost in zip(variation, costs, strict=True) if p.at > 0]
    slope, error = growth(*zip(*fitted, strict=True))
    for row in experiment.record.rows[-len(variation) :]:
        row["variation"] = f"{variation[0].varied}, exponent {slope:.2f} ± {error:.2f}"
    experiment.report(f"growth exponent with {variation[0].varied}", slope, "exponent")
    experiment.report(f"growth exponent with {variation[0].varied}, standard error", error, "exponent")


def growth(at: Sequence[float], costs: Sequence[float]) -> tuple[float, float]:
    """The slope of costs on logarithmic axes by least squares, and its standard error."""
    x, y = np.log(at) - np.mean(np.log(at)), np.log(costs) - np.mean(np.log(costs))
    slope = float(x @ y / (x @ x))
    rest = y - slope * x
    return slope, float(np.sqrt(rest @ rest / (len(x) - 2) / (x @ x)))


def main() -> None:
    stay_on_one_core()
    experiment = start("scaling", "the cost of an event against what could make it grow, one core", SEED)
    for number, variation in enumerate(points(experiment.size)):
        experiment.progress.step(number + 1, len(VARIED), f"{VARIED[number]}: variation")
        measure(experiment, variation)
    experiment.figure(
        Figure("Cost of an event", "at", "ns an event", panel="variation", low="low", high="high", log="xy")
    )
    experiment.finish()


if __name__ == "__main__":
    main()
