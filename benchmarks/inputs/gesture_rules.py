"""Sixteen gestures as rules over touches of a pen, each a join of four control points, with noise and several streams.

The recordings are those of `docs/gestures.md`, 32 touches of each stroke; the boxes of the control points are read from
`patterns/gestures/points.sre`: those at the beginning, after a third and two thirds of the way, and at the end. A rule
needs a touch in each of the four boxes, of one stroke. Noise is touches anywhere in the box around the stroke, at
any moment of it, some of which pass for control points. Strokes are drawn from the recordings by dice, again and again;
with two streams each has its own, and the rules run over both.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from benchmarks.inputs.micro_rules import MicroBenchmark, SmallRule, Tables
from tools.gesture_events import N_POINTS, RECORDINGS, read_strokes, sample
from wayeb_py.arrays import I64

SEED = 15
POINTS = Path(__file__).parents[2] / "patterns/gestures/points.sre"
CONTROL = (1, 4, 7, 10)  # control points, of ten
SCALE = 1000  # positions as whole numbers, which CLIPS compares as we do
_POINT = re.compile(r"^let (\w+)_(\d+) += way (?:=|in) \S+(.*)$", re.MULTILINE)
_BOUND = re.compile(r"and ([xy]) (?:(<|>) ([\d.]+)|in ([\d.]+?)\.\.([\d.]+))")


def control_points() -> dict[str, dict[int, dict[str, tuple[int, int]]]]:
    """[gesture][number of ten][axis]: the box of a point, as its two bounds."""
    found: dict[str, dict[int, dict[str, tuple[int, int]]]] = {}
    for gesture, number, rest in _POINT.findall(POINTS.read_text()):
        box = {"x": (-1, SCALE + 1), "y": (-1, SCALE + 1)}
        for axis, sign, bound, low, high in _BOUND.findall(rest):
            if sign:
                at = round(SCALE * float(bound))
                box[axis] = (-1, at) if sign == "<" else (at, SCALE + 1)
            else:
                box[axis] = round(SCALE * float(low)) - 1, round(SCALE * float(high)) + 1
        found.setdefault(gesture, {})[int(number)] = box
    return found


def gesture_rules(stream: str) -> list[SmallRule]:
    """A rule for each gesture over the touches of a stream."""
    rules = []
    for gesture, points in control_points().items():
        tests, moments = [], []
        for member, number in zip("abcd", CONTROL, strict=True):
            moments.append((f"{member}.nth", round((number - 1) / 9 * (N_POINTS - 1))))
            for axis, (low, high) in points[number].items():
                tests += [f"{member}.{axis} > {low}"] if low >= 0 else []
                tests += [f"{member}.{axis} < {high}"] if high <= SCALE else []
        members = tuple((member, stream) for member in "abcd")
        equal = (("b.stroke", "a.stroke"), ("c.stroke", "a.stroke"), ("d.stroke", "a.stroke"))
        name = f"{gesture.title().replace('_', '')}On{stream.title()}"
        rules.append(SmallRule(name, members, equal, tuple(tests), tuple(moments)))
    return rules


def touches(n_strokes: int, n_noise: int, dice: np.random.Generator) -> dict[str, I64]:
    """The touches of strokes, in the order in which they are drawn, with `n_noise` touches of noise for each."""
    sampled = [sample(stroke) for stroke in read_strokes(RECORDINGS)]
    rows = []
    for number in range(n_strokes):
        own = sampled[int(dice.integers(len(sampled)))]
        nth = np.repeat(np.arange(N_POINTS), 1 + n_noise)
        is_noise = np.arange(len(nth)) % (1 + n_noise) > 0
        x, y = (np.repeat(np.round(SCALE * own[axis]).astype(np.int64), 1 + n_noise) for axis in ("x", "y"))
        for column, most in ((x, SCALE + 1), (y, SCALE + 1), (nth, N_POINTS)):
            column[is_noise] = dice.integers(0, most, int(is_noise.sum()))
        rows.append(np.column_stack([np.full(len(nth), number), nth, x, y]))
    every = np.concatenate(rows)
    _, first = np.unique(every, axis=0, return_index=True)  # a fact that is stated twice is one
    stroke, nth, x, y = every[np.sort(first)].T.copy()
    return {"stroke": stroke, "nth": nth, "x": x, "y": y}


def gesture_benchmarks(n_strokes: int) -> list[MicroBenchmark]:
    """The benchmarks without and with noise, over one and two streams; a seventh of the strokes where there is
    noise."""
    dice = np.random.default_rng(SEED)
    found = []
    for n_streams in (1, 2):
        for n_noise in (0, 10):
            streams = ("left", "right")[:n_streams]
            tables: Tables = {name: touches(n_strokes // (7 if n_noise else 1), n_noise, dice) for name in streams}
            name = f"gestures, {n_noise} of noise, {n_streams} stream{'s' if n_streams > 1 else ''}"
            found.append(MicroBenchmark(name, tables, tuple(rule for s in streams for rule in gesture_rules(s))))
    return found
