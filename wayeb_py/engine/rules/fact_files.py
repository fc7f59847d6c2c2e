"""Files of facts become tables: CSV, NDJSON or Parquet, their columns by name, each fact once."""

from __future__ import annotations

from difflib import get_close_matches

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wayeb_py.columns import kind_of
from wayeb_py.compiler.review.facts import path_of
from wayeb_py.dsl import meaning as m
from wayeb_py.engine.rules.column_types import plain_array
from wayeb_py.errors import DataError
from wayeb_py.files.stores import Location, is_outside, open_input

_KINDS = {"number": "numbers", "text": "texts", "bool": "truth values", "time": "times"}


def read_facts(facts: m.Facts, outside: bool) -> dict[str, pa.Array]:
    """The columns of a file of facts, under the names that rules use; it keeps the first of equal rows."""
    path = path_of(facts)
    if not (outside or facts.given) and is_outside(facts.source.name, path):
        raise DataError(
            "this file is outside the folder of the pattern file",
            str(path),
            hint="allow it with --outside (in Python: outside=True), or move the file",
        )
    texts = {file for file, column in zip(facts.file_columns, facts.columns, strict=True) if column.kind == "text"}
    table = _read(path, texts)
    arrays = []
    for column, file_column in zip(facts.columns, facts.file_columns, strict=True):
        if file_column not in table.column_names:
            near = get_close_matches(file_column, table.column_names, n=1)
            told = f"did you mean `{near[0]}`?" if near else f"its columns are {', '.join(table.column_names)}"
            raise DataError(
                f"the file of the facts `{facts.name}` has no column `{file_column}`",
                str(path),
                hint=f'{told} Say how the file calls them: `from "{facts.path}" columns ("…", …)`',
            )
        arrays.append(_of_kind(plain_array(table.column(file_column)), column, path))
    names = [column.name for column in facts.columns]
    return _each_once(pa.table(dict(zip(names, arrays, strict=True))))


def _read(path: Location, texts: set[str]) -> pa.Table:
    if not path.is_file():
        raise DataError("there is no such file", str(path))
    suffix = path.suffix.lower()
    try:
        if suffix == ".parquet":
            import pyarrow.parquet as pq

            with open_input(str(path)) as file:
                return pq.read_table(file)
        if suffix in (".ndjson", ".jsonl", ".json"):
            import pyarrow.json

            with open_input(str(path)) as file:
                return pyarrow.json.read_json(file)
        import pyarrow.csv

        types = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(texts, pa.string()), strings_can_be_null=True)
        parse = pyarrow.csv.ParseOptions(delimiter="\t" if suffix == ".tsv" else ",")
        with open_input(str(path)) as file:
            return pyarrow.csv.read_csv(file, convert_options=types, parse_options=parse)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"the facts cannot be read: {str(error).splitlines()[0]}", str(path)) from None


def _of_kind(array: pa.Array, column: m.Attribute, path: Location) -> pa.Array:
    """Converts the column to the kind that rules use; DataError where its values are of another kind."""
    kind = kind_of(array.type)
    if column.kind is None or kind == column.kind or pa.types.is_null(array.type):
        return array
    if column.kind == "text" and kind is not None:
        return array.cast(pa.string())
    raise DataError(
        f"the column `{column.name}` holds {_KINDS.get(kind or '', str(array.type))}, and rules use it as "
        f"{_KINDS[column.kind]}",
        str(path),
        hint="convert the column, or change the rule",
    )


def _each_once(table: pa.Table) -> dict[str, pa.Array]:
    names = table.column_names
    numbered = table.append_column("\x1frow", pa.array(np.arange(table.num_rows)))
    first = numbered.group_by(names, use_threads=False).aggregate([("\x1frow", "min")]).column("\x1frow_min")
    if len(first) < table.num_rows:
        order = first.combine_chunks()
        table = table.take(order.take(pc.sort_indices(order)))
    return {name: plain_array(table.column(name)) for name in names}
