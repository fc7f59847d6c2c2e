"""Limits how many rows may go aside in a stream before it stops: counted over all its batches, each once.

The stream writes only the rows set aside of a batch that exceeds the limit, so that a user finds them. After a restart
it repeats the batch, and passes with a greater limit, or stops again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wayeb_py.errors import DataError
from wayeb_py.files.output.set_aside import BadLimit
from wayeb_py.files.stores import Location
from wayeb_py.parallel.health import gauge
from wayeb_py.parallel.health.totals import load_totals
from wayeb_py.parallel.sinks.sinks import Batch


@dataclass(slots=True)
class Tolerance:
    """A limit, and what counts towards it."""

    limit: BadLimit
    aside: Location  # where the rows are
    n_bad: int = 0
    n_rows: int = 0
    batch: int = -1  # the last batch that is counted

    @classmethod
    def of_stream(cls, limit: BadLimit, aside: Location, checkpoint: Path) -> Tolerance:
        """A limit for a stream, with the counts of its earlier batches."""
        before = load_totals(checkpoint / gauge.FOLDER)
        return cls(limit, aside, round(before.sum("bad")), round(before.sum("rows")), before.batch)

    def judge(self, batch: Batch) -> None:
        """Raises DataError if there are too many with this batch."""
        if batch.number <= self.batch:
            return
        tally = batch.tally()
        self.batch = batch.number
        self.n_rows += tally.rows
        self.n_bad += tally.bad.total()
        if not self.limit.allows(self.n_bad, self.n_rows):
            often, _ = max(tally.bad.items(), key=lambda reason: reason[1], default=("", 0))
            raise DataError(
                f"{self.n_bad:,} of {self.n_rows:,} rows cannot be read, more than --max-bad allows ({self.limit}); "
                f"lately most often: {often}",
                str(self.aside),
                hint="the rows are there with their reasons; to go on, start again with a greater --max-bad",
            )
