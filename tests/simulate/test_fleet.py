"""The fleet: its generator, and the engine on many patterns at once against formulas that know nothing of automata."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wayeb_py
from benchmarks.experiments.many_patterns import RowOf, detected_rows
from benchmarks.inputs.fleet_events import SIX_PATTERNS, as_numpy
from benchmarks.inputs.pattern_sets import PatternPart, forty_eight, thousand, write_sre
from benchmarks.references.boundary_sets import EntityRows
from benchmarks.references.fleet_in_polars import FORMULATIONS, in_one_order
from data.fleet import generate_fleet, read_injected, write_fleet

pytestmark = pytest.mark.xdist_group("fleet")  # whose events are generated once
ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "data/fleet_sample.parquet"


@cache
def events(n: int) -> pa.Table:
    return pa.Table.from_batches([piece.events for piece in generate_fleet(n, max(20, n // 500), seed=5)])


def test_the_generator_gives_as_many_events_as_asked_in_order_of_time() -> None:
    table = events(12_345)
    assert len(table) == 12_345
    assert bool(np.all(np.diff(table["ts"].cast(pa.int64()).to_numpy()) >= 0))


def test_the_generator_gives_the_same_events_however_it_cuts_them() -> None:
    batches = [piece.events for piece in generate_fleet(12_345, 24, seed=5, batch_rows=500)]
    assert len(batches) > 2
    assert pa.Table.from_batches(batches) == events(12_345)


def test_a_file_says_how_many_faults_it_holds(tmp_path: Path) -> None:
    injected = write_fleet(tmp_path / "fleet.parquet", 20_000)
    assert read_injected(tmp_path / "fleet.parquet") == injected
    assert min(injected.values()) > 0


def test_every_injected_fault_of_the_sample_is_detected() -> None:
    patterns = wayeb_py.compile(ROOT / "patterns/fleet.sre")
    found = patterns.recognise(pq.read_table(SAMPLE)).to_arrow()
    counts: dict[str, int] = {}
    for name in found["pattern"].to_pylist():
        counts[name] = counts.get(name, 0) + 1
    injected = {name: n for name, n in read_injected(SAMPLE).items() if name in patterns.names}
    assert len(injected) >= 6
    assert {fault: counts.get(fault, 0) for fault, n in injected.items() if counts.get(fault, 0) < n} == {}


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_the_six_patterns_are_detected_where_polars_finds_them(formulation: str) -> None:
    table = events(40_000)
    found = pl.from_arrow(wayeb_py.compile(SIX_PATTERNS).recognise(table).to_arrow())
    assert isinstance(found, pl.DataFrame)
    found = found.with_columns(pl.col("pattern").cast(pl.String), pl.col("seq", "start_seq").cast(pl.Int64))
    expected = FORMULATIONS[formulation](pl.LazyFrame(pl.from_arrow(table)))
    assert len(set(expected["pattern"])) == 6
    assert in_one_order(found).equals(in_one_order(expected))


SETS = {
    "eight variants of each of the six": forty_eight(),
    "every seventh of the thousand": dict(list(thousand().items())[::7]),
}


@pytest.mark.parametrize("parts", SETS.values(), ids=SETS.keys())
def test_many_patterns_at_once_are_detected_where_their_formulas_say(parts: dict[str, PatternPart]) -> None:
    table = events(40_000)
    vehicles, entity = np.unique(table["vehicle_id"].to_numpy(), return_inverse=True)
    words, row_of = EntityRows(entity, as_numpy(table)), RowOf(entity)
    dense = table.set_column(0, "vehicle_id", pa.array(entity.astype(np.int32)))
    found = detected_rows(wayeb_py.compile(write_sre(parts)).recognise(dense).to_arrow(), row_of)
    expected = {name: words.detect(part.formula).tolist() for name, part in parts.items()}
    assert {name: rows.tolist() for name, rows in found.items()} == {
        name: rows for name, rows in expected.items() if rows
    }
    assert len(vehicles) == entity.max() + 1


def test_patterns_recognised_together_start_where_each_alone_does() -> None:
    """Joining automata renumbers the registers that hold starts, which only patterns of varying length have.

    Variants of one such pattern mostly start at the same event and would not tell their registers apart, so the
    patterns are of several kinds.
    """
    table = events(40_000)
    together = wayeb_py.compile(write_sre(dict(list(thousand().items())[667::9])))
    columns = ["pattern", "entity", "seq", "start_seq", "start_ts"]

    def rows(patterns: wayeb_py.Patterns) -> list[tuple[object, ...]]:
        found = patterns.recognise(table).to_arrow().select(columns)
        return sorted(tuple(row.values()) for row in found.to_pylist())

    alone = sorted(row for name in together.names for row in rows(together.select([name])))
    assert len({row[0] for row in alone}) > 20
    assert rows(together) == alone
