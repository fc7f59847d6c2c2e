"""Sends the events of a replay to a Kafka topic, as JSON keyed by entity, or a folder in which files appear whole.

Both keep an entity's events in one partition and in order: the topic by the hash of the key that all Kafka clients
agree on, the folder by sub-folders `part=0/`, `part=1/` … that a stream reads as partitions.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.types as pt

from wayeb_py.clock import SYSTEM, Clock
from wayeb_py.errors import DataError
from wayeb_py.files.discover import told_by_name
from wayeb_py.files.formats.arrow_types import plain
from wayeb_py.files.output.table_text import render_ndjson, render_objects
from wayeb_py.files.output.whole_file import telling_faults, whole_file
from wayeb_py.parallel.logs.kafka_topic import KafkaTopic
from wayeb_py.parallel.sinks.kafka import open_producer
from wayeb_py.parallel.wire.shards import cut_by_shard

if TYPE_CHECKING:
    from confluent_kafka import Producer

DEFAULT_PARTITIONS = 4
QUEUED_MESSAGES = 100_000
QUEUED_BYTES = 64 << 20
FILE_ROWS = 1_000_000
_POLL_S = 0.05

FileFormat = Literal["parquet", "ndjson"]


def require_json(schema: pa.Schema) -> None:
    """Raises DataError for a column that has no plain form in JSON."""
    for column in schema:
        value = plain(column.type)
        if pt.is_nested(value) or pt.is_binary(value) or pt.is_large_binary(value):
            raise DataError(
                f"column `{column.name}` is {value}: an event's JSON holds numbers, texts, booleans and times",
                hint="name the columns to send with --columns",
            )


class TopicReplaySink:
    """A Kafka topic; a missing one is made."""

    def __init__(self, url: str, partitions: int | None = None) -> None:
        self.topic = KafkaTopic.parse(url)
        self.partitions = partitions
        self._key = ""
        self._producer: Producer | None = None
        self._failed: list[Any] = []

    def open(self, schema: pa.Schema, key: str) -> None:
        """Makes the topic if it is missing."""
        require_json(schema)
        self._key = key
        self.partitions = ensure_topic(self.topic, self.partitions)
        self._producer = open_producer(
            self.topic,
            queue_buffering_max_messages=2 * QUEUED_MESSAGES,
            queue_buffering_max_kbytes=(2 << 30) // 1024 - 1,  # the queue is bounded by `send`
            batch_size=1 << 20,
            batch_num_messages=100_000,
            delivery_report_only_error=True,
        )

    def encode(self, events: pa.RecordBatch) -> list[dict[str, Any]]:
        """A message for each event."""
        table = pa.Table.from_batches([events])
        keys = table.column(self._key)
        if pt.is_dictionary(keys.type):
            keys = keys.cast(keys.type.value_type)
        texts = keys.cast(pa.string()).cast(pa.binary()).to_pylist()
        return [{"value": value, "key": key} for value, key in zip(render_objects(table), texts, strict=True)]

    def send(self, encoded: list[dict[str, Any]], start: int, end: int) -> None:
        """Passes messages to the client, which sends them in batches of its own."""
        producer = self._producer
        assert producer is not None
        while start < end:
            mean_bytes = sum(len(message["value"]) for message in encoded[start : start + 16]) // min(16, end - start)
            room = max(1, min(QUEUED_MESSAGES, QUEUED_BYTES // (mean_bytes or 1)))
            while len(producer) >= room:
                producer.poll(_POLL_S)
                self._heed_failures()
            part = encoded[start : min(end, start + room)]
            n_taken = producer.produce_batch(self.topic.name, part, on_delivery=self._delivered)
            if n_taken < len(part):
                raise self.topic.error(next(message["_error"] for message in part if "_error" in message))
            start += len(part)
        producer.poll(0)
        self._heed_failures()

    def idle(self) -> None:
        """Lets the client report the fate of messages."""
        assert self._producer is not None
        self._producer.poll(0)
        self._heed_failures()

    def close(self, failed: bool) -> None:
        """Waits until the brokers have everything."""
        producer = self._producer
        if producer is None:
            return
        if failed:
            producer.purge()
        while producer.flush(_POLL_S) and (failed or not self._failed):
            pass
        self._producer = None
        if not failed:
            self._heed_failures()

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and len(self._failed) < 1:
            self._failed.append(error)

    def _heed_failures(self) -> None:
        if self._failed:
            error = self.topic.error(self._failed[0])
            raise DataError(f"events could not be sent: {error.message}", error.file, hint=error.hint)


def ensure_topic(topic: KafkaTopic, partitions: int | None) -> int:
    """Makes the topic unless it exists; returns the number of its partitions."""
    client = topic.consumer()
    try:
        if topic.name not in topic.ask(lambda timeout_s: client.list_topics(timeout=timeout_s), client).topics:
            topic.create(partitions or DEFAULT_PARTITIONS)
        n_partitions = len(topic.partitions(client))
    finally:
        client.close()
    if partitions is not None and n_partitions != partitions:
        raise DataError(
            f"the topic has {n_partitions} partitions, not {partitions}",
            topic.url,
            hint="leave --partitions out, or name a topic that is not there yet",
        )
    return n_partitions


class FolderReplaySink:
    """A folder; the events sent in an interval of the wall clock become one file in each partition concerned."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        partitions: int | None = None,
        file_format: FileFormat = "parquet",
        every_s: float = 1.0,
        file_rows: int = FILE_ROWS,
        clock: Clock = SYSTEM,
    ) -> None:
        self.folder = Path(folder)
        self.partitions = partitions or DEFAULT_PARTITIONS
        self._format, self._every_s, self._file_rows, self._clock = file_format, every_s, file_rows, clock
        self._key = ""
        self._gathered: list[pa.RecordBatch] = []
        self._n_gathered = 0
        self._since = self._clock.steady_s()
        self._number = 0
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="wayeb-write")

    def open(self, schema: pa.Schema, key: str) -> None:
        """Makes the folder; refuses one that holds events already."""
        self._key = key
        if self._format == "ndjson":
            require_json(schema)
        with telling_faults(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            held = next((path for path in self.folder.rglob("*") if told_by_name(path.name)[0] is not None), None)
        if held is not None:
            raise DataError("the folder already holds events, and these would be mixed with them", str(held))
        self._since = self._clock.steady_s()

    def encode(self, events: pa.RecordBatch) -> pa.RecordBatch:
        return events

    def send(self, encoded: pa.RecordBatch, start: int, end: int) -> None:
        """Gathers events until their file is full or its interval is over."""
        self._gathered.append(encoded.slice(start, end - start))
        self._n_gathered += end - start
        self.idle()

    def idle(self) -> None:
        if self._n_gathered >= self._file_rows or self._clock.steady_s() - self._since >= self._every_s:
            self._write()

    def close(self, failed: bool) -> None:
        try:
            if not failed:
                self._write()
        finally:
            self._pool.shutdown()

    def _write(self) -> None:
        self._since = self._clock.steady_s()
        if not self._gathered:
            return
        table = pa.Table.from_batches(self._gathered).unify_dictionaries().combine_chunks()
        self._gathered, self._n_gathered = [], 0
        self._number += 1
        parts = [part for batch in table.to_batches() for part in cut_by_shard(batch, self._key, self.partitions)]
        for written in [self._pool.submit(self._write_part, *part) for part in parts]:
            written.result()

    def _write_part(self, partition: int, events: pa.RecordBatch) -> None:
        folder = self.folder if self.partitions == 1 else self.folder / f"part={partition}"
        path = folder / f"events-{self._number:09}.{self._format}"
        with whole_file(path) as whole, telling_faults(path):
            if self._format == "ndjson":
                whole.write(render_ndjson(pa.Table.from_batches([events])))
            else:
                import pyarrow.parquet as pq

                pq.write_table(pa.Table.from_batches([events]), whole.open(), compression="lz4")
