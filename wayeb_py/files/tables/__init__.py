"""Tables with transactions of their own become event files, and detections a version of such a table.

A text with the prefix of a kind names one: `delta:PATH`, `iceberg:CATALOG.TABLE`. The table's own log says which
Parquet files make up its newest version, and our own reader reads those, in process and in tasks on Spark. A run sees
one version, whatever is written meanwhile, and reads a column only where a pattern needs it.

*Not taken*: the Spark connectors of these formats: each fits one release of Spark, and handing its rows over would cost
more than recognising them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wayeb_py.files.discover import EventFile
    from wayeb_py.files.output.write import Output

PREFIXES = ("delta:", "iceberg:")


@dataclass(frozen=True, slots=True)
class Growth:
    """What a table has gained since a version: its files in the order in which they were written, with their rows."""

    version: int  # the version that this goes up to
    files: tuple[tuple[EventFile, int], ...] = ()


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


def table_identity(text: str) -> str:
    """What distinguishes a table from another of its name: the name that the table gives itself."""
    kind, _, name = text.partition(":")
    if kind == "delta":
        from wayeb_py.files.tables.delta import delta_identity  # for start-up time: few streams read tables

        return delta_identity(name)
    from wayeb_py.files.tables.iceberg import iceberg_identity  # for start-up time: few streams read tables

    return iceberg_identity(name)


def find_growth(text: str, since: int | None) -> Growth:
    """What a table has gained since a version; since None, all that its newest version has.

    Files that hold the same rows as others before them (`OPTIMIZE`, `rewrite_data_files`) add nothing. Raises DataError
    where rows were taken away or changed since then, or the table does not remember that version any more.
    """
    kind, _, name = text.partition(":")
    if kind == "delta":
        from wayeb_py.files.tables.delta import find_delta_growth  # for start-up time: few streams read tables

        return find_delta_growth(name, since)
    from wayeb_py.files.tables.iceberg import find_iceberg_growth  # for start-up time: few streams read tables

    return find_iceberg_growth(name, since)


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
