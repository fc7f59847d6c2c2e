"""A recogniser's state becomes bytes and comes back.

What is kept is canonical for each pattern by itself, under the pattern's fingerprint, not for the groups that happen
to run it: so patterns can be added, removed, renamed or regrouped between two runs. Unchanged ones go on where they
were, new ones start fresh as a cohort of their own, removed ones are dropped. A pickle would be shorter and would run
whatever it holds.
"""

from __future__ import annotations

import hashlib
import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py import kernels
from wayeb_py.cohort import Cohort
from wayeb_py.compiled import CompiledPattern
from wayeb_py.episodes import Episode
from wayeb_py.errors import DataError
from wayeb_py.groups import form_groups
from wayeb_py.members import Member
from wayeb_py.order import Rows
from wayeb_py.place_stepper import PlaceStepper
from wayeb_py.repeats import Repeats
from wayeb_py.steppers import RunStepper, TableStepper
from wayeb_py.values import Memory

if TYPE_CHECKING:
    from wayeb_py.bound import Bound
    from wayeb_py.recogniser import Recogniser

MAGIC = b"wayeb-state"
VERSION = 1


def automaton_digest(pattern: CompiledPattern) -> str:
    """Tells whether a pattern's states and registers mean what they meant when they were saved."""
    digest = hashlib.sha256(pattern.fingerprint.encode())
    if pattern.tracker is not None:
        for array in (pattern.tracker.next_state, pattern.tracker.moves, pattern.tracker.start):
            digest.update(array.tobytes())
        digest.update(repr(pattern.tracker.move_lists).encode())
    elif pattern.nfa is not None:
        for array in (pattern.nfa.first, pattern.nfa.successors):
            digest.update(array.tobytes())
    return digest.hexdigest()[:32]


# Saving.
def save(recogniser: Recogniser, bound: Bound) -> bytes:
    """Everything that a later recogniser needs to go on from here."""
    n = len(bound.entities)
    arrays: dict[str, npt.NDArray[Any]] = {
        "count": bound.count[:n],
        "last_ts": bound.last_ts[:n],
        "last_seen": bound.last_seen[:n],
        "tail_ts": bound.tail_ts[: n * bound.tail],
        "greatest": _padded(bound.reorderer.greatest, n, kernels.NEVER),
        "floor_ts": _padded(bound.floor_ts, n, kernels.NEVER),
    }
    blobs: dict[str, bytes] = {
        "schema": bytes(bound.schema.serialize()),
        "keys": _ipc(pa.record_batch({"key": bound.entities.keys()})),
    }
    if bound.cleaner is not None:
        bound.cleaner.grow(n)
        arrays |= {f"clean.{name}": array[:n] for name, array in bound.cleaner.arrays.items()}
    if recogniser.repeats is not None:
        entries = recogniser.repeats.entries(bound.last_ts)
        arrays |= {f"repeat_{name}": array for name, array in entries.items()}
    held = bound.reorderer.held
    if held is not None:
        blobs["held"] = _ipc(held.batch)
        arrays["held_entity"], arrays["held_ts"] = held.entity, held.ts
    cohorts = [_save_cohort(cohort, f"c{i}", n, arrays) for i, cohort in enumerate(bound.cohorts)]
    joiner = recogniser._joiner
    header = {
        "ticks_per_s": bound.ticks_per_s,
        "key_type": str(bound.entities.key_type),
        "tail": bound.tail,
        "lateness": bound.reorderer.lateness,
        "clean": None if bound.cleaner is None else bound.cleaner.what,
        "cohorts": cohorts,
        "next_birth": max(cohort.birth for cohort in bound.cohorts) + 1,
        "names": {p.name: p.fingerprint for p in bound.patterns.compiled},
        "open": [
            [
                bound.patterns.names[e.pattern],
                bound.place_name(e.place),
                e.entity,
                e.start_ts,
                e.start_seq,
                e.end_ts,
                e.end_seq,
                e.n_detections,
            ]
            for e in (joiner.open.values() if joiner is not None else [])
        ],
    }
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    blobs["arrays"] = buffer.getvalue()
    return pack_state(header, blobs)


def _save_cohort(cohort: Cohort, prefix: str, n: int, arrays: dict[str, npt.NDArray[Any]]) -> dict[str, Any]:
    patterns: list[dict[str, Any]] = []
    for stepper in cohort.steppers:
        if isinstance(stepper, TableStepper):
            group = stepper.group
            states = stepper.state[:n]
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
                        arrays[f"{key}.{name}"] = table[:, columns].copy()
        else:
            key = f"{prefix}.p{stepper.number}"
            pattern = stepper.pattern
            patterns.append({"fingerprint": pattern.fingerprint, "automaton": automaton_digest(pattern), "key": key})
            for name, array in stepper.slots.save(n).items():
                arrays[f"{key}.{name}"] = array
            if isinstance(stepper, PlaceStepper):
                patterns[-1]["places"] = list(stepper.lookup.names)
    memories = []
    for i, (value, memory) in enumerate(cohort.values.memories.items()):
        key = f"{prefix}.m{i}"
        for name, array in memory.arrays.items():
            arrays[f"{key}.{name}"] = array[:n]
        memories.append({"value": repr(value), "key": key, "names": list(memory.arrays), "words": memory.words})
    seen = cohort.seen
    if seen is not None:
        arrays[f"{prefix}.seen"] = _padded(seen, n, 1)
    return {"birth": cohort.birth, "patterns": patterns, "memories": memories, "seen": seen is not None}


def _padded(array: npt.NDArray[Any], n: int, fill: Any) -> npt.NDArray[Any]:
    if len(array) >= n:
        return array[:n]
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
    body = b"".join(blobs.values())
    checksum = hashlib.sha256(text + body).digest()
    return MAGIC + VERSION.to_bytes(2, "little") + checksum + len(text).to_bytes(8, "little") + text + body


# Restoring.
def unpack_state(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What was packed; DataError if it is damaged or of another version."""
    at = len(MAGIC) + 2
    if data[: len(MAGIC)] != MAGIC or len(data) < at + 40:
        raise DataError("this is not a saved state", hint="remove it to start afresh")
    version = int.from_bytes(data[len(MAGIC) : at], "little")
    if version != VERSION:
        raise DataError(
            f"the saved state has version {version}, and this release reads version {VERSION}",
            hint="go on with the release that wrote it, or remove it to start afresh",
        )
    checksum, size = data[at : at + 32], int.from_bytes(data[at + 32 : at + 40], "little")
    if hashlib.sha256(data[at + 40 :]).digest() != checksum:
        raise DataError(
            "the saved state is damaged: its checksum does not fit", hint="restore it from a copy, or remove it"
        )
    header = json.loads(data[at + 40 : at + 40 + size])
    blobs, begin = {}, at + 40 + size
    for name, length in header["blobs"].items():
        blobs[name] = data[begin : begin + length]
        begin += length
    return header, blobs


def saved_schema(data: bytes) -> pa.Schema:
    """The types of the events that the saved state has read."""
    return pa.ipc.read_schema(pa.py_buffer(unpack_state(data)[1]["schema"]))


def restore(recogniser: Recogniser, bound: Bound, data: bytes) -> None:
    """Puts a fresh recogniser, bound to the types of its events, where the saved one was."""
    header, blobs = unpack_state(data)
    _refuse_other_events(header, bound)
    with np.load(io.BytesIO(blobs["arrays"]), allow_pickle=False) as loaded:
        arrays = {name: loaded[name] for name in loaded.files}
    bound.entities.learn(_read_ipc(blobs["keys"]).column("key"))
    n = len(bound.entities)
    recogniser.counts.entities = n
    births = {p["fingerprint"]: (c["birth"], p, c) for c in header["cohorts"] for p in c["patterns"]}
    bound.cohorts = _regroup(bound, births, header["next_birth"])
    bound.grow(n)
    for name in ("count", "last_ts", "last_seen"):
        getattr(bound, name)[:n] = arrays[name]
    bound.floor_ts = np.where(arrays["count"] > 0, arrays["last_ts"], arrays["floor_ts"])
    _restore_tails(bound, arrays["tail_ts"], header["tail"], n)
    bound.reorderer.greatest = arrays["greatest"].copy()
    if bound.cleaner is not None and header.get("clean") == bound.cleaner.what:
        bound.cleaner.grow(n)
        for name, array in bound.cleaner.arrays.items():
            array[:n] = arrays[f"clean.{name}"]
    if "held" in blobs:
        held = bound.conform(_read_ipc(blobs["held"]))
        bound.reorderer.held = Rows(held, arrays["held_entity"], arrays["held_ts"])
    if recogniser.repeats is not None:
        _restore_repeats(recogniser.repeats, bound, arrays, pa.ipc.read_schema(pa.py_buffer(blobs["schema"])), n)
    for cohort in bound.cohorts:
        _restore_cohort(cohort, births, arrays, n)
    joiner = recogniser._joiner
    names = {p.name: (number, p.fingerprint) for number, p in enumerate(bound.patterns.compiled)}
    for name, place_name, entity, *rest in header["open"] if joiner is not None else []:
        number, fingerprint = names.get(name, (0, ""))
        place = bound.place_number(number, place_name)
        if joiner is not None and header["names"].get(name) == fingerprint and place is not None:
            joiner.open[(entity, number, place)] = Episode(number, place, entity, *rest)


def _restore_repeats(
    repeats: Repeats, bound: Bound, arrays: dict[str, npt.NDArray[Any]], schema: pa.Schema, n: int
) -> None:
    """What the new input may repeat; a state of a recogniser that did not remember it knows the last times only."""
    columns_stay = sorted(schema.names) == sorted(bound.schema.names)
    if "repeat_entity" in arrays:
        entries = {name: arrays[f"repeat_{name}"] for name in ("entity", "ts", "digest")}
    else:
        known = np.flatnonzero(arrays["count"] > 0)
        entries = {"entity": known, "ts": arrays["last_ts"][known], "digest": np.zeros(len(known), dtype=np.uint64)}
    repeats.restore(entries, n, bound.reorderer.held, columns_stay and "repeat_entity" in arrays)


def _refuse_other_events(header: dict[str, Any], bound: Bound) -> None:
    for what, before, now in (
        ("keys", header["key_type"], str(bound.entities.key_type)),
        ("times, in ticks a second,", header["ticks_per_s"], bound.ticks_per_s),
    ):
        if before != now:
            raise DataError(
                f"the saved state has {what} of {before}, and the events have {now}",
                hint="convert the events to what they were, or remove the saved state to start afresh",
            )
    if header["lateness"] != bound.reorderer.lateness and "held" in header["blobs"]:
        raise DataError(
            "the saved state holds events back for another lateness",
            hint="go on with the lateness that was used before",
        )


def _regroup(bound: Bound, births: dict[str, Any], next_birth: int) -> list[Cohort]:
    """Cohorts of the patterns that have been reading since the same moment; what is not known starts now."""
    patterns = bound.patterns
    members: dict[int, list[tuple[int, Member]]] = {}
    for number, member in enumerate(patterns.members):
        pattern = member.compiled
        known = births.get(pattern.fingerprint)
        birth = known[0] if known is not None and known[1]["automaton"] == automaton_digest(pattern) else next_birth
        members.setdefault(birth, []).append((number, member))
    if len(members) == 1:
        return [bound.make_cohort(members[birth], patterns.groups, birth) for birth in members]
    return [
        bound.make_cohort(
            members[birth],
            form_groups([(i, member.compiled) for i, member in members[birth] if member.plan is None], patterns.limits),
            birth,
        )
        for birth in sorted(members)
    ]


def _restore_cohort(cohort: Cohort, births: dict[str, Any], arrays: dict[str, npt.NDArray[Any]], n: int) -> None:
    first = births.get(next(iter(cohort.patterns.values())).fingerprint)
    if first is None or first[0] != cohort.birth:
        cohort.start_among(n)
        return
    saved = first[2]
    key_of = {p["fingerprint"]: p["key"] for p in saved["patterns"]}
    prefix = next(iter(key_of.values())).split(".")[0]
    if saved["seen"]:
        cohort.seen = arrays[f"{prefix}.seen"].copy()
    for stepper in cohort.steppers:
        if isinstance(stepper, TableStepper):
            _restore_tables(cohort, stepper, key_of, arrays, n)
        else:
            entry = next(p for p in saved["patterns"] if p["fingerprint"] == stepper.pattern.fingerprint)
            _restore_slots(stepper, entry, arrays)
    values = {repr(value): value for value in cohort.looking_back()}
    for entry in saved["memories"]:
        value = values.get(entry["value"])
        if value is None:
            continue
        memory = Memory()
        memory.words = list(entry["words"])
        memory.code_of = {word: code for code, word in enumerate(memory.words) if word is not None}
        memory.arrays = {name: arrays[f"{entry['key']}.{name}"].copy() for name in entry["names"]}
        cohort.values.memories[value] = memory


def _restore_tables(
    cohort: Cohort, stepper: TableStepper, key_of: dict[str, str], arrays: dict[str, npt.NDArray[Any]], n: int
) -> None:
    group = stepper.group
    number_of = {tuple(row): number for number, row in enumerate(group.components.tolist())}
    keys = [key_of[cohort.patterns[number].fingerprint] for number in group.patterns]
    components = np.column_stack([arrays[f"{key}.state"] for key in keys]) if n else np.zeros((0, len(keys)), np.int64)
    distinct, inverse = np.unique(components, axis=0, return_inverse=True)
    numbers = []
    for row in distinct.tolist():
        number = number_of.get(tuple(row))
        if number is None:
            raise DataError("the saved state does not fit its own patterns", hint="remove it to start afresh")
        numbers.append(number)
    stepper.state[:n] = np.array(numbers, dtype=np.uint16)[inverse.reshape(-1)] if n else 0
    for i, key in enumerate(keys):
        if f"{key}.seq" in arrays:
            width = arrays[f"{key}.seq"].shape[1]
            columns = slice(group.first_register[i], group.first_register[i] + width)
            for name, registers in (("seq", stepper.register_seq), ("ts", stepper.register_ts)):
                table = registers[: n * group.n_registers].reshape(n, group.n_registers)
                table[:, columns] = arrays[f"{key}.{name}"]


def _restore_slots(
    stepper: RunStepper | PlaceStepper, entry: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]
) -> None:
    key = entry["key"]
    saved = {name: arrays[f"{key}.{name}"] for name in (*stepper.slots.arrays, "length")}
    if isinstance(stepper, PlaceStepper):
        saved = _renumber_places(saved, entry["places"], list(stepper.lookup.names), stepper.n_registers)
    stepper.slots.restore(saved)


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


def _restore_tails(bound: Bound, saved: npt.NDArray[np.int64], tail: int, n: int) -> None:
    """The last times by entity, from rings of one size to rings of another."""
    before = saved.reshape(n, tail)
    after = bound.tail_ts[: n * bound.tail].reshape(n, bound.tail)
    count = bound.count[:n]
    for back in range(1, min(tail, bound.tail) + 1):
        known = np.flatnonzero(count >= back)
        seq = count[known] - back
        after[known, seq % bound.tail] = before[known, seq % tail]


def _read_ipc(data: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(data) as reader:
        table = reader.read_all()
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
