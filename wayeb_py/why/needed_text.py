"""What an event should have been becomes text: a letter by its name in the file, or else comparisons.

An automaton waits for symbols, which are combinations of cells. Where some letters of the file together are just these
combinations, the text is theirs.
"""

from __future__ import annotations

from functools import cached_property
from math import prod

import numpy as np
import numpy.typing as npt

from wayeb_py.compiler.alphabet import axes_of, truth_table
from wayeb_py.compiler.automata.regex import letters_of
from wayeb_py.compiler.axes import Axis, coarsen
from wayeb_py.compiler.describe import symbol_texts
from wayeb_py.why.pattern_events import PatternEvents


class NeededText:
    """Describes events of some symbols for one pattern."""

    def __init__(self, over: PatternEvents) -> None:
        self._over, self._compiled = over, over.compiled

    def of(self, symbols: npt.NDArray[np.bool_]) -> str:
        """What events of some symbols are: a letter by its own name, where it is one."""
        if not self._compiled.axes:
            return "any"
        chosen = symbols[self._compiled.symbol_of_cell]
        plain = symbol_texts(self._compiled.axes, chosen.astype(np.int64), 2, self._over.names)[1]
        named = " or ".join(self._letters_of(self._finely(chosen)))
        return plain if not named or plain.startswith(named) else f"{named} ({plain})"

    def _letters_of(self, cells: npt.NDArray[np.bool_]) -> list[str]:
        """The letters, as the file writes them, that together are these combinations of cells; none, if none are."""
        parts = [(table, text) for table, text in self._tables if not (table & ~cells).any()]
        largest = [
            (table, text)
            for i, (table, text) in enumerate(parts)
            if not any(
                not (table & ~other).any() and ((other & ~table).any() or j < i)
                for j, (other, _) in enumerate(parts)
                if j != i
            )
        ]
        covered = np.zeros(cells.shape, dtype=bool)
        for table, _ in largest:
            covered |= table
        return [text for _, text in largest] if (covered == cells).all() else []

    @cached_property
    def _fine_axes(self) -> tuple[Axis, ...]:
        """The axes of the letters, before cells that make no difference were joined; none where they are too many."""
        axes = axes_of(letter.predicate for letter in letters_of(self._over.pattern.regex))
        return axes if prod(axis.n_cells for axis in axes) <= self._over.most_cells else ()

    @cached_property
    def _tables(self) -> list[tuple[npt.NDArray[np.bool_], str]]:
        """For each letter that the file writes: whether it holds, [cells of all fine axes], and its text."""
        axes = self._fine_axes
        shape = tuple(axis.n_cells for axis in axes)
        letters = {letter.predicate: letter.text for letter in letters_of(self._over.pattern.regex) if letter.text}
        return [(np.broadcast_to(truth_table(p, axes), shape), text) for p, text in letters.items()] if axes else []

    def _finely(self, cells: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Combinations of the pattern's cells as combinations of those of the fine axes."""
        coarse = {axis.subject: axis for axis in self._compiled.axes}
        along = [coarsen(axis, coarse[axis.subject]) for axis in self._fine_axes if axis.subject in coarse]
        if len(along) < len(coarse):
            return cells
        kept = [axis.n_cells if axis.subject in coarse else 1 for axis in self._fine_axes]
        shape = tuple(axis.n_cells for axis in self._fine_axes)
        return np.broadcast_to(cells[np.ix_(*along)].reshape(kept), shape)
