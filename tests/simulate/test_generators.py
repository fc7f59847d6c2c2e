"""The generators: as many events as requested, in order, the same for the same seed, and what they say occurs does.

Most tests look at the same two days, one at sea and one on the road, which one process makes once.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import shapely

import wayeb_py
from wayeb_py.patterns import compile_patterns
from wayeb_py.simulate import fleet as fleet_traffic
from wayeb_py.simulate import maritime as maritime_traffic
from wayeb_py.simulate.fleet_scenes import ANYWHERE, SCENES
from wayeb_py.simulate.generated_files import Generated, read_injected, read_occurrences, write_generated
from wayeb_py.simulate.invented_roads import ROADS, road_point, write_roads
from wayeb_py.simulate.invented_sea import ISLANDS, coast_lat, island_ring, write_sea
from wayeb_py.simulate.maritime import LIE_RATES
from wayeb_py.simulate.sea.passages import past_islands
from wayeb_py.simulate.sea.scenes import coast_lats
from wayeb_py.simulate.sea.transits import A_TRANSIT_FOR, EAST_END, WEST_END

pytestmark = pytest.mark.xdist_group("generators")  # which share what is generated and what is found in it
ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "data/maritime_sample.parquet"
FLEET_SAMPLE = ROOT / "data/fleet_sample.parquet"

VESSELS = """
stream vessels {
    key      mmsi
    time     ts
    position lon, lat
    attr speed   number in kn
    attr course  number in deg
    attr heading number in deg
    attr type    text
}
"""

VEHICLES = """
stream vehicles {
    key      vehicle_id
    time     ts
    position lon, lat
    attr status       text
    attr ignition     bool
    attr speed        number in km/h
    attr travelled    number in m
    attr satellites   number
    attr accelerating bool
    attr fuel         number
    attr limit        number in km/h
    attr ice          bool
}
let off_long = ignition = false and elapsed() > 30 min
let parked = status = "parked"
let idle   = status = "idle"
let moving = status = "moving"
"""

# What the generators mean by their names, without places; the libraries' patterns are at least as lenient.
FLEET_PATTERNS = {
    "Route": "off_long ; moving+ ; off_long",
    "ParkedMovingSwing": "parked ; moving ; parked ; moving",
    "IdleParkedSwing": "idle ; parked ; idle ; parked",
    "SpeedSwing": "(speed > 50) ; (speed = 0) ; (speed > 50) ; (speed = 0)",
    "MovingWithZeroSpeed": "(moving and speed = 0 and travelled > 30){3,}",
    "MovingWithBadSignal": "(accelerating = true and satellites = 0 and travelled > 30){3,}",
    "PossibleTheft": "(parked and speed = 0 and travelled > 30){3,}",
    "DangerousDriving": "(ice = true and speed > limit){2,}",
    "RefuelOpportunity": "(speed = 0 and fuel < 0.5){2,}",
}
PATTERNS = {
    "Drifting": "(speed > 0.5 and angle(heading, course) > 30){3}",
    "SearchAndRescue": '(type = "sar" and speed > 2.7 and angle(heading, prev(heading)) > 20){3}',
    "TransmissionGap": "(elapsed() > 30 min)",
    "Loitering": "(speed < 0.5){3}",
    "Anchored": "(speed < 0.5){3}",
    "Trawling": '(type = "fishing" and speed in 1..9){3}',
    "HighSpeedNearCoast": "(speed > 5)",
    "ProtectedArea": "(speed > 2)",
}


def maritime(n_events: int, **options: int) -> tuple[pa.Table, pa.Table]:
    return joined(maritime_traffic.generate_maritime(n_events, **options))


def fleet(n_events: int, **options: int) -> tuple[pa.Table, pa.Table]:
    return joined(fleet_traffic.generate_fleet(n_events, **options))


def joined(generated: Iterator[Generated]) -> tuple[pa.Table, pa.Table]:
    pieces = list(generated)
    return (
        pa.Table.from_batches([piece.events for piece in pieces]),
        pa.Table.from_batches([piece.occurrences for piece in pieces]),
    )


@cache
def fleet_once() -> tuple[pa.Table, pa.Table]:
    return fleet(60_000, n_vehicles=100, seed=3)


@cache
def maritime_once() -> tuple[pa.Table, pa.Table]:
    return maritime(80_000, n_vessels=100, seed=3)


def missed(detections: pa.Table, occurrences: pa.Table) -> list[dict[str, object]]:
    """The occurrences in whose time the pattern is not detected for the entity, and the place or the other, if any."""
    found: dict[tuple[object, ...], list[object]] = {}
    for row in detections.to_pylist():
        found.setdefault((row["pattern"], row["place"], row["entity"], row.get("other")), []).append(row["ts"])
    return [
        row
        for row in occurrences.to_pylist()
        if not any(
            row["start_ts"] <= ts <= row["end_ts"]
            for ts in found.get((row["pattern"], row["place"] or None, row["entity"], row["other"]), [])
        )
    ]


def test_vessels_send_as_many_messages_as_asked_for_in_order_of_time() -> None:
    events, _ = maritime(12_345, n_vessels=40, seed=5)
    assert len(events) == 12_345
    assert bool(np.all(np.diff(events["ts"].cast(pa.int64()).to_numpy()) >= 0))


def test_vessels_are_the_same_however_their_messages_are_cut() -> None:
    whole = maritime(9_000, n_vessels=40, seed=5)
    assert maritime(9_000, n_vessels=40, seed=5, batch_rows=700) == whole
    assert maritime(9_000, n_vessels=40, seed=6) != whole


def test_a_vessel_never_sends_twice_at_one_time() -> None:
    events, _ = maritime_once()
    assert events.group_by(["mmsi", "ts"]).aggregate([]).num_rows == len(events)


def test_vessels_stay_on_the_water_and_move_no_faster_than_vessels() -> None:
    events, _ = maritime_once()
    honest = events.filter(pa.array(np.abs(events["lat"].to_numpy() - 48.6) < 0.42))
    lon, lat = honest["lon"].to_numpy(), honest["lat"].to_numpy()
    assert bool((lat > coast_lats(lon)[0]).all())
    order = np.lexsort((honest["ts"].cast(pa.int64()).to_numpy(), honest["mmsi"].to_numpy()))
    lon, lat, ms = lon[order], lat[order], honest["ts"].cast(pa.int64()).to_numpy()[order]
    same = np.diff(honest["mmsi"].to_numpy()[order]) == 0
    moved_m = np.hypot(np.diff(lon) * 111_195 * 0.662, np.diff(lat) * 111_195)
    implied_kn = moved_m[same] / (np.diff(ms)[same] / 1000) / (1852 / 3600)
    jumped = implied_kn > 30
    assert jumped.sum() < 0.003 * len(honest)  # only where a position is a lie
    ends = np.stack([np.column_stack([lon[:-1], lat[:-1]]), np.column_stack([lon[1:], lat[1:]])], axis=1)[same][~jumped]
    ways = shapely.linestrings(ends)
    assert not any(shapely.intersects(shapely.Polygon(island_ring(island[0])), ways).any() for island in ISLANDS)


def test_vessels_with_an_island_ahead_sail_around_it() -> None:
    for name, island_lon, island_lat, _, _ in ISLANDS:
        island = shapely.Polygon(island_ring(name))
        for bearing in range(0, 360, 15):
            turn = np.radians(bearing)
            lon = np.array([island_lon - 0.2 * np.sin(turn)])
            lat = np.array([island_lat - 0.15 * np.cos(turn)])
            to_lon, to_lat = 2 * island_lon - lon, 2 * island_lat - lat
            way = [(lon[0], lat[0])]
            for _ in range(200):
                scale = np.cos(np.radians(lat))
                straight = np.degrees(np.arctan2((to_lon - lon) * scale, to_lat - lat))
                around = past_islands(lon, lat, to_lon, to_lat, straight)
                turn = np.radians(np.where(np.isnan(around), straight, around))
                lon, lat = lon + 0.003 * np.sin(turn) / scale, lat + 0.003 * np.cos(turn)
                way.append((lon[0], lat[0]))
                if np.hypot(to_lon - lon, to_lat - lat)[0] < 0.006:
                    break
            assert np.hypot(to_lon - lon, to_lat - lat)[0] < 0.006, (name, bearing)
            assert not island.intersects(shapely.LineString(way)), (name, bearing)


def test_tracks_of_vessels_bend_and_follow_no_grid() -> None:
    events, _ = maritime_once()
    under_way = events.filter(
        pc.and_(
            pc.equal(events["status"], "under way"),
            pc.and_(pc.greater(events["speed"], 6), pc.less(events["speed"], 30)),
        )
    )
    course = under_way["course"].to_numpy()
    off_axes = np.abs((course + 45) % 90 - 45)  # from the nearest of north, east, south and west
    assert (off_axes > 10).mean() > 0.4
    order = np.lexsort((under_way["ts"].cast(pa.int64()).to_numpy(), under_way["mmsi"].to_numpy()))
    ms = under_way["ts"].cast(pa.int64()).to_numpy()[order]
    next_one = (np.diff(under_way["mmsi"].to_numpy()[order]) == 0) & (np.diff(ms) == 60_000)
    turned = np.abs((np.diff(course[order]) + 180) % 360 - 180)[next_one]
    assert (turned > 35).mean() < 0.02  # a scene, or the last cable lengths to a place
    assert (turned > 10).mean() > 0.02


def test_ships_bound_east_and_west_keep_to_lanes_of_their_own() -> None:
    events, _ = maritime_once()
    rows = events.to_pandas()
    ships = rows[rows.type.isin(["cargo", "tanker", "passenger"]) & rows.lon.between(-4.6, -4.4) & (rows.speed > 6)]
    on_lane = ships[ships.lat.between(48.47, 48.56)]
    east, west = on_lane[on_lane.course.between(80, 100)], on_lane[on_lane.course.between(260, 280)]
    assert min(len(east), len(west)) > 100
    assert west.lat.median() - east.lat.median() > 0.02


def test_the_shore_of_arrays_is_the_shore() -> None:
    lon = np.linspace(-5.05, -3.95, 200)
    assert np.allclose(coast_lats(lon)[0], [coast_lat(one) for one in lon])


def test_vehicles_drive_on_roads() -> None:
    events, _ = fleet(8_000, n_vehicles=30, seed=5)
    points = np.array([road_point(road, share) for road in range(len(ROADS)) for share in np.linspace(0, 1, 400)])
    position = np.column_stack([events["lon"].to_numpy(), events["lat"].to_numpy()])[::40]
    nearest_deg = np.hypot(*(position[:, None, :] - points[None, :, :]).transpose(2, 0, 1)).min(axis=1)
    assert (nearest_deg < 0.002).mean() > 0.97  # the others play a scene: a depot, a detour, a false position
    assert nearest_deg.max() < 0.06


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_recorded_occurrence_among_vessels_is_detected(pattern: str) -> None:
    check_recall(*maritime_once(), pattern, VESSELS + f"pattern {pattern} := {PATTERNS[pattern]}")


@pytest.mark.parametrize("pattern", FLEET_PATTERNS)
def test_every_recorded_occurrence_among_vehicles_is_detected(pattern: str) -> None:
    check_recall(*fleet_once(), pattern, VEHICLES + f"pattern {pattern} := {FLEET_PATTERNS[pattern]}")


CLEAN: dict[str, Literal["ais", "gps"]] = {"fleet": "gps", "maritime": "ais"}
RUNS = {"as it is": False, "cleaned": True}


def library(name: str) -> Path:
    return ROOT / "patterns" / f"{name}.sre"


@cache
def compiled(name: str) -> wayeb_py.Patterns:
    return wayeb_py.compile(library(name))


@cache
def found_by(name: str, run: str) -> tuple[pa.Table, pa.Table]:
    """What a library detects in its traffic, and what is recorded to occur there."""
    events, occurrences = fleet_once() if name == "fleet" else maritime_once()
    patterns = compile_patterns([library(name)], clean=CLEAN[name] if RUNS[run] else None)
    return patterns.recognise(events).to_arrow(), occurrences


def declared(path: Path) -> list[str]:
    """The names of a file's patterns and of those that it includes, in order: compiling takes too long to collect."""
    lines = re.findall(r'^(?:include "(.+)"|pattern (\w+))', path.read_text(), re.MULTILINE)
    return [name for file, own in lines for name in ([own] if own else declared(path.parent / file))]


EVERY_PATTERN = [(name, pattern) for name in CLEAN for pattern in declared(library(name))]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(("name", "pattern"), EVERY_PATTERN)
def test_every_pattern_of_the_libraries_occurs_and_each_occurrence_is_detected(
    name: str, pattern: str, run: str
) -> None:
    detections, occurrences = found_by(name, run)
    recorded = occurrences.filter(pc.equal(occurrences["pattern"], pattern))
    assert len(recorded) > 0
    assert missed(detections.filter(pc.equal(detections["pattern"].cast(pa.string()), pattern)), recorded) == []


@pytest.mark.parametrize("name", CLEAN)
def test_no_pattern_of_the_libraries_is_left_out(name: str) -> None:
    assert [pattern for library, pattern in EVERY_PATTERN if library == name] == list(compiled(name).names)


@pytest.mark.parametrize(
    ("name", "with_roles"), [("maritime", maritime_traffic.WITH_ROLES), ("fleet", fleet_traffic.WITH_ROLES)]
)
def test_pairs_are_recorded_in_the_order_of_their_patterns(name: str, with_roles: tuple[str, ...]) -> None:
    """Where the two have roles, first who plays the first; elsewhere the smaller number first."""
    _, occurrences = fleet_once() if name == "fleet" else maritime_once()
    of_two = [pattern for pattern in compiled(name).meaning.patterns if pattern.pair is not None]
    ordered = {pattern.name for pattern in of_two if pattern.pair is not None and pattern.pair.ordered}
    assert ordered == set(with_roles)
    recorded = [row for row in occurrences.to_pylist() if row["other"] is not None]
    assert {row["pattern"] for row in recorded} == {pattern.name for pattern in of_two}
    assert all(row["pattern"] in ordered or row["entity"] < row["other"] for row in recorded)


def test_ships_that_pass_are_heard_only_between_the_ends_and_come_back() -> None:
    events, _ = maritime_once()
    rows = events.to_pandas()
    north = rows.groupby("mmsi").filter(lambda one: one.lat.min() > 48.75)
    assert north.mmsi.nunique() == 100 // A_TRANSIT_FOR
    honest = north[north.lon < 180]
    assert honest.lon.between(WEST_END - 0.01, EAST_END + 0.01).all()
    turned = honest.groupby("mmsi").course.agg(lambda course: course.lt(180).any() and course.between(180, 359).any())
    assert turned.any()


STRICTER = {
    "fleet": (
        "QuickParkedMovingSwing", "QuickIdleParkedSwing", "QuickSpeedSwing", "CarefulMovingWithZeroSpeed",
        "CarefulMovingWithBadSignal", "CarefulDangerousDriving", "CarefulRefuelOpportunity", "CarefulBunching",
    ),
    "maritime": (
        "CarefulDrifting", "CarefulTrawling", "CarefulAnchored", "CarefulLoitering", "CarefulProtectedArea",
        "CarefulHighSpeedNearCoast", "CarefulRendezvous", "CarefulCollisionCourse", "CarefulCloseQuarters",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "careful"), [(name, careful) for name in STRICTER for careful in STRICTER[name]])
def test_a_careful_pattern_that_is_stricter_finds_nothing_that_the_literal_one_does_not(
    name: str, careful: str
) -> None:
    detections, _ = found_by(name, "as it is")

    def found(pattern: str) -> set[tuple[object, object]]:
        mine = detections.filter(pc.equal(detections["pattern"].cast(pa.string()), pattern))
        return set(zip(mine["entity"].to_pylist(), mine["ts"].to_pylist(), strict=True))

    literal = careful.removeprefix("Careful").removeprefix("Quick")
    assert set() < found(careful) <= found(literal)


def test_scenes_without_a_condition_occur_at_the_rate_of_the_table() -> None:
    """A pattern that belongs to one scene alone, anywhere, of weight 1, occurs `SCENE_RATE` times a message."""
    _, occurrences = fleet_once()
    counts = Counter(occurrences["pattern"].to_pylist())
    plain = [scene for scene in SCENES if scene.where == ANYWHERE and scene.weight == 1 and not max(scene.silent)]
    alone = [s.patterns[-1] for s in plain if sum(s.patterns[-1] in other.patterns for other in SCENES) == 1]
    assert len(alone) == 8
    expected = fleet_traffic.SCENE_RATE * 60_000 * len(alone)
    assert 0.75 * expected < sum(counts[pattern] for pattern in alone) < 1.15 * expected


def check_recall(events: pa.Table, occurrences: pa.Table, pattern: str, text: str) -> None:
    mine = occurrences.filter(pc.equal(occurrences["pattern"], pattern))
    assert len(mine) > 0
    assert missed(wayeb_py.compile(text).recognise(events).to_arrow(), mine) == []


def test_every_kind_of_lie_and_of_occurrence_is_in_the_samples() -> None:
    lies = json.loads(pq.read_metadata(SAMPLE).metadata[b"lies"])
    assert set(lies) == set(LIE_RATES)
    assert min(lies.values()) > 0
    assert set(read_injected(SAMPLE)) == set(maritime_traffic.OCCURRENCE_NAMES)
    assert set(read_injected(FLEET_SAMPLE)) == set(fleet_traffic.OCCURRENCE_NAMES)


@pytest.mark.parametrize(
    ("sample", "schema", "generated"),
    [
        (SAMPLE, maritime_traffic.SCHEMA, lambda: maritime_traffic.generate_maritime(25_000, 50, 9)),
        (FLEET_SAMPLE, fleet_traffic.SCHEMA, lambda: fleet_traffic.generate_fleet(14_000, 36, 1)),
    ],
    ids=["maritime", "fleet"],
)
def test_a_sample_is_what_the_generator_makes(
    sample: Path, schema: pa.Schema, generated: Callable[[], Iterator[Generated]], tmp_path: Path
) -> None:
    write_generated(generated(), schema, tmp_path / "events.parquet", tmp_path / "_occurrences.csv")
    assert pq.read_table(tmp_path / "events.parquet") == pq.read_table(sample)
    assert read_occurrences(tmp_path / "_occurrences.csv") == read_occurrences(sample.with_suffix(".occurrences.csv"))


def test_the_geography_of_the_patterns_is_the_invented_one(tmp_path: Path) -> None:
    write_sea(tmp_path / "maritime")
    write_roads(tmp_path / "fleet")
    for library in CLEAN:
        committed = {path.name: path.read_text() for path in (ROOT / "patterns" / library / "geo").iterdir()}
        assert {path.name: path.read_text() for path in (tmp_path / library).iterdir()} == committed


def test_the_samples_and_their_geography_are_small() -> None:
    paths = [*(ROOT / "data").iterdir(), *(ROOT / "patterns").glob("*/geo/*")]
    assert sum(path.stat().st_size for path in paths if path.suffix not in (".py", "")) < 1_000_000
