"""A receiver that is closed takes in what was sent by then, and the journal has it before the sender is hung up on."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.parallel.receive.received_runs import Collected, received
from wayeb_py.errors import DataError
from wayeb_py.parallel.receive.address import parse_address
from wayeb_py.parallel.receive.journal import Journal
from wayeb_py.parallel.receive.received_buffer import ReceivedBuffer
from wayeb_py.parallel.receive.sockets import SocketReceiver
from wayeb_py.parallel.receive.stdin import StdinReceiver

PATTERNS = "stream cars { key id time ts in s attr v number }\npattern Fast := (v > 50)\n"
SENTENCE = b"!AIVDM,1,1,,B,177KQJ5000G?tO`K>RA1wUbN0TKH,0*5C\n"


def lines(n: int, after: int = 0) -> bytes:
    return b"".join(b'{"id": 1, "ts": %d, "v": 60}\n' % number for number in range(after, after + n))


def over_tcp(receiver: SocketReceiver) -> socket.socket:
    return socket.create_connection(("127.0.0.1", receiver.port))


def over_unix(receiver: SocketReceiver) -> socket.socket:
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sender.connect(receiver.address.path)
    return sender


def by_datagrams(receiver: SocketReceiver) -> socket.socket:
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.connect(("127.0.0.1", receiver.port))
    return sender


def in_the_journal(folder: Path) -> int:
    journal = Journal(folder)
    journal.close()
    return journal.safe_end


@pytest.mark.parametrize(
    ("address", "call", "line"),
    [
        ("tcp://127.0.0.1:0", over_tcp, lines(1)),
        ("tcp://127.0.0.1:0?ack", over_tcp, lines(1)),
        ("unix:{folder}/lines.sock", over_unix, lines(1)),
        ("nmea+tcp://127.0.0.1:0", over_tcp, SENTENCE),
    ],
    ids=["tcp", "ack", "unix", "nmea"],
)
def test_a_journal_has_what_a_connection_had_sent_before_a_stop(
    address: str, call: Callable[[SocketReceiver], socket.socket], line: bytes, tmp_path: Path
) -> None:
    receiver, journal = SocketReceiver(parse_address(address.format(folder=tmp_path))), Journal(tmp_path / "journal")
    receiver.start(journal)
    with call(receiver) as sender, call(receiver) as other:
        sender.sendall(7000 * line)
        other.sendall(3 * line)  # on a connection that may not be accepted yet
        receiver.close()
    assert journal.safe_end == 7003
    journal.close()
    assert in_the_journal(tmp_path / "journal") == 7003


def test_a_journal_has_the_datagrams_that_waited_at_a_stop(tmp_path: Path) -> None:
    receiver, journal = SocketReceiver(parse_address("nmea+udp://127.0.0.1:0")), Journal(tmp_path / "journal")
    with by_datagrams(receiver) as sender:
        for _ in range(100):
            sender.send(SENTENCE)
        receiver.start(journal)
        receiver.close()
    journal.close()
    assert in_the_journal(tmp_path / "journal") == 100


def test_what_waits_in_a_pipe_at_a_stop_is_taken_in() -> None:
    reading, writing = os.pipe()
    os.write(writing, lines(1000))
    store, receiver = ReceivedBuffer(), StdinReceiver(parse_address("-"), reading)
    receiver.start(store)
    receiver.close()
    os.close(writing)
    os.close(reading)
    assert store.end == 1000


def test_what_is_sent_before_a_stop_is_read_by_the_next_start(tmp_path: Path) -> None:
    receiver, rows = SocketReceiver(parse_address("tcp://127.0.0.1:0")), 0
    journal = Journal(tmp_path / "journal")
    with received(receiver, tmp_path / "state", Collected(), journal, PATTERNS) as run, over_tcp(receiver) as sender:
        sender.sendall(lines(2000))
        run.until(lambda: "2000" in read(tmp_path / "state/batches.ndjson"), "a batch")
        sender.sendall(lines(7000, 2000))
        rows += run.end().rows
    again = SocketReceiver(parse_address("tcp://127.0.0.1:0"))
    with received(again, tmp_path / "state", Collected(), Journal(tmp_path / "journal"), PATTERNS) as run:
        run.until(lambda: "9000" in read(tmp_path / "state/batches.ndjson"), "the last batch")
        rows += run.end().rows
    assert rows == 9000


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_a_file_where_a_socket_is_wanted_stays(tmp_path: Path) -> None:
    path = tmp_path / "precious.txt"
    path.write_text("mine")
    (tmp_path / "link").symlink_to(path)
    for name in ("precious.txt", "link"):
        with pytest.raises(DataError, match=f"`.*{name}` is there already, and is no socket"):
            SocketReceiver(parse_address(f"unix:{tmp_path / name}"))
    assert path.read_text() == "mine"


def test_a_socket_that_a_killed_run_left_is_replaced_and_one_that_is_used_is_not(tmp_path: Path) -> None:
    address = parse_address(f"unix:{tmp_path / 'lines.sock'}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(address.path)
    receiver = SocketReceiver(address)
    receiver.start(ReceivedBuffer())
    with pytest.raises(DataError, match="cannot listen there: Address already in use"):
        SocketReceiver(address)
    receiver.close()
    assert not Path(address.path).exists()
