"""What is expected after an event: the probability of the forecast there, made up of the symbols that may come next."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wayeb_py
from tests.cli.ended_command import Wayeb
from tests.forecast.test_forecasts import PATTERNS, STREAM, events
from wayeb_py.errors import DataError
from wayeb_py.forecast.expected import expected_after
from wayeb_py.forecast.tables import Horizon
from wayeb_py.run.forecasts import learn, load_tables
from wayeb_py.view.shown_forecasts import forecasts_of
from wayeb_py.why.entity_words import words_of

NAMES = ["AfterA", "Rise", "Counted"]


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    pq.write_table(events(), folder / "history.parquet")
    learn(chosen(), [str(folder / "history.parquet")], folder / "model")
    return folder


def chosen() -> wayeb_py.Patterns:
    return wayeb_py.compile(STREAM + PATTERNS).select(NAMES)


def test_it_is_the_sum_over_what_may_come_next(learnt: Path) -> None:
    """Within n events: the next one detects, or it does not and n - 1 are left."""
    patterns, table = chosen(), events(4)
    words = words_of(patterns, table)
    far, near = (
        load_tables(patterns, learnt / "model", [(name, Horizon.parse(f"{n} events"), 0.7) for name in NAMES])
        for n in (5, 4)
    )
    n_told = 0
    for of_five, of_four in zip(far, near, strict=True):
        for row in range(0, 200, 7):
            begin = words.word_begin(row)
            told = expected_after(of_five, words.values, words.chunk, begin, row)
            shorter = expected_after(of_four, words.values, words.chunk, begin, row)
            assert [one.text for one in shorter.symbols] == [one.text for one in told.symbols]
            total = sum(one.probability * (one.detects + (1 - one.detects) * one.afterwards) for one in shorter.symbols)
            left_out = 1 - sum(one.probability for one in told.symbols)
            assert total - 1e-9 <= told.probability <= total + left_out + 1e-9
            n_told += len(told.symbols)
    assert n_told > 100


def test_it_is_what_the_forecast_says_at_the_same_event(learnt: Path) -> None:
    patterns, table = chosen(), events(4)
    rows = patterns.forecaster(learnt / "model", "2min").feed(table.to_batches()[0]).to_pylist()
    words = words_of(patterns, table)
    tables = load_tables(patterns, learnt / "model", [(name, Horizon.parse("2min"), 0.7) for name in NAMES])
    by_name = {own.model.automaton.name: own for own in tables}
    for one in rows[::97]:
        begin, _ = words.first[str(one["entity"])]
        row = next(
            row
            for row in range(begin, len(words.chunk.ts))
            if (words.chunk.seq[row], words.chunk.ts[row]) == (one["seq"], one["ts"])
            and words.who(row)[0] == one["entity"]
        )
        told = expected_after(by_name[one["pattern"]], words.values, words.chunk, words.word_begin(row), row)
        assert told.probability == one["probability"]
        assert (told.first is None) == (one["from"] is None)


def test_why_tells_which_symbols_are_expected(wayeb: Wayeb, learnt: Path, tmp_path: Path) -> None:
    (tmp_path / "p.sre").write_text(STREAM + PATTERNS)
    pq.write_table(events(4), tmp_path / "new.parquet")
    entity, at = (events(4).column(name)[300].as_py() for name in events(4).column_names[:2])
    words = ["why", str(tmp_path / "p.sre"), "--data", str(tmp_path / "new.parquet"), "--pattern", "AfterA"]
    words += ["--entity", str(entity), "--at", str(at), "--model", str(learnt / "model"), "--horizon", "3 events"]
    shown = wayeb(*words).out
    assert "expected: AfterA within 3 events" in shown
    assert "that the next event is" in shown


def test_a_map_shades_the_likeliest_and_says_what_is_left_out(learnt: Path) -> None:
    made = chosen().forecaster(learnt / "model", "2min", confidence=0.1).feed(events(4).to_batches()[0])
    entities = sorted({str(one) for one in made.column("entity").to_pylist()})
    drawn, notes = forecasts_of(made, "s", entities, NAMES, most=50)
    every = forecasts_of(made, "s", entities, NAMES)[0]["probability"]
    assert len(drawn["from"]) == 50 < len(every)
    assert notes == [f"50 of {len(every):,} forecasts are shown: the likeliest."]
    assert sum(one > min(drawn["probability"]) for one in every) < 50
    assert all(a <= b for a, b in zip(drawn["from"], drawn["until"], strict=True))
    with pytest.raises(DataError, match="this is no file of forecasts"):
        forecasts_of(pa.table({"pattern": ["P"]}), "s", entities, NAMES)
