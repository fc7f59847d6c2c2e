"""Patterns of single entities over the events that the clock has passed, for operators that wait for a clock.

The events are those of the stream's own recogniser, read and numbered there, without those that are late for the
clock. They come in the order of time over all entities, so nothing is late or held back here.
"""

from __future__ import annotations

from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.engine.arrival.entities import Entities, Renumbering
from wayeb_py.engine.arrival.file_clock import Passed
from wayeb_py.engine.arrival.reorder import Rows
from wayeb_py.engine.ordered_recogniser import OrderedRecogniser


class ClockedRecogniser(OrderedRecogniser):
    """Recognises patterns of one stream in the clock's order."""

    def __init__(self, patterns: CompiledPatterns, stream: str, is_only: bool) -> None:
        # The operators that read all events count what is wrong with them; here events come a second time.
        super().__init__(patterns, order="sorted", stream=stream, is_only=is_only)
        self._read_entities: Entities | None = None
        self._numbers: Renumbering | None = None

    def read(self, entities: Entities) -> None:
        """Takes the numbering of the entities whose events are fed."""
        self._read_entities, self._numbers = entities, None

    def numbered(self, passed: Passed) -> Rows | None:
        """The events of its stream with its own entity numbers; None where there are none."""
        binding, rows = self._binding, passed.rows.get(self.stream)
        if binding is None or rows is None:
            return None
        assert self._read_entities is not None
        if self._numbers is None or self._numbers.to is not binding.entities:
            self._numbers = Renumbering(self._read_entities, binding.entities)
        entity = self._numbers.numbers(rows.entity)
        binding.grow(len(binding.entities))
        return Rows(rows.batch, entity, rows.ts)
