"""A stream reads its connections itself, without waiting, and no thread has to run in between."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.parallel.receive.received_runs import Collected, received
from tests.polling import poll
from wayeb_py.parallel.health import gauge
from wayeb_py.parallel.health.gauge import Gauge, Writer, gauge_of
from wayeb_py.parallel.logs.arrival import Arrival
from wayeb_py.parallel.logs.back_pressure import Capacity
from wayeb_py.parallel.receive.address import parse_address
from wayeb_py.parallel.receive.received_buffer import ReceivedBuffer
from wayeb_py.parallel.receive.received_log import ReceivedLog
from wayeb_py.parallel.receive.sockets import MOST_LENT, TAKE_BYTES, SocketReceiver

LONG_S = 30.0


def test_an_arrival_is_set_by_a_thread_or_while_a_connection_has_something() -> None:
    arrived = Arrival()
    assert not arrived.wait(0.001)
    threading.Timer(0.01, arrived.set).start()
    assert arrived.wait(LONG_S)
    assert arrived.is_set()
    arrived.clear()
    assert not arrived.is_set()
    one, other = socket.socketpair()
    with one, other:
        arrived.watch(one)
        arrived.clear()
        assert not arrived.is_set()
        other.send(b".")
        assert arrived.wait(LONG_S)
        assert arrived.is_set()
        one.recv(1)
        assert not arrived.wait(0.001)
        other.send(b".")
        arrived.unwatch(one)
        assert not arrived.is_set()


Lent = tuple[SocketReceiver, ReceivedBuffer, list[socket.socket], Arrival]


@contextmanager
def lending(n: int = 1, most_rows: int = 1000) -> Iterator[Lent]:
    """A receiver that has lent as many connections as it lends, and their senders."""
    receiver, store, arrived = SocketReceiver(parse_address("tcp://127.0.0.1:0")), ReceivedBuffer(most_rows), Arrival()
    receiver.start(store)
    receiver.lend(arrived)
    senders = []
    try:
        for _ in range(n):
            senders.append(socket.create_connection(("127.0.0.1", receiver.port)))
            poll(lambda: len(receiver._lent) == min(len(senders), MOST_LENT), "a connection that is lent")
        arrived.clear()
        yield receiver, store, senders, arrived
    finally:
        for sender in senders:
            sender.close()
        receiver.close()


def test_what_was_lent_is_read_when_the_stream_looks_and_not_before() -> None:
    with lending() as (receiver, store, (sender,), arrived):
        sender.sendall(b"1\n2\n3")
        assert arrived.wait(LONG_S)
        assert store.end == 0
        receiver.look()
        assert store.peek(9) == [b"1", b"2"]
        assert not arrived.is_set()
        sender.close()
        assert arrived.wait(LONG_S)
        receiver.look()
        assert store.end == 3  # the line without an end, set aside
        assert not receiver._lent
        assert not arrived.is_set()


def test_what_was_sent_before_a_stop_is_taken_in() -> None:
    with lending() as (receiver, store, (sender,), arrived):
        sender.sendall(b"1\n2\n")
        assert arrived.wait(LONG_S)
        receiver.close()
        assert store.end == 2


def test_a_full_store_leaves_the_rest_to_its_sender() -> None:
    with lending(most_rows=2) as (receiver, store, (sender,), arrived):
        sender.sendall(b"1\n" * TAKE_BYTES)
        assert arrived.wait(LONG_S)
        receiver.look()
        n = store.end
        assert n <= TAKE_BYTES // 2
        receiver.look()
        assert store.end == n
        assert arrived.is_set()
        store.forget(n)
        receiver.look()
        assert store.end > n


def test_more_connections_than_a_stream_looks_at_have_their_threads() -> None:
    with lending(MOST_LENT + 1) as (receiver, store, senders, _):
        senders[-1].sendall(b"by a thread\n")
        poll(lambda: store.end == 1, "a line")
        senders[0].sendall(b"by the stream\n")

        def is_there() -> bool:
            receiver.look()
            return store.end == 2

        poll(is_there, "another line")


LINES = b"".join(b'{"id": %d, "ts": %d, "v": 1.0}\n' % (number % 3, number) for number in range(30))
PATTERNS = "stream cars { key id time ts in s attr v number }\npattern Any := (v > 0)\n"


def test_the_thread_of_a_stream_neither_renames_nor_forces_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that does waits for the disk, with all events behind it."""
    threads: list[tuple[str, str]] = []

    def noted(name: str) -> None:
        inner = getattr(os, name)

        def call(*given: object, **named: object) -> object:
            threads.append((name, threading.current_thread().name))
            return inner(*given, **named)

        monkeypatch.setattr(os, name, call)

    monkeypatch.setattr(gauge, "WRITE_EVERY_S", 0.0)
    receiver, sink = SocketReceiver(parse_address("tcp://127.0.0.1:0")), Collected()
    with received(receiver, tmp_path / "state", sink, patterns=PATTERNS) as run:
        with socket.create_connection(("127.0.0.1", receiver.port)) as sender:
            sender.sendall(LINES)
            run.until(lambda: len(sink.rows) == 30, "the first detections")
            for name in ("replace", "fsync", "rename", "unlink"):
                noted(name)
            for number in range(30, 40):
                sender.sendall(b'{"id": 1, "ts": %d, "v": 1.0}\n' % number)
                run.until(lambda n=number: len(sink.rows) == n + 1, "a detection")
            run.until(lambda: {"replace", "fsync"} <= {name for name, _ in threads}, "a batch and the gauge")
            own = [name for name, thread in threads if thread == run._thread.name]
            monkeypatch.undo()
        run.end()
    assert own == []


def test_a_gauge_that_must_not_wait_is_written_by_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    monkeypatch.setattr(gauge, "write_states", lambda *given: threads.append(threading.get_ident()))
    store, writer = ReceivedBuffer(), Writer()
    log = ReceivedLog(SocketReceiver(parse_address("tcp://127.0.0.1:0")), store)
    followed = Gauge(log, gauge_of(log, tmp_path, Capacity(events=10)), writer=writer)
    followed.offered({"0": 0})
    poll(lambda: bool(threads), "the gauge")
    assert threading.get_ident() not in threads
    followed.write()  # at the end, by the thread that ends it
    assert threads[-1] == threading.get_ident()
    log.close()
