"""Sorting on disk gives what sorting in memory gives, whatever the sizes of runs and blocks."""

from __future__ import annotations

import errno
import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from wayeb_py.errors import DataError, PassingError
from wayeb_py.files import sort
from wayeb_py.files.sort import sort_events

TEXT = pa.dictionary(pa.int32(), pa.string())


def make_batches(seed: int, n_times: int, schema: pa.Schema) -> list[pa.RecordBatch]:
    chance = random.Random(seed)
    batches = []
    arrival = 0
    for _ in range(chance.randint(1, 12)):
        n_rows = chance.randint(0, 40)
        columns: dict[str, list[Any]] = {
            "id": [chance.choice(["a", "b", "c", None, f"x{chance.randint(0, 99)}"]) for _ in range(n_rows)],
            "ts": [chance.randint(0, n_times) for _ in range(n_rows)],
            "n": [chance.choice([None, 1, 2, 3]) for _ in range(n_rows)],
            "name": [chance.choice([None, "", "x", "y"]) for _ in range(n_rows)],
            "arrival": list(range(arrival, arrival + n_rows)),
        }
        arrival += n_rows
        arrays = [pa.array(columns[field.name], field.type) for field in schema]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return batches


SCHEMA = pa.schema(
    [("id", TEXT), ("ts", pa.timestamp("ms")), ("n", pa.int32()), ("name", pa.string()), ("arrival", pa.int64())]
)


def rows_of(batches: Iterator[pa.RecordBatch] | list[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def missing_first(value: Any) -> tuple[bool, Any]:
    return (False, 0) if value is None else (True, value)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("n_times", [0, 3, 1000])
@pytest.mark.parametrize("order", [None, "n", "name"])
def test_events_come_by_time_then_order_then_arrival(seed: int, n_times: int, order: str | None) -> None:
    batches = make_batches(seed, n_times, SCHEMA)

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        tie = () if order is None else missing_first(row[order])
        return (row["ts"], tie, row["arrival"])

    result = list(sort_events(batches, SCHEMA, "ts", order, run_bytes=1 + seed * 200, spilled_rows=1 + seed % 5))
    assert rows_of(result) == sorted(rows_of(batches), key=key)
    assert {batch.schema for batch in result} <= {SCHEMA}


def test_too_many_distinct_texts_go_on_as_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort, "LARGEST_DICTIONARY", 2)
    batches = make_batches(1, 1000, SCHEMA)
    result = list(sort_events(batches, SCHEMA, "ts", run_bytes=1))
    assert {batch.schema.field("id").type for batch in result} == {pa.string()}
    assert rows_of(result) == sorted(rows_of(batches), key=lambda row: (row["ts"], row["arrival"]))


def test_all_batches_share_one_dictionary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort, "MERGED_ROWS", 10)
    result = list(sort_events(make_batches(5, 1000, SCHEMA), SCHEMA, "ts", run_bytes=1000, spilled_rows=4))
    assert len(result) > 2
    first = result[0].column("id").dictionary
    assert all(batch.column("id").dictionary.equals(first) for batch in result)


def test_nothing_is_left_on_disk_even_if_the_rest_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sort, "MERGED_ROWS", 10)
    events = sort_events(make_batches(5, 1000, SCHEMA), SCHEMA, "ts", run_bytes=1000, spilled_rows=4)
    next(events)
    assert list(tmp_path.iterdir()) != []
    events.close()  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_cannot_be_written_is_told_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(DataError, match="sorting failed: No such file or directory"):
        list(sort_events(make_batches(5, 1000, SCHEMA), SCHEMA, "ts"))


def test_a_disk_without_room_to_sort_may_do_better_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(sort, "_spill", fail)
    with pytest.raises(PassingError, match="sorting failed: No space left on device") as raised:
        list(sort_events([], SCHEMA, "ts"))
    assert raised.value.hint is not None
