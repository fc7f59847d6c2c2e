"""How many rows come at most: `--rate vessels=1000/s` becomes a bound for every table that rules read.

`1000/s` says that at most 1000 rows have their time in any one second; `1000/s,6/min` adds that at most 6 rows of one
key have theirs in any one minute. An event makes at most one detection of a pattern of one entity, or with `for each`
one for each place. No rate of events says how many pairs an event is in, or how many facts stand while a stream changes
them: `--rate Rendezvous=5/min` and `--rate listed=200` (at most 200 at a time) do.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from typing import TYPE_CHECKING

from wayeb_py.dsl import meaning as m
from wayeb_py.errors import UsageError
from wayeb_py.time_texts import read_duration_s

if TYPE_CHECKING:
    from wayeb_py.compiler.patterns import CompiledPatterns

_RATE = re.compile(r"\s*(\d[\d_]*)\s*(?:/\s*(\d[^,]*|[a-z]+)\s*)?")


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `n` rows have their time in any `per_s` seconds; without `per_s`, at most `n` stand at a time.

    `of_key` is the rate of the rows of one key, where it is known.
    """

    n: int
    per_s: Fraction | None = None
    of_key: Rate | None = None

    def within(self, ticks: int, ticks_per_s: int) -> int:
        """The most rows that have their time in a range of `ticks` ticks."""
        if self.per_s is None:
            return self.n
        return self.n * max(0, math.ceil(ticks / (self.per_s * ticks_per_s)))

    def times(self, factor: int) -> Rate:
        """The rate of `factor` times as many rows."""
        return Rate(self.n * factor, self.per_s, None if self.of_key is None else self.of_key.times(factor))


def read_rates(texts: Sequence[str], patterns: CompiledPatterns) -> dict[str, Rate]:
    """`vessels=1000/s` and the like by the names of streams, patterns, rules and facts; UsageError for other text."""
    known = list(_names(patterns))
    found: dict[str, Rate] = {}
    for text in texts:
        name, sign, amount = text.partition("=")
        if not sign and len(patterns.meaning.streams) == 1:
            name, amount = patterns.meaning.stream.name or "", text
        read = [_RATE.fullmatch(one) for one in amount.split(",")]
        if None in read or len(read) > 2:
            raise UsageError(
                f"`--rate {text}` does not say how many rows come",
                hint="write --rate vessels=1000/s, with the rate of one key --rate vessels=1000/s,6/min, or "
                "--rate listed=200 for rows that stand",
            )
        if name not in known:
            near = get_close_matches(name, known, n=1)
            told = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(filter(None, known))}"
            raise UsageError(f"`--rate {text}`: no stream, pattern, rule or table is called `{name}`", hint=told)
        rates = [
            Rate(int(match[1].replace("_", "")), None if match[2] is None else _per_s(match[2], text))
            for match in read
            if match is not None
        ]
        found[name] = replace(rates[0], of_key=rates[1]) if len(rates) > 1 else rates[0]
    return found


def _per_s(text: str, whole: str) -> Fraction:
    try:
        per_s = read_duration_s(text if text[:1].isdigit() else f"1 {text}")
    except ValueError as error:
        raise UsageError(f"`--rate {whole}`: {error}", hint="write --rate vessels=1000/s, or 5/10min") from None
    if not per_s:
        raise UsageError(f"`--rate {whole}` is of no time at all", hint="write --rate vessels=1000/s")
    return per_s


def _names(patterns: CompiledPatterns) -> Iterator[str]:
    meaning = patterns.meaning
    yield from (stream.name or "" for stream in meaning.streams)
    yield from (pattern.name for pattern in meaning.patterns)
    yield from (rule.name for rule in meaning.rules)
    yield from (facts.name for facts in meaning.facts)


def supply_of(
    member: m.Member, patterns: CompiledPatterns, given: Mapping[str, Rate], facts: Mapping[str, int]
) -> Rate | None:
    """The rate of a member's rows; None where nothing gives it. `facts` are the sizes of files."""
    meaning = patterns.meaning
    if member.of in given:
        return given[member.of]
    if member.over == "facts":
        return Rate(facts[member.of]) if member.of in facts else None
    if member.over not in ("detections", "episodes"):
        return None
    pattern = next(one for one in meaning.patterns if one.name == member.of)
    rate = given.get(meaning.stream_of(pattern).name or "")
    if pattern.pair is not None or rate is None:
        return None
    return rate if pattern.each is None else rate.times(patterns.places(pattern.each[1]).shapes.n_places)
