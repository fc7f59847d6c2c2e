"""The fleet patterns written with Spark's window functions: the work of a Spark user without an engine.

They are written as well as we could: all letters of an event are bits of one whole number, so that there is one `lag`
for each step back and not one for each letter; there is one exchange and one sort, by vehicle and time; which patterns
hit a row are bits of another number, and only the few rows with a hit are made into detections.

Only `Route` is not of fixed length: its start is the last event that was off, at least two back, and no event
after that may be one that was not moving.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KEY, TIME = "vehicle_id", "ts"


# lines: six
@dataclass(frozen=True, slots=True)
class WindowWords:
    """Patterns as their letters: `fixed` ones in a row, `routes` by the minutes of silence that an end has."""

    letters: dict[str, Column]
    fixed: dict[str, tuple[str, ...]]
    routes: dict[str, int]


# lines: six
def six() -> WindowWords:
    """The patterns of six.sre."""
    status, speed, travelled = f.col("status"), f.col("speed"), f.col("travelled")
    letters = {
        "parked": status == "parked",
        "idle": status == "idle",
        "moving": status == "moving",
        "fast": speed > 50,
        "still": speed == 0,
        "zero_speed": (status == "moving") & (speed == 0) & (travelled > 30),
        "bad_signal": f.col("accelerating") & (f.col("satellites") == 0) & (travelled > 30),
    }
    fixed = {
        "ParkedMovingSwing": ("parked", "moving", "parked", "moving"),
        "IdleParkedSwing": ("idle", "parked", "idle", "parked"),
        "SpeedSwing": ("fast", "still", "fast", "still"),
        "MovingWithZeroSpeed": ("zero_speed",) * 3,
        "MovingWithBadSignal": ("bad_signal",) * 3,
    }
    return WindowWords(letters, fixed, {"Route": 30})


# lines: end
def forty_eight() -> WindowWords:
    """The patterns of `pattern_sets.forty_eight`."""
    status, speed, travelled = f.col("status"), f.col("speed"), f.col("travelled")
    letters = {
        "parked": status == "parked",
        "idle": status == "idle",
        "moving": status == "moving",
        "still": speed == 0,
    }
    fixed: dict[str, tuple[str, ...]] = {}
    routes = {}
    for i in range(8):
        far = travelled > 20 + 10 * i
        letters |= {
            f"moving fast {i}": (status == "moving") & (speed > 15 + 10 * i),
            f"parked unseen {i}": (status == "parked") & (f.col("satellites") < 5 + i),
            f"fast {i}": speed > 40 + 5 * i,
            f"zero speed {i}": (status == "moving") & (speed == 0) & far,
            f"bad signal {i}": f.col("accelerating") & (f.col("satellites") == 0) & far,
        }
        routes[f"Route{i}"] = 30 + 2 * i
        fixed |= {
            f"ParkedMovingSwing{i}": ("parked", f"moving fast {i}", "parked", "moving"),
            f"IdleParkedSwing{i}": ("idle", "parked", "idle", f"parked unseen {i}"),
            f"SpeedSwing{i}": (f"fast {i}", "still", f"fast {i}", "still"),
            f"MovingWithZeroSpeed{i}": (f"zero speed {i}",) * 3,
            f"MovingWithBadSignal{i}": (f"bad signal {i}",) * 3,
        }
    return WindowWords(letters, fixed, routes)


# lines: six
def recognise(events: DataFrame, words: WindowWords) -> DataFrame:
    """pattern, entity, ts, seq, start_ts, start_seq."""
    bit = {letter: 1 << place for place, letter in enumerate(words.letters)}
    bits = _as_bits(list(words.letters.values()))
    in_order = Window.partitionBy(KEY).orderBy(TIME)
    lagged = events.select(KEY, TIME, (~f.col("ignition")).alias("off"), bits.alias("bits")).select(
        KEY,
        TIME,
        "off",
        "bits",
        (f.row_number().over(in_order) - 1).cast("bigint").alias("seq"),
        *(f.lag("bits", n).over(in_order).alias(f"bits{n}") for n in (1, 2, 3)),
        *(f.lag(TIME, n).over(in_order).alias(f"ts{n}") for n in (1, 2, 3)),
    )
    silence_s = f.col(TIME).cast("double") - f.col("ts1").cast("double")
    gaps = {name: f.col("off") & (silence_s > minutes * 60) for name, minutes in words.routes.items()}
    stood = f.when(f.col("bits").bitwiseAND(f.lit(bit["moving"])) == 0, f.col("seq"))
    before, two_before = (in_order.rowsBetween(Window.unboundedPreceding, -n) for n in (1, 2))
    anchored = lagged.select(
        "*",
        f.last(stood, ignorenulls=True).over(before).alias("stood"),
        *(
            f.last(f.when(gap, f.struct("seq", TIME)), ignorenulls=True).over(two_before).alias(f"{name} start")
            for name, gap in gaps.items()
        ),
    )
    at = {0: f.col("bits")} | {n: f.col(f"bits{n}") for n in (1, 2, 3)}
    hits: list[Column] = []
    found: list[Column] = []
    for name, gap in gaps.items():
        start = f.col(f"{name} start")
        hits.append(gap & start.isNotNull() & (f.coalesce(f.col("stood"), f.lit(-1)) <= start["seq"]))
        found.append(_detection(name, start[TIME], start["seq"]))
    for name, spelt in words.fixed.items():
        n = len(spelt) - 1
        hits.append(
            reduce(
                lambda one, other: one & other,
                (
                    at[n - place].bitwiseAND(f.lit(bit[letter])) != 0
                    for place, letter in reversed(list(enumerate(spelt)))
                ),
            )
        )
        found.append(_detection(name, f.col(f"ts{n}"), f.col("seq") - n))
    marked = anchored.withColumn("hits", _as_bits(hits)).where("hits != 0")
    detections = [f.when(f.col("hits").bitwiseAND(f.lit(1 << place)) != 0, one) for place, one in enumerate(found)]
    exploded = marked.select(KEY, TIME, "seq", f.explode(f.array_compact(f.array(*detections))).alias("found"))
    return exploded.select(
        f.col("found.pattern"),
        f.col(KEY).alias("entity"),
        TIME,
        "seq",
        f.col("found.start_ts"),
        f.col("found.start_seq"),
    )


def _as_bits(conditions: list[Column]) -> Column:
    """One whole number, whose bit n says whether condition n holds."""
    bits = [
        f.when(holds, f.lit(1 << place).cast("bigint")).otherwise(f.lit(0).cast("bigint"))
        for place, holds in enumerate(conditions)
    ]
    return reduce(lambda one, other: one.bitwiseOR(other), bits)


def _detection(name: str, start_ts: Column, start_seq: Column) -> Column:
    return f.struct(f.lit(name).alias("pattern"), start_ts.alias("start_ts"), start_seq.alias("start_seq"))


# lines: end
