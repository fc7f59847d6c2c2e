"""Detections become GeoJSON or KML: a point each, where the last event was; an episode is the line of its events.

A pair has two of each: a MultiPoint of both positions, a MultiLineString of both tracks; `of` names their entities.
*Not taken*: a GeometryCollection, which GeoJSON asks to avoid where the parts are of one type, and which many readers
do not draw.

A detection knows when and not where, so the positions are read from the events again, only for the entities that
have detections. Lines that cross the antimeridian are cut there, as GeoJSON asks. Like the other outputs, the file
appears whole or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from wayeb_py.dsl import meaning as m
from wayeb_py.files.output.table_text import iso_times, plain_table
from wayeb_py.files.output.whole_file import begin_whole
from wayeb_py.files.output.write import OutputFormat
from wayeb_py.files.stores import Location
from wayeb_py.view.read_detections import waited_until
from wayeb_py.view.tracks import Tracks, seconds_of, texts_of, tracks_of

Position = tuple[float, float]
Piece = list[tuple[float, Position]]  # (seconds, position)


@dataclass(frozen=True, slots=True)
class Where:
    """Where a row of the detections was: its positions in pieces, each of one entity."""

    is_episode: bool
    is_pair: bool
    pieces: tuple[Piece, ...]
    of: tuple[str, ...]  # [piece]: its entity
    until_s: float | None = None  # until when nothing came, after a match that a silence had to follow


KML_COLOURS = ("5b49d1", "d17f2f", "1b8ee0", "6f9d2a", "c75b8e", "b4a312", "9a56c2", "1f7d8a", "3a65e2", "d6765d")


class GeoOutput:
    """Gathers detections, and writes them with their positions when they are complete."""

    def __init__(
        self,
        path: Location,
        output_format: OutputFormat,
        layout: m.Stream,
        read_positions: Callable[[set[str]], pa.Table],
    ) -> None:
        self._whole = begin_whole(path)
        self._format = output_format
        self._layout = layout
        self._read_positions = read_positions
        self._tables: list[pa.Table] = []

    def open(self) -> None:
        self._whole.open()

    def write(self, table: pa.Table) -> None:
        if table.num_rows or not self._tables:
            self._tables.append(plain_table(table))

    def commit(self) -> None:
        """Writes everything and puts the file in its place."""
        found = pa.concat_tables(self._tables)
        keys = [key for name in ("entity", "other") for key in _keys(found, name)]
        tracks = tracks_of(self._read_positions({key for key in keys if key is not None}), self._layout, [])
        places = list(_places(found, tracks, self._layout.time_unit))
        rows = _rows(found)
        if self._format == "geojson":
            self._write(_geojson(rows, places))
        else:
            self._write(_kml(rows, places))
        self._whole.commit()

    def _write(self, pieces: Iterator[str]) -> None:
        for piece in pieces:
            self._whole.write(piece.encode())

    def discard(self) -> None:
        self._whole.discard()


def _rows(found: pa.Table) -> list[dict[str, Any]]:
    """The columns of each row as JSON can hold them."""
    for index, column in enumerate(found.schema):
        if pt.is_timestamp(column.type):
            found = found.set_column(index, column.name, iso_times(found.column(index)))
    rows: list[dict[str, Any]] = found.to_pylist()
    return [{name: _plain(value) for name, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _keys(found: pa.Table, name: str) -> list[str | None]:
    keys: list[str | None] = [None] * found.num_rows
    return texts_of(found.column(name)).to_pylist() if name in found.column_names else keys


def _places(found: pa.Table, tracks: Tracks, time_unit: str | None) -> Iterator[Where]:
    """Where each row was."""
    is_episode = "end_ts" in found.column_names
    number_of = {name: number for number, name in enumerate(tracks.entities)}
    end = seconds_of(found.column("end_ts" if is_episode else "ts"), time_unit)
    start = seconds_of(found.column("start_ts"), time_unit) if is_episode else end
    waited = waited_until(found, time_unit)
    entities, others = _keys(found, "entity"), _keys(found, "other")
    for entity, other, begin_s, end_s, until_s in zip(entities, others, start, end, waited, strict=True):
        pieces: list[Piece] = []
        of: list[str] = []
        for one in (entity, other):
            if one in number_of:
                rows = (tracks.rows if other is None else tracks.rows_of_pair)(number_of[one], begin_s, end_s)
                line = [
                    (float(tracks.time_s[row]), (float(tracks.lon[row]), float(tracks.lat[row])))
                    for row in range(*rows)
                    if not np.isnan(tracks.lon[row])
                ]
                cut = cut_at_antimeridian(line if is_episode else line[-1:])
                pieces += cut
                of += [one] * len(cut)
        yield Where(is_episode, other is not None, tuple(pieces), tuple(of), until_s)


def cut_at_antimeridian(line: Piece) -> list[Piece]:
    """The line in pieces that do not cross 180 degrees; the border point belongs to both sides."""
    if not line:
        return []
    pieces: list[Piece] = [[line[0]]]
    for (before_s, (lon, lat)), (after_s, (next_lon, next_lat)) in pairwise(line):
        if abs(next_lon - lon) > 180.0:
            border = 180.0 if lon > 0 else -180.0
            whole = next_lon + 2 * border - lon
            share = (border - lon) / whole if whole else 0.0
            at_s, at_lat = before_s + share * (after_s - before_s), lat + share * (next_lat - lat)
            pieces[-1].append((at_s, (border, at_lat)))
            pieces.append([(at_s, (-border, at_lat))])
        pieces[-1].append((after_s, (next_lon, next_lat)))
    return pieces


def _iso(seconds: float) -> str:
    text = str(np.datetime64(round(seconds * 1000), "ms"))
    return (text[:-4] if text.endswith(".000") else text) + "Z"


def _coordinates(piece: Piece) -> list[list[float]]:
    positions = [[round(lon, 7), round(lat, 7)] for _, (lon, lat) in piece]
    return positions if len(positions) > 1 else positions * 2  # a line has two positions at least


def _times(piece: Piece) -> list[str]:
    times = [_iso(seconds) for seconds, _ in piece]
    return times if len(times) > 1 else times * 2


def _geojson(rows: list[dict[str, Any]], places: list[Where]) -> Iterator[str]:
    yield '{"type": "FeatureCollection", "features": ['
    before = "\n"
    for row, where in zip(rows, places, strict=True):
        geometry: dict[str, Any] | None = None
        properties, pieces = row, where.pieces
        if pieces and where.is_pair:
            properties = row | {"of": list(where.of)}
        if pieces and not where.is_episode:
            points = [_coordinates(piece)[0] for piece in pieces]
            geometry = {"type": "Point", "coordinates": points[0]}
            if where.is_pair:
                geometry = {"type": "MultiPoint", "coordinates": points}
        elif len(pieces) == 1 and not where.is_pair:
            geometry = {"type": "LineString", "coordinates": _coordinates(pieces[0])}
            properties = properties | {"times": _times(pieces[0])}
        elif pieces:
            geometry = {"type": "MultiLineString", "coordinates": [_coordinates(piece) for piece in pieces]}
            properties = properties | {"times": [_times(piece) for piece in pieces]}
        feature = {"type": "Feature", "geometry": geometry, "properties": properties}
        yield before + json.dumps(feature, ensure_ascii=False, allow_nan=False)
        before = ",\n"
    yield "\n]}\n"


def _kml(rows: list[dict[str, Any]], places: list[Where]) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<kml xmlns="http://www.opengis.net/kml/2.2"><Document>\n'
    number_of = {name: number for number, name in enumerate(sorted({row["pattern"] for row in rows}))}
    for number in range(len(number_of)):
        colour = f"ff{KML_COLOURS[number % len(KML_COLOURS)]}"
        yield (
            f'<Style id="p{number}"><LineStyle><color>{colour}</color><width>3</width></LineStyle>'
            f"<IconStyle><color>{colour}</color></IconStyle></Style>\n"
        )
    for row, where in zip(rows, places, strict=True):
        yield _placemark(row, where, number_of[row["pattern"]])
    yield "</Document></kml>\n"


def _placemark(row: dict[str, Any], where: Where, style: int) -> str:
    data = "".join(
        f"<Data name={quoteattr(name)}><value>{_xml(value)}</value></Data>"
        for name, value in row.items()
        if value is not None
    )
    pieces, when, shape = where.pieces, "", ""
    if pieces:
        begin, end = min(piece[0][0] for piece in pieces), max(piece[-1][0] for piece in pieces)
        if where.is_episode or where.until_s is not None:
            until = _iso(end if where.until_s is None else where.until_s)
            when = f"<TimeSpan><begin>{_iso(begin)}</begin><end>{until}</end></TimeSpan>"
        else:
            when = f"<TimeStamp><when>{_iso(end)}</when></TimeStamp>"
        shapes = [_kml_line(piece) if where.is_episode else _kml_point(piece) for piece in pieces]
        shape = shapes[0] if len(shapes) == 1 else f"<MultiGeometry>{''.join(shapes)}</MultiGeometry>"
    others = f" {row['other']}" if row.get("other") is not None else ""
    name = _xml(f"{row['pattern']} {row['entity']}{others}")
    return (
        f"<Placemark><name>{name}</name>{when}<styleUrl>#p{style}</styleUrl>"
        f"<ExtendedData>{data}</ExtendedData>{shape}</Placemark>\n"
    )


def _kml_line(piece: Piece) -> str:
    return f"<LineString><tessellate>1</tessellate><coordinates>{_kml_positions(piece)}</coordinates></LineString>"


def _kml_point(piece: Piece) -> str:
    return f"<Point><coordinates>{_kml_positions(piece).split()[0]}</coordinates></Point>"


def _kml_positions(piece: Piece) -> str:
    return " ".join(f"{lon},{lat}" for lon, lat in _coordinates(piece))


def _xml(value: Any) -> str:
    # XML has no way at all to hold most control characters.
    return escape("".join(sign for sign in str(value) if sign >= " " or sign in "\t\n"))
