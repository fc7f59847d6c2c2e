"""Detections go to a Kafka topic: JSON objects keyed by entity, so that an entity's stay in order in one partition.

At least once: a batch is done when the brokers have all of it, and a batch that was sent and not known to be done is
sent again. Its detections then have the same `detection_id`, in the value and as a header, by which a consumer drops
repeats without looking into the value. The producer is idempotent: its own retries give no repeats.

*Not taken*: a transaction for each batch. It would make sending atomic, but not together with Spark's note that the
batch is done; repeats would be as possible and rarer, which is worse to build on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from wayeb_py.engine.rows.detection_id import DETECTION_ID
from wayeb_py.errors import DataError
from wayeb_py.files.output.table_text import render_objects
from wayeb_py.parallel.logs.kafka_topic import KafkaTopic
from wayeb_py.parallel.sinks.sinks import Batch

if TYPE_CHECKING:
    from confluent_kafka import Producer

_FLUSH_S = 1.0


class KafkaSink:
    """A topic that detections, or episodes, are sent to."""

    def __init__(self, url: str) -> None:
        self.topic = KafkaTopic.parse(url)
        self._producer: Producer | None = None
        self._failed: list[Any] = []  # messages that the brokers did not take, at most one batch of them

    def open(self, stream_id: str, is_new: bool) -> None:
        """Connects, and raises DataError if the topic does not exist."""
        client = self.topic.consumer()
        try:
            self.topic.partitions(client)
        finally:
            client.close()
        self._producer = open_producer(self.topic)

    def write(self, batch: Batch) -> None:
        """Returns when the brokers have every detection of the batch."""
        if not batch.has_found:
            return
        from confluent_kafka import KafkaException

        producer = self._producer
        assert producer is not None, "open comes first"
        self._failed.clear()
        try:
            for table in batch.tables():
                self._send_all(producer, table)
                if self._failed:
                    break
        except KafkaException as error:
            self._failed.append(error.args[0])
        while producer.flush(_FLUSH_S) and not self._failed:
            pass
        if self._failed:
            raise self._refused(batch)

    def flush(self) -> None:
        """Does nothing: every write waits for the brokers."""

    def _send_all(self, producer: Producer, table: pa.Table) -> None:
        keys, ids = _texts(table.column("entity")), _texts(table.column(DETECTION_ID))
        for value, key, detection_id in zip(render_objects(table), keys, ids, strict=True):
            self._send(producer, value, key, [(DETECTION_ID, detection_id)])
            if self._failed:
                return

    def _send(self, producer: Producer, value: bytes, key: bytes | None, headers: list[Any]) -> None:
        while True:
            try:
                producer.produce(self.topic.name, value, key, headers=headers, on_delivery=self._delivered)
                return
            except BufferError:  # the client's queue is full: wait for the brokers to take some of it
                producer.poll(_FLUSH_S)

    def close(self) -> None:
        """Does nothing: everything written has been flushed."""
        self._producer = None

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and not self._failed:
            self._failed.append(error)

    def _refused(self, batch: Batch) -> DataError:
        error = self.topic.error(self._failed[0])
        return type(error)(
            f"detections of batch {batch.number} could not be sent: {error.message}",
            error.file,
            hint=error.hint or "after a restart the batch is sent again",
        )


def open_producer(topic: KafkaTopic, **more: Any) -> Producer:
    """A producer whose messages the brokers have once each, by the partitions that Java's clients choose for a key."""
    from confluent_kafka import Producer

    settings = {
        "enable_idempotence": True,
        "acks": "all",
        "partitioner": "murmur2_random",
        "message_timeout_ms": int(topic.timeout_s * 1000),
        "linger_ms": 20,
        "compression_type": "lz4",
    }
    with topic.telling_faults():
        return Producer(topic.config(**(settings | more)))


def _texts(column: pa.ChunkedArray) -> list[bytes | None]:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return [None if text is None else text.encode() for text in column.cast(pa.string()).to_pylist()]
