"""Lines on standard input become records of a store, until the input ends."""

from __future__ import annotations

import os
import select
import threading

from wayeb_py.parallel.receive.address import Address
from wayeb_py.parallel.receive.sockets import LOOK_EVERY_S, READ_BYTES, Lines
from wayeb_py.parallel.receive.threaded_receiver import ThreadedReceiver


class StdinReceiver(ThreadedReceiver):
    """Standard input, or another descriptor."""

    def __init__(self, address: Address, descriptor: int = 0) -> None:
        super().__init__(address)
        self._descriptor = descriptor
        self._ended = threading.Event()

    @property
    def name(self) -> str:
        return "standard input"

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def _begin(self) -> None:
        self._run(self._take_in)

    def _take_in(self) -> None:
        lines, store = Lines(self.decoder()), self.store
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

    def _hang_up(self) -> None:
        """Nothing to wake: the thread looks now and again whether it is closed."""
