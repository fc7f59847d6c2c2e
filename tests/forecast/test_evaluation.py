"""Scores of forecasts: outcomes against a plain loop, scores by hand, and a page that requests nothing."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wayeb_py
from tests.cli.ended_command import Wayeb
from tests.forecast.test_waiting import automaton
from tests.strategies import examples
from wayeb_py.engine.values import Chunk
from wayeb_py.forecast.evaluation.baselines import fit_logistic, predict_logistic
from wayeb_py.forecast.evaluation.evaluate import Evaluation, evaluate
from wayeb_py.forecast.evaluation.scores import score, score_intervals
from wayeb_py.forecast.evaluation.trials import Trials, outcomes
from wayeb_py.forecast.tables import Horizon
from wayeb_py.run.forecasts import evaluate_files

FILE = """\
stream vehicles {
    key  vehicle
    time ts in s
    attr k text
}
pattern P := (k = "a") ; (k = "b") ; (k = "c")
"""


def trials_of(rows: list[tuple[int, int, int, bool]]) -> Trials:
    """Trials of (entity, ts, symbol, detected), in the order of time."""
    entity, ts, symbols, detected = (np.array(column) for column in zip(*rows, strict=True))
    seq = np.array([int((entity[:i] == e).sum()) for i, e in enumerate(entity)])
    n = len(rows)
    chunk = Chunk(
        {}, "ts", ts.astype(np.int64), 1, entity.astype(np.int32), np.zeros(n, dtype=np.int32), seq.astype(np.int64),
        np.zeros(n, dtype=np.int64), (seq == 0).astype(np.uint8),
    )  # fmt: skip
    fold_of_entity = np.arange(int(entity.max()) + 1) % 5
    return Trials(
        automaton([[0, 1], [0, 1]], [False, True]), chunk, symbols.astype(np.int32), detected.astype(bool),
        fold_of_entity,
    )  # fmt: skip


ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(0, 1), st.booleans()), min_size=1, max_size=12
)


@settings(max_examples=examples(60))
@given(ROWS, st.integers(1, 5), st.booleans())
def test_what_came_of_an_event_is_what_a_plain_loop_finds(
    rows: list[tuple[int, int, int, bool]], ahead: int, in_events: bool
) -> None:
    rows = sorted(rows, key=lambda row: row[1])
    horizon = Horizon(events=ahead) if in_events else Horizon(seconds=Fraction(ahead))
    found = outcomes(trials_of(rows), horizon)
    end = max(ts for _, ts, _, _ in rows)
    for i, (entity, ts, _, _) in enumerate(rows):
        later = [row for row in rows[i + 1 :] if row[0] == entity]
        waits = [nth if in_events else row[1] - ts for nth, row in enumerate(later, 1) if row[3]]
        wait = min(waits, default=math.inf)
        beyond = len(later) < ahead if in_events else ts + ahead > end
        assert found.wait[i] == wait
        assert found.detected[i] == (wait <= ahead)
        assert found.censored[i] == (wait > ahead and beyond)


def test_scores_by_hand() -> None:
    own = score(np.array([0.9, 0.6, 0.2, 0.2]), np.array([True, False, False, True]))
    assert own.brier == pytest.approx((0.01 + 0.36 + 0.04 + 0.64) / 4)
    assert own.log_loss == pytest.approx(-(math.log(0.9) + math.log(0.4) + math.log(0.8) + math.log(0.2)) / 4)
    assert (own.precision, own.recall) == (0.5, 0.5)
    assert [(b.n, b.happened) for b in own.reliability] == [(2, 0.5), (1, 0.0), (1, 1.0)]
    assert score(np.array([0.0]), np.array([True])).log_loss == pytest.approx(-math.log(1e-6))
    held = score_intervals(np.array([0.0, 5.0]), np.array([2.0, 8.0]), np.array([1.0, np.inf]))
    assert held is not None
    assert (held.n, held.held, held.spread, held.distance) == (2, 0.5, 2.5, 2.5)
    assert score_intervals(np.zeros(0), np.zeros(0), np.zeros(0)) is None


def test_the_regression_finds_the_share_of_each_context_that_it_can_tell_apart() -> None:
    """Two symbols, and only the last one matters."""
    rng = np.random.default_rng(5)
    contexts = rng.integers(1, 3, size=4000) + 3 * rng.integers(1, 3, size=4000)
    share = np.where(contexts % 3 == 1, 0.8, 0.1)
    happened = rng.random(4000) < share
    told = predict_logistic(fit_logistic(contexts, happened, 2), contexts, 2)
    for symbol in (1, 2):
        own = contexts % 3 == symbol
        assert told[own].mean() == pytest.approx(happened[own].mean(), abs=1e-3)


def chained(n_entities: int, n: int, seed: int) -> pa.Table:
    """Words in which b follows a, and c follows b, more often than not: what an order of 1 can know."""
    rng = np.random.default_rng(seed)
    follows = {"a": [0.1, 0.8, 0.1], "b": [0.2, 0.1, 0.7], "c": [0.6, 0.2, 0.2]}
    rows = []
    for entity in range(n_entities):
        k, ts = "a", 0
        while ts < 27 * n:  # all of them report to the end of the data
            rows.append((f"v{entity}", ts, k))
            k, ts = str(rng.choice(["a", "b", "c"], p=follows[k])), ts + int(rng.choice([10, 10, 60]))
    rows.sort(key=lambda row: row[1])
    vehicle, when, letters = zip(*rows, strict=True)
    return pa.table({"vehicle": vehicle, "ts": when, "k": letters})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Evaluation], Path]:
    folder = tmp_path_factory.mktemp("evaluation")
    pq.write_table(chained(20, 150, 2), folder / "history.parquet")
    horizons = [("P", Horizon(seconds=Fraction(60), text="1 min"), 0.5), ("P", Horizon(events=3, text="3 events"), 0.5)]
    page = folder / "page.html"
    evaluations, failures = evaluate_files(wayeb_py.compile(FILE), [folder / "history.parquet"], horizons, page)
    assert failures == []
    return evaluations, page


def test_where_words_are_markov_chains_forecasts_are_honest_and_better_than_the_base_rate(
    made: tuple[list[Evaluation], Path],
) -> None:
    evaluations, _ = made
    assert [(one.split, one.horizon) for one in evaluations] == [
        ("entity", "1 min"), ("time", "1 min"), ("entity", "3 events"), ("time", "3 events"),
    ]  # fmt: skip
    for one in evaluations:
        assert one.n_censored > 0
        scores = one.by_method
        assert scores["forecast"].brier < 0.85 * scores["base rate"].brier
        assert scores["forecast"].brier < 1.02 * scores["logistic regression"].brier
        for own in scores["forecast"].reliability:  # four standard deviations
            assert own.happened == pytest.approx(own.forecast, abs=0.03 + 4 * math.sqrt(0.25 / own.n))


def test_the_page_makes_no_request_and_the_json_says_the_same(made: tuple[list[Evaluation], Path]) -> None:
    evaluations, page = made
    text = page.read_text()
    assert "http://" not in text
    assert "https://" not in text
    assert "<script" not in text
    assert text.count("<svg") == 4
    told = json.loads(page.with_suffix(".json").read_text())
    assert told["evaluations"][0] == evaluations[0].to_json()
    assert f"{evaluations[0].by_method['forecast'].brier:.4f}" in text


def test_what_cannot_be_split_is_said() -> None:
    one = trials_of([(0, 5, 0, False), (0, 5, 1, True)])
    horizon = Horizon(seconds=Fraction(1), text="1 s")
    assert evaluate(one, horizon, 0.5, "entity") == "there are too few entities to leave some out"
    assert evaluate(one, horizon, 0.5, "time") == "all events have one time"


def test_the_commands_learn_forecast_and_evaluate(wayeb: Wayeb, tmp_path: Path) -> None:
    table = chained(8, 60, 3)
    pq.write_table(table, tmp_path / "h.parquet")
    (tmp_path / "p.sre").write_text(FILE)
    ended = wayeb("learn", "p.sre", "--data", "h.parquet", "--out", "model")
    assert "by the log loss of entities left out" in ended.err
    forecast = ("forecast", "p.sre", "--data", "h.parquet")
    ended = wayeb(*forecast, "--model", "model", "--horizon", "5 events", "--out", "out.csv")
    assert f"{len(table)} events of 8 entities; forecasts: {len(table)} of P" in ended.err
    assert len((tmp_path / "out.csv").read_text().splitlines()) == len(table) + 1
    ended = wayeb(*forecast, "--horizon", "1min", "--evaluate", "page.html")
    assert "Brier score" in ended.err
    assert (tmp_path / "page.html").exists()


def test_what_a_file_declares_is_learnt_and_forecast(wayeb: Wayeb, tmp_path: Path) -> None:
    table = chained(6, 40, 3)
    pq.write_table(table, tmp_path / "h.parquet")
    others = 'pattern Q := (k = "c") ; silence 1 min\nforecast P within 5 events with 0.4\nforecast P within 2 min\n'
    (tmp_path / "p.sre").write_text(FILE.replace("time ts in s", "time ts in s\n    lateness 1 s") + others)
    assert wayeb("learn", "p.sre", "--data", "h.parquet", "--out", "model").code == 0
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["P.json"]
    ended = wayeb("forecast", "p.sre", "--data", "h.parquet", "--model", "model", "--out", "out.parquet")
    assert ended.code == 0
    rows = pq.read_table(tmp_path / "out.parquet")
    assert rows.column("horizon").value_counts().to_pylist() == [
        {"values": "5 events", "counts": len(table)},
        {"values": "2 min", "counts": len(table)},
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--horizon 1min", "say which: --model DIR makes forecasts"),
        ("--model model", "nothing says how far to look"),
        ("--model model --horizon soon", "`soon` is not a duration"),
        ("--model model --horizon 1min --confidence 7", "write a number between 0 and 1, such as 0.7"),
        ("--evaluate page.json --horizon 1min", "end its name in .html"),
        ("--model model --horizon 1min", "there is no model of `P`"),
    ],
)
def test_a_command_that_lacks_something_says_what(wayeb: Wayeb, tmp_path: Path, words: str, message: str) -> None:
    pq.write_table(chained(1, 5, 3), tmp_path / "h.parquet")
    (tmp_path / "p.sre").write_text(FILE)
    ended = wayeb("forecast", "p.sre", "--data", "h.parquet", *words.split())
    assert ended.code != 0
    assert message in ended.err
