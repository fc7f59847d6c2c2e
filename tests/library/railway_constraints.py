"""What breaks the six constraints of the railway library, straight from their definitions, and what repairs each.

A railway is sets of rows, by the names that `patterns/railway` gives its facts. A match is what the rule emits.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Row = tuple[Any, ...]
Railway = dict[str, set[Row]]
Change = tuple[str, str, Row]
"""Of which facts, `+` or `-`, and the row."""

FILES = {
    "route": "Route", "semaphore": "Semaphore", "switch": "Switch", "switch_position": "SwitchPosition",
    "segment": "Segment", "follows": "follows", "target": "target", "monitored_by": "monitoredBy",
    "requires": "requires", "entry": "entry", "exit": "exit", "connects_to": "connectsTo",
}  # fmt: skip


def read_railway(folder: Path, name: str) -> Railway:
    """The rows of a model's files."""
    railway: Railway = {}
    for facts, label in FILES.items():
        with (folder / f"{name}-{label}.csv").open() as file:
            _, *rows = csv.reader(file)
        railway[facts] = {tuple(_value(text) for text in row) for row in rows}
    return railway


def _value(text: str) -> int | str | bool:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.lstrip("-").isdigit() else text


def _by_first(rows: set[Row]) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[row[0]].append(row)
    return found


def _by_second(rows: set[Row]) -> dict[Any, list[Row]]:
    return _by_first({(second, first) for first, second in rows})


def _value_of(rows: set[Row]) -> dict[Any, Any]:
    return {row[0]: row[1] for row in rows}


def broken(railway: Railway) -> dict[str, set[Row]]:
    """All matches of every constraint."""
    watched = {track for track, _ in railway["monitored_by"]}
    return {
        "PosLength": {row for row in railway["segment"] if int(row[1]) <= 0},
        "SwitchMonitored": {(switch,) for switch, _ in railway["switch"] if switch not in watched},
        "RouteSensor": set(_route_sensor(railway)),
        "SwitchSet": set(_switch_set(railway)),
        "SemaphoreNeighbor": set(_semaphore_neighbor(railway)),
        "ConnectedSegments": set(_connected_segments(railway)),
    }


def _route_sensor(railway: Railway) -> Iterator[Row]:
    switch_at = _value_of(railway["target"])
    sensors = _by_first(railway["monitored_by"])
    for route, position in railway["follows"]:
        for _, sensor in sensors[switch_at[position]]:
            if (route, sensor) not in railway["requires"]:
                yield route, position, switch_at[position], sensor


def _switch_set(railway: Railway) -> Iterator[Row]:
    tables = ("route", "semaphore", "switch", "switch_position", "target")
    active, signal, stands, wanted, switch_at = (_value_of(railway[facts]) for facts in tables)
    positions = _by_first(railway["follows"])
    for route, semaphore in railway["entry"]:
        for _, position in positions[route]:
            switch = switch_at[position]
            if active[route] is True and signal[semaphore] == "GO" and stands[switch] != wanted[position]:
                yield route, semaphore, position, switch


def _semaphore_neighbor(railway: Railway) -> Iterator[Row]:
    required, requiring = _by_first(railway["requires"]), _by_second(railway["requires"])
    sensors, tracks = _by_first(railway["monitored_by"]), _by_second(railway["monitored_by"])
    after = _by_first(railway["connects_to"])
    for route, semaphore in railway["exit"]:
        for _, sensor in required[route]:
            for _, track in tracks[sensor]:
                for _, next_track in after[track]:
                    for _, next_sensor in sensors[next_track]:
                        for _, next_route in requiring[next_sensor]:
                            if next_route != route and (next_route, semaphore) not in railway["entry"]:
                                yield semaphore, route, next_route, sensor, next_sensor, track, next_track


def _connected_segments(railway: Railway) -> Iterator[Row]:
    segments = {segment for segment, _ in railway["segment"]}
    after = _by_first(railway["connects_to"])
    for track, sensor in railway["monitored_by"]:
        chains: list[Row] = [(track,)] if track in segments else []
        for _ in range(5):
            chains = [
                (*chain, next_track)
                for chain in chains
                for _, next_track in after[chain[-1]]
                if next_track in segments and (next_track, sensor) in railway["monitored_by"]
            ]
        for chain in chains:
            yield sensor, *chain


def repair(railway: Railway, constraint: str, match: Row) -> list[Change]:
    """The changes that repair a match."""
    if constraint == "PosLength":
        segment, length = match
        return [("segment", "-", match), ("segment", "+", (segment, 1 - int(length)))]
    if constraint == "SwitchMonitored":
        new = 1 + max(int(sensor) for _, sensor in railway["monitored_by"])
        return [("monitored_by", "+", (match[0], new))]
    if constraint == "RouteSensor":
        route, _, _, sensor = match
        return [("requires", "+", (route, sensor))]
    if constraint == "SwitchSet":
        _, _, position, switch = match
        stood = next(row for row in railway["switch"] if row[0] == switch)
        wanted = next(row[1] for row in railway["switch_position"] if row[0] == position)
        return [("switch", "-", stood), ("switch", "+", (switch, wanted))]
    if constraint == "SemaphoreNeighbor":
        semaphore, _, route = match[:3]
        others = [("entry", "-", row) for row in railway["entry"] if row[0] == route]
        return [*others, ("entry", "+", (route, semaphore))]
    sensor, first, second, third = match[:4]
    gone = next(row for row in railway["segment"] if row[0] == second)
    return [
        ("connects_to", "-", (first, second)), ("connects_to", "-", (second, third)),
        ("connects_to", "+", (first, third)), ("monitored_by", "-", (second, sensor)), ("segment", "-", gone),
    ]  # fmt: skip


def apply(railway: Railway, changes: list[Change]) -> None:
    """Makes the changes."""
    for facts, op, row in changes:
        if op == "+":
            railway[facts].add(row)
        else:
            railway[facts].remove(row)
