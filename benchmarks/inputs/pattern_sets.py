"""Makes many distinct patterns for the benchmarks, each as text and as the formula that checks it.

`forty_eight()` are eight variants of each of the six fleet patterns; `thousand()` are 667 sequences and iterations and
333 with groups, unions, policies or complement. They are enumerated, not drawn: no two are the same, and none has the
detections of another whatever the events (`a{3,}` and `a{3}` would), which the engine confirms. The last letter of the
patterns that skip is rare, as in real patterns; otherwise the benchmark would measure how fast detections are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, cycle, islice, product

import numpy as np

from benchmarks.references.boundary_sets import Formula, Test, either, in_turn, letter, run_of, times

STREAM = """stream vehicles {
    key  vehicle_id
    time ts
    attr status       text
    attr ignition     bool
    attr speed        number in km/h
    attr travelled    number in m
    attr satellites   number
    attr accelerating bool
    attr fuel         number
}
"""


@dataclass(frozen=True, slots=True)
class PatternPart:
    """A piece of a pattern: how it is written and the formula it must agree with."""

    text: str
    formula: Formula


@dataclass(frozen=True, slots=True)
class Predicate:
    """A letter's condition: as it is written, and as a test on numpy columns in which missing is NaN or the code -1."""

    text: str
    test: Test

    def __and__(self, other: Predicate) -> Predicate:
        return Predicate(f"{self.text} and {other.text}", lambda c: self.test(c) & other.test(c))

    def part(self) -> PatternPart:
        return PatternPart(f"({self.text})", letter(self.test))


ANYTHING: Test = lambda c: np.ones(len(c["speed"]), np.bool_)  # noqa: E731

PARKED, IDLE, MOVING = (
    Predicate(f'status = "{name}"', lambda c, code=code: c["status"] == code)  # type: ignore[misc]
    for code, name in enumerate(("parked", "idle", "moving"))
)
STATUSES = (PARKED, IDLE, MOVING)
OFF = Predicate("ignition = false", lambda c: c["ignition"] == 0)
ACCELERATING = Predicate("accelerating = true", lambda c: c["accelerating"] == 1)


def above(column: str, bound: float) -> Predicate:
    return Predicate(f"{column} > {bound:g}", lambda c: c[column] > bound)


def below(column: str, bound: float) -> Predicate:
    return Predicate(f"{column} < {bound:g}", lambda c: c[column] < bound)


def equal(column: str, value: float) -> Predicate:
    return Predicate(f"{column} = {value:g}", lambda c: c[column] == value)


def silent(minutes: int) -> Predicate:
    return Predicate(f"elapsed() > {minutes} min", lambda c: c["elapsed_s"] > minutes * 60)


def sequence(*parts: PatternPart) -> PatternPart:
    return PatternPart(" ; ".join(part.text for part in parts), in_turn(*(part.formula for part in parts)))


def letters(*predicates: Predicate) -> PatternPart:
    return sequence(*(predicate.part() for predicate in predicates))


def at_least(predicate: Predicate, n: int) -> PatternPart:
    """`R{n,}` alone is detected exactly where n in a row are."""
    return PatternPart(f"({predicate.text}){{{n},}}", times(letter(predicate.test), n))


def plus(predicate: Predicate) -> PatternPart:
    return PatternPart(f"({predicate.text})+", in_turn(letter(predicate.test), run_of(predicate.test)))


def group(body: PatternPart, n: int) -> PatternPart:
    return PatternPart(f"({body.text}){{{n}}}", times(body.formula, n))


def union(*parts: PatternPart) -> PatternPart:
    return PatternPart("(" + " | ".join(part.text for part in parts) + ")", either(*(part.formula for part in parts)))


def skip_any(*predicates: Predicate) -> PatternPart:
    steps = [letter(predicates[0].test)]
    for predicate in predicates[1:]:
        steps += [run_of(ANYTHING), letter(predicate.test)]
    return PatternPart("#(" + ", ".join(f"({p.text})" for p in predicates) + ")", in_turn(*steps))


def skip_next(*predicates: Predicate) -> PatternPart:
    steps = [letter(predicates[0].test)]
    for predicate in predicates[1:]:
        steps += [run_of(lambda c, test=predicate.test: ~test(c)), letter(predicate.test)]  # type: ignore[misc]
    return PatternPart("@(" + ", ".join(f"({p.text})" for p in predicates) + ")", in_turn(*steps))


def nowhere(predicate: Predicate) -> PatternPart:
    """Sequences in which the predicate holds at no event, written as a complement."""
    return PatternPart(f"!(any* ; ({predicate.text}) ; any*)", run_of(lambda c: ~predicate.test(c)))


def forty_eight() -> dict[str, PatternPart]:
    """Eight variants of each of the six fleet patterns, by name."""
    patterns: dict[str, PatternPart] = {}
    for i in range(8):
        gap = silent(30 + 2 * i) & OFF
        patterns[f"Route{i}"] = sequence(gap.part(), plus(MOVING), gap.part())
        fast, far = above("speed", 15 + 10 * i), above("travelled", 20 + 10 * i)
        patterns[f"ParkedMovingSwing{i}"] = letters(PARKED, MOVING & fast, PARKED, MOVING)
        patterns[f"IdleParkedSwing{i}"] = letters(IDLE, PARKED, IDLE, PARKED & below("satellites", 5 + i))
        still = equal("speed", 0)
        patterns[f"SpeedSwing{i}"] = letters(above("speed", 40 + 5 * i), still, above("speed", 40 + 5 * i), still)
        patterns[f"MovingWithZeroSpeed{i}"] = at_least(MOVING & still & far, 3)
        patterns[f"MovingWithBadSignal{i}"] = at_least(ACCELERATING & equal("satellites", 0) & far, 3)
    return patterns


def first_of(n: int) -> dict[str, PatternPart]:
    """The first of the forty-eight: one variant of all six, then the next."""
    return dict(islice(forty_eight().items(), n))


def replicated(n: int) -> dict[str, PatternPart]:
    """The first variant of the six, each as often as it takes: the same patterns under other names."""
    return {f"{name[:-1]}Copy{i // 6}": part for i, (name, part) in enumerate(islice(cycle(first_of(6).items()), n))}


def _plain() -> Iterator[PatternPart]:
    for fast, slow in product(range(45, 105, 5), range(5, 35, 5)):
        yield letters(above("speed", fast), below("speed", slow), above("speed", fast), below("speed", slow))
    for slow, far, n in product(range(2, 14, 2), range(100, 1000, 100), (3, 4)):
        yield at_least(below("speed", slow) & above("travelled", far), n)
    for outer, inner, fast in product(STATUSES, STATUSES, range(10, 90, 10)):
        if outer is not inner:
            yield letters(outer, inner & above("speed", fast), outer)
    for fast, n in product(range(60, 120, 5), (8, 9, 10, 11)):
        yield at_least(ACCELERATING & above("speed", fast), n)
    for few, far, n in product((5, 6, 7), range(100, 1000, 100), (5, 6)):
        yield at_least(below("satellites", few) & above("travelled", far), n)
    for minutes, fast in product((35, 38, 41, 44, 47), range(10, 70, 5)):
        yield letters(silent(minutes) & PARKED, above("speed", fast), above("speed", fast + 5))
    for fuel, fast, slow in product((0.1, 0.15, 0.2, 0.25), range(40, 100, 5), range(5, 35, 5)):
        yield letters(below("fuel", fuel) & above("speed", fast), below("fuel", fuel) & below("speed", slow))


def _composed() -> Iterator[PatternPart]:
    towed = [below("speed", 5) & above("travelled", far) for far in (60, 120, 180, 240, 300)]
    for fast, slow in product(range(50, 100, 5), range(5, 30, 5)):
        yield group(sequence(above("speed", fast).part(), plus(below("speed", slow))), 2)
    for fast, far in product(range(60, 120, 5), range(200, 1200, 200)):
        first = union(letters(above("speed", fast), IDLE), letters(above("travelled", far), PARKED))
        yield sequence(first, letters(ACCELERATING, ACCELERATING))
    for fast, few, tow in product(range(50, 130, 10), (5, 7, 9), towed[:3]):
        yield skip_any(above("speed", fast), below("satellites", few), tow)
    for fast, tow in product(range(30, 90, 5), towed):
        yield skip_next(PARKED, above("speed", fast), tow)
    for fast, far in product(range(60, 120, 5), (50, 250, 450, 650)):
        lost = equal("satellites", 0) & above("travelled", far)
        yield sequence(above("speed", fast).part(), nowhere(IDLE), lost.part())
    for fast, few in product(range(60, 100, 5), (5, 6, 7, 8)):
        runs, seen = ACCELERATING & above("speed", fast), below("satellites", few)
        both = times(letter(lambda c, runs=runs, seen=seen: runs.test(c) & ~seen.test(c)), 7)  # type: ignore[misc]
        yield PatternPart(f"({runs.text}){{7,}} & {nowhere(seen).text}", both)
    for fast, slow in product(range(50, 110, 10), range(5, 25, 5)):
        either_way = union(letters(above("speed", fast), IDLE), letters(IDLE, below("speed", slow)))
        yield sequence(group(either_way, 2), letters(PARKED))


def thousand() -> dict[str, PatternPart]:
    """A thousand patterns by name, a third of them with groups, unions, policies or complement."""
    chosen = chain(islice(_plain(), 667), islice(_composed(), 333))
    return {f"P{i:04}": part for i, part in enumerate(chosen)}


def write_sre(patterns: dict[str, PatternPart]) -> str:
    """The patterns as the text of a .sre file."""
    return STREAM + "\n" + "\n".join(f"pattern {name} := {part.text}" for name, part in patterns.items()) + "\n"
