"""Messages of a real MQTT broker are found and acknowledged, and detections go back to it."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.parallel.car_events import make_events
from tests.parallel.receive.received_runs import Collected, received
from tests.polling import poll
from wayeb_py.errors import DataError
from wayeb_py.parallel.receive.address import parse_address
from wayeb_py.parallel.receive.journal import Journal
from wayeb_py.parallel.receive.received_buffer import ReceivedBuffer
from wayeb_py.parallel.sinks.deliveries import open_delivery

amqtt = pytest.importorskip("amqtt.broker", reason="the broker amqtt is not installed")
pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a broker that runs in a thread."""
    with broker(admits=True) as number:
        yield number


@contextmanager
def broker(admits: bool) -> Iterator[int]:
    """A broker in a thread, which lets everyone in, or no one."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        number = int(probe.getsockname()[1])
    loop = asyncio.new_event_loop()
    config = {
        "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{number}"}},
        "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": admits}},
    }

    async def start() -> object:
        broker = amqtt.Broker(config)
        await broker.start()
        return broker

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    running = asyncio.run_coroutine_threadsafe(start(), loop).result(60)
    yield number
    asyncio.run_coroutine_threadsafe(running.shutdown(), loop).result(60)  # type: ignore[attr-defined]
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_messages_come_in_and_detections_go_out(port: int, tmp_path: Path) -> None:
    from wayeb_py.parallel.receive.mqtt import MqttReceiver, connected

    base = f"mqtt://127.0.0.1:{port}"
    got: list[str] = []
    listener = connected(parse_address(f"{base}/found"), "test")
    listener.on_message = lambda client, data, message: got.append(json.loads(message.payload)["pattern"])
    listener.subscribe("found", qos=1)
    receiver = MqttReceiver(parse_address(f"{base}/cars"))
    sink = open_delivery(f"{base}/found")
    with received(receiver, tmp_path / "state", sink, Journal(tmp_path / "journal")) as run:
        run.until(receiver.subscribed.is_set, "the subscription")
        sender = connected(parse_address(f"{base}/cars"), "sender")
        rows = [row for row in make_events(60, n_cars=1).to_pylist() if row["ts"] is not None]
        for row in rows:
            sender.publish("cars", json.dumps(row), qos=1).wait_for_publish(60)
        run.until(lambda: run.log.store.safe_end == len(rows), "the messages")
        poll(lambda: len(got) > 3, "detections at the other end", said=lambda: f"{run.error} {run.said}")
        sender.disconnect()
        sender.loop_stop()
        run.end()
    listener.disconnect()
    listener.loop_stop()
    assert set(got) <= {"Fast", "Swing"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_broker_that_refuses_ends_the_stream_and_is_no_consumer(tmp_path: Path) -> None:
    """Else the stream would listen for ever, and the consumer would look like one that is slow."""
    from wayeb_py.parallel.receive.mqtt import MqttReceiver, connected

    with broker(admits=False) as port:
        address = parse_address(f"mqtt://127.0.0.1:{port}/cars/#")
        with (
            received(MqttReceiver(address), tmp_path / "state", Collected()) as run,
            pytest.raises(DataError, match="the broker refuses the connection: Not authorized"),
        ):
            run.end(asks=False)
        with pytest.raises(OSError, match="it refuses: Not authorized"):
            connected(address, "out")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_filter_hears_the_topics_below_it(port: int, tmp_path: Path) -> None:
    from wayeb_py.parallel.receive.mqtt import MqttReceiver, connected

    receiver = MqttReceiver(parse_address(f"mqtt://127.0.0.1:{port}/cars/#"))
    store = ReceivedBuffer()
    receiver.start(store)
    poll(receiver.subscribed.is_set, "the subscription")
    sender = connected(parse_address(f"mqtt://127.0.0.1:{port}/cars"), "sender")
    sender.publish("cars/red/7", b"{}", qos=1).wait_for_publish(60)
    poll(lambda: store.end == 1, "the message")
    sender.disconnect()
    sender.loop_stop()
    receiver.close()


def test_a_receiver_ends_though_its_client_waits_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's thread waits with a message in its hand when the last place is taken."""
    from wayeb_py.parallel.receive.mqtt import MqttReceiver

    receiver, begun = MqttReceiver(parse_address("mqtt://127.0.0.1/cars")), threading.Event()
    client = receiver._client
    message = SimpleNamespace(payload=b"{}", mid=1, qos=0)

    def arrive() -> None:
        for number in range(3 * receiver._arrived.maxsize):
            if number == receiver._arrived.maxsize:
                begun.set()
            if client.on_message is not None:
                client.on_message(None, None, message)

    own = threading.Thread(target=arrive, daemon=True)
    for method in ("connect", "loop_start", "disconnect", "ack"):
        monkeypatch.setattr(client, method, lambda *args, **options: None)
    monkeypatch.setattr(client, "loop_stop", lambda: own.join(60))
    monkeypatch.setattr(receiver, "_take_in", lambda: None)  # it has ended, and takes nothing any more
    receiver.start(ReceivedBuffer())
    own.start()
    assert begun.wait(60)
    receiver._hang_up()
    assert not own.is_alive()


class FullDisk(ReceivedBuffer):
    """A buffer that can keep nothing any more."""

    def wait_safe(self, offset: int) -> bool:
        return False


def test_a_receiver_whose_disk_is_full_ends_though_messages_still_come(monkeypatch: pytest.MonkeyPatch) -> None:
    from wayeb_py.parallel.receive.mqtt import MqttReceiver

    receiver, acknowledged = MqttReceiver(parse_address("mqtt://127.0.0.1/cars")), []
    for method in ("connect", "loop_start"):
        monkeypatch.setattr(receiver._client, method, lambda *args, **options: None)
    monkeypatch.setattr(receiver._client, "ack", lambda *facts: acknowledged.append(facts))
    receiver.start(FullDisk())

    def send_and_close() -> None:
        for _ in range(2 * receiver._arrived.maxsize):
            receiver._client.on_message(None, None, SimpleNamespace(payload=b"{}", mid=1, qos=1))
        receiver.close()

    thread = threading.Thread(target=send_and_close, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert acknowledged == []
