"""The compiled loop that lists the places within reach of a position, each with its distance."""

from __future__ import annotations

import numba as nb
import numpy as np

from wayeb_py.kernels.arrival import _kernel, _read_only, f64, i32, i64
from wayeb_py.spatial.area_kernels import LATTICE, covering
from wayeb_py.spatial.kernels import STACK, TREE, box_square, chord_to_piece, chords, is_position, metres, vector


@_kernel(
    i64(
        _read_only(f64), _read_only(f64), i64, *TREE, i32[::1], nb.boolean, *LATTICE, f64, f64[::1], i32[::1],
        i64[::1], i32[::1], f64[::1],
    )
)  # fmt: skip
def places_within(  # type: ignore[no-untyped-def]
    lon, lat, begin, boxes, level_first, leaf, ends, lonlat, bend, place_of, are_areas,
    bounds, nodes, state, child, entry_first, entry_place, entry_inside, entry_begin, leaf_edges,
    cover_first, cover_place, edges, edge_first,
    reach_m, chord_of, touched, first, place, distance_m,
):  # fmt: skip
    """For the rows from `begin` on the places at most `reach_m` away, by number, with their distances.

    first[row + 1] is where the row's places end. `chord_of[place]` is infinite before and after. Returns the row to
    go on from: it stops where the output might not hold another row.
    """
    stack_level = np.empty(STACK, dtype=np.int64)
    stack_nth = np.empty(STACK, dtype=np.int64)
    n_places = chord_of.shape[0]
    _, beyond = chords(reach_m)
    for row in range(begin, lon.shape[0]):
        n_out = first[row]
        if n_out + n_places > place.shape[0]:
            return row
        n_touched = 0
        if reach_m >= 0.0 and is_position(lon[row], lat[row]):
            if are_areas:
                n_touched = covering(
                    lon[row], lat[row], bounds, nodes, child, entry_first, entry_place,
                    entry_inside, entry_begin, leaf_edges, cover_first, cover_place, edges, edge_first,
                    chord_of, touched,
                )  # fmt: skip
            qx, qy, qz = vector(lon[row], lat[row])
            top = -1
            if ends.shape[0] > 0:
                top = 0
                stack_level[0] = level_first.shape[0] - 2
                stack_nth[0] = 0
            while top >= 0:
                level, nth = stack_level[top], stack_nth[top]
                top -= 1
                if box_square(qx, qy, qz, boxes, level_first[level] + nth) > beyond * beyond:
                    continue
                if level > 0:
                    for node in (2 * nth, 2 * nth + 1):
                        if level_first[level - 1] + node < level_first[level]:
                            top += 1
                            stack_level[top], stack_nth[top] = level - 1, node
                    continue
                for piece in range(nth * leaf, min((nth + 1) * leaf, ends.shape[0])):
                    own = place_of[piece]
                    best = min(chord_of[own], beyond)
                    if best > 0.0:
                        chord = chord_to_piece(qx, qy, qz, ends, lonlat, bend, piece, best)
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
                place[n_out] = found[nth]
                distance_m[n_out] = away_m
                n_out += 1
        first[row + 1] = n_out
    return lon.shape[0]
