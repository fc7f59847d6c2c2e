"""An overlay answers several questions about a position at once, and each as the index alone answers it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
import shapely
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wayeb_py
from tests.spatial.test_index import F64, areas, columns, index_of, lines, place
from tests.strategies import examples
from wayeb_py.spatial import overlay
from wayeb_py.spatial.overlay import Overlay, Question, Questions


def ask_each(questions: list[Question], lon: F64, lat: F64) -> list[int]:
    """The answers of the indexes, one question after another."""
    answers = np.zeros(len(lon), dtype=np.int64)
    for number, question in enumerate(questions):
        answers |= question.ask(lon, lat).astype(np.int64) << number
    return answers.tolist()


def on_the_lines_of(made: Overlay) -> list[tuple[float, float]]:
    """Positions on the lines between cells of an overlay, and beside them by a rounding."""
    positions = []
    for west, south, wide, high in made._table[0][-12:, :4].tolist():
        for step in (0, 1, 2):
            lon, lat = west + step * wide, south + step * high
            positions += [
                (x, y)
                for x in (lon, np.nextafter(lon, -400), np.nextafter(lon, 400))
                for y in (lat, np.nextafter(lat, -100), np.nextafter(lat, 100))
            ]
    return positions


@pytest.fixture
def coarsely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Overlays with large cells, which are quickly divided and easily wrong."""
    monkeypatch.setattr(overlay, "COARSE", 4)
    monkeypatch.setattr(overlay, "COLUMNS", 16)
    monkeypatch.setattr(overlay, "MANY", 50)
    monkeypatch.setattr(overlay, "OFTEN_HIT", 2)
    monkeypatch.setattr(overlay, "MOST_CELLS", 3_000)


NOWHERE = [(float("nan"), 0.0), (0.0, float("nan")), (181.0, 91.0), (400.0, 10.0), (0.0, -90.1)]
settled = settings(
    max_examples=examples(20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.usefixtures("coarsely")
@settled
@given(st.lists(areas(), min_size=1, max_size=3), st.data())
def test_areas_laid_over_each_other_answer_as_each_does(geometries: list[Any], data: st.DataObject) -> None:
    questions = [Question(index_of(geometry), None) for geometry in geometries]
    questions += [Question(index_of(*geometries), reach_m) for reach_m in (0.0, 30_000.0)]
    made = Overlay(questions)
    vertices = [tuple(c) for geometry in geometries for c in shapely.get_coordinates(geometry)]
    dice = np.random.default_rng(data.draw(st.integers(0, 99)))
    anywhere = dice.uniform(-9, 9, (300, 2)).tolist()
    lon, lat = columns([*vertices, *anywhere, *on_the_lines_of(made), *NOWHERE])
    for _ in range(4):  # cells are divided meanwhile
        assert made.answer(lon, lat).tolist() == ask_each(questions, lon, lat)
    lon, lat = columns([*vertices, *on_the_lines_of(made)])
    assert made.answer(lon, lat).tolist() == ask_each(questions, lon, lat)
    at_another_turn = np.where(lon < 0, lon + 360, lon - 360)
    assert made.answer(at_another_turn, lat).tolist() == ask_each(questions, at_another_turn, lat)


@pytest.mark.usefixtures("coarsely")
@settled
@given(lines(), lines(), place, st.sampled_from([300.0, 20_000.0, 700_000.0, 3_000_000.0]), st.integers(0, 99))
def test_lines_and_points_anywhere_on_the_earth_answer_as_each_does(
    line: Any, other: Any, point: tuple[float, float], reach_m: float, seed: int
) -> None:
    questions = [
        Question(index_of(line), reach_m),
        Question(index_of(line, other), reach_m / 3),
        Question(index_of(shapely.Point(point)), reach_m),
    ]
    made = Overlay(questions)
    dice = np.random.default_rng(seed)
    vertices = np.concatenate([shapely.get_coordinates(line), shapely.get_coordinates(other), [point]])
    beside = vertices[dice.integers(0, len(vertices), 200)] + dice.normal(size=(200, 2)) * (reach_m / 111_000)
    beside[:, 1] = np.clip(beside[:, 1], -90, 90)
    beside[:, 0] = np.clip(beside[:, 0], -360, 360)
    poles = [(0.0, 90.0), (77.0, -90.0), (180.0, 0.0), (-180.0, 0.0), (360.0, 1.0), (-360.0, -1.0)]
    lon, lat = columns([*beside.tolist(), *vertices.tolist(), *poles, *on_the_lines_of(made), *NOWHERE])
    for _ in range(4):  # cells are divided meanwhile
        assert made.answer(lon, lat).tolist() == ask_each(questions, lon, lat)
    lon, lat = columns([*vertices.tolist(), *on_the_lines_of(made)])
    assert made.answer(lon, lat).tolist() == ask_each(questions, lon, lat)


def test_an_overlay_learns_where_positions_are(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = np.random.default_rng(3)
    coast = shapely.LineString(np.column_stack([np.linspace(-5, -4, 400), 48 + dice.normal(size=400) * 0.01]))
    ground = shapely.Point(-4.5, 48.2).buffer(0.3, quad_segs=50)
    questions = [Question(index_of(coast), 300.0), Question(index_of(coast), 5000.0), Question(index_of(ground), None)]
    made = Overlay(questions)
    harbour = dice.normal(size=(60_000, 2)) * 0.005 + shapely.get_coordinates(coast)[200]
    lon, lat = columns(np.concatenate([harbour, dice.uniform((-5.2, 47.8), (-3.8, 48.8), (20_000, 2))]))
    expected = ask_each(questions, lon, lat)
    assert len(set(expected)) == 6  # within 300 m is within 5 km; each inside of the ground and outside
    asked: list[int] = []
    ask = Question.ask

    def counted(question: Question, x: F64, y: F64) -> npt.NDArray[np.bool_]:
        asked.append(len(x))
        return ask(question, x, y)

    monkeypatch.setattr(Question, "ask", counted)
    n_asked = []
    for _ in range(8):
        assert made.answer(lon, lat).tolist() == expected
        n_asked.append(sum(asked))
        asked.clear()
    assert n_asked[0] < 0.6 * len(lon)
    assert n_asked[-1] < 0.3 * n_asked[0]
    assert made.n_cells < 1.2 * overlay.COLUMNS**2


def test_an_overlay_is_made_when_it_pays_and_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlay, "OFTEN", 1000)
    questions = Questions([Question(index_of(shapely.box(0, 0, 1, 1)), None)])
    lon, lat = columns([(x / 100, 0.5) for x in range(-300, 300)])
    before = questions.ask(lon, lat).tolist()
    assert questions._overlay is None
    assert questions.ask(lon, lat).tolist() == before
    assert questions._overlay is not None
    sent = pickle.loads(pickle.dumps(questions))
    assert sent._overlay is None
    assert sent.ask(lon, lat).tolist() == before


@pytest.mark.parametrize(("n_radii", "in_one_group"), [(3, True), (16, False)])
def test_patterns_find_the_same_with_and_without_an_overlay(
    n_radii: int, in_one_group: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "port.csv").write_text("name,lon,lat\na,0,0\nb,0.5,0.5\nc,1,0\n")
    stream = 'stream s { key id\ntime t in s\nposition lon, lat }\npoints port from "port.csv"\n'
    rings = [
        f"pattern P{km} := (near(port, {km} km) and not near(port, {km - 1} km)) ; any" for km in range(2, n_radii)
    ]
    (tmp_path / "p.sre").write_text(stream + "\n".join([*rings, "pattern Far := (not near(port, 40 km)){2}"]))
    dice = np.random.default_rng(5)
    lon, lat = dice.uniform(-0.5, 1.5, 3000), dice.uniform(-0.5, 1, 3000)
    events = pa.table({"id": dice.integers(0, 5, 3000), "t": np.arange(3000), "lon": lon, "lat": lat})
    found = []
    for often in (1 << 40, 1):
        monkeypatch.setattr(overlay, "OFTEN", often)
        patterns = wayeb_py.compile(tmp_path / "p.sre")
        assert (len(patterns.groups) == 1) == in_one_group
        found.append(patterns.recognise(events).to_arrow())
    assert found[0].num_rows > 500
    assert found[0].equals(found[1])
