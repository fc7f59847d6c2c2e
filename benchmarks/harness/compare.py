"""Two records, or two folders of them, become a list of what became slower or faster beyond the noise.

The repeats of both sides show the noise. A change counts when they lie apart (all of one side above all of the other;
with five of each, one pair in the other order is allowed, which chance does once in a hundred times) and the medians
differ by more than the tolerance, which is wider where repeats are few. One repeat of a side decides nothing.
Instruction counts have next to no noise, so there the tolerance alone decides. Times of two machines say nothing about
the code between them: between machines only counts are compared. Yardsticks, such as another engine, are shown and not
judged. Other doubts about a comparison are printed, and left to the reader.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.record import Record, newest_records, read_record

TOLERANCE = 0.05
MANY = 5  # repeats of each side
TOLERANCE_OF_FEW = 0.15
COUNT_TOLERANCE = 0.01
COUNTS = "[instructions]"


@dataclass(frozen=True, slots=True)
class Change:
    """One measurement on both sides; `ratio` is after divided by before, so more than 1 is slower."""

    experiment: str
    what: str
    before: float
    after: float
    beyond_noise: bool
    is_yardstick: bool = False

    @property
    def ratio(self) -> float:
        return self.after / self.before if self.before else float("inf")

    @property
    def verdict(self) -> str:
        if not self.beyond_noise:
            return "same"
        verdict = "slower" if self.ratio > 1 else "faster"
        return f"{verdict}, a yardstick" if self.is_yardstick else verdict


def load(path: Path) -> dict[str, Record]:
    """A record by its file, or the newest of each experiment in a folder."""
    records = newest_records(path) if path.is_dir() else [read_record(path)]
    return {record.experiment: record for record in records}


def compare(before: dict[str, Record], after: dict[str, Record]) -> list[Change]:
    """What both sides measured, in the order of the first."""
    changes = []
    for name, old in before.items():
        new = after.get(name)
        if new is None or new.size != old.size:
            continue
        for task, seconds in old.repeats_s.items() if is_same_machine(old, new) else ():
            if seconds and new.repeats_s.get(task):
                changes.append(_compare_repeats(name, task, seconds, new.repeats_s[task], task in old.yardsticks))
        for what, value in old.numbers.items():
            if what.endswith(COUNTS) and what in new.numbers:
                differs = abs(new.numbers[what] - value) > COUNT_TOLERANCE * value
                changes.append(Change(name, what, value, new.numbers[what], differs))
    return changes


def doubts(before: dict[str, Record], after: dict[str, Record]) -> list[str]:
    """What a reader of the comparison must know."""
    told = []
    for name, old in before.items():
        new = after.get(name)
        if new is None:
            told.append(f"{name}: not compared, there is no second record")
            continue
        if new.size != old.size:
            told.append(f"{name}: not compared, {old.size} against {new.size}")
            continue
        gone = [task for task in old.repeats_s if task not in new.repeats_s]
        if gone:
            told.append(f"{name}: no longer measured, {', '.join(gone)}")
        if not is_same_machine(old, new):
            told.append(f"{name}: another machine, only counts are compared")
        if old.disturbed or new.disturbed:
            told.append(f"{name}: other processes disturbed " + ("the first" if old.disturbed else "the second"))
        others = [
            f"{package} {old.versions[package]} and {new.versions[package]}"
            for package in old.versions
            if new.versions.get(package, old.versions[package]) != old.versions[package]
        ]
        if others:
            told.append(f"{name}: other versions, {', '.join(others)}")
    return told


def is_same_machine(one: Record, other: Record) -> bool:
    return all(one.machine.get(fact) == other.machine.get(fact) for fact in ("processor", "cores"))


def _compare_repeats(
    experiment: str, what: str, before: list[float], after: list[float], is_yardstick: bool
) -> Change:
    middle_before, middle_after = statistics.median(before), statistics.median(after)
    least = min(len(before), len(after))
    tolerance, n_allowed = (TOLERANCE, 1) if least >= MANY else (TOLERANCE_OF_FEW, 0)
    n_above = sum(later > earlier for earlier in before for later in after)
    apart = least > 1 and min(n_above, len(before) * len(after) - n_above) <= n_allowed
    differs = abs(middle_after - middle_before) > tolerance * middle_before
    return Change(experiment, what, middle_before, middle_after, apart and differs, is_yardstick)
