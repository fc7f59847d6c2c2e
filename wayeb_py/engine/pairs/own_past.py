"""Answers what pairs need of one entity's own past: `detected(a, P)`, `crossed(a, area)`, answered at each of its
events.

    events of a stream that the clock has passed ──▶ patterns of one entity ──▶ the same events, a column for each
    answer

The recogniser finds P before the pairs that read it, on the events that count for the clock, since pairs see no others.
Whether an entity's way crossed an area is a pattern of one letter, so that both questions share words, forgetting and
state.

*Not taken*: the detections of P that are reported. They come from all events that are not late for their own entity,
and are known only when the entity itself has moved on, which may be long after the clock has passed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.arrival.entities import Entities
from wayeb_py.engine.arrival.file_clock import Passed
from wayeb_py.engine.arrival.reorder import Rows
from wayeb_py.engine.clocked_recogniser import ClockedRecogniser


class OwnPast(ClockedRecogniser):
    """Answers the questions of pairs about the entities of one stream; the n-th reported pattern is the n-th answer."""

    def __init__(self, patterns: CompiledPatterns, questions: Sequence[m.Predicate], stream: str) -> None:
        super().__init__(patterns, stream, is_only=True)
        self.columns = {question: f"\x1fanswer {number}" for number, question in enumerate(questions)}

    def bind(self, schema: pa.Schema, entities: Entities) -> None:
        """Learns the types of its stream's events, and the numbering of its entities."""
        self.read(entities)
        self._bind(schema)

    def answer(self, passed: Passed) -> Rows | None:
        """The events of its stream, cleaned and without repeated ones, with a column of truths for each question."""
        rows = self.numbered(passed)
        if rows is None:
            return None
        found, rows = self._find(rows)
        batch = rows.batch
        for number, column in enumerate(self.columns.values()):
            holds = np.zeros(len(rows), dtype=bool)
            if found is not None:
                holds[found.row[found.pattern == number]] = True
            batch = batch.append_column(column, pa.array(holds))
        return Rows(batch, rows.entity, rows.ts)
