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
from benchmarks.measure import asked_size, start, stay_on_one_core

N_PORTS = 220
N_VESSELS = {"quick": 100, "usual": 5_000, "full": 5_000}
N_STEPS = 80  # messages of a vessel
LEAST = 50  # times as fast
SEED = 220
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


def make_events(dice: np.random.Generator, ports: np.ndarray, n_vessels: int) -> pa.Table:
    """Vessels that sail between neighbouring ports at ten to twenty knots and report every two minutes."""
    at = dice.integers(0, N_PORTS, n_vessels)
    position = ports[at] + dice.normal(0, 0.05, (n_vessels, 2))
    target = np.clip(at + dice.integers(-6, 7, n_vessels), 0, N_PORTS - 1)
    stride = dice.uniform(0.005, 0.012, n_vessels)  # degrees in two minutes
    lon, lat = np.empty((N_STEPS, n_vessels)), np.empty((N_STEPS, n_vessels))
    for step in range(N_STEPS):
        course = ports[target] - position
        distance = np.hypot(*course.T)
        arrived = distance < stride
        target[arrived] = np.clip(target[arrived] + dice.integers(-6, 7, int(arrived.sum())), 0, N_PORTS - 1)
        position += course / np.maximum(distance, 1e-9)[:, None] * np.minimum(stride, distance)[:, None]
        lon[step], lat[step] = (position + dice.normal(0, 0.0002, position.shape)).T
    times = np.repeat(np.arange(N_STEPS) * 120, n_vessels)
    vessels = np.tile(np.arange(n_vessels) + 200_000_000, N_STEPS)
    return pa.table({"mmsi": vessels, "t": times, "lon": lon.reshape(-1), "lat": lat.reshape(-1)})


def write_patterns(folder: Path, ports: np.ndarray) -> tuple[Path, Path]:
    """The ports as a file, and beside it the pattern for each of them and the same as one pattern a port."""
    names = [f"Port{number:03}" for number in range(N_PORTS)]
    lines = [f"{name},{lon:.6f},{lat:.6f}" for name, (lon, lat) in zip(names, ports, strict=True)]
    (folder / "ports.csv").write_text("\n".join(["name,lon,lat", *lines]) + "\n")
    each, apart = folder / "each.sre", folder / "apart.sre"
    each.write_text(f"{STREAM}pattern Approaching for each p in port := {BODY.format(p='p')}\n")
    one_by_one = [f"pattern {name} := {BODY.format(p=NAMED.format(name=name))}" for name in names]
    apart.write_text(STREAM + "\n".join(one_by_one) + "\n")
    return each, apart


def recognise(patterns: wayeb_py.Patterns, events: pa.Table) -> pa.Table:
    return wayeb_py.Recogniser(patterns, order="sorted").feed(events).to_arrow()


def rows_of(found: pa.Table, place: str) -> list[tuple[object, ...]]:
    names = found[place].to_pylist()
    return sorted(zip(names, *(found[c].to_pylist() for c in ("entity", "seq", "start_seq")), strict=True))


def main() -> None:
    n_vessels = N_VESSELS[asked_size()]
    n_events = n_vessels * N_STEPS
    experiment = start("places", f"{N_PORTS} ports, {n_vessels:,} vessels, {n_events:,} events, one core", SEED)
    dice = np.random.default_rng(SEED)
    ports = make_ports(dice)
    events = make_events(dice, ports, n_vessels)
    stay_on_one_core()
    with tempfile.TemporaryDirectory() as folder:
        each, apart = write_patterns(Path(folder), ports)
        for_each, separate = wayeb_py.compile(each), wayeb_py.compile(apart)
        found, expected = recognise(for_each, events), recognise(separate, events)
        experiment.check(
            f"{found.num_rows:,} detections of both, starts included",
            found.num_rows > 0 and rows_of(found, "place") == rows_of(expected, "pattern"),
        )
        seconds = experiment.median_seconds(
            {"for each": lambda: recognise(for_each, events), "separate": lambda: recognise(separate, events)}
        )
    experiment.rate_rows(n_events, {"for each": "for each", "separate": f"{N_PORTS} separate patterns"})
    limit = n_events / seconds["separate"] / 1e6 * LEAST
    experiment.rate_figure(f"{N_PORTS} ports, one core", limit, f"{LEAST} times the separate patterns' rate")
    experiment.bound_ratio("for each over separate patterns", "separate", "for each", LEAST, "at least")
    experiment.finish()


if __name__ == "__main__":
    main()
