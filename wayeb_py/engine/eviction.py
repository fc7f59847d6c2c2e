"""Entities that have been silent for long leave a recogniser's state, which would otherwise only grow.

With `forget after D` an entity's next event begins a new word if it comes more than D after its last one: an empty
state serves such an entity as well as the kept one. Let T be the newest time that √n + 1 of the n entities have
reached: an entity whose last event is more than D before T leaves. So a few with a clock from the future do not make
all others old. Where the caller passes the wall clock, times ahead of it do not count, however many entities have them;
it passes the one by which the batch was planned, so that a repeated batch drops the same entities.

*Not taken*: the newest time of all, which one event from the year 2099 spoils for good; a share of the entities, a
tenth say, as a crowd that has left would then stay in the state for as long as it is nine tenths of it.

The caller decides when: a stream does it where a batch ends. Time advances in steps of D/8, so that the state is not
rebuilt for every single entity. How events are cut therefore changes when an entity leaves the state, not what is
detected, with one exception. An event that is within D of its entity's own last one, but arrives so far behind others
that these are more than D past that last one, begins a new word if the entity has left by then.
"""

from __future__ import annotations

import io
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.arrays import Bool
from wayeb_py.engine.binding import Binding
from wayeb_py.engine.saved.packing import pack_state, unpack_state
from wayeb_py.kernels.ticks import NEVER

STEPS = 8
AHEAD_S = 3600.0  # a time this far ahead of the clock is wrong, not merely from a clock that is a little fast


def find_evictable(binding: Binding, now_s: float | None = None) -> Bool | None:
    """Which entities have been silent for longer than the patterns remember; None if there are none.

    `now_s` is the wall clock, if it is known: times ahead of it do not measure the others.
    """
    last = binding.reorderer.greatest[: len(binding.entities)]
    if binding.forget < 0:
        return None
    heard = last != NEVER
    believed = last[heard]
    if now_s is not None:
        in_time = believed[believed <= int((now_s + AHEAD_S) * binding.ticks_per_s)]
        believed = in_time if len(in_time) else believed  # a stream wholly in the future has a clock of its own
    oldest = _oldest_kept(believed, binding.forget)
    aged: Bool = heard & (last < oldest)
    return aged if aged.any() else None


def _oldest_kept(last: npt.NDArray[np.int64], forget: int) -> int:
    """The oldest last event with which an entity still counts as recent, by the times that are believed."""
    step = max(1, forget // STEPS)
    oldest = int(NEVER)
    while n := len(last):
        place = max(0, n - 1 - isqrt(n))
        oldest = int(np.partition(last, place)[place]) // step * step - forget
        kept = last[last >= oldest]
        if len(kept) == n:  # otherwise fewer entities have to agree
            break
        last = kept
    return oldest


def keep_entities(saved: bytes, kept: Bool) -> bytes:
    """The state with the kept entities alone."""
    header, blobs = unpack_state(saved)
    number = np.cumsum(kept) - 1  # [entity before] -> entity after
    with np.load(io.BytesIO(blobs["arrays"]), allow_pickle=False) as loaded:
        arrays = {name: loaded[name] for name in loaded.files}
    slotted = {name.removesuffix(".length") for name in arrays if name.endswith(".length")}
    after: dict[str, npt.NDArray[Any]] = {}
    for name, array in arrays.items():
        key = name.rpartition(".")[0]
        if name.startswith("repeat_"):
            continue  # only an endless input drops entities, and it repeats nothing
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
