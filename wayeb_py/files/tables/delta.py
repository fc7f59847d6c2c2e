"""Delta tables, `delta:PATH` or `delta:s3://…`: the package deltalake reads their log and writes their transactions.

The number of a run is the table's own transaction identifier (`txnAppId`, `txnVersion`), which Delta itself keeps.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from wayeb_py.errors import DataError
from wayeb_py.files.discover import EventFile
from wayeb_py.files.store_clients import HDFS
from wayeb_py.files.stores import Location, StorePath, located
from wayeb_py.files.tables import Growth
from wayeb_py.files.tables.held_output import DIGEST, OURS, HeldOutput


def find_delta_files(name: str) -> Iterator[EventFile]:
    """The files of the table's newest version, in the order in which they were written."""
    place = located(name)
    with _telling(place, "read"):
        table = _open(place)
        _refuse_unread(table, place)
        found = _files_of(table, place)
    yield from (file for file, _ in found)


def delta_identity(name: str) -> str:
    """The name that the table gives itself."""
    place = located(name)
    with _telling(place, "read"):
        return str(_open(place).metadata().id)


def find_delta_growth(name: str, since: int | None) -> Growth:
    """The files that the table's own log says were added since a version."""
    place = located(name)
    with _telling(place, "read"):
        if since is not None and (place / "_delta_log" / f"{since + 1:020}.json").exists():
            return _grown(place, since)
        table = _open(place)
        newest = int(table.version())
        if since is None:
            _refuse_unread(table, place)
            found = _files_of(table, place)
            return Growth(newest, tuple((file, _n_rows(file) if n is None else n) for file, n in found))
    if newest > since and (place / "_delta_log" / f"{since + 1:020}.json").exists():
        return find_delta_growth(name, since)  # it was written while we looked
    if newest != since:
        what = "was made anew" if newest < since else "no longer has the log of the versions between"
        raise DataError(
            f"the table is at version {newest}, was read up to version {since}, and {what}", str(place),
            hint="begin anew: --restart beginning, or --restart now",
        )  # fmt: skip
    return Growth(since)


def _grown(place: Location, since: int) -> Growth:
    """The files of the versions after `since`, as far as the log has them; a version is whole, or not there."""
    files: list[tuple[EventFile, int]] = []
    version = since
    while (log := place / "_delta_log" / f"{version + 1:020}.json").exists():
        version += 1
        for line in log.read_text(encoding="utf-8").splitlines():
            action = json.loads(line)
            removed, added = action.get("remove"), action.get("add")
            if removed is not None and removed.get("dataChange", True):
                raise DataError(
                    f"version {version} of the table takes rows away or changes them, and a stream only takes what is "
                    "added", str(place),
                    hint="let others append only; to go on from the newest version: --restart beginning, or "
                    "--restart now",
                )  # fmt: skip
            if added is None or not added.get("dataChange", True):
                continue
            if added.get("deletionVector"):
                raise _hidden_rows(place)
            partitions = tuple((name, value) for name, value in (added.get("partitionValues") or {}).items())
            file = EventFile(_located(place, added["path"]), "parquet", None, partitions, int(added["size"]))
            told = json.loads(added.get("stats") or "{}").get("numRecords")
            files.append((file, _n_rows(file) if told is None else int(told)))
    return Growth(version, tuple(files))


def _located(table: Location, path: str) -> str:
    """Where a file is that the log names: below the table, as a part of a URL, or by a URL of its own.

    *Not taken*: the URLs that deltalake makes of them, in which the table's own path is written as in a URL as well.
    """
    plain = unquote(path)
    folder = table if isinstance(table, StorePath) else table.absolute()
    return plain if "://" in plain else str(folder / plain)


def _n_rows(file: EventFile) -> int:
    """The rows of a file whose writer did not say how many there are."""
    from wayeb_py.files.formats.parquet import open_parquet  # for start-up time

    with open_parquet(file.path) as opened:
        return int(opened.metadata.num_rows)


def _open(place: Location) -> Any:
    return _package().DeltaTable(_uri(place), storage_options=_options(place))


def _files_of(table: Any, place: Location) -> list[tuple[EventFile, int | None]]:
    """The files of a version in the order in which they were written, with their rows as far as the log knows them."""
    actions = pa.table(table.get_add_actions(flatten=True))
    found = []
    for row in sorted(actions.to_pylist(), key=lambda one: (one["modification_time"], one["path"])):
        partitions = tuple(
            (name.removeprefix("partition."), None if value is None else str(value))
            for name, value in row.items()
            if name.startswith("partition.")
        )
        file = EventFile(_located(place, row["path"]), "parquet", None, partitions, int(row["size_bytes"]))
        found.append((file, row.get("num_records")))
    return found


def _refuse_unread(table: Any, place: Location) -> None:
    features = set(table.protocol().reader_features or ())
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        raise DataError("the table's columns have other names in its files, which is not read", str(place))
    if "deletionVectors" in features and pa.RecordBatchReader.from_stream(table.deletion_vectors()).read_all().num_rows:
        raise _hidden_rows(place)


def _hidden_rows(place: Location) -> DataError:
    return DataError(
        "rows of this table are deleted and still in its files, which is not read", str(place),
        hint="rewrite the files: REORG TABLE … APPLY (PURGE)",
    )  # fmt: skip


class DeltaOutput(HeldOutput):
    """Detections that become one transaction of a Delta table."""

    def open(self) -> None:
        _package()  # so that a missing package is reported before anything is read
        super().open()

    def transact(self, rows: pa.RecordBatchReader, digest: str | None) -> None:
        place, package = located(self.name), _package()
        with _telling(place, "written"):
            exists = package.DeltaTable.is_deltatable(_uri(place), storage_options=_options(place))
            table = package.DeltaTable(_uri(place), storage_options=_options(place)) if exists else None
            if table is not None and self._is_there(table, digest):
                return
            if table is not None and self.run is not None:
                self.refuse_types(pa.schema(table.schema().to_arrow()), rows.schema)
            own = {} if self.run is None else {"app_transactions": [package.Transaction(*self.run)]}
            package.write_deltalake(
                _uri(place) if table is None else table, rows,
                mode="overwrite" if self.run is None else "append",
                schema_mode="overwrite" if self.run is None else "merge",
                description=OURS, storage_options=_options(place),
                commit_properties=package.CommitProperties(custom_metadata={DIGEST: digest} if digest else None, **own),
            )  # fmt: skip

    def _is_there(self, table: Any, digest: str | None) -> bool:
        """Whether this run has been written before."""
        self.refuse_other(table.metadata().description)
        if self.run is None or (table.transaction_version(self.run[0]) or 0) < self.run[1]:
            return False
        self.refuse_changed(any(commit.get(DIGEST) == digest for commit in table.history()))
        return True


def _package() -> Any:
    try:
        import deltalake  # for start-up time, and since few have it
    except ImportError as error:
        raise DataError("Delta tables need the package deltalake", hint="pip install 'wayeb-py[delta]'") from error
    return deltalake


def _uri(place: Location) -> str:
    return str(place) if isinstance(place, StorePath) else str(place.absolute())


def _options(place: Location) -> dict[str, str] | None:
    """The settings that this package's client needs and the store's own tools do not: permission to use plain HTTP.

    A store that does not answer raises an error here: this package would say less, and try a name node for minutes.
    """
    if isinstance(place, StorePath):
        _refuse_web_hdfs(place)
        place.exists()
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    if isinstance(place, StorePath) and place.scheme == "s3" and endpoint.startswith("http://"):
        return {"AWS_ALLOW_HTTP": "true", "AWS_ENDPOINT_URL": endpoint}
    return None


def _refuse_web_hdfs(place: StorePath) -> None:
    """This package speaks HDFS's own protocol alone."""
    if place.scheme in HDFS and place.scheme != "hdfs":
        raise DataError(
            "Delta tables are not read or written by the HTTP interface of HDFS", str(place),
            hint="name the table by the name node's own port: delta:hdfs://HOST:8020/…",
        )  # fmt: skip


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
