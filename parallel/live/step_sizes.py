"""Chooses how many events a step takes, from the measured speed: some milliseconds' worth in a step, a second's in a
range; and how many are read at a time where work by level waits: a millisecond's, and less of what only lower levels
read.

A step is short so that a signal, a batch's end and work that matters more need not wait. A range is long, as a log
reads a large one faster than many small ones; it is a second's worth at most, since a batch cannot end inside it.
"""

from __future__ import annotations

from collections.abc import Iterator

from wayeb_py.files.formats.block import Block

STEP_S, RANGE_S = 0.005, 1.0
LEAST_STEP, LEAST_RANGE = 256, 10_000
# For a log that holds what it has received, and for others, in which a read costs as much as thousands of rows.
SHORT_READ, LONG_READ = (0.001, 256), (0.05, 10_000)  # seconds, rows at least
LOWER_READ = (0.0002, 32)  # of what the most urgent level does not read: as long as a slice of work
FIRST_ROWS_PER_S = 200_000.0  # before anything is measured
_WEIGHT = 0.2  # of a new measurement


class StepSizes:
    """The rows of steps and ranges, by the speed of the last steps."""

    def __init__(self) -> None:
        self.rows_per_s = FIRST_ROWS_PER_S

    def note(self, n_rows: int, seconds: float) -> None:
        """Updates the speed from a step; ignores small steps, whose time is overhead."""
        if n_rows >= LEAST_STEP and seconds > 0:
            self.rows_per_s += _WEIGHT * (n_rows / seconds - self.rows_per_s)

    @property
    def step_rows(self) -> int:
        return max(LEAST_STEP, int(self.rows_per_s * STEP_S))

    def range_rows(self, most: int) -> int:
        """The rows of a range, over all partitions."""
        return min(most, max(LEAST_RANGE, int(self.rows_per_s * RANGE_S)))

    def cut(self, block: Block) -> Iterator[Block]:
        """The block in steps; its bad rows are in the first."""
        n_events = sum(batch.num_rows for batch in block.batches)
        if n_events <= self.step_rows:
            yield block
            return
        first = Block([], block.n_rows - n_events, block.n_bytes, block.aside, block.unreadable)
        for batch in block.batches:
            at = 0
            while at < batch.num_rows:
                part = batch.slice(at, self.step_rows)
                at += part.num_rows
                first.batches.append(part)
                first.n_rows += part.num_rows
                yield first
                first = Block()
        if first.n_rows or first.aside:
            yield first


class ReadSizes:
    """The rows that are read at a time, by how long reading takes."""

    def __init__(self, size: tuple[float, int]) -> None:
        self._read_s, self._least = size
        self._rows = self._least

    def note(self, n_rows: int, seconds: float) -> None:
        """Learns from a reading that was as large as it might be; the next is at most twice as large."""
        if n_rows >= self._rows and seconds > 0:
            fitting = int(n_rows * self._read_s / seconds)
            self._rows = max(self._least, min(fitting, 2 * self._rows))

    def rows(self, most: int) -> int:
        """The rows of the next reading, over all partitions."""
        return min(most, self._rows)
