"""A header and some blobs become bytes with a version and a checksum, and come back whole or not at all.

A pickle would be shorter, but reading it would run whatever it holds.
"""

from __future__ import annotations

import json
from typing import Any

import numpy.typing as npt
import pyarrow as pa

from wayeb_py.engine.saved.npz import pack_npz
from wayeb_py.engine.saved.operators import MAGIC, checksum_of
from wayeb_py.engine.saved.state_checks import misfit, read_arrays, read_batch, telling_misfits
from wayeb_py.errors import DataError

VERSION = 2  # 3 is a list of operators: see `operators`


def pack_arrays(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]], blobs: dict[str, bytes]) -> bytes:
    """The bytes of a header, arrays and blobs."""
    return pack_state(header, {**blobs, "arrays": pack_npz(arrays)})


def pack_state(header: dict[str, Any], blobs: dict[str, bytes]) -> bytes:
    """The bytes of a state, with a version and a checksum."""
    header = {**header, "blobs": {name: len(blob) for name, blob in blobs.items()}}
    text = json.dumps(header).encode()
    head, size = MAGIC + VERSION.to_bytes(2, "little"), len(text).to_bytes(8, "little")
    return b"".join([head, checksum_of(head, size, text, *blobs.values()), size, text, *blobs.values()])


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
    if checksum_of(*sealed) != checksum:
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


def arrays_of(blobs: dict[str, bytes]) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a state."""
    return read_arrays(blobs["arrays"])


def ipc(batch: pa.RecordBatch) -> bytes:
    """A batch as the bytes of an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def read_ipc(data: bytes) -> pa.RecordBatch:
    """A batch of a state."""
    return read_batch(data)
