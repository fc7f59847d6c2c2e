"""Messages of an MQTT broker become records of a store; each is acknowledged once the journal has it.

The broker keeps the session (QoS 1, a client id that stays): what was sent while the stream was down comes after a
restart, and so does what was not acknowledged, which the stream may then see twice (`dedupe` drops repeats). A message
is a line, or several: JSON objects, or AIS sentences with `nmea+mqtt`.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from queue import Empty, Queue
from typing import Any

from wayeb_py.errors import DataError
from wayeb_py.parallel.receive.address import Address
from wayeb_py.parallel.receive.threaded_receiver import ThreadedReceiver

ANSWER_S = 10.0


def client_of(address: Address, what: str, **options: Any) -> Any:
    """A client of the broker whose id stays the same for the address; not connected."""
    try:
        from paho.mqtt import client as mqtt
        from paho.mqtt.enums import CallbackAPIVersion
    except ImportError:
        raise DataError(
            "MQTT needs the package paho-mqtt", address.text, hint="install it: pip install 'wayeb_py[mqtt]'"
        ) from None
    if not address.path:
        raise DataError("no topic is named", address.text, hint="write mqtt://HOST:PORT/TOPIC")
    name = f"wayeb-{what}-{hashlib.sha256(address.text.encode()).hexdigest()[:12]}"
    return mqtt.Client(CallbackAPIVersion.VERSION2, client_id=name, **options)


def connected(address: Address, what: str) -> Any:
    """A client that is connected, and runs in a thread of its own; OSError where the broker does not answer, or
    refuses."""
    client = client_of(address, what)
    answers: Queue[Any] = Queue()
    client.on_connect = lambda client, data, flags, answer, more: answers.put(answer)
    client.connect(address.host, address.port, keepalive=30)
    client.loop_start()
    try:
        answer = answers.get(timeout=ANSWER_S)
        if not answer.is_failure:
            return client
        refusal = f"it refuses: {answer}"
    except Empty:
        refusal = "no answer"
    client.disconnect()
    client.loop_stop()
    raise OSError(refusal)


class MqttReceiver(ThreadedReceiver):
    """A topic, or several by a filter (`ships/#`)."""

    def __init__(self, address: Address, say: Callable[[str], None] = lambda text: None) -> None:
        super().__init__(address)
        self._say = say
        self._client = client_of(address, "in", clean_session=False, manual_ack=True)
        self._arrived: Queue[Any] = Queue(maxsize=1000)
        self.subscribed = threading.Event()

    def _begin(self) -> None:
        self._client.on_connect = self._subscribe
        self._client.on_disconnect = self._tell_gone
        self._client.on_subscribe = self._note_subscribed
        self._client.on_message = lambda client, data, message: self._arrived.put(message)
        try:
            self._client.connect(self.address.host, self.address.port, keepalive=30)
        except OSError as error:
            raise DataError(
                f"the broker does not answer: {error.strerror or error}", self.name, hint="start it, then this again"
            ) from None
        self._client.loop_start()
        self._run(self._take_in)

    def _subscribe(self, client: Any, data: Any, flags: Any, answer: Any, more: Any) -> None:
        if not answer.is_failure:
            client.subscribe(self.address.path, qos=1)
        elif str(answer) != "Server unavailable":  # for now: the client tries again
            self._fail(DataError(f"the broker refuses the connection: {answer}", self.name))

    def _tell_gone(self, client: Any, data: Any, flags: Any, reason: Any, more: Any) -> None:
        if not self._closed.is_set() and self._fault is None:
            self._say(f"{self.name}: the connection to the broker has ended ({reason}); called again")

    def _note_subscribed(self, client: Any, data: Any, number: int, answers: list[Any], more: Any) -> None:
        if any(answer.is_failure for answer in answers):
            self._fail(DataError(f"the broker refuses the topic `{self.address.path}`: {answers[0]}", self.name))
        self.subscribed.set()

    def _take_in(self) -> None:
        decoder, store, is_safe = self.decoder(), self.store, True
        while True:
            messages = [self._arrived.get()]
            while not self._arrived.empty():
                messages.append(self._arrived.get())
            whole = [message for message in messages if message is not None]
            if is_safe:  # otherwise nothing is kept any more, and the broker sends these again after a restart
                lines = [line for message in whole for line in message.payload.splitlines()]
                records = decoder.decode_all(lines)
                is_safe = store.wait_safe(store.append(records)) if records else True
                for message in whole if is_safe else []:
                    self._client.ack(message.mid, message.qos)
            if len(whole) < len(messages):  # None is the last
                if is_safe and (cut_off := decoder.end()):
                    store.wait_safe(store.append(cut_off))
                return

    def _wake(self) -> None:
        self._arrived.put(None)

    def _hang_up(self) -> None:
        self._client.on_message = None
        while not self._arrived.empty():  # the client may wait for room, and would never hear that it is to end
            self._arrived.get()
        self._client.disconnect()
        self._client.loop_stop()
