"""Patterns over pairs in real traffic: equal to a formulation in numpy, pair by pair, that knows no grid."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest

import wayeb_py
from tests import geodesy

SOLENT = sorted((Path(__file__).parents[3] / "shared/data/solent").glob("*.csv"))
TEXT = """
stream vessels { key MMSI  time Time in ms  position lon, lat  attr SOG number in kn }
pattern Slow  for each pair a, b in vessels within 500 m fresh 5 min :=
    (distance(a, b) < 200 m and a.SOG < 2 and b.SOG < 2){4,}
pattern Close for each pair a, b in vessels within 500 m fresh 5 min :=
    (distance(a, b) < 300 m and a.SOG > 3 and b.SOG > 3){2,}
"""


def events_of_pair(x: dict[str, Any], y: dict[str, Any]) -> tuple[Any, ...]:
    """Time, distance and both speeds at every event of either, and whether it is one of the pair."""
    n, k = len(x["t"]), len(y["t"])
    # Of one time, those of the smaller key come first.
    of_y = np.searchsorted(y["t"], x["t"], side="left") - 1
    of_x = np.searchsorted(x["t"], y["t"], side="right") - 1
    a, b = np.concatenate([np.arange(n), of_x]), np.concatenate([of_y, np.arange(k)])
    t = np.concatenate([x["t"], y["t"]])
    order = np.lexsort((np.concatenate([np.zeros(n), np.ones(k)]), t))
    a, b, t = a[order], b[order], t[order]
    known = (a >= 0) & (b >= 0)
    (a_lon, a_lat), (b_lon, b_lat) = np.radians(x["at"][a]).T, np.radians(y["at"][b]).T
    half = np.sin((b_lat - a_lat) / 2) ** 2 + np.cos(a_lat) * np.cos(b_lat) * np.sin((b_lon - a_lon) / 2) ** 2
    away = 2 * geodesy.RADIUS_M * np.arcsin(np.sqrt(half))
    fresh = (t - x["t"][a] <= 300_000) & (t - y["t"][b] <= 300_000)
    return t, away, x["v"][a], y["v"][b], known & fresh & (away <= 500.0)


@pytest.mark.skipif(not SOLENT, reason="the data of the Solent are not at hand (shared/data)")
def test_meetings_in_the_solent() -> None:
    table = pc.read_csv(SOLENT[0]).rename_columns(["Time", "MMSI", "lat", "lon", "COG", "SOG"])
    times = table.column("Time").cast(pa.timestamp("ms")).cast(pa.int64())
    table = table.set_column(0, "Time", times)
    found = wayeb_py.compile(TEXT).recognise(table).to_arrow().to_pylist()
    columns = {name: table.column(name).to_numpy() for name in ("MMSI", "Time", "lon", "lat", "SOG")}
    tracks = {}
    for key in np.unique(columns["MMSI"]).tolist():
        rows = np.flatnonzero(columns["MMSI"] == key)
        rows = rows[np.argsort(columns["Time"][rows], kind="stable")]
        at = np.column_stack([columns["lon"][rows], columns["lat"][rows]])
        tracks[key] = {"t": columns["Time"][rows], "v": columns["SOG"][rows], "at": at}
    wanted = set()
    for x, y in combinations(sorted(tracks), 2):
        low, high = tracks[x]["at"].min(axis=0), tracks[x]["at"].max(axis=0)
        near = ((tracks[y]["at"] > low - 0.02) & (tracks[y]["at"] < high + 0.02)).all(axis=1)
        if not near.any():
            continue
        t, away, a_speed, b_speed, of_pair = events_of_pair(tracks[x], tracks[y])
        letters = {
            "Slow": (4, (away < 200) & (a_speed < 2) & (b_speed < 2)),
            "Close": (2, (away < 300) & (a_speed > 3) & (b_speed > 3)),
        }
        for name, (least, holds) in letters.items():
            run = seq = 0
            for nth in range(len(t)):
                seq = seq + 1 if of_pair[nth] else 0
                run = run + 1 if of_pair[nth] and holds[nth] else 0
                if run >= least:
                    wanted.add((name, x, y, int(t[nth]), seq - 1))
    assert {(row["pattern"], row["entity"], row["other"], row["ts"], row["seq"]) for row in found} == wanted
    assert {row[0] for row in wanted} == {"Slow", "Close"}
