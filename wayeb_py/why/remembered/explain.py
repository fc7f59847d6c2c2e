"""Why a pattern that remembers events was detected at an event, or how far it got and which comparison failed.

For a match, it shows each event with the letter that read it, its name, and the values that the letter used, including
those of named events and of the match so far. Otherwise it shows the way that came closest, the event that stopped it,
and what should have held.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wayeb_py.compiler.automata.regex import letters_of
from wayeb_py.compiler.axes import Axis, atoms_of, subject_of
from wayeb_py.compiler.describe import cells_text, letter_text, predicate_text, subject_text
from wayeb_py.compiler.runs.registers import marked
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.named_events import OfRegister, remembers
from wayeb_py.dsl.walk import walk
from wayeb_py.errors import Span
from wayeb_py.why.event_values import measured, missed_by, value_text, values_at
from wayeb_py.why.explanation import Miss, SeenEvent, Stop
from wayeb_py.why.pattern_events import PatternEvents
from wayeb_py.why.readings import Read, Readings
from wayeb_py.why.remembered.ways import Ended, Way, WayFollower
from wayeb_py.why.shortfall import nearest


@dataclass(frozen=True, slots=True)
class Closest:
    """The way that came closest: its text, how many steps it has, and what stopped it."""

    text: str
    way: Way | None = None
    steps: int = 0
    stop: Stop | None = None


class WayExplainer:
    """Explains the ways of one pattern."""

    def __init__(self, over: PatternEvents) -> None:
        self._over = over
        self.follower = WayFollower(over)
        self._regex = marked(over.pattern)
        self._letter_at: dict[Span, m.Letter] = {letter.span: letter for letter in letters_of(over.pattern.regex)}

    def follow(self, begin: int, row: int) -> Ended:
        """What became of all ways at a row."""
        return self.follower.follow(begin, row, self._over.room(begin, row + 1))

    # A match, or the beginning of one.

    def seen(self, way: Way, is_whole: bool) -> tuple[SeenEvent, ...]:
        """The events that a way has taken, each with the letter that read it."""
        steps = way.steps()
        by_event: dict[int, list[Read]] = {}
        for read in self._read(steps, is_whole):
            by_event.setdefault(read.event, []).append(read)
        return tuple(self._event(step, by_event.get(nth, [])) for nth, step in enumerate(steps))

    def _read(self, steps: list[Way], is_whole: bool) -> list[Read]:
        values = self.follower.values
        predicates = {letter.predicate for letter in letters_of(self._regex)} | {m.Always()}
        holds = {
            predicate: [
                values.holds(predicate, step.row, _known_before(step), step.start, step.marks) for step in steps
            ]
            for predicate in predicates
        }
        readings = Readings(holds, len(steps))
        if is_whole:
            return readings.read(self._regex, 0, len(steps))
        return readings.read_beginning(self._regex, 0, len(steps)) or []

    def _event(self, step: Way, reads: list[Read]) -> SeenEvent:
        words = self._over.words
        letters = [self._letter_at.get(read.as_.span) for read in reads if isinstance(read.as_, m.Letter)]
        known = [letter for letter in letters if letter is not None]
        texts = [self._letter_text(letter) for letter in known]
        if len(known) < len(letters):
            texts.append("any")
        passed = ["between"] if any(isinstance(read.as_, m.Complement) for read in reads) else []
        shown: dict[str, str] = {}
        for letter in known:
            shown |= self._values(letter.predicate, step)
        return SeenEvent(
            int(words.chunk.seq[step.row]), words.time_text(step.row), tuple(dict.fromkeys(texts)), shown,
            tuple(passed) if not texts else (),
        )  # fmt: skip

    def _letter_text(self, letter: m.Letter) -> str:
        text = letter_text(letter)
        is_told = letter.register is None or text.endswith(f" as {letter.register}")
        return text if is_told else f"{text} as {letter.register}"

    def _values(self, predicate: m.Predicate, step: Way) -> dict[str, str]:
        words, shown = self._over.words, dict[str, str]()
        for atom in atoms_of(predicate):
            if not remembers(atom):
                shown |= {subject_text(s): value_text(words, s, step.row) for s in measured(subject_of(atom))}
                continue
            shown |= self._own_values(atom, step.row)
            shown |= self.follower.values.texts(atom, step.row, _known_before(step), step.start)
        return shown

    def _own_values(self, test: m.Predicate, row: int) -> dict[str, str]:
        """The values of the event itself that a test compares with those of others."""
        found: dict[str, str] = {}
        waiting: list[Any] = [test]
        while waiting:
            part = waiting.pop(0)
            match part:
                case m.Compare(_, left, right):
                    waiting += [left, right]
                case m.Missing(operand):
                    waiting.append(operand)
                case m.Arithmetic(_, operands) if any(isinstance(one, m.Measure | OfRegister) for one in walk(part)):
                    waiting += operands
                case m.Constant() | m.At() | m.ElapsedSince() | m.DistanceFrom() | m.Measure():
                    pass
                case _:
                    found[subject_text(part)] = value_text(self._over.words, part, row)
        return found

    # No match.

    def closest(self, row: int, ended: Ended) -> Closest:
        """The way that came closest to a match, and what stopped it or what it waits for."""
        over, automaton = self._over, self._over.automaton
        left = automaton.steps_left
        ranked = [
            *((left(way.state), 1, -way.start, way) for way in ended.stopped),
            *((left(way.state), 0, -way.start, way) for way in ended.alive),
        ]
        if not ranked:
            return Closest("no sequence of events matches this pattern")
        way = min(ranked, key=lambda one: one[:3])[3]
        length = automaton.length
        steps = max(0, length - left(way.state))
        how_far = f"{steps} of at least {length} {'step' if length == 1 else 'steps'}"
        if way.row == row:
            return Closest(f"{how_far} by {over.words.time_text(row)}; the match may still go on", way, steps)
        stop = self._stop(way)
        met = "" if stop.is_late else f"the event of {stop.ts} did not fit: "
        return Closest(f"{how_far}; {met}{stop.text}", way, steps, stop)

    def _stop(self, way: Way) -> Stop:
        over, words, row = self._over, self._over.words, way.row + 1
        seq, ts = int(words.chunk.seq[row]), words.time_text(row)
        room = over.room(0, row + 1)
        if room.is_late(way.start, row):
            ended = f"the window ended at {over.window_end(way.start)}"
            return Stop(seq, ts, "the rest of the match", (), False, window=ended, is_late=True)
        follower, tests = self.follower, self.follower.memory.tests
        axes = (*over.compiled.axes, *(Axis(test, "flags") for test in tests))
        cells = (*over.cells[:, row].tolist(), *(int(answer) for answer in follower.answers(way, row)))
        allowed = follower.allowed(way.state, room.left(way.start, row))
        which, needed, all_needed = nearest(allowed, cells, axes)
        misses = tuple(self._miss(axes[axis], own, way, row) for axis, own in zip(which, needed, strict=True))
        return Stop(seq, ts, " or ".join(dict.fromkeys(miss.needed for miss in misses)), misses, all_needed)

    def _miss(self, axis: Axis, cells: list[int], way: Way, row: int) -> Miss:
        words, test = self._over.words, axis.subject
        if not isinstance(test, m.Predicate) or not remembers(test):
            needed = cells_text(axis, cells)
            return Miss(subject_text(test), values_at(words, test, row, self._over.names), needed,
                        missed_by(words, axis, cells, row))  # fmt: skip
        values = self._own_values(test, row) | self.follower.values.texts(test, row, dict(way.named), way.start)
        (subject, value), *others = values.items() if values else [("the event", "another")]
        told = ", ".join([value, *(f"{name} {text}" for name, text in others)])
        text = predicate_text(test)
        return Miss(subject, told, text if 1 in cells else f"not {text}", None)


def _known_before(step: Way) -> dict[str, int]:
    """The rows that were named before an event was read."""
    return {} if step.before is None else dict(step.before.named)
