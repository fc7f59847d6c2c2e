"""Records become events and rows set aside; a sample of them tells the types of the columns."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from wayeb_py.files.formats.block import AsideRow, Block, Selection, TimeRange
from wayeb_py.files.formats.ndjson import read_objects
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.logs.log import NoEventsError
from wayeb_py.parallel.logs.messages import Messages, parse_messages, schema_of_objects
from wayeb_py.parallel.receive.received_buffer import Fault, Record, are_lines

SAMPLE_ROWS = 10_000


def schema_of(sample: Sequence[Record], wanted: Wanted, name: str) -> pa.Schema | None:
    """The types of the wanted columns in a sample; None where that is empty."""
    if not sample:
        return None
    objects = read_objects(record for record in sample if isinstance(record, bytes))
    if not objects:
        raise NoEventsError("nothing that has arrived is a JSON object", name)
    # A line may leave out what is missing, and there may be no second one yet to look at.
    seen = dict.fromkeys([*(name for value in objects for name in value), *wanted.names[2:]])
    return schema_of_objects(objects, tuple(seen), wanted, name)


def block_of(records: Sequence[Record], start: int, wanted: Wanted, schema: pa.Schema, name: str) -> Block:
    """The events among records of which the first has the offset `start`, and the rows that are none."""
    selection = Selection(wanted, schema, TimeRange(), max(1, len(records)))
    if are_lines(records):
        return parse_messages(Messages(start, None, records), name, selection)  # type: ignore[arg-type]
    placed = [(offset, line) for offset, line in enumerate(records, start) if isinstance(line, bytes)]
    block = Block()
    if placed:
        numbers = [offset for offset, _ in placed]
        values: list[bytes | None] = [line for _, line in placed]
        block = parse_messages(Messages(numbers[0], numbers, values), name, selection)
    faults = [(offset, one) for offset, one in enumerate(records, start) if isinstance(one, Fault)]
    block.n_rows += len(faults)
    block.aside += [_aside(name, offset, one) for offset, one in faults]
    return block


def _aside(name: str, offset: int, fault: Fault) -> AsideRow:
    facts = json.loads(fault.data)
    return AsideRow(name, offset, facts["reason"], None, facts["text"])
