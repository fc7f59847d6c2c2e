"""Measures what an event costs, with and without sharing, where patterns of several levels need the same answers.

Vessels sail along a coast; at each level a pattern tests whether they are inside one of 60 areas and near one of 220
ports, and then something of its own. With sharing the highest level that needs an answer computes it, and the others
find it. *A dear function* has in place of the areas a function of the user's that takes 5 µs an event, as the study of
2019 loads the operators that it shares. Processor time, in turns.

Patterns that patterns of another level read (tiers) are stepped at each level that needs them. *Tiers* measures what
sharing them could gain at most: a low pattern that asks what a high one has detected, against the same over a column
of the events that holds the answer.

Analysis: without sharing each level computes the answers itself. What remains of each level is its own: the
entities' states, steps, and rows. What sharing gains grows with what an answer costs: looking up places may cost a
tenth of that on one machine and as much as that on another, a function of the user's many times as much.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import wayeb_py
from benchmarks.harness.measure import Bound, Experiment, Figure, start, stay_on_one_core
from wayeb_py.engine.priority_levels.leveled_recogniser import LeveledRecogniser

SEED = 33
N_EVENTS = {"quick": 40_000, "usual": 1_000_000, "full": 4_000_000}
N_VESSELS, N_PORTS, N_AREAS = 500, 220, 60
ARRIVE = 2_000  # events that come together
AN_ANSWER_US = 5.0  # what the dear function takes for an event
DEAR_EVENTS = 10  # with the dear function one event in so many is enough
LEAST_GAIN = 1.2  # with three levels
LEAST_DEAR_GAIN = 2.0  # of a dear answer; three where an event cost nothing else
LEVELS = ("high", "normal", "low")
STREAM = """stream vessels { key mmsi time t in s position lon, lat attr speed number }
points port from "ports.csv"
areas  zone from "zones.geojson"
"""


@wayeb_py.function("number")
def dear(speed: np.ndarray) -> np.ndarray:
    """The speed, which takes long to compute."""
    until_s = time.perf_counter() + 1e-6 * AN_ANSWER_US * len(speed)
    while time.perf_counter() < until_s:
        pass
    return speed


def write_places(folder: Path, dice: np.random.Generator) -> None:
    """Ports as points, and zones as polygons with ragged borders, in a sea of ten by ten degrees."""
    lines = [f"P{n},{lon:.5f},{lat:.5f}" for n, (lon, lat) in enumerate(dice.uniform((0, 45), (10, 55), (N_PORTS, 2)))]
    (folder / "ports.csv").write_text("\n".join(["name,lon,lat", *lines]) + "\n")
    features = []
    for number in range(N_AREAS):
        bearing = np.linspace(0, 2 * np.pi, 60, endpoint=False)
        radius = dice.uniform(0.2, 0.6) * (1 + 0.3 * dice.random(60))
        lon, lat = dice.uniform(0, 10), dice.uniform(45, 55)
        ring = np.column_stack([lon + radius * np.cos(bearing), lat + radius * np.sin(bearing)]).tolist()
        geometry = {"type": "Polygon", "coordinates": [[*ring, ring[0]]]}
        features.append({"type": "Feature", "properties": {"name": f"Z{number}"}, "geometry": geometry})
    (folder / "zones.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))


def make_events(n: int, dice: np.random.Generator) -> pa.RecordBatch:
    """Vessels in turn, each on its way."""
    steps = n // N_VESSELS
    begin, stride = dice.uniform((0, 45), (10, 55), (N_VESSELS, 2)), dice.normal(0, 0.01, (N_VESSELS, 2))
    at = begin[None] + np.arange(steps)[:, None, None] * stride[None]
    lon, lat = (np.ascontiguousarray(at[:, :, nth]).reshape(-1) % (10 if nth == 0 else 90) for nth in (0, 1))
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.tile(np.arange(N_VESSELS), steps)), pa.array(np.repeat(np.arange(steps), N_VESSELS) * 60),
            pa.array(lon), pa.array(np.clip(lat, -90, 90)), pa.array(dice.uniform(0, 20, len(lon))),
        ],
        names=["mmsi", "t", "lon", "lat", "speed"],
    )  # fmt: skip


def text_of_tiers(asked: str) -> str:
    """A high pattern, and a low one that asks where the high one was detected."""
    return (
        STREAM.replace("attr speed number", "attr speed number attr was number")
        + "pattern P0 := (inside(zone) and speed > 10) ; (not near(port, 5 km) and speed < 5) priority high\n"
        + f"pattern After := ({asked}) ; (speed > 5 and inside(zone)) priority low\n"
    )


def text_of(n_levels: int, asked: str) -> str:
    """A pattern for each level; all of them ask the same of an event."""
    return STREAM + "".join(
        f"pattern P{n} := ({asked} and speed > {10 + n}) ; (not near(port, 5 km) and speed < {5 + n}) "
        f"priority {level}\n"
        for n, level in enumerate(LEVELS[:n_levels])
    )


def measure_levels(experiment: Experiment, file: Path, events: pa.RecordBatch, what: str, asked: str) -> float:
    """What an event costs where one, two and three levels ask the same; how much dearer three are without sharing."""
    repeats = 2 if experiment.size == "quick" else 5
    gain = 0.0
    for n_levels in range(1, len(LEVELS) + 1):
        experiment.progress.step(n_levels, len(LEVELS), f"{what}: levels")
        file.write_text(text_of(n_levels, asked))
        patterns = wayeb_py.compile(file, functions=[dear])
        expected = sorted(
            (row["pattern"], row["entity"], row["ts"])
            for row in patterns.recognise(pa.Table.from_batches([events])).to_arrow().to_pylist()
        )
        seconds: dict[bool, list[float]] = {True: [], False: []}
        with experiment.watched():
            for repeat in range(repeats + 1):
                for shares in (True, False) if repeat % 2 else (False, True):
                    took_s, found = run(patterns, events, shares)
                    if found != expected or not found:
                        raise SystemExit("live_sharing: wrong answer")
                    if repeat:
                        seconds[shares].append(took_s)
        told = f"{what}: {len(expected):,} detections at {n_levels} levels, shared or not, as in one table"
        experiment.check(told, True)
        for shares, some in seconds.items():
            us = [1e6 * s / events.num_rows for s in some]
            experiment.row(
                levels=n_levels, values=f"{what}, computed {'once' if shares else 'by each level'}",
                **{"us an event": float(np.median(us))}, low=min(us), high=max(us),
            )  # fmt: skip
        gain = float(np.median(seconds[False]) / np.median(seconds[True]))
    return gain


def run(patterns: wayeb_py.Patterns, events: pa.RecordBatch, shares: bool) -> tuple[float, list[tuple[str, int, int]]]:
    """Processor seconds, and what was found."""
    recogniser = LeveledRecogniser(patterns, shares=shares)
    began_s, left = time.thread_time(), []
    for at in range(0, events.num_rows, ARRIVE):
        recogniser.arrive(events.slice(at, ARRIVE))
        while (one := recogniser.work()) is not None:
            left.append(one.found)
    took_s = time.thread_time() - began_s
    asked = ("pattern", "entity", "ts")  # levels may have other columns besides
    found = pa.concat_tables([table.select(asked) for table in left if table.num_rows])
    columns = (found.column(name).to_pylist() for name in asked)
    return took_s, sorted(zip(*columns, strict=True))


def measure_tiers(experiment: Experiment, folder: Path, events: pa.RecordBatch, repeats: int) -> None:
    """What it costs to step a tier again, by a column that holds its answer."""
    file = folder / "tiers.sre"
    texts = {"stepped again": text_of_tiers("detected(P0)"), "given": text_of_tiers("was = 1")}
    file.write_text(texts["given"])
    column = pa.array(np.zeros(events.num_rows))
    found = wayeb_py.compile(file).recognise(pa.table([*events.columns, column], [*events.schema.names, "was"]))
    at = {(row["entity"], row["ts"]) for row in found.to_arrow().to_pylist() if row["pattern"] == "P0"}
    keys = zip(events.column("mmsi").to_pylist(), events.column("t").to_pylist(), strict=True)
    given = pa.array([float(key in at) for key in keys])
    whole = pa.RecordBatch.from_arrays([*events.columns, given], [*events.schema.names, "was"])
    patterns = {}
    for way, text in texts.items():
        file.write_text(text)
        patterns[way] = wayeb_py.compile(file)
    seconds: dict[str, list[float]] = {way: [] for way in texts}
    answers = {}
    with experiment.watched():
        for repeat in range(repeats + 1):
            for way in list(texts) if repeat % 2 else list(texts)[::-1]:
                took_s, answers[way] = run(patterns[way], whole, True)
                if repeat:
                    seconds[way].append(took_s)
    same = answers["given"] == answers["stepped again"]
    n_after = sum(name == "After" for name, _, _ in answers["given"])
    experiment.check(f"{n_after:,} detections by a tier, and by a column that holds its answer", same and n_after > 0)
    for way, some in seconds.items():
        us = [1e6 * s / whole.num_rows for s in some]
        experiment.row(tier=way, **{"us an event": float(np.median(us))}, low=min(us), high=max(us))
    ratio = float(np.median(seconds["stepped again"]) / np.median(seconds["given"]))
    experiment.report("a tier that a higher level has, stepped again, over its answer from a column", ratio, "x")


def main() -> None:
    stay_on_one_core()
    experiment = start("live_sharing", "what an event costs where levels ask the same, with and without sharing", SEED)
    dice = np.random.default_rng(SEED)
    n_events = N_EVENTS[experiment.size]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_places(folder, dice)
        events = make_events(n_events, dice)
        file = folder / "levels.sre"
        places = measure_levels(experiment, file, events, "places", "inside(zone)")
        few = events.slice(0, n_events // DEAR_EVENTS)
        gain = measure_levels(experiment, file, few, "a dear function", "dear(speed) > 0")
        measure_tiers(experiment, folder, events, 2 if experiment.size == "quick" else 5)
    told = "three levels without sharing over with it"
    experiment.bound(Bound(told, places, LEAST_GAIN, "at least"))
    experiment.bound(Bound(f"{told}, a dear function", gain, LEAST_DEAR_GAIN, "at least"))
    experiment.figure(Figure("Sharing between levels", "levels", "us an event", "values", low="low", high="high"))
    experiment.finish()


if __name__ == "__main__":
    main()
