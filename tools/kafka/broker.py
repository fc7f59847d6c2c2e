"""A real Kafka broker on this machine, for tests, demos and benchmarks: one node, on loopback, gone when we are.

    with Broker() as broker:
        broker.create_topic("vessels", partitions=4)
        broker.url("vessels")                       # kafka://127.0.0.1:43210/vessels

or, from a shell, until it is interrupted:

    python -m tools.kafka.broker [--topic vessels:4]…      # `--fetch` only fetches what a broker needs

The broker is broker and controller in one process (KRaft). It must not outlive us, however we end: a watchdog in its
process group reads a pipe whose other end is ours, and ends the group when the pipe is closed.

*Not taken*: a container (needs a daemon and rights); a mock of the protocol (would agree with our own mistakes).
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.kafka.broker_jars import broker_jars
from wayeb_py.errors import DataError
from wayeb_py.parallel.logs.kafka_topic import KafkaTopic
from wayeb_py.parallel.spark.jars import connector_jars
from wayeb_py.parallel.spark.session import find_java, require_java

READY_WITHIN_S = 120.0
STOPPED_WITHIN_S = 20.0
_POLL_S = 0.05

# Runs the broker with a watchdog beside it, which ends their group when our end of the pipe is closed; if we could not
# clean up ourselves, it removes the folder that it is given as well.
_WATCHED = """
exec 3<&0
(cat <&3 >/dev/null; kill -KILL $$; [ -z "$0" ] || rm -rf "$0"; kill -KILL 0) &
exec 3<&-
exec "$@" </dev/null
"""


class Broker:
    """A broker; between its start and its end it can be stopped and started again over the same topics."""

    def __init__(
        self,
        folder: Path | None = None,
        *,
        heap_mb: int = 256,
        optimised: bool = False,
        settings: Mapping[str, str] = {},
    ) -> None:
        """`optimised` lets Java compile what runs long as well as it can, which only costs a short test time."""
        self.folder = Path(tempfile.mkdtemp(prefix="wayeb-kafka-")) if folder is None else folder
        self._is_ours = folder is None
        self._heap_mb, self._optimised, self._settings = heap_mb, optimised, dict(settings)
        self._port, self._controller_port = _free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def url(self, topic: str) -> str:
        """The topic as our commands name it."""
        return f"kafka://{self.address}/{topic}"

    @property
    def log_file(self) -> Path:
        return self.folder / "broker.log"

    def __enter__(self) -> Broker:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def start(self) -> None:
        """Starts the broker and waits until it answers."""
        require_java()
        jars = os.pathsep.join(str(jar) for jar in broker_jars())
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = self._write_properties()
        if not (self.folder / "data" / "meta.properties").exists():
            cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            # One identity in 64 begins with a dash: as a word of its own it would be read as an option.
            formatting = ["kafka.tools.StorageTool", "format", "--config", str(properties), f"--cluster-id={cluster}"]
            with open(self.log_file, "ab") as log:
                formatted = subprocess.run(self._java(jars, *formatting), stdout=log, stderr=log)
            if formatted.returncode != 0:
                raise self._failed("its storage could not be formatted")
        with open(self.log_file, "ab") as log:
            self._process = subprocess.Popen(
                [
                    "/bin/sh",
                    "-c",
                    _WATCHED,
                    str(self.folder) if self._is_ours else "",
                    *self._java(jars, "kafka.Kafka", str(properties)),
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        atexit.register(self.close)
        self._wait_until_ready()

    def stop(self) -> None:
        """Stops the broker in order and keeps its topics."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Stops the broker as a power cut would."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """Stops the broker and removes what it stored, unless that is in a folder of the caller's."""
        self._end(signal.SIGKILL if self._is_ours else signal.SIGTERM)
        atexit.unregister(self.close)
        if self._is_ours:
            shutil.rmtree(self.folder, ignore_errors=True)

    def create_topic(self, name: str, partitions: int = 1, settings: Mapping[str, str] = {}) -> str:
        """Makes a topic that can be used at once; returns its URL."""
        KafkaTopic.parse(self.url(name)).create(partitions, settings)
        return self.url(name)

    def cpu_s(self) -> float:
        """CPU seconds that the broker's process has used since it was started."""
        assert self._process is not None
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    # ---- how it is started and stopped

    def _java(self, jars: str, *arguments: str) -> list[str]:
        java = find_java()
        assert java is not None
        options = [f"-Xmx{self._heap_mb}m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        if not self._optimised:
            options.append("-XX:TieredStopAtLevel=1")
        return [java, *options, "-cp", jars, *arguments]

    def _write_properties(self) -> Path:
        port, controller = self._port, self._controller_port
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.folder / "data"),
            "auto.create.topics.enable": "false",
            # One node can hold one copy of what the broker itself keeps in topics.
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "num.network.threads": "2",
            "num.io.threads": "2",
            # By default half of our heap.
            "log.cleaner.dedupe.buffer.size": str(8 << 20),
        } | self._settings
        path = self.folder / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return path

    def _wait_until_ready(self) -> None:
        """Asks the broker for its metadata until it names itself."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        assert self._process is not None
        deadline = time.monotonic() + READY_WITHIN_S
        admin: Any = None
        while self._process.poll() is None:
            if time.monotonic() > deadline:
                raise self._failed(f"it did not answer within {READY_WITHIN_S:.0f} s")
            with contextlib.suppress(OSError, KafkaException):
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                admin = admin or AdminClient(self._client())
                if admin.list_topics(timeout=2).brokers:
                    return
            time.sleep(_POLL_S)
        raise self._failed(f"it ended with code {self._process.returncode}")

    def _client(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.address, "log_level": 0, "error_cb": lambda error: None}

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOPPED_WITHIN_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdin is not None
        process.stdin.close()

    def _failed(self, why: str) -> DataError:
        lines = self.log_file.read_text(errors="replace").splitlines() if self.log_file.exists() else []
        told = [line for line in lines if "ERROR" in line or "Exception" in line][:3] or lines[-3:]
        return DataError(f"the Kafka broker did not start: {why}", str(self.log_file), hint="\n".join(told) or None)


def _free_ports(count: int) -> list[int]:
    """Ports without a listener; all are held until the last is found, so that they differ."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def main(arguments: list[str] | None = None) -> None:
    """Runs a broker until it is interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.kafka.broker", description="A Kafka broker on loopback."
    )
    parser.add_argument("--fetch", action="store_true", help="only fetch the broker's jars and Spark's connector")
    parser.add_argument("--folder", type=Path, help="where to keep topics; without it they go when the broker ends")
    parser.add_argument("--topic", action="append", default=[], metavar="NAME[:PARTITIONS]", help="make this topic")
    given = parser.parse_args(arguments)
    try:
        if given.fetch:
            print(f"==> Kafka: {len(broker_jars())} jars, Spark's connector: {len(connector_jars())} jars")
            return
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
        with Broker(given.folder) as broker:
            for topic in given.topic:
                name, _, partitions = topic.partition(":")
                print(broker.create_topic(name, int(partitions or 1)), flush=True)
            print(f"a Kafka broker answers at {broker.address}; ctrl-C ends it", flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                signal.pause()
    except DataError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
