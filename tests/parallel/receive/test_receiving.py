"""What arrives on real sockets is found as a batch finds it; what is no event is set aside, and nothing is lost."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parallel.car_events import make_events
from tests.parallel.killing import BatchRun
from tests.parallel.receive.received_runs import Collected, as_lines, received
from tests.strategies import examples
from wayeb_py.errors import DataError
from wayeb_py.parallel.receive.address import is_address, parse_address
from wayeb_py.parallel.receive.decoders import CsvLines, Sentences
from wayeb_py.parallel.receive.journal import Journal
from wayeb_py.parallel.receive.received_buffer import DROPPED, Note, ReceivedBuffer, bytes_of
from wayeb_py.parallel.receive.sockets import SocketReceiver
from wayeb_py.parallel.receive.stdin import StdinReceiver
from wayeb_py.parallel.sinks.deliveries import open_delivery

CARS = [f"car-{number}" for number in range(20)]
# After the lateness comes something that completes nothing: a stream that is stopped holds nothing else back.
LAST = pa.table({"id": CARS, "ts": [1000] * 20, "v": pa.array([0.0] * 20, pa.float32()), "k": ["a"] * 20})
EVENTS = pa.concat_tables([make_events(400), LAST.cast(make_events(1).schema)])
N_ROWS = EVENTS.num_rows


def differs(sink: Collected, events: pa.Table = EVENTS) -> str | None:
    """How the detections differ from those of a batch run, each of them counted once."""
    once = {row["detection_id"]: row for row in sink.rows}
    expected = BatchRun(events)
    names = expected.found.column_names
    found = [{name: row[name] for name in names} for row in once.values()]
    return expected.differs(pa.Table.from_pylist(found, schema=expected.found.schema))


def as_csv(table: pa.Table) -> bytes:
    rows = [",".join("" if value is None else str(value) for value in row.values()) for row in table.to_pylist()]
    return "\n".join(["id,ts,v,k", *rows, ""]).encode()


def call(receiver: SocketReceiver) -> socket.socket:
    """A connection to a receiver that listens."""
    address = receiver.address
    if address.kind == "unix":
        sender = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sender.connect(address.path)
        return sender
    return socket.create_connection(("127.0.0.1", receiver.port))


@pytest.mark.parametrize(
    ("address", "lines"),
    [
        ("tcp://127.0.0.1:0", as_lines(EVENTS)),
        ("unix:{folder}/lines.sock", as_lines(EVENTS)),
        ("tcp://127.0.0.1:0?format=csv", as_csv(EVENTS)),
    ],
    ids=["tcp", "unix", "csv"],
)
def test_lines_on_a_socket_are_found_as_in_a_batch(address: str, lines: bytes, tmp_path: Path) -> None:
    receiver = SocketReceiver(parse_address(address.format(folder=tmp_path)))
    sink = Collected()
    with received(receiver, tmp_path / "state", sink, final=True) as run:
        with call(receiver) as sender:
            for at in range(0, len(lines), 997):  # cut anywhere
                sender.sendall(lines[at : at + 997])
        run.until(lambda: run.log.store.end >= N_ROWS, "all lines")
        summary = run.end()
    assert summary.rows == N_ROWS
    assert differs(sink) is None
    assert any("a crash loses what has arrived since the last batch" in line for line in run.said)


def test_standard_input_ends_the_stream_and_final_closes_what_is_open(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    sink = Collected()
    with received(StdinReceiver(parse_address("-"), reading), tmp_path / "state", sink, final=True) as run:
        os.write(writing, as_lines(EVENTS) + b"no json\n{half")
        os.close(writing)
        summary = run.end(asks=False)
    os.close(reading)
    assert summary.end == "read everything that was there"
    assert differs(sink) is None
    assert summary.bad["a line without an end"] == 1
    assert sum(n for reason, n in summary.bad.items() if reason.startswith("not JSON")) == 1


SENTENCES = (
    b"!AIVDM,1,1,,B,177KQJ5000G?tO`K>RA1wUbN0TKH,0*5C",
    b"!AIVDM,2,1,1,A,55?MbV02;H;s<HtKR20EHE:0@T4@Dn2222222216L961O5Gf0NSQEp6ClRp8,0*1C",
    b"!AIVDM,2,2,1,A,88888888880,2*25",
    b"!AIVDM,1,1,,B,177KQJ5000G?tO`K>RA1wUbN0TKH,0*5D",  # the checksum is wrong
)


def test_sentences_are_decoded_as_in_files_and_have_the_time_of_their_arrival() -> None:
    from wayeb_py.clock import Clock

    decoder = Sentences({}, Clock(lambda: 1_700_000_000.25))
    first, static, second, wrong = (decoder.decode(line) for line in SENTENCES)
    (event,) = first
    assert json.loads(bytes_of(event)) | {"lon": 0, "lat": 0} == {
        "mmsi": 477553000, "ts": "2023-11-14T22:13:20.250000Z", "lon": 0, "lat": 0, "speed": 0.0, "course": 51.0,
        "heading": 181, "type": None, "name": None, "status": "moored",
    }  # fmt: skip
    assert (static, [type(record) for record in second]) == ([], [Note])  # what the two fragments say is noted
    assert json.loads(bytes_of(wrong[0]))["reason"] == "bad checksum"


def test_datagrams_with_sentences_become_events(tmp_path: Path) -> None:
    receiver = SocketReceiver(parse_address("nmea+udp://127.0.0.1:0"))
    sink = Collected()
    patterns = "stream ships { key mmsi time ts }\npattern Moored := (speed < 1)\n"
    with received(receiver, tmp_path / "state", sink, patterns=patterns) as run:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for line in SENTENCES:
                sender.sendto(line + b"\r\n", ("127.0.0.1", receiver.port))
        run.until(lambda: bool(sink.rows), "a detection")
        run.until(lambda: run.log.store.end == 2, "the bad line")
        summary = run.end()
    assert [row["entity"] for row in sink.rows] == [477553000]
    assert dict(summary.bad) == {"bad checksum": 1}


@pytest.mark.parametrize("connects", [False, True], ids=["server", "client"])
def test_sentences_come_over_a_connection_either_way(connects: bool, tmp_path: Path) -> None:
    sink = Collected()
    patterns = "stream ships { key mmsi time ts }\npattern Moored := (speed < 1)\n"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1] if connects else 0
        receiver = SocketReceiver(parse_address(f"nmea+tcp://127.0.0.1:{port}{'?connect' if connects else ''}"))
        with received(receiver, tmp_path / "state", sink, patterns=patterns) as run:
            connection = listener.accept()[0] if connects else call(receiver)
            with connection:
                connection.sendall(b"\r\n".join(SENTENCES) + b"\r\n")
                run.until(lambda: bool(sink.rows), "a detection")
                run.until(lambda: run.log.store.end == 2, "the bad line")
            summary = run.end()
    assert [row["entity"] for row in sink.rows] == [477553000]
    assert dict(summary.bad) == {"bad checksum": 1}


def test_a_caller_takes_in_what_the_one_who_listens_sends(tmp_path: Path) -> None:
    sink = Collected()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        receiver = SocketReceiver(parse_address(f"tcp://127.0.0.1:{listener.getsockname()[1]}?connect"))
        with received(receiver, tmp_path / "state", sink, final=True) as run:
            for part in (EVENTS.slice(0, 200), EVENTS.slice(200)):  # it calls again when it was hung up on
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(as_lines(part))
            run.until(lambda: run.log.store.end >= N_ROWS, "all lines")
            run.end()
    assert differs(sink) is None


def test_a_journal_keeps_what_was_acknowledged_and_a_start_reads_it(tmp_path: Path) -> None:
    """The first process dies after it has acknowledged, and before it has read a thing."""
    receiver = SocketReceiver(parse_address("tcp://127.0.0.1:0?ack"))
    journal = Journal(tmp_path / "journal", segment_bytes=4000)
    receiver.start(journal)
    with socket.create_connection(("127.0.0.1", receiver.port)) as sender, sender.makefile() as told:
        for n in range(0, N_ROWS, 100):
            sender.sendall(as_lines(EVENTS.slice(n, 100)))
            while int(told.readline()) < min(n + 100, N_ROWS):
                pass
    receiver.close()
    journal.close()
    assert len(journal.segments()) > 1
    sink = Collected()
    again = SocketReceiver(parse_address("tcp://127.0.0.1:0?ack"))
    with received(again, tmp_path / "state", sink, Journal(tmp_path / "journal"), final=True) as run:
        run.until(lambda: bool(run.summary) or len(sink.rows) > 100, "detections")
        run.until(lambda: (tmp_path / "state/batches.ndjson").exists(), "a batch")
        run.until(lambda: f'"{0}": {N_ROWS}' in (tmp_path / "state/batches.ndjson").read_text(), "the last batch")
        run.end()
    assert not any("a crash loses" in line for line in run.said)
    assert len(sink.rows) == len({row["detection_id"] for row in sink.rows})


def test_half_a_record_at_the_end_of_a_journal_is_cut_off(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert journal.wait_safe(journal.append([b'{"a": 1}', Note(b"note"), b'{"a": 2}']))
    journal.close()
    (_, path), *_ = journal.segments()
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    again = Journal(tmp_path)
    assert (again.safe_end, again.notes(), again.id) == (1, [b"note"], journal.id)
    assert again.wait_safe(again.append([b'{"a": 3}']))
    assert [bytes_of(record) for record in again._from_disk(0, 2)] == [b'{"a": 1}', b'{"a": 3}']
    again.close()


def test_a_journal_drops_old_segments_once_nobody_needs_them(tmp_path: Path) -> None:
    journal = Journal(tmp_path, most_bytes=3000, segment_bytes=1000)
    for number in range(60):
        end = journal.append([b"%0100d" % number], may_drop=True)
        assert journal.wait_safe(end)
        if number == 20:
            journal.forget(journal.end)
    assert journal.n_dropped > 0  # what is needed alone was too large
    journal.forget(journal.end)
    assert journal.append([b"last"], may_drop=True)
    journal.close()
    assert sum(path.stat().st_size for _, path in journal.segments()) < 4500
    assert journal.segments()[0][0] > 0


def test_a_full_store_makes_a_connection_wait_and_drops_datagrams_with_a_count() -> None:
    store = ReceivedBuffer(most_rows=2)
    store.append([b"1", b"2"])
    store.append([b"3"], may_drop=True)
    assert (store.end, store.n_dropped) == (2, 1)
    store.forget(2)
    store.append([b"4"], may_drop=True)
    told, last = store.read(2, 4)
    assert json.loads(bytes_of(told)) == {"reason": DROPPED, "text": "1 records"}
    assert bytes_of(last) == b"4"


def test_csv_keeps_numbers_as_they_are_spelt() -> None:
    lines = CsvLines()
    assert lines.decode(b"id,v,note\r") == []
    assert lines.decode(b'007,1.50,"a, b"\r')[0] == b'{"id": "007", "v": 1.50, "note": "a, b"}'
    assert lines.decode(b"7,,x")[0] == b'{"id": 7, "v": null, "note": "x"}'
    assert json.loads(bytes_of(lines.decode(b"7,8")[0]))["reason"] == "not as many values as the header has columns, 3"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tcp://127.0.0.1:99999", "the port 99999 is too large"),
        ("nmea+udp://127.0.0.1:x1", "`x1` is no port"),
    ],
)
def test_a_port_that_is_none_is_named(text: str, said: str) -> None:
    with pytest.raises(DataError, match=said) as told:
        parse_address(text)
    assert told.value.hint == "a port is a number from 0 to 65535"
    with pytest.raises(DataError, match="the port 70000 is too large"):
        open_delivery("sse://127.0.0.1:70000/events")


@pytest.mark.parametrize("text", ["tcp://127.0.0.1", "nmea+ftp://h:1", "tcp://h:1?format=xml", "udp:", "tcp://h:1?x=1"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(DataError):
        parse_address(text)


def test_folders_and_topics_are_no_addresses() -> None:
    assert [is_address(text) for text in ("-", "tcp://h:1", "incoming", "kafka://h/t", "replay:x")] == [
        True, True, False, False, False,
    ]  # fmt: skip


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7), st.integers(0, 7)), max_size=30))
def test_a_store_holds_what_was_not_dropped_at_its_offset(steps: list[tuple[int, int, int]]) -> None:
    """A list of all records ever, cut where the store has to forget, says what must be there."""
    store, all_, first = ReceivedBuffer(), list[bytes](), 0
    for n_more, forward, n_read in steps:
        store.append([b"%d" % (len(all_) + nth) for nth in range(n_more)])
        all_ += [b"%d" % (len(all_) + nth) for nth in range(n_more)]
        first = min(first + forward, len(all_))
        assert store.read(first, first + n_read) == all_[first : first + n_read]
        assert (store.first, store.end, store.peek(3)) == (first, len(all_), all_[first : first + 3])
        assert store._n_bytes == sum(map(len, all_[first:]))
