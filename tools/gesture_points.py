"""Strokes of some people become control points: where a gesture's way leads, and how far off it people draw it.

There are ten points along the way of each gesture: the median over five subjects, rounded to a twentieth of the
stroke's box; each reaches 3.5 times their spread, across and down. Number and reach were chosen by leaving out each of
the five in turn; the other five subjects are for measuring alone (`tools.gestures_table`). Writing the points by hand
is the alternative, and works on the same events.

    python -m tools.gesture_points        writes patterns/gestures/points.sre
"""

from __future__ import annotations

import numpy as np

from tools.gesture_events import N_POINTS, ROOT, Stroke, read_strokes, sample
from wayeb_py import dsl
from wayeb_py.arrays import F64, I64

FILE = ROOT / "patterns/gestures/points.sre"
LEARNT_FROM = (2, 3, 4, 5, 6)  # subjects
N_CONTROL = 10
SPREADS, LEAST, MOST = 3.5, 0.15, 0.4  # reach of a point: spreads, least and most
AROUND = 0.07  # share of the way

NAMES = {
    "arrow": "Arrow", "caret": "Caret", "check": "Check", "circle": "CirclePoints", "delete_mark": "DeleteMark",
    "left_curly_brace": "LeftBracePoints", "left_sq_bracket": "LeftBracketPoints", "pigtail": "Pigtail",
    "question_mark": "QuestionMark", "rectangle": "Rectangle", "right_curly_brace": "RightBracePoints",
    "right_sq_bracket": "RightBracketPoints", "star": "Star", "triangle": "Triangle", "v": "Vee", "x": "Cross",
}  # fmt: skip
FAILS = {
    "arrow": "for heads that are drawn the other way round", "caret": "for a peak far to one side",
    "check": "for a short first stroke, which is a line then", "circle": "by finding triangles: see Circle",
    "delete_mark": "for those who end before the middle", "left_curly_brace": "by finding brackets: see LeftBrace",
    "left_sq_bracket": "by finding braces: see LeftBracket", "pigtail": "for a loop that is as large as the tail",
    "question_mark": "for a straight back, which is a bracket then", "rectangle": "for those who begin elsewhere",
    "right_curly_brace": "by finding brackets: see RightBrace",
    "right_sq_bracket": "by finding braces: see RightBracket", "star": "for those who begin elsewhere",
    "triangle": "for round corners", "v": "for a valley far to one side", "x": "for a short second stroke",
}  # fmt: skip
HEAD = """\
// Unistroke gestures by control points: where the pen is after a ninth of its way, after two, and so on to its end.
//
// python -m tools.gesture_points makes this file from the strokes of five people: each point lies in the middle of
// theirs, and reaches 3.5 times as far as theirs are off it. `x` and `y` are shares of the box around the stroke, y
// downwards.

include "touches.sre"
"""


def control_points(strokes: list[Stroke]) -> tuple[I64, F64, F64]:
    """Which of the sampled points of a gesture are control points, where they are, and how far they reach."""
    at = np.round(np.linspace(0, N_POINTS - 1, N_CONTROL)).astype(np.int64)
    drawn = np.array([np.stack([one["x"], one["y"]], axis=1)[at] for one in map(sample, strokes)])
    points = np.round(np.median(drawn, axis=0) * 20) / 20
    spread = np.sqrt(((drawn - points) ** 2).mean(axis=0))
    return at, points, np.ceil(np.round(np.clip(SPREADS * spread, LEAST, MOST) * 20, 6)) / 20


def _number(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".") or "0"


def _between(name: str, middle: float, reach: float) -> str:
    """Bounds that the box does not set already."""
    low, high = middle - reach, middle + reach
    if low <= 0:
        return f" and {name} < {_number(high)}"
    return f" and {name} > {_number(low)}" if high > 1 else f" and {name} in {_number(low)}..{_number(high)}"


def _gesture(gesture: str, strokes: list[Stroke]) -> str:
    """The control points of a gesture, its pattern, and two examples."""
    at, points, reach = control_points(strokes)
    name = NAMES[gesture]
    lines = [f"\n// {name.removesuffix('Points')}: the way of the pen in ten points. Fails {FAILS[gesture]}."]
    short = gesture.replace("_curly", "").replace("_sq", "")
    letters = [f"{short}_{k}" for k in range(1, N_CONTROL + 1)]
    for letter, n, (x, y), (across, down) in zip(letters, at, points, reach, strict=True):
        way = n / (N_POINTS - 1)
        where = f"way = {way:.0f}" if way in (0, 1) else f"way in {way - AROUND:.2f}..{way + AROUND:.2f}"
        lines.append(f"let {letter} = {where}{_between('x', x, across)}{_between('y', y, down)}")
    half = N_CONTROL // 2
    lines.append(f"let {short}_begin = #({', '.join(letters[:half])})")
    lines.append(f"let {short}_end = #({', '.join(letters[half:])})")
    lines.append(f"pattern {name} := #({short}_begin, {short}_end) emit subject")
    for drawn, detects in ((points, f"at {N_CONTROL - 1} from 0"), (points[::-1], "nothing  // backwards")):
        lines += [f"\ntest {name} {{", f"    x: {' '.join(map(_number, drawn[:, 0]))}"]
        lines += [f"    y: {' '.join(map(_number, drawn[:, 1]))}"]
        lines += [f"    way: {' '.join(_number(n / (N_POINTS - 1)) for n in at)}", f"    detects {detects}", "}"]
    return "\n".join(lines) + "\n"


def make_file() -> str:
    """The text of the file of control points."""
    strokes = [stroke for stroke in read_strokes() if stroke.subject in LEARNT_FROM]
    parts = [_gesture(one, [stroke for stroke in strokes if stroke.gesture == one]) for one in NAMES]
    return dsl.format_text(HEAD + "".join(parts))


def main() -> None:
    """Writes the file."""
    FILE.write_text(make_file())


if __name__ == "__main__":
    main()
