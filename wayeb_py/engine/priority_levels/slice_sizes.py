"""How many events a slice of work takes, so that it ends after a given time: learned from the slices before.

A slice has a cost of its own and a cost for each event. Both are estimated, newer slices counting more. Where the cost
of its own is most of a slice's time, fewer events would not make it shorter, only make more slices; so a slice may take
as long again for its events. Slices of one size would not tell the two costs apart, so now and again a slice is
smaller.
"""

from __future__ import annotations

WEIGHT = 0.1  # the weight of a new slice
SMALLER_EVERY, SMALLER = 8, 0.6  # which slice is smaller, and by what factor


class SliceSizes:
    """How many events one lane's slices take."""

    def __init__(self, slice_s: float, first: int, most: int) -> None:
        self._slice_s, self._most = slice_s, most
        self.rows = min(first, most)
        self._fitting = self.rows
        self._n, self._s, self._nn, self._ns = 0.0, 0.0, 0.0, 0.0  # means: of events, seconds, and their products
        self._an_event_s: float | None = None  # known once slices of different sizes have been seen
        self._n_slices = 0

    def note(self, n_rows: int, took_s: float) -> None:
        """Learns from a slice; the next one is at most twice as large as this one might have been."""
        weight = WEIGHT if self._n_slices else 1.0
        self._n_slices += 1
        self._n += weight * (n_rows - self._n)
        self._s += weight * (took_s - self._s)
        self._nn += weight * (n_rows * n_rows - self._nn)
        self._ns += weight * (n_rows * took_s - self._ns)
        spread = self._nn - self._n * self._n
        if spread > 1e-3 * self._nn:
            self._an_event_s = (self._ns - self._n * self._s) / spread
        self._fitting = max(1, min(self._fits(), 2 * self._fitting, self._most))
        is_smaller = self._n_slices % SMALLER_EVERY == 0
        self.rows = max(1, int(SMALLER * self._fitting)) if is_smaller else self._fitting

    def _fits(self) -> int:
        """How many events fit into a slice."""
        if self._an_event_s is None or self._s <= 0:
            return 2 * self._fitting if self._s < self._slice_s else self._fitting + 1
        an_event_s = min(max(self._an_event_s, 1e-9), self._s / self._n)
        itself_s = self._s - an_event_s * self._n
        return int(max(self._slice_s - itself_s, itself_s) / an_event_s + 1e-6)
