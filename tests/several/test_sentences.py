"""What `docs/several.md` says, sentence by sentence: a few events each (`sentences.toml`), and what they give.

Every case is run in one piece, event by event, and event by event with the state saved and taken up after each.
"""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import shapely

import wayeb_py
from tests import geodesy
from wayeb_py.engine.recogniser import Recogniser
from wayeb_py.patterns import Patterns

CASES = tomllib.loads((Path(__file__).parent / "sentences.toml").read_text())["case"]
STREAM = """stream vessels {{ key id time t in s position lon, lat motion speed, course {more}
    attr speed number in m/s  attr course number in deg  attr x number }}
"""
NUMBERS = ("lon", "lat", "speed", "course", "x")
SCHEMA = pa.schema(
    [("id", pa.string()), ("t", pa.int64()), *((name, pa.float64()) for name in NUMBERS), ("n", pa.int64())]
)


def compile_case(case: dict[str, Any], folder: Path) -> Patterns:
    for name, wkt in case.get("geo", {}).items():
        geometry = shapely.geometry.mapping(shapely.from_wkt(wkt))
        feature = {"type": "Feature", "properties": {"name": name}, "geometry": geometry}
        (folder / f"{name}.geojson").write_text(json.dumps(feature))
    if "places" in case:
        (folder / "ports.csv").write_text(case["places"].lstrip())
    own = "" if "stream vessels" in case["text"] else STREAM.format(more=case.get("stream", ""))
    (folder / "case.sre").write_text(own + case["text"])
    return wayeb_py.compile(folder / "case.sre")


def events_of(table: str) -> list[dict[str, Any]]:
    """The rows of a table of words; `m` is metres to the north."""
    header, *lines = (line.split() for line in table.strip().splitlines())
    rows = []
    for line in lines:
        cells = {name: None if word == "-" else word for name, word in zip(header, line, strict=True)}
        row: dict[str, Any] = {"id": cells.pop("id"), "t": int(str(cells.pop("t"))), "lon": 0.0}
        if "m" in cells:
            metres = cells.pop("m")
            row["lat"] = None if metres is None else math.degrees(float(metres) / geodesy.RADIUS_M)
        for name, word in cells.items():
            row[name] = None if word is None else int(word) if name == "n" else float(word)
        rows.append(row)
    return rows


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def shown(tables: list[pa.Table], has_seq: bool) -> list[str]:
    found = []
    for row in (row for table in tables for row in table.to_pylist()):
        words = [row["pattern"], row["entity"], row.get("other") or "-", row["ts"], row["start_ts"]]
        words += [row["seq"]] if has_seq else []
        words += [] if row.get("decided_ts") in (None, row["ts"]) else [row["decided_ts"]]
        words += ["-" if value is None else f"{value:g}" for name, value in row.items() if name.startswith("m_")]
        found.append(" ".join(map(str, words)))
    return sorted(found)


def name_of(case: dict[str, Any]) -> str:
    return str(case["name"]).replace(" ", "-")


def sent_in(case: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The events of each stream."""
    tables = case["events"] if isinstance(case["events"], dict) else {"vessels": case["events"]}
    return {name: events_of(table) for name, table in tables.items()}


def said_of(case: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = case.get("found", case)
    return found


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_sentence_holds(tmp_path: Path, case: dict[str, Any]) -> None:
    patterns = compile_case(case, tmp_path)
    sent = sent_in(case)
    batches = {name: batch_of(sent[name]) for name in patterns.by_stream}
    whole = patterns.recognise(batches if len(batches) > 1 else batches["vessels"])
    assert shown([whole.to_arrow()], "seq" in case) == sorted(said_of(case)["detects"])


@pytest.mark.parametrize("saves", [False, True], ids=["", "saved"])
@pytest.mark.parametrize("case", [case for case in CASES if "whole" not in case], ids=name_of)
def test_a_sentence_holds_event_by_event(tmp_path: Path, case: dict[str, Any], saves: bool) -> None:
    patterns = compile_case(case, tmp_path)
    sent = sent_in(case)
    in_time = [(name, row) for name in patterns.by_stream for row in sent[name]]
    in_order = sorted(in_time, key=lambda one: one[1]["t"]) if len(sent) > 1 else in_time
    found, n_late = feed_one_by_one(patterns, in_order, "lateness" in case.get("stream", ""), saves)
    assert shown(found, "seq" in case) == sorted(said_of(case)["detects"])
    assert said_of(case).get("late", n_late) == n_late


def feed_one_by_one(
    patterns: Patterns, events: list[tuple[str, dict[str, Any]]], has_lateness: bool, saves: bool
) -> tuple[list[pa.Table], int]:
    """The detections, and how many events are late for the clock."""
    order: Any = "arrival" if has_lateness else "sorted"
    recogniser = Recogniser(patterns, order=order)
    found, n_late = [], 0
    for name, row in events:
        found.append(recogniser.feed(batch_of([row]), name).to_arrow())
        if saves:
            n_late += recogniser.counts.late_for_clock
            recogniser = Recogniser(patterns, order=order, saved=recogniser.save())
    found.append(recogniser.finish().to_arrow())
    return found, n_late + recogniser.counts.late_for_clock


@pytest.mark.parametrize("lat", [0.001, 0.0217, 0.5, 33.25])
def test_the_reach_is_still_within_reach(lat: float) -> None:
    """At the bound, as near as two ways of computing a distance agree on it, and a hair less."""
    away_m = float(geodesy.haversine_m(0.0, 0.0, 0.0, lat))
    events = [{"id": "A", "t": 0, "lon": 0.0, "lat": 0.0}, {"id": "B", "t": 0, "lon": 0.0, "lat": lat}]
    for reach_m, near in ((away_m * (1 + 1e-14), True), (away_m * (1 - 1e-9), False)):
        text = f"pattern P for each pair a, b in vessels within {reach_m!r} m fresh 1 min := any"
        assert len(wayeb_py.compile(STREAM.format(more="") + text).recognise(batch_of(events))) == near
