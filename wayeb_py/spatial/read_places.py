"""A file of background knowledge becomes features: a geometry each, a name if it has one, and further columns.

An error names the file and the row or feature, before anything is recognised; a geometry that shapely can repair is
repaired and noted. Coordinates are longitude, latitude in degrees (WGS 84), in this order, in every format.
"""

from __future__ import annotations

import csv
import gc
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal

from wayeb_py.errors import DataError
from wayeb_py.files.stores import Location, open_input, size_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Shape = Literal["points", "lines", "areas"]

GEOMETRIES: dict[Shape, tuple[str, ...]] = {
    "points": ("Point", "MultiPoint"),
    "lines": ("LineString", "MultiLineString", "LinearRing"),
    "areas": ("Polygon", "MultiPolygon"),
}
LON = ("lon", "longitude", "lng", "long", "x")
LAT = ("lat", "latitude", "y")
NAME = ("name", "title", "label")
MOST_BYTES = 1 << 30  # size of a file, and of what a compressed file holds
AT_ONCE = 4096  # GeoJSON geometries that one call passes
MOST_CROSSINGS = 5_000  # crossings in an area that is repaired: the time grows with their square


@dataclass(frozen=True, slots=True)
class Feature:
    """One place as the file has it; `where` is how a message names it, `row` its row where the file has rows."""

    geometry: Any
    name: str | None
    columns: dict[str, Any]
    where: str
    row: int | None = None


@dataclass(frozen=True, slots=True)
class Features:
    """The places of a file, valid and of one shape, and notes on what was repaired or looks wrong."""

    geometries: npt.NDArray[np.object_]
    names: tuple[str, ...]  # empty where a place has none
    columns: dict[str, tuple[Any, ...]]
    notes: tuple[str, ...] = field(default=())


class NoSuchColumnError(DataError):
    """The column for the names is not in the file."""


def read_features(path: Location, shape: Shape, name_column: str | None = None) -> Features:
    """The places of a file; DataError says what is wrong with it.

    `name_column` is the column or property with the names, where the reader is not to find it by itself.
    """
    import numpy as np
    import shapely

    if not path.is_file():
        raise DataError("there is no such file", str(path))
    reader = _reader(path)
    try:
        if size_of(path) > MOST_BYTES:
            raise _too_large(path)
        with _without_collecting():
            found = list(reader(path, name_column))
    except UnicodeDecodeError as error:
        raise DataError(f"the text is not UTF-8: {error.reason}", str(path)) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", str(path)) from error
    except csv.Error as error:
        raise DataError(f"this is not a table: {error}", str(path)) from None
    except RecursionError:
        raise DataError("the JSON is nested too deeply to be GeoJSON", str(path)) from None
    if not found:
        raise DataError("the file has no places", str(path))
    notes: list[str] = []
    geometries = np.empty(len(found), dtype=object)
    geometries[:] = [feature.geometry for feature in found]
    for number in _to_look_at(geometries, shape).tolist():
        geometries[number] = _accept(found[number], shape, path, notes)
    geometries = np.asarray(shapely.force_2d(geometries))
    names = tuple(feature.name or "" for feature in found)
    for number, name in enumerate(names, 1):
        if not name.isascii() and any("\ud800" <= character <= "\udfff" for character in name):
            raise DataError(f"the name of place {number} is not text: it holds half a character", str(path))
    keys = dict.fromkeys(key for feature in found for key in feature.columns)
    columns = {key: _typed([feature.columns.get(key) for feature in found]) for key in keys}
    return Features(geometries, names, columns, tuple(notes))


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Pauses the garbage collector: a million rings are ten million lists, and searching them takes longer than
    reading."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _reader(path: Location) -> Callable[[Location, str | None], Iterator[Feature]]:
    match path.suffix.lower():
        case ".csv" | ".tsv" | ".txt":
            return _read_csv
        case ".geojson" | ".json":
            return _read_geojson
        case ".wkt":
            return _read_wkt
        case ".parquet" | ".geoparquet":
            return _read_geoparquet
        case _:
            raise DataError(
                "it is not clear what kind of file this is",
                str(path),
                hint="known are .csv, .geojson, .wkt and .parquet",
            )


def _too_large(path: Location) -> DataError:
    return DataError(
        f"the file holds more than {MOST_BYTES >> 30} GB, which is the most that is read",
        str(path),
        hint="leave out what the patterns do not ask for, or make its lines simpler",
    )


# Formats.
def _read_csv(path: Location, named: str | None) -> Iterator[Feature]:
    import shapely

    with path.open(encoding="utf-8-sig", newline="") as file:
        sample = file.readline()
        file.seek(0)
        delimiter = max(",;\t", key=sample.count)
        lines = csv.reader(file, delimiter=delimiter)
        header = [name.strip() for name in next(lines, [])]
        if not header:
            return
        lon, lat = _column(header, LON, "longitude", path), _column(header, LAT, "latitude", path)
        name = _name_key(header, named, path)
        for cells in lines:
            if not any(cell.strip() for cell in cells):
                continue
            row = lines.line_num
            if len(cells) != len(header):
                raise DataError(f"this row has {len(cells)} cells, and the header {len(header)}", str(path), row)
            point = shapely.Point(
                _number(cells[lon], header[lon], path, row), _number(cells[lat], header[lat], path, row)
            )
            columns = {
                key: cell.strip() or None
                for i, (key, cell) in enumerate(zip(header, cells, strict=True))
                if i not in (lon, lat)
            }
            called = columns.get(name) if name is not None else None
            yield Feature(point, called, columns, f"`{called}`" if called else "this row", row)


def _column(header: list[str], spellings: tuple[str, ...], what: str, path: Location) -> int:
    lower = [name.lower() for name in header]
    for spelling in spellings:
        if lower.count(spelling) == 1:
            return lower.index(spelling)
    raise DataError(
        f"no column is the {what}: the header is {', '.join(header)}",
        str(path),
        1,
        f"name it one of {', '.join(spellings)}",
    )


def _number(cell: str, column: str, path: Location, row: int) -> float:
    try:
        return float(cell)
    except ValueError:
        what = f"`{cell.strip()}` is not a number" if cell.strip() else "the cell is empty"
        raise DataError(f"{what}, in the column `{column}`", str(path), row) from None


def _name_key(keys: Sequence[str], named: str | None = None, path: Location | None = None) -> str | None:
    """Which column or property is the name: the one that is `named`, `name`, or the only one that ends in it."""
    if named is not None:
        if named in keys:
            return named
        close = get_close_matches(named, keys, n=1)
        raise NoSuchColumnError(
            f"no column is called `{named}`, which is to be the name: the columns are {', '.join(keys)}",
            str(path),
            1 if path is not None and path.suffix.lower() in (".csv", ".tsv", ".txt") else None,
            f"did you mean `{close[0]}`?" if close else None,
        )
    for spelling in NAME:
        for key in keys:
            if key.lower() == spelling:
                return key
    ending = [key for key in keys if re.search(r"[ _]name$", key.lower())]
    return ending[0] if len(ending) == 1 else None


def _read_geojson(path: Location, named: str | None) -> Iterator[Feature]:
    text = path.read_text(encoding="utf-8-sig")
    if not text.strip():
        return
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"this is not JSON: {error.msg}", str(path), error.lineno) from None
    except ValueError:
        raise DataError("a number has more digits than can be read", str(path)) from None
    if not isinstance(data, dict):
        raise DataError("this is JSON, but not GeoJSON", str(path))
    _refuse_other_degrees(json.dumps(data.get("crs", "")), path)
    features = data.get("features", []) if data.get("type") == "FeatureCollection" else [data]
    if not isinstance(features, list):
        raise DataError("this is JSON, but not GeoJSON: the features are not a list", str(path))
    keys: dict[tuple[str, ...], str | None] = {}  # by the set of property names, of which a file has few
    for begin in range(0, len(features), AT_ONCE):
        members = features[begin : begin + AT_ONCE]
        wheres, names, columns = [], [], []
        for number, feature in enumerate(members, begin + 1):
            is_feature = isinstance(feature, dict) and feature.get("type") == "Feature"
            geometry = feature.get("geometry") if is_feature else feature
            if not isinstance(geometry, dict) or "type" not in geometry:
                raise DataError(f"feature {number} has no geometry", str(path))
            properties = feature.get("properties") if is_feature else {}
            if not isinstance(properties, dict):
                properties = {}
            called = tuple(properties)
            if called not in keys:
                keys[called] = named if named in properties else None if named is not None else _name_key(called)
            key = keys[called]
            name = properties.get(key) if key is not None else feature.get("id") if named is None else None
            wheres.append(f"feature {number}" if name is None else f"feature {number} (`{name}`)")
            names.append(None if name is None else str(name))
            columns.append({k: v for k, v in properties.items() if not isinstance(v, dict | list)})
        geometries = [member["geometry"] if member.get("type") == "Feature" else member for member in members]
        yield from map(Feature, _shapes(geometries, wheres, path), names, columns, wheres)
    if named is not None and named not in keys.values() and features:
        raise NoSuchColumnError(f"no feature has a property `{named}`, which is to be the name", str(path))


def _shapes(geometries: list[dict[str, Any]], wheres: list[str], path: Location) -> Sequence[Any]:
    """GeoJSON geometries as shapely's: all by one call, and one by one only to find which of them is none."""
    import shapely

    try:
        together = json.dumps({"type": "GeometryCollection", "geometries": geometries})
        parts: Sequence[Any] = shapely.get_parts(shapely.from_geojson(together))
        if len(parts) == len(geometries):
            return parts
    except shapely.errors.GEOSException:
        pass
    shaped = []
    for geometry, where in zip(geometries, wheres, strict=True):
        try:
            shaped.append(shapely.from_geojson(json.dumps(geometry)))
        except shapely.errors.GEOSException as error:
            raise DataError(f"{where} is not a geometry: {error}", str(path)) from None
    return shaped


_WKT = re.compile(
    r"^\s*(?:\"?(?P<before>[^\"\t;:,(]*?)\"?\s*[\t;:,]\s*)?"
    r"(?P<wkt>(?:MULTI)?(?:POINT|LINESTRING|POLYGON)\b.*\)|GEOMETRYCOLLECTION\b.*\)|(?:\w+)\s+EMPTY)"
    r"\s*[\t;:,]?\s*\"?(?P<after>[^\"()]*?)\"?\s*$",
    re.IGNORECASE,
)


def _read_wkt(path: Location, named: str | None) -> Iterator[Feature]:
    import shapely

    if named is not None:
        raise NoSuchColumnError(
            f"the name is to be the column `{named}`, and a file of WKT has no columns",
            str(path),
            hint="the name stands before or after the geometry; leave out `name …`",
        )
    for row, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _WKT.match(line)
        try:
            geometry = shapely.from_wkt(match["wkt"] if match else line)
        except shapely.errors.GEOSException:
            raise DataError(
                "this line is not WKT",
                str(path),
                row,
                "a line is a geometry, with its name before or after it if it has one",
            ) from None
        name = (match["before"] or match["after"] or None) if match else None
        yield Feature(geometry, name, {"name": name}, f"`{name}`" if name else "this line", row)


def _read_geoparquet(path: Location, named: str | None) -> Iterator[Feature]:
    import pyarrow as pa
    import shapely

    try:
        table = _read_parquet(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise DataError(f"this is not Parquet: {error}", str(path)) from None
    described = json.loads((table.schema.metadata or {}).get(b"geo", b"{}"))
    key = described.get("primary_column")
    if key is None or key not in table.column_names:
        raise DataError("nothing says which column is the geometry: this is not GeoParquet", str(path))
    about = described.get("columns", {}).get(key, {})
    if about.get("encoding", "WKB").upper() != "WKB":
        raise DataError(f"the geometry is encoded as {about['encoding']}, and only WKB is read", str(path))
    if about.get("crs") is not None:
        _refuse_other_degrees(json.dumps(about["crs"].get("id", {}) if isinstance(about["crs"], dict) else ""), path)
    rows = table.drop_columns([key]).to_pylist()
    name = _name_key(table.drop_columns([key]).column_names, named, path)
    for row, (geometry, columns) in enumerate(zip(table.column(key).to_pylist(), rows, strict=True), 1):
        called = columns.get(name) if name is not None else None
        try:
            shaped = shapely.from_wkb(geometry)
        except (shapely.errors.GEOSException, TypeError):
            raise DataError("the geometry cannot be read", str(path), row) from None
        yield Feature(shaped, None if called is None else str(called), columns, "this row", row)


def _read_parquet(path: Location) -> Any:
    """The table; read by parts, since a file of a few bytes may hold any amount."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with open_input(str(path)) as opened, pq.ParquetFile(opened) as file:
        parts, n_bytes = [], 0
        for part in file.iter_batches(batch_size=1024):
            parts.append(part)
            n_bytes += part.nbytes
            if n_bytes > MOST_BYTES:
                raise _too_large(path)
        return pa.Table.from_batches(parts, file.schema_arrow)


def _refuse_other_degrees(crs: str, path: Location) -> None:
    code = re.search(r"(?:EPSG|CRS)\W+(?:\w*\W+)*?(\d{4,6}|CRS\d\d)", crs)
    if code is not None and code[1] not in ("4326", "4979", "4258", "4269", "CRS84"):
        raise DataError(
            f"the coordinates are in EPSG {code[1]}, not in degrees",
            str(path),
            hint="convert the file to EPSG 4326 first",
        )


# The accepted geometries.
def _to_look_at(geometries: npt.NDArray[np.object_], shape: Shape) -> npt.NDArray[np.intp]:
    """The numbers of the geometries that `_accept` may refuse, repair or note; found for all at once, since a file may
    have a million of them and most have nothing wrong."""
    import numpy as np
    import shapely

    types = [kind.upper() for kind in GEOMETRIES[shape]]
    fits = np.isin(shapely.get_type_id(geometries), [shapely.GeometryType[kind] for kind in types])
    wrong = ~fits | shapely.is_empty(geometries)
    at, number = shapely.get_coordinates(geometries, return_index=True)
    wrong[number[~((np.abs(at[:, 1]) <= 90) & (np.abs(at[:, 0]) <= 360))]] = True
    if shape != "points":
        # Also from ring to ring, where there is no edge: `_accept` knows better.
        far = (np.abs(at[1:, 0] - at[:-1, 0]) > 180) & (number[1:] == number[:-1])
        wrong[number[1:][far]] = True
    if shape == "areas":
        wrong[~wrong] = ~shapely.is_valid(geometries[~wrong])
    return np.flatnonzero(wrong)


def _accept(feature: Feature, shape: Shape, path: Location, notes: list[str]) -> Any:
    """The geometry, repaired if need be."""
    import shapely

    geometry = feature.geometry
    if geometry is None or geometry.is_empty:
        raise DataError(f"{feature.where} has no geometry", str(path), feature.row)
    if geometry.geom_type not in GEOMETRIES[shape]:
        fitting = [other for other, types in GEOMETRIES.items() if geometry.geom_type in types]
        raise DataError(
            f"{feature.where} is a {geometry.geom_type}, and these are declared as {shape}",
            str(path),
            feature.row,
            f"declare them as `{fitting[0]} … from …`"
            if fitting
            else f"{shape} are {' or '.join(GEOMETRIES[shape][:2])}",
        )
    geometry = shapely.force_2d(geometry)
    _check_degrees(geometry, feature, path)
    if shape == "areas" and not geometry.is_valid:
        reason = shapely.is_valid_reason(geometry)
        geometry = _repair(geometry, feature, path)
        notes.append(f"{_place(path, feature)}: {feature.where} was repaired: {reason}")
    if shape != "points":
        parts = shapely.get_parts(geometry)
        strokes = shapely.get_rings(parts) if shape == "areas" else parts
        lons = [shapely.get_coordinates(stroke)[:, 0] for stroke in strokes]
        longest = max(float(abs(lon[1:] - lon[:-1]).max()) for lon in lons)
        if 180 < longest < 360:  # an edge all around the earth, along a pole, is meant
            notes.append(
                f"{_place(path, feature)}: {feature.where} has an edge of {longest:g} degrees, "
                "the long way around the earth; across the antimeridian an edge goes on beyond 180, as from 179 to 181"
            )
    return geometry


def _place(path: Location, feature: Feature) -> str:
    return str(path) if feature.row is None else f"{path}, row {feature.row}"


def _repair(geometry: Any, feature: Feature, path: Location) -> Any:
    import shapely

    if _crosses_too_often(geometry):
        raise DataError(
            f"{feature.where} crosses itself, or has parts that overlap, more than {MOST_CROSSINGS:,} times",
            str(path),
            feature.row,
            "write its parts as areas of their own, or repair it with a tool for maps first",
        )
    whole = shapely.make_valid(geometry)
    areas = [part for part in shapely.get_parts(whole) if part.geom_type in GEOMETRIES["areas"]]
    if not areas:
        raise DataError(f"{feature.where} encloses nothing and cannot be repaired", str(path), feature.row)
    return areas[0] if len(areas) == 1 else shapely.union_all(areas)


def _crosses_too_often(geometry: Any) -> bool:
    """Whether it has more than MOST_CROSSINGS rings and crossings; does not list all of them."""
    import numpy as np
    import shapely

    rings = shapely.get_rings(shapely.get_parts(geometry))
    vertices, ring = shapely.get_coordinates(rings, return_index=True)
    edges = shapely.linestrings(np.stack([vertices[:-1], vertices[1:]], axis=1)[ring[1:] == ring[:-1]])
    tree = shapely.STRtree(edges)
    # Two edges on one line are neighbours; with more than two, each is compared with each.
    _, times = np.unique(shapely.to_wkb(shapely.normalize(edges)), return_counts=True)
    n_found, begin, n_asked = len(rings) + int(((times - 1) * (times - 2)).sum()) // 2, 0, 1
    while begin < len(edges) and n_found <= MOST_CROSSINGS:
        # Few at first: one edge may cross all others, and every answer is listed before it is counted.
        asked, _ = tree.query(edges[begin : begin + n_asked], predicate="crosses")
        n_found += (len(asked) + 1) // 2
        begin += n_asked
        n_asked = min(2 * n_asked, 1024) if len(asked) <= MOST_CROSSINGS // 8 else max(1, n_asked // 4)
    return n_found > MOST_CROSSINGS


def _check_degrees(geometry: Any, feature: Feature, path: Location) -> None:
    import numpy as np
    import shapely

    at = shapely.get_coordinates(geometry)
    off = np.flatnonzero(~((np.abs(at[:, 1]) <= 90) & (np.abs(at[:, 0]) <= 360)))
    if not len(off):
        return
    lon, lat = at[off[0]].tolist()
    if not (np.isfinite(lon) and np.isfinite(lat)):
        raise DataError(f"{feature.where} has a coordinate that is not a number", str(path), feature.row)
    what = f"the latitude {lat:g}" if abs(lat) > 90 else f"the longitude {lon:g}"
    swapped = abs(lon) <= 90 and abs(lat) <= 360
    raise DataError(
        f"{feature.where} has {what}, which is not on the earth",
        str(path),
        feature.row,
        "longitude and latitude look swapped: the longitude comes first" if swapped else None,
    )


def _typed(values: list[Any]) -> tuple[Any, ...]:
    """Text that is numbers throughout becomes numbers."""
    present = [value for value in values if value is not None]
    if not present or not all(isinstance(value, str) for value in present):
        return tuple(values)
    try:
        numbers = [None if value is None else float(value) for value in values]
    except ValueError:
        return tuple(values)
    return tuple(numbers)
