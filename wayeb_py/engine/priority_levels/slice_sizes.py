"""How many events a slice of work takes, so that it ends after a given time: learned from the slices before.

A slice has a cost of its own and a cost for each event. Where the cost of its own is most of a slice's time, fewer
events would not make it shorter, only make more slices; so a slice may take as long again for its events. Now and again
a slice is much smaller: the shortest time of all sizes is the cost of a slice itself, and what a slice takes beyond it
is that of its events.

*Not taken*: a line through sizes and times. Slices of a few events, nearly all of one size, tell its slope from noise,
and it then keeps them small.
"""

from __future__ import annotations

DOWN, UP = 0.3, 0.1  # the weights of a shorter, and of a longer slice: one that was interrupted says little
SMALLER_EVERY, SMALLER = 16, 8  # which slice is smaller, and how many times
FRESH = 128  # slices after which the time of a size is forgotten


class SliceSizes:
    """How many events one lane's slices take."""

    def __init__(self, slice_s: float, first: int, most: int, again: float = 1.0) -> None:
        """`again`: how much longer a slice may be for its events than it takes without any."""
        self._slice_s, self._most, self._again = slice_s, most, again
        self.rows = self._fitting = min(first, most)
        self._times_s: dict[int, tuple[float, int]] = {}  # by the bits of a size: seconds, and which slice came last
        self._n_slices = 0

    def note(self, n_rows: int, took_s: float) -> None:
        """Learns from a slice; the next one is at most twice as large as this one might have been."""
        bits = n_rows.bit_length()
        known_s = self._times_s.get(bits, (took_s, 0))[0]
        own_s = known_s + (DOWN if took_s < known_s else UP) * (took_s - known_s)
        self._n_slices += 1
        self._times_s[bits] = own_s, self._n_slices
        if bits == self._fitting.bit_length():
            self._fitting = max(1, min(self._fits(n_rows, own_s), 2 * self._fitting, self._most))
        is_smaller = self._n_slices % SMALLER_EVERY == 0
        self.rows = max(1, self._fitting // SMALLER) if is_smaller else self._fitting

    def _fits(self, n_rows: int, took_s: float) -> int:
        """How many events fit into a slice, by what a slice of this size takes."""
        since = self._n_slices - FRESH
        self._times_s = {bits: known for bits, known in self._times_s.items() if known[1] > since}
        itself_s = min(own_s for own_s, _ in self._times_s.values())
        if took_s <= 1.1 * itself_s:
            return 2 * n_rows if took_s < self._slice_s or len(self._times_s) > 1 else n_rows + 1
        most_s = max(self._slice_s, (1.0 + self._again) * itself_s)
        return int(n_rows * (most_s - itself_s) / (took_s - itself_s) + 1e-6)
