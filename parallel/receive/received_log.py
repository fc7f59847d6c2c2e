"""What a receiver takes in becomes a log of one partition: lines with JSON objects, in the order of their arrival."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from wayeb_py.files.formats.block import AsideRow, Block, Selection, TimeRange
from wayeb_py.files.formats.ndjson import read_objects
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.logs.arrival import Arrival
from wayeb_py.parallel.logs.log import Log, NoEventsError, OffsetRange, Offsets
from wayeb_py.parallel.logs.messages import Messages, parse_messages, schema_of_objects
from wayeb_py.parallel.receive.journal import Journal
from wayeb_py.parallel.receive.received_buffer import Fault, ReceivedBuffer, are_lines

PARTITION = "0"
SAMPLE_ROWS = 10_000


class Receiver(Protocol):
    """Takes in what is sent, in threads of its own, and appends it to a store."""

    @property
    def name(self) -> str:
        """Where it listens, as the user wrote it."""

    def start(self, store: ReceivedBuffer) -> None:
        """Begins to take in."""

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will ever come, as on standard input after its end."""

    def close(self) -> None:
        """Takes in no more."""

    def lend(self, arrived: Arrival) -> None:
        """Lets the stream take in itself, by `look`, what it can; the event is set while there is something."""
        return

    def look(self) -> None:
        """Takes in, without waiting, what was lent to the stream."""
        return


class ReceivedLog(Log):
    """A receiver and its buffer; receiving begins when the stream says where it continues."""

    def __init__(self, receiver: Receiver, store: ReceivedBuffer) -> None:
        self._receiver, self.store = receiver, store

    @property
    def name(self) -> str:
        return self._receiver.name

    @property
    def keeps(self) -> bool:
        return self.store.keeps

    def identity(self) -> dict[str, str]:
        """The journal's name: its offsets mean nothing in another journal."""
        return {"the journal": self.store.id} if isinstance(self.store, Journal) else {}

    def resume(self, taken: Offsets) -> None:
        self.store.resume(taken.get(PARTITION, 0))
        self._receiver.start(self.store)

    def wake(self, arrived: threading.Event) -> bool:
        self.store.on_arrival = arrived.set
        if isinstance(arrived, Arrival):
            self._receiver.lend(arrived)
        return True

    def schema(self, wanted: Wanted) -> pa.Schema | None:
        sample = self.store.peek(SAMPLE_ROWS)
        if not sample:
            return None
        objects = read_objects(record for record in sample if isinstance(record, bytes))
        if not objects:
            raise NoEventsError("nothing that has arrived is a JSON object", self.name)
        # A line may leave out what is missing, and there may be no second one yet to look at.
        seen = dict.fromkeys([*(name for value in objects for name in value), *wanted.names[2:]])
        return schema_of_objects(objects, tuple(seen), wanted, self.name)

    def earliest(self) -> Offsets:
        return {PARTITION: self.store.first}

    def latest(self) -> Offsets:
        self._receiver.look()
        return {PARTITION: self.store.safe_end}

    def ends(self) -> Offsets | None:
        return {PARTITION: self.store.end} if self._receiver.has_ended else None

    def read(self, offsets: OffsetRange, wanted: Wanted, schema: pa.Schema) -> Iterator[Block]:
        records = self.store.read(offsets.start, offsets.end)
        selection = Selection(wanted, schema, TimeRange(), max(1, len(records)))
        if are_lines(records):
            messages = Messages(offsets.start, None, records)  # type: ignore[arg-type]
            yield parse_messages(messages, self.name, selection)
            return
        placed = [(offset, line) for offset, line in enumerate(records, offsets.start) if isinstance(line, bytes)]
        block = Block()
        if placed:
            numbers = [offset for offset, _ in placed]
            values: list[bytes | None] = [line for _, line in placed]
            block = parse_messages(Messages(numbers[0], numbers, values), self.name, selection)
        faults = [(offset, one) for offset, one in enumerate(records, offsets.start) if isinstance(one, Fault)]
        block.n_rows += len(faults)
        block.aside += [self._aside(offset, one) for offset, one in faults]
        yield block

    def _aside(self, offset: int, fault: Fault) -> AsideRow:
        facts = json.loads(fault.data)
        return AsideRow(self.name, offset, facts["reason"], None, facts["text"])

    def forget(self, before: Offsets) -> None:
        self.store.forget(before.get(PARTITION, 0))

    def hang_up(self) -> None:
        self._receiver.close()

    def close(self) -> None:
        self._receiver.close()
        self.store.close()
