"""How many events a slice of work takes, so that it ends after a given time: learned from the slices before.

A slice has a cost of its own and a cost for each event. Both are estimated, newer slices counting more. Where the cost
of its own is most of a slice's time, fewer events would not make it shorter, only make more slices; so a slice may take
as long again for its events.
"""

from __future__ import annotations

WEIGHT = 0.1  # the weight of a new slice


class SliceSizes:
    """How many events one lane's slices take."""

    def __init__(self, slice_s: float, first: int, most: int) -> None:
        self._slice_s, self._most = slice_s, most
        self.rows = min(first, most)
        self._n, self._s, self._nn, self._ns = 0.0, 0.0, 0.0, 0.0  # means: of events, seconds, and their products
        self._an_event_s: float | None = None  # known once slices of different sizes have been seen
        self._has_any = False

    def note(self, n_rows: int, took_s: float) -> None:
        """Learns from a slice; the next one is at most twice as large as this one might have been."""
        weight = WEIGHT if self._has_any else 1.0
        self._has_any = True
        self._n += weight * (n_rows - self._n)
        self._s += weight * (took_s - self._s)
        self._nn += weight * (n_rows * n_rows - self._nn)
        self._ns += weight * (n_rows * took_s - self._ns)
        spread = self._nn - self._n * self._n
        if spread > 1e-3 * self._nn:
            self._an_event_s = (self._ns - self._n * self._s) / spread
        if self._an_event_s is None or self._s <= 0:
            self.rows = min(n_rows + 1, self._most) if took_s > 0 else min(2 * self.rows, self._most)
            return
        an_event_s = min(max(self._an_event_s, 1e-9), self._s / self._n)
        itself_s = self._s - an_event_s * self._n
        fitting = int(max(self._slice_s - itself_s, itself_s) / an_event_s + 1e-6)
        self.rows = max(1, min(fitting, 2 * self.rows, self._most))
