"""Saves what changed since an older state: the cost grows with the events, not with the entities.

    state of a moment ──▶ changes ──▶ changes ──▶ …      each the same arrays as a state, with rows of some entities

An entity changes with its own events alone: those that arrive, and held ones that are recognised because the recogniser
stops waiting for more. So noting the numbers of the entities of every batch is enough; comparing states would cost as
much as writing them.

Changes fit a state only as long as it has the same arrays of the same kinds: where patterns have come or gone, or a
value is remembered for the first time, or entities have left, the whole state must be kept again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import I32
from wayeb_py.engine.saved.packing import arrays_of, pack_arrays, read_ipc, unpack_state
from wayeb_py.engine.saved.state import RecogniserState, are_among, fill, gather, refuse_other_events
from wayeb_py.errors import DataError

Shape = tuple[Any, ...]  # which arrays a state has, of which types, and of which patterns and values

# A second of a live stream touches a few entities a thousand times: they are joined now and again, not all at its end.
MOST_RECENT, FEW_ROWS = 64, 1 << 14

_OWN = ("entities", "held_entity", "held_ts")  # arrays whose presence says nothing about the state


class Changes:
    """What a recogniser has noted since its state was last kept."""

    def __init__(self) -> None:
        self._touched: list[I32] = []
        self._recent: list[I32] = []
        self._n_before = 0
        self._shape: Shape | None = None  # the shape of the kept state; None where there is none to change
        self._shape_now: Shape | None = None  # the shape of what was saved since anything changed

    def touch(self, entities: I32) -> None:
        """Notes that these entities have changed; the array must not be written to afterwards."""
        self._recent.append(entities)
        if len(self._recent) >= MOST_RECENT:
            joined = np.concatenate(self._recent)
            self._touched.append(np.unique(joined) if len(joined) <= FEW_ROWS else joined)
            self._recent.clear()
        self._shape_now = None

    def saved(self, header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Notes what the whole state was saved as."""
        self._shape_now = _shape(header, arrays)

    def settle(self, remembered: RecogniserState | None) -> None:
        """Marks the current state as kept, whole or by its changes."""
        self._touched.clear()
        self._recent.clear()
        self._n_before = 0 if remembered is None else len(remembered.binding.entities)
        self._shape = None if remembered is None else self._shape_now or shape_of(remembered)
        self._shape_now = None

    def forget(self) -> None:
        """Notes that entities have other numbers: the kept state cannot take changes any more."""
        self._shape = self._shape_now = None

    @property
    def n_before(self) -> int:
        """How many entities there were when the state was kept."""
        return self._n_before

    def entities(self, n: int) -> I32:
        """The entities that have changed or are new, by number; there are `n` entities now."""
        touched = np.concatenate([np.zeros(0, dtype=np.int32), *self._touched, *self._recent])
        if 16 * len(touched) < n:  # sorting a few costs less than looking at all
            old = np.unique(touched)
            return np.concatenate([old[old < self._n_before], np.arange(self._n_before, n)]).astype(np.int32)
        changed = np.zeros(n, dtype=bool)
        changed[self._n_before :] = True
        changed[touched] = True
        return np.flatnonzero(changed).astype(np.int32)

    def save(self, remembered: RecogniserState | None) -> tuple[bytes, I32] | None:
        """The changes and the entities concerned; None where the whole state must be kept: changes cannot express it,
        or most of it has changed."""
        if remembered is None or self._shape is None or remembered.repeats is not None:
            return None
        n = len(remembered.binding.entities)
        changed = self.entities(n)
        if 2 * len(changed) > n:
            return None
        header, arrays, blobs = gather(remembered, changed, self._n_before)
        self._shape_now = _shape(header, arrays)
        if self._shape_now != self._shape:
            return None
        counted = {"before": self._n_before, "after": n}
        return pack_arrays({**header, "changes": counted}, {**arrays, "entities": changed}, blobs), changed


def shape_of(remembered: RecogniserState) -> Shape:
    """Which arrays a state has, and their types: changes fit a state of the same shape."""
    header, arrays, _ = gather(remembered, np.zeros(0, dtype=np.int32), len(remembered.binding.entities))
    return _shape(header, arrays)


def amend(remembered: RecogniserState, data: bytes) -> I32:
    """Puts changes into a recogniser whose state they started from; returns the entities concerned."""
    binding, joiner = remembered.binding, remembered.joiner
    header, blobs = unpack_state(data)
    arrays = arrays_of(blobs)
    counted, rows = header.get("changes"), arrays.get("entities")
    if counted is None or rows is None or counted["before"] != len(binding.entities) or remembered.repeats is not None:
        raise DataError("these are not changes of this state", hint="remove them to go on from an older state")
    refuse_other_events(header, binding)
    binding.entities.learn(read_ipc(blobs["keys"]).column("key"))
    n = len(binding.entities)
    if counted["after"] != n or (len(rows) and not 0 <= rows.min() <= rows.max() < n):
        raise DataError("the changes of the state do not fit it", hint="remove them to go on from an older state")
    held = binding.reorderer.held
    if held is not None:
        others = held.where(~are_among(held.entity, rows, len(binding.entities)))
        binding.reorderer.held = others if len(others) else None
    if joiner is not None:
        among = set(rows.tolist())
        for key in [key for key in joiner.open if key[0] in among]:
            del joiner.open[key]
    fill(remembered, header, blobs, arrays, rows)
    return rows


def _shape(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Shape:
    kinds = {name: (array.dtype, array.shape[1:]) for name, array in arrays.items() if name not in _OWN}
    cohorts = [{**c, "memories": [[m["value"], m["key"]] for m in c["memories"]]} for c in header["cohorts"]]
    return kinds, cohorts, header["tail"], header["lateness"], header["key_type"], header["ticks_per_s"]
