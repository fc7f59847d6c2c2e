"""What a live stream needs is there before its first event: no event waits while cells around places are made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import wayeb_py
from wayeb_py.parallel.live.warming import warm
from wayeb_py.spatial import overlay

TEXT = """
stream vessels { key id time ts in s position lon, lat }
points port from "ports.csv"
pattern Near := (near(port, 3 km)){2}
"""
EVENTS = pa.table(
    {"id": [n % 3 for n in range(60)], "ts": list(range(60)), "lon": [n / 100 for n in range(60)], "lat": [50.0] * 60}
)


@pytest.mark.parametrize(("once", "n_made"), [(False, 1), (True, 0)])
def test_cells_are_made_before_the_first_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, once: bool, n_made: int
) -> None:
    (tmp_path / "ports.csv").write_text("name,lon,lat\nA,0.1,50\nB,0.3,50\n")
    (tmp_path / "near.sre").write_text(TEXT)
    patterns = wayeb_py.compile(tmp_path / "near.sre")
    made: list[object] = []
    begin = overlay.Overlay.__init__

    def counted(own: overlay.Overlay, asked: Sequence[overlay.Question]) -> None:
        made.append(own)
        begin(own, asked)

    monkeypatch.setattr(overlay.Overlay, "__init__", counted)
    warm(patterns, dict.fromkeys(patterns.by_stream, EVENTS.schema), once=once)
    assert len(made) == n_made
    monkeypatch.setattr(overlay, "OFTEN", 10)
    found = wayeb_py.Recogniser(patterns).feed(EVENTS)
    assert len(made) == 1
    assert len(found) > 0
