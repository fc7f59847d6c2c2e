"""Measures six fleet patterns over arrays in memory, starts included, one core, against a numpy sum of the columns.

Analysis: a sum reads every byte once and does nothing with it, so no recogniser can beat it. Keys are dense already (0
to n-1, 32 bit), because numbering raw keys is a cost of its own. The rates from raw keys stand beside it and differ by
kind: the fleet's own are integers of a narrow range, which can be looked up directly; the same vehicles also get
integers scattered over 64 bits, and text.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import wayeb_py
from benchmarks.harness.measure import asked_size, start, stay_on_one_core
from benchmarks.inputs.fleet_events import QUICK_EVENTS, SIX_PATTERNS, fleet_file, read_fleet
from benchmarks.references.fleet_in_polars import NEEDED, in_one_order, shift_after_sorting
from data.fleet import FAULTS, STATUSES, read_injected

N_EVENTS = {"quick": QUICK_EVENTS, "usual": 10_000_000, "full": 10_000_000}
MOST = 12  # the most times that the sum takes


def with_dense_keys(events: pa.Table) -> tuple[pa.Table, np.ndarray]:
    """The same events with vehicles numbered from 0 in order of appearance, and the vehicle of each number."""
    codes = pc.dictionary_encode(events["vehicle_id"].combine_chunks())
    return events.set_column(0, "vehicle_id", codes.indices.cast(pa.int32())), codes.dictionary.to_numpy()


def with_scattered_keys(events: pa.Table) -> pa.Table:
    """The same events with vehicle numbers spread over 64 bits, each still its own: the factor is odd."""
    with np.errstate(over="ignore"):
        scattered = events["vehicle_id"].to_numpy() * np.int64(-7046029254386353131)
    return events.set_column(0, "vehicle_id", pa.array(scattered))


def with_text_keys(events: pa.Table) -> pa.Table:
    """The same events with plates instead of numbers, as text that is not dictionary-encoded."""
    return events.set_column(0, "vehicle_id", events["vehicle_id"].cast(pa.string()))


def with_coded_text(events: pa.Table) -> pa.Table:
    """The same events with the status as 8-bit codes and their dictionary."""
    codes = pc.index_in(events["status"].combine_chunks(), pa.array(STATUSES)).cast(pa.int8())
    coded = pa.DictionaryArray.from_arrays(codes, pa.array(STATUSES))
    return events.set_column(events.schema.get_field_index("status"), "status", coded)


def plain_columns(events: pa.Table) -> list[np.ndarray]:
    """What the sum reads: the values of every column, text as its codes."""
    columns = []
    for name in events.column_names:
        column = events[name].combine_chunks()
        if pa.types.is_dictionary(column.type):
            column = column.indices
        elif pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        elif column.null_count:
            column = pc.fill_null(column, 0)
        columns.append(np.ascontiguousarray(column.to_numpy(zero_copy_only=False)))
    return columns


def main() -> None:
    n_events = N_EVENTS[asked_size()]
    experiment = start("in_memory", f"six fleet patterns over {n_events:,} events in memory, one core")
    raw = with_coded_text(read_fleet(n_events, NEEDED))
    dense, vehicle_of_number = with_dense_keys(raw)
    scattered, text = with_scattered_keys(raw), with_text_keys(raw)
    columns = plain_columns(dense)
    patterns = wayeb_py.compile(SIX_PATTERNS)

    def recognise(events: pa.Table) -> pa.Table:
        recogniser = wayeb_py.Recogniser(patterns, workers=1, order="sorted")
        parts = [recogniser.feed(events).to_arrow(), recogniser.finish().to_arrow()]
        return pa.concat_tables(parts)

    expected = in_one_order(shift_after_sorting(pl.scan_parquet(fleet_file(n_events)).select(NEEDED)))
    for events, name in ((raw, "raw"), (dense, "dense")):
        found = pl.from_arrow(recognise(events).drop_columns(["place"]))
        assert isinstance(found, pl.DataFrame)
        if name == "dense":
            found = found.with_columns(pl.Series("entity", vehicle_of_number[found["entity"].to_numpy()]))
        found = in_one_order(
            found.with_columns(pl.col("pattern").cast(pl.String), pl.col("seq", "start_seq").cast(pl.Int64))
        )
        experiment.check(
            f"{name} keys, {found.height:,} detections equal to Polars, starts included", found.equals(expected)
        )
    for events, name in ((scattered, "scattered"), (text, "text")):
        same = recognise(events).column("seq").equals(recognise(raw).column("seq"))
        experiment.check(f"{name} keys, detections at the same events as with the fleet's own", same)
    counts = dict(expected["pattern"].value_counts().iter_rows())
    injected = read_injected(fleet_file(n_events))
    enough = all(counts[fault] >= injected[fault] for fault in FAULTS if fault in counts)
    experiment.check("every injected fault is detected at least once", enough)

    stay_on_one_core()
    seconds = experiment.median_seconds(
        {
            "sum": lambda: [column.sum() for column in columns],
            "dense": lambda: recognise(dense),
            "raw": lambda: recognise(raw),
            "scattered": lambda: recognise(scattered),
            "text": lambda: recognise(text),
        }
    )
    experiment.yardsticks(["sum"])
    ways = {
        "sum": "numpy sum",
        "dense": "dense keys",
        "raw": "integer keys of a narrow range",
        "scattered": "scattered 64-bit keys",
        "text": "text keys",
    }
    experiment.rate_rows(n_events, ways)
    limit = n_events / seconds["sum"] / 1e6 / MOST
    experiment.rate_figure("Six patterns in memory, one core", limit, f"the sum's rate by {MOST}")
    experiment.bound_ratio("recognition over numpy sum", "dense", "sum", MOST, "at most")
    experiment.finish()


if __name__ == "__main__":
    main()
