"""What a forecast expects after one event: how likely the pattern is, when, and which symbols may come next.

A forecast is one number; the next symbols say why: what followed the entity's last events in the history, how likely
each is now, and how likely the pattern is within the horizon once it has come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from wayeb_py.arrays import I64
from wayeb_py.compiler.axes import Subject
from wayeb_py.engine.stepping.encode import Encoder
from wayeb_py.engine.values import Chunk, Values
from wayeb_py.forecast.forecaster import interval_ticks
from wayeb_py.forecast.tables import ForecastTables, chain_of

AtPlace = Callable[[Subject], Subject]  # what is asked of an event and a place, of one place
MOST_SHOWN = 6
LEAST_SHOWN = 0.005  # rarer symbols are left out


@dataclass(frozen=True, slots=True)
class NextSymbol:
    """Events of one kind: how likely the next event is one, and the pattern after it; `detects`: how likely that event
    completes the pattern."""

    text: str
    probability: float
    detects: float
    afterwards: float  # the probability of the pattern within a horizon from that event on


@dataclass(frozen=True, slots=True)
class Expected:
    """A forecast at one event; the interval is in ticks from it, or in events, and missing where none holds enough."""

    pattern: str
    horizon: str
    probability: float
    first: int | None
    last: int | None
    in_events: bool
    confidence: float
    symbols: tuple[NextSymbol, ...]


def expected_after(
    tables: ForecastTables, values: Values, chunk: Chunk, begin: int, row: int, at: AtPlace | None = None
) -> Expected:
    """What the model of all classes together expects after a row of a chunk, whose word begins at another one; of a
    pattern `for each` place `at` one of them."""
    node = 0
    for symbol in _symbols(tables, values, chunk, at)[begin : row + 1].tolist():
        node = int(tables.nodes.next_node[node, symbol])
    chain = chain_of(tables.model, tables.nodes)
    texts, after = tables.model.automaton.symbol_texts(), chain.next_node[node]
    likely = np.argsort(-chain.probability[node], kind="stable")[:MOST_SHOWN]
    symbols = tuple(
        NextSymbol(
            texts[symbol], float(chain.probability[node, symbol]), float(chain.detection[after[symbol]]),
            float(tables.probability[0, after[symbol]]),
        )
        for symbol in likely.tolist()
        if chain.probability[node, symbol] >= LEAST_SHOWN
    )  # fmt: skip
    first, last, horizon = tables.first[0, node : node + 1], tables.last[0, node : node + 1], tables.horizon
    has_interval = bool(first[0] >= 0)
    if has_interval and horizon.seconds is not None:
        first, last = interval_ticks(first, last, horizon.seconds, chunk.ticks_per_s, horizon.n_steps)
    return Expected(
        tables.model.automaton.name, horizon.text, float(tables.probability[0, node]),
        int(first[0]) if has_interval else None, int(last[0]) if has_interval else None, horizon.seconds is None,
        tables.confidence, symbols,
    )  # fmt: skip


def _symbols(tables: ForecastTables, values: Values, chunk: Chunk, at: AtPlace | None) -> I64:
    """The symbol of each event of a chunk."""
    automaton = tables.model.automaton
    code = np.zeros(len(chunk.ts), dtype=np.uint16)
    sizes = [axis.n_cells for axis in automaton.axes]
    for nth, axis in enumerate(automaton.axes):
        subject = axis.subject if at is None else at(axis.subject)
        Encoder(axis).add(values.column(subject, chunk), prod(sizes[nth + 1 :]), code)
    found: I64 = automaton.symbol_of_cell.ravel()[code]
    return found
