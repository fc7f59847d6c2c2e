"""Background knowledge becomes places on the map: what lies around the tracks, coarser where it is very detailed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wayeb_py.view.scene import ShownPlace
from wayeb_py.view.tracks import Tracks
from wayeb_py.view.world import Box

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns

Found = tuple[str, str, str | None, Any]  # declaration, shape, name, geometry

MOST_VERTICES = 60_000
MARGIN_DEGREES = 0.5


def places_of(patterns: CompiledPatterns, tracks: Tracks) -> tuple[list[ShownPlace], list[str]]:
    """The places that the pattern files declare, as far as they are near the tracks, and notes on what was left out."""
    if not patterns.knowledge.declared:
        return [], []
    import shapely

    around = _around(tracks)
    found: list[Found] = []
    for name, known in patterns.knowledge.declared.items():
        from wayeb_py.spatial.read_places import read_features  # for start-up time

        patterns.knowledge.load(name)  # refuses files that a pattern file may not read
        features = read_features(patterns.knowledge.path_of(known), known.shape)
        for called, geometry in zip(features.names, features.geometries, strict=True):
            if around is None or shapely.intersects(geometry, shapely.box(*around)):
                found.append((name, known.shape, called or None, geometry))
    n_vertices = sum(int(shapely.get_num_coordinates(geometry)) for *_, geometry in found)
    notes = []
    if n_vertices > MOST_VERTICES:
        found = _simplified(found)
        notes.append("Borders and coasts are drawn coarser than they are.")
    return [ShownPlace(name, shape, called, _lines(geometry)) for name, shape, called, geometry in found], notes


def box_of(tracks: Tracks) -> Box | None:
    """Where the tracks lie: west, south, east, north."""
    if np.isnan(tracks.lon).all():
        return None
    west, east = float(np.nanmin(tracks.lon)), float(np.nanmax(tracks.lon))
    south, north = float(np.nanmin(tracks.lat)), float(np.nanmax(tracks.lat))
    return west, south, east, north


def _around(tracks: Tracks) -> Box | None:
    box = box_of(tracks)
    if box is None:
        return None
    west, south, east, north = box
    margin = MARGIN_DEGREES + 0.2 * max(east - west, north - south)
    return west - margin, south - margin, east + margin, north + margin


def _simplified(found: list[Found]) -> list[Found]:
    import shapely

    tolerance_degrees = 0.0002
    while True:
        coarser = [(n, s, c, shapely.simplify(g, tolerance_degrees, preserve_topology=True)) for n, s, c, g in found]
        if sum(int(shapely.get_num_coordinates(g)) for *_, g in coarser) <= MOST_VERTICES or tolerance_degrees > 0.5:
            return coarser
        tolerance_degrees *= 2


def _lines(geometry: Any) -> tuple[tuple[tuple[float, float], ...], ...]:
    """All its points, lines and rings, each as a line."""
    import shapely

    lines = []
    for part in shapely.get_parts(geometry):
        rings = shapely.get_rings(part) if shapely.get_type_id(part) == shapely.GeometryType.POLYGON else [part]
        lines += [tuple((float(lon), float(lat)) for lon, lat in shapely.get_coordinates(ring)) for ring in rings]
    return tuple(lines)
