"""The events of a chunk become the symbols of one pattern, and these the nodes that each entity's word walks through.

The values are those that recognition has computed for the same chunk: encoding them again costs a look-up an event,
and no value that looks back is computed twice.
"""

from __future__ import annotations

from math import prod

import numpy as np

from wayeb_py.arrays import I32, I64
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.engine.stepping.cohort import Cohort
from wayeb_py.engine.stepping.encode import Encoder
from wayeb_py.engine.stepping.pooled_lists import grown
from wayeb_py.engine.stepping.steppers import Found
from wayeb_py.engine.values import Chunk
from wayeb_py.forecast.automaton import DetectingAutomaton
from wayeb_py.forecast.kernels import follow


class SymbolReader:
    """Encodes chunks for one pattern."""

    def __init__(self, automaton: DetectingAutomaton, patterns: CompiledPatterns) -> None:
        self.automaton = automaton
        sizes = [axis.n_cells for axis in automaton.axes]
        self._encoders = [(Encoder(axis), prod(sizes[i + 1 :])) for i, axis in enumerate(automaton.axes)]
        self._symbol_of_code = automaton.symbol_of_cell.ravel().astype(np.int32)
        number = next(i for i, compiled in enumerate(patterns.compiled) if compiled.name == automaton.name)
        self.runnable = next(i for i, runnable in enumerate(patterns.runnables) if number in runnable.patterns)

    def is_of(self, cohort: Cohort) -> bool:
        """Whether the pattern is one of a cohort's."""
        return self.runnable in cohort.patterns

    def symbols(self, cohort: Cohort, chunk: Chunk) -> I32:
        """The symbol of each event."""
        code = np.zeros(len(chunk.ts), dtype=np.uint16)
        for encoder, stride in self._encoders:
            encoder.add(cohort.values.column(encoder.axis.subject, chunk), stride, code)
        return self._symbol_of_code[code]

    def detected_rows(self, found: list[Found]) -> I64:
        """The rows at which the pattern is detected."""
        parts = [part.row[part.pattern == self.runnable] for part in found]
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


class Walk:
    """The node of every entity's word in one automaton, kept from chunk to chunk."""

    def __init__(self, next_node: I64) -> None:
        self._next = np.ascontiguousarray(next_node.ravel(), dtype=np.int32)
        self._n_symbols = int(next_node.shape[1])
        self.node_of: I32 = np.zeros(0, dtype=np.int32)

    def __len__(self) -> int:
        """How many nodes there are."""
        return len(self._next) // self._n_symbols

    def step(self, symbols: I32, chunk: Chunk, n_entities: int) -> tuple[I32, I32]:
        """The node before and after each event."""
        if n_entities > len(self.node_of):
            self.node_of = grown(self.node_of, max(64, n_entities + n_entities // 2), 0)
        before, after = np.empty(len(symbols), dtype=np.int32), np.empty(len(symbols), dtype=np.int32)
        follow(symbols, chunk.entity, chunk.fresh, self._next, self._n_symbols, self.node_of, before, after)
        return before, after
