"""The compiled loops of forecasts: symbols become the nodes that each entity's word walks through, and what is likely
there."""

from __future__ import annotations

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import i32, i64, kernel, read_only, u8, u16


@kernel(nb.void(read_only(i32), i32[::1], u8[::1], read_only(i32), nb.int64, i32[::1], i32[::1], i32[::1]))
def follow(symbol, entity, fresh, next_node, n_symbols, node_of, before, after):  # type: ignore[no-untyped-def]
    """before[row], after[row] = the node of the entity at its previous event, of whichever word, and at this event.

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


@kernel(
    nb.int64(u16[::1], read_only(i32), i32[::1], u8[::1], i32[::1], nb.int64, i32[::1], i64[::1], u8[::1], i32[::1],
             i32[::1])
)  # fmt: skip
def follow_likely(  # type: ignore[no-untyped-def]
    code, symbol_of_code, entity, fresh, step_to, n_symbols, node_of, class_, is_likely, row_out, node_out
):
    """Steps as `follow` does, and notes the rows and nodes that are likely enough; returns how many.

    `step_to[node * n_symbols + symbol]` is the next node, or -1 - that node where it is likely in some class of
    entities; `is_likely[class * nodes + node]` says in which. `class_[row]`, or nothing where there is one class.
    """
    n_out = 0
    n_nodes = step_to.shape[0] // n_symbols
    has_classes = class_.shape[0] > 0
    width = np.uint64(n_symbols)
    for row in range(code.shape[0]):
        nth = np.uint64(row)
        e = np.uint64(entity[nth])
        before = np.uint64(node_of[e])
        if fresh[nth] != 0:
            before = np.uint64(0)
        node = step_to[before * width + np.uint64(symbol_of_code[np.uint64(code[nth])])]
        if node >= 0:
            node_of[e] = node
            continue
        node = -1 - node
        node_of[e] = node
        if has_classes and is_likely[node + class_[row] * n_nodes] == 0:
            continue
        row_out[n_out] = row
        node_out[n_out] = node
        n_out += 1
    return n_out
