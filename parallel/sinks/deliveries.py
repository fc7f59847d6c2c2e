"""An `--out` that names a consumer becomes a sink that sends each detection as soon as it is found.

    tcp://HOST:PORT           lines to every client that connects
    sse://HOST:PORT/events    the same as server-sent events over HTTP
    tcp://HOST:PORT?connect   lines to the server at that address
    webhook:URL               a POST for each detection
    mqtt://HOST:PORT/TOPIC    a message for each, to a broker

The first two serve viewers and never delay the stream (`viewers`). The others are consumers that get every detection at
least once; the stream waits for them (`outbox`).
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from wayeb_py.errors import DataError
from wayeb_py.parallel.receive.address import Address, parse_address, port_of
from wayeb_py.parallel.sinks.outbox import Outbox, UndeliveredError
from wayeb_py.parallel.sinks.sinks import Batch, Sink
from wayeb_py.parallel.sinks.viewers import ViewerPort

WEBHOOK = "webhook:"
_SCHEMES = ("tcp://", "sse://", WEBHOOK, "mqtt://")
TIMEOUT_S = 10.0

Item = tuple[str, bytes]  # a detection's id, and the detection as JSON


def is_delivered(out: str) -> bool:
    """Whether an `--out` names a consumer."""
    return out.startswith(_SCHEMES)


def open_delivery(out: str, say: Callable[[str], None] = lambda text: None) -> Sink:
    """The sink that an `--out` with a consumer means."""
    if out.startswith(WEBHOOK):
        return Delivery(Webhook(out.removeprefix(WEBHOOK)).deliver, out, say)
    if out.startswith("sse://"):
        parts = urlsplit(out)
        port = port_of(parts, out)
        if not parts.hostname or port is None:
            raise DataError("this is no address", out, hint="write sse://127.0.0.1:8080/events")
        return ViewerPort(out, parts.hostname, port, parts.path or "/", say)
    address = parse_address(out)
    if address.kind == "mqtt":
        from wayeb_py.parallel.sinks.mqtt import MqttTopic  # for start-up time

        topic = MqttTopic(address)
        return Delivery(topic.deliver, out, say, topic.close)
    if address.connects:
        caller = TcpCaller(address)
        return Delivery(caller.deliver, out, say, caller.close)
    return ViewerPort(out, address.host, address.port, None, say)


class Delivery:
    """A sink whose detections go through an outbox, one by one."""

    def __init__(
        self,
        deliver: Callable[[Item], None],
        name: str,
        say: Callable[[str], None] = lambda text: None,
        end: Callable[[], None] = lambda: None,
    ) -> None:
        self.outbox, self._end = Outbox(deliver, name, say=say), end

    def open(self, stream_id: str, is_new: bool) -> None:
        """Prepares nothing: a consumer may come later."""

    def write(self, batch: Batch) -> None:
        for ids, objects in batch.objects():
            for item in zip(ids, objects, strict=True):
                self.outbox.put(item)

    def flush(self) -> None:
        """Returns when the consumer has everything."""
        self.outbox.flush()

    def close(self) -> None:
        self.outbox.close()
        self._end()


class Webhook:
    """A URL that gets a POST for each detection; an answer that rejects a detection for good ends the stream."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        is_written = url.isascii() and url.isprintable() and " " not in url
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or not is_written:
            raise DataError(
                "this is no URL of a webhook", url,
                hint="write webhook:https://HOST/PATH, without a user, and %20 for a space",
            )  # fmt: skip
        port_of(parts, url)
        self._url = url

    def deliver(self, item: Item) -> None:
        import http.client  # for start-up time, and memory
        import urllib.error
        import urllib.request

        name, line = item
        headers = {"Content-Type": "application/json", "X-Detection-Id": name, "Idempotency-Key": name}
        request = urllib.request.Request(self._url, line, headers, method="POST")
        try:
            with _opener().open(request, timeout=TIMEOUT_S):
                return
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (408, 425, 429) or error.code >= 500:
                raise UndeliveredError(f"it answers {error.code}") from None
            raise DataError(
                f"the webhook refuses a detection: {error.code} {error.reason}", self._url,
                hint="mend it, then start again: the detection is sent once more",
            ) from None  # fmt: skip
        except (OSError, http.client.HTTPException) as error:
            raise UndeliveredError(f"it does not answer ({getattr(error, 'reason', error)})") from None


@cache
def _opener() -> Any:
    """Sends requests, and follows no answer that says to look elsewhere: what would be sent there has no body."""
    import urllib.request  # for start-up time, and memory

    class Staying(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *facts: Any) -> None:
            return None

    return urllib.request.build_opener(Staying)


class TcpCaller:
    """A consumer that listens: each detection is a line. What TCP has taken counts as delivered."""

    def __init__(self, address: Address) -> None:
        self._address, self._connection = address, None

    _connection: socket.socket | None

    def deliver(self, item: Item) -> None:
        try:
            if self._connection is None:
                self._connection = socket.create_connection((self._address.host, self._address.port), TIMEOUT_S)
            self._connection.sendall(item[1] + b"\n")
        except OSError as error:
            self.close()
            raise UndeliveredError(f"it does not take lines ({error.strerror or error})") from None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
