"""Connections and datagrams become lines, lines become records of a store: TCP, sockets of this machine, UDP.

Each connection has a thread, which reads, decodes and appends; while the store is full it does not read, and the sender
waits. Where nothing goes to a journal, the thread lends the connection to the stream once that has begun: the stream
looks at it between two steps, and no other thread has to run before an event is there (`logs.arrival`). A line that is
cut off when its sender goes away is set aside. A receiver that is closed takes in what was sent by then, also on
connections that were not accepted yet. A datagram is one line or several; one that finds the store full is
dropped and counted (`received_buffer`).
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import stat
import threading
import time
from collections.abc import Callable

from wayeb_py.errors import DataError
from wayeb_py.parallel.logs.arrival import Arrival
from wayeb_py.parallel.receive.address import Address
from wayeb_py.parallel.receive.connections import (
    RECEIVED_SHARE,
    Refusal,
    most_connections,
    not_bound,
    notice_vanished,
    refuse_many,
)
from wayeb_py.parallel.receive.decoders import LONGEST_LINE, Decoder
from wayeb_py.parallel.receive.received_buffer import ReceivedBuffer, Record, fault
from wayeb_py.parallel.receive.threaded_receiver import ThreadedReceiver

READ_BYTES = 1 << 16
LOOK_EVERY_S = 0.25  # how often a thread looks whether it is closed
REST_S, QUIET_S = 2.0, 0.1  # how long a closed thread takes in at most, and without anything to read
TAKE_BYTES, TAKE_S = 1 << 14, 0.0005  # what the stream reads at once, and for how long if a sender has more
MOST_SENDERS = 1000  # of datagrams, whose fragments are waited for
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
        """The rest of a line that a sender left unfinished when it went away, and of a message in several lines."""
        rest, self._rest = self._rest, b""
        cut_off = [fault("a line without an end", rest)] if rest.strip() and not self._skips else []
        return [*cut_off, *self._decoder.end()]


class Connection:
    """A connection that sends lines, which its thread takes in, or the stream."""

    def __init__(self, connection: socket.socket, decoder: Decoder, store: ReceivedBuffer) -> None:
        connection.setblocking(False)
        self.socket, self.lines, self._store = connection, Lines(decoder), store
        self._taking = threading.Lock()
        self._readable = select.poll()
        self._readable.register(connection, select.POLLIN)
        self.ended = threading.Event()
        self._n_told, self._untold = 0, b""  # the last number, and what of it has not left

    def acknowledge(self) -> None:
        """Tells the sender how many lines are safe, and does not wait: one that does not listen hears a later number.
        A number leaves whole before the next one, as half of it would be another number."""
        if not self._untold and self.lines.n_lines > self._n_told:
            self._n_told = self.lines.n_lines
            self._untold = b"%d\n" % self._n_told
        if self._untold:
            with contextlib.suppress(OSError):
                self._untold = self._untold[self.socket.send(self._untold) :]

    def wait(self, most_s: float = LOOK_EVERY_S) -> bool:
        """Waits some time for something to read."""
        return bool(self._readable.poll(1000 * most_s))

    def take(self) -> int | None:
        """Takes in what a thread has waited for; returns the offset after it."""
        with self._taking:
            records = self._receive(READ_BYTES)
            return self._store.append(records) if records else None

    def take_now(self, until_s: float) -> None:
        """Takes in what is there, at least once, and until a time if there is more and room for it. Leaves it to the
        thread where that is taking something in."""
        if not self._taking.acquire(blocking=False):
            return
        try:
            while not (self.ended.is_set() or self._store.is_full):
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
        self.most_connections = most_connections(RECEIVED_SHARE)

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
        refusal = Refusal(self._say)
        while not self._closed.is_set():
            try:
                refuse_many(sum(one.is_alive() for one in self._threads) - 1, self.most_connections)
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            except OSError as error:  # too many are open, as a rule: senders wait until others have gone
                refusal.tell(self.name, error)
                self._closed.wait(LOOK_EVERY_S)
                continue
            self._run(lambda own=connection: self._take_in(own))  # type: ignore[misc]
        listener.setblocking(False)
        until_s = time.perf_counter() + REST_S
        with contextlib.suppress(OSError):  # until no connection waits to be accepted
            while time.perf_counter() < until_s:
                connection, _ = listener.accept()
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
        notice_vanished(connection)
        own, is_kept = Connection(connection, self.decoder(), self.store), True
        with connection:
            while is_kept and not (self._closed.is_set() or own.ended.is_set()):
                if self._is_lent(own):
                    own.ended.wait(LOOK_EVERY_S)
                elif own.wait():
                    is_kept = self._take(own)
                elif self.address.acknowledges:
                    own.acknowledge()
            until_s = time.perf_counter() + REST_S
            while is_kept and not own.ended.is_set() and own.wait(QUIET_S) and time.perf_counter() < until_s:
                is_kept = self._take(own)
            self._give_back(own)
            self.store.wait_safe(self.store.end)

    def _take(self, own: Connection) -> bool:
        """Takes in what there is to read, and acknowledges it where that is wanted; False if it is not kept."""
        end = own.take()
        if not self.address.acknowledges:
            return True
        if end is not None and not self.store.wait_safe(end):
            return False
        own.acknowledge()  # also of lines that are no rows: empty ones, a header, the first part of a message
        return True

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

    def _take_datagrams(self) -> None:
        receiver, store = self._socket, self.store
        assert receiver is not None
        receiver.settimeout(LOOK_EVERY_S)
        senders: dict[object, Decoder] = {}
        until_s: float | None = None  # once the receiver is closed, which takes in the datagrams that wait
        while until_s is None or time.perf_counter() < until_s:
            if until_s is None and self._closed.is_set():
                until_s = time.perf_counter() + REST_S
                receiver.setblocking(False)
            try:
                data, sender = receiver.recvfrom(READ_BYTES)
            except TimeoutError:
                continue
            except OSError:
                break
            decoder = senders.get(sender)
            if decoder is None:
                if len(senders) >= MOST_SENDERS:
                    if given_up := _ends(senders):
                        store.append(given_up, may_drop=until_s is None)
                    senders.clear()
                decoder = senders[sender] = self.decoder()
            records = decoder.decode_all(data.splitlines())
            if records:
                store.append(records, may_drop=until_s is None)
        store.append(_ends(senders))
        store.wait_safe(store.end)

    def _wake(self) -> None:
        """Nothing waits for long; a socket of this machine goes, so that no more senders find it."""
        if self._socket is not None and self.address.kind == "unix":
            with contextlib.suppress(OSError):
                _remove_socket(self.address.path)

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()


def _ends(senders: dict[object, Decoder]) -> list[Record]:
    """What senders that are given up have left unfinished."""
    return [record for decoder in senders.values() for record in decoder.end()]


def _bound(address: Address) -> socket.socket:
    try:
        if address.kind == "unix":
            with contextlib.suppress(FileNotFoundError):
                if not _is_socket(address.path):
                    raise DataError(
                        f"cannot listen there: `{address.path}` is there already, and is no socket", address.text,
                        hint="name a path where nothing is, or remove what is there",
                    )  # fmt: skip
                if _is_dead(address.path):
                    _remove_socket(address.path)  # left by a run that was killed
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        else:
            how = socket.SOCK_DGRAM if address.kind == "udp" else socket.SOCK_STREAM
            listener = socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET, how)
        with contextlib.ExitStack() as closing:
            closing.callback(listener.close)
            if address.kind == "udp":
                with contextlib.suppress(OSError):
                    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
            elif address.kind != "unix":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address.path if address.kind == "unix" else (address.host, address.port))
            if address.kind != "udp":
                listener.listen()
            closing.pop_all()
        return listener
    except OSError as error:
        raise not_bound(error, address.text) from error


def _is_socket(path: str) -> bool:
    return stat.S_ISSOCK(os.lstat(path).st_mode)


def _remove_socket(path: str) -> None:
    """Removes a socket, and nothing else."""
    if _is_socket(path):
        os.unlink(path)


def _is_dead(path: str) -> bool:
    """Whether a socket is there at which no process listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def _called(address: Address) -> socket.socket:
    if address.kind == "unix":
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(address.path)
        return connection
    return socket.create_connection((address.host, address.port), timeout=10.0)
