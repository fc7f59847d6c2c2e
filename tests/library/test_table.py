"""Every file of the libraries over every real data set, through the converters: checked against formulas and loops.

The formulas are numpy and Python over the events in order, and know neither automata nor our geometry. Patterns without
a formula are listed, so that a new pattern is not forgotten.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest
import shapely

import wayeb_py
from tests.library.test_on_real_data import (
    F64,
    KN_IN_M_S,
    SHARED,
    Bool,
    Words,
    approaches,
    haversine_m,
    places_of,
    turned,
)
from tools.library_table import (
    COAST,
    PAGE,
    PARKS,
    ROOT,
    SETS,
    DataSet,
    compile_for,
    count,
    count_of_library,
    events_of,
    placed,
    ports_around,
    render,
)
from wayeb_py.errors import EventsError
from wayeb_py.run.skipped_patterns import leave_out_missing

pytestmark = [
    pytest.mark.skipif(not SHARED.is_dir(), reason="the real data is not at ../shared/data"),
    pytest.mark.xdist_group("library over real data"),  # which compiles each file, and runs each library, once
]

Found = dict[str, set[tuple[int, int]]]
WITHOUT_PATTERNS = {"vehicles.sre", "vessels.sre", "geography.sre"}
OF_RULES = {"rules.sre", "sanctions.sre"}  # run by themselves, with facts: see test_maritime_rules, test_fleet_rules
FILES = [
    path
    for library in ("fleet", "maritime")
    for path in sorted((ROOT / "patterns" / library).glob("*.sre"))
    if path.name not in WITHOUT_PATTERNS | OF_RULES
]


@cache
def compiled(data_set: DataSet, path: Path, folder: Path) -> wayeb_py.Patterns:
    return compile_for(data_set, path, folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("places")


def test_the_table_of_the_documentation_is_what_is_found() -> None:
    page = PAGE.read_text()
    assert page == placed(page, render()), "python -m tools.library_table writes it anew"


def pairs(of_one_library: bool) -> list[Any]:
    """Files of patterns and data sets, of one library or of two."""
    return [
        pytest.param(path, data_set, id=f"{path.parent.name}-{path.stem}-{data_set.name}")
        for path in FILES
        for data_set in SETS
        if (path.parent.name == data_set.library) == of_one_library
    ]


@pytest.mark.parametrize(("path", "data_set"), pairs(of_one_library=False))
def test_a_file_of_the_other_library_is_refused(path: Path, data_set: DataSet, folder: Path) -> None:
    """Buses have no mmsi, and vessels no vehicle_id."""
    patterns = compiled(SETS[0] if path.parent.name == "maritime" else SETS[-1], path, folder)
    with pytest.raises(EventsError):
        leave_out_missing(patterns, events_of(data_set).column_names)[0].recognise(events_of(data_set))


FIRST = {data_set.library: data_set for data_set in reversed(SETS)}
ALONE = [  # over the first data set of its library always, over the others with `soak`
    pair if pair.values[1] in FIRST.values() else pytest.param(*pair.values, id=pair.id, marks=pytest.mark.soak)
    for pair in pairs(of_one_library=True)
]


@pytest.mark.parametrize(("path", "data_set"), ALONE)
def test_every_file_alone_finds_what_it_finds_with_the_others(path: Path, data_set: DataSet, folder: Path) -> None:
    whole, alone = count_of_library(data_set), compiled(data_set, path, folder)
    if all(whole[name] is None for name in alone.names):
        with pytest.raises(EventsError, match="no pattern is left to run"):
            count(data_set, alone)
    else:
        assert count(data_set, alone) == {name: whole[name] for name in alone.names}


def test_data_of_other_things_leaves_no_pattern_to_run(folder: Path) -> None:
    gestures = pq.read_table(SHARED / "gestures/unistroke_480.parquet")
    railway = pcsv.read_csv(SHARED / "train_benchmark/railway-repair-1-Segment.csv")
    for table in (gestures, railway):
        for data_set in (SETS[0], SETS[-1]):
            whole = compiled(data_set, ROOT / f"patterns/{data_set.library}.sre", folder)
            with pytest.raises(EventsError):
                leave_out_missing(whole, table.column_names)[0].recognise(table)


# ---- formulas


@cache
def found_in(data_set: DataSet, folder: Path) -> tuple[Found, Words]:
    """By pattern of one entity where it was detected, and the events in order; of pairs see test_encounters."""
    table = events_of(data_set)
    key = str(table.column_names[0])
    whole = compiled(data_set, ROOT / f"patterns/{data_set.library}.sre", folder)
    whole = whole.select([pattern.name for pattern in whole.meaning.patterns if pattern.pair is None])
    patterns, _ = leave_out_missing(whole, table.column_names)
    keys = np.unique(table[key].to_numpy(zero_copy_only=False))
    rows = patterns.recognise(table).to_arrow()
    entity = np.searchsorted(keys, rows["entity"].to_numpy(zero_copy_only=False))
    found: Found = {name: set() for name in patterns.names}
    for name, number, seq in zip(rows["pattern"].to_pylist(), entity, rows["seq"].to_pylist(), strict=True):
        found[name].add((int(number), seq))
    return found, Words.of(table, key)


def back(words: Words, at: int, holds: Bool) -> int:
    """From an event back over those of its entity before it that hold: the first that does not, or -1."""
    while not words.first[at]:
        at -= 1
        if not holds[at]:
            return at
    return -1


def first_then_last(words: Words, first: Bool, between: Bool, last: Bool, within_s: float) -> Bool:
    """`first ; between* ; last within …`, where no event is two of them."""
    ends = np.zeros(len(first), bool)
    for at in np.flatnonzero(last):
        begin = back(words, int(at), between)
        ends[at] = begin >= 0 and first[begin] and words.seconds[at] - words.seconds[begin] <= within_s
    return ends


def following(words: Words, holds: Bool) -> list[int]:
    """For each event the next of its entity that holds, or -1."""
    result, coming = [-1] * len(holds), -1
    for at in range(len(holds) - 1, -1, -1):
        result[at] = coming
        coming = -1 if words.first[at] else at if holds[at] else coming
    return result


def zig_zag(words: Words, speed: F64, course: F64) -> Bool:
    before = words.prev(course)
    turns = (speed >= 2) & (speed < 102) & (turned(course, before) > 30) & (words.elapsed_s() <= 300)
    starboard, port = turns & (turned(course, before + 90) < 90), turns & (turned(course, before + 90) > 90)
    ends = np.zeros(len(speed), bool)
    for one, other in ((starboard, port), (port, starboard)):
        next_one, next_other = following(words, one), following(words, other)
        for at in np.flatnonzero(one):
            middle = next_other[at]
            end = next_one[middle] if middle >= 0 else -1
            if end >= 0 and words.seconds[end] - words.seconds[at] <= 1800:
                ends[end] = True
    return ends


def maritime(words: Words, ports: list[tuple[float, float]]) -> dict[str, Callable[[], Bool | set[tuple[int, int]]]]:
    """What each pattern should find; called only where the columns are there."""
    lon, lat, elapsed_s, moved_m = words.number("lon"), words.number("lat"), words.elapsed_s(), words.moved_m()
    distance_m = np.array([haversine_m(lon, lat, x, y) for x, y in ports])
    nearest_m = distance_m.min(axis=0)

    def has(name: str) -> F64:
        return words.number(name)

    def text(name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
        return words.columns[name]

    def jump() -> Bool:
        return np.asarray((moved_m > 1852) & (elapsed_s > 0) & (moved_m > 60 * KN_IN_M_S * elapsed_s))

    def shared_identity() -> Bool:
        since = words.prev(words.prev(words.seconds))
        return np.asarray(words.in_a_row(jump(), 3) & (words.seconds - since <= 3600))

    def hidden_voyage() -> Bool:
        before = words.prev(has("speed"))
        return np.asarray((elapsed_s > 3600) & (before < 102) & (moved_m > (before + 3) * KN_IN_M_S * elapsed_s))

    def u_turn() -> Bool:
        speed, course = has("speed"), has("course")
        steady = (speed >= 2) & (speed < 102) & (words.prev(speed) > 2) & (elapsed_s <= 300)
        return np.asarray(steady & (turned(course, words.prev(course)) > 150))

    def sudden_stop() -> Bool:
        speed = has("speed")
        return first_then_last(words, (speed >= 8) & (speed < 102), (speed >= 1) & (speed < 8), speed < 1, 300)

    def silent() -> Bool:
        seconds, speed = words.seconds, has("speed")
        following_s = np.where(np.r_[words.first[1:], True], np.inf, np.roll(seconds, -1)) - seconds
        return np.asarray((speed >= 0.5) & (speed < 102) & (following_s > 3600) & (seconds + 3600 <= seconds.max()))

    def drifting() -> Bool:
        return np.asarray((turned(has("heading"), has("course")) > 30) & (has("speed") > 0.5))

    def careful_drifting() -> Bool:
        known = (has("heading") < 360) & (has("course") < 360) & (has("speed") < 5)
        return words.in_a_row(drifting() & known & (elapsed_s <= 600), 3)

    def searching() -> Bool:
        return words.in_a_row((text("type") == "sar") & (has("speed") > 2.7) & (turned_at_all()), 3)

    def turned_at_all() -> Bool:
        before = words.prev(has("heading"))
        return np.asarray((has("heading") != before) & ~np.isnan(before) & ~np.isnan(has("heading")))

    def lying(low: float, high: float, *words_of_status: str) -> Bool:
        speed = has("speed")
        above = speed >= low if len(words_of_status) == 1 else speed > low
        return words.in_a_row(np.isin(text("status"), list(words_of_status)) & above & (speed < high), 3)

    def each_port(ends: Callable[[F64], Bool]) -> set[tuple[int, int]]:
        return {place for one in distance_m for place in places_of(words, ends(one))}

    def careful_approach(d: F64) -> Bool:
        ring, middle = (d >= 7000) & (d < 10_000), (d >= 5000) & (d < 7000)
        return first_then_last(words, ring, middle, (d < 5000) & (has("speed") > 0.5), 7200)

    def call_at(d: F64) -> Bool:
        standing = has("speed") < 0.5
        third = words.in_a_row((d < 2000) & standing, 3) & ~words.in_a_row((d < 2000) & standing, 4)
        ends = np.zeros(len(d), bool)
        for at in np.flatnonzero(third):
            begin = back(words, int(at) - 2, (d < 2000) & ~standing)
            ends[at] = begin >= 0 and 2000 <= d[begin] < 5000
        return ends

    def leaving(d: F64) -> Bool:
        return np.asarray((words.prev(d) < 1000) & (d >= 1000) & (d < 5000) & (has("speed") > 2))

    return {
        "TransmissionGap": lambda: elapsed_s > 1800,
        "WentSilent": silent,
        "ImpossibleJump": jump,
        "SharedIdentity": shared_identity,
        "HiddenVoyage": hidden_voyage,
        "FrozenPosition": lambda: words.in_a_row(
            (has("speed") >= 3) & (has("speed") < 102) & (moved_m < 1) & (elapsed_s > 5), 3
        ),
        "UTurn": u_turn,
        "ZigZag": lambda: zig_zag(words, has("speed"), has("course")),
        "SuddenStop": sudden_stop,
        "Drifting": lambda: words.in_a_row(drifting(), 3),
        "CarefulDrifting": careful_drifting,
        "SearchAndRescue": searching,
        "DraggingAnchor": lambda: lying(0.5, 3, "at anchor"),
        "WrongStatus": lambda: lying(3, 102.2, "at anchor", "moored"),
        "Anchored": lambda: words.in_a_row((nearest_m <= 1000) & (has("speed") < 0.5), 3),
        "ApproachingPort": lambda: {place for one in distance_m for place in approaches(words, one)},
        "CarefulApproachingPort": lambda: each_port(careful_approach),
        "PortCall": lambda: each_port(call_at),
        "LeavingPort": lambda: each_port(leaving),
        "GapAtSea": lambda: (elapsed_s > 1800) & (words.prev(has("speed")) > 0.5) & (words.prev(nearest_m) > 10_000),
    }


# They need places or vessels that are not there: none is found (and shown to be so below).
NOTHING = {
    "CarefulAnchored", "ProtectedArea", "CarefulProtectedArea", "EnteringProtectedArea", "LeavingProtectedArea",
    "SpeedingInZone", "StoppedOverCable", "Trawling", "CarefulTrawling", "FishingInProtectedArea",
}  # fmt: skip
BY_THE_COAST = {"HighSpeedNearCoast", "CarefulHighSpeedNearCoast", "Loitering", "CarefulLoitering"}
NO_FORMULA = {"CarefulSearchAndRescue"}


@pytest.mark.parametrize("data_set", SETS[:3], ids=lambda one: one.name)
def test_vessels_are_found_where_formulas_find_them(data_set: DataSet, folder: Path) -> None:
    found, words = found_in(data_set, folder)
    formulas = maritime(words, list(ports_around(data_set).values()))
    for name in found.keys() & formulas.keys():
        should = formulas[name]()
        assert found[name] == (should if isinstance(should, set) else places_of(words, should)), name
    for name in found.keys() & NOTHING:
        assert found[name] == set(), name
    assert found.keys() <= formulas.keys() | NOTHING | BY_THE_COAST | NO_FORMULA
    parks = shapely.from_geojson(PARKS.read_text())
    assert not shapely.contains_xy(parks, words.number("lon"), words.number("lat")).any()
    west, south, east, north = -6, 48, -4, 50  # the invented sea
    lon, lat = words.number("lon"), words.number("lat")
    assert not ((west <= lon) & (lon <= east) & (south <= lat) & (lat <= north)).any()


@pytest.mark.parametrize("data_set", SETS[:2], ids=lambda one: one.name)
def test_vessels_near_the_coast_are_found_where_a_plane_map_has_them(data_set: DataSet, folder: Path) -> None:
    """Distances in a plane are off by less than 1 %: what is nearer than that to a limit may be either."""
    found, words = found_in(data_set, folder)
    lon, lat, speed = words.number("lon"), words.number("lat"), words.number("speed")
    scale = np.array([np.cos(np.radians(lat.mean())), 1.0]) * np.pi / 180 * 6_371_008.8
    box = shapely.box(lon.min() - 0.3, lat.min() - 0.3, lon.max() + 0.3, lat.max() + 0.3)
    coast = shapely.transform(shapely.from_geojson(COAST.read_text()).intersection(box), lambda xy: xy * scale)
    coast_m = shapely.distance(shapely.points(np.column_stack([lon, lat]) * scale), coast)
    port_m = np.array([haversine_m(lon, lat, x, y) for x, y in ports_around(data_set).values()]).min(axis=0)

    def near(metres: float, slack: float) -> Bool:
        return np.asarray(coast_m <= metres * slack)

    def high(slack: float) -> Bool:
        return near(300, slack) & (speed > 5)

    def careful_high(slack: float) -> Bool:
        return words.in_a_row(high(slack) & (speed < 102.2) & (port_m > 1000), 2)

    def loitering(slack: float) -> Bool:
        return words.in_a_row(~near(5000, 2 - slack) & (port_m > 5000) & (speed < 0.5), 3)

    def careful_loitering(slack: float) -> Bool:
        away = ~near(5000, 2 - slack) & (port_m > 5000) & (speed < 0.5)
        return words.in_a_row(away & (words.elapsed_s() <= 900), 10)

    formulas = {
        "HighSpeedNearCoast": high, "CarefulHighSpeedNearCoast": careful_high,
        "Loitering": loitering, "CarefulLoitering": careful_loitering,
    }  # fmt: skip
    assert formulas.keys() == BY_THE_COAST
    for name, formula in formulas.items():
        surely, perhaps = (places_of(words, formula(slack)) for slack in (0.99, 1.01))
        assert surely <= found[name] <= perhaps, name
        assert surely, name


def test_buses_are_found_where_formulas_find_them(folder: Path) -> None:
    found, words = found_in(SETS[3], folder)
    speed, elapsed_s, moved_m = words.number("speed"), words.elapsed_s(), words.moved_m()
    before = [speed]
    for _ in range(3):
        before.append(words.prev(before[-1]))
    swing = (before[3] > 50) & (before[2] == 0) & (before[1] > 50) & (before[0] == 0)
    since = words.prev(words.prev(words.prev(words.seconds)))
    second_s = words.prev(words.prev(elapsed_s))
    stop = (words.prev(speed) > 80) & (speed < 5)
    lost = words.prev(speed) - speed
    formulas = {
        "SpeedSwing": swing,
        "QuickSpeedSwing": swing & (second_s <= 10) & (words.seconds - since <= 120),
        "FrozenPosition": words.in_a_row((speed > 20) & (moved_m < 1) & (elapsed_s <= 300), 3),
        "JumpingPosition": (moved_m > 1000) & (elapsed_s > 0) & (moved_m > 250 / 3.6 * elapsed_s),
        "MovedInSilence": (elapsed_s > 3600) & (moved_m > 5000),
        "HarshBraking": (elapsed_s <= 5) & (elapsed_s > 0) & (lost > 25) & (lost > 8 * elapsed_s),
        "HarshStops": twice(words, stop, 900),
        "TooFast": words.in_a_row(speed > 130, 3),
    }
    for name, holds in formulas.items():
        assert found[name] == places_of(words, holds), name
    far_away = {"StormDriving", "SpeedingInCity", "EnteringCity", "LeavingCity"}  # in the invented country
    assert found.keys() == formulas.keys() | far_away
    assert {name for name in far_away if found[name]} == set()


def twice(words: Words, stop: Bool, within_s: float) -> Bool:
    """A stop of two events that ends here, and before its first event another, all of it within the time."""
    ends = np.zeros(len(stop), bool)
    stops = np.flatnonzero(stop)
    for earlier, later in itertools.pairwise(stops):
        same = words.entity[earlier] == words.entity[later]
        ends[later] = same and earlier < later - 1 and words.seconds[later] - words.seconds[earlier - 1] <= within_s
    return ends


def test_a_library_in_another_unit_finds_the_same(tmp_path: Path) -> None:
    """The patterns say their units: a box that reports metres a second needs one word changed in the stream block."""
    table = pq.read_table(ROOT / "data/fleet_sample.parquet")
    at = table.schema.get_field_index("speed")
    speed = table["speed"].to_numpy()
    speed = np.where(speed > 0, speed + 0.0137, 0.0)  # off every limit, whatever a division rounds to
    shutil.copytree(ROOT / "patterns", tmp_path / "patterns")
    vehicles = tmp_path / "patterns/fleet/vehicles.sre"
    vehicles.write_text(vehicles.read_text().replace("speed        number in km/h", "speed        number in m/s"))
    counts = [
        wayeb_py.compile(file).recognise(table.set_column(at, "speed", pa.array(values))).counts()
        for file, values in ((ROOT / "patterns/fleet.sre", speed), (tmp_path / "patterns/fleet.sre", speed / 3.6))
    ]
    assert counts[0] == counts[1]
    assert counts[0]["SpeedSwing"] > 0
