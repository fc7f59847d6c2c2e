"""Strokes of a pen become touch events: the same number for each, equally far apart along its way.

The recordings are those of the $1 recognizer (Wobbrock, Wilson, Li 2007): points of a pen in pixels at the moments at
which a digitiser saw them, so that a slow hand has many and a quick one few. As there, each stroke is sampled again,
here in 32 points. A touch event has `x` and `y` from 0 to 1 in the box around its stroke (y grows downwards), `x_px`
and `y_px` on the screen, `way`, the share of its way that the pen has gone, from 0 to 1, and the time `t`, in
microseconds. Box and share are known only when the pen is lifted: a pattern that runs while it still moves has
`x_px`, `y_px` and `t`. Letting the patterns compute all from raw points was the alternative; a letter looks at one
event and the previous one.

    python -m tools.gesture_events ../shared/data/gestures/unistroke_480.parquet touches.parquet
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wayeb_py.arrays import F64, I64

ROOT = Path(__file__).parents[1]
RECORDINGS = ROOT.parent / "shared/data/gestures/unistroke_480.parquet"
N_POINTS = 32


@dataclass(frozen=True)
class Stroke:
    """A recording: the points of a pen, in the order of time."""

    recording: str
    gesture: str
    subject: int
    t_us: I64
    x_px: F64
    y_px: F64


def read_strokes(path: Path = RECORDINGS) -> list[Stroke]:
    """All recordings of a file, by name."""
    table = pq.read_table(path).sort_by([("recording", "ascending"), ("t_ms", "ascending")])
    names = np.array(table["recording"].to_pylist())
    begins = np.flatnonzero(np.r_[True, names[1:] != names[:-1]])
    columns = {name: table[name].to_numpy(zero_copy_only=False) for name in ("t_ms", "x", "y", "gesture", "subject")}
    return [
        Stroke(
            str(names[begin]), str(columns["gesture"][begin]), int(columns["subject"][begin]),
            1000 * columns["t_ms"][begin:end].astype(np.int64), columns["x"][begin:end].astype(float),
            columns["y"][begin:end].astype(float),
        )
        for begin, end in zip(begins, [*begins[1:], len(names)], strict=True)
    ]  # fmt: skip


def sample(stroke: Stroke) -> dict[str, F64]:
    """The same number of points for each stroke, equally far apart along its way."""
    steps = np.hypot(np.diff(stroke.x_px), np.diff(stroke.y_px))
    gone = np.r_[0.0, np.cumsum(steps)]
    way = np.linspace(0.0, 1.0, N_POINTS)
    at = way * gone[-1]
    x_px, y_px, t_us = (np.interp(at, gone, column) for column in (stroke.x_px, stroke.y_px, stroke.t_us))
    columns = {"t": np.round(t_us), "x_px": x_px, "y_px": y_px, "way": way}
    for name, column in (("x", x_px), ("y", y_px)):
        columns[name] = (column - column.min()) / max(1.0, float(np.ptp(column)))
    return columns


def touch_events(strokes: list[Stroke]) -> pa.Table:
    """The events of some strokes, one stroke after the other."""

    def tables() -> Iterator[pa.Table]:
        for stroke in strokes:
            columns = sample(stroke)
            own = {"recording": pa.array([stroke.recording] * N_POINTS), "subject": [stroke.subject] * N_POINTS}
            rest = {name: pa.array(columns[name]) for name in ("x", "y", "way", "x_px", "y_px")}
            yield pa.table({**own, "t": pa.array(columns["t"].astype(np.int64)), **rest})

    return pa.concat_tables(tables())


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:3])
    pq.write_table(touch_events(read_strokes(source)), target)
