"""Probabilities and what came of them become scores: Brier, log loss, precision, recall, reliability, intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wayeb_py.arrays import F64, Bool

N_BINS = 10
LEAST = 1e-6  # a probability is taken as no nearer to 0 or 1: one surprise would make a log loss infinite


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Forecasts of about one probability: their number, their mean, and how often it happened."""

    n: int
    forecast: float
    happened: float


@dataclass(frozen=True, slots=True)
class Scores:
    """How good some probabilities are; precision and recall are those of calling from 0.5 on."""

    brier: float
    log_loss: float
    precision: float | None
    recall: float | None
    reliability: tuple[ReliabilityBin, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "brier": self.brier,
            "log_loss": self.log_loss,
            "precision": self.precision,
            "recall": self.recall,
            "reliability": [{"n": b.n, "forecast": b.forecast, "happened": b.happened} for b in self.reliability],
        }


def score(probability: F64, happened: Bool) -> Scores:
    """The scores of at least one forecast."""
    called = probability >= 0.5
    n_right = int((called & happened).sum())
    safe = np.clip(probability, LEAST, 1 - LEAST)
    bin_of = np.minimum((probability * N_BINS).astype(np.int64), N_BINS - 1)
    bins = []
    for bin_ in np.unique(bin_of).tolist():
        own = bin_of == bin_
        bins.append(ReliabilityBin(int(own.sum()), float(probability[own].mean()), float(happened[own].mean())))
    return Scores(
        float(((probability - happened) ** 2).mean()),
        float(-np.where(happened, np.log(safe), np.log(1 - safe)).mean()),
        n_right / int(called.sum()) if called.any() else None,
        n_right / int(happened.sum()) if happened.any() else None,
        tuple(bins),
    )


@dataclass(frozen=True, slots=True)
class IntervalScores:
    """How good intervals are: how many there are, the share in which the detection came, how long they are, and how
    far ahead they begin; lengths in seconds or events."""

    n: int
    held: float
    spread: float
    distance: float


def score_intervals(lower: F64, upper: F64, wait: F64) -> IntervalScores | None:
    """The scores of intervals, from now on, and of the waits that came true; None where there is none."""
    if not len(lower):
        return None
    held = (wait >= lower) & (wait <= upper)
    return IntervalScores(len(lower), float(held.mean()), float((upper - lower).mean()), float(lower.mean()))
