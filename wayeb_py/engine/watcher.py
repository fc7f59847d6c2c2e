"""A watcher reads a chunk of events while the patterns are stepped, and changes nothing.

It sees each event at its position in its entity's word, or in that of a pair, with the values that letters read and the
matches that end there. Learning and forecasting work this way: they share the order, the cleaning and the memory of
recognition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from wayeb_py.arrays import I32, I64
from wayeb_py.engine.arrival.reorder import Rows
from wayeb_py.engine.stepping.cohort import Cohort
from wayeb_py.engine.stepping.steppers import Found
from wayeb_py.engine.values import Chunk

if TYPE_CHECKING:
    from wayeb_py.engine.binding import Binding
    from wayeb_py.engine.pairs.merge import PairingEvents
    from wayeb_py.engine.pairs.values import PairChunk


class Watcher(Protocol):
    """Reads what a recogniser reads."""

    def watch(self, binding: Binding, cohort: Cohort, chunk: Chunk, found: list[Found], rows: Rows, begin: int) -> None:
        """Reads a chunk that a cohort of patterns has stepped; `begin` is its first row in the batch's rows."""


class WatchedWords(Protocol):
    """The words of all pairs of one `for each pair`; arrays are by word, whose number is used again once it is over."""

    @property
    def cohort(self) -> Cohort: ...

    @property
    def count(self) -> I64:
        """How many events it has so far."""

    @property
    def a(self) -> I32:
        """The entity."""

    @property
    def b(self) -> I32:
        """The other."""

    @property
    def sides(self) -> tuple[int, int]:
        """The numbers of the streams of a and b."""

    def runnable_of(self, pattern: int) -> int | None:
        """The number that a pattern of the file has among those that are stepped here; None where it is not."""


class PairWatcher(Protocol):
    """Reads what the operator of pairs reads: the entity of an event is its word, which is one of some `words`."""

    def watch(self, words: WatchedWords, chunk: PairChunk, found: list[Found]) -> None:
        """Reads a chunk that the patterns of some words have stepped; rows count among the events of their pairing."""

    def end(self, words: WatchedWords, which: I32) -> None:
        """Reads which words are over; their numbers are used again for others."""

    def place(self, words: WatchedWords, part: PairingEvents) -> None:
        """Reads the events of a pairing, all of whose chunks have been read, and where they are among all events."""

    def settle(self, rank: I64) -> None:
        """Reads that all pairings have read some events; `rank` orders the entities by their keys."""
