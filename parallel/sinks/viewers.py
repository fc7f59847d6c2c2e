"""Shows detections to any number of viewers: as lines over TCP, or as server-sent events over HTTP.

A viewer must not delay the stream: each has a bounded queue, and where it is full its oldest lines are dropped and
counted. Before the next line that it gets, an HTTP viewer gets a comment with the number that it missed, a TCP viewer a
line `{"missed": N}`. Viewers of HTTP that come back say which event they had last (`Last-Event-ID`, the `detection_id`)
and get those since, as far as the last ones are kept. *Not taken*: waiting for viewers, as `outbox` does for consumers
that must get everything.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections import deque
from collections.abc import Callable

from wayeb_py.parallel.receive.connections import (
    VIEWERS_SHARE,
    Refusal,
    has_vanished,
    most_connections,
    not_bound,
    notice_vanished,
    refuse_many,
)
from wayeb_py.parallel.sinks.sinks import Batch

QUEUE = 1000  # lines that wait for a viewer
KEPT = 1000  # lines for viewers that come back
LOOK_EVERY_S = 0.25
SEND_S = 5.0  # a viewer that takes nothing for this long is gone
ALIVE_EVERY_S = 15.0


class _Viewer:
    """A viewer: its connection, and the lines that wait for it."""

    def __init__(self, connection: socket.socket, is_http: bool) -> None:
        self.connection, self.is_http = connection, is_http
        self.lines: deque[tuple[str, bytes]] = deque()
        self.n_missed = 0
        self.is_sending = False


class ViewerPort:
    """A port to which viewers come."""

    def __init__(
        self, text: str, host: str, port: int, path: str | None, say: Callable[[str], None] = lambda text: None
    ) -> None:
        """`path` is that of the events, over HTTP; None for lines over TCP."""
        self.text, self._path, self._say = text, path, say
        self._viewers: list[_Viewer] = []
        self.most_viewers = most_connections(VIEWERS_SHARE)
        self._kept: deque[tuple[str, bytes]] = deque(maxlen=KEPT)
        self._changed = threading.Condition()
        self._closed = False
        self.n_dropped = 0
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._listener.bind((host, port))
            self._listener.listen()
        except OSError as error:
            self._listener.close()
            raise not_bound(error, text) from error
        self._threads: list[threading.Thread] = []

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def n_viewers(self) -> int:
        return len(self._viewers)

    # As a sink.

    def open(self, stream_id: str, is_new: bool) -> None:
        self._begin(self._accept)

    def write(self, batch: Batch) -> None:
        for ids, objects in batch.objects():
            self._show(list(zip(ids, objects, strict=True)))

    def flush(self) -> None:
        """Waits for nothing: viewers take what they can."""

    def close(self) -> None:
        """Sends what waits to the viewers that take it, then ends."""
        with self._changed:
            self._changed.wait_for(lambda: not any(one.lines or one.is_sending for one in self._viewers), SEND_S)
            self._closed = True
            self._changed.notify_all()
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _show(self, lines: list[tuple[str, bytes]]) -> None:
        with self._changed:
            self._kept += lines
            for viewer in self._viewers:
                viewer.lines += lines
                while len(viewer.lines) > QUEUE:
                    viewer.lines.popleft()
                    viewer.n_missed += 1
                    self.n_dropped += 1
            self._changed.notify_all()

    # Viewers.

    def _begin(self, run: object, *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, name="wayeb-viewers", daemon=True)  # type: ignore[arg-type]
        self._threads = [one for one in self._threads if one.is_alive()] + [thread]
        thread.start()

    def _accept(self) -> None:
        self._listener.settimeout(LOOK_EVERY_S)
        refusal = Refusal(self._say)
        while not self._closed:
            try:
                refuse_many(sum(one.is_alive() for one in self._threads) - 1, self.most_viewers)
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError as error:
                if self._closed:
                    return
                refusal.tell(self.text, error)
                with self._changed:
                    self._changed.wait_for(lambda: self._closed, LOOK_EVERY_S)
                continue
            self._begin(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(SEND_S)
        notice_vanished(connection)
        with connection, contextlib.suppress(OSError):
            viewer = _Viewer(connection, self._path is not None)
            since = None
            if viewer.is_http:
                told, since = _asked(connection, self._path or "/")
                connection.sendall(told)
                if not told.startswith(b"HTTP/1.1 200"):
                    return
            with self._changed:
                viewer.lines += _after(self._kept, since)
                self._viewers.append(viewer)
            try:
                self._feed(viewer)
            finally:
                with self._changed:
                    self._viewers.remove(viewer)
                    self._changed.notify_all()

    def _feed(self, viewer: _Viewer) -> None:
        while True:
            with self._changed:
                if not viewer.lines and not self._closed:
                    self._changed.wait(ALIVE_EVERY_S)
                if not viewer.lines and (self._closed or has_vanished(viewer.connection)):
                    return
                lines, n_missed = list(viewer.lines), viewer.n_missed
                viewer.lines.clear()
                viewer.n_missed = 0
                viewer.is_sending = True
            data = _missed(viewer, n_missed) if n_missed else b""
            data += b"".join(_rendered(viewer, name, line) for name, line in lines)
            viewer.connection.sendall(data or (b": alive\n\n" if viewer.is_http else b""))
            with self._changed:
                viewer.is_sending = False
                self._changed.notify_all()


def _after(kept: deque[tuple[str, bytes]], since: str | None) -> list[tuple[str, bytes]]:
    """The kept lines after the one with this id; none for a viewer that is new."""
    if since is None:
        return []
    lines = list(kept)
    place = next((n for n, (name, _) in enumerate(lines) if name == since), None)
    return lines if place is None else lines[place + 1 :]


def _rendered(viewer: _Viewer, name: str, line: bytes) -> bytes:
    if not viewer.is_http:
        return line + b"\n"
    return b"id: " + name.encode() + b"\nevent: detection\ndata: " + line + b"\n\n"


def _missed(viewer: _Viewer, n_missed: int) -> bytes:
    told = json.dumps({"missed": n_missed}).encode()
    return b"event: missed\ndata: " + told + b"\n\n" if viewer.is_http else told + b"\n"


def _asked(connection: socket.socket, path: str) -> tuple[bytes, str | None]:
    """The head of the answer to a request, and the id of the viewer's last event."""
    data = b""
    while b"\r\n\r\n" not in data and len(data) < 1 << 16:
        more = connection.recv(4096)
        if not more:
            break
        data += more
    head, *fields = data.split(b"\r\n\r\n")[0].split(b"\r\n")
    words = head.split()
    if len(words) < 2 or words[0] != b"GET":
        return b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n", None
    if words[1].split(b"?")[0].decode("latin-1") != path:
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", None
    named = dict(field.split(b":", 1) for field in fields if b":" in field)
    last = {name.strip().lower(): value.strip() for name, value in named.items()}.get(b"last-event-id")
    kind = b"Content-Type: text/event-stream\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    answer = b"HTTP/1.1 200 OK\r\n" + kind + b": detections\n\n"
    return answer, None if last is None else last.decode("latin-1")
