"""A topic as a log: messages are read like the lines of a file, and faults of a topic are reported or waited out."""

from __future__ import annotations

import json
import pickle
import random
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

import wayeb_py
from tests.parallel.topics import fill, make_topic
from tests.polling import poll
from tools.kafka.broker import Broker
from wayeb_py.errors import DataError, EventsError
from wayeb_py.files.formats import ndjson
from wayeb_py.files.formats.block import AsideRow, Block
from wayeb_py.files.projection import Wanted
from wayeb_py.files.read import open_events
from wayeb_py.parallel.logs import kafka as kafka_log
from wayeb_py.parallel.logs import messages
from wayeb_py.parallel.logs.kafka import KafkaLog
from wayeb_py.parallel.logs.log import NoEventsError, OffsetRange
from wayeb_py.parallel.logs.several_logs import SeveralLogs
from wayeb_py.parallel.recovery import first_start

PATTERNS = wayeb_py.compile('stream s { key id time ts }\npattern P := (v > 5 and k = "a")\n')
WANTED = Wanted.from_needs(PATTERNS.needs, None)

POISON = [
    b"not JSON",
    b"[1, 2]",
    b'"text"',
    b'{"id": "x", "v": 1, "k": "a"}',
    b'{"ts": "2024-01-01T00:00:00Z", "v": 1, "k": "a"}',
    b'{"id": "x", "ts": "yesterday", "v": 1, "k": "a"}',
    b'{"id": "x", "ts": "2024-01-01T00:00:00Z"} {"id": "y", "ts": "2024-01-01T00:00:00Z"}',
    b'{"id": "x", "ts": "2024-01-01T00:00:00Z", "v": "fast", "k": "a"}',
    b'{"id": "\xff", "ts": "2024-01-01T00:00:00Z", "v": 1, "k": "a"}',
    b'{"id": "x", "ts": "2024-01-01T00:00:00Z", "v": null}',
    b'{"id": "x", "ts": "2024-01-01T00:00:00Z", "v": 7, "k": "a", "new": {"deep": [1]}}',
]


def event(number: int, **more: Any) -> dict[str, Any]:
    time_of_day = f"{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}"
    return {"id": f"e{number % 7}", "ts": f"2024-01-01T{time_of_day}Z", "v": number / 4, "k": "ab"[number % 2], **more}


def log_of(url: str) -> KafkaLog:
    """The log as an executor would have it."""
    log: KafkaLog = pickle.loads(pickle.dumps(KafkaLog.open(url)))
    return log


def read(log: KafkaLog, start: int = 0, end: int | None = None, partition: str = "0") -> list[Block]:
    schema = log.schema(WANTED)
    assert schema is not None
    offsets = OffsetRange(partition, start, log.latest()[partition] if end is None else end)
    return list(log.read(offsets, WANTED, schema))


def events_of(blocks: list[Block]) -> list[dict[str, Any]]:
    return [row for block in blocks for batch in block.batches for row in batch.to_pylist()]


def aside_of(blocks: list[Block]) -> list[AsideRow]:
    return [row for block in blocks for row in block.aside]


def test_messages_are_read_as_the_lines_of_a_file_are(broker: Broker, tmp_path: Path) -> None:
    dice = random.Random(5)
    lines = [json.dumps(event(number)).encode() for number in range(900)]
    for bad in POISON:
        lines.insert(dice.randrange(20, len(lines)), bad)
    (tmp_path / "events.ndjson").write_bytes(b"\n".join(lines) + b"\n")
    url = make_topic(broker)
    fill(url, lines)

    reader = open_events([tmp_path / "events.ndjson"], WANTED)
    from_file, from_topic = list(reader.blocks()), read(log_of(url))
    assert log_of(url).schema(WANTED) == reader.schema
    assert events_of(from_topic) == events_of(from_file)
    assert len(aside_of(from_topic)) == 8
    assert [(row.row, row.reason, row.values, row.text) for row in aside_of(from_topic)] == [
        ((row.row or 0) - 1, row.reason, row.values, row.text) for row in aside_of(from_file)
    ]
    assert {row.file for row in aside_of(from_topic)} == {f"{url}#0"}
    assert sum(block.n_rows for block in from_topic) == len(lines)
    (unreadable,) = [block.unreadable["v"] for block in from_topic if block.unreadable]
    assert (unreadable.count, unreadable.example) == (1, "fast")


def test_what_no_file_can_hold_is_told_apart_by_message(broker: Broker) -> None:
    url = make_topic(broker)
    spread_out = json.dumps(event(1), indent=2).encode()
    two = json.dumps(event(2)).encode()
    fill(url, [event(0), None, b"", b" \n", two + two, spread_out, two + b"\n" + two, event(3)])
    blocks = read(log_of(url))
    assert [row["v"] for row in events_of(blocks)] == [0, 1 / 4, 3 / 4]
    assert [(row.row, row.reason) for row in aside_of(blocks)] == [
        (1, "an empty message"),
        (2, "an empty message"),
        (3, "an empty message"),
        (4, "not JSON: Extra data"),
        (6, "not JSON: Extra data"),
    ]


def test_a_message_with_two_objects_does_not_make_up_for_one_with_none(broker: Broker) -> None:
    url = make_topic(broker)
    two = json.dumps(event(2)).encode()
    fill(url, [event(0), two + two, b" "])
    blocks = read(log_of(url))
    assert [row["v"] for row in events_of(blocks)] == [0]
    assert [row.row for row in aside_of(blocks)] == [1, 2]


def test_a_range_may_be_cut_anywhere(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    url = make_topic(broker)
    fill(url, [event(number) if number % 50 else b"poison" for number in range(600)])
    whole = read(log_of(url))
    monkeypatch.setattr(kafka_log, "BLOCK_MESSAGES", 64)
    dice = random.Random(3)
    for _ in range(3):
        cuts = sorted(dice.sample(range(1, 600), 4))
        parts = [
            block
            for start, end in zip([0, *cuts], [*cuts, 600], strict=True)
            for block in read(log_of(url), start, end)
        ]
        assert events_of(parts) == events_of(whole)
        assert aside_of(parts) == aside_of(whole)


def test_a_block_with_one_fault_is_read_one_by_one_only_around_it(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    careful: list[int] = []

    def counted(placed: list[tuple[int, bytes]], *rest: Any) -> Block:
        careful.append(len(placed))
        return original(placed, *rest)

    original = ndjson.read_each
    monkeypatch.setattr(messages, "read_each", counted)
    url = make_topic(broker)
    fill(url, [event(number) if number != 3000 else b"poison" for number in range(5000)])
    blocks = read(log_of(url))
    assert len(events_of(blocks)) == 4999
    assert sum(careful) <= messages.CAREFUL_MESSAGES


def test_transactions_leave_gaps_and_only_what_was_committed_counts(broker: Broker) -> None:
    url = make_topic(broker)
    topic = KafkaLog.open(url).topic
    producer = Producer({"bootstrap.servers": topic.servers, "transactional.id": topic.name})
    producer.init_transactions()
    for first, commits in ((0, True), (10, False), (20, True), (30, False)):
        producer.begin_transaction()
        for number in range(first, first + 5):
            producer.produce(topic.name, json.dumps(event(number)))
        producer.flush()
        if first == 20:
            open_end = log_of(url).latest()["0"]
            assert open_end <= 12, "what is in an open transaction is not there yet"
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    log = log_of(url)
    poll(lambda: log.latest()["0"] == 24, "20 events and 4 marks")
    numbers = [row["v"] * 4 for row in events_of(read(log))]
    assert numbers == [0, 1, 2, 3, 4, 20, 21, 22, 23, 24]
    assert events_of(read(log, 18, 24)) == []
    assert [row["v"] * 4 for row in events_of(read(log, 3, 14))] == [3, 4, 20, 21]


def remove_before(url: str, offset: int) -> None:
    topic = KafkaLog.open(url).topic
    admin = AdminClient({"bootstrap.servers": topic.servers})
    for removed in admin.delete_records([TopicPartition(topic.name, 0, offset)]).values():
        removed.result(30)


def test_what_retention_removed_stops_the_stream_or_is_set_aside(broker: Broker) -> None:
    url = make_topic(broker)
    fill(url, [event(number) for number in range(100)])
    remove_before(url, 40)
    assert log_of(url).earliest() == {"0": 40}
    with pytest.raises(DataError, match="30 messages from offset 10 on are gone") as stopped:
        read(log_of(url), 10, 60)
    assert "lost=skip" in (stopped.value.hint or "")
    assert stopped.value.file == f"{url}#0"
    blocks = read(log_of(f"{url}?lost=skip"), 10, 60)
    assert [row["v"] * 4 for row in events_of(blocks)] == list(range(40, 60))
    (lost,) = aside_of(blocks)
    assert (lost.row, lost.values) == (10, {"from": 10, "before": 40})
    (all_lost,) = aside_of(read(log_of(f"{url}?lost=skip"), 10, 30))
    assert all_lost.values == {"from": 10, "before": 30}


def test_a_topic_that_lost_its_end_is_not_mistaken_for_a_quiet_one(broker: Broker) -> None:
    url = make_topic(broker)
    fill(url, [event(number) for number in range(10)])
    with pytest.raises(DataError, match="offset 50 is behind the end"):
        read(log_of(url), 50, 60)
    with pytest.raises(DataError, match="ends at offset 10, and should reach 60"):
        read(log_of(f"{url}?timeout=1"), 5, 60)


def test_partitions_that_a_topic_gains_are_found(broker: Broker) -> None:
    url = make_topic(broker, 2)
    log = log_of(url)
    assert log.latest() == {"0": 0, "1": 0}
    assert log.schema(WANTED) is None
    admin = AdminClient({"bootstrap.servers": log.topic.servers})
    admin.create_partitions([NewPartitions(log.topic.name, 3)])[log.topic.name].result(30)
    poll(lambda: len(log.latest()) == 3, "the third partition")
    fill(url, [event(0), event(1)], partition=2)
    assert log.latest() == {"0": 0, "1": 0, "2": 2}
    assert len(events_of(read(log, partition="2"))) == 2


def test_a_topic_keeps_its_identity_until_it_is_made_anew(broker: Broker) -> None:
    url = make_topic(broker)
    log = log_of(url)
    before = log.identity()
    assert len(before) == 2
    assert log_of(url.replace("127.0.0.1", "localhost")).identity() == before
    assert list(SeveralLogs([log]).identity().values()) == list(before.values())
    admin = AdminClient({"bootstrap.servers": log.topic.servers})
    admin.delete_topics([log.topic.name])[log.topic.name].result(30)
    poll(lambda: log.topic.name not in admin.list_topics(timeout=60).topics, "the topic to go")
    log.topic.create(1)
    after = log.identity()
    assert [what for what in before if after[what] != before[what]] == [f"the id of topic {log.topic.name}"]


def test_an_attribute_that_no_message_has_is_asked_about(broker: Broker) -> None:
    url = make_topic(broker)
    fill(url, [{"id": 1, "ts": "2024-01-01T00:00:00Z", "V": 1, "k": "a"}])
    with pytest.raises(EventsError, match="did you mean `V`"):
        log_of(url).schema(WANTED)
    lenient = log_of(f"{url}?absent=missing").schema(WANTED)
    assert lenient is not None
    assert (lenient.field("id").type, lenient.field("v").type) == (pa.int64(), pa.float64())


def test_what_stands_before_the_first_event_does_not_keep_a_stream_from_starting(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_log, "SAMPLE_MESSAGES", 10)
    url = make_topic(broker)
    fill(url, [b"<xml/>"] * 30)
    with pytest.raises(NoEventsError, match="none of the 20 messages looked at is a JSON object") as told:
        log_of(url).schema(WANTED)
    assert "the one at offset 0 begins with `<xml/>`" in told.value.message
    assert told.value.file == f"{url}#0"
    fill(url, [{"id": 1, "ts": "2024-01-01T00:00:00Z"}, event(1)])
    assert len(events_of(read(log_of(url)))) == 2


def test_a_column_that_a_topic_gained_is_found_in_its_last_messages(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_log, "SAMPLE_MESSAGES", 10)
    url = make_topic(broker)
    fill(url, [{"id": "x", "ts": "2024-01-01T00:00:00Z", "k": "a"}] * 30 + [event(1)])
    schema = log_of(url).schema(WANTED)
    assert schema is not None
    assert schema.field("v").type == pa.float64()


def test_a_topic_that_is_not_there_is_told_with_a_remedy(broker: Broker) -> None:
    url = make_topic(broker)
    with pytest.raises(DataError, match="there is no topic `TEST-") as close:
        log_of(url.replace("test-", "TEST-")).latest()
    assert close.value.hint == f"did you mean `{url.rpartition('/')[2]}`?"
    with pytest.raises(DataError, match="there is no topic `zzz`") as other:
        log_of(broker.url("zzz")).latest()
    assert "create it first" in (other.value.hint or "")


def test_a_broker_that_comes_back_is_waited_for(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_log, "BLOCK_MESSAGES", 100)
    url = make_topic(broker)
    fill(url, [event(number) for number in range(1000)])
    log = log_of(url)
    schema = log.schema(WANTED)
    assert schema is not None
    broker.kill()
    back = threading.Thread(target=broker.start)
    back.start()
    try:
        assert log.latest() == {"0": 1000}
        blocks = list(log.read(OffsetRange("0", 0, 1000), WANTED, schema))
    finally:
        back.join()
    assert len(events_of(blocks)) == 1000


def test_a_broker_that_is_gone_is_told_once(free_port: int) -> None:
    log = log_of(f"kafka://127.0.0.1:{free_port}/x?timeout=2")
    with pytest.raises(DataError, match="no Kafka broker has answered for 2 s") as asked:
        log.latest()
    assert f"is 127.0.0.1:{free_port} right, and running?" in (asked.value.hint or "")
    with pytest.raises(DataError, match="no Kafka broker has answered for 2 s"):
        list(log.read(OffsetRange("0", 0, 5), WANTED, pa.schema([])))


@pytest.fixture
def free_port() -> int:
    """A port without a listener."""
    import socket

    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
    return port


class Junk(KafkaLog):
    """A topic without events until the third question."""

    answers: tuple[str, ...] = ()

    def schema(self, wanted: Wanted) -> pa.Schema | None:
        Junk.answers = (*Junk.answers, "asked")
        if len(Junk.answers) > 2:
            return pa.schema([])
        raise NoEventsError("nothing is an event", self.name)


def test_a_stream_waits_for_events_among_what_is_none_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_start, "NO_EVENTS_S", 0.01)
    said: list[str] = []
    log = Junk.open("kafka://nowhere/junk")
    assert first_start._sample(log, WANTED, False, threading.Event(), said.append) == pa.schema([])
    (line,) = said
    assert line.startswith("kafka://nowhere:9092/junk: nothing is an event: waiting for the first events")
    Junk.answers = ()
    with pytest.raises(NoEventsError):
        first_start._sample(log, WANTED, True, threading.Event(), said.append)
