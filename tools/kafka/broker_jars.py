"""The jars of a Kafka broker, fetched once for each machine.

*Not taken*: a download of Kafka's distribution, four times as large.
"""

from __future__ import annotations

from pathlib import Path

from wayeb_py.parallel.spark.jars import fetch_jars

KAFKA_VERSION = "4.3.1"


def broker_jars() -> list[Path]:
    """What `java -cp` needs to run a broker."""
    # The broker brings no logging of its own, and without it would die silently.
    wanted = [f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", "org.slf4j:slf4j-simple:1.7.36"]
    return fetch_jars(f"kafka-{KAFKA_VERSION}", wanted)
