"""Detections of a stream go to a Delta or Iceberg table: a batch that found something is one transaction of the table.

    delta:PATH                the transaction has the stream's name and the batch's number (`txnAppId`, `txnVersion`)
    iceberg:CATALOG.TABLE     the snapshot has them among its properties

A batch that comes again, because the stream died after the transaction and before it knew, finds its number in the
table and writes nothing: exactly once, by the table's own log. The driver writes; events never come to it. *Not taken*:
the formats' own Spark packages, which fit one release of Spark each (`wayeb_py.files.tables`).
"""

from __future__ import annotations

from wayeb_py.files.output.write import Output
from wayeb_py.files.tables import open_table_output
from wayeb_py.parallel.sinks.sinks import Batch, commit_batch


class TableSink:
    """A table that other streams, and runs with a state, may append to as well."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._stream_id = ""

    def open(self, stream_id: str, is_new: bool) -> None:
        self._stream_id = stream_id
        output = self._output(0)
        output.open()  # so that a missing package or catalog is reported before anything is read
        output.discard()

    def write(self, batch: Batch) -> None:
        if batch.has_found:
            commit_batch(batch, self._output(batch.number))

    def close(self) -> None:
        """Does nothing: every transaction is complete by itself."""

    def _output(self, number: int) -> Output:
        # A table without transactions of a name is at 0, so the first batch has 1. A repeated batch has the same rows,
        # and perhaps in another order: the number decides.
        return open_table_output(self.text, (f"wayeb stream {self._stream_id}", number + 1), compares=False)
