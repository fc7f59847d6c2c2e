"""Lines on standard input become records of a store, until the input ends."""

from __future__ import annotations

import os
import select
import threading

from wayeb_py.clock import SYSTEM, Clock
from wayeb_py.parallel.receive.address import Address
from wayeb_py.parallel.receive.decoders import decoder_of
from wayeb_py.parallel.receive.received_buffer import ReceivedBuffer
from wayeb_py.parallel.receive.sockets import LOOK_EVERY_S, READ_BYTES, Lines


class StdinReceiver:
    """Standard input, or another descriptor."""

    def __init__(self, address: Address, descriptor: int = 0, clock: Clock = SYSTEM) -> None:
        self.address, self._descriptor, self._clock = address, descriptor, clock
        self._closed = threading.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._store: ReceivedBuffer | None = None

    @property
    def name(self) -> str:
        return "standard input"

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def start(self, store: ReceivedBuffer) -> None:
        self._store = store
        self._thread = threading.Thread(target=self._take_in, args=(store,), name="wayeb-stdin", daemon=True)
        self._thread.start()

    def _take_in(self, store: ReceivedBuffer) -> None:
        lines = Lines(decoder_of(self.address.form, store.notes(), self._clock)())
        while not self._closed.is_set():
            ready, _, _ = select.select([self._descriptor], [], [], LOOK_EVERY_S)
            if not ready:
                continue
            data = os.read(self._descriptor, READ_BYTES)
            records = lines.take(data) if data else lines.end()
            if records:
                store.wait_safe(store.append(records))
            if not data:
                self._ended.set()
                store.on_arrival()
                return

    def close(self) -> None:
        self._closed.set()
        if self._store is not None:
            self._store.release()
        if self._thread is not None:
            self._thread.join()
