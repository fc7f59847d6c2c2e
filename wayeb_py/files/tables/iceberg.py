"""Iceberg tables, `iceberg:CATALOG.NAMESPACE.TABLE`: the package pyiceberg knows catalogs and makes snapshots.

Catalogs and their credentials are configured as pyiceberg takes them, `~/.pyiceberg.yaml` or variables such as
`PYICEBERG_CATALOG__NAME__URI`. The number of a run is a property of the snapshot that it made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from wayeb_py.errors import DataError
from wayeb_py.files.discover import EventFile
from wayeb_py.files.tables.held_output import DIGEST, OURS, HeldOutput

_COMMENT, _RUN = "comment", "wayeb.run"

_CLIENTS = ("pyiceberg", "sqlalchemy", "requests", "botocore", "pyarrow")  # packages whose errors tell of a table

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
        if task.file.file_format.value.upper() != "PARQUET":
            raise DataError(f"a file of the table is {task.file.file_format.value}, and only Parquet is read", name)
        yield EventFile(_path(task.file.file_path), "parquet", None, (), int(task.file.file_size_in_bytes))


def _refuse_renamed(table: Any, name: str) -> None:
    """Raises DataError for renamed columns: Iceberg knows columns by number, and older files keep the old name."""
    called: dict[int, str] = {}
    for schema in table.schemas().values():
        for field in schema.fields:
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

    def transact(self, rows: pa.RecordBatchReader, digest: str) -> None:
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
            properties = {DIGEST: digest} | ({} if self.run is None else {_RUN: f"{self.run[0]} {self.run[1]}"})
            with table.transaction() as transaction:
                if table.schema().as_arrow().names != found.schema.names:
                    with transaction.update_schema() as update:
                        update.union_by_name(found.schema)
                is_new = table.current_snapshot() is None  # there is nothing to replace
                write = transaction.append if is_new or self.run is not None else transaction.overwrite
                write(found, snapshot_properties=properties)

    def _is_there(self, table: Any, digest: str) -> bool:
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
    """A file's path, or its address in a store, as our reader takes it."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else uri


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
