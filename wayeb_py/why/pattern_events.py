"""Reads the events of some words as one pattern does: the cell, the symbol and the letters of every event.

Every explanation of a pattern reads from here. The engine's own encoders compute it once for all events, and a pattern
`for each` is written out for the one place in question.
"""

from __future__ import annotations

from difflib import get_close_matches
from math import floor
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from wayeb_py.compiler.automata.regex import letters_of
from wayeb_py.compiler.describe import AB, Names
from wayeb_py.compiler.for_each import write_out
from wayeb_py.compiler.pattern import compile_pattern
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.stepping.encode import Encoder
from wayeb_py.errors import DataError
from wayeb_py.why.indexed_words import Words
from wayeb_py.why.runs import Automaton, Room

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns


class PatternEvents:
    """A pattern, or one of its places, and what each event of the words is to it."""

    def __init__(self, patterns: CompiledPatterns, words: Words, name: str, place: str | None = None) -> None:
        number = patterns.names.index(name)
        pattern, compiled = patterns.meaning.patterns[number], patterns.compiled[number]
        if pattern.each is not None:
            pattern = _written_for(patterns, pattern, place)
            compiled = compile_pattern(pattern, patterns.longest, patterns.limits)
        self.pattern, self.compiled, self.place, self.words = pattern, compiled, place, words
        self.most_cells = patterns.limits.cells
        self.automaton = Automaton(compiled)
        chunk, values = words.chunk, words.values
        n = len(chunk.ts)
        self.cells = np.zeros((len(compiled.axes), n), dtype=np.uint16)  # [axis, row]
        for nth, axis in enumerate(compiled.axes):
            Encoder(axis).add(values.column(axis.subject, chunk), 1, self.cells[nth])
        self.symbols: npt.NDArray[np.int64] = np.zeros(n, dtype=np.int64)  # [row]
        self.holds: dict[m.Predicate, npt.NDArray[np.bool_]] = {}  # [letter][row]
        if compiled.memory is not None:
            return  # what an event is depends on the way that reads it (`remembered`)
        if compiled.axes:
            self.symbols = compiled.symbol_of_cell[tuple(self.cells)]
        self.holds = {
            letter.predicate: values.holds(letter.predicate, chunk) for letter in letters_of(pattern.regex)
        } | {m.Always(): np.ones(n, dtype=bool)}

    @property
    def names(self) -> Names:
        """What the file calls the two of a pair."""
        return AB if self.pattern.pair is None else self.pattern.pair.variables

    def room(self, begin: int, end: int) -> Room:
        """What the window leaves to runs over some rows."""
        window, chunk = self.pattern.window, self.words.chunk
        if window is None:
            return Room()
        span = None if window.seconds is None else window.seconds * chunk.ticks_per_s
        return Room(chunk.ts[begin:end], span, window.events)

    def window_end(self, start: int) -> str:
        """When the window of a run that starts at a row is over."""
        window, chunk = self.pattern.window, self.words.chunk
        assert window is not None
        assert window.seconds is not None
        return self.words.instant_text(int(chunk.ts[start]) + floor(window.seconds * chunk.ticks_per_s))


def _written_for(patterns: CompiledPatterns, pattern: m.Pattern, place: str | None) -> m.Pattern:
    assert pattern.each is not None
    index = patterns.places(pattern.each[1])
    for name, written in write_out(pattern, index.names, index.columns):
        if name == place:
            return written
    if place is None:
        raise DataError(
            f"pattern `{pattern.name}` is one for each place of `{pattern.each[1]}`",
            hint="say which place: `--place NAME`",
        )
    near = get_close_matches(place, list(index.names), n=1)
    hint = f"did you mean `{near[0]}`?" if near else None
    raise DataError(f"no place of `{pattern.each[1]}` is called `{place}`", hint=hint)
