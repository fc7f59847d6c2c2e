"""The words of entities walk through the nodes of several models in one step: a joint node is a node of each.

Models over the same events read the same code of each event. The nodes that they are at together are few, far fewer
than they could be, so a joint node is made when a word first reaches it, as is the step to it; from then on a step is
one look-up for all models, and what a model says is a look-up by the joint node. *Not taken*: the product of all nodes
beforehand, most of which no word ever reaches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import mul

import numpy as np

from wayeb_py.arrays import F64, I32, I64, U8, U16, Bool
from wayeb_py.engine.values import Chunk
from wayeb_py.forecast.kernels import JointNodes, follow_joint, note_joint, put_joint, tell_joint
from wayeb_py.forecast.words.symbols import Walk
from wayeb_py.growing_arrays import lengthened, with_room

MOST_SYMBOLS = 1 << 9  # combinations of the models' symbols
MOST_NODES = 1 << 14  # with more, each model walks by itself
LEAST_ROOM = 1 << 10


class JointWalk:
    """The walks of several models in step; `is_likely[model][node]` and `has_span[model][node]` mark nodes."""

    def __init__(self, walks: Sequence[Walk], symbols_of_code: Sequence[I32]) -> None:
        self._walks = walks
        together = np.zeros(len(symbols_of_code[0]), dtype=np.int64)
        for walk, own in zip(walks, symbols_of_code, strict=True):
            together = together * walk.n_symbols + own
        _, first, joint = np.unique(together, return_index=True, return_inverse=True)
        symbols = np.stack([own[first] for own in symbols_of_code], axis=1)
        self._n_symbols = len(symbols)
        self.is_possible = self._n_symbols <= MOST_SYMBOLS and _product(map(len, walks)) < 2**62
        self._symbol_of_code: I32 = joint.reshape(-1).astype(np.int32)
        sizes = np.array([len(walk) for walk in walks], dtype=np.int64)
        # Where each model's steps begin, how wide they are, and what its node counts in the key of a joint node.
        width = np.array([walk.n_symbols for walk in walks], dtype=np.int64)
        self._models = np.stack([np.cumsum(sizes * width) - sizes * width, width, np.cumprod(sizes) // sizes])
        self._next: I32 = np.concatenate([walk.next_node for walk in walks])
        self._symbols: I32 = np.ascontiguousarray(symbols.reshape(-1), dtype=np.int32)
        self._joint_of: I32 | None = None  # [entity]; None while the walks have the nodes
        self._begin(LEAST_ROOM)

    def _begin(self, room: int) -> None:
        n = len(self._walks)
        self._tuples: I32 = np.zeros(room * n, dtype=np.int32)
        self._step_to: I32 = np.full(room * self._n_symbols, -1, dtype=np.int32)
        self._keys: I64 = np.full(4 * room, -1, dtype=np.int64)
        self._slots: I32 = np.zeros(4 * room, dtype=np.int32)
        self._count: I64 = np.zeros(1, dtype=np.int64)
        self._add_nodes(np.zeros((1, n), dtype=np.int32))

    def _add_nodes(self, tuples: I32) -> None:
        """Numbers joint nodes that are not known yet."""
        first, n = int(self._count[0]), len(self._walks)
        put_joint(tuples.astype(np.int64) @ self._models[2], self._keys, self._slots, first)
        self._tuples[first * n : (first + len(tuples)) * n] = tuples.reshape(-1)
        self._count[0] += len(tuples)

    def __len__(self) -> int:
        """How many joint nodes there are."""
        return int(self._count[0])

    def nodes(self, model: int) -> I32:
        """[joint node]: the node of a model."""
        n = len(self._walks)
        return self._tuples[: len(self) * n].reshape(-1, n)[:, model]

    def step(self, code: U16, chunk: Chunk, n_entities: int) -> I32:
        """The joint node after each event."""
        if self._joint_of is None:
            self._take_up(n_entities)
        assert self._joint_of is not None
        if n_entities > len(self._joint_of):
            self._joint_of = lengthened(self._joint_of, with_room(n_entities))
        reached: I32 = np.empty(len(code), dtype=np.int32)
        row = 0
        while True:
            nodes = JointNodes(self._tuples, self._step_to, self._keys, self._slots, self._count)
            row = follow_joint(
                row, code, self._symbol_of_code, chunk.entity, chunk.fresh, self._joint_of, self._symbols, self._next,
                self._models.reshape(-1), tuple(nodes), reached,
            )  # fmt: skip
            if row == len(code):
                return reached
            self._grow()

    def _grow(self) -> None:
        """Makes room for twice as many joint nodes."""
        room, n = 2 * len(self._step_to) // self._n_symbols, len(self._walks)
        known, tuples = len(self), self._tuples
        step_to, joint_of = self._step_to, self._joint_of
        self._begin(room)
        self._add_nodes(tuples[n : known * n].reshape(-1, n))
        self._step_to[: len(step_to)] = step_to
        self._joint_of = joint_of

    def _take_up(self, n_entities: int) -> None:
        """Goes on from the nodes of the walks."""
        n = max([n_entities, *(len(walk.node_of) for walk in self._walks)])
        nodes = np.stack([lengthened(walk.node_of, n, 0) for walk in self._walks], axis=1)
        tuples, joint = np.unique(nodes, axis=0, return_inverse=True)
        is_first = ~tuples.any(axis=1)  # the joint node 0 is there already
        self._begin(LEAST_ROOM)
        while len(self._step_to) // self._n_symbols <= len(tuples) + 1:
            self._grow()
        self._add_nodes(tuples[~is_first].astype(np.int32))
        number = np.where(is_first, 0, np.cumsum(~is_first)).astype(np.int32)
        self._joint_of = number[joint.reshape(-1)]

    def release(self) -> None:
        """Gives the nodes back to the walks."""
        if self._joint_of is not None:
            for model, walk in enumerate(self._walks):
                walk.node_of = np.ascontiguousarray(self.nodes(model)[self._joint_of])
            self._joint_of = None


def _product(numbers: Iterable[int]) -> int:
    return reduce(mul, numbers, 1)


def marked_rows(reached: I32, is_marked: Bool) -> I32:
    """The rows whose joint node is marked."""
    rows: I32 = np.empty(len(reached), dtype=np.int32)
    return rows[: note_joint(reached, np.ascontiguousarray(is_marked, dtype=np.uint8), rows)]


def tell(reached: I32, probability: F64, has_span: U8, told: F64) -> tuple[I32, I32]:
    """told[model, row] = probability[model, joint node] of the joint node that is reached, both flat; returns the rows
    whose joint node is marked, and these nodes."""
    room = len(reached) if has_span.any() else 0
    rows, nodes = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32)
    n = tell_joint(reached, probability, has_span, told, rows, nodes)
    return rows[:n], nodes[:n]
