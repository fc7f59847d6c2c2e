"""Clocks of several partitions in one process: what is late follows from each partition's log, what is detected from
what is not late, and neither from how the partitions interleave."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import wayeb_py
from tests.pairs.test_one_clock import NEAR, STILL, STREAM, scene

LATENESS_S = 15
PARTITIONS = ("p0", "p1", "p2")
Row = dict[str, Any]


def logs_of(seed: int) -> dict[str, list[Row]]:
    """What arrives in each partition, some of it out of order by more than the lateness."""
    logs: dict[str, list[Row]] = {name: [] for name in PARTITIONS}
    for row in scene(seed, 30):  # an entity's events are in one partition: of ties, arrival decides
        logs[PARTITIONS["abc".index(row["id"])]].append(row)
    return logs


def in_time(log: list[Row]) -> list[Row]:
    """The events of a partition that are not older than its clock when they arrive."""
    kept: list[Row] = []
    greatest = log[0]["t"]
    for row in log:
        if row["t"] >= greatest - LATENESS_S:
            kept.append(row)
        greatest = max(greatest, row["t"])
    return kept


def told(parts: list[Any]) -> list[tuple[Any, ...]]:
    names = ("pattern", "entity", "other", "ts", "seq", "start_ts", "start_seq", "decided_ts")
    return sorted(tuple(str(row.get(name)) for name in names) for part in parts for row in part.to_arrow().to_pylist())


def interleaved(logs: dict[str, list[Row]], seed: int, *, saves: bool) -> tuple[list[tuple[Any, ...]], int]:
    """(detections, late events) of the logs, read in turns of random lengths."""
    dice = random.Random(seed)
    patterns = wayeb_py.compile(STREAM + NEAR + STILL, lateness_s=LATENESS_S)
    recogniser = wayeb_py.Recogniser(patterns)
    recogniser.bind(pa.Table.from_pylist(logs["p0"]).schema)
    parts = [recogniser.follow(PARTITIONS)]
    if saves:  # before anything has arrived
        recogniser = wayeb_py.Recogniser(patterns, saved=recogniser.save())
    n_late, at = 0, dict.fromkeys(logs, 0)
    while any(at[name] < len(log) for name, log in logs.items()):
        name = dice.choice([name for name, log in logs.items() if at[name] < len(log)])
        size = dice.choice([1, 3, 20])
        parts.append(recogniser.feed(pa.Table.from_pylist(logs[name][at[name] : at[name] + size]), partition=name))
        at[name] += size
        if saves and dice.random() < 0.3:
            n_late += recogniser.counts.late_for_clock
            recogniser = wayeb_py.Recogniser(patterns, saved=recogniser.save())
    parts.append(recogniser.finish())
    return told(parts), n_late + recogniser.counts.late_for_clock


@pytest.mark.parametrize("seed", range(4))
def test_what_is_late_and_what_is_found_follow_from_the_partitions_own_logs(seed: int) -> None:
    logs = logs_of(seed)
    kept = sorted((row for log in logs.values() for row in in_time(log)), key=lambda row: row["t"])
    ordered = wayeb_py.Recogniser(wayeb_py.compile(STREAM + NEAR, lateness_s=0), order="sorted")
    wanted = [one for one in told([ordered.feed(pa.Table.from_pylist(kept)), ordered.finish()]) if one[0] == "Near"]
    assert wanted
    n_late = sum(map(len, logs.values())) - len(kept)
    assert n_late > 0
    found = [interleaved(logs, 10 * seed + nth, saves=nth == 2) for nth in range(3)]
    assert [[one for one in detections if one[0] == "Near"] for detections, _ in found] == [wanted] * 3
    assert [late for _, late in found] == [n_late] * 3
    assert len({tuple(one for one in detections if one[0] == "Still") for detections, _ in found}) == 1


def test_the_clock_waits_for_every_partition_but_for_those_that_are_away() -> None:
    patterns = wayeb_py.compile(STREAM + NEAR, lateness_s=0)
    recogniser = wayeb_py.Recogniser(patterns)
    here = {"lon": 5.0, "lat": 50.0, "x": 9}
    rows = [{"id": who, "t": t, **here} for t in range(0, 50, 10) for who in "ab"]
    table = pa.Table.from_pylist(rows)
    recogniser.bind(table.schema)
    assert len(recogniser.follow(["p", "q"])) == 0
    assert len(recogniser.feed(table, partition="p")) == 0  # nothing is known of q
    # From the second event of the pair on each is a detection; those at the clock's own time wait.
    assert len(recogniser.follow(["p", "q"], away=["q"])) == 6
    # What one sends that comes back is late where it is older than the stream's clock was, and only there.
    recogniser.follow(["p", "q"])
    back = [{"id": "c", "t": t, **here} for t in (30, 40, 41)]
    recogniser.feed(pa.Table.from_pylist(back), partition="q")
    assert recogniser.counts.late_for_clock == 1
    found = recogniser.feed(pa.Table.from_pylist([{"id": "d", "t": 42, **here}]), partition="p")
    # b at 40 meets a; c at 40 both of them.
    assert [(row["entity"], row["other"], row["ts"]) for row in found.to_arrow().to_pylist()] == [
        ("a", "b", 40), ("a", "b", 40)
    ]  # fmt: skip


def test_where_an_entitys_ties_lie_in_several_partitions_the_order_column_decides() -> None:
    ordered = STREAM.replace("time t in s", "time t in s  order n")
    patterns = wayeb_py.compile(ordered + NEAR, lateness_s=LATENESS_S)
    rows = [{**row, "n": n} for n, row in enumerate(sorted(scene(3, 0), key=lambda row: (row["t"], row["id"])))]
    ties = [(row["id"], row["t"]) for row in rows]
    assert len(set(ties)) < len(ties)
    logs = [rows[nth::3] for nth in range(3)]
    found = []
    for seed in range(3):
        dice, recogniser, at = random.Random(seed), wayeb_py.Recogniser(patterns), [0, 0, 0]
        recogniser.bind(pa.Table.from_pylist(rows).schema)
        parts = [recogniser.follow(PARTITIONS)]
        while left := [nth for nth in range(3) if at[nth] < len(logs[nth])]:
            nth = dice.choice(left)
            batch = logs[nth][at[nth] : at[nth] + dice.choice([1, 3, 20])]
            parts.append(recogniser.feed(pa.Table.from_pylist(batch), partition=PARTITIONS[nth]))
            at[nth] += len(batch)
        found.append(told([*parts, recogniser.finish()]))
    whole = wayeb_py.Recogniser(patterns, order="sorted")
    assert found == [told([whole.feed(pa.Table.from_pylist(rows)), whole.finish()])] * 3
    assert found[0]
