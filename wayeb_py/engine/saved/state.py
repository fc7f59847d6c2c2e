"""A recogniser's state becomes bytes and comes back.

The state is canonical for each pattern by itself, under the pattern's fingerprint, not for the groups that happen to
run it: so patterns can be added, removed, renamed or regrouped between two runs. Unchanged patterns continue where they
were, new ones start fresh as a cohort of their own, removed ones are dropped (`cohorts`).

Everything can be gathered, and put back, for some entities as well as for all of them: see `changes`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.arrays import I32
from wayeb_py.compiler.for_each import Runnable
from wayeb_py.compiler.pattern import automaton_digest
from wayeb_py.engine.arrival.conform import with_columns
from wayeb_py.engine.arrival.reorder import Rows, join_rows
from wayeb_py.engine.binding import Binding
from wayeb_py.engine.rows.episodes import Episode, EpisodeJoiner, emitted_rows, fit_emitted
from wayeb_py.engine.saved.cohorts import padded, restore_cohort, rows_of, save_cohort
from wayeb_py.engine.saved.packing import arrays_of, ipc, pack_arrays, read_ipc, unpack_state
from wayeb_py.engine.saved.repeated_events import Repeats
from wayeb_py.engine.saved.state_checks import check_entities, expect, misfit, telling_misfits
from wayeb_py.engine.stepping.cohort import Cohort
from wayeb_py.errors import DataError
from wayeb_py.kernels.ticks import NEVER


@dataclass(frozen=True, slots=True)
class RecogniserState:
    """All that an entity recogniser remembers: patterns bound to entities, open episodes, and events that may be
    repeated."""

    binding: Binding
    joiner: EpisodeJoiner | None
    repeats: Repeats | None


# Saving.
def save(remembered: RecogniserState, note: Callable[[dict[str, Any], dict[str, npt.NDArray[Any]]], None]) -> bytes:
    """Everything that a later recogniser needs to continue from here; `note` gets header and arrays."""
    header, arrays, blobs = gather(remembered, slice(0, len(remembered.binding.entities)), 0)
    note(header, arrays)
    return pack_arrays(header, arrays, blobs)


def gather(
    remembered: RecogniserState, rows: slice | I32, n_before: int
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]], dict[str, bytes]]:
    """Header, arrays and blobs of the state of some entities, with the keys of entities from a number on."""
    binding, joiner = remembered.binding, remembered.joiner
    n = len(binding.entities)
    arrays: dict[str, npt.NDArray[Any]] = {
        "count": binding.count[rows],
        "last_ts": binding.last_ts[rows],
        "last_seen": binding.last_seen[rows],
        "tail_ts": binding.tail_ts[: n * binding.tail].reshape(n, binding.tail)[rows].reshape(-1),
        "greatest": rows_of(binding.reorderer.greatest, rows, n, NEVER),
        "floor_ts": rows_of(binding.floor_ts, rows, n, NEVER),
    }
    blobs: dict[str, bytes] = {
        "schema": bytes(binding.schema.serialize()),
        "keys": ipc(pa.record_batch({"key": binding.entities.keys_since(n_before)})),
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
        blobs["held"] = ipc(held.batch)
        arrays["held_entity"], arrays["held_ts"] = held.entity, held.ts
    among = None if isinstance(rows, slice) else set(rows.tolist())
    episodes = [] if joiner is None else [joiner.open[key] for key in sorted(joiner.open)]
    open_ = episodes if among is None else [one for one in episodes if one.entity in among]
    emitted = emitted_rows(open_)
    if emitted is not None:
        blobs["emitted"] = ipc(emitted)
    cohorts = [save_cohort(cohort, f"c{i}", rows, n, arrays) for i, cohort in enumerate(binding.cohorts)]
    header = {
        "ticks_per_s": binding.ticks_per_s,
        "key_type": str(binding.entities.key_type),
        "tail": binding.tail,
        "lateness": binding.reorderer.lateness,
        "clean": None if binding.cleaner is None else binding.cleaner.what,
        "cohorts": cohorts,
        "next_birth": max((cohort.birth for cohort in binding.cohorts), default=-1) + 1,
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
                None if e.emitted is None else nth,
            ]
            for nth, e in enumerate(open_)
        ],
    }
    return header, arrays, blobs


def are_among(entity: I32, rows: I32, n: int) -> npt.NDArray[np.bool_]:
    """Returns [nth]: whether entity[nth] is among `rows`; entities are numbered below `n`."""
    among = np.zeros(n, dtype=bool)
    among[rows] = True
    return among[entity]


# Restoring.
def saved_schema(data: bytes) -> pa.Schema:
    """The types of the events that the saved state has read."""
    with telling_misfits():
        return pa.ipc.read_schema(pa.py_buffer(unpack_state(data)[1]["schema"]))


def restore(remembered: RecogniserState, data: bytes) -> None:
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


def _births(header: dict[str, Any]) -> dict[str, Any]:
    return {p["fingerprint"]: (c["birth"], p, c) for c in header["cohorts"] for p in c["patterns"]}


def fill(
    remembered: RecogniserState,
    header: dict[str, Any],
    blobs: dict[str, bytes],
    arrays: dict[str, npt.NDArray[Any]],
    rows: I32,
) -> None:
    """Puts back what was gathered of some entities, whose keys are known by now."""
    binding, joiner = remembered.binding, remembered.joiner
    n, births = len(binding.entities), _births(header)
    check_entities(header, arrays, len(rows), n)
    binding.grow(n)
    for name in ("count", "last_ts", "last_seen"):
        getattr(binding, name)[rows] = arrays[name]
    binding.floor_ts = padded(binding.floor_ts, n, NEVER)
    binding.floor_ts[rows] = np.where(arrays["count"] > 0, arrays["last_ts"], arrays["floor_ts"])
    _restore_tails(binding, arrays["tail_ts"], header["tail"], rows)
    binding.reorderer.greatest = padded(binding.reorderer.greatest, n, NEVER)
    binding.reorderer.greatest[rows] = arrays["greatest"]
    if binding.cleaner is not None and header.get("clean") == binding.cleaner.what:
        binding.cleaner.grow(n)
        for name, array in binding.cleaner.arrays.items():
            expect(arrays[f"clean.{name}"], name, array.dtype, len(rows))
            array[rows] = arrays[f"clean.{name}"]
    if "held" in blobs:
        held = Rows(
            binding.conform(with_columns(read_ipc(blobs["held"]), binding.schema)),
            arrays["held_entity"],
            arrays["held_ts"],
        )
        if held.batch.num_rows != len(held):
            raise misfit("held")
        before = binding.reorderer.held
        binding.reorderer.held = held if before is None else join_rows(before, held)
    if remembered.repeats is not None:
        _restore_repeats(remembered.repeats, binding, arrays, pa.ipc.read_schema(pa.py_buffer(blobs["schema"])), n)
    for cohort in binding.cohorts:
        restore_cohort(cohort, births, arrays, rows, n)
    names = {p.name: (number, p.fingerprint) for number, p in enumerate(binding.patterns.compiled)}
    emitted = fit_emitted(read_ipc(blobs["emitted"]), binding.rows.schema.emitted) if "emitted" in blobs else None
    for name, place_name, entity, *rest in header["open"] if joiner is not None else []:
        number, fingerprint = names.get(name, (0, ""))
        place = binding.rows.place_number(number, place_name)
        if joiner is not None and header["names"].get(name) == fingerprint and place is not None:
            row = rest[5] if len(rest) > 5 else None  # an older state does not say
            if row is not None and (emitted is None or not 0 <= row < emitted.num_rows):
                raise misfit("emitted")
            episode = joiner.open[(entity, number, place)] = Episode(number, place, entity, *rest[:5])
            episode.emitted = None if row is None else (emitted, row)


def _restore_repeats(
    repeats: Repeats, binding: Binding, arrays: dict[str, npt.NDArray[Any]], schema: pa.Schema, n: int
) -> None:
    """Restores what the new input may repeat; the state of a recogniser that did not note it knows only the last
    times."""
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
    """Cohorts of the patterns that have been reading since the same moment; unknown patterns start empty."""
    patterns = binding.patterns
    runnables: dict[int, list[tuple[int, Runnable]]] = {}
    for number, runnable in enumerate(patterns.runnables):
        pattern = runnable.compiled
        known = births.get(pattern.fingerprint)
        birth = known[0] if known is not None and known[1]["automaton"] == automaton_digest(pattern) else next_birth
        runnables.setdefault(birth, []).append((number, runnable))
    return [cohort for birth in sorted(runnables) for cohort in binding.make_cohorts(runnables[birth], birth)]


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
