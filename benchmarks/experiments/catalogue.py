"""The experiments by name: what each shows and how long it takes on two cores, so that a run can say how much
remains."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """An experiment; its module has its name."""

    name: str
    shows: str
    usual_s: int
    quick_s: int | None = None  # None: it has no quick size
    by_name: bool = False  # at the quick size only if named: all others together take three minutes
    folder: str = ""  # below `benchmarks/experiments`

    @property
    def module(self) -> str:
        return ".".join(("benchmarks", "experiments", *filter(None, [self.folder]), self.name))

    def seconds(self, size: str) -> int | None:
        """The expected seconds; None for the full size, which is not timed."""
        return None if size == "full" else self.quick_s if size == "quick" and self.quick_s else self.usual_s

    def belongs_to(self, size: str) -> bool:
        """Whether a run without names includes it."""
        return size != "quick" or (self.quick_s is not None and not self.by_name)


EXPERIMENTS = (
    CatalogueEntry("in_memory", "six patterns over columns in memory, against a numpy sum", 30, 10),
    CatalogueEntry("end_to_end", "six patterns from Parquet to a file, against reading alone and Polars", 80, 5),
    CatalogueEntry("many_patterns", "48 and 1,000 distinct patterns, against six", 80, 8),
    CatalogueEntry("scaling", "cost against patterns, entities, events, window, share detected", 150, 8),
    CatalogueEntry("latency", "from an event offered to its detection out, in process", 30, 7, folder="process"),
    CatalogueEntry("kernel_calls", "a call of a kernel, by the form of its arguments", 25, 12, folder="process"),
    CatalogueEntry("start_up", "from the command to its first result", 15, 12, folder="process"),
    CatalogueEntry("resident_memory", "memory of a long run", 40, 3, folder="process"),
    CatalogueEntry("places", "220 ports for each, against 220 patterns", 60, 7),
    CatalogueEntry("spatial", "inside and near, against shapely", 90, 7),
    CatalogueEntry(
        "pairs",
        "three patterns over 5,000 vessels' pairs, against joins and trees",
        240,
        30,
        by_name=True,
        folder="several",
    ),
    CatalogueEntry(
        "pairs_growth",
        "cost of pairs against vessels, at sea and in one harbour",
        290,
        12,
        by_name=True,
        folder="several",
    ),
    CatalogueEntry("silence", "patterns that end in a silence, up to a million entities", 100, 4, folder="several"),
    CatalogueEntry(
        "tiers", "patterns that read others, against the same over columns", 40, 6, by_name=True, folder="several"
    ),
    CatalogueEntry(
        "railway", "the Train Benchmark's repairs, against DuckDB, SQLite, Polars, CLIPS", 300, 6, True, "rules"
    ),
    CatalogueEntry("railway_plans", "the Train Benchmark's plans forced, against the planner's", 120, 6, True, "rules"),
    CatalogueEntry("micro_rules", "small rule sets, and gestures as rules, against CLIPS", 210, 75, True, "rules"),
    CatalogueEntry("three_members", "a rule of three members beside its patterns", 60, 4, True, "rules"),
    CatalogueEntry(
        "kept_rows", "what a rule keeps over time, against windows and reference counts", 60, 6, True, "rules"
    ),
    CatalogueEntry(
        "lagging_stream", "what a rule of two streams keeps while one of them lags", 30, 5, True, "rules"
    ),
    CatalogueEntry(
        "live_levels", "live: latency by level against the load, over TCP, with Flink beside it", 400, 60, True, "live"
    ),
    CatalogueEntry(
        "live_feed", "live: the same over one connection, the middle level slowed, with Flink", 450, 90, True, "live"
    ),
    CatalogueEntry("live_priorities", "live: with and without priorities, periodic, sporadic", 90, 20, True, "live"),
    CatalogueEntry("live_sharing", "live: levels that ask the same, with and without sharing", 60, 10, True, "live"),
    CatalogueEntry("live_validity", "live: timely detections with and without shedding; rules", 90, 15, True, "live"),
    CatalogueEntry("live_queues", "live: what waiting by level costs, against feeding directly", 60, 15, True, "live"),
    CatalogueEntry("live_lines", "live: 100,000 lines/s over TCP to lines out, and memory", 340, 20, True, "live"),
    CatalogueEntry("maritime", "six maritime patterns from Parquet, against reading alone", 90, 10),
    CatalogueEntry(
        "spark_batch",
        "Spark: source scheme against one process, partition against window functions",
        400,
        43,
        by_name=True,
        folder="spark",
    ),
    CatalogueEntry(
        "workers",
        "Spark: recognition time against workers, by scheme, distinct and replicated patterns",
        300,
        25,
        folder="spark",
    ),
    CatalogueEntry(
        "cluster",
        "Spark: throughput on up to 1,000 cores, simulated from costs measured here",
        480,
        90,
        by_name=True,
        folder="spark",
    ),
    CatalogueEntry(
        "spark_stream",
        "Spark: a stream recognised where it is read, against applyInPandasWithState",
        300,
        28,
        by_name=True,
        folder="spark",
    ),
    CatalogueEntry(
        "spark_several",
        "Spark: pairs and rules as a batch and as a stream, against one process",
        400,
        45,
        by_name=True,
        folder="spark",
    ),
    CatalogueEntry(
        "back_pressure",
        "Spark: back-pressure of 1 to 6 sources against recognisers, and the rate held",
        660,
        34,
        by_name=True,
        folder="spark",
    ),
    CatalogueEntry(
        "ports_replayed",
        "Spark: 220 ports, half a year in an hour, in half of one, and how much faster",
        1500,
        22,
        by_name=True,
        folder="spark",
    ),
    CatalogueEntry("stream_latency", "Spark: from an event offered to its detection out", 180, 26, folder="spark"),
    CatalogueEntry("measures", "measures and named events, against recognition alone and other engines", 600, 15, True),
    CatalogueEntry("peers", "side by side with other engines, detections compared", 900, 11),
    CatalogueEntry("row_patterns", "typical row patterns, answered alike by Trino, Flink, Esper and Siddhi", 60),
    CatalogueEntry(
        "kafka", "six patterns from a Kafka topic, with the broker's CPU", 120, 37, by_name=True, folder="spark"
    ),
    CatalogueEntry("map_page", "a map of 50,000 points answers", 40, 15),
    CatalogueEntry(
        "instructions", "instructions of the kernels by event, counted by valgrind: no noise", 80, folder="process"
    ),
)
