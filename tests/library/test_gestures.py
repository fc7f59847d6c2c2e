"""Gestures: files and pages are as the tools make them, control points match as a plain search does, and the rules join
strokes that are drawn here, point by point."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import wayeb_py
from tools import gesture_points, gestures_table
from tools.gesture_events import N_POINTS, RECORDINGS, ROOT, Stroke, read_strokes, sample, touch_events

needs_data = pytest.mark.skipif(not RECORDINGS.exists(), reason="the recordings are not at ../shared/data")
pytestmark = pytest.mark.xdist_group("gestures")  # which are compiled once
F64 = npt.NDArray[np.float64]
Drawing = list[tuple[float, float]]


@cache
def all_patterns() -> wayeb_py.Patterns:
    return wayeb_py.compile(ROOT / "patterns/gestures/gestures.sre")


@cache
def patterns_of(*names: str) -> wayeb_py.Patterns:
    return all_patterns().select(names)


# Recordings.


@needs_data
def test_the_control_points_are_those_of_the_tool() -> None:
    assert gesture_points.FILE.read_text() == gesture_points.make_file()


@needs_data
def test_the_page_has_the_table_of_the_tool() -> None:
    assert gestures_table.PAGE.read_text() == gestures_table.make_page()


def goes_through(xy: F64, at: npt.NDArray[np.int64], points: F64, reach: F64) -> bool:
    """Whether a stroke has the control points in their order: a search over all choices of its points, by length."""
    chosen = {-1}  # the last of the points chosen so far
    for k, n in enumerate(at):
        around = [n] if k in (0, len(at) - 1) else range(n - 2, n + 3)
        off = np.round(np.abs(xy - points[k]) - reach[k], 12)
        here = {i for i in around if (off[i] <= 0).all()}
        chosen = {i for i in here if any(before < i for before in chosen)}
    return bool(chosen)


@needs_data
def test_control_points_are_found_where_a_plain_search_finds_them() -> None:
    strokes = read_strokes()
    names = gesture_points.NAMES
    table = patterns_of(*names.values()).recognise(touch_events(strokes)).to_arrow()
    samples = [(one.recording, sample(one)) for one in strokes]
    drawn = {recording: np.stack([points["x"], points["y"]], axis=1) for recording, points in samples}
    for gesture, name in names.items():
        learnt = [one for one in strokes if one.gesture == gesture and one.subject in gesture_points.LEARNT_FROM]
        own = table.filter(pc.equal(table["pattern"].cast(pa.string()), name))
        found = set(own["entity"].to_pylist())
        control = gesture_points.control_points(learnt)
        assert found == {recording for recording, xy in drawn.items() if goes_through(xy, *control)}, name
        assert found, name


# Drawings.


def draw(recording: str, corners: Drawing, begin_s: float = 0, seconds: float = 0.8, subject: int = 1) -> Stroke:
    """A stroke from corner to corner at one speed; corners are in a square of 100 pixels."""
    x, y = 100 * np.array(corners, float).T
    gone = np.r_[0.0, np.cumsum(np.hypot(np.diff(x), np.diff(y)))]
    t_us = np.round(1e6 * (begin_s + seconds * gone / gone[-1])).astype(np.int64)
    return Stroke(recording, "", subject, t_us, x, y)


def found(name: str, *strokes: Stroke, column: str = "entity") -> list[Any]:
    late = draw("late", [(0, 0), (0.5, 1)], begin_s=100, subject=9)  # time goes on
    table = patterns_of(name).recognise(touch_events([*strokes, late])).to_arrow()
    return sorted(table.filter(pc.equal(table["pattern"].cast(pa.string()), name))[column].to_pylist())


Z: Drawing = [(0, 0), (1, 0), (0, 1), (1, 1)]
CHECK: Drawing = [(0, 0.6), (0.38, 1), (1, 0)]
BOX: Drawing = [(0, 0), (0, 1), (1, 1), (1, 0), (0, 0)]
CROSS: Drawing = [(0, 0.1), (1, 1), (1, 0), (0, 1)]
DELETE: Drawing = [(0.1, 0), (1, 1), (0, 1), (0.9, 0)]
RIGHT: Drawing = [(0, 0.5), (1, 0.5)]
LEFT: Drawing = [(1, 0.5), (0, 0.5)]


def test_a_stroke_has_equally_many_points_equally_far_apart() -> None:
    points = sample(draw("z", Z))
    steps = np.hypot(np.diff(points["x_px"]), np.diff(points["y_px"]))
    assert len(points["t"]) == N_POINTS
    # A step around a corner is shorter as the crow flies.
    assert np.isclose(np.median(steps), steps.max())
    assert (np.sort(steps)[3:] > 0.99 * steps.max()).all()
    assert (points["way"][0], points["way"][-1]) == (0, 1)
    assert [points[name].min() for name in "xy"] == [0, 0]
    assert [points[name].max() for name in "xy"] == [1, 1]


def test_a_z_is_three_strokes_of_one_recording() -> None:
    assert found("ZShape", draw("z", Z)) == ["z"]
    assert found("ZShape", draw("n", [(x, 1 - y) for x, y in Z])) == []  # upside down
    assert found("ZShape", draw("7", Z[:3])) == []
    assert found("ZShape", draw("slow", Z, seconds=8)) == []


def wave(*subjects: int, seconds: float = 0.2, gap_s: float = 0.4) -> list[Stroke]:
    ways = (RIGHT, LEFT, RIGHT)
    return [
        draw(f"{n}", way, begin_s=n * gap_s, seconds=seconds, subject=subject)
        for n, (way, subject) in enumerate(zip(ways, subjects, strict=True))
    ]


def test_a_wave_is_three_flicks_of_one_person() -> None:
    assert found("Wave", *wave(1, 1, 1)) == ["0"]
    assert found("Wave", *wave(1, 2, 1)) == []
    assert found("Wave", *wave(1, 1, 1)[:2]) == []
    assert found("Wave", *wave(1, 1, 1, seconds=0.35)) == []  # no flicks
    assert found("Wave", *wave(1, 1, 1, gap_s=1)) == []


def test_two_checks_of_one_person_are_a_double_check() -> None:
    one, two, late = (draw(name, CHECK, begin_s=at_s) for name, at_s in (("one", 0), ("two", 2), ("late", 2.5)))
    assert found("DoubleCheck", one, two, column="other") == ["two"]
    assert found("DoubleCheck", one) == []
    assert found("DoubleCheck", one, late) == []
    assert found("DoubleCheck", one, draw("two", CHECK, begin_s=2, subject=2)) == []


def test_a_box_that_is_crossed_and_not_deleted_before() -> None:
    box, cross = draw("box", BOX), draw("cross", CROSS, begin_s=3)
    assert found("CrossedBox", box, cross, column="other") == ["cross"]
    assert found("CrossedBox", box, draw("gone", DELETE, begin_s=1.5), cross) == []
    assert found("CrossedBox", box, draw("gone", DELETE, begin_s=1.5, subject=2), cross) == ["box"]
    assert found("CrossedBox", draw("cross", CROSS), draw("box", BOX, begin_s=3)) == []
