"""Detections, held until all of them are there, become one transaction of a table, and never two.

A run by itself replaces the table's content, as it replaces a file. A run with a state appends, under its number: a run
that was killed after the transaction and is repeated finds its number in the table and appends nothing. The table keeps
a digest of the rows with that number, so that a repeated run that finds other detections raises an error.
"""

from __future__ import annotations

import hashlib
import tempfile
from abc import ABC, abstractmethod
from typing import IO

import pyarrow as pa
import pyarrow.types as pt

from wayeb_py.errors import DataError
from wayeb_py.files.formats.arrow_types import describe, is_text
from wayeb_py.files.output.table_text import plain_table, render_objects

OURS = "Detections of wayeb"  # marks the tables that we made: we write to no other
DIGEST = "wayeb.digest"


class HeldOutput(ABC):
    """Keeps what is written in an unnamed temporary file; a subclass for each kind of table makes the transaction."""

    def __init__(self, name: str, run: tuple[str, int] | None, compares: bool = True) -> None:
        self.name, self.run, self._compares = name, run, compares
        self._held: IO[bytes] | None = None
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    @abstractmethod
    def transact(self, rows: pa.RecordBatchReader, digest: str | None) -> None:
        """Makes the rows a version of the table, unless this run is in it; the table keeps the digest of the rows."""

    def open(self) -> None:
        self._held = tempfile.TemporaryFile(prefix="wayeb-table-")  # noqa: SIM115 (closed by commit or discard)

    def write(self, table: pa.Table) -> None:
        plain = plain_table(table)
        schema = pa.schema([pa.field(field.name, _held_type(field.type)) for field in plain.schema])
        try:
            cast = plain.cast(schema)
        except pa.ArrowInvalid as error:
            raise DataError(
                "a detection has a value that the table cannot hold: times have microseconds, and numbers a sign",
                self.name, hint="write .parquet instead",
            ) from error  # fmt: skip
        if self._writer is None:
            assert self._held is not None
            self._writer = pa.ipc.new_stream(self._held, schema)
        self._writer.write_table(cast)

    def commit(self) -> None:
        """Makes everything that was written one transaction."""
        assert self._held is not None
        assert self._writer is not None
        self._writer.close()
        self._held.seek(0)
        digest = _digest(pa.ipc.open_stream(self._held)) if self.run is not None and self._compares else None
        self._held.seek(0)
        self.transact(pa.ipc.open_stream(self._held), digest)
        self.discard()

    def discard(self) -> None:
        """Leaves nothing behind; after `commit` there is nothing to discard."""
        self._writer = None
        if self._held is not None:
            self._held.close()

    def refuse_other(self, says: str | None) -> None:
        """Raises DataError for a table that we did not make."""
        if says != OURS:
            raise DataError(
                "the output would replace or extend a table that holds no detections", self.name,
                hint="name another table",
            )  # fmt: skip

    def refuse_types(self, held: pa.Schema, given: pa.Schema) -> None:
        """Raises DataError where rows that are appended have a column of another type than the table: a package that
        casts it makes other values of it, microseconds of seconds."""
        for field in given:
            if field.name in held.names and not _fits(field.type, held.field(field.name).type):
                raise DataError(
                    f"the column `{field.name}` of the table is {describe(held.field(field.name).type)}, and these "
                    f"detections have {describe(field.type)}", self.name,
                    hint="name another table, or give the events the types that they had",
                )  # fmt: skip

    def refuse_changed(self, is_known: bool) -> None:
        """Raises DataError where this run is in the table with other detections."""
        assert self.run is not None
        if self._compares and not is_known:
            raise DataError(
                f"run {self.run[1]} of this state has been written to the table before, with other detections",
                self.name,
                hint="give it the same events again, or take the table back to the version before",
            )


def _digest(rows: pa.RecordBatchReader) -> str:
    """A digest of the rows, whatever their order and however they are cut: files may be joined before a night is
    repeated."""
    total = 0
    for batch in rows:
        for row in render_objects(pa.Table.from_batches([batch])):
            total += int.from_bytes(hashlib.sha256(row).digest(), "big")
    return f"{total % (1 << 256):064x}"


def _fits(given: pa.DataType, held: pa.DataType) -> bool:
    """Whether a column of the table holds every value of a type as it is."""
    if pt.is_null(given) or (is_text(given) and is_text(held)):
        return True
    if pt.is_timestamp(given) and pt.is_timestamp(held):
        return (given.tz is None) == (held.tz is None)
    for is_kind in (pt.is_signed_integer, pt.is_floating):
        if is_kind(given) and is_kind(held):
            return bool(given.bit_width <= held.bit_width)
    return bool(given == held)


def _held_type(type_: pa.DataType) -> pa.DataType:
    """The type in which tables hold values of a type: times have microseconds, and there are no unsigned numbers."""
    if pt.is_timestamp(type_):
        return pa.timestamp("us", type_.tz)
    if pt.is_unsigned_integer(type_):
        return pa.int64()
    return type_
