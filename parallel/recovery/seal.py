"""Bytes that know what they are: a file of a checkpoint says whose and which it is, under one checksum with the rest.

    wayeb-sealed-1 \\n   sha-256 of all that follows   {"what": …, "stream": …, …} \\n   the content

So a flipped bit is noticed wherever it is, and so is a file that was renamed, or that came from another checkpoint: a
checksum over the content alone would call it good. The checksum is there against damage; somebody who can write the
folder can make a new one, which is why nothing that is opened this way is ever run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wayeb_py.errors import DamagedError
from wayeb_py.files.write import WholeFile

_MAGIC = b"wayeb-sealed-1\n"
_HEAD = len(_MAGIC) + 32


def write_sealed(path: Path, what: Mapping[str, Any], *content: bytes) -> tuple[WholeFile, str]:
    """A file that is written and not yet in its place, which the caller commits or discards, and its checksum."""
    pieces = (_canonical(what), *content)
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    whole = WholeFile(path)
    try:
        for piece in (_MAGIC, digest.digest(), *pieces):
            whole.write(piece)
    except BaseException:
        whole.discard()
        raise
    return whole, digest.hexdigest()


def put_sealed(path: Path, what: Mapping[str, Any], *content: bytes) -> None:
    """As `write_sealed`, and puts the file in its place."""
    whole, _ = write_sealed(path, what, *content)
    try:
        whole.commit()
    finally:
        whole.discard()


def is_sealed(data: bytes) -> bool:
    """Whether the bytes begin like something sealed."""
    return data[: len(_MAGIC)] == _MAGIC


def checksum_of(data: bytes) -> str:
    """The checksum that a sealed file gives itself."""
    return data[len(_MAGIC) : _HEAD].hex()


def open_sealed(path: Path, what: Mapping[str, Any], data: bytes | None = None) -> memoryview:
    """The content of a file; DamagedError where it is not what was written, or is the file of something else."""
    content = memoryview(path.read_bytes() if data is None else data)
    if not is_sealed(bytes(content[:_HEAD])) or hashlib.sha256(content[_HEAD:]).digest() != content[_HEAD - 32 : _HEAD]:
        raise DamagedError("its checksum does not fit", str(path))
    head = _canonical(what)
    if content[_HEAD : _HEAD + len(head)] != head:
        told = bytes(content[_HEAD:]).split(b"\n", 1)[0].decode(errors="replace")
        raise DamagedError(f"it is not what its name says, but {told}", str(path))
    return content[_HEAD + len(head) :]


def _canonical(what: Mapping[str, Any]) -> bytes:
    return json.dumps(what, sort_keys=True).encode() + b"\n"
