"""Measures the time from an event to its detection, in process, for batches of 1, 100 and 10,000 events.

Every batch is offered when the previous one is done, and an event's latency is the time until `feed` has returned the
detections of its batch. The time that an event waits for its batch to fill is the caller's choice and does not count.

An event by itself is also given as a row (a dict of Python values, as a line of JSON becomes) and as arrays; those two
have bounds.

analysis: a call with a table costs some hundred microseconds whatever it carries (arrays are wrapped, columns looked
up); a batch of 100 shares that among its events, and from 10,000 on the events themselves are what costs. A row or
arrays take one compiled call, and most of their time is Python that touches each value once.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

import wayeb_py
from benchmarks.harness.measure import REPEATS, Bound, Experiment, Figure, start, stay_on_one_core
from benchmarks.inputs.fleet_events import SIX_PATTERNS, read_fleet
from benchmarks.references.fleet_in_polars import NEEDED, shift_after_sorting

SIZES = (1, 100, 10_000)
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


def count_in_polars(events: pa.Table) -> int:
    frame = pl.from_arrow(events.select(NEEDED))
    assert isinstance(frame, pl.DataFrame)
    return shift_after_sorting(frame.lazy()).height


def _text_of_time(time_: Any) -> str:
    return str(time_.isoformat(timespec="milliseconds")).replace("+00:00", "Z")


def report_alone(experiment: Experiment, patterns: wayeb_py.Patterns, events: pa.Table) -> None:
    """Reports the medians of single events that are not given as tables."""
    lines = [json.dumps(row, default=_text_of_time) for row in events.select(NEEDED).to_pylist()]
    columns = {name: events[name].combine_chunks() for name in NEEDED}
    ticks = columns["ts"].cast(pa.int64()).to_numpy()
    arrays = {name: column.to_numpy(zero_copy_only=False) for name, column in columns.items()}
    arrays |= {name: column.to_pylist() for name, column in columns.items() if column.null_count}
    arrays["ts"] = ticks
    alone = [{name: some[at : at + 1] for name, some in arrays.items()} for at in range(len(events))]
    expected = count_in_polars(events)
    ways: dict[str, tuple[list[Any], Callable[[wayeb_py.Recogniser, Any], Any], float]] = {
        "as a row": (events.select(NEEDED).to_pylist(), lambda recogniser, row: recogniser.feed([row]), 60),
        "as a line": (lines, lambda recogniser, line: recogniser.feed([json.loads(line)]), 60),
        "as arrays": (alone, lambda recogniser, some: recogniser.feed_arrays(some), 10),
    }
    for way, (offered, feed, most_us) in ways.items():
        recogniser = wayeb_py.Recogniser(patterns, order="sorted")
        recogniser.bind(events.schema)
        seconds, n_found = np.empty(len(offered)), 0
        gc.collect()
        with experiment.watched():
            for number, event in enumerate(offered):
                begin = time.perf_counter()
                found = feed(recogniser, event)
                seconds[number] = time.perf_counter() - begin
                n_found += len(found)
        experiment.check(f"an event by itself {way}: {expected:,} detections", n_found == expected > 0)
        median_us = 1e6 * float(np.median(seconds[len(seconds) // 20 :]))
        experiment.report(f"an event by itself {way}, median", median_us, "us")
        experiment.bound(Bound(f"an event by itself {way}, median in µs", median_us, most_us, "at most"))


def main() -> None:
    stay_on_one_core()
    experiment = start("latency", "from an event offered to its detection out, six patterns, in process, one core")
    n_events, n_alone = (100_000, 3_000) if experiment.size == "quick" else (2_000_000, 20_000)
    events = read_fleet(n_events)
    patterns = wayeb_py.compile(SIX_PATTERNS)
    for number, size in enumerate(SIZES):
        experiment.progress.step(number + 1, len(SIZES), "batch size")
        offered = events.slice(0, n_alone) if size == 1 else events
        batches = [offered.slice(at, size).combine_chunks().to_batches()[0] for at in range(0, len(offered), size)]
        recogniser = wayeb_py.Recogniser(patterns, order="sorted")
        seconds = np.empty(len(batches))
        n_found = np.empty(len(batches), np.int64)
        gc.collect()
        with experiment.watched():
            for number, batch in enumerate(batches):
                begin = time.perf_counter()
                found = recogniser.feed(batch)
                seconds[number] = time.perf_counter() - begin
                n_found[number] = len(found)
        expected = count_in_polars(offered)
        what = f"{expected:,} detections in batches of {size:,}, as many as by Polars"
        experiment.check(what, int(n_found.sum()) == expected > 0)
        latency_ms = 1e3 * seconds[len(seconds) // 20 :]  # the first ones load everything that is loaded once
        if size == 1:
            experiment.report("an event by itself, median", 1e3 * float(np.median(latency_ms)), "us")
        for name, quantile in QUANTILES.items():
            value_ms = float(np.quantile(latency_ms, quantile))
            experiment.row(batch_size=str(size), quantile=name, ms=value_ms)
        # Two records are compared by the spread between parts of the stream.
        stretches = np.array_split(seconds, REPEATS)
        experiment.record.repeats_s[f"batches of {size:,}"] = [float(stretch.sum()) for stretch in stretches]
        experiment.report(f"batches of {size:,}", len(offered) / float(seconds.sum()) / 1e6, "million events/s")
    report_alone(experiment, patterns, events.slice(0, n_alone))
    experiment.figure(Figure("Latency in process", "batch_size", "ms", "quantile", kind="bars", log="y"))
    experiment.finish()


if __name__ == "__main__":
    main()
