"""The six patterns written as Polars expressions, with starts: the work of an analyst without an engine.

Every formulation here gives the same table: pattern, entity, ts, seq, start_ts, start_seq. They differ in where the
work is done, and the benchmarks take the fastest as the one to beat:

- `shift_over_groups`: every letter is a Boolean column, and earlier events are `shift(n).over("vehicle_id")`.
- `shift_after_sorting`: a stable sort by vehicle first, then plain shifts guarded by the number in the word; all
letters
  are packed into one small integer, so that there is one shift for each step back instead of one for each letter.

`Route` is not of fixed length: its start is the last event that was off, at least two back, carried forward, and no
later event may be one that was not moving. An event may be both: a faulty box reports a switched-off vehicle as moving.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

NEEDED = ["vehicle_id", "ts", "status", "ignition", "speed", "travelled", "satellites", "accelerating"]

# lines: six
# The letters, by the name that the patterns below use.
LETTERS: dict[str, pl.Expr] = {
    "parked": pl.col("status") == "parked",
    "idle": pl.col("status") == "idle",
    "moving": pl.col("status") == "moving",
    "fast": pl.col("speed") > 50,
    "still": pl.col("speed") == 0,
    "zero_speed": (pl.col("status") == "moving") & (pl.col("speed") == 0) & (pl.col("travelled") > 30),
    "bad_signal": pl.col("accelerating") & (pl.col("satellites") == 0) & (pl.col("travelled") > 30),
}
HALF_AN_HOUR_MS = 30 * 60 * 1000

# Patterns of fixed length as their letters; three or more of a kind is detected exactly where three are.
FIXED: dict[str, tuple[str, ...]] = {
    "ParkedMovingSwing": ("parked", "moving", "parked", "moving"),
    "IdleParkedSwing": ("idle", "parked", "idle", "parked"),
    "SpeedSwing": ("fast", "still", "fast", "still"),
    "MovingWithZeroSpeed": ("zero_speed",) * 3,
    "MovingWithBadSignal": ("bad_signal",) * 3,
}
PATTERNS = ("Route", *FIXED)


def _detections(events: pl.LazyFrame, found: dict[str, tuple[pl.Expr, pl.Expr, pl.Expr]]) -> pl.DataFrame:
    """The rows of each pattern from its (is detected, start time, start number in the word), out of one pass."""
    marked = events.select(
        "vehicle_id",
        "ts",
        "seq",
        *(detected.alias(name) for name, (detected, _, _) in found.items()),
        *(ts.alias(f"{name} ts") for name, (_, ts, _) in found.items()),
        *(seq.alias(f"{name} seq") for name, (_, _, seq) in found.items()),
    )
    hits = marked.filter(pl.any_horizontal(*found)).collect()
    return pl.concat(
        hits.filter(pl.col(name)).select(
            pl.lit(name).alias("pattern"),
            pl.col("vehicle_id").alias("entity"),
            "ts",
            pl.col("seq").cast(pl.Int64),
            pl.col(f"{name} ts").alias("start_ts"),
            pl.col(f"{name} seq").cast(pl.Int64).alias("start_seq"),
        )
        for name in found
    )


# lines: end
def shift_over_groups(events: pl.LazyFrame) -> pl.DataFrame:
    """Each letter a column, each step back a shift over the groups."""

    def back(expression: pl.Expr, n: int) -> pl.Expr:
        return expression.shift(n).over("vehicle_id")

    off = ~pl.col("ignition") & ((pl.col("ts") - back(pl.col("ts"), 1)).dt.total_milliseconds() > HALF_AN_HOUR_MS)
    marked = events.select(
        "vehicle_id",
        "ts",
        pl.int_range(pl.len(), dtype=pl.Int32).over("vehicle_id").alias("seq"),
        off.fill_null(False).alias("off"),
        *(letter.fill_null(False).alias(name) for name, letter in LETTERS.items()),
    )
    was_off, stood = pl.when("off"), pl.when(~pl.col("moving"))
    anchored = marked.with_columns(
        back(was_off.then("ts").forward_fill(), 2).alias("from_ts"),
        back(was_off.then("seq").forward_fill(), 2).alias("from_seq"),
        back(stood.then("seq").forward_fill(), 1).fill_null(-1).alias("stood_seq"),
    )
    route = pl.col("off") & (pl.col("stood_seq") <= pl.col("from_seq"))
    found = {"Route": (route, pl.col("from_ts"), pl.col("from_seq"))}
    for name, letters in FIXED.items():
        n = len(letters) - 1
        detected = pl.col(letters[-1])
        for i, letter in enumerate(letters[:-1]):
            detected = detected & back(pl.col(letter), n - i)
        found[name] = (detected, back(pl.col("ts"), n), pl.col("seq") - n)
    return _detections(anchored, found)


# lines: six
def shift_after_sorting(events: pl.LazyFrame) -> pl.DataFrame:
    """One sort by vehicle, the letters packed into one integer, plain shifts guarded by the number in the word."""
    bits = {name: 1 << i for i, name in enumerate((*LETTERS, "off"))}
    packed = pl.sum_horizontal(
        letter.fill_null(False).cast(pl.UInt8) * pl.lit(bits[name], pl.UInt8) for name, letter in LETTERS.items()
    )
    ordered = events.select("vehicle_id", "ts", packed.alias("bits"), (~pl.col("ignition")).alias("ignition_off")).sort(
        "vehicle_id", maintain_order=True
    )
    same = pl.col("vehicle_id") == pl.col("vehicle_id").shift(1)
    off = same & pl.col("ignition_off") & (pl.col("ts").diff().dt.total_milliseconds() > HALF_AN_HOUR_MS)
    row = pl.int_range(pl.len(), dtype=pl.Int32)
    numbered = ordered.with_columns(
        (row - pl.when(same).then(None).otherwise(row).forward_fill()).alias("seq"),
        (pl.col("bits") + off.fill_null(False).cast(pl.UInt8) * pl.lit(bits["off"], pl.UInt8)).alias("bits"),
    )

    def has(expression: pl.Expr, letter: str) -> pl.Expr:
        return (expression & pl.lit(bits[letter], pl.UInt8)) != 0

    at = {n: pl.col("bits").shift(n) for n in range(1, 4)} | {0: pl.col("bits")}
    # Rows instead of numbers in the word: those of an earlier vehicle are too small to be this one's.
    was_off, stood = pl.when(has(pl.col("bits"), "off")), pl.when(~has(pl.col("bits"), "moving"))
    anchored = numbered.with_columns(
        was_off.then("ts").forward_fill().shift(2).alias("from_ts"),
        was_off.then(row).forward_fill().shift(2).alias("from_row"),
        stood.then(row).forward_fill().shift(1).fill_null(-1).alias("stood_row"),
    ).with_columns((pl.col("from_row") - row + pl.col("seq")).alias("from_seq"))
    route = (has(at[0], "off") & (pl.col("stood_row") <= pl.col("from_row")) & (pl.col("from_seq") >= 0)).fill_null(
        False
    )
    found = {"Route": (route, pl.col("from_ts"), pl.col("from_seq"))}
    for name, letters in FIXED.items():
        n = len(letters) - 1
        detected = pl.col("seq") >= n
        for i, letter in enumerate(letters):
            detected = detected & has(at[n - i], letter)
        found[name] = (detected.fill_null(False), pl.col("ts").shift(n), pl.col("seq") - n)
    return _detections(anchored, found)


# lines: end
FORMULATIONS: dict[str, Callable[[pl.LazyFrame], pl.DataFrame]] = {
    "shift over groups": shift_over_groups,
    "shift after sorting": shift_after_sorting,
}


def recognise_file(data: Path, out: Path, formulation: str) -> int:
    """Reads the needed columns, writes the detections as Parquet, and returns how many there are."""
    detections = FORMULATIONS[formulation](pl.scan_parquet(data).select(NEEDED))
    detections.write_parquet(out)
    return detections.height


def in_one_order(detections: pl.DataFrame) -> pl.DataFrame:
    """The detections in an order that does not depend on how they were found."""
    return detections.select("pattern", "entity", "ts", "seq", "start_ts", "start_seq").sort("pattern", "entity", "seq")
