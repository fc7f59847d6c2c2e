"""An Arrow file or stream becomes blocks of events, one a record batch.

Files on a disk are mapped into memory, so that unwanted columns are never touched; from a store only the parts of a
file that hold wanted columns are requested; streams are read one batch after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.ipc

from wayeb_py.files.discover import EventFile
from wayeb_py.files.formats.arrow_types import served_type
from wayeb_py.files.formats.block import Block, Selection, arrange, select_rows
from wayeb_py.files.formats.parquet import two_columns
from wayeb_py.files.formats.unreadable import reading, require_sound
from wayeb_py.files.projection import Wanted
from wayeb_py.files.stores import is_address, open_input


class ArrowEvents:
    """An opened Arrow file: its schema is read, its rows are not."""

    loose = False

    def __init__(self, file: EventFile, wanted: Wanted) -> None:
        self.file = file
        with reading(file):
            with open_input(file.path) as head:
                self.is_stream = not head.read(6).startswith(b"ARROW1")
            with open_input(file.path) as source:
                opened = pa.ipc.open_stream(source) if self.is_stream else pa.ipc.open_file(source)
                schema: pa.Schema = opened.schema
            self.columns: tuple[str, ...] = tuple(schema.names)
        self.read = [name for name in wanted.names if name in schema.names]
        for name in self.read:
            if schema.names.count(name) > 1:
                raise two_columns(name, file)
        self.fields = sorted(schema.names.index(name) for name in self.read)
        self.types: dict[str, pa.DataType] = {
            column.name: served_type(column, schema.field(column.name).type, wanted.time_unit, file.path)
            for column in wanted.columns
            if column.name in self.read
        }
        self.n_rows: int | None = None

    def calls(self, selection: Selection, constants: dict[str, pa.Scalar]) -> Iterator[Callable[[], Block]]:
        """One call a record batch."""
        options = pa.ipc.IpcReadOptions(included_fields=self.fields, use_threads=False)
        with reading(self.file), _mapped(self.file.path) as source:
            if self.is_stream:
                batches: Iterator[pa.RecordBatch] = iter(pa.ipc.open_stream(source, options=options))
            else:
                opened = pa.ipc.open_file(source, options=options)
                batches = (opened.get_batch(index) for index in range(opened.num_record_batches))
            first_row = 1
            read_bytes = 0
            for batch in batches:
                position = min(source.tell(), self.file.n_bytes)
                n_bytes, read_bytes = max(0, position - read_bytes), max(position, read_bytes)
                yield self._conforming(batch, first_row, n_bytes, selection, constants)
                first_row += batch.num_rows

    def _conforming(
        self,
        batch: pa.RecordBatch,
        first_row: int,
        n_bytes: int,
        selection: Selection,
        constants: dict[str, pa.Scalar],
    ) -> Callable[[], Block]:
        def conform_batch() -> Block:
            block = Block(n_bytes=n_bytes)
            with reading(self.file):
                require_sound(batch.columns)
                select_rows(arrange(batch, selection, constants), selection, self.file.path, first_row, block)
            return block

        return conform_batch


def _mapped(path: str) -> pa.NativeFile:
    return open_input(path) if is_address(path) else pa.memory_map(path)
