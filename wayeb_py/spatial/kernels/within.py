"""Positions become the places within reach of them, each with its distance."""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import allocating_kernel, f64, i32, i64, read_only
from wayeb_py.kernels.structs import F64, I32, struct
from wayeb_py.spatial.kernels.areas import AreaCells, covering
from wayeb_py.spatial.kernels.boxes import STACK, TreeBoxes, begin_walk, is_beyond, next_leaf
from wayeb_py.spatial.kernels.index import Arcs, chord_to_piece, chords, is_position, metres, vector
from wayeb_py.spatial.kernels.points import PlacesWithin


class TouchedPlaces(NamedTuple):
    """What is known of the places at one position: the chord to each, infinite between two rows, and a list of them."""

    chord_of: F64
    touched: I32


@allocating_kernel(
    i64(
        read_only(f64), read_only(f64), i64, struct(TreeBoxes), struct(Arcs), i32[::1], nb.boolean, struct(AreaCells),
        f64, struct(TouchedPlaces), struct(PlacesWithin),
    )
)  # fmt: skip
def places_within(  # type: ignore[no-untyped-def]
    lon, lat, begin, boxes, arcs, place_of, are_areas, cells, reach_m, scratch, within
):
    """Writes the places at most `reach_m` away for the rows from `begin` on; place_of[piece] is the place of a piece.

    Returns the row to continue from: it stops where the output might not hold another row.
    """
    boxes, arcs, cells = TreeBoxes(*boxes), Arcs(*arcs), AreaCells(*cells)
    scratch, within = TouchedPlaces(*scratch), PlacesWithin(*within)
    chord_of, touched = scratch.chord_of, scratch.touched
    stack = np.empty((STACK, 2), dtype=np.int64)
    n_places, n_pieces = chord_of.shape[0], arcs.ends.shape[0]
    _, beyond = chords(reach_m)
    for row in range(begin, lon.shape[0]):
        n_out = within.first[row]
        if n_out + n_places > within.place.shape[0]:
            return row
        n_touched = 0
        if reach_m >= 0.0 and is_position(lon[row], lat[row]):
            if are_areas:
                n_touched = covering(lon[row], lat[row], cells, chord_of, touched)
            qx, qy, qz = vector(lon[row], lat[row])
            top = begin_walk(boxes, stack) if n_pieces > 0 else -1
            while top >= 0:
                leaf, top, _ = next_leaf(is_beyond, (qx, qy, qz, beyond), boxes, stack, top)
                if leaf < 0:
                    break
                for piece in range(leaf * boxes.leaf, min((leaf + 1) * boxes.leaf, n_pieces)):
                    own = place_of[piece]
                    best = min(chord_of[own], beyond)
                    if best > 0.0:
                        chord = chord_to_piece(qx, qy, qz, arcs, piece, best)
                        if chord < best:
                            if chord_of[own] == np.inf:
                                touched[n_touched] = own
                                n_touched += 1
                            chord_of[own] = chord
        found = touched[:n_touched]
        found.sort()
        for nth in range(n_touched):
            away_m = metres(chord_of[found[nth]])
            chord_of[found[nth]] = np.inf
            if away_m <= reach_m:
                within.place[n_out] = found[nth]
                within.distance_m[n_out] = away_m
                n_out += 1
        within.first[row + 1] = n_out
    return lon.shape[0]
