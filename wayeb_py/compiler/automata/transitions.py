"""The table that every deterministic automaton has, and its two sizes."""

from __future__ import annotations

from wayeb_py.arrays import I64


class Transitions:
    """An automaton by its table of transitions."""

    __slots__ = ()
    next_state: I64  # [state, symbol]

    @property
    def n_states(self) -> int:
        return int(self.next_state.shape[0])

    @property
    def n_symbols(self) -> int:
        return int(self.next_state.shape[1])
