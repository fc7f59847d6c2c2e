"""Counted times between events become their distribution on the grid of a horizon.

The horizon is cut into equal steps, and a time between two events becomes a number of steps. A time that lies between
two steps is shared out between them, so that its mean stays what it is; within a bin of the counted grid times are
taken as equally spread, and `lowest` and `highest` round each down or up as far as its bin allows: the probabilities of
these two enclose that of every distribution with the same counts.

A time depends on the symbols before and after it, since letters may look at it (`elapsed() > 30 min`). Where a pair of
symbols was seen less than ten times in a class, all classes serve; if it was seen less than ten times there, the symbol
before does not count.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

import numpy as np

from wayeb_py.arrays import F64
from wayeb_py.forecast.counts import EDGES_MS, Counts

Rounding = Literal["mean", "lowest", "highest"]
SEEN_ENOUGH = 10
N_SAMPLES = 8  # points at which a bin's times are sampled


def gap_steps(
    counts: Counts, n_symbols: int, step_ms: float, n_steps: int, class_: str | None = None, rounding: Rounding = "mean"
) -> F64:
    """steps[symbol before, symbol, k]: the probability that the second comes k steps after the first.

    The symbol before is `n_symbols` at the beginning of a word, where no event is waited for. The rest up to 1 is
    beyond the horizon.
    """
    by_pair: dict[tuple[int, int], Counter[int]] = {}
    of_class: dict[tuple[int, int], Counter[int]] = {}
    by_symbol: dict[int, Counter[int]] = {}
    of_all: Counter[int] = Counter()
    for (name, before, symbol, bin_), n in counts.gaps.items():
        by_pair.setdefault((before, symbol), Counter())[bin_] += n
        by_symbol.setdefault(symbol, Counter())[bin_] += n
        of_all[bin_] += n
        if name == class_:
            of_class.setdefault((before, symbol), Counter())[bin_] += n
    of_bin = _bins_on_grid(step_ms, n_steps, rounding)
    steps = np.zeros((n_symbols + 1, n_symbols, n_steps + 1))
    for before in range(n_symbols + 1):
        for symbol in range(n_symbols):
            choices = (of_class.get((before, symbol)), by_pair.get((before, symbol)), by_symbol.get(symbol), of_all)
            told = next((one for one in choices if one is not None and one.total() >= SEEN_ENOUGH), of_all)
            if told:
                bins = np.array(sorted(told), dtype=np.int64)
                numbers = np.array([told[bin_] for bin_ in bins.tolist()], dtype=np.float64)
                steps[before, symbol] = numbers @ of_bin[bins] / numbers.sum()
    return steps


def _bins_on_grid(step_ms: float, n_steps: int, rounding: Rounding) -> F64:
    """[bin, k]: how much of a bin's times is k steps."""
    lower = EDGES_MS.astype(np.float64)
    upper = np.append(lower[1:], 2 * lower[-1])
    shares = np.zeros((len(lower), n_steps + 1))
    if rounding != "mean":
        steps = np.floor(lower / step_ms) if rounding == "lowest" else np.ceil(upper / step_ms)
        within = np.flatnonzero(steps <= n_steps)
        shares[within, steps[within].astype(np.int64)] = 1.0
        return shares
    for nth in range(N_SAMPLES):
        exact = (lower + (upper - lower) * (nth + 0.5) / N_SAMPLES) / step_ms
        below = np.floor(exact)
        for steps, share in ((below, 1.0 - (exact - below)), (below + 1, exact - below)):
            within = np.flatnonzero(steps <= n_steps)
            np.add.at(shares, (within, steps[within].astype(np.int64)), share[within] / N_SAMPLES)
    return shares
