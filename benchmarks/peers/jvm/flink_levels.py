"""Three streams, or one feed, in Flink's DataStream API (java/InFlinkLevels.java), for latency of levels under load.

It calls three ports, or one, and writes a line for each detection. It has no levels: each stream has a chain of
operators with threads of its own, and the system shares the processor among them. Buffers wait a millisecond at most
for more, where 100 is usual, which favours latency.
"""

from __future__ import annotations

from benchmarks.loads.offered import PATTERNS, SHARES
from benchmarks.peers.jvm.flink import OPENED, flink_jars
from benchmarks.peers.jvm.libraries import compiled
from benchmarks.peers.peer import java_tool

BUFFER_MS = 1
JAVA_OPTIONS = ("-Xmx1g", "-XX:+UseSerialGC")  # the collector with the shortest pauses in total on one core


def command(ports: dict[str, int]) -> list[str]:
    """The command that reads the three streams from these ports."""
    class_path = compiled("flink-levels", flink_jars(), "InFlinkLevels")
    words = [word for name, port in ports.items() for word in (PATTERNS[name], str(port), str(SHARES[name]))]
    return [java_tool("java"), *JAVA_OPTIONS, *OPENED, "-cp", class_path, "InFlinkLevels", *words, str(BUFFER_MS)]


def feed_command(port: int, slower_us: dict[str, float]) -> list[str]:
    """The command that reads all classes from one port (java/InFlinkFeed.java); some take longer for an event."""
    class_path = compiled("flink-feed", flink_jars(), "InFlinkFeed")
    words = [
        word
        for name, pattern in PATTERNS.items()
        for word in (name, pattern, str(SHARES[name]), str(slower_us.get(name, 0.0)))
    ]
    java = [java_tool("java"), *JAVA_OPTIONS, *OPENED, "-cp", class_path, "InFlinkFeed"]
    return [*java, str(port), *words, str(BUFFER_MS)]
