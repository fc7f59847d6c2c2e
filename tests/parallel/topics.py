"""Topics for tests: made with a name of their own, filled, and read back."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from tools.kafka.broker import Broker
from wayeb_py.parallel.logs.kafka import KafkaLog

_numbers = itertools.count(1)


def make_topic(broker: Broker, partitions: int = 1) -> str:
    """The URL of a new topic."""
    return broker.create_topic(f"test-{next(_numbers)}", partitions)


def fill(url: str, values: Iterable[bytes | dict[str, Any] | None], partition: int = 0) -> None:
    """Sends messages to a partition, in order."""
    topic = KafkaLog.open(url).topic
    producer = Producer({"bootstrap.servers": topic.servers})
    for value in values:
        producer.produce(topic.name, json.dumps(value) if isinstance(value, dict) else value, partition=partition)
    assert producer.flush(30) == 0


def drain(url: str) -> list[tuple[int, bytes | None, dict[str, Any], dict[str, Any]]]:
    """Partition, key, value and headers of every message of a topic."""
    log = KafkaLog.open(url)
    found = []
    for partition, end in log.latest().items():
        consumer = Consumer({"bootstrap.servers": log.topic.servers, "group.id": "test", "enable.auto.commit": False})
        consumer.assign([TopicPartition(log.topic.name, int(partition), 0)])
        n_left = end
        while n_left:
            for message in consumer.consume(n_left, timeout=30):
                assert message.error() is None
                headers: dict[str, Any] = dict(message.headers() or [])
                found.append((int(partition), message.key(), json.loads(message.value() or b""), headers))
                n_left -= 1
        consumer.close()
    return found
