"""A recogniser's state becomes bytes and comes back.

What is kept is canonical for each pattern by itself, under the pattern's fingerprint, not for the groups that happen
to run it: so patterns can be added, removed, renamed or regrouped between two runs. Unchanged ones go on where they
were, new ones start fresh as a cohort of their own, removed ones are dropped. A pickle would be shorter and would run
whatever it holds.

All of it is gathered, and put back, for some entities as well as for all of them: see `changes`.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.compiler.for_each import Member
from wayeb_py.compiler.pattern import automaton_digest
from wayeb_py.engine.binding import Binding
from wayeb_py.engine.episodes import Episode, EpisodeJoiner
from wayeb_py.engine.reorder import Rows, join_rows
from wayeb_py.engine.saved.operators import MAGIC
from wayeb_py.engine.saved.repeats import Repeats
from wayeb_py.engine.saved.state_checks import (
    check_entities,
    check_memory,
    check_slots,
    expect,
    misfit,
    read_arrays,
    read_batch,
    telling_misfits,
)
from wayeb_py.engine.stepping.cohort import Cohort
from wayeb_py.engine.stepping.place_stepper import PlaceStepper
from wayeb_py.engine.stepping.steppers import RunStepper, TableStepper
from wayeb_py.engine.values import NO_VALUE, Memory
from wayeb_py.errors import DataError
from wayeb_py.kernels import arrival

I32 = npt.NDArray[np.int32]

VERSION = 2  # 3 is a list of operators: see `operators`


@dataclass(frozen=True, slots=True)
class Remembered:
    """All that an entity recogniser remembers: patterns bound to entities, open episodes, what may be repeated."""

    binding: Binding
    joiner: EpisodeJoiner | None
    repeats: Repeats | None


# Saving.
def save(remembered: Remembered) -> bytes:
    """Everything that a later recogniser needs to go on from here."""
    header, arrays, blobs = gather(remembered, slice(0, len(remembered.binding.entities)), 0)
    return pack_arrays(header, arrays, blobs)


def gather(
    remembered: Remembered, rows: slice | I32, n_before: int
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]], dict[str, bytes]]:
    """Header, arrays and blobs of the state of some entities, with the keys of those from a number on."""
    binding, joiner = remembered.binding, remembered.joiner
    n = len(binding.entities)
    arrays: dict[str, npt.NDArray[Any]] = {
        "count": binding.count[rows],
        "last_ts": binding.last_ts[rows],
        "last_seen": binding.last_seen[rows],
        "tail_ts": binding.tail_ts[: n * binding.tail].reshape(n, binding.tail)[rows].reshape(-1),
        "greatest": _rows_of(binding.reorderer.greatest, rows, n, arrival.NEVER),
        "floor_ts": _rows_of(binding.floor_ts, rows, n, arrival.NEVER),
    }
    blobs: dict[str, bytes] = {
        "schema": bytes(binding.schema.serialize()),
        "keys": _ipc(pa.record_batch({"key": binding.entities.keys_since(n_before)})),
    }
    if binding.cleaner is not None:
        binding.cleaner.grow(n)
        arrays |= {f"clean.{name}": array[rows] for name, array in binding.cleaner.arrays.items()}
    if remembered.repeats is not None:
        entries = remembered.repeats.entries(binding.last_ts)
        arrays |= {f"repeat_{name}": array for name, array in entries.items()}
    held = binding.reorderer.held
    if held is not None and not isinstance(rows, slice):
        held = held.where(are_among(held.entity, rows, n))
    if held is not None:
        blobs["held"] = _ipc(held.batch)
        arrays["held_entity"], arrays["held_ts"] = held.entity, held.ts
    cohorts = [_save_cohort(cohort, f"c{i}", rows, n, arrays) for i, cohort in enumerate(binding.cohorts)]
    among = None if isinstance(rows, slice) else set(rows.tolist())
    header = {
        "ticks_per_s": binding.ticks_per_s,
        "key_type": str(binding.entities.key_type),
        "tail": binding.tail,
        "lateness": binding.reorderer.lateness,
        "clean": None if binding.cleaner is None else binding.cleaner.what,
        "cohorts": cohorts,
        "next_birth": max(cohort.birth for cohort in binding.cohorts) + 1,
        "names": {p.name: p.fingerprint for p in binding.patterns.compiled},
        "open": [
            [
                binding.patterns.compiled[e.pattern].name,
                binding.rows.place_name(e.place),
                e.entity,
                e.start_ts,
                e.start_seq,
                e.end_ts,
                e.end_seq,
                e.n_detections,
            ]
            for e in (joiner.open.values() if joiner is not None else [])
            if among is None or e.entity in among
        ],
    }
    return header, arrays, blobs


def pack_arrays(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]], blobs: dict[str, bytes]) -> bytes:
    """The bytes of what was gathered."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return pack_state(header, {**blobs, "arrays": buffer.getvalue()})


def are_among(entity: I32, rows: I32, n: int) -> npt.NDArray[np.bool_]:
    """Whether each of these is one of the others, of so many that there are."""
    among = np.zeros(n, dtype=bool)
    among[rows] = True
    return among[entity]


def _save_cohort(
    cohort: Cohort, prefix: str, rows: slice | I32, n: int, arrays: dict[str, npt.NDArray[Any]]
) -> dict[str, Any]:
    patterns: list[dict[str, Any]] = []
    for stepper in cohort.steppers:
        if isinstance(stepper, TableStepper):
            group = stepper.group
            states = stepper.state[rows]
            for i, number in enumerate(group.patterns):
                pattern = cohort.patterns[number]
                key = f"{prefix}.p{number}"
                patterns.append(
                    {"fingerprint": pattern.fingerprint, "automaton": automaton_digest(pattern), "key": key}
                )
                arrays[f"{key}.state"] = group.components[:, i][states].astype(np.uint16)
                own = pattern.tracker.n_registers if pattern.tracker is not None else 0
                if own:
                    columns = slice(group.first_register[i], group.first_register[i] + own)
                    for name, registers in (("seq", stepper.register_seq), ("ts", stepper.register_ts)):
                        table = registers[: n * group.n_registers].reshape(n, group.n_registers)
                        arrays[f"{key}.{name}"] = table[rows, columns].copy()
        else:
            key = f"{prefix}.p{stepper.number}"
            pattern = stepper.pattern
            patterns.append({"fingerprint": pattern.fingerprint, "automaton": automaton_digest(pattern), "key": key})
            for name, array in stepper.slots.save(rows).items():
                arrays[f"{key}.{name}"] = array
            if isinstance(stepper, PlaceStepper):
                patterns[-1]["places"] = list(stepper.lookup.names)
    memories = []
    for i, (value, memory) in enumerate(cohort.values.memories.items()):
        key = f"{prefix}.m{i}"
        for name, array in memory.arrays.items():
            # Of entities whose events are all held back nothing is remembered yet.
            arrays[f"{key}.{name}"] = _rows_of(array, rows, n, memory.fills[name])
        entry = {"value": repr(value), "key": key, "names": list(memory.arrays)}
        fills = {name: int(fill) for name, fill in memory.fills.items()}
        memories.append({**entry, "fills": fills, "words": memory.words})
    seen = cohort.seen
    if seen is not None:
        arrays[f"{prefix}.seen"] = _rows_of(seen, rows, n, 1)
    return {"birth": cohort.birth, "patterns": patterns, "memories": memories, "seen": seen is not None}


def _rows_of(array: npt.NDArray[Any], rows: slice | I32, n: int, fill: Any) -> npt.NDArray[Any]:
    """Some rows of an array that may be too short: what is missing is filled."""
    if len(array) >= n:
        return array[rows]
    if isinstance(rows, slice):
        return _padded(array, n, fill)
    return np.where(rows < len(array), array[np.minimum(rows, len(array) - 1)] if len(array) else fill, fill).astype(
        array.dtype
    )


def _padded(array: npt.NDArray[Any], n: int, fill: Any) -> npt.NDArray[Any]:
    """The array with at least so many rows."""
    if len(array) >= n:
        return array
    return np.concatenate([array, np.full(n - len(array), fill, dtype=array.dtype)])


def _ipc(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def pack_state(header: dict[str, Any], blobs: dict[str, bytes]) -> bytes:
    """The bytes of a state, with a version and a checksum."""
    header = {**header, "blobs": {name: len(blob) for name, blob in blobs.items()}}
    text = json.dumps(header).encode()
    head, size = MAGIC + VERSION.to_bytes(2, "little"), len(text).to_bytes(8, "little")
    return b"".join([head, _checksum(head, size, text, *blobs.values()), size, text, *blobs.values()])


def _checksum(*pieces: bytes) -> bytes:
    """Of everything but itself, the head included."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


# Restoring.
def unpack_state(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What was packed; DataError if it is damaged or of another version."""
    at = len(MAGIC) + 2
    if data[: len(MAGIC)] != MAGIC or len(data) < at + 40:
        raise DataError("this is not a saved state", hint="remove it to start afresh")
    version = int.from_bytes(data[len(MAGIC) : at], "little")
    if version not in (1, VERSION):
        raise DataError(
            f"the saved state has version {version}, and this release reads version {VERSION}",
            hint="go on with the release that wrote it, or remove it to start afresh",
        )
    checksum, size = data[at : at + 32], int.from_bytes(data[at + 32 : at + 40], "little")
    sealed = (data[at + 40 :],) if version == 1 else (data[:at], data[at + 32 :])  # version 1 left its head out
    if _checksum(*sealed) != checksum:
        raise DataError(
            "the saved state is damaged: its checksum does not fit", hint="restore it from a copy, or remove it"
        )
    with telling_misfits():
        header = json.loads(data[at + 40 : at + 40 + size])
        blobs, begin = {}, at + 40 + size
        for name, length in header["blobs"].items():
            blobs[name] = data[begin : begin + length]
            begin += length
        if begin != len(data):
            raise misfit("its parts do not add up")
        return header, blobs


def saved_schema(data: bytes) -> pa.Schema:
    """The types of the events that the saved state has read."""
    with telling_misfits():
        return pa.ipc.read_schema(pa.py_buffer(unpack_state(data)[1]["schema"]))


def restore(remembered: Remembered, data: bytes) -> None:
    """Puts a fresh recogniser, bound to the types of its events, where the saved one was."""
    binding = remembered.binding
    header, blobs = unpack_state(data)
    if "changes" in header:
        raise DataError("these are changes of a state, and not one", hint="remove it to start afresh")
    with telling_misfits():
        refuse_other_events(header, binding)
        keys = read_ipc(blobs["keys"]).column("key")
        if keys.null_count:
            raise misfit("keys are missing")
        binding.entities.learn(keys)
        if len(binding.entities) != len(keys):
            raise misfit("keys are repeated")
        binding.cohorts = _regroup(binding, _births(header), header["next_birth"])
        fill(remembered, header, blobs, arrays_of(blobs), np.arange(len(keys), dtype=np.int32))


def arrays_of(blobs: dict[str, bytes]) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a state."""
    return read_arrays(blobs["arrays"])


def _births(header: dict[str, Any]) -> dict[str, Any]:
    return {p["fingerprint"]: (c["birth"], p, c) for c in header["cohorts"] for p in c["patterns"]}


def fill(
    remembered: Remembered,
    header: dict[str, Any],
    blobs: dict[str, bytes],
    arrays: dict[str, npt.NDArray[Any]],
    rows: I32,
) -> None:
    """Puts what was gathered of some entities, whose keys are known by now, in its place."""
    binding, joiner = remembered.binding, remembered.joiner
    n, births = len(binding.entities), _births(header)
    check_entities(header, arrays, len(rows), n)
    binding.grow(n)
    for name in ("count", "last_ts", "last_seen"):
        getattr(binding, name)[rows] = arrays[name]
    binding.floor_ts = _padded(binding.floor_ts, n, arrival.NEVER)
    binding.floor_ts[rows] = np.where(arrays["count"] > 0, arrays["last_ts"], arrays["floor_ts"])
    _restore_tails(binding, arrays["tail_ts"], header["tail"], rows)
    binding.reorderer.greatest = _padded(binding.reorderer.greatest, n, arrival.NEVER)
    binding.reorderer.greatest[rows] = arrays["greatest"]
    if binding.cleaner is not None and header.get("clean") == binding.cleaner.what:
        binding.cleaner.grow(n)
        for name, array in binding.cleaner.arrays.items():
            expect(arrays[f"clean.{name}"], name, array.dtype, len(rows))
            array[rows] = arrays[f"clean.{name}"]
    if "held" in blobs:
        held = Rows(binding.conform(read_ipc(blobs["held"])), arrays["held_entity"], arrays["held_ts"])
        if held.batch.num_rows != len(held):
            raise misfit("held")
        before = binding.reorderer.held
        binding.reorderer.held = held if before is None else join_rows(before, held)
    if remembered.repeats is not None:
        _restore_repeats(remembered.repeats, binding, arrays, pa.ipc.read_schema(pa.py_buffer(blobs["schema"])), n)
    for cohort in binding.cohorts:
        _restore_cohort(cohort, births, arrays, rows, n)
    names = {p.name: (number, p.fingerprint) for number, p in enumerate(binding.patterns.compiled)}
    for name, place_name, entity, *rest in header["open"] if joiner is not None else []:
        number, fingerprint = names.get(name, (0, ""))
        place = binding.rows.place_number(number, place_name)
        if joiner is not None and header["names"].get(name) == fingerprint and place is not None:
            joiner.open[(entity, number, place)] = Episode(number, place, entity, *rest)


def _restore_repeats(
    repeats: Repeats, binding: Binding, arrays: dict[str, npt.NDArray[Any]], schema: pa.Schema, n: int
) -> None:
    """What the new input may repeat; a state of a recogniser that did not remember it knows the last times only."""
    columns_stay = sorted(schema.names) == sorted(binding.schema.names)
    if "repeat_entity" in arrays:
        entries = {name: arrays[f"repeat_{name}"] for name in ("entity", "ts", "digest")}
    else:
        known = np.flatnonzero(arrays["count"] > 0)
        entries = {"entity": known, "ts": arrays["last_ts"][known], "digest": np.zeros(len(known), dtype=np.uint64)}
    repeats.restore(entries, n, binding.reorderer.held, columns_stay and "repeat_entity" in arrays)


def refuse_other_events(header: dict[str, Any], binding: Binding) -> None:
    for what, before, now in (
        ("keys", header["key_type"], str(binding.entities.key_type)),
        ("times, in ticks a second,", header["ticks_per_s"], binding.ticks_per_s),
    ):
        if before != now:
            raise DataError(
                f"the saved state has {what} of {before}, and the events have {now}",
                hint="convert the events to what they were, or remove the saved state to start afresh",
            )
    if header["lateness"] != binding.reorderer.lateness and "held" in header["blobs"]:
        raise DataError(
            "the saved state holds events back for another lateness",
            hint="go on with the lateness that was used before",
        )


def _regroup(binding: Binding, births: dict[str, Any], next_birth: int) -> list[Cohort]:
    """Cohorts of the patterns that have been reading since the same moment; what is not known starts now."""
    patterns = binding.patterns
    members: dict[int, list[tuple[int, Member]]] = {}
    for number, member in enumerate(patterns.members):
        pattern = member.compiled
        known = births.get(pattern.fingerprint)
        birth = known[0] if known is not None and known[1]["automaton"] == automaton_digest(pattern) else next_birth
        members.setdefault(birth, []).append((number, member))
    return [cohort for birth in sorted(members) for cohort in binding.make_cohorts(members[birth], birth)]


def _restore_cohort(
    cohort: Cohort, births: dict[str, Any], arrays: dict[str, npt.NDArray[Any]], rows: I32, n: int
) -> None:
    first = births.get(next(iter(cohort.patterns.values())).fingerprint)
    if first is None or first[0] != cohort.birth:
        cohort.start_among(n)
        return
    saved = first[2]
    key_of = {p["fingerprint"]: p["key"] for p in saved["patterns"]}
    prefix = next(iter(key_of.values())).split(".")[0]
    if saved["seen"]:
        cohort.seen = _padded(np.zeros(0, dtype=np.uint8) if cohort.seen is None else cohort.seen, n, 1)
        expect(arrays[f"{prefix}.seen"], "seen", np.uint8, len(rows))
        cohort.seen[rows] = arrays[f"{prefix}.seen"]
    for stepper in cohort.steppers:
        if isinstance(stepper, TableStepper):
            _restore_tables(cohort, stepper, key_of, arrays, rows, n)
        else:
            entry = next(p for p in saved["patterns"] if p["fingerprint"] == stepper.pattern.fingerprint)
            _restore_slots(stepper, entry, arrays, rows)
    values = {repr(value): value for value in cohort.looking_back()}
    for entry in saved["memories"]:
        value = values.get(entry["value"])
        if value is None:
            continue
        memory = cohort.values.memories.setdefault(value, Memory())
        if memory.words != entry["words"]:
            memory.words = list(entry["words"])
            memory.code_of = {word: code for code, word in enumerate(memory.words) if word is not None}
        for name in entry["names"]:
            some = arrays[f"{entry['key']}.{name}"]
            check_memory(name, some, entry["words"], len(rows))
            fill = memory.fills[name] = entry.get("fills", {}).get(name, NO_VALUE if name == "bits" else 0)
            memory.arrays[name] = _padded(memory.arrays.get(name, some[:0]), n, fill)
            memory.arrays[name][rows[: len(some)]] = some  # which an older release did not fill up


def _restore_tables(
    cohort: Cohort,
    stepper: TableStepper,
    key_of: dict[str, str],
    arrays: dict[str, npt.NDArray[Any]],
    rows: I32,
    n: int,
) -> None:
    group = stepper.group
    keys = [key_of[cohort.patterns[number].fingerprint] for number in group.patterns]
    for key in keys:
        expect(arrays[f"{key}.state"], "state", np.uint16, len(rows))
    stepper.state[rows] = _joined_states(group.components, [arrays[f"{key}.state"] for key in keys], len(rows))
    for i, (key, own) in enumerate(zip(keys, group.patterns, strict=True)):
        tracker = cohort.patterns[own].tracker
        width = 0 if tracker is None else tracker.n_registers
        if width:
            columns = slice(group.first_register[i], group.first_register[i] + width)
            for name, registers in (("seq", stepper.register_seq), ("ts", stepper.register_ts)):
                table = registers[: n * group.n_registers].reshape(n, group.n_registers)
                expect(arrays[f"{key}.{name}"].reshape(-1), name, np.int64, len(rows) * width)
                table[rows, columns] = arrays[f"{key}.{name}"].reshape(len(rows), width)


def _joined_states(
    components: npt.NDArray[np.integer[Any]], states: list[npt.NDArray[Any]], n: int
) -> npt.NDArray[np.uint16]:
    """The group's state of each entity from the states of its patterns; `components[state, pattern]` has them all.

    Pattern by pattern: what the patterns so far are in has a number among the combinations that the group knows.
    Sorting the rows of all entities, as `np.unique` does, took half a minute for five million.
    """
    known = np.zeros(len(components), dtype=np.int64)  # [state of the group] -> number of the combination so far
    number = np.zeros(n, dtype=np.int64)  # [entity] -> the same
    for i, own in enumerate(states):
        width = int(components[:, i].max(initial=0)) + 1
        codes, known = np.unique(known * width + components[:, i].astype(np.int64), return_inverse=True)
        known = known.reshape(-1)
        mine = number * width + own.astype(np.int64)
        number = np.minimum(np.searchsorted(codes, mine), len(codes) - 1)
        if (own >= width).any() or (codes[number] != mine).any():
            raise misfit("state")
    state_of = np.zeros(len(components), dtype=np.uint16)
    state_of[known] = np.arange(len(components), dtype=np.uint16)
    return state_of[number]


def _restore_slots(
    stepper: RunStepper | PlaceStepper, entry: dict[str, Any], arrays: dict[str, npt.NDArray[Any]], rows: I32
) -> None:
    key = entry["key"]
    saved = {name: arrays[f"{key}.{name}"] for name in (*stepper.slots.arrays, "length")}
    bounds = {"state": (0, stepper.n_states)}
    if isinstance(stepper, PlaceStepper):
        bounds["place"] = (-1, len(entry["places"]))  # -1 is for all that are far
    kinds = {name: array.dtype for name, array in stepper.slots.arrays.items()}
    check_slots(saved, stepper.slots.widths, kinds, len(rows), bounds)
    if isinstance(stepper, PlaceStepper):
        saved = _renumber_places(saved, entry["places"], list(stepper.lookup.names), stepper.n_registers)
    stepper.slots.restore(saved, rows)


def _renumber_places(
    saved: dict[str, npt.NDArray[Any]], before: list[str], now: list[str], n_registers: int
) -> dict[str, npt.NDArray[Any]]:
    """Slots under the numbers that their places have now; those of places that are gone are dropped.

    Place -1 stands for all that have been far and have no slot. A place that is new has not read anything: where those
    are not in the initial state, it needs a slot to be.
    """
    if before == now:
        return saved
    number_of = {name: number for number, name in enumerate(now)}
    place = np.array([*(number_of.get(name, -2) for name in before), -1], dtype=np.int32)[saved["place"]]
    entity = np.repeat(np.arange(len(saved["length"])), saved["length"])
    known = set(before)
    new = np.array([number for name, number in number_of.items() if name not in known], dtype=np.int32)
    beside = entity[place == -1]  # entities whose far places are not in the initial state
    slots = {**saved, "place": np.concatenate([place, np.tile(new, len(beside))])}
    entity = np.concatenate([entity, np.repeat(beside, len(new))])
    n_new = len(beside) * len(new)
    slots["state"] = np.concatenate([saved["state"], np.zeros(n_new, dtype=saved["state"].dtype)])
    kept = np.flatnonzero(slots["place"] >= -1)
    order = kept[np.lexsort((slots["place"][kept], entity[kept]))]  # an entity's slots are in the order of their places
    if n_registers:
        for name in ("seq", "ts"):
            registers = np.concatenate([saved[name], np.zeros(n_new * n_registers, dtype=saved[name].dtype)])
            slots[name] = registers.reshape(-1, n_registers)[order].reshape(-1)
    length = np.bincount(entity[order], minlength=len(saved["length"])).astype(np.int64)
    return {**slots, "place": slots["place"][order], "state": slots["state"][order], "length": length}


def _restore_tails(binding: Binding, saved: npt.NDArray[np.int64], tail: int, rows: I32) -> None:
    """The last times by entity, from rings of one size to rings of another."""
    n = len(binding.entities)
    before = saved.reshape(len(rows), tail)
    after = binding.tail_ts[: n * binding.tail].reshape(n, binding.tail)
    if tail == binding.tail:
        after[rows] = before
        return
    count = binding.count[rows]
    for back in range(1, min(tail, binding.tail) + 1):
        known = np.flatnonzero(count >= back)
        seq = count[known] - back
        after[rows[known], seq % binding.tail] = before[known, seq % tail]


def read_ipc(data: bytes) -> pa.RecordBatch:
    """A batch of a state."""
    return read_batch(data)
