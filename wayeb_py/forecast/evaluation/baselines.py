"""The methods that forecasts are compared with: the base rate, and a logistic regression on the last symbols.

The base rate gives every event the share of detections within the horizon that the history had. The regression has a
weight for each symbol at each of the last three events; it is fitted by Newton's method with a small ridge, over
contexts with their numbers, since it does not distinguish events with the same last symbols.
"""

from __future__ import annotations

import numpy as np

from wayeb_py.arrays import F64, I64, Bool

N_LAST = 3
RIDGE = 1e-3
N_ROUNDS = 30


def last_symbols(contexts: I64, n_symbols: int) -> F64:
    """[event, feature]: which symbol is at each of the last positions of a context, given as a number; and 1."""
    base = n_symbols + 1
    digits = np.stack([contexts // base**place % base for place in range(N_LAST)], axis=1)
    features = np.zeros((len(contexts), N_LAST * base + 1))
    for place in range(N_LAST):
        features[np.arange(len(contexts)), place * base + digits[:, place]] = 1.0
    features[:, -1] = 1.0
    return features


def fit_logistic(contexts: I64, happened: Bool, n_symbols: int) -> F64:
    """The weights of the regression."""
    distinct, at, n = np.unique(contexts, return_inverse=True, return_counts=True)
    successes = np.bincount(at.reshape(-1), weights=happened, minlength=len(distinct))
    features = last_symbols(distinct, n_symbols)
    weights = np.zeros(features.shape[1])
    for _ in range(N_ROUNDS):
        p = _logistic(features @ weights)
        slope = features.T @ (successes - n * p) - RIDGE * weights
        curvature = (features * (n * p * (1 - p))[:, None]).T @ features + RIDGE * np.eye(len(weights))
        step = np.linalg.solve(curvature, slope)
        weights += np.clip(step, -4, 4)
        if np.abs(step).max() < 1e-8:
            break
    return weights


def predict_logistic(weights: F64, contexts: I64, n_symbols: int) -> F64:
    """The probability at each event."""
    distinct, at = np.unique(contexts, return_inverse=True)
    return _logistic(last_symbols(distinct, n_symbols) @ weights)[at.reshape(-1)]


def _logistic(x: F64) -> F64:
    return 1.0 / (1.0 + np.exp(-np.clip(x, -40, 40)))
