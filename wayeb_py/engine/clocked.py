"""The operators that follow the clock of a file, and the clock: made where a file has silences or pairs."""

from __future__ import annotations

from collections.abc import Mapping

from wayeb_py.compiler.patterns import CompiledPatterns, StreamPart
from wayeb_py.engine.arrival.event_clock import EventClock
from wayeb_py.engine.operator import ClockOperator
from wayeb_py.engine.silence import SilenceRecogniser


def make_clock(parts: Mapping[str, StreamPart], orders: Mapping[str, str]) -> EventClock:
    """The clock over the streams of a file, each in its own order."""
    return EventClock(parts, {name: order == "sorted" for name, order in orders.items()})


def clocked_operators(patterns: CompiledPatterns, episodes: bool, workers: int) -> tuple[ClockOperator, ...]:
    """The silences of each stream, then the pairs."""
    operators: list[ClockOperator] = []
    is_only = len(patterns.meaning.streams) == 1
    for name, part in patterns.by_stream.items():
        if part.silent is not None:
            operators.append(SilenceRecogniser(part.silent, name, is_only))
    if any(pattern.pair is not None for pattern in patterns.meaning.patterns):
        from wayeb_py.engine.pairs.operator import PairOperator  # for start-up time: its kernels are many

        operators.append(PairOperator(patterns, episodes=episodes, workers=workers))
    return tuple(operators)
