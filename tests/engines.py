"""Every way of running patterns: the same events, cut, saved, spread and simulated differently.

An engine is a function from a job to its detections, in the oracle's own terms; a new engine is added to `ENGINES`, and
the corpus runs through it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import wayeb_py
from tests.cases import TIME
from tests.oracle import Answer, Cell, Detection, Episode
from wayeb_py.compiler.limits import Limits
from wayeb_py.engine import ordered_recogniser
from wayeb_py.engine.stepping import steppers
from wayeb_py.tally import Tally


@lru_cache(maxsize=1024)
def compiled(source: str, longest: bool, limits: Limits | None) -> wayeb_py.Patterns:
    """The patterns of a job, which the engines that differ only in how they run them share."""
    if limits is None:
        return wayeb_py.compile(source, longest=longest)
    return wayeb_py.compile(source, longest=longest, limits=limits)


@dataclass(frozen=True)
class Job:
    """A file of patterns and events in the order of their arrival, which unless `arrival` are put in order first."""

    source: str
    table: pa.Table
    longest: bool = False
    arrival: bool = False
    order: str | None = None

    def compile(self, limits: Limits | None = None) -> wayeb_py.Patterns:
        return compiled(self.source, self.longest, limits)

    def fed(self) -> tuple[pa.Table, Literal["arrival", "sorted"]]:
        """The table as a recogniser takes it, and the order that this promises."""
        if self.arrival:
            return self.table, "arrival"
        times = [-(2**63) if time is None else time for time in integers(self.table[TIME])]
        ties = [0] * len(times) if self.order is None else integers(self.table[self.order])
        rows = sorted(range(len(times)), key=lambda row: (times[row], ties[row] is not None, ties[row] or 0))
        if rows == sorted(rows):  # Arrow cannot take rows of every type
            return self.table, "sorted"
        return self.table.take(pa.array(rows, pa.int64())), "sorted"


@dataclass
class Found:
    """What an engine found, sorted; and what it set aside, where it has counted from the first event on."""

    detections: list[Detection] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)
    counts: Tally | None = None


def assert_equal(found: Found, answer: Answer) -> None:
    """An engine found what the oracle says, in every column, and set aside as much."""
    assert found.detections == sorted(answer.detections, key=repr)
    assert found.episodes == sorted(answer.episodes, key=repr)
    if found.counts is not None:
        counts = found.counts
        n_unread = counts.without_key + counts.without_time
        assert (counts.late, counts.duplicates, n_unread) == (answer.n_late, answer.n_duplicates, answer.n_unread)


def integers(column: pa.ChunkedArray) -> list[Any]:
    """Times as ticks, whatever their type."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    found: list[Any] = column.to_pylist()
    return found


def cell(value: Any) -> Cell:
    """A value of Arrow as the oracle writes it."""
    if isinstance(value, Decimal):
        return Fraction(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and np.isnan(value):
        return None
    cell: Cell = value
    return cell


def detections_of(tables: Iterable[pa.Table], patterns: wayeb_py.Patterns) -> list[Detection]:
    """The rows of tables of detections."""
    emitted = {pattern.name: pattern.emitted for pattern in patterns.meaning.patterns}
    found = []
    for table in tables:
        ts, start_ts = integers(table["ts"]), integers(table["start_ts"])
        for row, values in enumerate(table.to_pylist()):
            assert values["place"] is None
            name = values["pattern"]
            found.append(
                Detection(
                    name,
                    values["entity"],
                    ts[row],
                    values["seq"],
                    start_ts[row],
                    values["start_seq"],
                    tuple(cell(values[column]) for column in emitted[name]),
                )
            )
    return sorted(found, key=repr)


def episodes_of(tables: Iterable[pa.Table], patterns: wayeb_py.Patterns) -> list[Episode]:
    """The rows of tables of episodes."""
    emitted = {pattern.name: pattern.emitted for pattern in patterns.meaning.patterns}
    found = []
    for table in tables:
        start_ts, end_ts = integers(table["start_ts"]), integers(table["end_ts"])
        for row, values in enumerate(table.to_pylist()):
            found.append(
                Episode(
                    values["pattern"],
                    values["entity"],
                    start_ts[row],
                    values["start_seq"],
                    end_ts[row],
                    values["end_seq"],
                    values["n_detections"],
                    tuple(cell(values[column]) for column in emitted[values["pattern"]]),
                )
            )
    return sorted(found, key=repr)


def in_one_call(job: Job) -> Found:
    """The whole table at once; the engine puts it in order."""
    patterns = job.compile()
    found = patterns.recognise(job.table)
    return Found(detections_of([found.to_arrow()], patterns), episodes_of([found.episodes()], patterns))


def fed(
    job: Job, cuts: Sequence[int], *, limits: Limits | None = None, workers: int = 1, restored: bool = False
) -> Found:
    """The table in batches that end at the cuts; `restored` continues from saved bytes after each."""
    patterns = job.compile(limits)
    table, order = job.fed()
    recogniser = wayeb_py.Recogniser(patterns, order=order, episodes=True, workers=workers)
    found = []
    ends = [*cuts, table.num_rows]
    for start, end in zip([0, *cuts], ends, strict=True):
        found.append(recogniser.feed(table.slice(start, end - start)))
        if restored:
            saved = recogniser.save()
            recogniser = wayeb_py.Recogniser(patterns, order=order, episodes=True, workers=workers, saved=saved)
    found.append(recogniser.finish())
    return Found(
        detections_of([part.to_arrow() for part in found], patterns),
        episodes_of([part.episodes() for part in found], patterns),
        None if restored else recogniser.counts,
    )


def in_chunks(job: Job, cuts: Sequence[int], chunk_rows: int, limits: Limits | None = None) -> Found:
    """The table in batches, each processed in chunks of `chunk_rows`, with room for as few detections at a time."""
    with patch.object(ordered_recogniser, "CHUNK_ROWS", chunk_rows), patch.object(steppers, "OUT_ROOM", chunk_rows):
        return fed(job, cuts, limits=limits)


def live(job: Job, cuts: Sequence[int]) -> Found:
    """The table as a log, in the loop of a live stream, whose batches end at the cuts; each is saved and restored."""
    from tests.parallel.live.live_loops import run_loop  # for start-up time: most engines need no stream

    patterns = job.compile()
    table, _ = job.fed()
    detections, counts = run_loop(patterns, table, cuts, episodes=False)
    episodes, _ = run_loop(patterns, table, cuts, episodes=True)
    return Found(detections_of(detections, patterns), episodes_of(episodes, patterns), counts)


def random_cuts(job: Job) -> list[int]:
    """Some cuts, always the same ones for a job; some of them cut off nothing."""
    dice = random.Random(job.source)
    n_rows = job.table.num_rows
    return sorted(dice.randrange(n_rows + 1) for _ in range(dice.randrange(1, 5)))


def event_by_event(job: Job) -> list[int]:
    return list(range(1, job.table.num_rows))


SIMULATED = Limits(table_states=0)

ENGINES: dict[str, Callable[[Job], Found]] = {
    "one batch": lambda job: fed(job, []),
    "event by event": lambda job: fed(job, event_by_event(job)),
    "random cuts": lambda job: fed(job, random_cuts(job)),
    "saved and restored": lambda job: fed(job, event_by_event(job), restored=True),
    "chunks of two rows": lambda job: in_chunks(job, random_cuts(job), 2),
    "two workers": lambda job: fed(job, random_cuts(job), workers=2),
    "simulated": lambda job: fed(job, random_cuts(job), limits=SIMULATED),
    "simulated without an automaton": lambda job: fed(job, random_cuts(job), limits=Limits(dfa_states=0)),
    "simulated, saved and restored": lambda job: fed(job, random_cuts(job), limits=SIMULATED, restored=True),
    "live": lambda job: live(job, random_cuts(job)[:1]),
}
"""Run for every job; `in_one_call` besides for those that are put in order."""
