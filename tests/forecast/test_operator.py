"""Forecasts as events come: the rows of the command, however the events are cut, saved and restored."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wayeb_py
from tests.forecast.test_forecasts import PATTERNS, STREAM, by_pattern, events
from wayeb_py.engine.arrow_values import RecycledArrays
from wayeb_py.errors import DataError
from wayeb_py.forecast import forecaster as forecasting
from wayeb_py.forecast.operator import ForecastOperator
from wayeb_py.forecast.tables import Horizon
from wayeb_py.forecast.words import joint_walk
from wayeb_py.run.forecasts import forecast, learn, load_tables

NAMES = ["AfterA", "Rise", "Slow", "Counted"]
HORIZON = "2min"


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the models of all patterns, by size and without, and with new events."""
    folder = tmp_path_factory.mktemp("models")
    pq.write_table(events(), folder / "history.parquet")
    pq.write_table(events(4), folder / "new.parquet")
    learn(chosen(), [str(folder / "history.parquet")], folder / "model", by="size")
    learn(chosen(), [str(folder / "history.parquet")], folder / "of all")
    return folder


def chosen() -> wayeb_py.Patterns:
    return wayeb_py.compile(STREAM + PATTERNS).select(NAMES)


def forecaster(learnt: Path, **options: float) -> ForecastOperator:
    return chosen().forecaster(learnt / "model", HORIZON, **options)  # type: ignore[arg-type]


def by_the_command(learnt: Path, at_least: float) -> pa.Table:
    out = learnt / f"soon-{at_least}.parquet"
    own = chosen()
    horizons = [(name, Horizon.parse(HORIZON), 0.7) for name in own.names]
    forecast(own, load_tables(own, learnt / "model", horizons), [str(learnt / "new.parquet")], out, at_least=at_least)
    return pq.read_table(out)


@given(st.lists(st.integers(0, 900), max_size=6).map(sorted), st.lists(st.booleans(), min_size=7, max_size=7))
@settings(max_examples=15, deadline=None)
def test_events_may_be_cut_and_the_state_saved_anywhere(learnt: Path, cuts: list[int], saves: list[bool]) -> None:
    table, operator, made = events(4), forecaster(learnt), []
    for (begin, end), saved in zip(zip([0, *cuts], [*cuts, 900], strict=True), saves, strict=False):
        if saved:
            state = operator.save()
            operator = forecaster(learnt)
            operator.restore(state)
        made += [operator.feed(batch) for batch in table.slice(begin, end - begin).combine_chunks().to_batches()]
    found = pa.concat_tables([*made, operator.finish()])
    expected = by_the_command(learnt, 0.0)
    assert len(expected) == len(NAMES) * len(table)
    assert by_pattern(found) == by_pattern(expected)


def test_unlikely_ones_are_left_out_as_by_the_command(learnt: Path) -> None:
    operator = forecaster(learnt, at_least=0.4)
    found = operator.feed(events(4).combine_chunks().to_batches()[0])
    assert 0 < len(found) < 2 * len(events(4))
    assert found.to_pylist() == by_the_command(learnt, 0.4).to_pylist()
    assert np.min(found.column("probability").to_numpy()) >= 0.4


def test_a_state_of_another_model_is_refused(learnt: Path, tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    letters = []  # each follows from the two before
    for vehicle in (history := events()).column("vehicle").to_pylist():
        letters.append("abcb"[seen[vehicle] % 4])
        seen[vehicle] += 1
    history = history.set_column(2, "k", pa.array(letters))
    pq.write_table(history, tmp_path / "history.parquet")
    learn(chosen(), [str(tmp_path / "history.parquet")], tmp_path / "model")
    operator = forecaster(learnt)
    operator.feed(events(4).combine_chunks().to_batches()[0])
    other = chosen().forecaster(tmp_path / "model", HORIZON)
    with pytest.raises(DataError, match="not saved by forecasts with the same models"):
        other.restore(operator.save())


def test_a_horizon_is_a_time_or_a_number_of_events(learnt: Path) -> None:
    for text, said in {"0s": "leaves nothing", "0 events": "1 to 10,000 events", "soon": "soon"}.items():
        with pytest.raises(ValueError, match=said):
            chosen().forecaster(learnt / "model", text)
    assert chosen().forecaster(learnt / "model", "3 events").feed(
        events(4).combine_chunks().to_batches()[0]
    ).column("horizon")[0].as_py() == "3 events"  # fmt: skip


def test_models_that_are_stepped_together_say_what_each_says_by_itself(tmp_path: Path) -> None:
    together = wayeb_py.compile(STREAM + PATTERNS).select(["AfterA", "Counted"])
    pq.write_table(events(), tmp_path / "history.parquet")
    learn(together, [str(tmp_path / "history.parquet")], tmp_path / "model")
    table = events(4)
    for at_least in (0.0, 0.2):
        alone = [
            together.select([name]).forecaster(tmp_path / "model", HORIZON, at_least=at_least)
            for name in together.names
        ]
        expected: dict[str, list[dict[str, object]]] = {}
        for one in alone:
            expected |= by_pattern(one.feed(table.to_batches()[0]))
        made, soon = [], together.forecaster(tmp_path / "model", HORIZON, at_least=at_least)
        for begin, end in pairwise([0, 1, 30, 600, 900]):
            made.append(soon.feed(table.slice(begin, end - begin).combine_chunks().to_batches()[0]))
            (forecaster_,) = soon._of_stream.values()
            joint = forecaster_._joint
            assert joint is not None
            assert 1 < len(joint[1]) < 200
            state = soon.save()  # gives the nodes back to each
            if end != 30:
                soon = together.forecaster(tmp_path / "model", HORIZON, at_least=at_least)
                soon.restore(state)
        assert by_pattern(pa.concat_tables(made)) == expected
        assert all(len(rows) > 20 for rows in expected.values())


def test_joint_nodes_have_room_for_more(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(joint_walk, "LEAST_ROOM", 2)
    test_models_that_are_stepped_together_say_what_each_says_by_itself(tmp_path)


def test_models_part_where_their_joint_nodes_are_too_many(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    together = wayeb_py.compile(STREAM + PATTERNS).select(["AfterA", "Counted"])
    pq.write_table(events(), tmp_path / "history.parquet")
    learn(together, [str(tmp_path / "history.parquet")], tmp_path / "model")

    def rows() -> dict[str, list[dict[str, object]]]:
        soon = together.forecaster(tmp_path / "model", HORIZON)
        parts = [events(4).slice(begin, 300).combine_chunks().to_batches()[0] for begin in (0, 300, 600)]
        return by_pattern(pa.concat_tables([soon.feed(part) for part in parts]))

    expected = rows()
    monkeypatch.setattr(forecasting, "MOST_NODES", 1)
    assert rows() == expected


@pytest.mark.parametrize("type_", [pa.int32(), pa.int64(), pa.float64(), pa.timestamp("us"), pa.timestamp("s", "UTC")])
@pytest.mark.parametrize(("model", "horizon"), [("model", HORIZON), ("of all", HORIZON), ("of all", "6 events")])
def test_intervals_of_many_events_at_once_are_those_of_few(
    learnt: Path, monkeypatch: pytest.MonkeyPatch, type_: pa.DataType, model: str, horizon: str
) -> None:
    class UsedArrays(RecycledArrays):  # hold what no time can be
        def take(self, n: int, kind: type[np.generic]) -> np.ndarray:
            array = super().take(n, kind)
            array.view(np.uint8)[:] = 0x7F
            return array

    monkeypatch.setattr(forecasting, "RecycledArrays", UsedArrays)
    table = events(4)
    seconds = table.column("ts").cast(pa.timestamp("s")) if pa.types.is_timestamp(type_) else table.column("ts")
    table = table.set_column(1, "ts", seconds.cast(type_)).combine_chunks()
    text = STREAM.replace(" in s\n", "\n") if pa.types.is_timestamp(type_) else STREAM
    own = wayeb_py.compile(text + PATTERNS).select(NAMES)

    def rows(size: int) -> dict[str, list[dict[str, object]]]:
        soon = own.forecaster(learnt / model, horizon, confidence=0.2)
        made = [by_pattern(soon.feed(batch)) for batch in table.to_batches(max_chunksize=size)]  # each is let go
        return {name: [row for part in made for row in part[name]] for name in NAMES}

    few, many = rows(forecasting.MANY_EVENTS // 10), rows(forecasting.MANY_EVENTS)
    assert many == few
    place = "until_events" if horizon.endswith("events") else "until"
    assert {row[place] is None for rows in few.values() for row in rows} == {True, False}


def test_arrays_are_used_again_once_nothing_refers_to_them() -> None:
    memory = RecycledArrays(most=2)
    column = pa.array(memory.take(4, np.int64))  # an Arrow array refers to the memory, not to the numpy array
    place = column.buffers()[1].address
    assert memory.take(4, np.int64).ctypes.data != place
    del column
    assert memory.take(2, np.float64).ctypes.data == place
