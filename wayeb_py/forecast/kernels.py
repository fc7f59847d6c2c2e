"""The compiled loops of forecasts: symbols become the nodes that each entity's word walks through, and what is likely
there."""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np

from wayeb_py.kernels.compiled import f64, i32, i64, inlined, kernel, read_only, two_i64, u8, u16
from wayeb_py.kernels.structs import F64, I32, I64, U8, struct


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


@inlined
def _stepped(row, code, symbol_of_code, entity, fresh, step_to, width, node_of):  # type: ignore[no-untyped-def]
    """The entity of a row, and where its word's step leads."""
    e = np.uint64(entity[row])
    before = np.uint64(node_of[e])
    if fresh[row] != 0:
        before = np.uint64(0)
    return e, step_to[before * width + np.uint64(symbol_of_code[np.uint64(code[row])])]


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
        e, node = _stepped(nth, code, symbol_of_code, entity, fresh, step_to, width, node_of)
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


@kernel(
    nb.int64(u16[::1], read_only(i32), i32[::1], u8[::1], i32[::1], nb.int64, i32[::1], i64[::1], read_only(f64),
             f64[::1], i32[::1], i32[::1])
)  # fmt: skip
def follow_every(  # type: ignore[no-untyped-def]
    code, symbol_of_code, entity, fresh, step_to, n_symbols, node_of, class_, probability, told, row_out, node_out
):
    """Steps as `follow_likely` does, and writes what each event's node tells: told[row] = probability[class * nodes +
    node]. Notes the rows and nodes that are marked, by a step to -1 - node, and returns how many."""
    n_out = 0
    n_nodes = step_to.shape[0] // n_symbols
    has_classes = class_.shape[0] > 0
    width = np.uint64(n_symbols)
    for row in range(code.shape[0]):
        nth = np.uint64(row)
        e, node = _stepped(nth, code, symbol_of_code, entity, fresh, step_to, width, node_of)
        if node < 0:
            node = -1 - node
            row_out[n_out] = row
            node_out[n_out] = node
            n_out += 1
        node_of[e] = node
        at = np.int64(node)
        if has_classes:
            at += class_[nth] * n_nodes
        told[nth] = probability[np.uint64(at)]
    return n_out


class JointNodes(NamedTuple):
    """Joint nodes, by number: a node of each model."""

    tuples: I32  # [joint node * models + model]
    step_to: I32  # [joint node * symbols + symbol]: the next one, or -1 where it is not known yet
    keys: I64  # a hash table of their keys, -1 where it is free
    slots: I32  # the numbers that belong to the keys
    n_known: I64  # how many there are


@inlined
def _join(j, symbol, symbols, next_node, models, nodes):  # type: ignore[no-untyped-def]
    """The joint node after a symbol, made where there is none yet; -1 where there is no room."""
    n_models = models.shape[0] // 3
    key = np.int64(0)
    for m in range(n_models):
        node = nodes.tuples[j * n_models + m]
        node = next_node[models[m] + node * models[n_models + m] + symbols[symbol * n_models + m]]
        key += node * models[2 * n_models + m]
    slot = key % nodes.keys.shape[0]
    while nodes.keys[slot] >= 0 and nodes.keys[slot] != key:
        slot = (slot + 1) % nodes.keys.shape[0]
    if nodes.keys[slot] == key:
        return np.int64(nodes.slots[slot])
    number = nodes.n_known[0]
    if (number + 1) * n_models > nodes.tuples.shape[0]:
        return np.int64(-1)
    nodes.n_known[0] += 1
    nodes.keys[slot], nodes.slots[slot] = key, number
    for m in range(n_models):
        node = nodes.tuples[j * n_models + m]
        nodes.tuples[number * n_models + m] = next_node[
            models[m] + node * models[n_models + m] + symbols[symbol * n_models + m]
        ]
    return number


@kernel(
    nb.int64(nb.int64, u16[::1], i32[::1], i32[::1], u8[::1], i32[::1], i32[::1], i32[::1], i64[::1],
             struct(JointNodes), i32[::1])
)  # fmt: skip
def follow_joint(  # type: ignore[no-untyped-def]
    begin, code, symbol_of_code, entity, fresh, joint_of, symbols, next_node, models, nodes, reached
):
    """reached[row] = the joint node of the entity after the event, from row `begin` on; returns the row at which there
    was no room for another one, or the number of rows.

    `models` has, for all models, where their steps begin in `next_node`, how many symbols they have, and what their
    node counts in a key; `symbols[joint symbol * models + model]`.
    """
    nodes = JointNodes(*nodes)
    n_symbols = symbols.shape[0] // (models.shape[0] // 3)
    width = np.uint64(n_symbols)
    for row in range(begin, code.shape[0]):
        nth = np.uint64(row)
        e = np.uint64(entity[nth])
        j = np.uint64(joint_of[e])
        if fresh[nth] != 0:
            j = np.uint64(0)
        symbol = np.uint64(symbol_of_code[np.uint64(code[nth])])
        to = nodes.step_to[j * width + symbol]
        if to < 0:
            made = _join(np.int64(j), np.int64(symbol), symbols, next_node, models, nodes)
            if made < 0:
                return np.int64(row)
            to = np.int32(made)
            nodes.step_to[j * width + symbol] = to
        joint_of[e] = to
        reached[nth] = to
    return np.int64(code.shape[0])


@kernel(nb.void(i64[::1], i64[::1], i32[::1], nb.int64))
def put_joint(new, keys, slots, first):  # type: ignore[no-untyped-def]
    """Puts keys that are not there yet into the hash table of joint nodes, with numbers from `first` on."""
    for nth in range(new.shape[0]):
        slot = new[nth] % keys.shape[0]
        while keys[slot] >= 0:
            slot = (slot + 1) % keys.shape[0]
        keys[slot] = new[nth]
        slots[slot] = first + nth


@kernel(nb.int64(i32[::1], u8[::1], i32[::1]))
def note_joint(reached, is_marked, row_out):  # type: ignore[no-untyped-def]
    """Notes the rows whose joint node is marked; returns how many."""
    n_out = 0
    for row in range(reached.shape[0]):
        row_out[n_out] = row
        n_out += is_marked[np.uint64(reached[np.uint64(row)])]
    return n_out


BLOCK_ROWS = 1 << 10  # whose nodes stay in the cache from model to model


@kernel(nb.int64(i32[::1], read_only(f64), u8[::1], f64[::1], i32[::1], i32[::1]))
def tell_joint(reached, probability, has_span, told, row_out, node_out):  # type: ignore[no-untyped-def]
    """told[model * rows + row] = probability[model * joint nodes + joint node]; notes the rows and joint nodes at which
    some model has an interval, where there is room for any, and returns how many."""
    n_out, n_rows, n_nodes = 0, reached.shape[0], has_span.shape[0]
    notes = row_out.shape[0] > 0
    for begin in range(0, n_rows, BLOCK_ROWS):
        end = min(begin + BLOCK_ROWS, n_rows)
        for model in range(probability.shape[0] // n_nodes):
            to, of = model * n_rows, model * n_nodes
            for row in range(begin, end):
                told[np.uint64(to + row)] = probability[np.uint64(of + reached[np.uint64(row)])]
        if notes:
            for row in range(begin, end):
                j = reached[np.uint64(row)]
                row_out[n_out], node_out[n_out] = row, j
                n_out += has_span[np.uint64(j)]
    return n_out


@kernel(nb.int64(i32[::1], i32[::1], read_only(i64), read_only(i64), nb.boolean, i64[::1], i64[::1], u8[::1]))
def write_spans(row, node, table, ts, in_time, first, last, known):  # type: ignore[no-untyped-def]
    """Writes where the intervals of some rows begin and end, and the bit of each such row; returns how many there are.

    `table[node * 3 + 1]` and `+ 2` say where, from the event on where it is `in_time`, and -1 where there is none.
    """
    n = 0
    for nth in range(row.shape[0]):
        at = np.uint64(node[nth]) * np.uint64(3)
        begin, end = table[at + np.uint64(1)], table[at + np.uint64(2)]
        if begin < 0:
            continue
        to = np.uint64(row[nth])
        now = ts[to] if in_time else np.int64(0)
        first[to], last[to] = begin + now, end + now
        known[to >> np.uint64(3)] |= np.uint8(1 << (to & np.uint64(7)))
        n += 1
    return n


KNOWN, BEGINS, ENDS = range(3)  # a place at an event: known before, within reach for the first time, or forgotten


class PlaceLists(NamedTuple):
    """The places that have been within reach in each entity's word: linked lists of slots."""

    head: I32  # [entity]: its newest slot, or -1
    after: I32  # [slot]: the next of its list, or of the free ones
    place: I32  # [slot]
    free: I64  # the first free slot or -1, and how many slots have ever been used


class PlaceEvents(NamedTuple):
    """An event and a place each."""

    row: I32
    slot: I32
    place: I32
    near: I32  # the index among the places within reach; -1 where it is not
    kind: U8


@inlined
def _note(n, row, slot, near, kind, lists, events):  # type: ignore[no-untyped-def]
    events.row[n], events.slot[n], events.near[n], events.kind[n] = row, slot, near, kind
    events.place[n] = lists.place[slot]


@kernel(two_i64(i64, i32[::1], u8[::1], i64[::1], i32[::1], struct(PlaceLists), struct(PlaceEvents)))
def list_places(begin, entity, fresh, first, place, lists, events):  # type: ignore[no-untyped-def]
    """Lists, event by event from `begin` on, the places that are or were within reach of the entity in its word.

    The places near the event at row r are place[first[r] : first[r + 1]]. Returns the row that was reached and how many
    were listed; -1 - row where there are too few slots.
    """
    lists, events = PlaceLists(*lists), PlaceEvents(*events)
    n = 0
    for row in range(begin, entity.shape[0]):
        e = entity[row]
        n_known = 0
        slot = lists.head[e]
        while slot >= 0:
            n_known += 1
            slot = lists.after[slot]
        n_near = first[row + 1] - first[row]
        if n + n_known + n_near > events.row.shape[0]:
            return np.int64(row), np.int64(n)
        if lists.free[1] + n_near > lists.after.shape[0]:
            return np.int64(-1 - row), np.int64(n)
        if fresh[row] != 0:
            slot = lists.head[e]
            while slot >= 0:
                following = lists.after[slot]
                _note(n, row, slot, -1, ENDS, lists, events)
                n += 1
                lists.after[slot] = lists.free[0]
                lists.free[0] = slot
                slot = following
            lists.head[e] = -1
        slot = lists.head[e]
        while slot >= 0:
            near = -1
            for one in range(first[row], first[row + 1]):
                if place[one] == lists.place[slot]:
                    near = one
            _note(n, row, slot, near, KNOWN, lists, events)
            n += 1
            slot = lists.after[slot]
        known = lists.head[e]
        for one in range(first[row], first[row + 1]):
            slot = known
            while slot >= 0 and lists.place[slot] != place[one]:
                slot = lists.after[slot]
            if slot >= 0:
                continue
            slot = np.int32(lists.free[0])
            if slot >= 0:
                lists.free[0] = lists.after[slot]
            else:
                slot = np.int32(lists.free[1])
                lists.free[1] += 1
            lists.place[slot] = place[one]
            lists.after[slot] = lists.head[e]
            lists.head[e] = slot
            _note(n, row, slot, one, BEGINS, lists, events)
            n += 1
    return np.int64(entity.shape[0]), np.int64(n)


@kernel(nb.void(i32[::1], i32[::1], u8[::1], i32[::1], read_only(i32), nb.int64, i32[::1], i32[::1], i32[::1]))
def follow_places(symbol, slot, kind, start, next_node, n_symbols, node_of, before, after):  # type: ignore[no-untyped-def]
    """Steps as `follow` does, by slots: one that begins starts at a given node, one that ends stays where it is."""
    for nth in range(symbol.shape[0]):
        s = slot[nth]
        node = start[nth] if kind[nth] == BEGINS else node_of[s]
        before[nth] = node
        if kind[nth] != ENDS:
            node = next_node[node * n_symbols + symbol[nth]]
            node_of[s] = node
        after[nth] = node


IN_TIME, IN_EVENTS = 1, 2  # a forecast has an interval, in time or in events


class LookedUp(NamedTuple):
    """The rows and nodes at which models have forecasts, model after model, and what their tables say."""

    row: I32
    node: I32  # with its class: the place in the model's table
    place: I64  # empty where no pattern is for each place
    begin: I64  # [model]: where its rows begin, and at the end their number
    following: I64  # [model]: room
    number: I32  # [model]
    in_time: U8  # [model]
    first_node: I64  # [model]: where its table begins
    integer: I64  # [node * 3]: probability, and where its interval begins, or -1, and ends
    real: F64  # the bits of `integer` as floats


class ForecastColumns(NamedTuple):
    """Rows of forecasts; intervals in ticks of time, or in events, as their mark says."""

    which: I32
    place: I64
    entity: I32
    ts: I64
    seq: I64
    probability: F64
    first: I64
    last: I64
    mark: U8


@inlined
def _make_row(n, model, at, time, who, number, found, columns):  # type: ignore[no-untyped-def]
    node = np.uint64((found.first_node[model] + found.node[at]) * 3)
    first, last = found.integer[node + np.uint64(1)], found.integer[node + np.uint64(2)]
    mark = 0
    if first >= 0:
        mark = IN_EVENTS
        if found.in_time[model] != 0:
            mark = IN_TIME
            first += time
            last += time
    columns.which[n] = found.number[model]
    columns.entity[n] = who
    columns.ts[n] = time
    columns.seq[n] = number
    columns.probability[n] = found.real[node]
    columns.first[n] = first
    columns.last[n] = last
    columns.mark[n] = mark


@kernel(i64(read_only(i64), i32[::1], i64[::1], struct(LookedUp), struct(ForecastColumns)))
def make_rows(ts, entity, seq, found, columns):  # type: ignore[no-untyped-def]
    """Makes the rows of a chunk, by event, then by model, then as they are given; returns how many."""
    found, columns = LookedUp(*found), ForecastColumns(*columns)
    n_models = found.number.shape[0]
    n_rows = ts.shape[0]
    has_places = found.place.shape[0] > 0
    end = found.row.shape[0]
    n = 0
    is_full = not has_places and end == n_models * n_rows
    for model in range(n_models):
        found.following[model] = found.begin[model]
        is_full = is_full and found.begin[model + 1] - found.begin[model] == n_rows
    if is_full:  # one of each model at every event
        for row in range(n_rows):
            nth = np.uint64(row)
            time, who, number = ts[nth], entity[nth], seq[nth]
            for model in range(n_models):
                at = found.begin[model] + row
                _make_row(np.uint64(n), np.uint64(model), np.uint64(at), time, who, number, found, columns)
                n += 1
        return n
    while n < end:
        least = np.int32(2**31 - 1)
        for model in range(n_models):
            at = found.following[model]
            if at < found.begin[model + 1] and found.row[at] < least:
                least = found.row[at]
        time, who, number = ts[least], entity[least], seq[least]
        for model in range(n_models):
            at = found.following[model]
            while at < found.begin[model + 1] and found.row[at] == least:
                _make_row(np.uint64(n), np.uint64(model), np.uint64(at), time, who, number, found, columns)
                if has_places:
                    columns.place[n] = found.place[at]
                n += 1
                at += 1
            found.following[model] = at
    return n
