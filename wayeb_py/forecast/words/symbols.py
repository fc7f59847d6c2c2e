"""The events of a chunk become the symbols of one pattern, and these the nodes that each entity's word walks through.

The cells of the events are those that recognition has encoded for the same chunk: a symbol costs one look-up for each
event, and no value is computed twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from wayeb_py.arrays import F64, I32, I64, U16, Bool
from wayeb_py.compiler.axes import Axis, coarsen
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.engine.stepping.cohort import Cohort
from wayeb_py.engine.stepping.encode import Encoder
from wayeb_py.engine.stepping.steppers import Coder, Found
from wayeb_py.engine.values import Chunk
from wayeb_py.forecast.automaton import DetectingAutomaton
from wayeb_py.forecast.kernels import follow, follow_every, follow_likely
from wayeb_py.growing_arrays import lengthened, with_room


class SymbolReader:
    """Encodes chunks for one pattern, which has a number among those that are stepped together."""

    def __init__(self, automaton: DetectingAutomaton, runnable: int) -> None:
        self.automaton, self.runnable = automaton, runnable
        self._symbol_of_code = automaton.symbol_of_cell.ravel().astype(np.int32)
        self._coding: tuple[Cohort, Coder, I32] | None = None  # for the cohort that was read last

    @classmethod
    def of(cls, automaton: DetectingAutomaton, patterns: CompiledPatterns) -> SymbolReader:
        """The reader of a pattern of one entity."""
        number = next(i for i, compiled in enumerate(patterns.compiled) if compiled.name == automaton.name)
        return cls(automaton, next(i for i, one in enumerate(patterns.runnables) if number in one.patterns))

    def is_of(self, cohort: Cohort) -> bool:
        """Whether the pattern belongs to a cohort."""
        return self.runnable in cohort.patterns

    def symbols(self, cohort: Cohort, chunk: Chunk) -> I32:
        """The symbol of each event."""
        code, symbol_of_code = self.codes(cohort, chunk)
        return symbol_of_code[code]

    def codes(self, cohort: Cohort, chunk: Chunk) -> tuple[U16, I32]:
        """A code of each event, and the symbol of each code: from the cells that recognition has encoded."""
        n = len(chunk.ts)
        if not cohort.has_cells:
            return self._encoded(cohort, chunk), self._symbol_of_code
        cells, group = cohort.stepped_cells()
        if self._coding is None or self._coding[0] is not cohort:
            axes = [encoder.axis for encoder in cohort.encoders] if group is None else list(group.axes)
            coder = Coder(self.automaton.axes, axes, direct=group is not None)
            self._coding = cohort, coder, self._symbol_of_code if group is None else self._symbols_in(group.axes)
        _, coder, symbol_of_code = self._coding
        return coder.codes(cells, n), symbol_of_code

    def _symbols_in(self, axes: Sequence[Axis]) -> I32:
        """The symbol of each code of a group's axes, which are finer than the pattern's or the same."""
        own = {axis.subject: axis for axis in self.automaton.axes}
        sizes = [axis.n_cells for axis in self.automaton.axes]
        stride_of = {axis.subject: prod(sizes[i + 1 :]) for i, axis in enumerate(self.automaton.axes)}
        code: I64 = np.zeros(1, dtype=np.int64)
        for axis in axes:
            cell = np.zeros(axis.n_cells, dtype=np.int64)
            if axis.subject in own:
                cell = np.array(coarsen(axis, own[axis.subject])) * stride_of[axis.subject]
            code = (code[:, None] + cell[None, :]).reshape(-1)
        return np.ascontiguousarray(self._symbol_of_code[code])

    def _encoded(self, cohort: Cohort, chunk: Chunk) -> U16:
        code = np.zeros(len(chunk.ts), dtype=np.uint16)
        sizes = [axis.n_cells for axis in self.automaton.axes]
        for nth, axis in enumerate(self.automaton.axes):
            Encoder(axis).add(cohort.values.column(axis.subject, chunk), prod(sizes[nth + 1 :]), code)
        return code

    def detected_rows(self, found: list[Found]) -> I64:
        """The rows at which the pattern is detected."""
        parts = [part.row[part.pattern == self.runnable] for part in found]
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


class Walk:
    """The node of every entity's word in one automaton, kept from chunk to chunk."""

    def __init__(self, next_node: I64) -> None:
        self.next_node = np.ascontiguousarray(next_node.ravel(), dtype=np.int32)
        self.n_symbols = int(next_node.shape[1])
        self.node_of: I32 = np.zeros(0, dtype=np.int32)

    def __len__(self) -> int:
        """How many nodes there are."""
        return len(self.next_node) // self.n_symbols

    def step(self, symbols: I32, chunk: Chunk, n_entities: int) -> tuple[I32, I32]:
        """The node before and after each event."""
        self._grow(n_entities)
        before, after = np.empty(len(symbols), dtype=np.int32), np.empty(len(symbols), dtype=np.int32)
        follow(symbols, chunk.entity, chunk.fresh, self.next_node, self.n_symbols, self.node_of, before, after)
        return before, after

    def mark_likely(self, is_likely: Bool) -> None:
        """Says which nodes `step_likely` reports: is_likely[class, node]."""
        self._is_likely = np.ascontiguousarray(is_likely.reshape(-1), dtype=np.uint8)
        self._to_likely = self._marked(is_likely)

    def mark_spans(self, has_span: Bool) -> None:
        """Says which nodes `step_every` reports: has_span[class, node]."""
        self._to_spans = self._marked(has_span)

    def _marked(self, wanted: Bool) -> I32:
        """[node, symbol]: where it leads, or -1 - that node where it is wanted in some class."""
        marked = np.asarray(wanted.any(axis=0))[self.next_node]
        return np.where(marked, -1 - self.next_node, self.next_node).astype(np.int32)

    def step_every(
        self, codes: tuple[U16, I32], chunk: Chunk, n_entities: int, class_: I64, probability: F64, told: F64
    ) -> tuple[I32, I32]:
        """told[row] = probability[class * nodes + node] after each event; returns the rows after which a node that is
        marked in some class is reached, and these nodes."""
        self._grow(n_entities)
        code, symbol_of_code = codes
        row, node = np.empty(len(code), dtype=np.int32), np.empty(len(code), dtype=np.int32)
        n = follow_every(
            code, symbol_of_code, chunk.entity, chunk.fresh, self._to_spans, self.n_symbols, self.node_of, class_,
            probability, told, row, node,
        )  # fmt: skip
        return row[:n], node[:n]

    def step_likely(self, codes: tuple[U16, I32], chunk: Chunk, n_entities: int, class_: I64) -> tuple[I32, I32]:
        """The rows after which a marked node is reached, and the node of each."""
        self._grow(n_entities)
        code, symbol_of_code = codes
        row, node = np.empty(len(code), dtype=np.int32), np.empty(len(code), dtype=np.int32)
        n = follow_likely(
            code, symbol_of_code, chunk.entity, chunk.fresh, self._to_likely, self.n_symbols, self.node_of, class_,
            self._is_likely, row, node,
        )  # fmt: skip
        return row[:n], node[:n]

    def _grow(self, n_entities: int) -> None:
        if n_entities > len(self.node_of):
            self.node_of = lengthened(self.node_of, with_room(n_entities))
