"""Measures a pattern `for each` of 220 ports over 5,000 vessels, against the same 220 as separate patterns.

analysis: the separate patterns measure every event against every port. `for each` gets from an index the ports within
reach and steps those and the ones under way, so its cost does not grow with the number of ports that are far away. What
holds for a far port is stepped once for all of them: with as many ports as the World Port Index has, a pattern that
begins far away costs the same as one that begins nearby.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import wayeb_py
from benchmarks.harness.measure import asked_size, start, stay_on_one_core

N_PORTS = 220
N_VESSELS = {"quick": 100, "usual": 5_000, "full": 5_000}
N_STEPS = 80  # messages of a vessel
LEAST = 50  # the least factor in speed
N_ALL_PORTS = 3_767
NEARBY = "(distance(p) in 3..50 km) ; (distance(p) < 3 km)"
FROM_AFAR = "(distance(p) > 3 km) ; (distance(p) < 3 km)"
LEAST_FROM_AFAR = 0.5  # share of the rate of a pattern that begins nearby
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


def make_ports(dice: np.random.Generator, n_ports: int = N_PORTS) -> np.ndarray:
    """[port, (lon, lat)] along a wavy coast of some 2,000 km, none in another's harbour."""
    along = np.linspace(0, 1, n_ports)
    lon = -5 + 14 * along * n_ports / N_PORTS + dice.normal(0, 0.02, n_ports)
    lat = 46 + 4 * np.sin(7 * along * n_ports / N_PORTS) + dice.normal(0, 0.02, n_ports)
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


def compile_for_all_ports(folder: Path, ports: np.ndarray, body: str) -> wayeb_py.Patterns:
    """The ports as a file, and the pattern for each of them."""
    lines = [f"Port{number:04},{lon:.6f},{lat:.6f}" for number, (lon, lat) in enumerate(ports)]
    (folder / "ports.csv").write_text("\n".join(["name,lon,lat", *lines]) + "\n")
    (folder / "all.sre").write_text(f"{STREAM}pattern Arriving for each p in port := {body}\n")
    return wayeb_py.compile(folder / "all.sre")


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
        # The ports of a world: those around the vessels and, beyond, all the others.
        all_ports = make_ports(dice, N_ALL_PORTS)
        all_ports[:, 0] = (all_ports[:, 0] + 180) % 360 - 180
        all_ports[:N_PORTS] = ports
        nearby = compile_for_all_ports(Path(folder), all_ports, NEARBY)
        expected = recognise(nearby, events)
        from_afar = compile_for_all_ports(Path(folder), all_ports, FROM_AFAR)
        found = recognise(from_afar, events)
        experiment.check(
            f"{found.num_rows:,} detections of what begins far away, as of what begins nearby",
            found.num_rows > 0 and rows_of(found, "place") == rows_of(expected, "place"),
        )
        seconds = experiment.median_seconds(
            {
                "for each": lambda: recognise(for_each, events),
                "separate": lambda: recognise(separate, events),
                "nearby": lambda: recognise(nearby, events),
                "from afar": lambda: recognise(from_afar, events),
            }
        )
    experiment.rate_rows(
        n_events,
        {
            "for each": "for each",
            "separate": f"{N_PORTS} separate patterns",
            "nearby": f"{N_ALL_PORTS:,} ports, beginning nearby",
            "from afar": f"{N_ALL_PORTS:,} ports, beginning far away",
        },
    )
    limit = n_events / seconds["separate"] / 1e6 * LEAST
    experiment.rate_figure(f"{N_PORTS} ports, one core", limit, f"{LEAST} times the separate patterns' rate")
    experiment.bound_ratio("for each over separate patterns", "separate", "for each", LEAST, "at least")
    experiment.bound_ratio("beginning far away over nearby", "nearby", "from afar", LEAST_FROM_AFAR, "at least")
    experiment.finish()


if __name__ == "__main__":
    main()
