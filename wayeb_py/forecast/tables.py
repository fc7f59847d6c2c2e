"""A model and a horizon become tables: for each class and node the probability and the interval of a forecast.

They are made once, before the first event: at run time a forecast is a look-up. A horizon in time is cut into
`N_STEPS` steps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from wayeb_py.arrays import F64, I64
from wayeb_py.compiler.patterns import CompiledPatterns
from wayeb_py.errors import LimitError
from wayeb_py.files.projection import Need
from wayeb_py.forecast.chain import Chain, Nodes, make_chain
from wayeb_py.forecast.contexts import grow_tree
from wayeb_py.forecast.gaps import Rounding, gap_steps
from wayeb_py.forecast.model import Model
from wayeb_py.forecast.waiting_times import smallest_intervals, wait_in_events, wait_in_time
from wayeb_py.time_texts import read_duration_s

_EVENTS = re.compile(r"\s*(\d+)\s*events?\s*")
MOST_EVENTS = 10_000
USUAL_CONFIDENCE = 0.7
N_STEPS = 60
MOST_NUMBERS = 40_000_000  # size of one table while it is made: nodes by symbols by steps
MOST_CLASSES = 200
SEEN_ENOUGH = 100  # events of a class that has tables of its own


@dataclass(frozen=True, slots=True)
class Horizon:
    """How far a forecast looks: a time, or a number of events; one of them is None."""

    seconds: Fraction | None = None
    events: int | None = None
    text: str = ""

    @classmethod
    def parse(cls, text: str) -> Horizon:
        """`30min` or `10 events`; ValueError says what is wrong with another text."""
        if match := _EVENTS.fullmatch(text):
            if not 0 < int(match[1]) <= MOST_EVENTS:
                raise ValueError(f"{text}: a forecast looks at 1 to {MOST_EVENTS:,} events")
            return cls(events=int(match[1]), text=f"{match[1]} events")
        seconds = read_duration_s(text)
        if not seconds:
            raise ValueError(f"{text} leaves nothing to look at")
        return cls(seconds=seconds, text=text.strip())

    @property
    def n_steps(self) -> int:
        return N_STEPS if self.events is None else self.events


@dataclass(frozen=True, slots=True)
class ForecastTables:
    """What a forecast looks up; row 0 of every table is for all classes together, the others are `classes` in order.

    `first` and `last` are steps of the horizon, or numbers of events, and -1 where no interval holds enough.
    """

    model: Model
    horizon: Horizon
    confidence: float
    nodes: Nodes
    classes: tuple[str, ...]
    wait: F64  # [class, node, step]
    probability: F64  # [class, node]
    first: I64  # [class, node]
    last: I64  # [class, node]


def make_tables(model: Model, horizon: Horizon, confidence: float) -> ForecastTables:
    """The tables of a model; LimitError where they would be too large."""
    nodes = model.nodes()
    n_symbols = model.automaton.n_symbols
    n_numbers = len(nodes) * n_symbols * (horizon.n_steps + 1)
    if n_numbers > MOST_NUMBERS:
        raise LimitError(
            f"the tables of `{model.automaton.name}` are too large: {len(nodes):,} nodes (states by contexts), "
            f"{n_symbols:,} symbols, {horizon.n_steps:,} steps",
            given=f"{n_numbers:,} numbers",
            limit=f"{MOST_NUMBERS:,} numbers",
            knob="learn with a smaller --order, or forecast fewer events ahead",
        )
    seen: dict[str, int] = {}
    for (class_, _, _, _), n in model.counts.follows.items():
        seen[class_] = seen.get(class_, 0) + n
    often = sorted(
        (class_ for class_, n in seen.items() if n >= SEEN_ENOUGH), key=lambda class_: (-seen[class_], class_)
    )
    classes = tuple(sorted(often[:MOST_CLASSES])) if model.by is not None else ()
    wait = np.stack([waits(model, nodes, horizon, class_) for class_ in (None, *classes)])
    found = [smallest_intervals(of_class, confidence) for of_class in wait]
    return ForecastTables(
        model, horizon, confidence, nodes, classes, wait, np.minimum(wait.sum(axis=2), 1.0),
        np.stack([first for first, _ in found]), np.stack([last for _, last in found]),
    )  # fmt: skip


def chain_of(model: Model, nodes: Nodes, class_: str | None = None) -> Chain:
    """The Markov chain of a model, for one class or for all together."""
    tree = grow_tree(model.counts, model.choice.contexts, model.automaton.n_symbols, class_)
    return make_chain(nodes, tree, model.detection_of_state())


def waits(model: Model, nodes: Nodes, horizon: Horizon, class_: str | None = None, rounding: Rounding = "mean") -> F64:
    """wait[node, step] of a class, or of all together."""
    chain = chain_of(model, nodes, class_)
    if horizon.events is not None:
        return wait_in_events(chain, horizon.events)
    assert horizon.seconds is not None
    step_ms = float(horizon.seconds) * 1000 / N_STEPS
    gaps = gap_steps(model.counts, model.automaton.n_symbols, step_ms, N_STEPS, class_, rounding)
    return wait_in_time(chain, gaps)


def grid_error(model: Model, horizon: Horizon) -> float:
    """An upper bound on the error that the time grid adds to a probability, over all classes;
    0 for a horizon in events."""
    if horizon.events is not None:
        return 0.0
    nodes = model.nodes()
    lowest, mean, highest = (
        waits(model, nodes, horizon, rounding=rounding).sum(axis=1) for rounding in ("highest", "mean", "lowest")
    )
    return float(np.maximum(highest - mean, mean - lowest).max())


def without_rules(patterns: CompiledPatterns) -> CompiledPatterns:
    """The patterns alone: nothing is forecast of rules, and nothing that is forecast reads them."""
    return patterns.select(patterns.names) if patterns.meaning.rules else patterns


def reading_also(patterns: CompiledPatterns, *columns: str | None) -> CompiledPatterns:
    """The patterns, whose events must have these columns as well."""
    known = {need.column for need in patterns.needs}
    wanted = dict.fromkeys(column for column in columns if column is not None and column not in known)
    if not wanted:
        return patterns
    return replace(patterns, needs=(*patterns.needs, *(Need(column, None, "emit") for column in wanted)))
