"""Half a year off a coast with 220 ports, as a coastal receiver hears it: some 18.6 million messages of 5,000 vessels.

The coast and its ports are those of `places`. Some 140 vessels are in reach at a time, each of which reports every two
minutes: it sails to a port nearby, lies there for some hours, and sails on, until it leaves for good and another vessel
is heard instead. *Not taken*: the invented sea of `wayeb_py.simulate`, which has 13 ports on 70 km of coast; with 220
of them there, every vessel would be near a third of the world's ports at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import wayeb_py
from benchmarks.experiments.places import N_PORTS, make_ports
from benchmarks.inputs.fleet_events import FOLDER
from wayeb_py.patterns import Patterns

SEED = 220
HALF_A_YEAR_DAYS = 182.0
START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
REPORT_S = 120
N_IN_REACH = 142
STAY_REPORTS = 3_700  # reports of a vessel, on average: five days
LYING_REPORTS = (30, 600)  # reports while in a port: one hour to twenty
KN_OF_A_DEGREE = 60 / (REPORT_S / 3600)  # the speed in knots of one degree from report to report
BATCH_STEPS = 1_000

PATTERNS = """
stream vessels {
    key      mmsi
    time     ts
    position lon, lat
    attr     speed number in kn
}
points port from "ports.csv"
let standing = speed < 0.5
pattern Approaching for each p in port := (distance(p) in 7..10 km) ; (distance(p) in 5..7 km)+ ; (distance(p) < 5 km)
pattern CarefulApproaching for each p in port := (distance(p) in 7..10 km) ; (distance(p) in 5..7 km)*
    ; (distance(p) < 5 km and speed > 0.5) within 2 h
pattern PortCall for each p in port := (distance(p) in 2..5 km) ; (distance(p) < 2 km and not standing)*
    ; (distance(p) < 2 km and standing){3}
pattern Leaving for each p in port := (distance(p) < 1 km) ; (distance(p) in 1..5 km and speed > 2)
"""
SCHEMA = pa.schema(
    [
        ("mmsi", pa.int64()),
        ("ts", pa.timestamp("ms", tz="UTC")),
        ("lon", pa.float64()),
        ("lat", pa.float64()),
        ("speed", pa.float32()),
    ]
)


def port_patterns(folder: Path) -> Patterns:
    """Four patterns for each of the ports, whose file is written to the folder."""
    ports = make_ports(np.random.default_rng(SEED))
    lines = [f"Port{number:03},{lon:.6f},{lat:.6f}" for number, (lon, lat) in enumerate(ports)]
    (folder / "ports.csv").write_text("\n".join(["name,lon,lat", *lines]) + "\n")
    path = folder / "ports.sre"
    path.write_text(PATTERNS)
    return wayeb_py.compile(path)


def sea_file(days: float) -> Path:
    """The messages of `days` days in a Parquet file, made if it is not there yet."""
    path = FOLDER / f"ports-{days:g}-days.parquet"
    if path.exists():
        return path
    print(f"making {path.name} ...", flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_suffix(".making")
    with pq.ParquetWriter(made, SCHEMA, compression="zstd", use_dictionary=["mmsi"]) as writer:
        for batch in messages(round(days * 86_400 / REPORT_S)):
            writer.write_batch(batch)
    made.rename(path)
    return path


def messages(n_steps: int) -> Iterator[pa.RecordBatch]:
    """The reports of all vessels in reach, in order of time: each has its own second of the two minutes."""
    dice = np.random.default_rng(SEED)
    ports = make_ports(dice)
    n = N_IN_REACH
    vessel = 200_000_000 + np.arange(n)
    n_seen = n
    target = dice.integers(0, N_PORTS, n)
    position = ports[target] + dice.normal(0, 0.05, (n, 2))
    stride = dice.uniform(0.005, 0.012, n)  # degrees from report to report: ten to twenty knots
    lying = np.zeros(n, np.int64)  # reports until it sails
    offset_ms = np.arange(n) * (REPORT_S * 1000 // n)
    rows = []
    for step in range(n_steps):
        course = ports[target] - position
        distance = np.hypot(course[:, 0], course[:, 1])
        sails = lying == 0
        moved = np.where(sails, np.minimum(stride, distance), 0.0)
        position += course * (moved / np.maximum(distance, 1e-9))[:, None]
        lying -= ~sails
        arrived = np.flatnonzero(sails & (distance <= stride))
        lying[arrived] = dice.integers(*LYING_REPORTS, len(arrived))
        target[arrived] = np.clip(target[arrived] + dice.integers(-6, 7, len(arrived)), 0, N_PORTS - 1)
        gone = np.flatnonzero(dice.random(n) < 1 / STAY_REPORTS)
        vessel[gone] = 200_000_000 + n_seen + np.arange(len(gone))
        n_seen += len(gone)
        target[gone], lying[gone] = dice.integers(0, N_PORTS, len(gone)), 0
        position[gone] = ports[target[gone]] + dice.normal(0, 0.2, (len(gone), 2))
        seen = position + dice.normal(0, 0.0001, position.shape)
        ts = START_MS + step * REPORT_S * 1000 + offset_ms
        rows.append((vessel.copy(), ts, seen[:, 0], seen[:, 1], (moved * KN_OF_A_DEGREE).astype(np.float32)))
        if len(rows) == BATCH_STEPS or step == n_steps - 1:
            columns = [np.concatenate(column) for column in zip(*rows, strict=True)]
            yield pa.RecordBatch.from_arrays(
                [pa.array(values).cast(field.type) for values, field in zip(columns, SCHEMA, strict=True)],
                schema=SCHEMA,
            )
            rows = []
