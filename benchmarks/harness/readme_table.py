"""Published records become README's table of numbers, each with its spread, its bound and how to repeat it.

`benchmarks/published` has one record of each experiment, as JSON under its name; `publish` copies it from the records
of a run. Numbers are never typed: a test compares the section with what these records give. A line whose record, or
whose number in it, is not there is left out, and so is every number of a record that other processes disturbed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from benchmarks import BENCHMARKS, REPOSITORY
from benchmarks.harness.record import RECORDS, Record, Value, newest_records, read_record, record_file

PUBLISHED = BENCHMARKS / "published"
README = REPOSITORY / "README.md"
BEGIN = "<!-- from here: `wayeb bench readme` -->"
END = "<!-- to here: `wayeb bench readme` -->"
RATE = "million events/s"
ITSELF = "an event by itself as"
CALM = {"scheme": "source", "rate": "10,000/s"}
BY_TREE, AT_ONCE = "speed over the tree, one by one", "tree, all at once"
SAVED = "processor time saved over window functions"


class RefusedError(Exception):
    """A record is not to be quoted; the text says why."""


Measured = Callable[[Record], str | None]  # a number of a record, as README has it; None if it is not there


def bound(what: str) -> Measured:
    """A bounded value by the beginning of its name; of several, the one nearest to its bound."""

    def measured(record: Record) -> str | None:
        found = [bound for bound in record.bounds if bound.what.startswith(what)]
        if not found:
            return None
        one = min(found, key=lambda bound: bound.value if bound.sense == "at least" else -bound.value)
        unit = "×" if one.unit == "x" else f" {one.unit}"
        asked = f"{one.sense} {one.bound:g}"
        return f"{show(one.value)}{unit} ({spread(one.low, one.high, '; ')}{asked})"

    return measured


def row(column: str, unit: str, **where: Value) -> Measured:
    """A value of the first row that has all these values."""

    def measured(record: Record) -> str | None:
        found = [row for row in record.rows if where.items() <= row.items() and row.get(column) is not None]
        if not found:
            return None
        told = spread(found[0].get("low"), found[0].get("high"))
        return f"{show(found[0][column])} {unit}" + (f" ({told})" if told else "")

    return measured


def number(what: str, unit: str) -> Measured:
    """A number that was reported, by its name and unit."""

    def measured(record: Record) -> str | None:
        value = record.numbers.get(f"{what} [{unit}]")
        return None if value is None else f"{show(value)} {unit}"

    return measured


def side_by_side(large: bool) -> Measured:
    """How many times our seconds every peer takes for the six: on the most events or, for slow peers, on fewer."""

    def measured(record: Record) -> str | None:
        by_events: dict[int, dict[str, Value]] = {}
        for row in record.rows:
            if row.get("task") == "six" and row.get("times_ours") is not None:
                by_events.setdefault(int(row["events"] or 0), {})[str(row["peer"])] = row["times_ours"]
        if not by_events:
            return None
        most, least = by_events[max(by_events)], by_events[min(by_events)]
        times = most if large else {peer: value for peer, value in least.items() if peer not in most}
        told = ", ".join(f"{peer} {show(value)}×" for peer, value in times.items() if peer != "wayeb_py")
        return f"{told} ({max(by_events) if large else min(by_events):,} events)" if told else None

    return measured


# By experiment, in the order of the table.
LINES: dict[str, dict[str, Measured]] = {
    "in_memory": {
        "six patterns over columns in memory, one core": row(RATE, RATE, way="integer keys of a narrow range"),
        "the same, keys as 0, 1, 2, … and states as codes": row(RATE, RATE, way="dense keys"),
        "their time over that of a numpy sum of the same columns": bound("recognition over numpy sum"),
    },
    "end_to_end": {
        "six patterns, 20 million events from Parquet to a file, two threads": row(RATE, RATE, way="wayeb_py"),
        "their speed over pyarrow merely reading": bound("speed over merely reading"),
        "their speed over the faster of two formulations in Polars": bound("speed over Polars"),
    },
    "many_patterns": {
        "time of 48 distinct patterns over that of 6": bound("48 patterns over 6"),
        "time of 1,000 distinct patterns over that of 6": bound("1,000 patterns over 6"),
        "compiling 1,000 patterns": bound("compiling 1,000 patterns"),
    },
    "latency": {
        "an event by itself, in process, six patterns, from a dict to its detection: median": number(
            f"{ITSELF} a row, median", "us"
        ),
        "the same from a line of JSON": number(f"{ITSELF} a line, median", "us"),
        "the same from arrays": number(f"{ITSELF} arrays, median", "us"),
    },
    "start_up": {"process start to first detection": bound("process start to first detection")},
    "resident_memory": {"resident memory for 20 million events": bound("peak resident memory")},
    "places": {"220 ports by `for each`, speed over 220 patterns": bound("for each over separate patterns")},
    "spatial": {
        "`inside` 300 polygons, speed over shapely's STRtree asked point by point": bound("inside: speed over STRtree"),
        "`near` a coast, the same": bound("near: speed over STRtree"),
        "STRtree asked about all points at once, speed over point by point, `inside`": row(
            BY_TREE, "×", lookup="inside", way=AT_ONCE
        ),
        "the same, `near`": row(BY_TREE, "×", lookup="near", way=AT_ONCE),
    },
    "maritime": {"six maritime patterns from Parquet, speed over merely reading": bound("speed over merely reading")},
    "pairs": {
        "three patterns over pairs of 5,000 vessels, one core": bound("three patterns over pairs"),
        "their speed over a range join in DuckDB": bound("three patterns over DuckDB, range join"),
    },
    "micro_rules": {
        "nineteen benchmarks of rules, one core: time of CLIPS over ours, geometric mean": bound(
            "CLIPS over ours, 1 core, geometric mean"
        ),
    },
    "measures": {
        "patterns that measure, time over recognition alone": bound("measures over recognition alone"),
        "patterns that name events, the same": bound("named events over recognition alone"),
    },
    "live_lines": {
        "live, 100,000 lines/s over TCP, six patterns, one core, from line to line out: 99 of 100": bound(
            "p99 at 100,000 lines/s over TCP"
        ),
        "its resident memory": bound("resident memory"),
    },
    "live_feed": {
        "live, the highest level at twice the capacity: its 99 of 100 over those unloaded": bound(
            "ours, shedding, p99 of the highest level"
        ),
        "those of Flink over ours": bound("Flink's p99 of the highest class"),
    },
    "spark_batch": {
        "Spark, scheme `source`, speed over one process with as many threads": bound("speed of the source scheme"),
        "Spark, scheme `partition`, processor time of window functions over ours, 6 patterns": bound(f"{SAVED}, 6"),
        "the same, 48 patterns": bound(f"{SAVED}, 48"),
    },
    "spark_stream": {
        "a stream of files, speed over `applyInPandasWithState` over rows": bound("chained source over applyInPandas"),
    },
    "stream_latency": {
        "a stream on Spark, 10,000 events/s, from offered to detected: median": row("ms", "ms", **CALM, quantile="p50"),
        "the same on Spark, 99 of 100": row("ms", "ms", **CALM, quantile="p99"),
    },
    "spark_several": {
        "Spark, three patterns over pairs as a batch, speed over one process": bound(
            "speed of a batch over one process"
        ),
        "the same as a stream, two cores": bound("a stream of pairs"),
    },
    "ports_replayed": {
        "220 ports, a coast replayed on two cores until it lags": number(
            "breaking point, partition", "times real time"
        ),
    },
    "kafka": {"a stream from Kafka, the broker on the same two cores": row(RATE, RATE, way="chained source")},
    "map_page": {"a map of 50,000 points answers, the slowest of three actions": bound("")},
    "peers": {
        "side by side, six patterns: seconds of others over ours": side_by_side(large=True),
        "the same of those that were too slow for so many": side_by_side(large=False),
    },
}


def publish(
    names: list[str], disturbed: bool = False, records: Path = RECORDS, published: Path = PUBLISHED
) -> list[Record]:
    """Copies the newest records of the usual size; without names, those that may be quoted."""
    found = {record.experiment: record for record in newest_records(records, "usual")}
    for name in names:
        if name not in found:
            raise RefusedError(f"there is no record of {name} at its usual size; `wayeb bench {name}` makes one")
        if found[name].is_partial:
            raise RefusedError(f"the record of {name} is of a part: {found[name].command}")
        failed = [bound.what for bound in found[name].bounds if bound.verdict == "FAIL"]
        if failed:
            raise RefusedError(f"the record of {name} is not within its bounds: {', '.join(failed)}")
        if found[name].commit.endswith("-dirty"):
            raise RefusedError(f"the record of {name} is of files that are not committed: nobody could repeat it")
        if found[name].disturbed and not disturbed:
            raise RefusedError(
                f"the record of {name} was disturbed by other processes; --disturbed publishes it as such"
            )
    quotable = [r.experiment for r in found.values() if is_quotable(r) and (disturbed or not r.disturbed)]
    chosen = [found[name] for name in names or quotable]
    published.mkdir(exist_ok=True)
    for record in chosen:
        shutil.copyfile(record_file(records, record), published / f"{record.experiment}.json")
    return chosen


def is_quotable(record: Record) -> bool:
    """Whether it is whole, can be repeated, and is within its bounds."""
    held = all(bound.verdict != "FAIL" for bound in record.bounds)
    return held and not record.is_partial and not record.commit.endswith("-dirty")


def section(published: Path = PUBLISHED) -> str:
    """The table and what it was measured on, without the two comments around it."""
    rows, groups, disturbed = [], dict[str, list[str]](), list[str]()
    for name, lines in LINES.items():
        path = published / f"{name}.json"
        if not path.exists():
            continue
        record = read_record(path)
        if record.disturbed:
            disturbed.append(name)
            continue
        told = {what: value for what, measured in lines.items() if (value := measured(record)) is not None}
        rows += [f"| {what} | {value} | `{record.command}` |" for what, value in told.items()]
        if told:
            groups.setdefault(_where(record), []).append(name)
    if not rows:
        return "Nothing is published yet: `make bench` prints what it measures.\n"
    where = [f"{place}: {', '.join(names)}." for place, names in groups.items()]
    if disturbed:
        where.append(f"Not quoted, since other processes disturbed the last record: {', '.join(disturbed)}.")
    return "\n".join(["| what | measured | repeat |", "| --- | --- | --- |", *rows, "", *where, ""])


def left_out(published: Path = PUBLISHED) -> list[str]:
    """The lines whose record is there, but not their number in it."""
    return [
        f"{name}: {what}"
        for name, lines in LINES.items()
        if (path := published / f"{name}.json").exists()
        for what, measured in lines.items()
        if measured(read_record(path)) is None
    ]


def write_readme(readme: Path = README, published: Path = PUBLISHED) -> None:
    """Puts the section between the two comments."""
    before, _, rest = readme.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    readme.write_text(f"{before}{BEGIN}\n{section(published)}{END}{after}")


def _where(record: Record) -> str:
    machine = record.machine
    return (
        f"Measured on {record.date[:10]}, {machine.get('processor')}, {machine.get('cores')} cores, "
        f"{machine.get('memory_gb')} GB, Python {machine.get('python')}, commit {record.commit}"
    )


def spread(low: Value, high: Value, after: str = "") -> str:
    return "" if low is None or high is None else f"{show(low)} to {show(high)}{after}"


def show(value: Value) -> str:
    """Three digits, and no exponents."""
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
