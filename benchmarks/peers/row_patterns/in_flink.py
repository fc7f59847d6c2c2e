"""Row patterns in Flink's SQL, case by case, in PyFlink's environment: the other side of `cases`.

A case's events are the rows of a table `events`, whose column `rt` is their time in the form that MATCH_RECOGNIZE asks
for.
"""

from __future__ import annotations

import sys
from pathlib import Path

TYPES = {"integer": "BIGINT", "number": "DOUBLE", "text": "STRING"}


def table(place: Path) -> str:
    """The statement that makes the table of a case."""
    columns = (line.split() for line in (place / "columns").read_text().splitlines())
    typed = ", ".join(f"{name} {TYPES[kind]}" for name, kind in columns)
    return f"""CREATE TABLE events ({typed}, rt AS TO_TIMESTAMP_LTZ(ts, 3), WATERMARK FOR rt AS rt)
        WITH ('connector' = 'filesystem', 'path' = '{place / "events"}', 'format' = 'csv', 'csv.null-literal' = '')"""


def main() -> None:
    from pyflink.table import EnvironmentSettings, TableEnvironment

    for place in sorted(Path(sys.argv[1]).iterdir()):
        tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
        tables.get_config().set("parallelism.default", "1")
        try:
            tables.execute_sql(table(place))
            result = tables.execute_sql((place / "query").read_text())
            names = result.get_table_schema().get_field_names()
            with result.collect() as rows:
                found = [",".join("" if cell is None else str(cell) for cell in row) for row in rows]
            (place / "found").write_text("\n".join([",".join(names), *found]) + "\n")
        except Exception as fault:
            (place / "fault").write_text(str(fault))


if __name__ == "__main__":
    main()
