"""The states of several operators become one file, and come back by operator and fingerprint.

    magic, version, checksum of the list, list of (kind, fingerprint, bytes), the states one after the other

Each state has a checksum of its own, so that the bytes of a large one are summed up once. Up to version 2 a state was
that of the entities alone: it is read as a list of one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from wayeb_py.engine.saved.state_checks import misfit, telling_misfits
from wayeb_py.errors import DataError

MAGIC = b"wayeb-state"
VERSION = 3  # that of a list; the entities alone have 1 and 2
ENTITIES = "entities"  # the operator whose state was the whole of it up to version 2


@dataclass(frozen=True, slots=True)
class OperatorState:
    """What one operator saved."""

    kind: str
    fingerprint: str
    data: bytes


def pack_operators(states: Iterable[OperatorState]) -> bytes:
    """One file from the states of operators."""
    states = list(states)
    text = json.dumps([[state.kind, state.fingerprint, len(state.data)] for state in states]).encode()
    head, size = MAGIC + VERSION.to_bytes(2, "little"), len(text).to_bytes(8, "little")
    return b"".join([head, _checksum(head, size, text), size, text, *(state.data for state in states)])


def unpack_operators(data: bytes) -> list[OperatorState]:
    """The states of operators in a file of this release or an older one; DataError if it is damaged or newer."""
    at = len(MAGIC) + 2
    if data[: len(MAGIC)] != MAGIC or len(data) < at + 40:
        raise DataError("this is not a saved state", hint="remove it to start afresh")
    version = int.from_bytes(data[len(MAGIC) : at], "little")
    if version < VERSION:
        return [OperatorState(ENTITIES, "", data)]
    if version > VERSION:
        raise DataError(
            f"the saved state has version {version}, and this release reads versions up to {VERSION}",
            hint="go on with the release that wrote it, or remove it to start afresh",
        )
    checksum, size = data[at : at + 32], int.from_bytes(data[at + 32 : at + 40], "little")
    begin = at + 40 + size
    if _checksum(data[:at], data[at + 32 : begin]) != checksum:
        raise DataError(
            "the saved state is damaged: its checksum does not fit", hint="restore it from a copy, or remove it"
        )
    states = []
    with telling_misfits():
        for kind, fingerprint, length in json.loads(data[at + 40 : begin]):
            states.append(OperatorState(kind, fingerprint, data[begin : begin + length]))
            begin += length
        if begin != len(data):
            raise misfit("its parts do not add up")
    return states


def entity_state(data: bytes) -> bytes:
    """The state of the entities in a file; nothing where there is none."""
    return next((state.data for state in unpack_operators(data) if state.kind == ENTITIES), b"")


def is_list(data: bytes) -> bool:
    """Whether this is a list of states, and not one of a single operator."""
    return data[: len(MAGIC) + 2] == MAGIC + VERSION.to_bytes(2, "little")


def _checksum(*pieces: bytes) -> bytes:
    """Of everything but itself, the head included."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.digest()
