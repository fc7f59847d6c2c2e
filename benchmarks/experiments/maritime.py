"""Measures six maritime patterns with polygons, Parquet to a detections file, against pyarrow reading, 2 threads.

The experiment reads the eight columns that the patterns need. Three of the patterns are checked at full size against
shapely and numpy, which know nothing of automata or of the index; the occurrences that the generator has recorded must
all be found for the others as well.
"""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import shapely

import wayeb_py
from benchmarks import N_THREADS, REPOSITORY
from benchmarks.experiments.end_to_end import READERS, fastest
from benchmarks.harness.measure import asked_size, start
from benchmarks.inputs.fleet_events import FOLDER, SEED
from wayeb_py.run.runner import run
from wayeb_py.simulate.generated_files import read_injected, write_generated
from wayeb_py.simulate.maritime import generate_maritime

N_EVENTS = {"quick": 300_000, "usual": 5_000_000, "full": 5_000_000}
OF_READING = 0.35  # how fast it must be
SIX = ["HighSpeedNearCoast", "Anchored", "Drifting", "Trawling", "Loitering", "ProtectedArea"]
NEEDED = ["mmsi", "ts", "lon", "lat", "speed", "course", "heading", "type"]


def maritime_file(n_events: int) -> Path:
    """A Parquet file of `n_events` events, made if it is not there yet."""
    path = FOLDER / f"maritime-{n_events}.parquet"
    if not path.exists():
        print(f"making {path.name} ...", flush=True)
        first = next(iter(generate_maritime(1)))
        events = generate_maritime(n_events, seed=SEED)
        write_generated(events, first.events.schema, path, path.with_suffix(".occurrences.csv"))
    return path


def runs_of_three(holds: np.ndarray, vessel: np.ndarray) -> np.ndarray:
    """Rows at which a vessel's last three events hold; rows are in the order of time."""
    order = np.argsort(vessel, kind="stable")
    held, same = holds[order], np.diff(vessel[order]) == 0
    both = np.zeros(len(held), dtype=bool)
    both[2:] = held[2:] & held[1:-1] & held[:-2] & same[1:] & same[:-1]
    return np.sort(order[both])


def covered(name: str, lon: np.ndarray, lat: np.ndarray) -> np.ndarray:
    """Where an area of a file covers a position, by shapely."""
    features = json.loads((REPOSITORY / "patterns/maritime/geo" / name).read_text())["features"]
    inside = np.zeros(len(lon), dtype=bool)
    for feature in features:
        inside |= shapely.intersects_xy(shapely.from_geojson(json.dumps(feature["geometry"])), lon, lat)
    return inside


def expected_rows(events: pa.Table) -> dict[str, np.ndarray]:
    columns = {name: events[name].to_numpy() for name in ("mmsi", "lon", "lat", "speed", "course", "heading")}
    speed, vessel = columns["speed"], columns["mmsi"]
    turn = np.abs(columns["heading"].astype(np.float64) - columns["course"].astype(np.float64)) % 360
    drifting = (np.minimum(turn, 360 - turn) > 30) & (speed > 0.5)
    fisher = pc.fill_null(pc.equal(events["type"], "fishing"), False).to_numpy()
    trawling = fisher & covered("fishing.geojson", columns["lon"], columns["lat"]) & (speed >= 1) & (speed < 9)
    protected = covered("protected.geojson", columns["lon"], columns["lat"]) & (speed > 0.5)
    return {
        "Drifting": runs_of_three(drifting, vessel),
        "Trawling": runs_of_three(trawling, vessel),
        "ProtectedArea": np.flatnonzero(protected),
    }


def main() -> None:
    pa.set_cpu_count(N_THREADS)
    n_events = N_EVENTS[asked_size()]
    experiment = start("maritime", f"six maritime patterns, {n_events:,} events from Parquet, {N_THREADS} threads")
    data = maritime_file(n_events)
    patterns = wayeb_py.compile(REPOSITORY / "patterns/maritime.sre").select(SIX)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.parquet"
        run(patterns, [data], out, workers=N_THREADS)
        found = pq.read_table(out)
        events = pq.read_table(data, columns=NEEDED)
        for name, rows in expected_rows(events).items():
            own = found.filter(pc.equal(found["pattern"].cast(pa.string()), name))
            at = events.take(pa.array(rows))
            ours = sorted(zip(own["entity"].to_pylist(), own["ts"].to_pylist(), strict=True))
            theirs = sorted(zip(at["mmsi"].to_pylist(), at["ts"].to_pylist(), strict=True))
            experiment.check(f"{len(ours):,} detections of {name} equal to shapely and numpy", ours == theirs != [])
        counts = {item["values"]: item["counts"] for item in found["pattern"].value_counts().to_pylist()}
        injected = {name: n for name, n in read_injected(data).items() if name in SIX}
        enough = all(counts.get(name, 0) >= n for name, n in injected.items())
        experiment.check(f"at least the recorded occurrences of {', '.join(injected)}", enough and bool(injected))
        seconds = experiment.median_seconds(
            {"wayeb_py": lambda: run(patterns, [data], out, workers=N_THREADS)}
            | {f"pyarrow, {name}": partial(reader, data, NEEDED) for name, reader in READERS.items()}
        )
    experiment.rate_rows(n_events, {name: name for name in seconds})
    experiment.yardsticks(name for name in seconds if name != "wayeb_py")
    reading = fastest(seconds, "pyarrow")
    limit = n_events / seconds[reading] / 1e6 * OF_READING
    experiment.rate_figure("Maritime patterns from Parquet to a file", limit, f"{OF_READING} of reading")
    experiment.bound_ratio("speed over merely reading", reading, "wayeb_py", OF_READING, "at least")
    experiment.finish()


if __name__ == "__main__":
    main()
