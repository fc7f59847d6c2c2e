"""The compiled loop of forecasts: symbols become the nodes that each entity's word walks through."""

from __future__ import annotations

import numba as nb

from wayeb_py.kernels.compiled import i32, kernel, read_only, u8


@kernel(nb.void(read_only(i32), i32[::1], u8[::1], read_only(i32), nb.int64, i32[::1], i32[::1], i32[::1]))
def follow(symbol, entity, fresh, next_node, n_symbols, node_of, before, after):  # type: ignore[no-untyped-def]
    """before[row], after[row] = the node of the entity at its event before, of whichever word, and at this event.

    A word begins at node 0, as does an entity without events. `next_node[node * n_symbols + symbol]`; `node_of[entity]`
    is kept from chunk to chunk.
    """
    for row in range(symbol.shape[0]):
        e = entity[row]
        node = node_of[e]
        before[row] = node
        if fresh[row] != 0:
            node = 0
        node = next_node[node * n_symbols + symbol[row]]
        after[row] = node
        node_of[e] = node
