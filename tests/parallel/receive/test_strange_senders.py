"""Senders that vanish, break off, do not listen or send what no reader expects: it is not silent, and ends no other."""

from __future__ import annotations

import errno
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.parallel.receive.received_runs import Collected, received
from tests.polling import poll
from wayeb_py.errors import DataError
from wayeb_py.parallel.receive.address import is_address, parse_address
from wayeb_py.parallel.receive.decoders import CsvLines, Sentences
from wayeb_py.parallel.receive.received_buffer import ReceivedBuffer, Record, bytes_of
from wayeb_py.parallel.receive.sockets import Connection, Lines, SocketReceiver

PATTERNS = "stream cars { key id time ts in s attr v number }\npattern Fast := (v > 50)\n"
SHIPS = "stream ships { key mmsi time ts }\npattern Moored := (speed < 1)\n"
SENTENCE = b"!AIVDM,1,1,,B,177KQJ5000G?tO`K>RA1wUbN0TKH,0*5C"
FIRST_PART = b"!AIVDM,2,1,1,A,55?MbV02;H;s<HtKR20EHE:0@T4@Dn2222222216L961O5Gf0NSQEp6ClRp8,0*1C"
EVENT = b'{"id": 1, "ts": 1, "v": 60}\n'


class Kept(ReceivedBuffer):
    """A buffer that says it is a journal."""

    keeps = True


@pytest.fixture
def listening() -> Iterator[tuple[SocketReceiver, ReceivedBuffer]]:
    """A receiver that acknowledges."""
    receiver, store = SocketReceiver(parse_address("tcp://127.0.0.1:0?ack")), Kept()
    receiver.start(store)
    yield receiver, store
    receiver.close()


@pytest.mark.parametrize("text", [b"\n", b"  \n\r\n", EVENT + b"\n"])
def test_lines_that_hold_nothing_are_acknowledged_too(
    text: bytes, listening: tuple[SocketReceiver, ReceivedBuffer]
) -> None:
    receiver, _ = listening
    with socket.create_connection(("127.0.0.1", receiver.port), 60) as sender, sender.makefile() as told:
        sender.sendall(EVENT)
        assert told.readline() == "1\n"
        sender.sendall(text)
        n_lines = 1 + text.count(b"\n")
        while int(told.readline()) < n_lines:  # a sender waits until all is safe
            pass


def test_a_number_of_which_half_was_sent_is_finished_before_the_next() -> None:
    """Half of 1234 and then 1300 would be 121300 lines, which were never sent."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        own = Connection(ours, SimpleNamespace(), ReceivedBuffer())
        room = [2, 0, 100, 100]

        def send(data: bytes) -> int:
            most = room.pop(0)
            if not most:
                raise BlockingIOError
            return ours.send(data[:most])

        own.socket = SimpleNamespace(send=send)  # type: ignore[assignment]
        for n_lines in (1234, 1250, 1260, 1300):
            own.lines.n_lines = n_lines
            own.acknowledge()
        assert theirs.recv(100) == b"1234\n1300\n"


def test_a_receiver_without_a_free_descriptor_says_so_and_takes_connections_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said, faults = list[str](), [OSError(errno.EMFILE, "Too many open files")] * 2
    receiver, store = SocketReceiver(parse_address("tcp://127.0.0.1:0"), say=said.append), ReceivedBuffer()
    accept = receiver._socket.accept  # type: ignore[union-attr]

    def accept_or_fail() -> Any:
        if faults:
            raise faults.pop()
        return accept()

    listener = SimpleNamespace(
        accept=accept_or_fail, settimeout=receiver._socket.settimeout,  # type: ignore[union-attr]
        setblocking=receiver._socket.setblocking, close=receiver._socket.close,  # type: ignore[union-attr]
    )  # fmt: skip
    port = receiver.port
    monkeypatch.setattr(receiver, "_socket", listener)
    receiver.start(store)
    with socket.create_connection(("127.0.0.1", port)) as sender:
        sender.sendall(EVENT)
        poll(lambda: store.end == 1, "the line")
    receiver.close()
    assert said == ["tcp://127.0.0.1:0 takes no more connections for now: Too many open files"]


def test_a_sender_for_whom_there_is_no_room_waits_until_another_has_gone() -> None:
    said = list[str]()
    receiver, store = SocketReceiver(parse_address("tcp://127.0.0.1:0"), say=said.append), ReceivedBuffer()
    receiver.most_connections = 2
    receiver.start(store)
    senders = [socket.create_connection(("127.0.0.1", receiver.port)) for _ in range(3)]
    for sender in senders:
        sender.sendall(EVENT)
    poll(lambda: bool(said), "the message")
    assert store.end <= 2
    senders[0].close()
    poll(lambda: store.end == 3, "the line of the third")
    receiver.close()
    for sender in senders:
        sender.close()
    assert "takes no more connections for now: 2 are open" in said[0]


def test_threads_of_connections_that_have_ended_are_let_go() -> None:
    receiver, store = SocketReceiver(parse_address("tcp://127.0.0.1:0")), ReceivedBuffer()
    receiver.start(store)
    for n_sent in range(1, 31):
        with socket.create_connection(("127.0.0.1", receiver.port)) as sender:
            sender.sendall(EVENT)
        poll(lambda n_sent=n_sent: store.end == n_sent, "the line")  # type: ignore[misc]
        poll(lambda: sum(one.is_alive() for one in receiver._threads) == 1, "the end of the connection")
    assert len(receiver._threads) <= 2
    receiver.close()


def test_what_goes_wrong_in_a_thread_that_takes_in_ends_the_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the stream would go on for ever without its source."""

    def fail(self: Sentences, line: bytes) -> list[Record]:
        raise ArithmeticError("nobody has thought of this")

    monkeypatch.setattr(Sentences, "decode", fail)
    receiver = SocketReceiver(parse_address("nmea+udp://127.0.0.1:0"))
    with received(receiver, tmp_path / "state", Collected(), patterns=SHIPS) as run:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(SENTENCE, ("127.0.0.1", receiver.port))
        with pytest.raises(ArithmeticError, match="nobody has thought of this"):
            run.end(asks=False)


def test_a_sentence_from_beyond_the_calendar_stops_no_receiver(tmp_path: Path) -> None:
    sink, receiver = Collected(), SocketReceiver(parse_address("nmea+udp://127.0.0.1:0"))
    with received(receiver, tmp_path / "state", sink, patterns=SHIPS) as run:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for tag in (rb"\c:9999999999999999*5C" + b"\\", b""):
                sender.sendto(tag + SENTENCE, ("127.0.0.1", receiver.port))
        run.until(lambda: bool(sink.rows), "the detection after it")
        summary = run.end()
    assert dict(summary.bad) == {"the time cannot be read": 1}


@pytest.mark.parametrize("how", ["tcp", "udp"])
def test_the_first_part_of_a_message_whose_sender_goes_away_is_set_aside(how: str) -> None:
    receiver, store = SocketReceiver(parse_address(f"nmea+{how}://127.0.0.1:0")), ReceivedBuffer()
    receiver.start(store)
    kind = socket.SOCK_DGRAM if how == "udp" else socket.SOCK_STREAM
    with socket.socket(socket.AF_INET, kind) as sender:
        sender.connect(("127.0.0.1", receiver.port))
        sender.send(FIRST_PART + b"\n")
    receiver.close()
    (record,) = store.peek(2)
    assert json.loads(bytes_of(record)) == {"reason": "a fragment without the others", "text": FIRST_PART.decode()}


def test_a_connection_notices_an_end_that_vanished_without_a_word() -> None:
    receiver, store = SocketReceiver(parse_address("tcp://127.0.0.1:0")), ReceivedBuffer()
    taken = threading.Event()
    made: list[socket.socket] = []
    take_in = receiver._take_in

    def noted(connection: socket.socket) -> None:
        made.append(connection)
        take_in(connection)

    receiver._take_in = noted  # type: ignore[method-assign]
    receiver.start(store)
    store.on_arrival = taken.set
    with socket.create_connection(("127.0.0.1", receiver.port)) as sender:
        sender.sendall(EVENT)
        assert taken.wait(60)
        assert made[0].getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    receiver.close()


def test_a_logger_that_begins_anew_names_its_columns_again() -> None:
    lines = CsvLines()
    for line in (b"id,lon,lat", b"1,2,3", b"lat,id,lon"):
        records = lines.decode(line)
    assert records == []
    assert json.loads(bytes_of(lines.decode(b"3,1,2")[0])) == {"id": 1, "lon": 2, "lat": 3}


def test_a_line_that_is_too_long_takes_no_memory_and_costs_no_other() -> None:
    class Whole:
        def decode_all(self, lines: Any) -> list[bytes]:
            return list(lines)

        def end(self) -> list[Record]:
            return []

    lines = Lines(Whole())  # type: ignore[arg-type]
    found = [record for _ in range(200) for record in lines.take(b"x" * (1 << 16))]
    found += lines.take(b"x\nnext\n")
    assert json.loads(bytes_of(found[0]))["reason"] == "a line of more than 1048576 bytes"
    assert found[1:] == [b"next"]


def test_csv_may_come_on_standard_input() -> None:
    assert is_address("-?format=csv")
    assert (parse_address("-?format=csv").form, parse_address("-").form) == ("csv", "ndjson")


def test_a_filter_of_topics_keeps_its_sign() -> None:
    assert parse_address("mqtt://127.0.0.1/ships/#").path == "ships/#"
    address = parse_address("mqtt://127.0.0.1:1884/ships/+/#?format=csv")
    assert (address.port, address.path, address.form) == (1884, "ships/+/#", "csv")


@pytest.mark.parametrize("kind", ["tcp", "udp"])
def test_a_port_that_is_taken_is_told_with_a_remedy(kind: str) -> None:
    taken = SocketReceiver(parse_address(f"nmea+{kind}://127.0.0.1:0"))
    with pytest.raises(DataError, match="cannot listen there: Address already in use") as told:
        SocketReceiver(parse_address(f"nmea+{kind}://127.0.0.1:{taken.port}"))
    assert "take another port" in (told.value.hint or "")
    taken._hang_up()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nmea+udp://127.0.0.1:1?connect", "`connect` is no option"),
        ("mqtt://127.0.0.1/ships?user=me", "`user` is no option"),
        ("mqtt://127.0.0.1/ships?qos=2", "`qos` is no option"),
        ("-?ack", "`ack` is no option"),
        ("mqtt://me:secret@127.0.0.1/ships", "nothing here logs in"),
    ],
)
def test_what_would_be_ignored_is_refused(text: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        parse_address(text)
