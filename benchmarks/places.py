"""One pattern for each of 220 ports over 5,000 vessels, against the same 220 written as separate patterns.

analysis: the separate patterns measure every event against every port. `for each` asks an index for the ports within
reach and steps those and the ones under way, so its cost does not grow with the number of ports that are far away.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import wayeb_py
from benchmarks.measure import Bound, start, stay_on_one_core

N_PORTS = 220
N_VESSELS = 5_000
N_EVENTS = 400_000
BODY = "(distance({p}) in 7..10 km) ; (distance({p}) in 5..7 km)+ ; (distance({p}) < 5 km)"
NAMED = 'port["{name}"]'
STREAM = """
stream vessels {
    key      mmsi
    time     t in s
    position lon, lat
}
points port from "ports.csv"
"""


def make_ports(dice: np.random.Generator) -> np.ndarray:
    """[port, (lon, lat)] along a wavy coast of some 2,000 km, in no neighbour's harbour."""
    along = np.linspace(0, 1, N_PORTS)
    lon = -5 + 14 * along + dice.normal(0, 0.02, N_PORTS)
    lat = 46 + 4 * np.sin(7 * along) + dice.normal(0, 0.02, N_PORTS)
    return np.column_stack([lon, lat])


def make_events(dice: np.random.Generator, ports: np.ndarray) -> pa.Table:
    """Vessels that sail between neighbouring ports at ten to twenty knots and report every two minutes."""
    n_steps = N_EVENTS // N_VESSELS
    at = dice.integers(0, N_PORTS, N_VESSELS)
    position = ports[at] + dice.normal(0, 0.05, (N_VESSELS, 2))
    target = np.clip(at + dice.integers(-6, 7, N_VESSELS), 0, N_PORTS - 1)
    stride = dice.uniform(0.005, 0.012, N_VESSELS)  # degrees in two minutes
    lon, lat = np.empty((n_steps, N_VESSELS)), np.empty((n_steps, N_VESSELS))
    for step in range(n_steps):
        course = ports[target] - position
        distance = np.hypot(*course.T)
        arrived = distance < stride
        target[arrived] = np.clip(target[arrived] + dice.integers(-6, 7, int(arrived.sum())), 0, N_PORTS - 1)
        position += course / np.maximum(distance, 1e-9)[:, None] * np.minimum(stride, distance)[:, None]
        lon[step], lat[step] = (position + dice.normal(0, 0.0002, position.shape)).T
    times = np.repeat(np.arange(n_steps) * 120, N_VESSELS)
    vessels = np.tile(np.arange(N_VESSELS) + 200_000_000, n_steps)
    return pa.table({"mmsi": vessels, "t": times, "lon": lon.reshape(-1), "lat": lat.reshape(-1)})


def recognise(patterns: wayeb_py.Patterns, events: pa.Table) -> pa.Table:
    return wayeb_py.Recogniser(patterns, order="sorted").feed(events).to_arrow()


def rows_of(found: pa.Table, place: str) -> list[tuple[object, ...]]:
    names = found[place].to_pylist()
    return sorted(zip(names, *(found[c].to_pylist() for c in ("entity", "seq", "start_seq")), strict=True))


def main() -> None:
    experiment = start("places", f"{N_PORTS} ports, {N_VESSELS:,} vessels, {N_EVENTS:,} events, one core")
    dice = np.random.default_rng(220)
    ports = make_ports(dice)
    events = make_events(dice, ports)
    stay_on_one_core()
    with tempfile.TemporaryDirectory() as folder:
        names = [f"Port{number:03}" for number in range(N_PORTS)]
        lines = [f"{name},{lon:.6f},{lat:.6f}" for name, (lon, lat) in zip(names, ports, strict=True)]
        Path(folder, "ports.csv").write_text("\n".join(["name,lon,lat", *lines]) + "\n")
        each, apart = Path(folder, "each.sre"), Path(folder, "apart.sre")
        each.write_text(f"{STREAM}pattern Approaching for each p in port := {BODY.format(p='p')}\n")
        one_by_one = [f"pattern {name} := {BODY.format(p=NAMED.format(name=name))}" for name in names]
        apart.write_text(STREAM + "\n".join(one_by_one) + "\n")
        for_each, separate = wayeb_py.compile(each), wayeb_py.compile(apart)
        found, expected = recognise(for_each, events), recognise(separate, events)
        experiment.check(
            f"{found.num_rows:,} detections of both, starts included",
            found.num_rows > 0 and rows_of(found, "place") == rows_of(expected, "pattern"),
        )
        seconds = experiment.median_seconds(
            {"for each": lambda: recognise(for_each, events), "separate": lambda: recognise(separate, events)}
        )
    for name, taken in seconds.items():
        experiment.report(name, N_EVENTS / taken / 1e6, "million events/s")
    experiment.bound(
        Bound("for each over separate patterns", seconds["separate"] / seconds["for each"], 50, "at least")
    )
    experiment.finish()


if __name__ == "__main__":
    main()
