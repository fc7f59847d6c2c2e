"""Trials become scores: models are learnt from one part of them and tried on the other, split by entity and by time.

By entity, one fold of the entities is left out: does what some ships do hold for others? By time, the last third of the
time: does what held until yesterday hold today? A trial after the cut still knows what its entity did before it. Models
and baselines are fitted to their own side of the cut alone, where a trial whose horizon reaches over it is censored.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from wayeb_py.arrays import I64, Bool
from wayeb_py.forecast.counts import N_FOLDS
from wayeb_py.forecast.evaluation.baselines import N_LAST, fit_logistic, predict_logistic
from wayeb_py.forecast.evaluation.scores import IntervalScores, Scores, score, score_intervals
from wayeb_py.forecast.evaluation.trials import Outcomes, Trials, outcomes
from wayeb_py.forecast.learn import Counting
from wayeb_py.forecast.model import Model, fit
from wayeb_py.forecast.tables import ForecastTables, Horizon, grid_error, make_tables
from wayeb_py.forecast.words.symbols import Walk

Split = Literal["entity", "time"]
TIME_SHARE = 2 / 3


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How good the forecasts of one pattern are, over one split."""

    pattern: str
    split: Split
    horizon: str
    confidence: float
    n_learnt: int
    n_tried: int
    n_censored: int
    n_detected: int  # detections within the horizon, among the scored trials
    order: int
    grid_error: float
    by_method: dict[str, Scores]
    intervals: IntervalScores | None
    unit: str

    def to_json(self) -> dict[str, Any]:
        told = {name: getattr(self, name) for name in self.__slots__ if name not in ("by_method", "intervals")}
        told["scores"] = {name: own.to_json() for name, own in self.by_method.items()}
        told["intervals"] = None if self.intervals is None else asdict(self.intervals)
        return told


def evaluate(trials: Trials, horizon: Horizon, confidence: float, split: Split) -> Evaluation | str:
    """The scores, or why there are none."""
    for_learning, tried, until = _parts(trials, split)
    tried &= trials.tried
    if not for_learning.any() or not tried.any():
        return "there are too few entities to leave some out" if split == "entity" else "all events have one time"
    learnt = trials.where(for_learning, until)
    model = learn_from(learnt)
    tables = make_tables(model, horizon, confidence)
    before, after = outcomes(learnt, horizon), outcomes(trials, horizon)
    usable = tried & ~after.censored
    if not usable.any() or (before.censored | ~learnt.tried).all():
        return "the horizon reaches beyond the data at every event"
    by_method, node = _probabilities(trials, learnt, before, tables)
    happened = after.detected[usable]
    return Evaluation(
        trials.automaton.name,
        split,
        horizon.text,
        confidence,
        int((for_learning & trials.tried).sum()),
        int(usable.sum()),
        int((tried & after.censored).sum()),
        int(happened.sum()),
        model.choice.order,
        grid_error(model, horizon),
        {name: score(probability[usable], happened) for name, probability in by_method.items()},
        _intervals(tables, node[usable], after.wait[usable]),
        "events" if horizon.events is not None else "s",
    )


def _parts(trials: Trials, split: Split) -> tuple[Bool, Bool, int]:
    """Which events are learnt from, which are tried, and until when the former reach. A pair one of whose two is left
    out is left out."""
    ts = trials.chunk.ts
    last = int(ts.max(initial=0))
    if split == "entity":
        folds = trials.fold_of_entity if trials.words is None else trials.words.left_out.ravel()
        present = np.bincount(folds, minlength=N_FOLDS)
        tried = trials.are_left_out(int(np.argmax(present > 0)))
        return ~tried, tried, last if trials.words is None else trials.words.until
    first = int(ts.min(initial=last))
    cut = first + int((last - first) * TIME_SHARE)
    tried = ts > cut
    return ~tried, tried, cut


def learn_from(learnt: Trials) -> Model:
    """The model of some trials: that of `wayeb learn` over the same events."""
    counting = Counting(learnt.automaton)
    chunk, words = learnt.chunk, learnt.words
    n_entities = len(learnt.fold_of_entity)
    no_classes = np.zeros(len(chunk.ts), dtype=np.int64)
    detected = learnt.detected.astype(np.int64)
    present = np.unique(chunk.entity)
    if words is None:
        counting.add(learnt.symbols, detected, chunk, learnt.fold_of_entity, no_classes, n_entities)
    else:
        masks = words.counted, words.tried
        counting.add(learnt.symbols, detected, chunk, learnt.fold_of_entity, no_classes, n_entities, masks)
        over = present[words.over_at[present] <= words.until].astype(np.int32)
        counting.end_words(over, learnt.fold_of_entity[over])
    return fit(learnt.automaton, counting.counts([""], learnt.fold_of_entity[present]))


def _probabilities(
    trials: Trials, learnt: Trials, before: Outcomes, tables: ForecastTables
) -> tuple[dict[str, Any], I64]:
    """What each method says at every event, and the node there."""
    n_symbols = trials.automaton.n_symbols
    n_entities = len(trials.fold_of_entity)
    _, node = Walk(tables.nodes.next_node).step(trials.symbols, trials.chunk, n_entities)
    known = ~before.censored & learnt.tried
    rate = float(before.detected[known].mean())
    weights = fit_logistic(_contexts(learnt)[known], before.detected[known], n_symbols)
    return {
        "forecast": tables.probability[0, node],
        "base rate": np.full(len(node), rate),
        "logistic regression": predict_logistic(weights, _contexts(trials), n_symbols),
    }, node.astype(np.int64)


def _contexts(trials: Trials) -> I64:
    """The last symbols at each event, including its own, as a number."""
    base = trials.automaton.n_symbols + 1
    chunk = trials.chunk
    order = np.argsort(chunk.entity, kind="stable")
    symbols = trials.symbols[order].astype(np.int64) + 1
    seq = chunk.seq[order]
    contexts = symbols.copy()
    for place in range(1, N_LAST):
        earlier = np.zeros_like(symbols)
        earlier[place:] = symbols[:-place] if place < len(symbols) else 0
        contexts += np.where(seq >= place, earlier, 0) * base**place
    back = np.empty_like(contexts)
    back[order] = contexts
    return back


def _intervals(tables: ForecastTables, node: I64, wait: Any) -> IntervalScores | None:
    first, last = tables.first[0, node], tables.last[0, node]
    has = first >= 0
    first, last, wait = first[has], last[has], wait[has]
    horizon = tables.horizon
    if horizon.seconds is None:
        return score_intervals(first.astype(np.float64), last.astype(np.float64), wait)
    step = float(horizon.seconds) / horizon.n_steps
    lower, upper = np.maximum((first - 0.5) * step, 0.0), np.minimum((last + 0.5) * step, float(horizon.seconds))
    return score_intervals(lower, upper, wait)
