"""URLs of topics: what they mean, and what is wrong with those that mean nothing."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.polling import DEADLINE_S, poll
from tools.kafka.broker import Broker
from tools.kafka.broker_jars import broker_jars
from wayeb_py.errors import DataError
from wayeb_py.parallel.logs.kafka_topic import KafkaTopic
from wayeb_py.parallel.spark import jars


def test_a_url_names_brokers_a_topic_and_options(tmp_path: Path) -> None:
    assert KafkaTopic.parse("kafka://a:1,b/x.y-z_1") == KafkaTopic("a:1,b:9092", "x.y-z_1")
    assert KafkaTopic.parse("kafka://[::1]:9093/x").servers == "[::1]:9093"
    full = KafkaTopic.parse("kafka://a/x?timeout=5&lost=skip&absent=missing&security.protocol=SSL")
    assert (full.timeout_s, full.lost, full.absent) == (5, "skip", "missing")
    assert full.config()["security.protocol"] == "SSL"
    (tmp_path / "client.properties").write_text("# secrets\nsasl.username = me\nsasl.password=a=b\n\n")
    secret = KafkaTopic.parse(f"kafka://a/x?config={tmp_path}/client.properties")
    assert secret.config()["sasl.password"] == "a=b"
    assert secret.url == "kafka://a:9092/x"


def test_a_topic_alone_is_on_the_brokers_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    assert KafkaTopic.parse("kafka://vessels").url == "kafka://localhost:9092/vessels"
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "one:1,two:2")
    assert KafkaTopic.parse("kafka://vessels?timeout=3") == KafkaTopic("one:1,two:2", "vessels", 3.0)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://a/x", "is no Kafka URL"),
        ("kafka:/a/x", "is no Kafka URL"),
        ("kafka://a:9092", "names no topic"),
        ("kafka://a:9092/", "names no topic"),
        ("kafka:///x", "is no broker's address"),
        ("kafka://a:x/t", "`a:x` in `kafka://a:x/t` is no broker's address"),
        ("kafka://a:99999/t", "is no broker's address"),
        ("kafka://a,,b/t", "is no broker's address"),
        ("kafka://a/x/y", "`x/y` cannot be the name of a topic"),
        ("kafka://a/x y", "cannot be the name of a topic"),
        ("kafka://a/..", "cannot be the name of a topic"),
        ("kafka://a/x#1", "has a `#`"),
        ("kafka://a/x?speed=1", "has an option `speed`, which is not known"),
        ("kafka://a/x?lost=perhaps", "`lost=perhaps` in `kafka://a/x`: it is stop or skip"),
        ("kafka://a/x?timeout=soon", "is no number of seconds"),
        ("kafka://a/x?timeout=nan", "is no number of seconds"),
        ("kafka://a/x?config=/nowhere", "settings cannot be read"),
        ("kafka://a/x?bootstrap.servers=b:9092", "`bootstrap.servers` names other brokers than `kafka://a/x`"),
        ("kafka://a/x?metadata.broker.list=b", "`metadata.broker.list` names other brokers"),
        ("kafka://a/x?auto.offset.reset=earliest", "`auto.offset.reset` has to be error .* ?lost=skip"),
        ("kafka://a/x?enable.partition.eof=false", "has to be true .* where a partition ends"),
        ("kafka://a/x?enable.auto.commit=true", "the checkpoint has the offsets"),
        ("kafka://a/x?request.required.acks=0", "acks` has to be all .* could be lost"),
    ],
)
def test_a_url_that_means_nothing_is_told_why(url: str, message: str) -> None:
    with pytest.raises(DataError, match=message.replace("?", r"\?")):
        KafkaTopic.parse(url)


def test_a_setting_that_the_client_does_not_know_is_told_without_its_value() -> None:
    with pytest.raises(DataError, match=r'No such configuration property: "no\.such"') as refused:
        KafkaTopic.parse("kafka://a/x?no.such=secret").consumer()
    assert "secret" not in str(refused.value)


def test_settings_that_promises_rest_on_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text("bootstrap.servers=a:9092\nacks=-1\nenable.idempotence=true\n")
    topic = KafkaTopic.parse(f"kafka://a/x?config={tmp_path}/client.properties&fetch.wait.max.ms=7")
    assert topic.config(acks="all", fetch_wait_max_ms=50) == topic.config(acks="all") | {"fetch.wait.max.ms": "7"}
    made = KafkaTopic("a:9092", "x", settings=(("auto.offset.reset", "earliest"), ("bootstrap.servers", "b")))
    assert made.config(auto_offset_reset="error")["auto.offset.reset"] == "error"
    assert made.config()["bootstrap.servers"] == "a:9092"


def test_a_broker_that_does_not_let_us_in_is_told_from_one_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        stop = threading.Event()
        threading.Thread(target=answer_in_clear, args=(server, stop), daemon=True).start()
        topic = KafkaTopic.parse(f"kafka://127.0.0.1:{server.getsockname()[1]}/x?timeout=2&security.protocol=SSL")
        client = topic.consumer()
        try:
            with pytest.raises(DataError, match=r"no Kafka broker has let us in for 2 s: .*SSL") as refused:
                topic.partitions(client)
        finally:
            stop.set()
            client.close()
    assert "security.protocol" in (refused.value.hint or "")
    again: DataError = pickle.loads(pickle.dumps(topic)).unreachable("nothing arrives")
    assert again.message == refused.value.message
    topic.heard()
    assert topic.unreachable("nothing arrives").message == "no Kafka broker has answered for 2 s: nothing arrives"


def answer_in_clear(server: socket.socket, stop: threading.Event) -> None:
    """Answers a client that wants encryption as a server without it does."""
    server.settimeout(0.1)
    while not stop.is_set():
        with contextlib.suppress(TimeoutError, OSError), server.accept()[0] as connection:
            connection.recv(100)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_jars_that_cannot_be_fetched_are_told_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAYEB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(jars.MissingJarsError, match="fetched by Maven, and there is none here") as none:
        broker_jars()
    assert none.value.hint == "sudo apt-get install maven"
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho '[ERROR] Could not find it -> [Help 1]'\nexit 1\n")
    maven.chmod(0o755)
    with pytest.raises(jars.MissingJarsError, match=r"Maven could not fetch .*: Could not find it\n"):
        jars.connector_jars()
    assert not [path for path in (tmp_path / "cache").iterdir() if not path.name.endswith(".lock")]


def test_a_broker_dies_with_the_process_that_started_it(broker: Broker) -> None:
    program = (
        "import os, signal\n"
        "from tools.kafka.broker import Broker\n"
        "broker = Broker()\n"
        "broker.start()\n"
        "print(broker._process.pid, broker.folder, flush=True)\n"
        "signal.pause()\n"
    )
    starter = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    pid, folder = starter.stdout.readline().split()
    # A descriptor of the process shows when it has ended, without polling.
    watched = os.pidfd_open(int(pid))
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    starter.stdout.close()
    assert ends_within(watched, DEADLINE_S)
    poll(lambda: not Path(folder).exists(), f"{folder} to go")


def ends_within(pidfd: int, seconds: float) -> bool:
    import select

    try:
        return bool(select.select([pidfd], [], [], seconds)[0])
    finally:
        os.close(pidfd)
