"""Figures fit for a paper: axes with names and units, one number format, nothing off the edge, nothing over another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness.draw import LABELS, label_of, make_sheet, say
from benchmarks.harness.record import Figure, Record, read_record

mpl = pytest.importorskip("matplotlib")
mpl.use("Agg")

pytestmark = pytest.mark.xdist_group("figures")  # each of which is drawn once
PUBLISHED = Path(__file__).parents[2] / "benchmarks" / "published"
ALL = [
    pytest.param((record, figure), id=f"{path.stem}-{number}")
    for path in sorted(PUBLISHED.glob("*.json"))
    for record in [read_record(path)]
    for number, figure in enumerate(record.figures)
]


@dataclass
class Drawn:
    """A figure that was laid out, so that everything on it has its place."""

    sheet: Any
    figure: Figure
    record: Record

    def rows(self) -> list[dict[str, Any]]:
        kept = []
        for row in self.record.rows:
            if isinstance(row.get(self.figure.y), int | float) and row.get(self.figure.x) is not None:
                kept.append(row)
        return kept


def lay_out(record: Record, figure: Figure) -> Drawn:
    sheet = make_sheet(figure, record)
    sheet.canvas.draw()
    return Drawn(sheet, figure, record)


@pytest.fixture(params=ALL, scope="module")
def drawn(request: pytest.FixtureRequest) -> Iterator[Drawn]:
    made = lay_out(*request.param)
    yield made
    close(made)


def close(made: Drawn) -> None:
    import matplotlib.pyplot as plt

    plt.close(made.sheet)


def test_every_axis_has_a_name_that_a_reader_understands(drawn: Drawn) -> None:
    figure = drawn.figure
    for column in (figure.x, figure.y, *(name for name in (figure.series,) if name)):
        assert column in LABELS, column
    for axis in drawn.sheet.axes:
        assert re.fullmatch(r"[A-Za-z].*", axis.get_xlabel())
        assert "_" not in axis.get_xlabel()
    assert drawn.sheet.axes[0].get_ylabel() == label_of(figure.y)


def test_every_value_with_its_spread_is_within_its_panel(drawn: Drawn) -> None:
    figure = drawn.figure
    low, high = drawn.sheet.axes[0].get_ylim()
    assert all(axis.get_ylim() == (low, high) for axis in drawn.sheet.axes)
    for row in drawn.rows():
        ends = [row[name] for name in (figure.low, figure.high) if name and row.get(name) is not None]
        reach = [row[figure.y], *ends]
        assert low < min(reach) or min(reach) == low == 0, row
        assert max(reach) < high, row
    if figure.limit is not None:
        assert low < figure.limit < high


def test_no_panel_is_empty(drawn: Drawn) -> None:
    panels = {row.get(drawn.figure.panel or "") for row in drawn.rows()}
    assert len(drawn.sheet.axes) == len(panels)
    for axis in drawn.sheet.axes:
        assert axis.containers


def test_what_spans_decades_is_on_a_logarithmic_axis_and_has_no_bars(drawn: Drawn) -> None:
    values = [row[drawn.figure.y] for row in drawn.rows()]
    is_log = drawn.sheet.axes[0].get_yscale() == "log"
    is_share = min(values) >= 0 and max(values) <= 1  # may be nothing, and has no decades
    assert is_log or is_share or min(values) * 20 > max(values)
    assert not is_log or not any(axis.patches for axis in drawn.sheet.axes)


NUMBER = re.compile(r"-?\d{1,3}(,\d{3})*(\.\d+)?")


def test_numbers_are_written_one_way(drawn: Drawn) -> None:
    for axis in drawn.sheet.axes:
        for tick in axis.get_yticklabels():
            assert not tick.get_text() or NUMBER.fullmatch(tick.get_text()), tick.get_text()
        for tick in axis.get_xticklabels():
            assert not re.search(r"(?<![.\d])\d{4}|\de[+-]", tick.get_text()), tick.get_text()


def test_nothing_covers_anything_else(drawn: Drawn) -> None:
    renderer = drawn.sheet.canvas.get_renderer()
    panels = [axis.get_tightbbox(renderer) for axis in drawn.sheet.axes]
    title = drawn.sheet._suptitle.get_window_extent(renderer)
    boxes = [title, *(legend.get_window_extent(renderer) for legend in drawn.sheet.legends)]
    whole = drawn.sheet.bbox
    for number, box in enumerate(boxes):
        assert not any(overlap(box, other) for other in [*panels, *boxes[:number]])
    for box in [*boxes, *panels]:
        assert box.x0 >= whole.x0 - 1
        assert box.x1 <= whole.x1 + 1
        assert box.y0 >= whole.y0 - 1
        assert box.y1 <= whole.y1 + 1
    for axis in drawn.sheet.axes:
        labels = [tick.get_window_extent(renderer) for tick in axis.get_xticklabels() if tick.get_text()]
        is_askew = any(tick.get_rotation() for tick in axis.get_xticklabels())
        assert is_askew or not any(overlap(a, b) for a, b in pairwise(labels))


def overlap(a: Any, b: Any) -> bool:
    return bool(a.x0 < b.x1 - 1 and b.x0 < a.x1 - 1 and a.y0 < b.y1 - 1 and b.y0 < a.y1 - 1)


def made_record(rows: list[dict[str, Any]]) -> Record:
    return Record("made", "made up", date="2026-01-01", machine={"processor": "x", "cores": 2}, rows=rows)


def test_panels_of_different_height_share_an_axis_that_holds_both() -> None:
    rows = [
        {"scheme": scheme, "rate": rate, "ms": ms}
        for scheme, tallest in (("low", 7.0), ("high", 70.0))
        for rate, ms in (("1/s", tallest / 2), ("2/s", tallest))
    ]
    made = lay_out(made_record(rows), Figure("T", "rate", "ms", panel="scheme", kind="bars"))
    assert [axis.get_ylim()[1] > 70 for axis in made.sheet.axes] == [True, True]
    close(made)


def test_a_limit_above_all_values_is_seen_and_named_beside_the_panel() -> None:
    rows = [{"way": "a", "seconds": 1.0}, {"way": "b", "seconds": 2.0}]
    figure = Figure("T", "way", "seconds", kind="bars", limit=5.0, limit_name="the bound of it")
    made = lay_out(made_record(rows), figure)
    (axis,) = made.sheet.axes
    assert axis.get_ylim()[1] > 5
    (text,) = axis.texts
    renderer = made.sheet.canvas.get_renderer()
    assert text.get_window_extent(renderer).x0 >= axis.get_window_extent(renderer).x1
    close(made)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.3, "0.3"), (20, "20"), (1000, "1,000"), (20_000_000, "20,000,000"), ("10000", "10,000"), ("a", "a")],
)
def test_a_number_is_said(value: Any, text: str) -> None:
    assert say(value) == text
