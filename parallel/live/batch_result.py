"""Blocks of events fed to a recogniser become tables of detections at once, and the counts of a batch at its end.

It counts as a task on Spark does (`stream.task_result`); what a task packs into parcels leaves here as tables,
step by step, in the columns of the stream and with its ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from wayeb_py.engine.rows.detection_id import with_ids
from wayeb_py.engine.rows.detections import Detections
from wayeb_py.files.formats.block import Block
from wayeb_py.parallel.logs.log import Offsets
from wayeb_py.parallel.stream.gather import aligned
from wayeb_py.parallel.stream.stream_recogniser import StreamRecogniser
from wayeb_py.parallel.stream.task_result import TaskResult
from wayeb_py.parallel.wire.parcel import Parcel


class BatchResult(TaskResult):
    """What one batch finds and counts."""

    def __init__(self, recogniser: StreamRecogniser, episodes: bool, columns: pa.Schema, group: int = 0) -> None:
        super().__init__(recogniser.inner, "", group, 0, episodes)
        self._columns = columns
        self.n_rows = 0

    def step(self, block: Block, partition: str | None, stream: str) -> pa.Table | None:
        """The detections that some more events complete."""
        self.n_rows += block.n_rows
        for _ in self.feed(block, partition, stream):
            pass
        return self._drain()

    def add(self, detections: Detections) -> pa.Table | None:
        """As `step`, for what is found without events: after a silence, or at the end."""
        for _ in self.take(detections):
            pass
        return self._drain()

    def _drain(self) -> pa.Table | None:
        if not self._tables:
            return None
        table = self._tables[0]
        if len(self._tables) > 1:
            table = pa.concat_tables(self._tables).unify_dictionaries().combine_chunks()
        self._tables = []
        return aligned(with_ids(table, self.recogniser.patterns.rule_names), self._columns)

    @property
    def aside(self) -> bytes:
        """The rows set aside, as lines."""
        return bytes(self._aside)

    def counted(self, since: Offsets, until: Offsets, state_bytes: int) -> list[dict[str, Any]]:
        """The counts of the batch: of all partitions together, and of each where it ends."""
        whole = self.counts() | {"state_bytes": state_bytes}
        ends = [
            {"partition": name, "group": 0, "entities": 0, "start": since.get(name, 0), "end": end}
            for name, end in sorted(until.items())
        ]
        if len(ends) == 1:
            return [whole | {name: ends[0][name] for name in ("partition", "start", "end")}]
        return [whole | {"partition": "all"}, *ends]

    def _pack_tables(self) -> Iterator[Parcel]:
        return iter(())

    def _pack_aside(self) -> Iterator[Parcel]:
        return iter(())
