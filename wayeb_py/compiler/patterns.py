"""The text of .sre files becomes compiled patterns: read, checked, compiled, reviewed.

`CompiledPatterns` is the result of compiling, and all that the engine needs to know: it neither recognises nor draws
anything. `wayeb_py.Patterns`, which users hold, adds what they can do with patterns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from wayeb_py import dsl
from wayeb_py.compiler.for_each import Runnable, list_runnables
from wayeb_py.compiler.limits import DEFAULT_LIMITS, Limits
from wayeb_py.compiler.needed_columns import needed_columns, reads
from wayeb_py.compiler.pattern import CompiledPattern, compile_pattern
from wayeb_py.compiler.review.patterns import Sense, refuse_unsatisfiable_letters, review, sense_of
from wayeb_py.compiler.rule_inputs import (
    emitted_for_rules,
    patterns_read,
    rule_reads,
    rules_read,
)
from wayeb_py.compiler.streams import asked_of_the_past, closure, names_read, streams_read, with_given_settings
from wayeb_py.dsl import meaning as m
from wayeb_py.errors import DataError, Diagnostic
from wayeb_py.files.projection import Need, Wanted
from wayeb_py.functions import UserFunction
from wayeb_py.spatial.given_places import Given, with_given_places
from wayeb_py.spatial.knowledge import KnowledgeBase

if TYPE_CHECKING:
    from wayeb_py.compiler.automata.product import Group
    from wayeb_py.spatial.index import PlaceIndex


Listener = Callable[[dict[str, Any]], object]
"""Gets a detection of a pattern or a rule as a row."""


@dataclass(frozen=True)
class CompiledPatterns:
    """Compiled patterns; those that mean the same run once: `distinct` holds each meaning with the numbers of its
    patterns."""

    meaning: m.Meaning
    compiled: tuple[CompiledPattern, ...]  # in the order of the file
    distinct: tuple[CompiledPattern, ...]
    numbers_of_distinct: tuple[tuple[int, ...], ...]
    warnings: tuple[Diagnostic, ...]
    needs: tuple[Need, ...]  # the needs of the first stream, or of a larger set of patterns; `by_stream` has all
    functions: dict[str, UserFunction]
    limits: Limits
    longest: bool
    knowledge: KnowledgeBase
    n_hidden: int = 0  # how many patterns, the last ones, run only because others read them, unreported
    hidden_rules: frozenset[str] = frozenset()  # rules that run unreported, because others read them
    timed: tuple[m.Stream, ...] = ()  # streams that others read, in whose units times are counted here as well
    listeners: dict[str, list[Listener]] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def from_source(
        cls,
        source: str | Path | Sequence[Path],
        *,
        key: str | None = None,
        time: str | None = None,
        time_unit: str | None = None,
        functions: Iterable[UserFunction] = (),
        longest: bool = False,
        lateness_s: float | Fraction | Mapping[str, float | Fraction] | None = None,
        forget_after_s: float | Fraction | None = None,
        limits: Limits = DEFAULT_LIMITS,
        outside: bool = False,
        clean: Literal["ais", "gps"] | None = None,
        places: Mapping[str, Given] | None = None,
    ) -> Self:
        """Patterns from the text of a .sre file, from a path, or from several paths.

        `key`, `time` and `time_unit` serve files without a stream block; `lateness_s` (for every stream, or by name),
        `forget_after_s` and `clean` replace what it says. `places` gives declared places or tables another file than
        their own, by name. Raises PatternError with everything that is wrong, or LimitError where a pattern is too
        large.
        """
        if not isinstance(source, str | Path) and not (
            isinstance(source, Sequence) and all(isinstance(path, str | Path) for path in source)
        ):
            raise DataError(
                f"patterns come from text or files, and this is a {type(source).__name__}",
                hint="give the text of a .sre file, its path, or a list of paths",
            )
        if isinstance(source, str) and "\n" not in source and source.endswith(".sre"):
            source = Path(source)
        by_name = {function.name: function for function in functions}
        signatures = {name: function.signature for name, function in by_name.items()}
        meaning = dsl.read(source, functions=signatures, key=key, time=time, time_unit=time_unit, outside=outside)
        meaning = with_given_settings(meaning, lateness_s, forget_after_s, clean)
        meaning = with_given_places(meaning, places or {})
        refuse_unsatisfiable_letters(meaning, limits)
        compiled = compile_all(meaning.patterns, longest, limits)
        warnings = (*meaning.warnings, *review(meaning, compiled))
        knowledge = KnowledgeBase(meaning.knowledge, outside, meaning.lookups)
        return cls._assemble(meaning, compiled, warnings, by_name, limits, longest, knowledge)

    @classmethod
    def from_meaning(
        cls,
        meaning: m.Meaning,
        functions: dict[str, UserFunction],
        limits: Limits,
        longest: bool,
        knowledge: KnowledgeBase,
    ) -> Self:
        """Patterns from results that were just made: nothing is reviewed."""
        compiled = compile_all(meaning.patterns, longest, limits)
        return cls._assemble(meaning, compiled, (), functions, limits, longest, knowledge)

    @classmethod
    def _assemble(
        cls,
        meaning: m.Meaning,
        compiled: tuple[CompiledPattern, ...],
        warnings: tuple[Diagnostic, ...],
        functions: dict[str, UserFunction],
        limits: Limits,
        longest: bool,
        knowledge: KnowledgeBase,
        n_hidden: int = 0,
        hidden_rules: frozenset[str] = frozenset(),
    ) -> Self:
        by_sense: dict[Sense, list[int]] = {}
        for number, (pattern, result) in enumerate(zip(meaning.patterns, compiled, strict=True)):
            by_sense.setdefault(sense_of(pattern, result), []).append(number)
        return cls(
            meaning,
            compiled,
            tuple(compiled[same[0]] for same in by_sense.values()),
            tuple(tuple(same) for same in by_sense.values()),
            warnings,
            tuple(needed_columns(meaning, meaning.stream)),
            functions,
            limits,
            longest,
            knowledge,
            n_hidden,
            hidden_rules,
        )

    @property
    def n_reported(self) -> int:
        """How many of the patterns, the first ones, are reported."""
        return len(self.compiled) - self.n_hidden

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(pattern.name for pattern in self.compiled[: self.n_reported])

    @property
    def rule_names(self) -> tuple[str, ...]:
        return tuple(rule.name for rule in self.meaning.rules if rule.name not in self.hidden_rules)

    @property
    def clocked(self) -> tuple[str, ...]:
        """What needs a time that all entities share: pairs, patterns that wait for time to pass, and rules."""
        reported = self.meaning.patterns[: self.n_reported]
        patterns = (p.name for p in reported if p.silence_s is not None or p.pair is not None)
        return (*patterns, *(rule.name for rule in self.meaning.rules))

    @cached_property
    def for_rules(self) -> Self:
        """The same patterns, all reported, with the columns that rules read of their detections, and without the
        rules."""
        rules = self.meaning.rules
        patterns = tuple(emitted_for_rules(pattern, rules) for pattern in self.meaning.patterns)
        return self._assemble(
            replace(self.meaning, patterns=patterns, rules=(), facts=()), self.compiled, self.warnings, self.functions,
            self.limits, self.longest, self.knowledge,
        )  # fmt: skip

    @cached_property
    def by_stream(self) -> dict[str, StreamPart]:
        """What the patterns need of each stream that they read, by its name; made at the first recognition."""
        return {stream.name or "": self._part(stream) for stream in streams_read(self.meaning)}

    def _part(self, stream: m.Stream) -> StreamPart:
        reported = self.meaning.patterns[: self.n_reported]
        own = [pattern for pattern in reported if pattern.pair is None and reads(pattern, stream, self.meaning)]
        single = [pattern.name for pattern in own if pattern.silence_s is None]
        silent = [pattern.name for pattern in own if pattern.silence_s is not None]
        rules = self.meaning.rules
        are_all = len(self.meaning.streams) == 1 and len(single) == len(reported) and not rules
        names = [p.name for p in reported if p.silence_s is not None or p.pair is not None]
        clocked = closure(self.meaning.patterns, (*names, *patterns_read(rules)))
        is_clocked = any(p.name in clocked and reads(p, stream, self.meaning) for p in self.meaning.patterns)
        is_clocked = is_clocked or any(rule_reads(rule, stream, self.meaning) for rule in rules)
        clocked |= {rule.name for rule in rules}
        return StreamPart(
            stream,
            self if are_all else self.of_stream(stream).select(single),
            self.of_stream(stream).select(silent) if silent else None,
            # The needs of the only stream may come from more patterns than these.
            self.needs if len(self.meaning.streams) == 1 else tuple(needed_columns(self.meaning, stream)),
            tuple(needed_columns(self.meaning, stream, clocked)) if is_clocked else (),
            self._own_past(stream),
        )

    def _own_past(self, stream: m.Stream) -> OwnPastPatterns | None:
        """What pairs use of the own past of a stream's entities, as patterns of one entity."""
        asked = asked_of_the_past(self.meaning, stream)
        if not asked:
            return None
        read = [question.pattern for question in asked if isinstance(question, m.Detected)]
        ways = [question for question in asked if not isinstance(question, m.Detected)]
        source = self.meaning.patterns[0].source
        letters = [
            m.Pattern(f"\x1fway {number}", m.Letter(way), source, stream=stream.name) for number, way in enumerate(ways)
        ]
        of_one = self._with_all_reported().of_stream(stream)
        chosen = [name for name in of_one.names if name in read]
        of_one = of_one.select(chosen)
        n = of_one.n_reported
        patterns, compiled = list(of_one.meaning.patterns), list(of_one.compiled)
        patterns[n:n], compiled[n:n] = letters, compile_all(letters, False, self.limits)
        return OwnPastPatterns(
            self._assemble(
                replace(of_one.meaning, patterns=tuple(patterns)), tuple(compiled), (), self.functions, self.limits,
                self.longest, self.knowledge, of_one.n_hidden,
            ),
            (*(m.Detected(name) for name in chosen), *ways),
        )  # fmt: skip

    def _with_all_reported(self) -> Self:
        return replace(self, n_hidden=0)

    @property
    def emitted(self) -> list[str]:
        """The columns that detections have besides their own, in the order of the file."""
        reported = self.meaning.patterns[: self.n_reported]
        columns = [column for pattern in reported for column in pattern.emitted]
        for rule in self.meaning.rules:
            if rule.name not in self.hidden_rules:
                columns += [one.name for one in rule.emit if one.name not in ("entity", "other", "place")]
        return list(dict.fromkeys(columns))

    @property
    def wanted(self) -> Wanted:
        """The columns that a reader of their events reads."""
        return Wanted.from_needs(self.needs, self.meaning.stream.time_unit)

    @property
    def max_age(self) -> int:
        """How many of an entity's last events must be remembered by their time."""
        trackers = [runnable.compiled.tracker for runnable in self.runnables]
        return max((tracker.max_age for tracker in trackers if tracker is not None), default=1)

    @cached_property
    def runnables(self) -> tuple[Runnable, ...]:
        """What the engine steps; made at the first recognition."""
        distinct = list(zip(self.distinct, self.numbers_of_distinct, strict=True))
        return list_runnables(self.meaning.patterns, distinct, self.places, self.longest, self.limits)

    @cached_property
    def groups(self) -> list[Group]:
        """The runnables that run by tables, in groups."""
        from wayeb_py.compiler.automata.product import form_groups  # for start-up time: it loads kernels

        return form_groups(
            [(i, runnable.compiled) for i, runnable in enumerate(self.runnables) if runnable.plan is None], self.limits
        )

    def places(self, name: str) -> PlaceIndex:
        """The places of `points`, `lines` or `areas`, each with a name of its own."""
        self.knowledge.require_names(name)
        return self.knowledge.load(name).index

    def select(self, names: Iterable[str]) -> Self:
        """Only the patterns and rules of these names, and, without being reported, those that they read."""
        names_wanted = wanted = set(names)
        unknown = wanted - set(self.names) - set(self.rule_names)
        if unknown:
            raise KeyError(f"no pattern is called {', '.join(sorted(unknown))}")
        asked = rules_read(self.meaning.rules, wanted)
        rules = tuple(rule for rule in self.meaning.rules if rule.name in asked)
        wanted = wanted - asked
        read = closure(self.meaning.patterns, wanted | set(patterns_read(rules))) - wanted
        order = [i for some in (wanted, read) for i, c in enumerate(self.compiled) if c.name in some]
        chosen = tuple(self.meaning.patterns[i] for i in order)
        compiled = tuple(self.compiled[i] for i in order)
        return self._assemble(
            replace(self.meaning, patterns=chosen, rules=rules), compiled, self.warnings, self.functions, self.limits,
            self.longest, self.knowledge, len(read), frozenset(asked - set(names_wanted)),
        )  # fmt: skip

    def part(self, names: Iterable[str]) -> Self:
        """As `select`, for one of several tasks that a file runs in: times are counted as in the whole file."""
        return replace(self.select(names), timed=self.timed or tuple(streams_read(self.meaning)))

    def of_stream(self, stream: m.Stream) -> Self:
        """Only the patterns that read a stream and no other, as if the file had no other."""
        patterns = self.meaning.patterns
        own = [
            i
            for i, pattern in enumerate(patterns)
            if reads(pattern, stream, self.meaning) and (pattern.pair is None or len(set(pattern.pair.streams)) == 1)
        ]
        own_patterns = tuple(patterns[i] for i in own)
        meaning = replace(self.meaning, stream=stream, other_streams=(), patterns=own_patterns, rules=(), facts=())
        return self._assemble(
            meaning, tuple(self.compiled[i] for i in own), self.warnings, self.functions, self.limits, self.longest,
            self.knowledge, sum(i >= self.n_reported for i in own),
        )  # fmt: skip

    def with_given(self, columns: Iterable[str]) -> Self:
        """Patterns for events that have these columns themselves: `weather.ice` is then not looked up."""
        given = {column.partition(".")[0] for column in columns if "." in column}
        lookups = tuple(lookup for lookup in self.meaning.lookups if lookup.name not in given)
        if lookups == self.meaning.lookups:
            return self
        return self._assemble(
            replace(self.meaning, lookups=lookups), self.compiled, self.warnings, self.functions, self.limits,
            self.longest, KnowledgeBase(self.meaning.knowledge, self.knowledge.outside, lookups), self.n_hidden,
            self.hidden_rules,
        )  # fmt: skip

    def reload_knowledge(self) -> Self:
        """The same patterns, which read their background knowledge again; saved state continues with them."""
        return replace(self, knowledge=self.knowledge.fresh())

    def __repr__(self) -> str:
        return f"<{len(self.compiled)} patterns: {', '.join(self.names)}>"


@dataclass(frozen=True)
class StreamPart:
    """What the patterns of a file need of one stream; most files have one, and only patterns of one entity."""

    stream: m.Stream
    single: CompiledPatterns  # patterns of one entity, known at their last event
    silent: CompiledPatterns | None  # patterns of one entity, known only after a silence
    needs: tuple[Need, ...]  # the columns that the stream's events must have
    clocked_needs: tuple[Need, ...]  # the columns that silences and pairs look at
    own_past: OwnPastPatterns | None  # what pairs use of the own past of its entities


@dataclass(frozen=True)
class OwnPastPatterns:
    """Patterns of one entity, and the predicate of pairs that each reported one decides."""

    patterns: CompiledPatterns
    questions: tuple[m.Predicate, ...]


def compile_all(patterns: Sequence[m.Pattern], longest: bool, limits: Limits) -> tuple[CompiledPattern, ...]:
    """The compiled patterns; the meaning of one depends on the patterns that it reads, and so does its fingerprint."""
    compiled = {pattern.name: compile_pattern(pattern, longest, limits) for pattern in patterns}
    for pattern in sorted(patterns, key=lambda pattern: pattern.tier):
        read = sorted(name for name in names_read(pattern) if name in compiled)
        if read or pattern.silence_s is not None:
            own = compiled[pattern.name]
            silence = f"{pattern.silence_s} {pattern.silence_of}" if pattern.silence_of else str(pattern.silence_s)
            silence += " $" if pattern.ends_word else ""
            told = [own.fingerprint, silence, *(f"{name} {compiled[name].fingerprint}" for name in read)]
            digest = hashlib.sha256("\n".join(told).encode()).hexdigest()[: len(own.fingerprint)]
            compiled[pattern.name] = replace(own, fingerprint=digest)
    return tuple(compiled[pattern.name] for pattern in patterns)
