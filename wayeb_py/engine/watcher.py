"""A watcher reads a chunk of events while the patterns are stepped, and changes nothing.

It sees each event at its position in its entity's word, with the values that letters read and the matches that end
there. Learning and forecasting work this way: they share the order, the cleaning and the memory of recognition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from wayeb_py.engine.arrival.reorder import Rows
from wayeb_py.engine.stepping.cohort import Cohort
from wayeb_py.engine.stepping.steppers import Found
from wayeb_py.engine.values import Chunk

if TYPE_CHECKING:
    from wayeb_py.engine.binding import Binding


class Watcher(Protocol):
    """Reads what a recogniser reads."""

    def watch(self, binding: Binding, cohort: Cohort, chunk: Chunk, found: list[Found], rows: Rows, begin: int) -> None:
        """Reads a chunk that a cohort of patterns has stepped; `begin` is its first row in the batch's rows."""
