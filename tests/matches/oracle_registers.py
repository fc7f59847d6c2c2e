"""What a regex with named events holds, straight from the definition: every way through it, with what each way names.

From a start and an environment, the events that names stand for so far, a regex leads to ends, each with the
environment that the way to it leaves. A letter asks its predicate in the environment before it, and then names its
event. `!` leads to every end that its body does not lead to, and leaves the environment as it was. `&` leads to the
ends that all its sides lead to, with what each of them names. The match so far is from the start of the whole match.

All ways are followed, so that the time is exponential in the number of events: words are short.
"""

from __future__ import annotations

from fractions import Fraction

from tests import oracle
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.walk import walk

Environment = frozenset[tuple[str, int]]
Ends = frozenset[tuple[int, Environment]]


def has_registers(regex: m.Regex) -> bool:
    """Whether letters use more than their event."""
    asked = m.At | m.ElapsedSince | m.DistanceFrom | m.Measure
    return any(isinstance(part, asked) or getattr(part, "register", None) is not None for part in walk(regex))


def spans(regex: m.Regex, word: oracle.Word) -> oracle.Spans:
    """The spans of the word that are in a regex: ends[i] has bit j iff w[i:j] is one of them."""
    found = []
    for start in range(len(word)):
        ends = 0
        for end, _ in Ways(word, start).ends(regex, start, frozenset()):
            ends |= 1 << end
        found.append(ends)
    return (*found, 0)


class WordSoFar(oracle.Word):
    """A word at an event of a match: what names stand for, and where the match began."""

    def __init__(self, word: oracle.Word, named: Environment, start: int) -> None:
        super().__init__(word.columns, word.arrived, word.settings)
        self._named, self._start = dict(named), start

    def type_of(self, value: m.Value) -> oracle.Column:
        match value:
            case m.At(operand=operand):
                return super().type_of(operand)
            case m.ElapsedSince() | m.Measure(function="duration"):
                return oracle.EXACT
            case m.Measure(function="first" | "min" | "max", operand=operand):
                assert isinstance(operand, m.Value)
                return super().type_of(operand)
            case _:
                return super().type_of(value)

    def _value(self, value: m.Value, k: int) -> oracle.Cell:
        match value:
            case m.At(register=name, operand=operand):
                return self.value(operand, self._named[name])
            case m.ElapsedSince(register=name):
                return self.time_s(k) - self.time_s(self._named[name])
            case m.DistanceFrom(register=name):
                return self._metres(k, *self._position(self._named[name]))
            case m.Measure():
                return self._so_far(value, k)
            case _:
                return super()._value(value, k)

    def _so_far(self, measure: m.Measure, k: int) -> oracle.Cell:
        events, operand = range(self._start, k + 1), measure.operand
        match measure.function:
            case "duration":
                return Fraction(self.time_s(k) - self.time_s(self._start))
            case "first":
                assert isinstance(operand, m.Value)
                return self.value(operand, self._start)
            case "min" | "max":
                assert isinstance(operand, m.Value)
                values = [value for at in events if (value := self.value(operand, at)) is not None]
                choose = min if measure.function == "min" else max
                return choose(values) if values else None
            case _:
                return self.measure(measure, events)


class Ways:
    """The ways through a regex from one start."""

    def __init__(self, word: oracle.Word, start: int) -> None:
        self._word, self._start = word, start
        self._known: dict[tuple[int, int, Environment], Ends] = {}

    def ends(self, regex: m.Regex, at: int, named: Environment) -> Ends:
        """Where ways through a regex from an event on end, and what is named then."""
        key = (id(regex), at, named)
        if key not in self._known:
            self._known[key] = self._ends(regex, at, named)
        return self._known[key]

    def _ends(self, regex: m.Regex, at: int, named: Environment) -> Ends:
        match regex:
            case m.Letter():
                if at == len(self._word) or not WordSoFar(self._word, named, self._start).holds(regex.predicate, at):
                    return frozenset()
                after = named if regex.register is None else _with(named, {regex.register: at})
                return frozenset({(at + 1, after)})
            case m.Sequence():
                return self._in_turn(regex.parts, at, named)
            case m.Union():
                return frozenset().union(*(self.ends(part, at, named) for part in regex.parts))
            case m.Intersection():
                return self._together(regex.parts, at, named)
            case m.Complement():
                inside = {end for end, _ in self.ends(regex.body, at, named)}
                return frozenset((end, named) for end in range(at, len(self._word) + 1) if end not in inside)
            case m.Iteration():
                return self._repeated(regex, at, named)
            case m.SkipAny() | m.SkipNext():
                steps = [regex.parts[0]]
                for part in regex.parts[1:]:
                    between = m.Sequence((EVERYTHING, part, EVERYTHING))
                    steps += [EVERYTHING if isinstance(regex, m.SkipAny) else _kept(m.Complement(between)), part]
                return self._in_turn(tuple(steps), at, named)
        raise AssertionError(f"not a regex: {regex}")

    def _in_turn(self, parts: tuple[m.Regex, ...], at: int, named: Environment) -> Ends:
        ends: Ends = frozenset({(at, named)})
        for part in parts:
            ends = frozenset().union(*(self.ends(part, *end) for end in ends))
        return ends

    def _together(self, parts: tuple[m.Regex, ...], at: int, named: Environment) -> Ends:
        found: Ends = self.ends(parts[0], at, named)
        for part in parts[1:]:
            own = {letter.register for letter in walk(part) if isinstance(letter, m.Letter)}
            found = frozenset(
                (end, _with(one, {name: event for name, event in other if name in own}))
                for end, one in found
                for other_end, other in self.ends(part, at, named)
                if end == other_end
            )
        return found

    def _repeated(self, regex: m.Iteration, at: int, named: Environment) -> Ends:
        power: Ends = frozenset({(at, named)})
        for _ in range(regex.at_least):
            power = frozenset().union(*(self.ends(regex.body, *end) for end in power))
        total = power
        rounds = regex.at_least
        while power and (regex.at_most is None or rounds < regex.at_most):
            power = frozenset().union(*(self.ends(regex.body, *end) for end in power))
            if regex.at_most is None and power <= total:
                break
            total |= power
            rounds += 1
        return total


EVERYTHING = m.Iteration(m.Letter(m.Always()), 0, None)
_made: dict[m.Regex, m.Regex] = {}


def _kept(regex: m.Regex) -> m.Regex:
    """The same object for equal regexes: what is known of ways is found by it."""
    return _made.setdefault(regex, regex)


def _with(named: Environment, more: dict[str, int]) -> Environment:
    return frozenset({**dict(named), **more}.items())
