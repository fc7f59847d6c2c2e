"""Polars: the six patterns as `fleet_in_polars` has them, in its faster form; the others by the same means.

Each pass sorts the frame by vehicle once, and earlier values are a plain shift or a value carried forward; row numbers
reveal rows of an earlier vehicle, which is cheaper than shifting over groups. `Legs` is missing, for the reason that
`in_duckdb` gives: a carried value is the last of its kind, not the state of an automaton.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.peers.in_duckdb import NO_STATE
from benchmarks.peers.peer import SIX, Form
from benchmarks.peers.peer_process import NEEDED, answer

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

FORM = Form(
    "polars",
    "Polars",
    "in_polars",
    "shifts and carried values after one sort",
    needs=("polars",),
    cannot={"Legs": NO_STATE},
    written=("../references/fleet_in_polars.py", "in_polars.py"),
)


# lines: StopAndGo
def in_order(events: pl.LazyFrame, *letters: pl.Expr) -> pl.LazyFrame:
    """Letters by vehicle; `row` numbers all, `first` is the row of this vehicle's first event."""
    import polars as pl

    row = pl.int_range(pl.len(), dtype=pl.Int32)
    ordered = events.sort("vehicle_id", maintain_order=True).select("vehicle_id", "ts", *letters, row=row)
    opens = (pl.col("vehicle_id") != pl.col("vehicle_id").shift(1)).fill_null(True)
    return ordered.with_columns(first=pl.when(opens).then("row").forward_fill())


def last(holds: pl.Expr, value: str = "row") -> pl.Expr:
    """The value at the last earlier row at which it holds; it may be another vehicle's."""
    import polars as pl

    return pl.when(holds).then(value).forward_fill().shift(1)


def stop_and_go(events: pl.LazyFrame) -> pl.LazyFrame:
    import polars as pl

    fast, slow, first = pl.col("fast"), pl.col("slow"), pl.col("first")
    marked = in_order(
        events, (pl.col("speed") > 50).alias("fast"), (pl.col("speed") < 20).fill_null(False).alias("slow")
    )
    marked = marked.with_columns(not_slow=last(~slow), was_fast=last(fast))
    again = fast & slow.shift(1) & (pl.col("was_fast") == pl.col("not_slow")) & (pl.col("was_fast") >= first)
    return marked.with_columns(second=last(again)).filter(
        slow & (pl.col("second") == pl.col("not_slow")) & (pl.col("second") >= first)
    )


# lines: CalmTrip
def calm_trip(events: pl.LazyFrame) -> pl.LazyFrame:
    import polars as pl

    fast, slow, first, was_off = pl.col("fast"), pl.col("slow"), pl.col("first"), pl.col("was_off")
    speed, ignition = pl.col("speed"), pl.col("ignition")
    marked = in_order(events, (speed > 50).alias("fast"), (speed < 20).fill_null(False).alias("slow"), ignition)
    silent = (pl.col("row") > first) & (pl.col("ts").diff().dt.total_milliseconds() > 30 * 60 * 1000)
    marked = marked.with_columns(off=(~ignition & silent).fill_null(False))
    marked = marked.with_columns(not_slow=last(~slow), was_fast=last(fast), was_off=last(pl.col("off")))
    wild = fast & slow.shift(1) & (pl.col("was_fast") == pl.col("not_slow")) & (pl.col("was_fast") > was_off)
    return marked.with_columns(wild=last(wild).fill_null(-1)).filter(
        pl.col("off") & (was_off >= first) & (pl.col("row") - was_off > 3) & (pl.col("wild") <= was_off)
    )


# lines: Towed
def towed(events: pl.LazyFrame) -> pl.LazyFrame:
    import polars as pl

    speed, first, fast = pl.col("speed"), pl.col("first"), pl.col("fast")
    marked = in_order(
        events,
        (pl.col("status") == "parked").alias("parked"),
        (speed > 50).alias("fast"),
        ((speed < 5) & (pl.col("travelled") > 60)).alias("towed"),
    ).with_columns(
        was_parked=last(pl.col("parked")),
        parked_ts=last(pl.col("parked"), "ts"),
        was_fast=last(fast).fill_null(-1),
        was_towed=last(pl.col("towed")).fill_null(-1),
    )
    departs = fast & (pl.col("was_parked") >= pl.max_horizontal("first", "was_fast"))
    return marked.with_columns(departure=last(departs), from_ts=last(departs, "parked_ts")).filter(
        pl.col("towed")
        & (pl.col("departure") >= first)
        & (pl.col("departure") > pl.col("was_towed"))
        & ((pl.col("ts") - pl.col("from_ts")).dt.total_milliseconds() <= 2 * 60 * 60 * 1000)
    )


# lines: end
FORMS = {"StopAndGo": stop_and_go, "CalmTrip": calm_trip, "Towed": towed}


def main() -> None:
    import polars as pl

    from benchmarks.references.fleet_in_polars import shift_after_sorting

    # lines: six
    def recognise(events: Any, names: tuple[str, ...]) -> pa.Table:
        if names == SIX:
            return shift_after_sorting(events.lazy()).to_arrow()
        (name,) = names
        found = FORMS[name](events.lazy()).select(pattern=pl.lit(name), entity="vehicle_id", ts="ts")
        return found.collect().to_arrow()

    # lines: end
    answer(lambda path: pl.read_parquet(path, columns=NEEDED), recognise, {"polars": pl.__version__})


if __name__ == "__main__":
    main()
