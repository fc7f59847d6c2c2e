"""Measures what `detected` and `since` cost: six fleet patterns and two that read them, one core.

The same eight patterns run over events that carry the answers as columns, made from the detections of the six
beforehand: `detected(SpeedSwing)` is then a Boolean of the event, `since(SpeedSwing)` a number. Both must find the
same. The six alone are measured beside them. Times are processor seconds: one thread does all.

Analysis: a pattern that reads others is stepped after them, over the same chunk, and a detection is a byte an event
that its letters look at. That should cost no more than a column that comes with the events. What the two patterns cost
beyond the six is what two patterns with letters of their own cost.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

import wayeb_py
from benchmarks.experiments.in_memory import with_coded_text, with_dense_keys
from benchmarks.harness.measure import asked_size, start, stay_on_one_core
from benchmarks.inputs.fleet_events import QUICK_EVENTS, SIX_PATTERNS, read_fleet
from benchmarks.references.fleet_in_polars import NEEDED

N_EVENTS = {"quick": QUICK_EVENTS, "usual": 5_000_000, "full": 20_000_000}
MOST = 1.1  # the most times that the same patterns over columns take
READING = """
pattern SwingThenBadSignal := (detected(SpeedSwing)) ; any{0,20} ; (detected(MovingWithBadSignal))
pattern FastAfterSwing     := (since(SpeedSwing) < 1 h and speed > 50)
"""
FROM_COLUMNS = """
pattern SwingThenBadSignal := (swing = true) ; any{0,20} ; (bad_signal = true)
pattern FastAfterSwing     := (since_swing < 1 h and speed > 50)
"""
DECLARED = """    attr accelerating bool
    attr swing        bool
    attr bad_signal   bool
    attr since_swing  number in s"""


def recognise(patterns: wayeb_py.Patterns, events: pa.Table) -> pa.Table:
    recogniser = wayeb_py.Recogniser(patterns, workers=1, order="sorted")
    return pa.concat_tables([recogniser.feed(events).to_arrow(), recogniser.finish().to_arrow()])


def with_answers(events: pa.Table, found: pa.Table) -> pa.Table:
    """The events with their detections: two Booleans, and the seconds since the last one."""
    vehicle, ts = events["vehicle_id"].to_numpy().astype(np.int64), events["ts"].cast(pa.int64()).to_numpy()
    by_vehicle = np.argsort(vehicle, kind="stable")
    first = np.concatenate([[0], np.flatnonzero(np.diff(vehicle[by_vehicle])) + 1])
    begin = np.zeros(int(vehicle.max()) + 1, dtype=np.int64)
    begin[vehicle[by_vehicle[first]]] = first

    def flags(name: str) -> np.ndarray:
        own = found.filter(pa.compute.equal(found["pattern"].cast(pa.string()), name))
        at = np.zeros(len(events), dtype=bool)
        at[by_vehicle[begin[own["entity"].to_numpy()] + own["seq"].to_numpy().astype(np.int64)]] = True
        return at

    swing = flags("SpeedSwing")
    # Vehicle by vehicle, one event after another: the time of the newest with a detection.
    nth = np.arange(len(events))
    newest = np.maximum.accumulate(np.where(swing[by_vehicle], nth, -1))
    own = newest >= np.repeat(first, np.diff(np.append(first, len(events))))
    since = np.full(len(events), np.nan)
    t = ts[by_vehicle]
    since[by_vehicle[own]] = (t[own] - t[newest[own]]) / 1e3
    return (
        events.append_column("swing", pa.array(swing))
        .append_column("bad_signal", pa.array(flags("MovingWithBadSignal")))
        .append_column("since_swing", pa.array(since, from_pandas=True))
    )


def main() -> None:
    n_events = N_EVENTS[asked_size()]
    experiment = start("tiers", f"patterns that read others, {n_events:,} events in memory, one core")
    text = SIX_PATTERNS.read_text()
    events, _ = with_dense_keys(with_coded_text(read_fleet(n_events, NEEDED)))
    assert events.schema.field("ts").type.unit == "ms"
    six, reading = wayeb_py.compile(text), wayeb_py.compile(text + READING)
    from_columns = wayeb_py.compile(text.replace("    attr accelerating bool", DECLARED) + FROM_COLUMNS)
    brought = with_answers(events, recognise(six, events))
    found, expected = recognise(reading, events), recognise(from_columns, brought)
    experiment.check(f"{found.num_rows:,} detections by both, starts included", in_order(found) == in_order(expected))
    later = found.filter(pa.compute.is_in(found["pattern"].cast(pa.string()), pa.array(reading.names[6:])))
    experiment.check(f"{later.num_rows:,} of them by the patterns that read others", later.num_rows > 0)
    stay_on_one_core()
    experiment.median_seconds(
        {
            "six": lambda: recognise(six, events),
            "reading": lambda: recognise(reading, events),
            "columns": lambda: recognise(from_columns, brought),
        },
        clock=time.process_time,
    )
    names = {"six": "six alone", "reading": "and two that read them", "columns": "and two over columns"}
    experiment.rate_rows(n_events, names)
    experiment.rate_figure("Patterns that read others, one core")
    experiment.bound_ratio("detected and since over columns of the events", "reading", "columns", MOST, "at most")
    experiment.report("eight patterns over six", ratio(experiment.record.repeats_s), "x")
    experiment.finish()


def ratio(repeats: dict[str, list[float]]) -> float:
    return float(np.median(repeats["reading"]) / np.median(repeats["six"]))


def in_order(found: pa.Table) -> list[tuple[object, ...]]:
    columns = [found["pattern"].cast(pa.string()), *(found[name] for name in ("entity", "seq", "start_seq"))]
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True))


if __name__ == "__main__":
    main()
