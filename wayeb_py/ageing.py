"""Entities that have not been heard of for long leave a recogniser's state, which would otherwise only grow.

With `forget after D` an entity's next event begins a new word if it comes more than D after its last one: for such an
entity an empty state is as good as the one that is kept. Which entities these are is told by the newest event of all:
those whose last event is more than D older. Time is looked at in steps of D/8, so that the state is not rebuilt for
every single one; a state then depends on the events up to it and not on how they were cut.

What is given up by this: an event of an entity that is delivered more than D later than others of its time, and is
within D of the entity's own last one, begins a new word, too.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py import kernels
from wayeb_py.state import pack_state, unpack_state

if TYPE_CHECKING:
    from wayeb_py.bound import Bound

Mask = npt.NDArray[np.bool_]
STEPS = 8


def find_aged(bound: Bound) -> Mask | None:
    """Which entities have not been heard of for longer than the patterns remember; None if there are none."""
    n = len(bound.entities)
    last = bound.reorderer.greatest[:n]
    if bound.forget < 0 or not n:
        return None
    step = max(1, bound.forget // STEPS)
    newest = int(last.max()) // step * step
    heard = last != kernels.NEVER
    aged: Mask = heard & (last < newest - bound.forget)
    return aged if aged.any() else None


def keep_entities(saved: bytes, kept: Mask) -> bytes:
    """The state without the other entities."""
    header, blobs = unpack_state(saved)
    number = np.cumsum(kept) - 1  # [entity before] -> entity after
    with np.load(io.BytesIO(blobs["arrays"]), allow_pickle=False) as loaded:
        arrays = {name: loaded[name] for name in loaded.files}
    slotted = {name.removesuffix(".length") for name in arrays if name.endswith(".length")}
    after: dict[str, npt.NDArray[Any]] = {}
    for name, array in arrays.items():
        key = name.rpartition(".")[0]
        if name in ("held_entity", "held_ts"):
            held = kept[arrays["held_entity"]]
            after[name] = number[array[held]].astype(array.dtype) if name == "held_entity" else array[held]
        elif key in slotted and not name.endswith(".length"):
            slots = np.repeat(kept, arrays[f"{key}.length"])
            after[name] = array.reshape(len(slots), -1)[slots].reshape(-1) if len(slots) else array
        elif name == "tail_ts":
            after[name] = array.reshape(len(kept), -1)[kept].reshape(-1)
        else:
            after[name] = array[kept]
    if "held" in blobs:
        batch = _open(blobs["held"])
        blobs["held"] = _close(batch.filter(pa.array(kept[arrays["held_entity"]])))
    keys = _open(blobs["keys"])
    blobs["keys"] = _close(keys.filter(pa.array(kept)))
    header["open"] = [
        [name, place, int(number[entity]), *rest] for name, place, entity, *rest in header["open"] if kept[entity]
    ]
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **after)
    blobs["arrays"] = buffer.getvalue()
    return pack_state({name: value for name, value in header.items() if name != "blobs"}, blobs)


def _open(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def _close(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
