"""Patterns `for each` place that look far, back in time or both ways, against formulas that are written by hand.

Every pattern has a second definition below in plain numpy: letters are arrays over one vessel's events, a regex is the
set of spans of the word that it holds, as a matrix `holds[begin, end]`. Nothing of the product is in it, neither
the parser nor the distance. The oracle of the other tests shares the checked tree with the engine; this one would see
a tree that is wrong.

`make soak` tries further seeds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pcsv
import pytest

import wayeb_py
from tests.strategies import seeds
from wayeb_py.compiler.limits import DEFAULT_LIMITS, Limits

SHARED = Path(wayeb_py.__file__).parent.parent.parent / "shared/data"
SOLENT = SHARED / "solent/SolentAIS_20160112_130211.csv"
NEW_YORK = SHARED / "noaa_ny_harbor/NYHarbor_2020_06_30_first_hour.csv"
WORLD_PORTS = SHARED / "ports/WorldPortIndex_UpdatedPub150.csv"

F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

EARTH_RADIUS_M = 6_371_008.8
NEAR_ENOUGH_M = 7_000
MOST_EVENTS = 250  # of a real vessel: the time by hand grows with their cube

STREAM = """
stream vessels {
    key      id
    time     t in s
    position lon, lat
    attr     speed number in kn
}
points port from "ports.csv"
"""


@dataclass(frozen=True)
class Place:
    name: str
    lon: float
    lat: float
    limit: float  # a column of its own; NaN where the file has nothing


@dataclass(frozen=True)
class Word:
    """One vessel's events as one place sees them; NaN is missing."""

    t: F64
    speed: F64
    d: F64  # metres to the place
    limit: float


def distance_m(lon: F64, lat: F64, place: Place) -> F64:
    lon_a, lat_a, lon_b, lat_b = (np.radians(x) for x in (lon, lat, place.lon, place.lat))
    half = np.sin((lat_b - lat_a) / 2) ** 2 + np.cos(lat_a) * np.cos(lat_b) * np.sin((lon_b - lon_a) / 2) ** 2
    return np.asarray(2 * EARTH_RADIUS_M * np.arcsin(np.sqrt(half)))


# Letters.


def before(values: F64) -> F64:
    return np.asarray(np.r_[np.nan, values[:-1]])


def held_s(holds: Bool, t: F64) -> F64:
    since = t[0]
    seconds = np.zeros(len(t))
    for n in range(1, len(t)):
        since = since if holds[n] == holds[n - 1] else t[n]
        seconds[n] = t[n] - since
    return seconds


# Regexes: which spans of the word, from one cut between events to another, are in the language.


def letter(holds: Bool) -> Bool:
    return np.asarray(np.diag(holds, 1))


def then(*parts: Bool) -> Bool:
    whole = parts[0]
    for part in parts[1:]:
        whole = (whole.astype(np.float32) @ part.astype(np.float32)) > 0
    return whole


def plus(part: Bool) -> Bool:
    while True:
        more = part | then(part, part)
        if (more == part).all():
            return part
        part = more


def anything(like: Bool) -> Bool:
    return np.triu(np.ones_like(like))


def complement(part: Bool) -> Bool:
    return np.asarray(anything(part) & ~part)


def skip_any(*parts: Bool) -> Bool:
    whole = parts[0]
    for part in parts[1:]:
        whole = then(whole, anything(part), part)
    return whole


def skip_next(*parts: Bool) -> Bool:
    whole = parts[0]
    for part in parts[1:]:
        whole = then(whole, complement(then(anything(part), part, anything(part))), part)
    return whole


@dataclass(frozen=True)
class ByHand:
    text: str
    holds: Callable[[Word], Bool]
    within_s: float = np.inf
    within_events: float = np.inf


PATTERNS = {
    "FarHash": ByHand(
        "#((distance(p) > 5 km), (distance(p) < 2 km), (distance(p) > 2 km and speed > 3)) within 30 min",
        lambda w: skip_any(letter(w.d > 5000), letter(w.d < 2000), letter((w.d > 2000) & (w.speed > 3))),
        within_s=1800,
    ),
    "FarAt": ByHand(
        "@((distance(p) > 5 km), (distance(p) < 3 km), (not distance(p) < 4 km)) within 12 events",
        lambda w: skip_next(letter(w.d > 5000), letter(w.d < 3000), letter(~(w.d < 4000))),
        within_events=12,
    ),
    "Between": ByHand(
        "(distance(p) < 2 km) ; !(any* ; (distance(p) < 2 km) ; any*) ; (distance(p) < 2 km) within 40 min",
        lambda w: then(
            letter(w.d < 2000),
            complement(then(anything(letter(w.d < 0)), letter(w.d < 2000), anything(letter(w.d < 0)))),
            letter(w.d < 2000),
        ),
        within_s=2400,
    ),
    "NotIn": ByHand(
        "(distance(p) not in 2..4 km and speed > 2) ; (distance(p) in 2..4 km){1,3} ; (distance(p) not in 2..4 km)",
        lambda w: then(
            letter(~((w.d >= 2000) & (w.d < 4000)) & (w.speed > 2)),
            repeated(letter((w.d >= 2000) & (w.d < 4000)), 1, 3),
            letter(~((w.d >= 2000) & (w.d < 4000))),
        ),
    ),
    "HeldNear": ByHand(
        "(distance(p) < 3 km and held(distance(p) < 3 km) > 5 min and speed > 2)",
        lambda w: letter((w.d < 3000) & (held_s(w.d < 3000, w.t) > 300) & (w.speed > 2)),
    ),
    "HeldFar": ByHand(
        "(not near(p, 3 km) and held(near(p, 3 km)) >= 4 min) ; (near(p, 3 km) and held(near(p, 3 km)) = 0 s)",
        lambda w: then(
            letter(~(w.d <= 3000) & (held_s(w.d <= 3000, w.t) >= 240)),
            letter((w.d <= 3000) & (held_s(w.d <= 3000, w.t) == 0)),
        ),
    ),
    "Closer": ByHand(
        "(distance(p) < prev(distance(p)) - 100 m and distance(p) < 4 km){2} ; (not distance(p) < 4 km or speed < 8)",
        lambda w: then(
            repeated(letter((w.d < before(w.d) - 100) & (w.d < 4000)), 2, 2), letter(~(w.d < 4000) | (w.speed < 8))
        ),
    ),
    "Nearing": ByHand(
        "(distance(p) < prev(distance(p)) and prev(distance(p)) > 3 km)+ ; (near(p, 3 km))",
        lambda w: then(plus(letter((w.d < before(w.d)) & (before(w.d) > 3000))), letter(w.d <= 3000)),
    ),
    "NotNear": ByHand(
        "(not near(p, 3 km)){2} ; (near(p, 3 km))",
        lambda w: then(repeated(letter(~(w.d <= 3000)), 2, 2), letter(w.d <= 3000)),
    ),
    "Orr": ByHand(
        "(distance(p) > 4 km and speed > 10) ; ((distance(p) < 4 km)+ | (distance(p) in 4..5 km)+)",
        lambda w: then(
            letter((w.d > 4000) & (w.speed > 10)), plus(letter(w.d < 4000)) | plus(letter((w.d >= 4000) & (w.d < 5000)))
        ),
    ),
    "OrSlow": ByHand(
        "(near(p, 2 km) or speed < 3) ; (near(p, 4 km) and (speed > 3 or missing(speed))) ; (distance(p) > 4 km)",
        lambda w: then(
            letter((w.d <= 2000) | (w.speed < 3)),
            letter((w.d <= 4000) & ((w.speed > 3) | np.isnan(w.speed))),
            letter(w.d > 4000),
        ),
    ),
    "Limited": ByHand(
        "(distance(p) > 6 km or speed > p.limit) ; (near(p, 6 km) and speed > p.limit){2}",
        lambda w: then(
            letter((w.d > 6000) | (w.speed > w.limit)), repeated(letter((w.d <= 6000) & (w.speed > w.limit)), 2, 2)
        ),
    ),
}


def repeated(part: Bool, least: int, most: int) -> Bool:
    whole = then(*[part] * least)
    every = whole
    for _ in range(most - least):
        whole = then(whole, part)
        every = every | whole
    return every


Row = tuple[str, str, int, int, int]  # pattern, place, entity, seq, start_seq


def rows_by_hand(names: list[str], events: pa.Table, places: list[Place], longest: bool) -> set[Row]:
    entity, t, lon, lat, speed = (
        np.array([np.nan if v is None else v for v in events[name].to_pylist()], float)
        for name in ("id", "t", "lon", "lat", "speed")
    )
    rows: set[Row] = set()
    with np.errstate(invalid="ignore"):
        for number in np.unique(entity):
            own = np.flatnonzero(entity == number)
            own = own[np.argsort(t[own], kind="stable")]
            for place in places:
                word = Word(t[own], speed[own], distance_m(lon[own], lat[own], place), place.limit)
                if not (word.d < NEAR_ENOUGH_M).any():
                    continue  # every pattern has a letter that holds nearby only, and cannot do without it
                for name in names:
                    for seq, start in detected(PATTERNS[name], word, longest):
                        rows.add((name, place.name, int(number), seq, start))
    return rows


def detected(pattern: ByHand, word: Word, longest: bool) -> Iterator[tuple[int, int]]:
    holds = pattern.holds(word)
    for seq in range(len(word.t)):
        starts = np.flatnonzero(holds[: seq + 1, seq + 1])
        starts = starts[
            (word.t[seq] - word.t[starts] <= pattern.within_s) & (seq - starts + 1 <= pattern.within_events)
        ]
        if len(starts):
            yield seq, int(starts[0] if longest else starts[-1])


def rows_of(*parts: wayeb_py.Detections) -> list[Row]:
    columns = ("pattern", "place", "entity", "seq", "start_seq")
    return [tuple(row[name] for name in columns) for part in parts for row in part.to_arrow().to_pylist()]


def compiled(
    folder: Path, names: list[str], places: list[Place], longest: bool, limits: Limits = DEFAULT_LIMITS
) -> wayeb_py.Patterns:
    rows = [f"{p.name},{p.lon!r},{p.lat!r},{'' if np.isnan(p.limit) else p.limit}" for p in places]
    (folder / "ports.csv").write_text("\n".join(["name,lon,lat,limit", *rows]) + "\n")
    path = folder / "patterns.sre"
    path.write_text(STREAM + "".join(f"pattern {name} for each p in port := {PATTERNS[name].text}\n" for name in names))
    return wayeb_py.compile(path, longest=longest, limits=limits)


def in_cuts(patterns: wayeb_py.Patterns, events: pa.Table, rng: np.random.Generator) -> list[Row]:
    """The rows of a recogniser that is fed in random batches and, between some of them, saved and made again."""
    cuts = [0, *np.sort(rng.integers(0, len(events) + 1, int(rng.integers(0, 6)))).tolist(), len(events)]
    recogniser = wayeb_py.Recogniser(patterns, order="sorted")
    found: list[Row] = []
    for first, last in itertools.pairwise(cuts):
        found += rows_of(recogniser.feed(events.slice(first, last - first)))
        if rng.random() < 0.7:
            recogniser = wayeb_py.Recogniser(
                patterns, order="sorted", saved=recogniser.save(), workers=int(rng.integers(1, 3))
            )
    return found + rows_of(recogniser.finish())


def wandering(rng: np.random.Generator) -> tuple[pa.Table, list[Place]]:
    """Vessels that wander among a handful of ports, some at the edges of the map, with values missing now and then."""
    centre_lon = float(rng.choice([-4.4, 179.98, 0.0]))
    centre_lat = float(rng.choice([48.3, 0.0, 69.9]))
    spread = 0.06
    places = [
        Place(
            f"port {n}",
            float((centre_lon + rng.normal(0, spread) / np.cos(np.radians(centre_lat)) + 180) % 360 - 180),
            float(centre_lat + rng.normal(0, spread)),
            float(rng.choice([np.nan, 2.0, 6.0, 11.0])),
        )
        for n in range(int(rng.integers(1, 7)))
    ]
    places.append(Place("far away", 30.0, -20.0, 1.0))
    n_events = int(rng.integers(1, 90))
    entity = rng.integers(0, 3, n_events)
    lon, lat = np.empty(n_events), np.empty(n_events)
    for vessel in range(3):
        own = entity == vessel
        lon[own] = centre_lon + (rng.normal(0, 0.02, own.sum()).cumsum() + rng.normal(0, spread)) / np.cos(
            np.radians(centre_lat)
        )
        lat[own] = centre_lat + rng.normal(0, 0.02, own.sum()).cumsum() + rng.normal(0, spread)
    known = rng.random(n_events) > 0.05
    columns = {
        "id": pa.array(entity),
        "t": pa.array(rng.choice([0, 30, 60, 200], n_events).cumsum()),
        "lon": pa.array((lon + 180) % 360 - 180, mask=~known),
        "lat": pa.array(lat, mask=~known),
        "speed": pa.array(rng.choice([0.0, 2.5, 5.0, 9.0, 12.0], n_events), mask=rng.random(n_events) < 0.1),
    }
    return pa.table(columns), places


@pytest.mark.parametrize("seed", seeds(40, always=16))
def test_random_vessels_are_detected_as_by_hand(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    events, places = wandering(rng)
    names = [str(name) for name in rng.permutation(list(PATTERNS))[: int(rng.integers(1, len(PATTERNS) + 1))]]
    limits = [DEFAULT_LIMITS, Limits(table_states=0), Limits(group_states=2)][int(rng.integers(3))]
    longest = bool(rng.integers(2))
    patterns = compiled(tmp_path, names, places, longest, limits)
    expected = sorted(rows_by_hand(names, events, places, longest))
    assert sorted(rows_of(patterns.recognise(events))) == expected
    assert sorted(in_cuts(patterns, events, rng)) == expected


def test_the_random_vessels_are_detected_by_every_pattern() -> None:
    found: set[str] = set()
    for seed in range(40):
        events, places = wandering(np.random.default_rng(seed))
        found |= {row[0] for row in rows_by_hand(list(PATTERNS), events, places, False)}
    assert found == set(PATTERNS)


def solent() -> pa.Table:
    table = pcsv.read_csv(SOLENT).rename_columns(["t", "id", "lat", "lon", "course", "speed"])
    return table.set_column(0, "t", table["t"].cast(pa.timestamp("s"), safe=False).cast(pa.int64()))


def new_york() -> pa.Table:
    table = pcsv.read_csv(NEW_YORK)
    names = {"MMSI": "id", "BaseDateTime": "t", "LON": "lon", "LAT": "lat", "SOG": "speed"}
    table = table.select(list(names)).rename_columns(list(names.values()))
    return table.set_column(1, "t", table["t"].cast(pa.timestamp("s")).cast(pa.int64()))


@pytest.mark.skipif(not SHARED.is_dir(), reason="the real data is not at ../shared/data")
@pytest.mark.parametrize(("read", "longest"), [(solent, True), (new_york, False)])
def test_real_vessels_are_detected_as_by_hand(tmp_path: Path, read: Callable[[], pa.Table], longest: bool) -> None:
    events = read().sort_by([("t", "ascending")])
    n_events = {row["values"]: row["counts"] for row in events["id"].value_counts().to_pylist()}
    events = events.filter(pa.array([n_events[vessel] <= MOST_EVENTS for vessel in events["id"].to_pylist()]))
    names = list(PATTERNS)
    lon, lat = np.median(events["lon"].to_numpy()), np.median(events["lat"].to_numpy())
    ports = pcsv.read_csv(WORLD_PORTS)
    places = [
        Place(f"port {n}", east, north, 5.0 if n % 3 else np.nan)
        for n, (east, north) in enumerate(
            zip(ports["Longitude"].to_pylist(), ports["Latitude"].to_pylist(), strict=True)
        )
        if abs(east - lon) < 0.6 and abs(north - lat) < 0.4
    ]
    assert len(places) > 5
    patterns = compiled(tmp_path, names, places, longest)
    expected = sorted(rows_by_hand(names, events, places, longest))
    counts = {name: sum(row[0] == name for row in expected) for name in names}
    assert all(counts[name] for name in ("NotIn", "HeldNear", "NotNear", "Closer"))
    assert sorted(rows_of(patterns.recognise(events))) == expected
    assert sorted(in_cuts(patterns, events, np.random.default_rng(1))) == expected
