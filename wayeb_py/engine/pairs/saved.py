"""The state of the operator of pairs becomes bytes and comes back.

The state holds the entities that are fresh or near another, renumbered without gaps, and the words that continue; only
where a stream is cleaned does every entity stay, since cleaning remembers where each was last. The operator's
fingerprint shows that the patterns are the same, so tables and registers are kept as they lie.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.arrays import I32
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.pairs.own_past import OwnPast
from wayeb_py.engine.pairs.pair_words import PairWords
from wayeb_py.engine.pairs.rows import PairSchema
from wayeb_py.engine.pairs.silences import PairSilences
from wayeb_py.engine.pairs.stream_events import PairSource
from wayeb_py.engine.rows.episodes import Episode, emitted_rows, fit_emitted
from wayeb_py.engine.saved.packing import arrays_of, ipc, pack_arrays, read_ipc, unpack_state
from wayeb_py.engine.saved.state_checks import telling_misfits
from wayeb_py.engine.stepping.pooled_steppers import PooledStepper
from wayeb_py.engine.stepping.steppers import TableStepper
from wayeb_py.engine.values import Memory
from wayeb_py.growing_arrays import lengthened

Arrays = dict[str, npt.NDArray[Any]]
Blobs = dict[str, bytes]


@dataclass(slots=True)
class PairBinding:
    """The facts that follow from the types of the events."""

    sources: list[PairSource]  # the sources of the streams that pairs read, in the order of the file
    words: list[PairWords]
    schema: PairSchema
    silences: PairSilences


class PairState(Protocol):
    """The part of an operator that is state: its binding, and how entities of all sources are numbered together."""

    bound: PairBinding | None
    past: dict[int, OwnPast]
    n_entities: int
    number_of: list[I32]
    own_number: I32

    def bind_to(self, schemas: dict[int, pa.Schema]) -> PairBinding:
        """Binds the patterns to the types of events."""

    def number_source(self, place: int) -> None:
        """Numbers the new entities of a source."""


def save(operator: PairState) -> bytes:
    """Everything that a later operator needs to continue from here."""
    bound = operator.bound
    assert bound is not None
    parts = [words.meetings.save() for words in bound.words]
    stay = np.zeros(operator.n_entities, dtype=bool)
    for part in parts:
        stay[part["entity"]] = True
    for place, source in enumerate(bound.sources):
        if source.cleaner is not None:
            stay[operator.number_of[place]] = True
    stay[bound.silences.entities] = True
    # Numbers without gaps, source after source.
    kept = [numbers[stay[numbers]] for numbers in operator.number_of]
    number = np.full(operator.n_entities, -1, dtype=np.int32)
    for entities in kept:
        number[entities] = np.arange(len(entities), dtype=np.int32) + (number.max(initial=-1) + 1)
    header: dict[str, Any] = {"sources": [], "words": []}
    arrays: Arrays = {}
    blobs: Blobs = {}
    for place, source in enumerate(bound.sources):
        header["sources"].append(_save_source(source, f"source{place}", kept[place], operator, arrays, blobs))
    for place, past in operator.past.items():
        blobs[f"past{place}"] = past.save()
    blobs |= bound.silences.save(number)
    for place, (words, part) in enumerate(zip(bound.words, parts, strict=True)):
        header["words"].append(_save_words(words, f"words{place}", part, number, arrays, blobs))
    return pack_arrays(header, arrays, blobs)


def restore(operator: PairState, data: bytes) -> None:
    """Continues from a saved state."""
    header, blobs = unpack_state(data)
    with telling_misfits():
        arrays = arrays_of(blobs)
        n_sources = len(header["sources"])
        schemas = {
            place: pa.ipc.read_schema(pa.py_buffer(blobs[f"source{place}.schema"])) for place in range(n_sources)
        }
        bound = operator.bind_to(schemas)
        for place, (source, told) in enumerate(zip(bound.sources, header["sources"], strict=True)):
            _restore_source(source, f"source{place}", told, operator, place, arrays, blobs)
        for place, past in operator.past.items():
            past.restore(blobs[f"past{place}"])
        bound.silences.restore(blobs, operator.n_entities)
        for place, (words, told) in enumerate(zip(bound.words, header["words"], strict=True)):
            _restore_words(words, f"words{place}", told, operator.n_entities, arrays)
            blob = blobs.get(f"words{place}.emitted")
            emitted = None if blob is None else fit_emitted(read_ipc(blob), bound.schema.columns.emitted)
            _restore_episodes(words, told["episodes"], emitted)


# Sources.
def _save_source(
    source: PairSource, name: str, entities: I32, operator: PairState, arrays: Arrays, blobs: Blobs
) -> dict[str, Any]:
    own = operator.own_number[entities]
    blobs[f"{name}.schema"] = bytes(source.schema.serialize())
    blobs[f"{name}.keys"] = ipc(pa.record_batch({"key": source.entities.keys(own)}))
    if source.cleaner is not None:
        source.cleaner.grow(len(source.entities))
        arrays |= {f"{name}.clean.{part}": array[own] for part, array in source.cleaner.arrays.items()}
    arrays[f"{name}.last_seen"] = source.last_seen_of(own)
    words = []
    for nth, newest in enumerate(source.newest.values()):
        kept, its_words = newest.save(entities)
        arrays |= {f"{name}.newest{nth}.{part}": array for part, array in kept.items()}
        words.append(its_words)
    if source.steering is not None:
        arrays[f"{name}.steering"] = source.steering.save(entities)
    if source.newest_rows is not None:
        blobs[f"{name}.rows"] = ipc(source.newest_rows.rows_of(entities))
    return {"words": words}


def _restore_source(
    source: PairSource, name: str, told: dict[str, Any], operator: PairState, place: int, arrays: Arrays, blobs: Blobs
) -> None:
    keys = read_ipc(blobs[f"{name}.keys"]).column(0)
    source.entities.learn(keys)
    operator.number_source(place)
    entities = operator.number_of[place]
    if source.cleaner is not None:
        source.cleaner.grow(len(keys))
        for part, array in source.cleaner.arrays.items():
            array[: len(keys)] = arrays[f"{name}.clean.{part}"]
    source.remember_seen(arrays[f"{name}.last_seen"])
    first = int(entities[0]) if len(entities) else 0
    for nth, newest in enumerate(source.newest.values()):
        begin = f"{name}.newest{nth}."
        # Kept by the numbers of all sources: those of earlier sources come first.
        kept = {
            key.removeprefix(begin): np.concatenate([np.zeros(first, dtype=array.dtype), array])
            for key, array in arrays.items()
            if key.startswith(begin)
        }
        newest.restore(kept, told["words"][nth])
    if source.steering is not None:
        source.steering.restore(arrays[f"{name}.steering"], first)
    if source.newest_rows is not None:
        source.newest_rows.restore(read_ipc(blobs[f"{name}.rows"]), first)


# Words.
def _save_words(words: PairWords, name: str, part: Arrays, number: I32, arrays: Arrays, blobs: Blobs) -> dict[str, Any]:
    slots = part["slot"]
    part = part | {
        "entity": number[part["entity"]],
        "slot": np.arange(len(slots), dtype=np.int32),
        "a": number[part["a"]],
        "b": number[part["b"]],
    }
    arrays |= {f"{name}.meetings.{key}": array for key, array in part.items()}
    at = words.words_of(slots)
    n = len(at)
    words.grow(len(words.meetings.pairs))
    arrays[f"{name}.count"], arrays[f"{name}.last_ts"] = words.count[at], words.last_ts[at]
    arrays[f"{name}.a"], arrays[f"{name}.b"] = number[words.a[at]], number[words.b[at]]
    arrays[f"{name}.tail_ts"] = words.tail_ts.reshape(-1, words.tail)[at].reshape(-1)
    for nth, stepper in enumerate(words.cohort.steppers):
        if isinstance(stepper, TableStepper):
            width = stepper.group.n_registers
            arrays[f"{name}.state{nth}"] = stepper.state[at]
            for register in ("register_seq", "register_ts"):
                array = getattr(stepper, register)[: len(stepper.state) * width]
                arrays[f"{name}.{register}{nth}"] = array.reshape(len(stepper.state), width)[at].reshape(-1)
        elif isinstance(stepper, PooledStepper):
            arrays |= {f"{name}.runs{nth}.{key}": array for key, array in stepper.slots.save(at).items()}
    for nth, disjoint in enumerate(words.cohort.disjoint):
        arrays[f"{name}.behind{nth}"] = disjoint.behind[at]
    for nth, measures in enumerate(words.cohort.measures):
        if measures.folds:
            arrays |= {f"{name}.measured{nth}.{key}": array for key, array in measures.starts.save(at).items()}
    memories = []
    for nth, (value, memory) in enumerate(sorted(words.cohort.values.memories.items(), key=lambda item: repr(item[0]))):
        memories.append([repr(value), list(memory.words)])
        for key, array in memory.arrays.items():
            size = int(at.max()) + 1 if n else 0
            padded = array if len(array) >= size else lengthened(array, size, memory.fills[key])
            arrays[f"{name}.memory{nth}.{key}"] = padded[at]
    place = {word: nth for nth, word in enumerate(at.tolist())}
    episodes = [] if words.joiner is None else [one for one in words.joiner.open.values() if one.entity in place]
    emitted = emitted_rows(episodes)
    if emitted is not None:
        blobs[f"{name}.emitted"] = ipc(emitted)
    own = [field.name for field in fields(Episode) if field.name not in ("entity", "emitted")]
    open_ = [
        {name: getattr(one, name) for name in own}
        | {"entity": place[one.entity], "has_emitted": one.emitted is not None}
        for one in episodes
    ]
    return {"memories": memories, "episodes": open_}


def _restore_words(words: PairWords, name: str, told: dict[str, Any], n_entities: int, arrays: Arrays) -> None:
    begin = f"{name}.meetings."
    words.meetings.grow(n_entities)
    words.meetings.restore({key.removeprefix(begin): array for key, array in arrays.items() if key.startswith(begin)})
    words.grow(len(words.meetings.pairs))
    n = len(arrays[f"{name}.count"])
    at = np.arange(n, dtype=np.int32)
    words.count[:n], words.last_ts[:n] = arrays[f"{name}.count"], arrays[f"{name}.last_ts"]
    words.a[:n], words.b[:n] = arrays[f"{name}.a"], arrays[f"{name}.b"]
    words.tail_ts[: n * words.tail] = arrays[f"{name}.tail_ts"]
    for nth, stepper in enumerate(words.cohort.steppers):
        if isinstance(stepper, TableStepper):
            width = stepper.group.n_registers
            stepper.state[:n] = arrays[f"{name}.state{nth}"]
            stepper.register_seq[: n * width] = arrays[f"{name}.register_seq{nth}"]
            stepper.register_ts[: n * width] = arrays[f"{name}.register_ts{nth}"]
        elif isinstance(stepper, PooledStepper):
            begin = f"{name}.runs{nth}."
            runs = {key.removeprefix(begin): array for key, array in arrays.items() if key.startswith(begin)}
            stepper.slots.restore(runs, at)
    for nth, disjoint in enumerate(words.cohort.disjoint):
        disjoint.behind[at] = arrays[f"{name}.behind{nth}"]
    for nth, measures in enumerate(words.cohort.measures):
        if measures.folds:
            begin = f"{name}.measured{nth}."
            starts = {key.removeprefix(begin): array for key, array in arrays.items() if key.startswith(begin)}
            measures.starts.restore(starts, at)
    values = {repr(value): value for value in words.cohort.looking_back()} | {repr(m.Closing()): m.Closing()}
    for nth, (value, its_words) in enumerate(told["memories"]):
        memory = words.cohort.values.memories.setdefault(values[value], Memory())
        memory.words = list(its_words)
        memory.code_of = {word: code for code, word in enumerate(its_words) if word is not None}
        begin = f"{name}.memory{nth}."
        memory.arrays = {
            key.removeprefix(begin): array.copy() for key, array in arrays.items() if key.startswith(begin)
        }


def _restore_episodes(words: PairWords, told: list[dict[str, Any]], emitted: pa.RecordBatch | None) -> None:
    if words.joiner is not None:
        for nth, known in enumerate(told):
            has_row = known.pop("has_emitted", False) and emitted is not None  # an older state does not say
            episode = Episode(**known, emitted=(emitted, nth) if has_row else None)
            words.joiner.open[(episode.entity, episode.pattern, episode.place)] = episode
