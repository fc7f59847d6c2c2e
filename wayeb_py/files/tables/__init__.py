"""Tables with transactions of their own become event files, and detections a version of such a table.

A text with the prefix of a kind names one: `delta:PATH`, `iceberg:CATALOG.TABLE`. The table's own log says which
Parquet files make up its newest version, and our own reader reads those, in process and in tasks on Spark: a run sees
one version, whatever is written meanwhile, and each column only where a pattern asks for it.

*Not taken*: the Spark connectors of these formats: each fits one release of Spark, and handing its rows over would cost
more than recognising them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wayeb_py.files.discover import EventFile
    from wayeb_py.files.output.write import Output

PREFIXES = ("delta:", "iceberg:")


def is_table(text: str) -> bool:
    """Whether a text names a table."""
    return text.startswith(PREFIXES)


def find_table_files(text: str) -> Iterator[EventFile]:
    """The files of a table's newest version, in the order in which they were written."""
    kind, _, name = text.partition(":")
    if kind == "delta":
        from wayeb_py.files.tables.delta import find_delta_files  # for start-up time: most runs read no table

        return find_delta_files(name)
    from wayeb_py.files.tables.iceberg import find_iceberg_files  # for start-up time: most runs read no table

    return find_iceberg_files(name)


def open_table_output(text: str, run: tuple[str, int] | None, *, compares: bool = True) -> Output:
    """An output that becomes one transaction of a table.

    `run` is the name and the number of a run that appends; without it the output replaces what the table held.
    `compares`: raises DataError where a run of that number is in the table with other detections.
    """
    kind, _, name = text.partition(":")
    if kind == "delta":
        from wayeb_py.files.tables.delta import DeltaOutput  # for start-up time: few runs write tables

        return DeltaOutput(name, run, compares)
    from wayeb_py.files.tables.iceberg import IcebergOutput  # for start-up time: few runs write tables

    return IcebergOutput(name, run, compares)
