"""What the patterns of a cohort remember of each entity becomes arrays by pattern, and comes back into other groups.

The states of a group's product automaton are taken apart into those of its patterns, under their fingerprints, so that
patterns can be grouped otherwise when the state is read. The state keeps values that look back (`prev`, `held`) under
their text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from wayeb_py.arrays import I32
from wayeb_py.compiler.pattern import automaton_digest
from wayeb_py.engine.saved.state_checks import check_memory, check_slots, expect, misfit
from wayeb_py.engine.stepping.cohort import Cohort
from wayeb_py.engine.stepping.place_stepper import PlaceStepper
from wayeb_py.engine.stepping.pooled_steppers import PooledStepper
from wayeb_py.engine.stepping.steppers import TableStepper
from wayeb_py.engine.values import NO_VALUE, Memory


def save_cohort(
    cohort: Cohort, prefix: str, rows: slice | I32, n: int, arrays: dict[str, npt.NDArray[Any]]
) -> dict[str, Any]:
    """Puts what a cohort remembers of some entities, out of n, into arrays; returns what the header says of them."""
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
    keys = {entry["fingerprint"]: entry["key"] for entry in patterns}
    entries = {entry["fingerprint"]: entry for entry in patterns}
    for disjoint in cohort.disjoint:
        key = keys[cohort.patterns[disjoint.number].fingerprint]
        arrays[f"{key}.behind"] = rows_of(disjoint.behind, rows, n, 0)
    for measures in cohort.measures:
        if measures.folds:
            owners = [entries[cohort.patterns[number].fingerprint] for number in measures.numbers]
            key = f"{owners[0]['key']}.measured"
            for owner in owners:
                owner["measured"] = key
            for name, array in measures.starts.save(rows).items():
                arrays[f"{key}.{name}"] = array
    memories = []
    for i, (value, memory) in enumerate(cohort.values.memories.items()):
        key = f"{prefix}.m{i}"
        for name, array in memory.arrays.items():
            # Nothing is remembered yet of entities whose events are all held back.
            arrays[f"{key}.{name}"] = rows_of(array, rows, n, memory.fills[name])
        entry = {"value": repr(value), "key": key, "names": list(memory.arrays)}
        fills = {name: int(fill) for name, fill in memory.fills.items()}
        memories.append({**entry, "fills": fills, "words": memory.words})
    seen = cohort.seen
    if seen is not None:
        arrays[f"{prefix}.seen"] = rows_of(seen, rows, n, 1)
    return {"birth": cohort.birth, "patterns": patterns, "memories": memories, "seen": seen is not None}


def restore_cohort(
    cohort: Cohort, births: dict[str, Any], arrays: dict[str, npt.NDArray[Any]], rows: I32, n: int
) -> None:
    """Puts back what was saved of some of the n present entities; new patterns start among them."""
    first = births.get(next(iter(cohort.patterns.values())).fingerprint)
    if first is None or first[0] != cohort.birth:
        cohort.start_among(n)
        return
    saved = first[2]
    key_of = {p["fingerprint"]: p["key"] for p in saved["patterns"]}
    prefix = next(iter(key_of.values())).split(".")[0]
    if saved["seen"]:
        cohort.seen = padded(np.zeros(0, dtype=np.uint8) if cohort.seen is None else cohort.seen, n, 1)
        expect(arrays[f"{prefix}.seen"], "seen", np.uint8, len(rows))
        cohort.seen[rows] = arrays[f"{prefix}.seen"]
    for stepper in cohort.steppers:
        if isinstance(stepper, TableStepper):
            _restore_tables(cohort, stepper, key_of, arrays, rows, n)
        else:
            entry = next(p for p in saved["patterns"] if p["fingerprint"] == stepper.pattern.fingerprint)
            _restore_slots(stepper, entry, arrays, rows)
    for disjoint in cohort.disjoint:
        behind = arrays[f"{key_of[cohort.patterns[disjoint.number].fingerprint]}.behind"]
        expect(behind, "behind", np.int64, len(rows))
        disjoint.behind[rows] = behind
    for measures in cohort.measures:
        if measures.folds:
            # Patterns that measure the same have done so together, and those that are left still do.
            own = cohort.patterns[measures.numbers[0]].fingerprint
            key = next(entry["measured"] for entry in saved["patterns"] if entry["fingerprint"] == own)
            slots = {name: arrays[f"{key}.{name}"] for name in (*measures.starts.arrays, "length")}
            kinds = dict.fromkeys(measures.starts.arrays, np.dtype(np.int64))
            check_slots(slots, measures.starts.widths, kinds, len(rows), {})
            measures.starts.restore(slots, rows)
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
            memory.arrays[name] = padded(memory.arrays.get(name, some[:0]), n, fill)
            memory.arrays[name][rows[: len(some)]] = some  # an older release did not fill it up


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

    It goes pattern by pattern: the states of the patterns so far have a number among the combinations of the group.
    Sorting the rows of all entities, as `np.unique` does, took half a minute for five million.
    """
    known = np.zeros(len(components), dtype=np.int64)  # [state of the group] -> number of the combination so far
    number = np.zeros(n, dtype=np.int64)  # [entity] -> number of the combination so far
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
    stepper: PooledStepper | PlaceStepper, entry: dict[str, Any], arrays: dict[str, npt.NDArray[Any]], rows: I32
) -> None:
    key = entry["key"]
    saved = {name: arrays[f"{key}.{name}"] for name in (*stepper.slots.arrays, "length")}
    bounds = {"state": (0, stepper.n_states)}
    if isinstance(stepper, PlaceStepper):
        bounds["place"] = (-1, len(entry["places"]))  # -1 is for all far places
    kinds = {name: array.dtype for name, array in stepper.slots.arrays.items()}
    check_slots(saved, stepper.slots.widths, kinds, len(rows), bounds)
    if isinstance(stepper, PlaceStepper):
        saved = _renumber_places(saved, entry["places"], list(stepper.lookup.names), stepper.n_registers)
    stepper.slots.restore(saved, rows)


def _renumber_places(
    saved: dict[str, npt.NDArray[Any]], before: list[str], now: list[str], n_registers: int
) -> dict[str, npt.NDArray[Any]]:
    """Gives slots the numbers that their places have now; drops those of places that are gone.

    Place -1 stands for all that have been far and have no slot. A new place has not read anything: where the far places
    are not in the initial state, it needs a slot of its own.
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


def rows_of(array: npt.NDArray[Any], rows: slice | I32, n: int, fill: Any) -> npt.NDArray[Any]:
    """Some rows of an array that may be too short: missing rows are filled."""
    if len(array) >= n:
        return array[rows]
    if isinstance(rows, slice):
        return padded(array, n, fill)
    return np.where(rows < len(array), array[np.minimum(rows, len(array) - 1)] if len(array) else fill, fill).astype(
        array.dtype
    )


def padded(array: npt.NDArray[Any], n: int, fill: Any) -> npt.NDArray[Any]:
    """The array with at least `n` rows."""
    if len(array) >= n:
        return array
    return np.concatenate([array, np.full(n - len(array), fill, dtype=array.dtype)])
