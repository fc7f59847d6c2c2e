"""Nights that bring events of the night before once more: pairs and silences count each once, as entities do.

`make soak` tries further seeds.
"""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests.strategies import seeds
from wayeb_py.run.runner import run

STREAM = "stream vessels {{ key id  time t in s  position lon, lat {lines} }}\n"
PAIRS = """
pattern Two  for each pair a, b in vessels within 1 km fresh 1 min := any{2}
pattern Rose for each ordered pair a, b in vessels within 1 km fresh 1 min := (a.x > b.x)+ ; (a.x < b.x)
pattern Dark for each pair a, b in vessels within 1 km fresh 1 min := (a.x > 1) ; silence of b 4 s
"""
OF_ONE = """
pattern Quiet := (x > 0) ; silence 5 s
pattern Own   := (x > 0) ; (x > 1)
"""


def events(dice: random.Random, disorder_s: int) -> list[dict[str, float]]:
    """No two are equal: those would look like repeated ones."""
    rows = [
        {
            "id": dice.randint(1, 4), "t": nth // 4 * 2, "lon": dice.choice((5.0, 5.001, 5.1)), "lat": 50.0,
            "x": dice.randint(0, 3) + nth / 1000, "n": nth,
        }
        for nth in range(80)
    ]  # fmt: skip
    return sorted(rows, key=lambda row: row["t"] + dice.randint(0, disorder_s))


def found_in(paths: list[Path]) -> list[tuple[object, ...]]:
    rows = [row for path in paths for row in pq.read_table(path).to_pylist()]
    names = ("pattern", "entity", "other", "ts", "seq", "start_ts", "start_seq", "decided_ts")
    return sorted((tuple(row[name] for name in names) for row in rows), key=repr)


@pytest.mark.parametrize("text", [PAIRS, PAIRS + OF_ONE], ids=["pairs alone", "beside entities"])
@pytest.mark.parametrize(
    "lines", ["", "lateness 0 s", "lateness 6 s", "dedupe", "order n", "order n dedupe lateness 6 s"]
)
@pytest.mark.parametrize("seed", seeds(3, always=1))
def test_what_comes_again_counts_once(tmp_path: Path, seed: int, lines: str, text: str) -> None:
    dice = random.Random(seed)
    patterns = wayeb_py.compile(STREAM.format(lines=lines) + text)
    rows = events(dice, 5 if "6 s" in lines else 0)
    cuts = sorted(dice.sample(range(5, 75), 4))
    (tmp_path / "out").mkdir()
    n_again = 0
    for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        again = max(0, begin - dice.choice((0, 1, 3, 10)))
        n_again += begin - again
        pq.write_table(pa.Table.from_pylist(rows[again:end]), tmp_path / "night.parquet")
        run(
            patterns, [tmp_path / "night.parquet"], tmp_path / "out", state_dir=tmp_path / "state",
            final=end == len(rows),
        )  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "all.parquet")
    run(patterns, [tmp_path / "all.parquet"], tmp_path / "all_found.parquet")
    expected = found_in([tmp_path / "all_found.parquet"])
    assert found_in(list((tmp_path / "out").glob("*.parquet"))) == expected
    assert {row[0] for row in expected} >= {"Two", "Rose"}
    assert n_again > 0
