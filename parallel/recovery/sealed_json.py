"""A JSON object becomes text that shows whether it is whole: its last member is a checksum of everything before it.

    {"batch": 7, "starts": 2}  ──▶  {"batch": 7, "starts": 2, "crc": "5f1c0d2e"}

It is for damage by disks and by hands that slip, not against somebody who wants to deceive. The text stays JSON that
anybody can read. *Not taken*: a checksum of the parsed object, which would have to be rendered again to be compared.
"""

from __future__ import annotations

import json
import re
import zlib
from typing import Any

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
