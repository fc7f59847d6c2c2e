"""What all tasks of a job over several entities share: streams, patterns, and which of them run where.

    by entity   shards, each with all events of its entities and all columns
    by place    shards, each with all events of entities that may be near others, and the columns that pairs read
    together    one task, with all events and only the columns that are read there; it reads files itself

Rules may run in a second stage: the tasks with events only make their rows, which are matched in the parts of
groups (`rule_groups`). The parts are numbered after the targets, with one number between them for counts.

One kind of task accounts for the events: it counts them, and sets aside those that are late. That is `by entity` where
anything runs there, since its tasks have all columns, or else `together`, where all events are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import pyarrow as pa

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.compiler.placement import Where
from wayeb_py.compiler.rule_inputs import members_of
from wayeb_py.compiler.rule_keys import Maker, for_rows, makes
from wayeb_py.engine.pairs.share import PairShare
from wayeb_py.engine.recogniser import Order, Recogniser
from wayeb_py.engine.rows.detection_schema import DetectionSchema
from wayeb_py.errors import DataError
from wayeb_py.files.formats.block import TimeRange
from wayeb_py.files.projection import Wanted
from wayeb_py.files.read import EventReader
from wayeb_py.parallel.batch.several_entities.cells import Cells
from wayeb_py.parallel.batch.several_entities.rule_groups import RuleGroup
from wayeb_py.parallel.batch.splits import Split
from wayeb_py.parallel.batch.task import JobSpec
from wayeb_py.parallel.spark.pattern_bundle import KEPT, open_patterns
from wayeb_py.parallel.wire.routing import Routing

STREAM_BITS = 20  # low bits of a reading task's number, below the number of its stream


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """A stream of a job: its name, the types of its events, and the times that are read."""

    name: str
    schema: pa.Schema
    time_range: TimeRange


@dataclass(frozen=True, slots=True)
class SeveralSpec(JobSpec):
    """The work of a job over several entities; `names` are the patterns and rules that run in each kind of task."""

    streams: tuple[StreamSpec, ...] = ()
    names: Mapping[Where, tuple[str, ...]] = field(default_factory=dict)
    joined: DetectionSchema | None = None  # the columns of all detections
    plans: Mapping[str, str] = field(default_factory=dict)  # orders of joins, by rule
    routing: Routing | None = None  # how entities are routed
    cells: Cells | None = None  # where the events of entities go for pairs
    rule_groups: tuple[RuleGroup, ...] = ()  # groups of rules whose rows are moved again
    splits: Mapping[int, tuple[Split, ...]] | None = (
        None  # by stream; None where all events are sent, as rows of frames
    )

    @property
    def whole(self) -> CompiledPatterns:
        return self.patterns_of(None)

    @property
    def n_shards(self) -> int:
        """How many targets have events by entity; the targets by place come after them, and then the one that has
        all."""
        assert self.routing is not None
        return len(self.routing.targets) if self.accounts("by entity") else 0

    @property
    def n_cells(self) -> int:
        """How many targets have events by place."""
        return self.cells.n_tasks if self.cells is not None and self.names.get("by place") else 0

    def moved(self, where: Where) -> tuple[str, ...]:
        """The rules whose rows a kind of task makes, as far as it can, and that are matched elsewhere."""
        names = {name for group in self.rule_groups for name in group.read}
        if not names:
            return ()
        makers: dict[Where, Maker] = {
            "by entity": "entities",
            "by place" if self.names.get("by place") else "together": "pairs",
        }
        meaning, maker = self.whole.meaning, makers.get(where)
        return tuple(
            rule.name
            for rule in meaning.rules
            if rule.name in names
            and maker is not None
            and any(makes(maker, member, meaning) for member in members_of(rule))
        )

    def runs(self, where: Where) -> bool:
        """Whether a kind of task has anything to do."""
        return bool(self.names.get(where) or self.moved(where))

    @property
    def n_parts(self) -> int:
        """How many parts the groups of rules have together."""
        return sum(group.n_parts for group in self.rule_groups)

    def first_part(self, group: int) -> int:
        """The number of the first part of a group."""
        return self.n_targets + 1 + sum(one.n_parts for one in self.rule_groups[:group])

    def group_at(self, part: int) -> RuleGroup:
        """The group that a part belongs to."""
        return next(
            group for number, group in enumerate(self.rule_groups) if part < self.first_part(number) + group.n_parts
        )

    def patterns_matched(self, group: RuleGroup) -> CompiledPatterns:
        """The rules of a group, with those that they read; only the group's own are reported. Streams that they do
        not read stay, since times are counted in the finest unit of all."""
        whole = self.whole
        hidden = {rule.name for rule in whole.meaning.rules} - set(group.names)
        return replace(whole, hidden_rules=whole.hidden_rules | hidden)

    @property
    def n_targets(self) -> int:
        return self.n_shards + self.n_cells + self.runs("together")

    def where(self, target: int) -> Where:
        if target < self.n_shards:
            return "by entity"
        return "by place" if target < self.n_shards + self.n_cells else "together"

    def accounts(self, where: Where) -> bool:
        by_entity = self.runs("by entity") or not self.runs("together")
        return where == ("by entity" if by_entity else "together")

    def reads_itself(self, where: Where) -> bool:
        """Whether a kind of task reads the events itself: what needs all of a file is not sent to it."""
        return where == "together" and self.splits is not None

    def read(self, stream: int) -> Iterator[pa.RecordBatch]:
        """The events of a stream in the order of arrival, as the reading tasks take them."""
        assert self.splits is not None
        for split in self.splits[stream]:
            yield from self.open_split(stream, split)

    def open_split(self, stream: int, split: Split) -> EventReader:
        """The reader of one split."""
        own = self.streams[stream]
        part = self.whole.by_stream[own.name]
        return split.open(Wanted.from_needs(part.needs, part.stream.time_unit), own.schema, own.time_range)

    def share(self, target: int) -> PairShare | None:
        """Which pairs a target recognises; None where it recognises all."""
        if self.where(target) != "by place" or self.cells is None:
            return None
        return PairShare(target - self.n_shards, self.cells.homes)

    def patterns_at(self, where: Where) -> CompiledPatterns:
        """The patterns and rules that run in a kind of task, with those that they read, and those that make rows
        there."""
        names, moved = self.names.get(where, ()), self.moved(where)
        whole = self.whole
        if len(names) == len(whole.names) + len(whole.rule_names):
            return whole
        return _selected(self.patterns, names, moved, "entities" if where == "by entity" else "pairs")

    def columns(self, where: Where, stream: StreamSpec) -> list[str]:
        """The columns of a stream that a kind of task gets; none where nothing there reads it."""
        if self.accounts(where):
            return list(stream.schema.names)
        part = self.patterns_at(where).by_stream.get(stream.name)
        return [] if part is None else list(Wanted.from_needs(part.needs, part.stream.time_unit).names)

    def orders(self) -> dict[str, Order]:
        parts = self.whole.by_stream
        return {name: "sorted" if part.stream.lateness_s is None else "arrival" for name, part in parts.items()}

    def carries_arrived(self, stream: str) -> bool:
        """Whether shards need the times that had arrived in the whole stream: some events are late for its clock."""
        part = self.whole.by_stream[stream]
        return bool(self.n_shards or self.n_cells) and part.stream.lateness_s is not None and bool(part.clocked_needs)


@lru_cache(KEPT)
def _selected(patterns: bytes, names: tuple[str, ...], moved: tuple[str, ...], maker: Maker) -> CompiledPatterns:
    """Some of the packed patterns, selected once in a process: their bindings are kept with them."""
    whole = open_patterns(patterns)
    return for_rows(whole, names, moved, maker) if moved else whole.part(names)


def schema_of_all(patterns: CompiledPatterns, schemas: Mapping[str, pa.Schema]) -> DetectionSchema:
    """The columns of all detections in events of these streams; EventsError or DataError where they do not fit."""
    recogniser = Recogniser(patterns, saves=False)
    for name, schema in schemas.items():
        recogniser.bind(schema, name)
    return recogniser.schema


def looks_at_several(patterns: CompiledPatterns) -> bool:
    """Whether patterns look at several entities, wait for time to pass, or read several streams."""
    return bool(patterns.clocked) or len(patterns.meaning.streams) > 1 or not patterns.by_stream


def require_partition(scheme: str, patterns: CompiledPatterns) -> None:
    """Raises DataError for a scheme that moves no events: several entities meet only where events are moved."""
    if scheme in ("source", "pattern"):
        what = f"`{patterns.clocked[0]}` looks at more than one entity's events" if patterns.clocked else (
            "this file has several streams"
        )  # fmt: skip
        raise DataError(
            f"the scheme `{scheme}` moves no events between tasks, and {what}", hint="use partition, which is auto"
        )
