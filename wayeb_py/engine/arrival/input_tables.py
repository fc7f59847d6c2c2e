"""A caller's data become an Arrow table: pyarrow, pandas, Polars, columns in a dict, rows in a list.

Only the needed columns of a pandas frame are converted, so that a column of mixed values that no pattern reads does
no harm. Data that cannot be a table are refused with a remedy; an error of Arrow's would name types that are not the
caller's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from wayeb_py.errors import EventsError


def as_table(events: Any, needed: Collection[str] | None = None) -> pa.Table:
    """The events as a table; where they must be converted, only the `needed` columns of them, if given."""
    if isinstance(events, pa.Table):
        return events
    if isinstance(events, pa.RecordBatch):
        return pa.Table.from_batches([events])
    home = type(events).__module__.partition(".")[0]
    if home == "polars" and type(events).__name__ == "LazyFrame":
        events = events.collect()
    if home == "pandas" and hasattr(events, "columns"):
        return _from_pandas(events, needed)
    if home == "pyspark":
        raise EventsError(
            "these events are a data frame of Spark's",
            hint="call `wayeb_py.parallel.recognise(df, patterns)`, which leaves them where they are",
        )
    if isinstance(events, str | os.PathLike):
        raise EventsError(
            f"`{os.fspath(events)}` is a path, and a table is expected",
            hint='read it first, as in `pyarrow.parquet.read_table("events.parquet")`, or use `wayeb run`',
        )
    if isinstance(events, list) and all(isinstance(row, dict) for row in events):
        return _converted(lambda: pa.Table.from_pylist(events), events)
    return _converted(lambda: pa.table(events), events)


def as_batches(events: Any) -> list[pa.RecordBatch]:
    """The events as batches, at least one: an empty one still says which columns there are."""
    if isinstance(events, pa.RecordBatch):
        return [events]
    if not isinstance(events, pa.Table):
        if hasattr(events, "__arrow_c_array__") and not hasattr(events, "__arrow_c_stream__"):
            return [pa.record_batch(events)]
        events = as_table(events)
    batches: list[pa.RecordBatch] = events.to_batches()
    return batches or [pa.RecordBatch.from_pylist([], schema=events.schema)]


def batch_of_rows(rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Rows, at least one of them, as one batch."""
    return as_table(list(rows)).combine_chunks().to_batches()[0]


def _converted(convert: Callable[[], pa.Table], events: Any) -> pa.Table:
    try:
        return convert()
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise EventsError(
            f"the events cannot become a table: {str(error).splitlines()[0]}",
            hint="each column needs values of one kind",
        ) from error
    except TypeError:
        raise EventsError(
            f"events of type `{type(events).__name__}` are no table",
            hint="give a table of pyarrow, pandas or Polars, a dict of columns, or a list of rows",
        ) from None


def _from_pandas(frame: Any, needed: Collection[str] | None) -> pa.Table:
    others = [] if needed is None else [column for column in frame.columns if column not in needed]
    try:
        table = pa.Table.from_pandas(frame.drop(columns=others))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        name = next((name for name, column in frame.items() if not _converts(column)), None)
        if name is None:
            raise EventsError(f"the events cannot become a table: {str(error).splitlines()[0]}") from error
        kinds = sorted({type(value).__name__ for value in frame[name].dropna()})
        raise EventsError(
            f"the column `{name}` holds values of different kinds: {', '.join(kinds)}",
            hint=f'make them alike first: `df["{name}"] = pandas.to_numeric(df["{name}"], errors="coerce")` for '
            f'numbers, `df["{name}"] = df["{name}"].astype("string")` for text',
        ) from error
    if needed is not None and set(needed) - set(table.column_names):
        for name in others:  # empty, so that the message can list the columns that there are
            table = table.append_column(str(name), pa.nulls(len(table)))
    return table


def _converts(column: Any) -> bool:
    try:
        pa.array(column, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return False
    return True
