"""How much work one construction may do, counted in steps.

A step costs about as much as one pass of an inner loop. Steps are counted where work can grow beyond what the text
of a pattern suggests, so that the same text meets the same end everywhere. A clock would let a busy machine compile an
unchanged file to other automata, under other fingerprints, and lose the state that was saved for them.
"""

from __future__ import annotations


class OverBudgetError(Exception):
    """A construction passed its bound of states or steps; the error says how far it had come."""

    def __init__(self, n_states: int, n_steps: int) -> None:
        self.n_states, self.n_steps = n_states, n_steps
        super().__init__(n_states, n_steps)


class Budget:
    """The states and steps of one construction; `begin` gives it new bounds."""

    __slots__ = ("max_states", "max_steps", "n_states", "n_steps")

    def __init__(self, max_states: int = 2**62, max_steps: int = 2**62) -> None:
        self.begin(max_states, max_steps)

    def begin(self, max_states: int, max_steps: int) -> None:
        self.max_states, self.max_steps = max_states, max_steps
        self.n_states = self.n_steps = 0

    def spend(self, n_steps: int) -> None:
        self.n_steps += n_steps
        if self.n_steps > self.max_steps:
            raise OverBudgetError(self.n_states, self.n_steps)

    def reach(self, n_states: int) -> None:
        """Records how many states there are by now."""
        self.n_states = n_states
        if n_states > self.max_states:
            raise OverBudgetError(n_states, self.n_steps)
