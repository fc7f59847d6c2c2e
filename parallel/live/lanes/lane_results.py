"""What the lanes of a live stream find becomes tables for its output, and the counts of a batch at its end.

Rows are counted as they arrive; events by the first lane that reads their stream. Every lane counts its detections, and
every level what became of its events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from wayeb_py.dsl.rules import Level
from wayeb_py.engine.priority_levels.level_tally import LevelTally
from wayeb_py.engine.priority_levels.leveled_recogniser import Left
from wayeb_py.engine.rows.few_detections import FewDetections
from wayeb_py.files.formats.block import AsideRow, Block, values_of_rows
from wayeb_py.files.output.table_text import plain_table
from wayeb_py.parallel.health.totals import BY_LEVEL
from wayeb_py.parallel.live.batch_result import BatchResult
from wayeb_py.parallel.logs.log import Offsets
from wayeb_py.parallel.stream.gather import aligned
from wayeb_py.parallel.stream.stream_recogniser import StreamRecogniser
from wayeb_py.parallel.stream.task_result import count_block


class LaneResult(BatchResult):
    """What one lane finds in a batch and counts of it, and, if it is the first, which rows arrived."""

    @property
    def leads(self) -> bool:
        """True: its recogniser counts no stream that another lane counts."""
        return True

    def arrive(self, block: Block, stream: str) -> None:
        """Counts rows and what could not be read of them."""
        self.n_rows += block.n_rows
        count_block(self._tally, block)
        for row in block.aside:
            self._set_aside(row)
        for batch in block.batches:
            self._see_times(batch, stream)

    def leave(self, left: Left) -> pa.Table | FewDetections | None:
        """Counts what a lane has found; it leaves with the stream's columns."""
        self.recognise_s += left.took_s
        for reason, batch in self.recogniser.aside:
            for values in values_of_rows(batch):
                self._set_aside(AsideRow(None, None, reason, values))
        self.recogniser.aside.clear()
        if isinstance(left.leaving, FewDetections):
            self._tally.detections.update(Counter(left.leaving.columns["pattern"]))
            return left.leaving.aligned(self._columns)
        if not left.found.num_rows:
            return None
        found = plain_table(left.found)
        names = found.column("pattern").to_pylist()
        if self.episodes:
            self._n_episodes += len(names)
        else:
            self._tally.detections.update(Counter(names))
        return aligned(found.combine_chunks(), self._columns)


class LaneResults:
    """What all lanes find in a batch."""

    def __init__(
        self,
        recognisers: Sequence[StreamRecogniser],
        tallies: Mapping[Level, LevelTally],
        episodes: bool,
        columns: pa.Schema,
    ) -> None:
        self._own = [LaneResult(one, episodes, columns, lane) for lane, one in enumerate(recognisers)]
        self._tallies = tallies
        for tally in tallies.values():
            tally.begin()

    @property
    def n_rows(self) -> int:
        return self._own[0].n_rows

    @property
    def aside(self) -> bytes:
        """The rows set aside, as lines."""
        return b"".join(one.aside for one in self._own)

    def arrive(self, block: Block, stream: str) -> None:
        """Counts what was read."""
        self._own[0].arrive(block, stream)

    def leave(self, left: Left) -> pa.Table | FewDetections | None:
        """Counts what a lane has found; it leaves with the stream's columns."""
        return self._own[left.lane].leave(left)

    def counted(self, since: Offsets, until: Offsets, state_bytes: int) -> list[dict[str, Any]]:
        """The counts of the batch, by lane; the first has those of rows, partitions and levels."""
        first, *others = self._own
        counts = first.counted(since, until, state_bytes)
        counts[0][BY_LEVEL] = {level: tally.since_begin() for level, tally in self._tallies.items()}
        return [*counts, *(one.counts() | {"partition": counts[0]["partition"]} for one in others)]
