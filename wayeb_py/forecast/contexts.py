"""Counts become a prediction suffix tree: the contexts that matter, and what each says of the next symbol.

    counts ──▶ contexts that predict otherwise than their shorter suffix ──▶ closed ──▶ an automaton over contexts

A context is kept where it was seen often enough and where the gain in likelihood over its suffix pays for the numbers
that it adds (the Bayesian information criterion). With every suffix and every beginning of a kept context kept as well,
the longest kept suffix of a word is a function of the previous one and the next symbol: the contexts are the states of
an automaton. How long a context may be is chosen by the log loss over entities that were left out, fold by fold; 0 is
independent symbols, 1 a Markov chain where all contexts matter. The trees are those of Ron, Singer and Tishby ("The
power of amnesia", 1996), as Alevizos, Artikis and Paliouras use them for forecasting ("Complex event forecasting with
prediction suffix trees", 2022).

A probability is smoothed by that of the shorter context: (n(c, s) + p(s | shorter)) / (n(c) + 1), and that of the empty
context by the uniform one, so that what was never seen is unlikely and not impossible. A class is smoothed by all
classes together in the same way, with a weight of 10.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from wayeb_py.arrays import F64, I64
from wayeb_py.forecast.counts import N_FOLDS, Context, Counts

SEEN_ENOUGH = 20
CLASS_WEIGHT = 10

Numbers = Mapping[Context, I64]
"""[context][symbol]: how often; the number after the last symbol counts the words that ended there."""


@dataclass(frozen=True, slots=True)
class SuffixTree:
    """Contexts as the states of an automaton, 0 being the empty one, and the probability of each next symbol.

    `probability[context, n_symbols]` is that the word ends there.
    """

    contexts: tuple[Context, ...]
    next_context: I64  # [context, symbol]
    probability: F64  # [context, symbol]


@dataclass(frozen=True, slots=True)
class Choice:
    """How long contexts may be, why, and the contexts."""

    order: int
    losses: tuple[float | None, ...]  # [order]: mean log loss in nats of entities left out; None where none could be
    contexts: tuple[Context, ...]


def choose(counts: Counts, n_symbols: int, fits: Callable[[Iterable[Context]], bool]) -> Choice | None:
    """The order with the least loss among those whose contexts fit; None where not even the empty context does."""
    folds = [_numbers(counts, n_symbols, fold=fold) for fold in range(N_FOLDS)]
    whole = _added(folds)
    kept = [kept_contexts(whole, order, n_symbols) for order in range(counts.order + 1)]
    possible = [order for order in range(counts.order + 1) if fits(kept[order])]
    if not possible:
        return None
    filled = [fold for fold in folds if fold]
    losses: list[float | None] = [None] * (counts.order + 1)
    if len(filled) > 1:
        for order in possible:
            losses[order] = _loss_left_out(filled, order, n_symbols)
        best = min(possible, key=lambda order: (round(losses[order] or 0.0, 9), order))
    else:
        best = min(1, max(possible))
    return Choice(best, tuple(losses), kept[best])


def grow_tree(counts: Counts, contexts: Iterable[Context], n_symbols: int, class_: str | None = None) -> SuffixTree:
    """The tree over some contexts, with the probabilities of all classes together or of one."""
    states, next_context = grow_links(contexts, n_symbols)
    whole = by_suffix(_numbers(counts, n_symbols))
    rows = smoothed(whole, states, n_symbols)
    if class_ is not None:
        own = by_suffix(_numbers(counts, n_symbols, class_=class_))
        none = np.zeros(n_symbols + 1, dtype=np.int64)
        rows = {
            c: [
                (int(n) + CLASS_WEIGHT * p) / (int(own.get(c, none).sum()) + CLASS_WEIGHT)
                for n, p in zip(own.get(c, none), rows[c], strict=True)
            ]
            for c in states
        }
    probability = np.array([[float(p) for p in rows[context]] for context in states])
    return SuffixTree(tuple(states), next_context, probability)


def grow_links(contexts: Iterable[Context], n_symbols: int) -> tuple[list[Context], I64]:
    """The contexts in their order, the empty one first, and where each symbol leads: next_context[context, symbol]."""
    states = sorted(set(contexts) | {()}, key=lambda context: (len(context), context))
    number_of = {context: number for number, context in enumerate(states)}
    links = [[number_of[_longest((*context, s), number_of)] for s in range(n_symbols)] for context in states]
    return states, np.array(links, dtype=np.int64).reshape(len(states), n_symbols)


def kept_contexts(numbers: Numbers, order: int, n_symbols: int) -> tuple[Context, ...]:
    """The contexts of at most this length that matter, closed under suffixes and beginnings."""
    by_context = by_suffix(numbers)
    kept: set[Context] = {()}
    for context, own in by_context.items():
        if not 0 < len(context) <= order or own.sum() < SEEN_ENOUGH:
            continue
        shorter = by_context[context[1:]]
        seen = own > 0
        gain = float((own[seen] * np.log(own[seen] / own.sum() * shorter.sum() / shorter[seen])).sum())
        price = (int((shorter > 0).sum()) - 1) / 2 * math.log(int(own.sum()))
        if gain > price:
            _close(context, kept)
    return tuple(sorted(kept, key=lambda context: (len(context), context)))


def _close(context: Context, kept: set[Context]) -> None:
    waiting = [context]
    while waiting:
        one = waiting.pop()
        if one not in kept:
            kept.add(one)
            waiting += [one[1:], one[:-1]]


def by_suffix(numbers: Numbers) -> dict[Context, I64]:
    """The numbers of every suffix of the contexts: over all events that it precedes."""
    summed: dict[Context, I64] = {}
    for context, own in numbers.items():
        for length in range(len(context) + 1):
            suffix = context[len(context) - length :]
            summed[suffix] = own if suffix not in summed else summed[suffix] + own
    return summed


def smoothed(by_context: Numbers, contexts: Iterable[Context], n_symbols: int) -> dict[Context, list[Fraction]]:
    """The probability of every next symbol after each context, and of the end of the word; shorter contexts first."""
    none = np.zeros(n_symbols + 1, dtype=np.int64)
    rows: dict[Context, list[Fraction]] = {}
    for context in contexts:
        own = by_context.get(context, none)
        # Nothing ends where nothing was ever forgotten.
        prior = rows[context[1:]] if context else [*[Fraction(1, n_symbols)] * n_symbols, Fraction(0)]
        total = int(own.sum()) + 1
        rows[context] = [(int(n) + p) / total for n, p in zip(own, prior, strict=True)]
    return rows


def _numbers(counts: Counts, n_symbols: int, class_: str | None = None, fold: int | None = None) -> dict[Context, I64]:
    """What was counted, over all classes and folds or for one."""
    numbers: dict[Context, I64] = defaultdict(lambda: np.zeros(n_symbols + 1, dtype=np.int64))
    for (its_class, its_fold, context, symbol), n in counts.follows.items():
        if class_ in (None, its_class) and fold in (None, its_fold):
            numbers[context][symbol] += n
    for (its_class, its_fold, context), n in counts.ends.items():
        if class_ in (None, its_class) and fold in (None, its_fold):
            numbers[context][n_symbols] += n
    return dict(numbers)


def _added(parts: Iterable[Numbers]) -> dict[Context, I64]:
    total: dict[Context, I64] = {}
    for part in parts:
        for context, own in part.items():
            total[context] = own if context not in total else total[context] + own
    return total


def _loss_left_out(folds: list[dict[Context, I64]], order: int, n_symbols: int) -> float:
    """The mean log loss of each fold's next symbols under the tree of the others."""
    loss, n = 0.0, 0
    for number, left_out in enumerate(folds):
        others = _added(fold for i, fold in enumerate(folds) if i != number)
        rows = smoothed(by_suffix(others), kept_contexts(others, order, n_symbols), n_symbols)
        logs = {context: [math.log(p) if p else -math.inf for p in row] for context, row in rows.items()}
        for context, own in left_out.items():
            told = logs[_longest(context, logs)]
            for symbol in np.flatnonzero(own).tolist():
                # An end of a word where none was ever seen has no probability: it counts as one in a million.
                loss -= int(own[symbol]) * max(told[symbol], math.log(1e-6))
            n += int(own.sum())
    return loss / n


def _longest(context: Context, known: Mapping[Context, object]) -> Context:
    while context not in known:
        context = context[1:]
    return context
