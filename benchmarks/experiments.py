"""The experiments by name: what each shows and how long it takes on two cores, so that a run can say what remains."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """A module of this package; no seconds for a size means that it is not part of that size."""

    name: str
    shows: str
    usual_s: int | None
    quick_s: int | None = None

    def seconds(self, size: str) -> int | None:
        return self.quick_s if size == "quick" else self.usual_s


EXPERIMENTS = (
    Entry("in_memory", "six patterns over columns in memory, against a numpy sum", 30, 4),
    Entry("end_to_end", "six patterns from Parquet to a file, against reading alone and Polars", 80, 5),
    Entry("many_patterns", "48 and 1,000 distinct patterns, against six", 80, 5),
    Entry("scaling", "cost against patterns, entities, events, window, share detected", 150, 7),
    Entry("latency", "from an event offered to its detection out, in process", 30, 5),
    Entry("start_up", "from the command to its first result", 15, 8),
    Entry("resident_memory", "memory of a long run", 40, 3),
    Entry("places", "220 ports for each, against 220 patterns", 60, 6),
    Entry("spatial", "inside and near, against shapely", 90, 6),
    Entry("maritime", "six maritime patterns from Parquet, against reading alone", 90, 6),
    Entry("spark_batch", "Spark: source scheme against one process, partition against window functions", 400, 15),
    Entry("workers", "Spark: recognition time against workers, by scheme, distinct and replicated patterns", 300, 12),
    Entry("cluster", "Spark: throughput on up to 1,000 cores, simulated from costs measured here", 300, 12),
    Entry("spark_stream", "Spark: a stream recognised where it is read, against applyInPandasWithState", 300, 15),
    Entry("back_pressure", "Spark: back-pressure of 1 to 6 sources against recognisers, and the rate held", 660, 10),
    Entry("ports_replayed", "Spark: 220 ports, half a year in an hour, in half of one, and how much faster", 1200, 10),
    Entry("stream_latency", "Spark: from an event offered to its detection out", 180, 8),
    Entry("peers", "side by side with other engines, detections compared", 900, 10),
    Entry("kafka", "six patterns from a Kafka topic, with the broker's CPU", 120, 15),
    Entry("map_page", "a map of 50,000 points answers", 40, 7),
    Entry("instructions", "instructions of the kernels by event, counted by valgrind: no noise", 80),
)
