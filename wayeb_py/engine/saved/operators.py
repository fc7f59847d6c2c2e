"""The states of several operators become one file, and come back by operator and fingerprint.

    magic, version, checksum of the list, list of (kind, fingerprint, bytes, stream), the states one after the other

The operator of a stream is saved with the stream's name. In a file with several streams its fingerprint names the
stream; in a file with one it is empty, so that a stream may be renamed. Each state has a checksum of its own, so that
the bytes of a large one are summed up once. Up to version 2 a state held only the entities: it is read as a list of
one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wayeb_py.engine.saved.state_checks import misfit, telling_misfits
from wayeb_py.errors import DataError

MAGIC = b"wayeb-state"
VERSION = 3  # the version of a list; states of entities alone have 1 and 2
ENTITIES = "entities"  # the operator whose state was the whole file up to version 2


@dataclass(frozen=True, slots=True)
class OperatorState:
    """What one operator saved."""

    kind: str
    fingerprint: str
    data: bytes
    stream: str = ""  # the stream that it reads, where it reads one


def pack_operators(states: Iterable[OperatorState]) -> bytes:
    """One file from the states of operators."""
    states = list(states)
    text = json.dumps([[one.kind, one.fingerprint, len(one.data), one.stream] for one in states]).encode()
    head, size = MAGIC + VERSION.to_bytes(2, "little"), len(text).to_bytes(8, "little")
    return b"".join([head, checksum_of(head, size, text), size, text, *(state.data for state in states)])


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
    if checksum_of(data[:at], data[at + 32 : begin]) != checksum:
        raise DataError(
            "the saved state is damaged: its checksum does not fit", hint="restore it from a copy, or remove it"
        )
    states = []
    with telling_misfits():
        for kind, fingerprint, length, *stream in json.loads(data[at + 40 : begin]):
            states.append(OperatorState(kind, fingerprint, data[begin : begin + length], *stream))
            begin += length
        if begin != len(data):
            raise misfit("its parts do not add up")
    return states


def state_of(states: Sequence[OperatorState], kind: str, fingerprint: str, stream: str) -> bytes:
    """The state of an operator; no bytes where there is none.

    A stream keeps its state where the file gains a second stream, or loses it.
    """
    own = [state for state in states if state.kind == kind]
    exact = next((state.data for state in own if state.fingerprint == fingerprint), b"")
    named = [state for state in own if stream and state.stream == stream]
    return exact or next((state.data for state in named if "" in (fingerprint, state.fingerprint)), b"")


def refuse_unnamed(states: Sequence[OperatorState], n_streams: int) -> None:
    """Raises DataError where a state is of one stream that it does not name, and the file has several."""
    if n_streams > 1 and any(state.kind == ENTITIES and not state.fingerprint and not state.stream for state in states):
        raise DataError(
            "the saved state is of one stream and does not say of which, and this file has several",
            hint="run once more with the file that it was saved for, or remove it to start afresh",
        )


def entity_state(data: bytes) -> bytes:
    """The state of the entities in a file; no bytes where there is none."""
    return next((state.data for state in unpack_operators(data) if state.kind == ENTITIES), b"")


def is_list(data: bytes) -> bool:
    """Whether these bytes are a list of states, and not the state of a single operator."""
    return data[: len(MAGIC) + 2] == MAGIC + VERSION.to_bytes(2, "little")


def checksum_of(*pieces: bytes) -> bytes:
    """A checksum of everything else, the head included."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.digest()
