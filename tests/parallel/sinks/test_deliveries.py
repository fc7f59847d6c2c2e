"""What a slow, dead or late consumer does to a stream: it waits for one that must get everything, and for no viewer."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pyarrow as pa
import pytest

from tests.polling import poll
from wayeb_py.errors import DataError, PassingError
from wayeb_py.parallel.sinks import viewers
from wayeb_py.parallel.sinks.deliveries import Delivery, is_delivered, open_delivery
from wayeb_py.parallel.sinks.outbox import Outbox, UndeliveredError
from wayeb_py.parallel.sinks.sinks import Batch, Prompt
from wayeb_py.parallel.sinks.viewers import ViewerPort

QUICK = (0.01, 0.02)


def batch(*numbers: int) -> Batch:
    return Batch(0, pa.table({"detection_id": [f"id{n}" for n in numbers], "ts": list(numbers)}))


def test_an_outbox_tries_again_until_the_consumer_takes_it_and_keeps_the_order() -> None:
    got: list[int] = []
    refusals = iter([True, True, False, True])

    def deliver(item: int) -> None:
        if next(refusals, False):
            raise UndeliveredError("busy")
        got.append(item)

    said: list[str] = []
    outbox = Outbox(deliver, "there", say=said.append, waits=QUICK)
    for item in range(5):
        outbox.put(item)
    outbox.flush()
    outbox.close()
    assert got == [0, 1, 2, 3, 4]
    assert (outbox.n_delivered, outbox.n_tried_again) == (5, 3)
    assert said[0] == "there: busy; tried again in 0.01 s"


def test_a_full_outbox_makes_the_stream_wait() -> None:
    may_go = threading.Event()

    def deliver(item: int) -> None:
        may_go.wait()

    outbox = Outbox(deliver, "slow", most=3)
    done = threading.Event()

    def fill() -> None:
        for item in range(10):
            outbox.put(item)
        done.set()

    threading.Thread(target=fill, daemon=True).start()
    poll(lambda: outbox.most_waiting == 3, "the queue to be full")
    assert not done.is_set()
    may_go.set()
    assert done.wait(60)
    outbox.flush()
    outbox.close()
    assert (outbox.n_delivered, outbox.most_waiting) == (10, 3)


def test_a_stream_that_ends_before_its_consumer_comes_says_that_it_sends_again() -> None:
    def refuse(item: Any) -> None:
        raise UndeliveredError("nobody is there")

    outbox = Outbox(refuse, "nowhere", waits=(60.0, 60.0))
    outbox.put(1)
    told: list[BaseException] = []

    def flush() -> None:
        try:
            outbox.flush()
        except PassingError as error:
            told.append(error)

    waiting = threading.Thread(target=flush, daemon=True)
    waiting.start()
    outbox.close()
    waiting.join(60)
    assert "1 detections could not be delivered" in str(told[0])


@contextmanager
def webhook(answers: list[int], moved_to: str = "") -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A real server that gives the set answers, then 204; what it was sent. What is asked of it by GET counts too."""
    got: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = answers.pop(0) if answers else 204
            got.append(body | {"header": self.headers["X-Detection-Id"], "answer": answer})
            self.send_response(answer)
            if moved_to:
                self.send_header("Location", moved_to)
            self.end_headers()

        def do_GET(self) -> None:
            got.append({"answer": 200})
            self.send_response(200)
            self.end_headers()

        def log_message(self, *facts: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"webhook:http://127.0.0.1:{server.server_port}/found", got
        finally:
            server.shutdown()
            thread.join()


def test_a_webhook_gets_each_detection_with_its_id_and_is_tried_again() -> None:
    with webhook([503]) as (out, got):
        sink = open_delivery(out)
        assert isinstance(sink, Delivery)
        sink.outbox._waits = QUICK
        sink.open("s", True)
        sink.write(batch(1, 2))
        sink.flush()
        sink.close()
    assert [(one["ts"], one["header"], one["answer"]) for one in got] == [
        (1, "id1", 503), (1, "id1", 204), (2, "id2", 204),
    ]  # fmt: skip


def test_a_webhook_that_refuses_for_good_ends_the_stream() -> None:
    with webhook([422]) as (out, _):
        sink = open_delivery(out)
        assert isinstance(sink, Prompt)
        sink.write(batch(1))
        with pytest.raises(DataError, match="422"):
            sink.flush()
        sink.close()


@pytest.mark.parametrize("answer", [301, 302, 303, 307, 308])
def test_a_webhook_that_has_moved_ends_the_stream_since_what_goes_there_has_no_body(answer: int) -> None:
    with webhook([answer], moved_to="/elsewhere") as (out, got):
        sink = open_delivery(out)
        assert isinstance(sink, Delivery)
        sink.write(batch(1))
        with pytest.raises(DataError, match=f"the webhook refuses a detection: {answer}"):
            sink.flush()
        sink.close()
    assert [one["answer"] for one in got] == [answer]


def test_a_webhook_that_does_not_speak_http_is_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sink, said = open_delivery(f"webhook:http://127.0.0.1:{listener.getsockname()[1]}/found"), list[str]()
        assert isinstance(sink, Delivery)
        sink.outbox._waits, sink.outbox._say = QUICK, said.append
        sink.write(batch(1))
        for answer in (b"what?\r\n\r\n", b"HTTP/1.1 204 No Content\r\n\r\n"):
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)
        sink.flush()
        sink.close()
    assert "it does not answer" in said[0]


@pytest.mark.parametrize("url", ["ftp://h/x", "http:///x", "http://me:pw@h/x", "http://h/a b", "http://h/ä", "http://h:x/"])
def test_a_url_to_which_nothing_can_be_sent_is_refused_at_once(url: str) -> None:
    with pytest.raises(DataError):
        open_delivery(f"webhook:{url}")


def test_detections_go_to_one_topic() -> None:
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    with pytest.raises(DataError, match="this is a filter of many"):
        open_delivery("mqtt://127.0.0.1/found/#")


def test_a_consumer_that_listens_gets_lines_also_after_it_was_away() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sink = open_delivery(f"tcp://127.0.0.1:{listener.getsockname()[1]}?connect")
        sink.write(batch(1, 2))
        connection, _ = listener.accept()
        with connection, connection.makefile() as lines:
            assert [json.loads(lines.readline())["ts"] for _ in range(2)] == [1, 2]
        sink.close()


@contextmanager
def viewer_port(path: str | None) -> Iterator[ViewerPort]:
    port = ViewerPort("here", "127.0.0.1", 0, path)
    port.open("s", True)
    try:
        yield port
    finally:
        port.close()


def test_everyone_who_connects_sees_lines() -> None:
    with viewer_port(None) as port:
        seen: list[list[int]] = []
        with (
            socket.create_connection(("127.0.0.1", port.port)) as one,
            socket.create_connection(("127.0.0.1", port.port)) as other,
        ):
            poll(lambda: port.n_viewers == 2, "two viewers")
            port.write(batch(1, 2))
            for viewer in (one, other):
                with viewer.makefile() as lines:
                    seen.append([json.loads(lines.readline())["ts"] for _ in range(2)])
    assert seen == [[1, 2], [1, 2]]


def test_a_viewer_that_does_not_look_loses_lines_and_hears_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewers, "QUEUE", 3)
    with viewer_port(None) as port, socket.create_connection(("127.0.0.1", port.port)) as slow:
        poll(lambda: port.n_viewers == 1, "the viewer")
        with port._changed:  # its thread cannot send meanwhile
            port._show([(str(n), b"%d" % n) for n in range(10)])
        with slow.makefile() as lines:
            assert [lines.readline().strip() for _ in range(4)] == ['{"missed": 7}', "7", "8", "9"]
        assert port.n_dropped == 7


def test_a_viewer_for_whom_there_is_no_room_waits_until_another_has_gone() -> None:
    said = list[str]()
    port = ViewerPort("here", "127.0.0.1", 0, None, said.append)
    port.most_viewers = 1
    port.open("s", True)
    with socket.create_connection(("127.0.0.1", port.port)) as first:
        poll(lambda: port.n_viewers == 1, "the first viewer")
        (served,) = port._viewers
        with socket.create_connection(("127.0.0.1", port.port), 60) as second, second.makefile() as lines:
            poll(lambda: bool(said), "the message")
            first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            first.close()
            port.write(batch(1))
            poll(lambda: port.n_viewers == 1 and served not in port._viewers, "the second viewer")
            port.write(batch(2))
            assert json.loads(lines.readline())["ts"] == 2
    port.close()
    assert said == ["here takes no more connections for now: 1 are open, and some files have to be"]  # and once


def test_a_viewer_that_has_gone_is_let_go_while_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewers, "ALIVE_EVERY_S", 0.01)
    with viewer_port(None) as port:
        with socket.create_connection(("127.0.0.1", port.port)) as viewer:
            poll(lambda: port.n_viewers == 1, "the viewer")
            assert port._viewers[0].connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            viewer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # it vanishes: a reset
        poll(lambda: port.n_viewers == 0, "its end")


def ask(port: ViewerPort, path: str, *fields: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port.port))
    connection.sendall("\r\n".join([f"GET {path} HTTP/1.1", "Host: x", *fields, "", ""]).encode())
    return connection


def test_events_over_http_go_on_where_a_viewer_was() -> None:
    with viewer_port("/events") as port:
        with ask(port, "/events") as first:
            poll(lambda: port.n_viewers == 1, "the viewer")
            port.write(batch(1, 2))
            with first.makefile() as lines:
                told = [lines.readline().strip() for _ in range(12)]
        assert told[0] == "HTTP/1.1 200 OK"
        assert "Content-Type: text/event-stream" in told
        assert told[7:9] == ["id: id1", "event: detection"]
        assert json.loads(told[9].removeprefix("data: ")) == {"detection_id": "id1", "ts": 1}
        port.write(batch(3))
        with ask(port, "/events", "Last-Event-ID: id1") as again, again.makefile() as lines:
            ids = [line.split()[1] for line in (lines.readline() for _ in range(16)) if line.startswith("id: ")]
        assert ids[:2] == ["id2", "id3"]
        with ask(port, "/other") as lost, lost.makefile() as lines:
            assert lines.readline().startswith("HTTP/1.1 404")


def test_a_folder_is_no_consumer() -> None:
    assert [is_delivered(out) for out in ("found", "webhook:http://x", "sse://h:1/e", "-", "kafka://h/t")] == [
        False, True, True, False, False,
    ]  # fmt: skip
