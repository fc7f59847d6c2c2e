"""Recognition on Apache Spark, and streams: the only package that may import pyspark.

    from wayeb_py.parallel import recognise            # a data frame of events becomes one of detections
    from wayeb_py.parallel import recognise_stream     # the same for a streaming data frame

Nothing here adds to what a pattern means: every task feeds a `wayeb_py.Recogniser`. Everything travels through Spark as
parcels: whole Arrow tables as bytes, a few rows in all.

Each folder knows those above it:

    wire/     the form in which events and detections travel: parcels, shards, the order of arrival
    spark/    the session and everything below it: Java, the JVM, workers, what is shipped to them, how a task fails
    durable/  what keeps a stream whole over a crash: sealed files, and places to test a crash at
    logs/     sources that can be read again from any offset: folders, Kafka topics, replays; when they have to wait
    receive/  sources that are sent to this process: sockets, standard input, MQTT; a journal makes a log of them
    sinks/    where detections of a stream go
    health/   what a running stream shows: rates, lag, back-pressure, metrics, why it died
    recovery/ what a restart continues with: checkpoint, snapshots, versions of patterns, a ledger of batches
    batch/    files or a data frame become an output folder, by a plan
    stream/   a log becomes a running stream: the source that plans, the tasks that recognise
    live/     the same in one process, without Spark: the loop, its batches, how it goes on after a crash
    replay/   recorded events are sent again by their own time
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "forecast": "wayeb_py.parallel.batch.forecasts",
    "live_forecasts": "wayeb_py.parallel.live.live_forecasts",
    "recognise": "wayeb_py.parallel.batch.dataframe",
    "recognise_stream": "wayeb_py.parallel.stream.dataframe",
}

__all__ = ["forecast", "live_forecasts", "recognise", "recognise_stream"]

if TYPE_CHECKING:
    from wayeb_py.parallel.batch.dataframe import recognise
    from wayeb_py.parallel.batch.forecasts import forecast
    from wayeb_py.parallel.live.live_forecasts import live_forecasts
    from wayeb_py.parallel.stream.dataframe import recognise_stream


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'wayeb_py.parallel' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
