"""The operators that follow the clock of a file, and the clock: made where a file has silences, pairs or rules."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from wayeb_py.compiler.patterns import CompiledPatterns, StreamPart
from wayeb_py.compiler.rule_inputs import members_of
from wayeb_py.engine.arrival.file_clock import FileClock
from wayeb_py.engine.operator import ClockOperator, Operator
from wayeb_py.engine.silence import SilenceRecogniser

if TYPE_CHECKING:
    from wayeb_py.engine.pairs.share import PairShare
    from wayeb_py.engine.rules.operator import RuleOperator


def make_clock(
    parts: Mapping[str, StreamPart], orders: Mapping[str, str], not_held: Collection[str] = ()
) -> FileClock:
    """The clock over the streams of a file, each in its own order; for some streams only the times count."""
    return FileClock(parts, {name: order == "sorted" for name, order in orders.items()}, not_held)


def clocked_operators(
    patterns: CompiledPatterns, episodes: bool, workers: int, share: PairShare | None = None
) -> tuple[ClockOperator, ...]:
    """The silences of each stream, then the pairs; those that rules read are among them, reported or not."""
    operators: list[ClockOperator] = []
    rules = patterns.meaning.rules
    by_clock = any(member.over == "episodes" for rule in rules for member in members_of(rule))
    if rules:
        patterns = patterns.for_rules
    is_only = len(patterns.meaning.streams) == 1
    for name, part in patterns.by_stream.items():
        if part.silent is not None:
            operators.append(SilenceRecogniser(part.silent, name, is_only))
    if any(pattern.pair is not None for pattern in patterns.meaning.patterns):
        from wayeb_py.engine.pairs.operator import PairOperator  # for start-up time: its kernels are many

        whole = episodes or by_clock
        operators.append(PairOperator(patterns, episodes=whole, workers=workers, by_clock=by_clock, share=share))
    return tuple(operators)


def rule_operator(
    patterns: CompiledPatterns,
    clocked: Sequence[ClockOperator],
    plans: Mapping[str, str] | None,
    reported: Mapping[str, Operator],
    elsewhere: Collection[str] = (),
) -> RuleOperator | None:
    """The operator of a file's rules, which reads what the others find; None where there are none.

    `reported` are the operators of streams, by the patterns whose detections rules take as they are reported;
    the rules `elsewhere` only make their rows.
    """
    if not patterns.meaning.rules:
        return None
    from wayeb_py.engine.rules.operator import RuleOperator  # for start-up time: its kernels are many

    finders: dict[str, Operator] = dict(reported)
    for one in clocked:
        if isinstance(one, SilenceRecogniser):
            finders |= dict.fromkeys(one.patterns.names, one)
        else:
            finders |= {p.name: one for p in patterns.meaning.patterns if p.pair is not None}
    return RuleOperator(patterns, finders, plans, elsewhere)
