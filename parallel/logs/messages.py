"""Messages that each hold one JSON object become events, and those that do not become rows set aside.

They come from a Kafka topic, or this process received them. Many are read as the lines of one text; where one
of them is at fault, the faulty part is read message by message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from wayeb_py.files.discover import EventFile
from wayeb_py.files.formats.block import AsideRow, Block, Selection, merge_unreadable, whole_block
from wayeb_py.files.formats.flat_json import read_flat
from wayeb_py.files.formats.ndjson import guess_types, read_each, read_typed
from wayeb_py.files.projection import Wanted
from wayeb_py.files.read import joined_schema

CAREFUL_MESSAGES = 256  # a block with a fault is halved down to this before its messages are read one by one


@dataclass(frozen=True, slots=True)
class Messages:
    """Consecutive messages of a partition: their offsets, which may have gaps, and what they hold."""

    first: int
    offsets: list[int] | None  # None where they have no gaps
    values: list[bytes | None]

    def offset(self, place: int) -> int:
        return self.first + place if self.offsets is None else self.offsets[place]


@dataclass(slots=True)
class _Sample:
    """The columns and types that messages show."""

    file: EventFile
    columns: tuple[str, ...]
    types: dict[str, pa.DataType]
    loose: bool = True


def schema_of_objects(
    objects: list[dict[str, Any]], present: Sequence[str], wanted: Wanted, name: str
) -> pa.Schema:
    """The types of the wanted columns that a sample of objects suggests."""
    types = guess_types(objects, present, wanted, name)
    return joined_schema([_Sample(EventFile(name, "ndjson"), tuple(present), types)], wanted)


def parse_messages(messages: Messages, place: str, selection: Selection) -> Block:
    """The events of some messages, and the messages that are none."""
    block = Block()
    _parse_part(messages, 0, len(messages.values), place, selection, block)
    return block


def _parse_part(messages: Messages, start: int, end: int, place: str, selection: Selection, block: Block) -> None:
    part = _read_lines(messages.values[start:end], selection)
    if part is None and end - start > CAREFUL_MESSAGES:
        middle = (start + end) // 2
        _parse_part(messages, start, middle, place, selection, block)
        _parse_part(messages, middle, end, place, selection, block)
        return
    if part is None:
        part = _read_one_by_one(messages, start, end, place, selection)
    block.n_rows += part.n_rows
    block.n_bytes += part.n_bytes
    block.batches += part.batches
    block.aside += part.aside
    merge_unreadable(block.unreadable, part.unreadable)


def _read_lines(values: list[bytes | None], selection: Selection) -> Block | None:
    """Messages as the lines of one text; None unless each of them is surely one object."""
    try:
        data = b"\n".join(values)  # type: ignore[arg-type]
    except TypeError:  # a message without a value
        return None
    n_ends = data.count(b"\n")
    if data[:1] != b"{" or data[-1:] != b"}" or n_ends != len(values) - 1:
        return None
    flat = read_flat(data, len(values), selection.schema)  # takes lines with one object each, and nothing else
    if flat is not None:
        block: Block | None = whole_block([flat], selection, {})
    elif data.count(b"}\n{") == n_ends:
        # No object has a line end between } and {: if every line end has, each line is one object or more, and the
        # reader's count decides.
        block = read_typed(data, len(values), selection, {}, fewest_flat=len(values) + 1)
    else:
        return None
    if block is not None:
        block.n_bytes = len(data)
    return block


def _read_one_by_one(messages: Messages, start: int, end: int, place: str, selection: Selection) -> Block:
    placed = [(messages.offset(at), messages.values[at] or b"") for at in range(start, end)]
    block = read_each(placed, place, selection, {})
    blank = [offset for offset, value in placed if not value.strip()]
    if blank:
        block.n_rows += len(blank)
        block.aside += [AsideRow(place, offset, "an empty message", None, "") for offset in blank]
        block.aside.sort(key=lambda row: row.row or 0)
    block.n_bytes = sum(len(value) for _, value in placed)
    return block
