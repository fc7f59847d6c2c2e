"""The files of a checkpoint show whether they are whole: a file by a checksum at its head, a JSON object by one at its
end.

    wayeb-sealed-1 \\n   sha-256 of all that follows   {"what": …, "stream": …, …} \\n   the content
    {"batch": 7, "starts": 2}  ──▶  {"batch": 7, "starts": 2, "crc": "5f1c0d2e"}

A file of bytes says whose and which it is, under one checksum with the rest: so a reader notices a flipped bit wherever
it is, and also a file that was renamed, or that came from another checkpoint. JSON stays JSON that a person can read,
and lines of it can be added to a file one by one.

The checksums guard against damage by disks and by slips of the hand. A person who can write the folder can make new
ones, which is why nothing that is opened this way ever runs. *Not taken*: a checksum of the parsed object, which would
have to be rendered again to be compared.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from wayeb_py.errors import DamagedError
from wayeb_py.files.output.whole_file import whole_file
from wayeb_py.files.stores import Location

# What to do where a file of a checkpoint is damaged and has no copy.
CHOICE = (
    "restore the checkpoint from a copy, or begin anew: --restart beginning reads everything again, into an empty "
    "output folder; --restart now takes only what comes from now on"
)

_MAGIC = b"wayeb-sealed-1\n"
_HEAD = len(_MAGIC) + 32


def put_sealed(
    path: Location, what: Mapping[str, Any], *content: bytes, before: Callable[[], None] = lambda: None
) -> str:
    """Puts a file in its place and returns its checksum. Calls `before` when all is written, and before the file takes
    its name."""
    pieces = (_canonical(what), *content)
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    with whole_file(path) as whole:
        for piece in (_MAGIC, digest.digest(), *pieces):
            whole.write(piece)
        before()
    return digest.hexdigest()


def is_sealed(data: bytes) -> bool:
    """Whether the bytes begin like a sealed file."""
    return data[: len(_MAGIC)] == _MAGIC


def checksum_of(data: bytes) -> str:
    """The checksum that a sealed file gives itself."""
    return data[len(_MAGIC) : _HEAD].hex()


def open_sealed(path: Location, what: Mapping[str, Any], data: bytes | None = None) -> memoryview:
    """The content of a file; DamagedError where it is not what was written, or belongs elsewhere."""
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


# ---- JSON

_SEAL = re.compile(rb'(?s)(.*), "crc": "([0-9a-f]{8})"\s*\}\s*')


def seal(text: str) -> str:
    """The text of an object that has members, with its checksum."""
    body = text.rstrip().removesuffix("}").rstrip()
    return f'{body}, "crc": "{zlib.crc32(body.encode()):08x}"}}'


def unseal(text: bytes, must: bool = True) -> dict[str, Any]:
    """The object without its checksum; ValueError where it is damaged, or has none and must have one."""
    found = _SEAL.fullmatch(text)
    if found is None and must:
        raise ValueError("it has no checksum")
    if found is not None and zlib.crc32(found[1]) != int(found[2], 16):
        raise ValueError("its checksum does not fit")
    facts = json.loads(text if found is None else found[1] + b"}")
    if not isinstance(facts, dict):
        raise ValueError("it is no JSON object")
    return facts
