"""The library as an analyst uses it in a notebook: what it shows and accepts, and its messages about what it does
not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wayeb_py
from wayeb_py.errors import DataError, EventsError

TEXT = """
stream vehicles {
    key  vehicle
    time ts in s
    position lon, lat
    attr speed number in km/h
}
let fast = speed > 100
pattern Speeding := fast ; fast within 1 h
pattern Crawl    := (speed < 5 and speed > 0)
"""

COLUMNS: dict[str, list[Any]] = {
    "vehicle": [7, 7, 7, 7, 9, 9],
    "ts": [0, 60, 120, 180, 0, 60],
    "speed": [104.0, 93.0, 104.0, 111.0, 3.0, 0.0],
    "lon": [1.0, 1.1, 1.2, 1.3, 2.0, 2.1],
    "lat": [50.0, 50.0, 50.0, 50.0, 51.0, 51.0],
}
COUNTS = {"Crawl": 1, "Speeding": 1}


@pytest.fixture(scope="module")
def patterns() -> wayeb_py.Patterns:
    return wayeb_py.compile(TEXT)


@pytest.fixture
def detections(patterns: wayeb_py.Patterns) -> wayeb_py.Detections:
    return patterns.recognise(pa.table(COLUMNS))


def test_completion_sees_the_names() -> None:
    assert set(wayeb_py.__all__) <= set(dir(wayeb_py))
    assert {"compile", "function", "predicate", "Recogniser"} <= set(dir(wayeb_py))
    for name in wayeb_py.__all__:
        assert getattr(wayeb_py, name).__doc__, name


# ---- input


@pytest.mark.parametrize(
    "events",
    [
        COLUMNS,
        pa.table(COLUMNS),
        pa.table(COLUMNS).to_batches()[0],
        pl.DataFrame(COLUMNS),
        pl.DataFrame(COLUMNS).lazy(),
        pd.DataFrame(COLUMNS),
        pd.DataFrame(COLUMNS).set_index("ts"),
        pd.DataFrame(COLUMNS).assign(mixed=[1, "a", None, 2.5, b"x", {}]),
        [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)],
    ],
    ids=["dict", "table", "batch", "polars", "lazy", "pandas", "index", "mixed beside", "rows"],
)
def test_events_of_every_kind_are_taken(patterns: wayeb_py.Patterns, events: Any) -> None:
    assert patterns.recognise(events).counts() == COUNTS


def test_a_recogniser_takes_a_lazy_frame(patterns: wayeb_py.Patterns) -> None:
    assert wayeb_py.Recogniser(patterns, order="sorted").feed(pl.DataFrame(COLUMNS).lazy()).counts() == COUNTS


@pytest.mark.parametrize(
    ("events", "message", "hint"),
    [
        (
            pd.DataFrame(COLUMNS | {"speed": [104.0, "fast", 104.0, 111.0, None, 0.0]}),
            "the column `speed` holds values of different kinds: float, str",
            'df["speed"] = pandas.to_numeric(df["speed"], errors="coerce")',
        ),
        (
            pd.DataFrame(COLUMNS | {"speed": ["fast"] * 6}),
            "the column `speed` is text, and the pattern uses it as number",
            "convert the column, or change the pattern",
        ),
        (
            pd.DataFrame({**COLUMNS, "speed": None, "sped": 1.0}).drop(columns="speed"),
            "the events have no column `speed`",
            "did you mean `sped`?",
        ),
        ({}, "the events have no column `", "the events have no columns"),
        ([], "the events have no column `", "the events have no columns"),
        ("events.parquet", "`events.parquet` is a path, and a table is expected", "read_table"),
        (Path("events.csv"), "`events.csv` is a path, and a table is expected", "wayeb run"),
        (COLUMNS | {"speed": [1.0, "a", 2, 3, 4, 5]}, "the events cannot become a table", "values of one kind"),
        (7, "events of type `int` are no table", "pyarrow, pandas or Polars"),
    ],
)
def test_what_is_not_taken_says_what_to_do(patterns: wayeb_py.Patterns, events: Any, message: str, hint: str) -> None:
    with pytest.raises(EventsError) as caught:
        patterns.recognise(events)
    assert str(caught.value).startswith(message)
    assert hint in str(caught.value)


# ---- what comes back


def test_no_detections_have_all_columns(patterns: wayeb_py.Patterns, detections: wayeb_py.Detections) -> None:
    none = patterns.recognise(pd.DataFrame(COLUMNS).iloc[:1])
    assert len(none) == 0
    assert list(none.to_pandas().columns) == list(detections.to_pandas().columns)
    assert list(pl.DataFrame(none).columns) == list(pl.DataFrame(detections).columns)


def test_detections_are_rows(detections: wayeb_py.Detections) -> None:
    rows = list(detections)
    assert rows == detections.to_arrow().to_pylist()
    assert (detections[0], detections[-1]) == (rows[0], rows[-1])
    with pytest.raises(IndexError, match="there are 2 detections, and no number 2"):
        detections[2]


def test_detections_become_a_frame(detections: wayeb_py.Detections) -> None:
    frame = pd.DataFrame(detections)
    assert list(frame.columns) == detections.to_arrow().column_names
    assert frame["pattern"].tolist() == detections.to_pandas()["pattern"].tolist()
    assert pl.DataFrame(detections).shape == (2, 7)


def test_a_detection_is_explained_by_its_number_or_its_row(detections: wayeb_py.Detections) -> None:
    number = [row["pattern"] for row in detections].index("Speeding")
    why = detections.why(number)
    assert (why.detected, why.seq, why.start_seq) == (True, 3, 2)
    assert [event.letters for event in why.events] == [("fast",), ("fast",)]
    assert detections.why(detections[number]) == why
    frame = pd.DataFrame(detections)
    assert detections.why(frame.iloc[number]) == why
    assert detections.why(frame.to_dict("records")[number]) == why
    assert detections.why(frame.index[frame["pattern"] == "Speeding"].to_numpy()[0]) == why
    assert repr(why).splitlines()[:2] == [
        "Speeding, entity 7, event 3 at 180",
        "detected: 2 events from 120 to 180",
    ]
    with pytest.raises(DataError, match="none of the detections"):
        detections.why({"pattern": "Speeding"})
    with pytest.raises(DataError, match="none of the detections"):
        detections.why({**detections[number], "seq": 2})


def test_a_detection_at_a_timestamp_is_explained(patterns: wayeb_py.Patterns) -> None:
    text = TEXT.replace("time ts in s", "time ts\n    forget after 1 h")
    times = pa.array([i * 10**6 for i in [0, 60, 120, 180, 0, 60]], pa.timestamp("us"))
    later = pa.array([i * 10**6 + 86400 * 10**6 for i in [0, 60, 120, 180, 0, 60]], pa.timestamp("us"))
    twice = pa.concat_tables([pa.table(COLUMNS | {"ts": times}), pa.table(COLUMNS | {"ts": later})])
    found = wayeb_py.compile(text).recognise(twice)
    assert len(found) == 4
    for number, row in enumerate(found):
        why = found.why(number)
        assert (why.detected, why.seq, why.ts) == (True, row["seq"], f"{row['ts'].isoformat()}Z")


def test_a_detection_of_a_place_is_explained(tmp_path: Path) -> None:
    (tmp_path / "ports.csv").write_text("name,lon,lat\nA,1.0,50\nB,2,51\n")
    (tmp_path / "p.sre").write_text(
        TEXT + 'points port from "ports.csv"\npattern At for each p in port := (near(p, 1 km))\n'
    )
    found = wayeb_py.compile(tmp_path / "p.sre").recognise(pd.DataFrame(COLUMNS))
    why = next(found.why(row) for row in found if row["pattern"] == "At" and row["place"] == "B")
    assert (why.detected, why.place) == (True, "B")


def test_a_map_shows_itself_and_is_saved(detections: wayeb_py.Detections, tmp_path: Path) -> None:
    page = detections.map(tmp_path / "map.html", title="Two <vehicles>")
    assert repr(page) == "<map of 2 episodes, 2 entities>"
    assert "Two &lt;vehicles&gt;" in (tmp_path / "map.html").read_text(encoding="utf-8")
    assert page.notes == []
    shown = page._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert shown.count('"') == 4  # whatever is inside is escaped
    assert len(page.scene["why"]) == 2


def test_what_was_fed_can_be_neither_drawn_nor_explained(patterns: wayeb_py.Patterns) -> None:
    found = wayeb_py.Recogniser(patterns, order="sorted").feed(pa.table(COLUMNS))
    with pytest.raises(DataError, match="cannot be drawn"):
        found.map()
    with pytest.raises(DataError, match="cannot be explained"):
        found.why(0)


# ---- output on a notebook


def test_patterns_show_their_expressions(patterns: wayeb_py.Patterns) -> None:
    shown = patterns._repr_html_()
    assert "<caption>2 patterns</caption>" in shown
    assert "<td>Speeding</td><td>fast ; fast within 1 h</td>" in shown
    assert "(speed &lt; 5 and speed &gt; 0)" in shown


def test_detections_show_their_counts_and_expressions(patterns: wayeb_py.Patterns) -> None:
    n = 30
    columns = {name: values[4:5] * n for name, values in COLUMNS.items()} | {"ts": list(range(n))}
    shown = patterns.recognise(columns)._repr_html_()
    assert "<caption>30 detections</caption>" in shown
    assert "<td>Crawl</td><td>30</td><td>(speed &lt; 5 and speed &gt; 0)</td>" in shown
    assert "… and 10 more" in shown
    assert "<caption>0 detections</caption>" in patterns.recognise({name: c[:0] for name, c in COLUMNS.items()} | {
        "vehicle": pa.array([], pa.int64()), "ts": pa.array([], pa.int64()), "speed": pa.array([], pa.float64()),
    })._repr_html_()  # fmt: skip


def test_patterns_are_explained(patterns: wayeb_py.Patterns) -> None:
    assert patterns.explain("Speeding").startswith("pattern Speeding\n")
    assert patterns.explain("Speeding", "dot").startswith('digraph "Speeding" {')
    assert "pattern Crawl" in patterns.explain()


def test_needs_are_one_short_line(patterns: wayeb_py.Patterns) -> None:
    assert repr(patterns.needs[2]) == "Need(column='speed', kind='number', role='attribute')"
    assert "\n" not in repr(patterns.needs)


def test_the_fleet_sample_is_explained_all_over() -> None:
    root = Path(__file__).parents[2]
    patterns = wayeb_py.compile(root / "patterns" / "fleet.sre")
    found = patterns.recognise(pq.read_table(root / "data" / "fleet_sample.parquet"))
    for number in range(0, len(found), 97):
        assert found.why(number).detected


def test_what_is_no_number_of_a_detection_and_no_pattern_file_says_what_to_do() -> None:
    detections = wayeb_py.compile("stream s { key id time t in s }\npattern P := (v > 0)\n").recognise(
        {"id": [1], "t": [0], "v": [1.0]}
    )
    with pytest.raises(TypeError, match="a detection is named by its number, and this is a slice"):
        detections[0:1]  # type: ignore[index]
    with pytest.raises(wayeb_py.DataError, match="patterns come from text or files, and this is a NoneType"):
        wayeb_py.compile(None)  # type: ignore[arg-type]
