"""A Delta table becomes event files, and detections become a version of a Delta table: `delta:PATH`, `delta:s3://…`.

The table's log says which Parquet files make up its newest version, and our own reader reads those, in process and in
tasks on Spark: a run sees one version, whatever is written meanwhile. Detections are one transaction. A run by itself
replaces the table's content; a run with a state appends, under the number of the run as the table's own transaction
identifier: a run that was killed after the append and repeated finds its number there and appends nothing twice.

*Not taken*: `deltalake`'s own scan, which decodes columns that no pattern asks for and knows no row to set aside.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from wayeb_py.errors import DataError
from wayeb_py.files.stores import Location, StorePath

if TYPE_CHECKING:
    from wayeb_py.files.discover import EventFile

_OURS = "Detections of wayeb"  # the description of tables that we made: no other is replaced
_DIGEST = "wayeb.digest"


def find_delta_files(place: Location) -> Iterator[EventFile]:
    """The files of the table's newest version, in the order in which they were written."""
    from wayeb_py.files.discover import EventFile  # which asks here for tables

    with _telling(place, "read"):
        table = _package().DeltaTable(_uri(place), storage_options=_options(place))
        _refuse_unread(table, place)
        actions = pa.table(table.get_add_actions(flatten=True))
        uris = table.file_uris()
    rows = [*zip(actions.to_pylist(), uris, strict=True)]
    for row, uri in sorted(rows, key=lambda one: (one[0]["modification_time"], one[1])):
        partitions = tuple(
            (name.removeprefix("partition."), None if value is None else str(value))
            for name, value in row.items()
            if name.startswith("partition.")
        )
        yield EventFile(uri, "parquet", None, partitions, int(row["size_bytes"]))


def _refuse_unread(table: Any, place: Location) -> None:
    features = set(table.protocol().reader_features or ())
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        raise DataError("the table's columns have other names in its files, which is not read", str(place))
    if "deletionVectors" in features and pa.RecordBatchReader.from_stream(table.deletion_vectors()).read_all().num_rows:
        raise DataError(
            "rows of this table are deleted and still in its files, which is not read", str(place),
            hint="rewrite the files: REORG TABLE … APPLY (PURGE)",
        )  # fmt: skip


class DeltaOutput:
    """Detections, held in a temporary file of this machine until they are one transaction of the table."""

    def __init__(self, place: Location, run: tuple[str, int] | None) -> None:
        """`run` is who appends, and the how-many-th time; None replaces what the table holds."""
        self._place, self._run = place, run
        self._held: IO[bytes] | None = None
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def open(self) -> None:
        _package()  # that it is missing is said before anything is read
        self._held = tempfile.TemporaryFile(prefix="wayeb-delta-")  # noqa: SIM115 (closed by commit or discard)

    def write(self, table: pa.Table) -> None:
        from wayeb_py.files.output.table_text import plain_table  # for start-up time

        plain = plain_table(table)
        schema = pa.schema([pa.field(field.name, _delta_type(field.type)) for field in plain.schema])
        try:
            cast = plain.cast(schema)
        except pa.ArrowInvalid as error:
            raise DataError(
                "a detection has a value that Delta cannot hold: times have microseconds, and numbers a sign",
                str(self._place), hint="write .parquet instead",
            ) from error  # fmt: skip
        if self._writer is None:
            assert self._held is not None
            self._writer = pa.ipc.new_stream(self._held, schema)
        self._writer.write_table(cast)

    def commit(self) -> None:
        """Makes everything that was written one transaction of the table."""
        assert self._held is not None
        assert self._writer is not None
        self._writer.close()
        digest = self._digest()
        package = _package()
        with _telling(self._place, "written"):
            exists = package.DeltaTable.is_deltatable(_uri(self._place), storage_options=_options(self._place))
            table = package.DeltaTable(_uri(self._place), storage_options=_options(self._place)) if exists else None
            if table is not None and self._is_there(table, digest):
                self.discard()
                return
            own = {} if self._run is None else {"app_transactions": [package.Transaction(*self._run)]}
            self._held.seek(0)
            package.write_deltalake(
                _uri(self._place) if table is None else table, pa.ipc.open_stream(self._held),
                mode="overwrite" if self._run is None else "append",
                schema_mode="overwrite" if self._run is None else "merge",
                description=_OURS, storage_options=_options(self._place),
                commit_properties=package.CommitProperties(custom_metadata={_DIGEST: digest}, **own),
            )  # fmt: skip
        self.discard()

    def _is_there(self, table: Any, digest: str) -> bool:
        """Whether this run has been written before; DataError where the table is not to be written."""
        if table.metadata().description != _OURS:
            raise DataError(
                "the output would replace or extend a table that holds no detections", str(self._place),
                hint="name another table",
            )  # fmt: skip
        if self._run is None or (table.transaction_version(self._run[0]) or 0) < self._run[1]:
            return False
        if not any(commit.get(_DIGEST) == digest for commit in table.history()):
            raise DataError(
                f"run {self._run[1]} of this state has been written to the table before, with other detections",
                str(self._place),
                hint="give it the same events again, or restore the table to the version before: RESTORE TABLE",
            )
        return True

    def _digest(self) -> str:
        assert self._held is not None
        self._held.seek(0)
        digest = hashlib.sha256()
        while piece := self._held.read(1 << 20):
            digest.update(piece)
        return digest.hexdigest()

    def discard(self) -> None:
        self._writer = None
        if self._held is not None:
            self._held.close()


def _delta_type(type_: pa.DataType) -> pa.DataType:
    """The type in which a table holds such values: times have microseconds, and there are no unsigned numbers."""
    if pt.is_timestamp(type_):
        return pa.timestamp("us", type_.tz)
    if pt.is_unsigned_integer(type_):
        return pa.int64()
    return type_


def _package() -> Any:
    try:
        import deltalake  # for start-up time, and since few have it
    except ImportError as error:
        raise DataError("Delta tables need the package deltalake", hint="pip install 'wayeb-py[delta]'") from error
    return deltalake


def _uri(place: Location) -> str:
    return str(place) if isinstance(place, StorePath) else str(place.absolute())


def _options(place: Location) -> dict[str, str] | None:
    """What the store's client of this package takes otherwise than its own tools do: leave for plain HTTP."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    if isinstance(place, StorePath) and place.scheme == "s3" and endpoint.startswith("http://"):
        return {"AWS_ALLOW_HTTP": "true", "AWS_ENDPOINT_URL": endpoint}
    return None


@contextmanager
def _telling(place: Location, what: str) -> Iterator[None]:
    package = _package()
    try:
        yield
    except package.exceptions.TableNotFoundError as error:
        raise DataError("there is no such Delta table", str(place)) from error
    except (package.exceptions.DeltaError, OSError, ValueError) as error:
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise DataError(f"the Delta table cannot be {what}: {first}", str(place)) from error
