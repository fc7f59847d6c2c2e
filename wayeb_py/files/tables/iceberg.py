"""Iceberg tables, `iceberg:CATALOG.NAMESPACE.TABLE`: the package pyiceberg knows catalogs and makes snapshots.

Catalogs and their credentials are configured as pyiceberg takes them, `~/.pyiceberg.yaml` or variables such as
`PYICEBERG_CATALOG__NAME__URI`. The number of a run is a property of the snapshot that it made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from wayeb_py.errors import DataError
from wayeb_py.files.discover import EventFile
from wayeb_py.files.tables import Growth
from wayeb_py.files.tables.held_output import DIGEST, OURS, HeldOutput

_COMMENT, _RUN = "comment", "wayeb.run"

_CLIENTS = ("pyiceberg", "sqlalchemy", "requests", "botocore", "pyarrow")  # packages whose errors are about a table

def find_iceberg_files(name: str) -> Iterator[EventFile]:
    """The files of the table's newest snapshot, in the order in which they were written."""
    with _telling(name, "read"):
        table = _load(name)
        _refuse_renamed(table, name)
        tasks = list(table.scan().plan_files())
        entries = table.inspect.entries().to_pylist() if tasks else []
    written = {entry["data_file"]["file_path"]: entry["sequence_number"] for entry in entries}
    for task in sorted(tasks, key=lambda task: (written.get(task.file.file_path, 0), task.file.file_path)):
        if task.delete_files:
            raise DataError(
                "rows of this table are deleted and still in its files, which is not read", name,
                hint="rewrite the files: CALL catalog.system.rewrite_data_files(…)",
            )  # fmt: skip
        yield _event_file(task.file, name)


def _event_file(file: Any, name: str) -> EventFile:
    if file.file_format.value.upper() != "PARQUET":
        raise DataError(f"a file of the table is {file.file_format.value}, and only Parquet is read", name)
    return EventFile(_path(file.file_path), "parquet", None, (), int(file.file_size_in_bytes))


def iceberg_identity(name: str) -> str:
    """The name that the table gives itself."""
    with _telling(name, "read"):
        return str(_load(name).metadata.table_uuid)


def find_iceberg_growth(name: str, since: int | None) -> Growth:
    """The files that snapshots have added since snapshot number `since`; a table without any is at 0."""
    with _telling(name, "read"):
        table = _load(name)
        snapshot = table.current_snapshot()
        newest = 0 if snapshot is None else int(snapshot.snapshot_id)
        if since == newest:
            return Growth(newest)
        _refuse_renamed(table, name)
        if since is None:
            rows = {_path(task.file.file_path): int(task.file.record_count) for task in table.scan().plan_files()}
            return Growth(newest, tuple((file, rows[file.path]) for file in find_iceberg_files(name)))
        later = []
        while snapshot is not None and snapshot.snapshot_id != since:
            later.append(snapshot)
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else table.snapshot_by_id(parent)
        if snapshot is None and since:
            raise DataError(
                "the table no longer has the snapshot up to which it was read: it was expired, or the table was made "
                "anew or rolled back", name, hint="begin anew: --restart beginning, or --restart now",
            )  # fmt: skip
        files = [file for snapshot in reversed(later) for file in _added(table, snapshot, name)]
    return Growth(newest, tuple((_event_file(file, name), int(file.record_count)) for file in files))


def _added(table: Any, snapshot: Any, name: str) -> list[Any]:
    """The data files that a snapshot has added; one that only replaces files by others with the same rows adds none."""
    operation = snapshot.summary.operation.value
    if operation == "replace":
        return []
    if operation != "append":
        raise DataError(
            f"the snapshot {snapshot.snapshot_id} takes rows away or changes them ({operation}), and a stream only "
            "takes what is added", name,
            hint="let others append only; to go on from the newest snapshot: --restart beginning, or --restart now",
        )  # fmt: skip
    entries = [
        entry
        for manifest in snapshot.manifests(table.io)
        if manifest.added_snapshot_id == snapshot.snapshot_id
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        if entry.snapshot_id == snapshot.snapshot_id
    ]
    return sorted((entry.data_file for entry in entries), key=lambda file: file.file_path)


def _refuse_renamed(table: Any, name: str) -> None:
    """Raises DataError where a name means another column in older files: Iceberg knows columns by number, and files
    keep the names that columns had."""
    called: dict[int, str] = {}
    numbers: dict[str, int] = {}
    for schema in table.schemas().values():
        for field in schema.fields:
            if numbers.setdefault(field.name, field.field_id) != field.field_id:
                raise DataError(
                    f"the column `{field.name}` was dropped and another of its name added, and older files still have "
                    "the first", name,
                    hint="rewrite the table's files",
                )  # fmt: skip
            if called.setdefault(field.field_id, field.name) != field.name:
                raise DataError(
                    f"the column `{called[field.field_id]}` has been renamed, and older files call it so still", name,
                    hint="rewrite the table's files",
                )  # fmt: skip


class IcebergOutput(HeldOutput):
    """Detections that become one snapshot of an Iceberg table."""

    def open(self) -> None:
        with _telling(self.name, "reached"):
            _catalog(self.name)  # so that a wrong catalog is reported before anything is read
        super().open()

    def transact(self, rows: pa.RecordBatchReader, digest: str | None) -> None:
        found = rows.read_all()
        with _telling(self.name, "written"):
            catalog, identifier = _catalog(self.name)
            if catalog.table_exists(identifier):
                table = catalog.load_table(identifier)
                self.refuse_other(table.properties.get(_COMMENT))
                if self._is_there(table, digest):
                    return
            else:
                catalog.create_namespace_if_not_exists(identifier.rpartition(".")[0])
                table = catalog.create_table(identifier, schema=found.schema, properties={_COMMENT: OURS})
            if self.run is not None:
                self.refuse_types(table.schema().as_arrow(), found.schema)
            properties = {} if self.run is None else {_RUN: f"{self.run[0]} {self.run[1]}"}
            properties |= {DIGEST: digest} if digest else {}
            with table.transaction() as transaction:
                if table.schema().as_arrow().names != found.schema.names:
                    with transaction.update_schema() as update:
                        update.union_by_name(found.schema)
                is_new = table.current_snapshot() is None  # there is nothing to replace
                write = transaction.append if is_new or self.run is not None else transaction.overwrite
                write(found, snapshot_properties=properties)

    def _is_there(self, table: Any, digest: str | None) -> bool:
        if self.run is None:
            return False
        told = [snapshot.summary.additional_properties for snapshot in table.snapshots() if snapshot.summary]
        own = [one for one in told if one.get(_RUN) == f"{self.run[0]} {self.run[1]}"]
        if not own:
            return False
        self.refuse_changed(any(one.get(DIGEST) == digest for one in own))
        return True


def _load(name: str) -> Any:
    catalog, identifier = _catalog(name)
    return catalog.load_table(identifier)


def _catalog(name: str) -> tuple[Any, str]:
    """The catalog, and what the table is called in it."""
    called, _, identifier = name.partition(".")
    if not called or "." not in identifier:
        raise DataError(f"`{name}` does not say which table: write iceberg:CATALOG.NAMESPACE.TABLE")
    try:
        from pyiceberg.catalog import load_catalog  # for start-up time, and since few have it
    except ImportError as error:
        raise DataError("Iceberg tables need the package pyiceberg", hint="pip install 'wayeb-py[iceberg]'") from error
    return load_catalog(called), identifier


def _path(uri: str) -> str:
    """A file's path, or its address in a store, as our reader takes it; Iceberg escapes nothing in it."""
    return uri.removeprefix("file://") if uri.startswith("file://") else uri.removeprefix("file:")


@contextmanager
def _telling(name: str, what: str) -> Iterator[None]:
    try:
        yield
    except (DataError, ImportError):
        raise
    except Exception as error:
        # pyiceberg's errors share no class, and those of its catalogs' clients pass through it; others are not the
        # table's fault.
        if not isinstance(error, OSError | ValueError) and type(error).__module__.partition(".")[0] not in _CLIENTS:
            raise
        first = next(iter(str(error).splitlines()), type(error).__name__)
        hint = "catalogs are configured in ~/.pyiceberg.yaml, or by PYICEBERG_CATALOG__NAME__URI and the like"
        raise DataError(f"the Iceberg table cannot be {what}: {first}", name, hint=hint) from error
