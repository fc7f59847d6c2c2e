"""A share of all pairs: an operator that has only some entities knows which pairs are its own to recognise.

Every entity has a home among several operators. A pair of one home belongs there; a pair of two homes to one of the
two, by their numbers. So an operator has entities of its own and guests: it looks for pairs among its own, and between
its own and guests, and never among guests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from wayeb_py.arrays import I64, Bool

Part = Literal["all", "own", "between"]  # the pairs that one search is for


@dataclass(frozen=True, slots=True)
class PairShare:
    """The number of an operator, and the homes of entities, by their stream and keys."""

    number: int
    homes: Callable[[str, pa.Array], I64]

    def owns(self, a: I64, b: I64) -> Bool:
        """Which pairs are its own, by the homes of the two."""
        return np.asarray(owner(a, b) == self.number)


def owner(a: I64, b: I64) -> I64:
    """The home that a pair belongs to: now the smaller number of the two, now the greater, so that none has more."""
    return np.where((a + b) % 2 == 0, np.minimum(a, b), np.maximum(a, b))
