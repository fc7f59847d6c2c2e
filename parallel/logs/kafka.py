"""A Kafka topic as a log: its partitions are the source's partitions, its offsets the log's, its messages JSON objects.

Messages are read like the lines of an NDJSON file (`files.formats.ndjson`), by the same types, with the same faults: a
message that is no JSON object, is empty, or has no time or key is set aside with its partition and offset, and never
stops the stream. Offsets may have gaps, from compaction and from transactions: a range ends where the position reaches
its end, not after a number of messages. Only committed messages count.

A stream commits nothing to Kafka: it keeps its offsets itself, beside the state that belongs to them. Where the topic
no longer holds what a range needs, reading stops with an error; with `lost=skip` it continues, and the gap is set
aside.

*Not taken*: a consumer group, whose rebalancing would move entities away from their state; Spark's connector, which
turns each message into a row of the JVM and then of Python (it serves the stateful operator).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from wayeb_py.errors import DataError
from wayeb_py.files.formats.block import AsideRow, Block, Selection, TimeRange
from wayeb_py.files.formats.ndjson import read_objects
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.logs.kafka_topic import KafkaTopic, is_passing
from wayeb_py.parallel.logs.log import Log, NoEventsError, OffsetRange, Offsets
from wayeb_py.parallel.logs.messages import Messages, parse_messages, schema_of_objects

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, TopicPartition

BLOCK_MESSAGES = 1 << 16
BLOCK_BYTES = 32 << 20
SAMPLE_MESSAGES = 10_000
SHOWN_CHARACTERS = 60
_WAIT_S = 0.1

# By default the client waits a second when its queue was full. Messages that it has fetched beyond the range are thrown
# away, so the queue is small; one that holds a few fetches is no slower.
_FETCHING = {
    "fetch_queue_backoff_ms": 1,
    "fetch_wait_max_ms": 50,  # how long the broker waits at most before it reports the end
    "queued_max_messages_kbytes": 4 << 10,
    "enable_partition_eof": True,
    "auto_offset_reset": "error",
}


@dataclass(slots=True)
class _Held:
    """Consumers that continue where they are, by partition, with the offset of the message that each gives next.

    A stream in one process reads a short range many times a second, and a consumer takes a tenth of a second to begin.
    A task on Spark reads one long range, and holds none.
    """

    holds: bool = False
    consumers: dict[str, tuple[Consumer, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KafkaLog(Log):
    """A topic as a log."""

    topic: KafkaTopic
    _held: _Held = field(default_factory=_Held, compare=False, repr=False)

    @classmethod
    def open(cls, url: str) -> KafkaLog:
        """The log of the topic that a URL names; its first use shows whether the topic exists."""
        return cls(KafkaTopic.parse(url))

    @property
    def name(self) -> str:
        return self.topic.url

    def identity(self) -> dict[str, str]:
        """The ids of the cluster and of the topic, as far as the brokers give them; a topic that is made again has
        another."""
        return self.topic.identity(_client(self.topic, os.getpid()))

    def schema(self, wanted: Wanted) -> pa.Schema | None:
        """The types of the wanted columns, from the first messages of each partition; None while there are none.

        Where those lack a column, the last messages are sampled too: it may be younger than the topic.
        """
        earliest, latest = self.earliest(), self.latest()
        share = max(1, SAMPLE_MESSAGES // max(1, len(latest)))
        firsts = [OffsetRange(p, start, min(start + share, latest[p])) for p, start in earliest.items()]
        sampled = self._sample(firsts)
        objects = read_objects(value for _, _, value in sampled)
        seen = dict.fromkeys(name for value in objects for name in value)
        if not set(wanted.names) <= seen.keys():
            ends = [OffsetRange(one.partition, max(one.end, latest[one.partition] - share), latest[one.partition])
                    for one in firsts]  # fmt: skip
            last = self._sample(ends)
            sampled += last
            more = read_objects(value for _, _, value in last)
            objects += more
            seen |= dict.fromkeys(name for value in more for name in value)
        if not sampled:
            return None
        if not objects:
            raise self._no_events(sampled)
        present = (*seen, *wanted.names[2:]) if self.topic.absent == "missing" else tuple(seen)
        return schema_of_objects(objects, present, wanted, self.name)

    def _sample(self, ranges: list[OffsetRange]) -> list[tuple[str, int, bytes]]:
        """Partition, offset and value of the messages of some ranges."""
        return [
            (offsets.partition, piece.offset(place), value or b"")
            for offsets in ranges
            for piece in self._messages(offsets)
            if isinstance(piece, Messages)
            for place, value in enumerate(piece.values)
        ]

    def _no_events(self, sampled: list[tuple[str, int, bytes]]) -> NoEventsError:
        partition, offset, value = sampled[0]
        text = value.decode("utf-8", "replace").strip()
        shown = f"begins with `{text[:SHOWN_CHARACTERS]}`" if text else "is empty"
        return NoEventsError(
            f"none of the {len(sampled):,} messages looked at is a JSON object, so that the types of events are not "
            f"known: the one at offset {offset:,} {shown}",
            self.place(partition),
            hint="send each event as one JSON object; what stands before the first one goes aside",
        )

    def earliest(self) -> Offsets:
        return self._watermarks(0)

    def latest(self) -> Offsets:
        return self._watermarks(1)

    def _watermarks(self, which: int) -> Offsets:
        from confluent_kafka import TopicPartition

        client = _client(self.topic, os.getpid())
        found: Offsets = {}
        for number in self.topic.partitions(client):
            partition = TopicPartition(self.topic.name, number)
            found[str(number)] = self.topic.ask(partial(_watermarks, client, partition), client)[which]
        return found

    def read(self, offsets: OffsetRange, wanted: Wanted, schema: pa.Schema) -> Iterator[Block]:
        """The events of a range, a block for some thousands of messages."""
        selection = Selection(wanted, schema, TimeRange(), BLOCK_MESSAGES)
        place = self.place(offsets.partition)
        for piece in self._messages(offsets):
            if isinstance(piece, AsideRow):
                yield Block(aside=[piece])
            else:
                yield parse_messages(piece, place, selection)

    def place(self, partition: str) -> str:
        """The file that a row set aside names; its row is the offset."""
        return f"{self.name}#{partition}"

    def forget(self, before: Offsets) -> None:
        """The topic's own retention decides what is kept."""

    def _messages(self, offsets: OffsetRange) -> Iterator[Messages | AsideRow]:
        """The messages of a range, and gaps in place of messages that vanished before they could be read."""
        if offsets.start >= offsets.end:
            return
        consumer, place = self._held.consumers.pop(offsets.partition, (None, -1))
        if consumer is None:
            n_ahead = 100_000 if self._held.holds else min(offsets.end - offsets.start, 1_000_000)
            consumer = self.topic.consumer(**_FETCHING, queued_min_messages=n_ahead)
        reading = _Reading(self, consumer, offsets, is_there=place == offsets.start)
        try:
            yield from reading.run()
        finally:
            if self._held.holds and reading.gives_next is not None:
                self._held.consumers[offsets.partition] = consumer, reading.gives_next
            else:
                consumer.close()

    def resume(self, taken: Offsets) -> None:
        self._held.holds = True  # only a stream in one process calls this

    def close(self) -> None:
        for consumer, _ in self._held.consumers.values():
            consumer.close()
        self._held.consumers.clear()


@lru_cache(maxsize=16)
def _client(topic: KafkaTopic, process: int) -> Consumer:
    """One client for all requests of a process; a fork must not use its parent's."""
    return topic.consumer()


def _watermarks(client: Consumer, partition: TopicPartition, timeout_s: float) -> tuple[int, int]:
    marks: tuple[int, int] = client.get_watermark_offsets(partition, timeout=timeout_s)
    return marks


class _Reading:
    """One pass over a range: from its start until the position reaches its end."""

    def __init__(self, log: KafkaLog, consumer: Consumer, offsets: OffsetRange, is_there: bool = False) -> None:
        """`is_there`: the next message of the consumer is the first of the range, or follows a gap that begins
        there."""
        self._log, self._topic, self._consumer, self._offsets = log, log.topic, consumer, offsets
        self._position, self._is_there = offsets.start, is_there
        self._n_beyond = 0  # messages after the range, which are not given again
        self.gives_next: int | None = None  # once the range is read: the offset from which the consumer continues
        self._heard_at = self._topic.clock.steady_s()
        self._why = "nothing arrives"

    def run(self) -> Iterator[Messages | AsideRow]:
        if not self._is_there:
            self._assign(self._position)
        values: list[bytes | None] = []
        offsets: list[int] = []
        n_bytes = 0
        end = self._offsets.end
        while self._position < end:
            wanted = min(BLOCK_MESSAGES - len(values), end - self._position)
            with self._topic.telling_faults():
                arrived = self._consumer.consume(wanted, timeout=_WAIT_S)
            n_before = len(values)
            yield from self._take(arrived, values, offsets)
            n_bytes += sum(map(len, filter(None, values[n_before:])))
            if arrived:
                self._heard_at = self._topic.clock.steady_s()
                self._topic.heard()
            elif self._topic.clock.steady_s() - self._heard_at > self._topic.timeout_s:
                raise self._stuck()
            if len(values) >= BLOCK_MESSAGES or n_bytes >= BLOCK_BYTES:
                yield _gathered(offsets, values)
                values, offsets, n_bytes = [], [], 0
        if values:
            yield _gathered(offsets, values)
        self.gives_next = end if self._n_beyond == 0 else None

    def _take(self, arrived: list[Message], values: list[bytes | None], offsets: list[int]) -> Iterator[AsideRow]:
        """Adds the messages of the range to those at hand; returns the gap between them, if there is one."""
        end = self._offsets.end
        if arrived and all(message.error() is None for message in arrived):
            first, last = arrived[0].offset(), arrived[-1].offset()
            assert first is not None
            assert last is not None
            if last < end and last - first + 1 == len(arrived):  # as it nearly always is
                values += [message.value() for message in arrived]
                offsets += range(first, last + 1)
                self._position = last + 1
                return
        for message in arrived:
            error = message.error()
            if error is not None:
                lost = self._heed(error, message)
                if lost is not None:
                    yield lost
                continue
            offset = message.offset()
            assert offset is not None
            if offset >= end:
                self._position = end
                self._n_beyond += 1
                return
            values.append(message.value())
            offsets.append(offset)
            self._position = offset + 1

    def _assign(self, offset: int) -> None:
        from confluent_kafka import TopicPartition

        with self._topic.telling_faults():
            self._consumer.assign([TopicPartition(self._topic.name, int(self._offsets.partition), offset)])

    def _heed(self, error: Any, message: Any) -> AsideRow | None:
        """Continues, if it can, after what the client reports between messages; returns the gap, if there is one."""
        from confluent_kafka import KafkaError

        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            # After the last message there may be marks of transactions, which have offsets too.
            self._position = max(self._position, message.offset())
            self._why = f"the partition ends at offset {message.offset():,}"
            return None
        if code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            return self._skip_lost()
        if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC):
            raise DataError(
                f"the topic or its partition {self._offsets.partition} is gone",
                self._topic.url,
                hint="its offsets mean nothing any more: begin with a new checkpoint folder",
            )
        if not is_passing(error):
            raise self._topic.error(error)
        self._why = error.str()
        return None

    def _skip_lost(self) -> AsideRow | None:
        """Continues where the partition begins now, if that was allowed."""
        earliest = self._log.earliest().get(self._offsets.partition, 0)
        start, first = self._position, min(earliest, self._offsets.end)
        place = self._log.place(self._offsets.partition)
        if first <= start:
            raise DataError(
                f"offset {start:,} is behind the end of the partition: the topic was made anew, or lost its end",
                place,
                hint="its offsets mean nothing any more: begin with a new checkpoint folder",
            )
        if self._topic.lost == "stop":
            raise DataError(
                f"{first - start:,} messages from offset {start:,} on are gone: the topic's retention removed them "
                "before they were read",
                place,
                hint="to go on without them give ?lost=skip in the URL; to begin again, a new checkpoint folder",
            )
        self._position = first
        self._assign(first)
        return AsideRow(place, start, "removed by retention before it was read", {"from": start, "before": first})

    def _stuck(self) -> DataError:
        if self._why.startswith("the partition ends"):
            return DataError(
                f"{self._why}, and should reach {self._offsets.end:,}: the topic was made anew, or lost its end",
                self._log.place(self._offsets.partition),
                hint="its offsets mean nothing any more: begin with a new checkpoint folder",
            )
        return self._topic.unreachable(self._why)


def _gathered(offsets: list[int], values: list[bytes | None]) -> Messages:
    whole = offsets[-1] - offsets[0] + 1 == len(offsets)
    return Messages(offsets[0], None if whole else offsets, values)
