"""What is sent to this process becomes records of a buffer, in threads: the part that every receiver shares.

A receiver says in `_begin` which threads take in, in `_wake` how to wake those that wait for a sender, and in
`_hang_up` what ends once they have ended. A thread that finds the receiver closed takes in what was sent by then.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from wayeb_py.parallel.receive.address import Address
from wayeb_py.parallel.receive.decoders import Decoder, decoder_of
from wayeb_py.parallel.receive.received_buffer import ReceivedBuffer
from wayeb_py.parallel.receive.received_log import Receiver


class ThreadedReceiver(Receiver, ABC):
    """Takes in what comes to an address until it is closed."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._closed = threading.Event()
        self._threads: list[threading.Thread] = []
        self._store: ReceivedBuffer | None = None
        self._make_decoder: Callable[[], Decoder] | None = None
        self._fault: BaseException | None = None

    @property
    def name(self) -> str:
        return self.address.text

    @property
    def has_ended(self) -> bool:
        return False

    def start(self, store: ReceivedBuffer) -> None:
        """Begins to take in."""
        self._store = store
        self._make_decoder = decoder_of(self.address.form, store.notes())
        self._begin()

    @property
    def store(self) -> ReceivedBuffer:
        """Where records go."""
        assert self._store is not None
        return self._store

    def decoder(self) -> Decoder:
        """A decoder of one sender's lines."""
        assert self._make_decoder is not None
        return self._make_decoder()

    @abstractmethod
    def _begin(self) -> None:
        """Starts the threads that take in."""

    def _run(self, take_in: Callable[[], None]) -> None:
        """Starts a thread, which `close` waits for; what goes wrong in it ends the stream."""

        def run() -> None:
            try:
                take_in()
            except BaseException as error:
                self._fail(error)

        thread = threading.Thread(target=run, name=f"wayeb-{self.address.kind}", daemon=True)
        self._threads = [one for one in self._threads if one.is_alive()] + [thread]
        thread.start()

    def _fail(self, error: BaseException) -> None:
        """Notes what went wrong, and wakes the stream."""
        self._fault = error
        self.store.on_arrival()

    def refuse_faulty(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _wake(self) -> None:
        """Wakes what waits for a sender longer than it should; called once."""
        return

    def _hang_up(self) -> None:
        """Ends what the threads have used; called once."""
        return

    def close(self) -> None:
        """Takes in what was sent by now, and no more; returns when the threads have ended."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._store is not None:
            self._store.release()
        self._wake()
        while alive := [thread for thread in self._threads if thread.is_alive()]:  # which may start others
            for thread in alive:
                thread.join()
        self._hang_up()
