"""What a receiver takes in becomes a log of one partition: lines with JSON objects, in the order of their arrival."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from wayeb_py.files.formats.block import Block
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.logs.arrival import Arrival
from wayeb_py.parallel.logs.log import Log, OffsetRange, Offsets
from wayeb_py.parallel.receive.journal import Journal
from wayeb_py.parallel.receive.received_buffer import ReceivedBuffer
from wayeb_py.parallel.receive.record_blocks import SAMPLE_ROWS, block_of, schema_of

PARTITION = "0"


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

    def refuse_faulty(self) -> None:
        """Raises what went wrong while it took in."""
        return

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
        self._receiver.refuse_faulty()
        return schema_of(self.store.peek(SAMPLE_ROWS), wanted, self.name)

    def earliest(self) -> Offsets:
        return {PARTITION: self.store.first}

    def latest(self) -> Offsets:
        self._receiver.refuse_faulty()
        self._receiver.look()
        return {PARTITION: self.store.safe_end}

    def ends(self) -> Offsets | None:
        return {PARTITION: self.store.end} if self._receiver.has_ended else None

    def read(self, offsets: OffsetRange, wanted: Wanted, schema: pa.Schema) -> Iterator[Block]:
        records = self.store.read(offsets.start, offsets.end)
        yield block_of(records, offsets.start, wanted, schema, self.name)

    def forget(self, before: Offsets) -> None:
        self.store.forget(before.get(PARTITION, 0))

    def hang_up(self) -> None:
        self._receiver.close()

    def close(self) -> None:
        self._receiver.close()
        self.store.close()
