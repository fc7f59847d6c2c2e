"""A detection becomes a message to a topic of an MQTT broker, which acknowledges it (QoS 1)."""

from __future__ import annotations

from typing import Any

from wayeb_py.errors import DataError
from wayeb_py.parallel.receive.address import Address
from wayeb_py.parallel.receive.mqtt import connected
from wayeb_py.parallel.sinks.outbox import UndeliveredError

TIMEOUT_S = 10.0


class MqttTopic:
    """A topic that detections are sent to."""

    def __init__(self, address: Address) -> None:
        if "#" in address.path or "+" in address.path:
            raise DataError(
                "detections go to one topic, and this is a filter of many", address.text, hint="leave out # and +"
            )
        self._address = address
        self._client: Any = None

    def deliver(self, item: tuple[str, bytes]) -> None:
        """Returns when the broker has the detection."""
        try:
            if self._client is None:
                self._client = connected(self._address, "out")
            sent = self._client.publish(self._address.path, item[1], qos=1)
            sent.wait_for_publish(TIMEOUT_S)
            is_there = sent.is_published()
        except (OSError, ValueError, RuntimeError) as error:
            self.close()
            raise UndeliveredError(f"the broker does not answer ({error})") from None
        if not is_there:
            self.close()
            raise UndeliveredError("the broker does not acknowledge")

    def close(self) -> None:
        if self._client is not None:
            self._client.disconnect()
            self._client.loop_stop()
            self._client = None
