"""Checks every number in a saved state before compiled loops index by it.

A checksum reveals damage, but anyone can compute one. The loops index tables by states, places, codes and entities
without a check, so a number beyond its table would read or write memory outside it. Every misfit becomes one DataError
here; this costs a look at each array when a state is read, and nothing afterwards.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wayeb_py.errors import DataError

Arrays = Mapping[str, npt.NDArray[Any]]

BY_ENTITY = ("count", "last_ts", "last_seen", "greatest", "floor_ts")


@contextmanager
def telling_misfits() -> Iterator[None]:
    """Turns every failure while a state is read into a DataError about the state, in one sentence."""
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise misfit(f"{type(error).__name__}: {error}") from error
    except (pa.ArrowException, zipfile.BadZipFile, OSError, EOFError, MemoryError, NotImplementedError) as error:
        raise misfit(str(error)) from error


def misfit(what: str) -> DataError:
    return DataError(
        "the saved state does not fit its own patterns, or is damaged",
        hint=f"restore it from a copy, or remove it to start afresh ({' '.join(what.split())[:200]})",
    )


def read_arrays(data: bytes) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a state, none of them larger than the state itself."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if any(info.compress_type != zipfile.ZIP_STORED or info.file_size > len(data) for info in archive.infolist()):
            raise misfit("its arrays are compressed")
    with np.load(io.BytesIO(data), allow_pickle=False) as loaded:
        return {name: loaded[name] for name in loaded.files}


def read_batch(data: bytes) -> pa.RecordBatch:
    """A batch of a state, its offsets and indices within their bounds."""
    with pa.ipc.open_stream(data) as reader:
        table = reader.read_all()
    table.validate(full=True)
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def check_entities(header: Mapping[str, Any], arrays: Arrays, n_rows: int, n: int) -> None:
    """Checks that arrays by entity are as long as there are entities, and index numbers are within what they index."""
    for name in BY_ENTITY:
        expect(arrays[name], name, np.int64, n_rows)
    between(arrays["count"], "count", 0, 2**62)
    if not isinstance(header["tail"], int) or not 1 <= header["tail"] <= 2**20:
        raise misfit("tail")
    expect(arrays["tail_ts"], "tail_ts", np.int64, n_rows * header["tail"])
    if "held_entity" in arrays:
        expect(arrays["held_entity"], "held_entity", np.int32, len(arrays["held_ts"]))
        expect(arrays["held_ts"], "held_ts", np.int64, len(arrays["held_ts"]))
        between(arrays["held_entity"], "held_entity", 0, n)
    if "repeat_entity" in arrays:
        n_repeats = len(arrays["repeat_entity"])
        for name, kind in (("repeat_entity", np.int64), ("repeat_ts", np.int64), ("repeat_digest", np.uint64)):
            expect(arrays[name], name, kind, n_repeats)
        between(arrays["repeat_entity"], "repeat_entity", 0, n)
    for entry in header["open"]:
        if not isinstance(entry[2], int) or not 0 <= entry[2] < n:
            raise misfit("open")


def check_slots(
    saved: Arrays, widths: Mapping[str, int], kinds: Mapping[str, Any], n: int, bounds: Mapping[str, tuple[int, int]]
) -> None:
    """Checks lists of varying length: they add up, index numbers are within their tables, an entity's places ascend."""
    expect(saved["length"], "length", np.int64, n)
    between(saved["length"], "length", 0, 2**31)
    total = int(saved["length"].sum())
    for name, width in widths.items():
        expect(saved[name], name, kinds[name], total * width)
    for name, (low, end) in bounds.items():
        between(saved[name], name, low, end)
    if "place" in bounds:
        entity = np.repeat(np.arange(n), saved["length"])
        if ((np.diff(saved["place"]) <= 0) & (np.diff(entity) == 0)).any():
            raise misfit("place")


def check_memory(name: str, array: npt.NDArray[Any], words: list[str | None], n: int) -> None:
    """Checks what a value that looks back remembers of each entity; an older release did not fill it up."""
    if not all(word is None or isinstance(word, str) for word in words):
        raise misfit("words")
    if array.dtype not in (np.int64, np.float64) or array.ndim != 1 or len(array) > n:
        raise misfit(f"{name} is {array.dtype} {array.shape}")
    if name == "code":  # the code of a word, or of true, false or missing
        between(array, name, -1, max(3, len(words)))


def expect(array: npt.NDArray[Any], name: str, dtype: Any, length: int) -> None:
    if array.ndim != 1 or array.dtype != dtype or len(array) != length:
        raise misfit(f"{name} is {array.dtype} {array.shape}")


def between(array: npt.NDArray[Any], name: str, low: int, end: int) -> None:
    if len(array) and (int(array.min()) < low or int(array.max()) >= end):
        raise misfit(f"{name} is beyond its table")
