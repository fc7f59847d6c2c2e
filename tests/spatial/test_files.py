"""Files of background knowledge: every format gives the same places, and a message about a fault names its place."""

from __future__ import annotations

import gc
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

import wayeb_py
from tests.strategies import examples
from wayeb_py.errors import DataError
from wayeb_py.run.progress import render_summary
from wayeb_py.run.runner import run
from wayeb_py.spatial.read_places import Feature, Features, Shape, _accept, _to_look_at, read_features

SHARED = Path(__file__).parents[3] / "shared" / "data"


def feature(name: str | None, geometry: Any, **properties: Any) -> dict[str, Any]:
    named = {} if name is None else {"name": name}
    return {"type": "Feature", "properties": named | properties, "geometry": json.loads(shapely.to_geojson(geometry))}


def collection(*features: dict[str, Any]) -> str:
    return json.dumps({"type": "FeatureCollection", "features": list(features)})


def read(folder: Path, name: str, text: str, shape: Shape) -> Features:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_features(path, shape)


POINTS = {
    "in the usual order": ("p.csv", "name,lon,lat,limit\nBrest,-4.5,48.4,8\nRoscoff,-3.98,48.73,6\n"),
    "in another order": ("p.csv", "limit,lat,name,lon\n8,48.4,Brest,-4.5\n6,48.73,Roscoff,-3.98\n"),
    "with other words": (
        "p.csv",
        "Main Port Name;Latitude;Longitude;limit\nBrest;48.4;-4.5;8\nRoscoff;48.73;-3.98;6\n",
    ),
    "with tabs and a blank line": ("p.tsv", "name\tx\ty\tlimit\nBrest\t-4.5\t48.4\t8\n\nRoscoff\t-3.98\t48.73\t6\n"),
    "with a byte order mark": ("p.csv", "\ufeffname,lon,lat,limit\nBrest,-4.5,48.4,8\nRoscoff,-3.98,48.73,6\n"),
    "as GeoJSON": (
        "p.geojson",
        collection(
            feature("Brest", shapely.Point(-4.5, 48.4), limit=8),
            feature("Roscoff", shapely.Point(-3.98, 48.73), limit=6),
        ),
    ),
}


@pytest.mark.parametrize("case", POINTS)
def test_points_are_read(case: str, tmp_path: Path) -> None:
    found = read(tmp_path, *POINTS[case], "points")
    assert found.names == ("Brest", "Roscoff")
    assert [(point.x, point.y) for point in found.geometries] == [(-4.5, 48.4), (-3.98, 48.73)]
    assert found.columns["limit"] == (8, 6)
    assert found.notes == ()


WKT = {
    "POLYGON ((0 0, 1 0, 1 1, 0 0))": "",
    "Harbour\tPOLYGON ((0 0, 1 0, 1 1, 0 0))": "Harbour",
    "Outer harbour: POLYGON ((0 0, 1 0, 1 1, 0 0))": "Outer harbour",
    "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0))); Harbour 2": "Harbour 2",
}


@pytest.mark.parametrize("line", WKT)
def test_wkt_has_a_geometry_a_line_and_perhaps_a_name(line: str, tmp_path: Path) -> None:
    found = read(tmp_path, "a.wkt", f"# areas\n{line}\n", "areas")
    assert found.names == (WKT[line],)
    assert found.geometries[0].area == 0.5


def test_geoparquet_is_read_by_its_metadata(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    shapes = [shapely.box(0, 0, 1, 1), shapely.box(2, 0, 3, 1)]
    table = pa.table({"shape": [shapely.to_wkb(shape) for shape in shapes], "name": ["a", "b"], "depth": [3.5, None]})
    geo = {"version": "1.0.0", "primary_column": "shape", "columns": {"shape": {"encoding": "WKB"}}}
    pq.write_table(table.replace_schema_metadata({b"geo": json.dumps(geo).encode()}), path)
    found = read_features(path, "areas")
    assert found.names == ("a", "b")
    assert [shape.bounds for shape in found.geometries] == [(0, 0, 1, 1), (2, 0, 3, 1)]
    assert found.columns["depth"] == (3.5, None)


def test_an_invalid_area_is_repaired_and_noted(tmp_path: Path) -> None:
    bow_tie = shapely.Polygon([(0, 0), (2, 2), (2, 0), (0, 2)])
    found = read(tmp_path, "a.geojson", collection(feature("knot", bow_tie)), "areas")
    assert found.geometries[0].is_valid
    assert found.geometries[0].area == pytest.approx(2.0)
    assert len(found.notes) == 1
    assert "feature 1 (`knot`) was repaired: Self-intersection[1 1]" in found.notes[0]


def test_an_edge_the_long_way_around_is_noted(tmp_path: Path) -> None:
    across = shapely.LineString([(179, 10), (-179, 10)])
    found = read(tmp_path, "a.geojson", collection(feature("date line", across)), "lines")
    assert "an edge of 358 degrees" in found.notes[0]


ACROSS = shapely.Polygon([(179, -18), (-179, -18), (-179, -16), (179, -16)])


@pytest.mark.parametrize("area", [ACROSS, shapely.MultiPolygon([shapely.box(0, 0, 1, 1), ACROSS])])
def test_an_area_the_long_way_around_is_noted(tmp_path: Path, area: shapely.Geometry) -> None:
    found = read(tmp_path, "a.geojson", collection(feature("Fiji", area)), "areas")
    assert "feature 1 (`Fiji`) has an edge of 358 degrees" in found.notes[0]


def test_what_is_far_apart_or_all_around_the_earth_is_not_noted(tmp_path: Path) -> None:
    far_apart = shapely.MultiPolygon([shapely.box(-179, 0, -178, 1), shapely.box(178, 0, 179, 1)])
    polar = shapely.Polygon([(-180, -90), (180, -90), (180, -70), (0, -80), (-180, -70)])
    found = read(tmp_path, "a.geojson", collection(feature("islands", far_apart), feature("ice", polar)), "areas")
    assert found.notes == ()


def test_a_run_tells_what_was_repaired(tmp_path: Path) -> None:
    bow_tie = shapely.Polygon([(0, 0), (2, 2), (2, 0), (0, 2)])
    (tmp_path / "a.geojson").write_text(collection(feature("knot", bow_tie)))
    (tmp_path / "a.sre").write_text(
        'stream s { key id time ts in s position lon, lat }\nareas a from "a.geojson"\npattern In := (inside(a))\n'
    )
    (tmp_path / "e.csv").write_text("id,ts,lon,lat\n1,0,1.5,1\n")
    summary = run(wayeb_py.compile(tmp_path / "a.sre"), [tmp_path / "e.csv"], tmp_path / "d.csv")
    assert summary.detections == {"In": 1}
    (note,) = summary.notes
    assert note.endswith("a.geojson: feature 1 (`knot`) was repaired: Self-intersection[1 1]")
    assert note in render_summary(summary)


POINT, LINE, AREA = shapely.Point(1, 2), shapely.LineString([(0, 0), (1, 1)]), shapely.box(0, 0, 1, 1)

FAULTS: dict[str, tuple[str, str, Shape, str]] = {
    "no rows": ("p.csv", "name,lon,lat\n", "points", "the file has no places\n --> {path}"),
    "nothing at all": ("p.csv", "", "points", "the file has no places\n --> {path}"),
    "an empty GeoJSON": ("p.geojson", "", "points", "the file has no places\n --> {path}"),
    "an empty collection": ("p.geojson", collection(), "points", "the file has no places\n --> {path}"),
    "a latitude of 91": (
        "p.csv",
        "name,lon,lat\na,1,2\nb,120,91\n",
        "points",
        "`b` has the latitude 91, which is not on the earth\n --> {path}, row 3",
    ),
    "swapped coordinates": (
        "p.csv",
        "name,lon,lat\nSydney,-33.9,151.2\n",
        "points",
        (
            "`Sydney` has the latitude 151.2, which is not on the earth\n --> {path}, row 2\n"
            "  = hint: longitude and latitude look swapped: the longitude comes first"
        ),
    ),
    "no longitude": (
        "p.csv",
        "name,east,lat\na,1,2\n",
        "points",
        (
            "no column is the longitude: the header is name, east, lat\n --> {path}, row 1\n"
            "  = hint: name it one of lon, longitude, lng, long, x"
        ),
    ),
    "no number": (
        "p.csv",
        "name,lon,lat\na,1,two\n",
        "points",
        "`two` is not a number, in the column `lat`\n --> {path}, row 2",
    ),
    "an empty cell": (
        "p.csv",
        "name,lon,lat\na,,2\n",
        "points",
        "the cell is empty, in the column `lon`\n --> {path}, row 2",
    ),
    "a short row": (
        "p.csv",
        "name,lon,lat\na,1\n",
        "points",
        "this row has 2 cells, and the header 3\n --> {path}, row 2",
    ),
    "a wrong shape": (
        "a.geojson",
        collection(feature("a", AREA), feature("b", LINE)),
        "areas",
        (
            "feature 2 (`b`) is a LineString, and these are declared as areas\n --> {path}\n"
            "  = hint: declare them as `lines … from …`"
        ),
    ),
    "a point among lines": (
        "a.geojson",
        collection(feature(None, POINT)),
        "lines",
        (
            "feature 1 is a Point, and these are declared as lines\n --> {path}\n"
            "  = hint: declare them as `points … from …`"
        ),
    ),
    "no geometry": (
        "a.geojson",
        '{"type": "Feature", "properties": {}, "geometry": null}',
        "areas",
        "feature 1 has no geometry\n --> {path}",
    ),
    "not JSON": ("a.geojson", '{"type": \n oops}', "areas", "this is not JSON: Expecting value\n --> {path}, row 2"),
    "other coordinates": (
        "a.geojson",
        json.dumps({"type": "FeatureCollection", "crs": {"properties": {"name": "EPSG:3857"}}, "features": []}),
        "areas",
        "the coordinates are in EPSG 3857, not in degrees\n --> {path}\n  = hint: convert the file to EPSG 4326 first",
    ),
    "not WKT": (
        "a.wkt",
        "POLYGON ((0 0, 1 0, 1 1, 0 0))\nhello\n",
        "areas",
        (
            "this line is not WKT\n --> {path}, row 2\n"
            "  = hint: a line is a geometry, with its name before or after it if it has one"
        ),
    ),
    "an unknown kind": (
        "a.shp",
        "x",
        "areas",
        "it is not clear what kind of file this is\n --> {path}\n  = hint: known are .csv, .geojson, .wkt and .parquet",
    ),
    "nested beyond all measure": (
        "a.geojson",
        '{"type": "Point", "coordinates": ' + "[" * 100_000 + "1" + "]" * 100_000 + "}",
        "points",
        "the JSON is nested too deeply to be GeoJSON\n --> {path}",
    ),
    "a number of 5,000 digits": (
        "a.geojson",
        '{"type": "Point", "coordinates": [' + "9" * 5000 + ", 2]}",
        "points",
        "a number has more digits than can be read\n --> {path}",
    ),
    "features that are a number": (
        "a.geojson",
        '{"type": "FeatureCollection", "features": 5}',
        "points",
        "this is JSON, but not GeoJSON: the features are not a list\n --> {path}",
    ),
    "a feature that is a number": (
        "a.geojson",
        '{"type": "FeatureCollection", "features": [5]}',
        "points",
        "feature 1 has no geometry\n --> {path}",
    ),
    "half a character in a name": (
        "a.geojson",
        '{"type": "Feature", "properties": {"name": "\\ud800"}, "geometry": {"type": "Point", "coordinates": [1, 2]}}',
        "points",
        "the name of place 1 is not text: it holds half a character\n --> {path}",
    ),
    "a cell of 200,000 characters": (
        "p.csv",
        "name,lon,lat\n" + "9" * 200_000 + ",1,2\n",
        "points",
        "this is not a table: field larger than field limit (131072)\n --> {path}",
    ),
    "an area that crosses itself without end": (
        "a.wkt",
        shapely.to_wkt(shapely.Polygon([(nth % 2 * 10, (nth * 37 % 199) / 100) for nth in range(400)])),
        "areas",
        (
            "this line crosses itself, or has parts that overlap, more than 5,000 times\n --> {path}, row 1\n"
            "  = hint: write its parts as areas of their own, or repair it with a tool for maps first"
        ),
    ),
    "a part that is listed 200 times": (
        "a.wkt",
        shapely.to_wkt(shapely.MultiPolygon([shapely.box(0, 0, 1, 1)] * 200)),
        "areas",
        (
            "this line crosses itself, or has parts that overlap, more than 5,000 times\n --> {path}, row 1\n"
            "  = hint: write its parts as areas of their own, or repair it with a tool for maps first"
        ),
    ),
    "an area without an inside": (
        "a.wkt",
        "POLYGON ((0 0, 1 0, 2 0, 0 0))\n",
        "areas",
        "this line encloses nothing and cannot be repaired\n --> {path}, row 1",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_what_is_wrong_is_told_with_its_place(case: str, tmp_path: Path) -> None:
    name, text, shape, message = FAULTS[case]
    with pytest.raises(DataError) as caught:
        read(tmp_path, name, text, shape)
    assert str(caught.value) == message.format(path=tmp_path / name)


def test_a_file_that_holds_more_than_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Parquet file of a few kilobytes may hold any amount: what counts is what comes out of it."""
    metadata = {"geo": json.dumps({"primary_column": "g", "columns": {"g": {"encoding": "WKB"}}})}
    table = pa.table({"g": [shapely.to_wkb(POINT)] * 50_000}).replace_schema_metadata(metadata)
    path = tmp_path / "p.parquet"
    pq.write_table(table, path)
    monkeypatch.setattr("wayeb_py.spatial.read_places.MOST_BYTES", 500_000)
    assert path.stat().st_size < 500_000
    with pytest.raises(DataError, match="which is the most that is read"):
        read_features(path, "points")


degrees = st.one_of(st.integers(-3, 3).map(float), st.sampled_from([90.0, 90.5, -91.0, 179.0, -179.0, 360.0, 361.0]))
vertex = st.tuples(degrees, degrees)
ring = st.lists(vertex, min_size=3, max_size=6)
polygon = st.builds(shapely.Polygon, ring, st.lists(ring, max_size=1))
geometry = st.one_of(
    st.none(),
    st.builds(shapely.Point, vertex),
    st.builds(shapely.MultiPoint, st.lists(vertex, max_size=3)),
    st.builds(shapely.LineString, st.lists(vertex, min_size=2, max_size=5)),
    polygon,
    st.builds(shapely.MultiPolygon, st.lists(polygon, max_size=3)),
    st.sampled_from([shapely.from_wkt(f"{kind} EMPTY") for kind in ("POINT", "LINESTRING", "POLYGON")]),
    st.sampled_from([shapely.box(0, 0, 1, 1), shapely.box(-180, 80, 180, 90), shapely.Point(math.nan, 2)]),
)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(geometry, min_size=1, max_size=6), st.sampled_from(["points", "lines", "areas"]))
def test_what_is_not_looked_at_one_by_one_has_nothing_wrong(geometries: list[Any], shape: Shape) -> None:
    """Whatever `_accept` would refuse, repair or note is among what `_to_look_at` finds for all at once."""
    array = np.empty(len(geometries), dtype=object)
    array[:] = geometries
    looked_at = set(_to_look_at(array, shape).tolist())
    for number in set(range(len(geometries))) - looked_at:
        notes: list[str] = []
        one = Feature(geometries[number], None, {}, "this")
        assert _accept(one, shape, Path("x"), notes) == geometries[number]
        assert notes == []


def test_good_geometries_are_not_looked_at_one_by_one() -> None:
    good = np.array([shapely.box(n, 0, n + 1, 1) for n in range(3)] + [shapely.box(-180, 80, 180, 90)], dtype=object)
    bad = np.array([shapely.Polygon([(0, 0), (1, 1), (1, 0), (0, 1)]), None, shapely.Point(0, 0)], dtype=object)
    # An edge all around the earth is worth a second look, and passes it.
    assert _to_look_at(np.concatenate([good, bad]), "areas").tolist() == [3, 4, 5, 6]


@pytest.mark.parametrize("n_places", [1, 5, 6, 7, 13])
def test_geojson_is_the_same_however_many_geometries_are_handed_over_at_once(
    n_places: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wayeb_py.spatial.read_places.AT_ONCE", 6)
    places = [shapely.box(n, 0, n + 0.5, 1) for n in range(n_places)]
    found = read(tmp_path, "a.geojson", collection(*(feature(f"a{n}", g) for n, g in enumerate(places))), "areas")
    assert found.names == tuple(f"a{n}" for n in range(n_places))
    assert found.geometries.tolist() == places


@pytest.mark.parametrize("wrong", [0, 5, 6, 9])
def test_geojson_of_many_features_names_the_one_that_is_wrong(
    wrong: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wayeb_py.spatial.read_places.AT_ONCE", 6)
    features = [feature(f"a{n}", shapely.Point(n, 0)) for n in range(10)]
    features[wrong]["geometry"]["coordinates"] = [1]
    with pytest.raises(DataError, match=rf"feature {wrong + 1} \(`a{wrong}`\) is not a geometry"):
        read(tmp_path, "a.geojson", collection(*features), "points")


def test_reading_leaves_the_collection_of_garbage_as_it_was(tmp_path: Path) -> None:
    assert gc.isenabled()
    with pytest.raises(DataError):
        read(tmp_path, "p.csv", "lon,lat\nx,1\n", "points")
    assert gc.isenabled()
    gc.disable()
    try:
        read(tmp_path, "p.csv", "lon,lat\n1,1\n", "points")
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such file"):
        read_features(tmp_path / "p.csv", "points")


REAL: dict[str, tuple[Shape, int]] = {
    "ports/WorldPortIndex_UpdatedPub150.csv": ("points", 3000),
    "ports/ne_10m_ports.geojson": ("points", 1000),
    "coast/ne_50m_coastline.geojson": ("lines", 1000),
    "coast/ne_50m_land.geojson": ("areas", 1000),
}


@pytest.mark.parametrize("name", REAL)
@pytest.mark.skipif(not SHARED.is_dir(), reason="the folder of real data is not at hand")
def test_real_files_are_read(name: str) -> None:
    shape, at_least = REAL[name]
    found = read_features(SHARED / name, shape)
    assert len(found.geometries) >= at_least
