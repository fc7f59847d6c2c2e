"""Connections and datagrams become lines, lines become records of a store: TCP, sockets of this machine, UDP.

Each connection has a thread, which reads, decodes and appends; while the store is full it does not read, and the sender
waits. Where nothing goes to a journal, the thread lends the connection to the stream once that has begun: the stream
looks at it between two steps, and no other thread has to run before an event is there (`logs.arrival`). A line that is
cut off when its sender goes away is set aside. A datagram is one line or several; one that finds the store full is
dropped and counted (`received_buffer`).
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable

from wayeb_py.errors import DataError
from wayeb_py.parallel.logs.arrival import Arrival
from wayeb_py.parallel.receive.address import Address
from wayeb_py.parallel.receive.decoders import LONGEST_LINE, Decoder
from wayeb_py.parallel.receive.received_buffer import ReceivedBuffer, Record, fault
from wayeb_py.parallel.receive.threaded_receiver import ThreadedReceiver

READ_BYTES = 1 << 16
LOOK_EVERY_S = 0.25  # how often a thread looks whether it is closed
TAKE_BYTES, TAKE_S = 1 << 14, 0.0005  # what the stream reads at once, and for how long if a sender has more
MOST_LENT = 16  # connections: each costs the stream a call whenever it looks
AGAIN_S = (0.5, 30.0)  # how long a caller waits before it calls again, at first and at most


class Lines:
    """The bytes of one sender, cut into lines."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder, self._rest, self.n_lines = decoder, b"", 0
        self._skips = False  # inside a line that is too long

    def take(self, data: bytes) -> list[Record]:
        """The records of the lines that are whole by now."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.n_lines += len(lines)
        if lines and self._skips:
            self._skips = False
            del lines[0]
        records = self._decoder.decode_all(lines)
        if len(self._rest) > LONGEST_LINE:
            if not self._skips:
                records.append(fault(f"a line of more than {LONGEST_LINE} bytes", self._rest[:200]))
            self._rest, self._skips = b"", True
        return records

    def end(self) -> list[Record]:
        """The rest of a line that a sender left unfinished when it went away."""
        rest, self._rest = self._rest, b""
        return [fault("a line without an end", rest)] if rest.strip() and not self._skips else []


class Connection:
    """A connection that sends lines, which its thread takes in, or the stream."""

    def __init__(self, connection: socket.socket, decoder: Decoder, store: ReceivedBuffer) -> None:
        connection.setblocking(False)
        self.socket, self.lines, self._store = connection, Lines(decoder), store
        self._taking = threading.Lock()
        self._readable = select.poll()
        self._readable.register(connection, select.POLLIN)
        self.ended = threading.Event()

    def wait(self) -> bool:
        """Waits some time for something to read."""
        return bool(self._readable.poll(1000 * LOOK_EVERY_S))

    def take(self) -> int | None:
        """Takes in what a thread has waited for; returns the offset after it."""
        with self._taking:
            records = self._receive(READ_BYTES)
            return self._store.append(records) if records else None

    def take_now(self, until_s: float, beyond: bool = False) -> None:
        """Takes in what is there, at least once, and until a time if there is more; `beyond` what there is room for.
        Leaves it to the thread where that is taking something in."""
        if not self._taking.acquire(blocking=False):
            return
        try:
            while not self.ended.is_set() and (beyond or not self._store.is_full):
                records = self._receive(TAKE_BYTES)
                if records is None:
                    return
                self._store.put(records)
                if time.perf_counter() >= until_s:
                    return
        finally:
            self._taking.release()

    def _receive(self, n_bytes: int) -> list[Record] | None:
        """The records of what is there; None if nothing is."""
        try:
            data = self.socket.recv(n_bytes)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        if not data:
            self.ended.set()
        return self.lines.take(data) if data else self.lines.end()


class SocketReceiver(ThreadedReceiver):
    """Listens at an address, or calls it, and takes in what is sent."""

    def __init__(self, address: Address, say: Callable[[str], None] = lambda text: None) -> None:
        super().__init__(address)
        self._say = say
        self._arrived: Arrival | None = None  # where the stream takes in itself
        self._lent: dict[Connection, None] = {}
        self._lending = threading.Lock()
        self._socket = None if address.connects else _bound(address)

    @property
    def port(self) -> int:
        """The port on which it listens."""
        assert self._socket is not None
        return int(self._socket.getsockname()[1])

    def _begin(self) -> None:
        if self.address.kind == "udp":
            self._run(self._take_datagrams)
        elif self.address.connects:
            self._run(self._call)
        else:
            self._run(self._accept)

    def _accept(self) -> None:
        listener = self._socket
        assert listener is not None
        listener.settimeout(LOOK_EVERY_S)
        while not self._closed.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                self._threads = [thread for thread in self._threads if thread.is_alive()]
                continue
            except OSError:
                return
            self._run(lambda own=connection: self._take_in(own))  # type: ignore[misc]

    def _call(self) -> None:
        wait_s = AGAIN_S[0]
        while not self._closed.is_set():
            try:
                connection = _called(self.address)
            except OSError as error:
                self._say(f"{self.name} does not answer ({error.strerror or error}): called again in {wait_s:g} s")
                self._closed.wait(wait_s)
                wait_s = min(2 * wait_s, AGAIN_S[1])
                continue
            wait_s = AGAIN_S[0]
            self._take_in(connection)
            self._closed.wait(AGAIN_S[0])

    def _take_in(self, connection: socket.socket) -> None:
        """Takes in what one connection sends, until either side ends it, or lends it to the stream until then."""
        own, store = Connection(connection, self.decoder(), self.store), self.store
        with connection:
            while not (self._closed.is_set() or own.ended.is_set()):
                if self._is_lent(own):
                    own.ended.wait(LOOK_EVERY_S)
                elif own.wait():
                    end = own.take()
                    if self.address.acknowledges and end is not None:
                        if not store.wait_safe(end):
                            break
                        connection.settimeout(LOOK_EVERY_S)
                        with contextlib.suppress(OSError):
                            connection.sendall(b"%d\n" % own.lines.n_lines)
                        connection.setblocking(False)
            self._give_back(own)

    def lend(self, arrived: Arrival) -> None:
        if self.address.acknowledges or self.store.keeps:
            return
        with self._lending:
            self._arrived = arrived
            for own in self._lent:
                arrived.watch(own.socket)

    def look(self) -> None:
        if self._lent:
            until_s = time.perf_counter() + TAKE_S
            for own in tuple(self._lent):
                own.take_now(until_s)
                if own.ended.is_set():
                    self._give_back(own)

    def _is_lent(self, own: Connection) -> bool:
        """Whether the stream has a connection, which it gets now if it can."""
        with self._lending:
            if self._arrived is None:
                return False
            if own not in self._lent and len(self._lent) < MOST_LENT:
                self._lent[own] = None
                self._arrived.watch(own.socket)
            return own in self._lent

    def _give_back(self, own: Connection) -> None:
        """Takes a connection from the stream, before it is closed."""
        with self._lending:
            if self._arrived is not None and own in self._lent:
                del self._lent[own]
                self._arrived.unwatch(own.socket)

    def close(self) -> None:
        """Takes in what was sent by now, and no more; returns when the threads have ended."""
        until_s = time.perf_counter() + LOOK_EVERY_S
        for own in tuple(self._lent):
            own.take_now(until_s, beyond=True)
        super().close()

    def _take_datagrams(self) -> None:
        receiver, store = self._socket, self.store
        assert receiver is not None
        receiver.settimeout(LOOK_EVERY_S)
        senders: dict[object, Decoder] = {}
        while not self._closed.is_set():
            try:
                data, sender = receiver.recvfrom(READ_BYTES)
            except TimeoutError:
                continue
            except OSError:
                return
            decoder = senders.get(sender)
            if decoder is None:
                if len(senders) >= 1000:
                    senders.clear()
                decoder = senders[sender] = self.decoder()
            records = decoder.decode_all(data.splitlines())
            if records:
                store.append(records, may_drop=True)

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            if self.address.kind == "unix":
                with contextlib.suppress(OSError):
                    os.unlink(self.address.path)


def _bound(address: Address) -> socket.socket:
    try:
        if address.kind == "unix":
            with contextlib.suppress(FileNotFoundError):
                if _is_dead(address.path):
                    os.unlink(address.path)  # left by a run that was killed
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(address.path)
        else:
            how = socket.SOCK_DGRAM if address.kind == "udp" else socket.SOCK_STREAM
            family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
            listener = socket.socket(family, how)
            if address.kind == "udp":
                with contextlib.suppress(OSError):
                    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
            else:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address.host, address.port))
        if address.kind != "udp":
            listener.listen()
        return listener
    except OSError as error:
        raise DataError(f"cannot listen there: {error.strerror or error}", address.text) from error


def _is_dead(path: str) -> bool:
    os.stat(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except OSError:
            return True
    return False


def _called(address: Address) -> socket.socket:
    if address.kind == "unix":
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(address.path)
        return connection
    return socket.create_connection((address.host, address.port), timeout=10.0)
