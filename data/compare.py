"""Whether two files hold the same detections, whatever their order; for `make demo`.

python data/compare.py out/fleet.parquet out/fleet_in_process.parquet
"""

from __future__ import annotations

import sys

import pyarrow as pa
import pyarrow.parquet as pq


def sorted_rows(path: str) -> pa.Table:
    """The rows of a file in an order that depends on them alone."""
    table = pq.read_table(path)
    return table.sort_by([(name, "ascending") for name in table.column_names])


def compare(first: str, second: str) -> str | None:
    """How the two differ, in a few words; None if they do not."""
    one, other = sorted_rows(first), sorted_rows(second)
    if one.schema != other.schema:
        return f"the columns differ: {one.schema} and {other.schema}"
    if one.num_rows != other.num_rows:
        return f"{one.num_rows:,} detections in {first}, {other.num_rows:,} in {second}"
    for row in range(one.num_rows) if not one.equals(other) else ():
        here, there = one.slice(row, 1).to_pylist(), other.slice(row, 1).to_pylist()
        if here != there:
            return f"row {row} by their own order is {here[0]} in {first}, {there[0]} in {second}"
    return None


if __name__ == "__main__":
    first, second = sys.argv[1:]
    difference = compare(first, second)
    if difference is not None:
        sys.exit(f"NOT EQUAL: {difference}")
    print(f"    equal, row by row: {pq.read_metadata(first).num_rows:,} detections in {first} and in {second}")
