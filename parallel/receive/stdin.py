"""Lines on standard input become records of a store, until the input ends."""

from __future__ import annotations

import os
import select
import threading

from wayeb_py.parallel.receive.address import Address
from wayeb_py.parallel.receive.sockets import LOOK_EVERY_S, READ_BYTES, Lines
from wayeb_py.parallel.receive.threaded_receiver import ThreadedReceiver

PIPE_BYTES = 1 << 20  # the most that a pipe holds, unless root has said otherwise


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
        lines = Lines(self.decoder())
        while not self._closed.is_set():
            if self._is_readable(LOOK_EVERY_S) and not self._take(lines):
                return
        for _ in range(PIPE_BYTES // READ_BYTES):  # of a file, which could be read for long, no more than of a pipe
            if not self._is_readable(0) or not self._take(lines):
                return

    def _is_readable(self, wait_s: float) -> bool:
        return bool(select.select([self._descriptor], [], [], wait_s)[0])

    def _take(self, lines: Lines) -> bool:
        """Takes in what is there; False at the end of the input."""
        data = os.read(self._descriptor, READ_BYTES)
        records = lines.take(data) if data else lines.end()
        if records:
            self.store.wait_safe(self.store.append(records))
        if not data:
            self._ended.set()
            self.store.on_arrival()
        return bool(data)
