"""The compiled loops of forecasts: symbols become the nodes that each entity's word walks through, and what is likely
there."""

from __future__ import annotations

import numba as nb

from wayeb_py.kernels.compiled import f64, i32, i64, kernel, read_only, u8, u16


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
    nb.int64(
        u16[::1], read_only(i32), i32[::1], u8[::1], read_only(i32), nb.int64, i32[::1], i64[::1], read_only(f64),
        nb.float64, i32[::1], i32[::1],
    )
)  # fmt: skip
def follow_likely(  # type: ignore[no-untyped-def]
    code, symbol_of_code, entity, fresh, next_node, n_symbols, node_of, class_, probability, at_least, row_out, node_out
):
    """Steps as `follow` does, and notes the rows and nodes whose probability is large enough; returns how many.

    `probability[class * nodes + node]`; `class_[row]`, empty where there is one class.
    """
    n_out = 0
    n_nodes = next_node.shape[0] // n_symbols
    has_classes = class_.shape[0] > 0
    for row in range(code.shape[0]):
        e = entity[row]
        node = node_of[e]
        if fresh[row] != 0:
            node = 0
        node = next_node[node * n_symbols + symbol_of_code[code[row]]]
        node_of[e] = node
        at = node + class_[row] * n_nodes if has_classes else nb.int64(node)
        if probability[at] >= at_least:
            row_out[n_out] = row
            node_out[n_out] = node
            n_out += 1
    return n_out
