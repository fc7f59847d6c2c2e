"""A few rows are written, and named, as many are."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from wayeb_py.engine.rows import detection_id
from wayeb_py.engine.rows.detection_id import with_ids
from wayeb_py.files.output.table_text import FEW_ROWS, _many_objects, few_objects

N = FEW_ROWS
DICE = np.random.default_rng(9)
TICKS = DICE.integers(-(10**12), 10**13, N)
NUMBERS = np.where(DICE.random(N) < 0.5, DICE.normal(0, 100, N), 10.0 ** DICE.uniform(-12, 18, N))
COLUMNS = {
    "whole": pa.array(DICE.integers(-9, 9, N)),
    "number": pa.array(NUMBERS),
    "usual": pa.array(DICE.uniform(1, 100, N)),
    "round": pa.array([1.0, -20.0, 0.5, 999_999.0] * (N // 4)),
    "none": pa.array([None, float("nan"), float("inf"), -0.0] * (N // 4)),
    "short": pa.array(NUMBERS.astype(np.float32)),
    "text": pa.array(['"', None, "é\n", "a"] * (N // 4)),
    "word": pa.array(["b", None, "é", "a"] * (N // 4)).dictionary_encode(),
    "truth": pa.array([True, None, False, True] * (N // 4)),
    "decimal": pa.array([Decimal("1.50"), None] * (N // 2)),
    **{f"at {unit}": pa.array(TICKS // 10**3, pa.timestamp(unit, "UTC")) for unit in ("s", "ms", "us", "ns")},
    "at": pa.array([*(TICKS[:-1] * 1000).tolist(), None], pa.timestamp("us")),
    "whole s": pa.array(TICKS // 1000 * 1000, pa.timestamp("ms")),
    "early": pa.array([datetime(7, 1, 1, tzinfo=UTC)] * N, pa.timestamp("us", "UTC")),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_few_rows_are_written_as_many_are(name: str) -> None:
    table = pa.table({"a b": COLUMNS["whole"], name: COLUMNS[name]})
    assert few_objects(table) == _many_objects(table)


@pytest.mark.parametrize("key", ["whole", "text", "word", "truth", "number"])
@pytest.mark.parametrize("at", ["whole", "at us", "at"])
def test_a_few_rows_are_named_as_many_are(key: str, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table(
        {"pattern": COLUMNS["word"], "place": COLUMNS["text"], "entity": COLUMNS[key], "other": COLUMNS["text"],
         "ts": COLUMNS[at], "seq": COLUMNS["whole"], "v": COLUMNS["number"]}
    )  # fmt: skip
    few = with_ids(table)
    monkeypatch.setattr(detection_id, "FEW_ROWS", 0)
    assert few["detection_id"].to_pylist() == with_ids(table)["detection_id"].to_pylist()
