"""A topic of Kafka's in a live stream, with a real broker: one consumer a partition reads on for as long as it runs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import wayeb_py
from tests.parallel.live.live_runs import LiveRun
from tests.parallel.topics import fill, make_topic
from tests.polling import poll
from tools.kafka.broker import Broker
from wayeb_py.engine.rows.detection_id import with_ids
from wayeb_py.parallel.live.batch_ledger import read_batches
from wayeb_py.parallel.logs.kafka import KafkaLog
from wayeb_py.parallel.logs.kafka_topic import KafkaTopic

TEXT = """stream s { key id time ts in s }
pattern Fast := (v > 50){2,} priority high
pattern Slow := (v < 20){2,} priority low
"""
PARTS, A_PART = 12, 25


def events() -> list[dict[str, Any]]:
    dice = np.random.default_rng(4)
    return [{"id": int(dice.integers(0, 5)), "ts": number, "v": float(dice.integers(0, 100))} for number in range(300)]


def test_a_live_stream_reads_a_topic_by_one_consumer_a_partition(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = make_topic(broker, 2)
    opened: list[dict[str, Any]] = []
    consumer = KafkaTopic.consumer

    def noted(topic: KafkaTopic, **own: Any) -> Any:
        opened.append(own)
        return consumer(topic, **own)

    monkeypatch.setattr(KafkaTopic, "consumer", noted)
    run = LiveRun(tmp_path / "run", tmp_path, TEXT)
    rows, stop = events(), threading.Event()
    ledger = tmp_path / "run/checkpoint/batches.ndjson"

    def send(number: int) -> None:
        part = rows[A_PART * number : A_PART * (number + 1)]
        for partition in range(2):
            fill(url, [row for row in part if row["id"] % 2 == partition], partition)

    def taken() -> int:
        known = read_batches(ledger)
        done = known.planned.get(known.last_done)
        return 0 if done is None else sum(done.at.values())

    send(0)
    running = threading.Thread(
        target=run.run, args=({"s": KafkaLog.open(url)},),
        kwargs={"once": False, "final": False, "stop": stop, "interval_s": 0.05},
    )  # fmt: skip
    running.start()
    for number in range(1, PARTS):
        send(number)
        poll(lambda end=A_PART * (number + 1): taken() >= end, "the part")  # type: ignore[misc]
    stop.set()
    running.join()
    fetching = [own for own in opened if "enable_partition_eof" in own]
    assert len(fetching) <= 2 + 2 + 2  # of the partitions, and of the samples that types are read from
    run.run({"s": KafkaLog.open(url)}, final=True)
    found = wayeb_py.compile(TEXT).recognise(pa.Table.from_pylist(rows)).to_arrow()
    names = ("pattern", "entity", "ts", "seq", "start_seq")
    assert sorted(tuple(row[name] for name in names) for row in run.found().to_pylist()) == sorted(
        tuple(row[name] for name in names) for row in with_ids(found).to_pylist()
    )
