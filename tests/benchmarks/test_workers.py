"""The parts of the experiments on Spark batch that need no session."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

import wayeb_py
from benchmarks.experiments.spark.cluster_costs import fleet_patterns, parts_of_line
from benchmarks.experiments.spark.workers import worker_counts
from benchmarks.harness.record import Figure, begin_record
from benchmarks.harness.written_detections import read_found
from benchmarks.inputs.pattern_sets import first_of, replicated, write_sre


@pytest.mark.parametrize(
    ("size", "n_cores", "counts"),
    [
        ("quick", 2, [1, 2]),
        ("usual", 2, [1, 2, 4]),
        ("usual", 12, [1, 2, 4, 8, 16]),
        ("full", 2, [1, 2, 4, 8, 16]),
    ],
)
def test_workers_go_up_to_the_cores_and_beyond(size: str, n_cores: int, counts: list[int]) -> None:
    assert worker_counts(size, n_cores) == counts


@pytest.mark.parametrize("n", [16, 48])
def test_replicated_patterns_are_six_and_distinct_ones_are_not(n: int) -> None:
    copies, distinct = replicated(n), first_of(n)
    assert len(copies) == len(distinct) == n
    assert len(wayeb_py.compile(write_sre(copies)).distinct) == 6
    assert len(wayeb_py.compile(write_sre(distinct)).distinct) == n


def test_the_first_patterns_are_one_of_each_kind() -> None:
    assert [name[:-1] for name in first_of(6)] == fleet_patterns_of("six.sre")
    assert len(fleet_patterns(16).names) == 16


def fleet_patterns_of(name: str) -> list[str]:
    return list(wayeb_py.compile(Path(__file__).parents[2] / "benchmarks" / "inputs" / name).names)


def test_a_line_through_two_points_has_no_part_below_nothing() -> None:
    assert parts_of_line({6: 10.0, 48: 52.0}) == (4.0, 1.0)
    assert parts_of_line({48: 5.0, 6: 9.0}) == (9.0, 0.0)
    assert parts_of_line({10: 1.0, 20: 11.0}) == (0.0, 1.0)
    assert parts_of_line({48: 5.0}) == (5.0, 0.0)


def test_detections_are_compared_whatever_their_order_and_text_type(tmp_path: Path) -> None:
    rows = [
        {"pattern": name, "entity": entity, "ts": 5, "seq": 2, "start_ts": 3, "start_seq": 1}
        for name, entity in (("B", 1), ("A", 2), ("A", 1))
    ]
    table = pa.Table.from_pylist(rows)
    times = {name: table[name].cast(pa.timestamp("ms", "UTC")) for name in ("ts", "start_ts")}
    for name, column in times.items():
        table = table.set_column(table.schema.get_field_index(name), name, column)
    pq.write_table(table, tmp_path / "one.parquet")
    (tmp_path / "many").mkdir()
    coded = table.set_column(0, "pattern", table["pattern"].dictionary_encode())
    for number in range(3):
        pq.write_table(coded.slice(2 - number, 1), tmp_path / "many" / f"part-{number}.parquet")
    one, many = read_found(tmp_path / "one.parquet"), read_found(tmp_path / "many")
    assert one.equals(many)
    assert one["pattern"].to_pylist() == ["A", "A", "B"]


def test_a_figure_says_where_workers_are_more_than_cores(tmp_path: Path) -> None:
    record = begin_record("workers", "Time against workers.", "usual", 1)
    record.rows = [{"workers": n, "seconds": 8.0 / n, "scheme": "source"} for n in (1, 2, 4)]
    record.figures = [Figure("Time", "workers", "seconds", "scheme", log="xy", mark=2, mark_name="two cores")]
    assert "two cores" in record.write(tmp_path).with_suffix(".svg").read_text()
