"""The text of .sre files becomes patterns that can recognise: read, checked, compiled, reviewed.

What needs automata is reviewed here and not in the language's checker: letters that no event can satisfy, patterns
that match nothing or the empty sequence, patterns that mean the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from wayeb_py import dsl
from wayeb_py.compiler.alphabet import is_satisfiable
from wayeb_py.compiler.axes import atoms_of
from wayeb_py.compiler.extent import never_detected
from wayeb_py.compiler.for_each import why_written_out
from wayeb_py.compiler.limits import DEFAULT_LIMITS, Limits
from wayeb_py.compiler.pattern import CompiledPattern, compile_pattern
from wayeb_py.compiler.regex import letters_of
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.functions import needs
from wayeb_py.dsl.walk import walk
from wayeb_py.errors import DataError, Diagnostic, Note, PatternError
from wayeb_py.functions import UserFunction
from wayeb_py.spatial.given_places import Given, with_given_places
from wayeb_py.spatial.knowledge import Knowledge

if TYPE_CHECKING:
    from wayeb_py.compiler.product import Group
    from wayeb_py.detections import Detections
    from wayeb_py.engine.stepping.members import Member
    from wayeb_py.spatial.index import PlaceIndex


@dataclass(frozen=True, slots=True)
class Need:
    """A column that the events must have, and where a pattern asks for it."""

    column: str
    kind: m.Kind | None
    role: Literal["key", "time", "order", "attribute", "emit"]
    diagnostic: Diagnostic | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Patterns:
    """Compiled patterns; those that mean the same are run once: `distinct`, and the patterns by number for each."""

    meaning: m.Meaning
    compiled: tuple[CompiledPattern, ...]  # in the order of the file
    distinct: tuple[CompiledPattern, ...]
    names_of_distinct: tuple[tuple[int, ...], ...]
    warnings: tuple[Diagnostic, ...]
    needs: tuple[Need, ...]
    functions: dict[str, UserFunction]
    limits: Limits
    longest: bool
    knowledge: Knowledge

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(pattern.name for pattern in self.compiled)

    @property
    def emitted(self) -> list[str]:
        """The columns that detections have besides their own, in the order of the file."""
        return list(dict.fromkeys(column for pattern in self.meaning.patterns for column in pattern.emit))

    @property
    def max_age(self) -> int:
        """How many of an entity's last events have to be remembered by their time."""
        trackers = [member.compiled.tracker for member in self.members]
        return max((tracker.max_age for tracker in trackers if tracker is not None), default=1)

    @cached_property
    def members(self) -> tuple[Member, ...]:
        """What is really stepped; made when first something is recognised."""
        from wayeb_py.engine.stepping.members import make_members

        return make_members(self)

    @cached_property
    def groups(self) -> list[Group]:
        """The members that run by tables, in groups."""
        from wayeb_py.compiler.product import form_groups

        return form_groups([(i, m_.compiled) for i, m_ in enumerate(self.members) if m_.plan is None], self.limits)

    def places(self, name: str) -> PlaceIndex:
        """The places of `points`, `lines` or `areas`, each with a name of its own."""
        self.knowledge.require_names(name)
        return self.knowledge.load(name).index

    def with_given(self, columns: Iterable[str]) -> Patterns:
        """Patterns for events that have these columns themselves: `weather.ice` is then not looked up."""
        given = {column.partition(".")[0] for column in columns if "." in column}
        lookups = tuple(lookup for lookup in self.meaning.lookups if lookup.name not in given)
        if lookups == self.meaning.lookups:
            return self
        return _assemble(
            replace(self.meaning, lookups=lookups), self.compiled, self.warnings, self.functions, self.limits,
            self.longest, Knowledge(self.meaning.knowledge, self.knowledge.outside, lookups),
        )  # fmt: skip

    def reload_knowledge(self) -> Patterns:
        """The same patterns, whose background knowledge is read again; saved state goes on with them."""
        return replace(self, knowledge=self.knowledge.fresh())

    def recognise(self, events: Any, workers: int = 1) -> Detections:
        """All detections and episodes in a table, whose events are put in the order of time first if they are not."""
        from wayeb_py.run.whole_table import recognise

        return recognise(self, events, workers)

    def step(self, events: Any, state: bytes = b"") -> tuple[Detections, bytes]:
        """The detections of a batch that goes on from a state, and the state after it; no state is the beginning.

        What `Recogniser` does, without anything that lives between two batches: for a caller that keeps state itself.
        """
        from wayeb_py.engine.recogniser import Recogniser

        recogniser = Recogniser(self, saved=state or None)
        return recogniser.feed(events), recogniser.save()

    def select(self, names: Iterable[str]) -> Patterns:
        """Only the patterns of these names."""
        wanted = set(names)
        unknown = wanted - set(self.names)
        if unknown:
            raise KeyError(f"no pattern is called {', '.join(sorted(unknown))}")
        chosen = tuple(p for p in self.meaning.patterns if p.name in wanted)
        compiled = tuple(c for c in self.compiled if c.name in wanted)
        return _assemble(
            replace(self.meaning, patterns=chosen), compiled, self.warnings, self.functions, self.limits, self.longest,
            self.knowledge,
        )  # fmt: skip

    def explain(self, pattern: str | None = None, form: Literal["table", "dot", "mermaid"] = "table") -> str:
        """What the patterns are compiled to, or one of them, to be printed: letters, symbols, automaton, cost."""
        from wayeb_py.compiler.explain import explain

        return explain(self, pattern, form)

    def _repr_html_(self) -> str:
        from wayeb_py.detections import html_table

        return html_table(
            f"{len(self.compiled)} patterns",
            ["pattern", "expression", "states"],
            [
                [pattern.name, pattern.text, compiled.tracker.n_states if compiled.tracker else "–"]
                for pattern, compiled in zip(self.meaning.patterns, self.compiled, strict=True)
            ],
        )

    def __repr__(self) -> str:
        return f"<{len(self.compiled)} patterns: {', '.join(self.names)}>"


def compile_patterns(
    source: str | Path | Sequence[Path],
    *,
    key: str | None = None,
    time: str | None = None,
    time_unit: str | None = None,
    functions: Iterable[UserFunction] = (),
    longest: bool = False,
    lateness_s: float | Fraction | None = None,
    forget_after_s: float | Fraction | None = None,
    limits: Limits = DEFAULT_LIMITS,
    outside: bool = False,
    clean: Literal["ais", "gps"] | None = None,
    places: Mapping[str, Given] | None = None,
) -> Patterns:
    """Patterns from the text of a .sre file, from a path, or from several paths.

    `key`, `time` and `time_unit` serve files without a stream block; `lateness_s`, `forget_after_s` and `clean`
    replace what it says. `places` gives the declared places or tables of a name another file than their own. Raises
    PatternError with everything that is wrong, or LimitError where a pattern is too large.
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
    stream = meaning.stream
    if lateness_s is not None:
        stream = replace(stream, lateness_s=Fraction(lateness_s))
    if forget_after_s is not None:
        stream = replace(stream, forget_after_s=Fraction(forget_after_s))
    if clean is not None:
        stream = replace(stream, clean=clean)
    meaning = with_given_places(replace(meaning, stream=stream), places or {})
    _refuse_unsatisfiable_letters(meaning, limits)
    compiled = tuple(compile_pattern(pattern, longest, limits) for pattern in meaning.patterns)
    warnings = (*meaning.warnings, *_review(meaning, compiled))
    knowledge = Knowledge(meaning.knowledge, outside, meaning.lookups)
    return _assemble(meaning, compiled, warnings, by_name, limits, longest, knowledge)


def compile_meaning(
    meaning: m.Meaning, functions: dict[str, UserFunction], limits: Limits, longest: bool, knowledge: Knowledge
) -> Patterns:
    """Patterns from what was found right before: nothing is reviewed."""
    compiled = tuple(compile_pattern(pattern, longest, limits) for pattern in meaning.patterns)
    return _assemble(meaning, compiled, (), functions, limits, longest, knowledge)


def _assemble(
    meaning: m.Meaning,
    compiled: tuple[CompiledPattern, ...],
    warnings: tuple[Diagnostic, ...],
    functions: dict[str, UserFunction],
    limits: Limits,
    longest: bool,
    knowledge: Knowledge,
) -> Patterns:
    by_sense: dict[tuple[str, str | None], list[int]] = {}
    for number, (pattern, result) in enumerate(zip(meaning.patterns, compiled, strict=True)):
        by_sense.setdefault(_sense(pattern, result), []).append(number)
    return Patterns(
        meaning,
        compiled,
        tuple(compiled[same[0]] for same in by_sense.values()),
        tuple(tuple(same) for same in by_sense.values()),
        warnings,
        tuple(_needs(meaning)),
        functions,
        limits,
        longest,
        knowledge,
    )


def _sense(pattern: m.Pattern, compiled: CompiledPattern) -> tuple[str, str | None]:
    """What patterns share that detect the same: a fingerprint, and the places that they are detected for."""
    return compiled.fingerprint, None if pattern.each is None else pattern.each[1]


def _refuse_unsatisfiable_letters(meaning: m.Meaning, limits: Limits) -> None:
    known: dict[m.Predicate, bool] = {}
    found = []
    for pattern in meaning.patterns:
        for letter in letters_of(pattern.regex):
            predicate = letter.predicate
            if predicate not in known:
                known[predicate] = next(atoms_of(predicate), None) is None or is_satisfiable(predicate, limits)
            if not known[predicate]:
                found.append(
                    Diagnostic(
                        "error",
                        f"no event can satisfy this letter of pattern `{pattern.name}`",
                        pattern.source,
                        letter.span,
                        "its conditions exclude each other",
                        "write `none` if a letter that never matches is meant",
                    )
                )
    if found:
        raise PatternError(found)


def _review(meaning: m.Meaning, compiled: tuple[CompiledPattern, ...]) -> Iterator[Diagnostic]:
    first: dict[tuple[str, str | None], m.Pattern] = {}
    for pattern, result in zip(meaning.patterns, compiled, strict=True):
        if result.is_empty:
            yield Diagnostic(
                "warning", f"no sequence of events matches pattern `{pattern.name}`", pattern.source, pattern.span,
                "it will never be detected",
            )  # fmt: skip
        elif (never := never_detected(result)) is not None:
            label, hint = never
            yield Diagnostic(
                "warning", f"pattern `{pattern.name}` can never be detected", pattern.source, pattern.span, label, hint
            )  # fmt: skip
        elif result.holds_empty_sequence:
            yield Diagnostic(
                "warning", f"pattern `{pattern.name}` also matches the empty sequence", pattern.source, pattern.span,
                "only its non-empty matches are detected",
            )  # fmt: skip
        if pattern.each is not None and (reason := why_written_out(result)) is not None:
            yield Diagnostic(
                "warning", f"pattern `{pattern.name}` is run for every place at every event", pattern.source,
                pattern.span, reason, "where there are many places, compare `distance` or `near` of the place itself: "
                "then only those nearby cost something",
            )  # fmt: skip
        other = first.setdefault(_sense(pattern, result), pattern)
        if other is not pattern and not result.is_empty:
            yield Diagnostic(
                "warning", f"patterns `{other.name}` and `{pattern.name}` are equivalent", pattern.source, pattern.span,
                "they are detected at the same events", note=Note(other.source, other.span, "the other one is here"),
            )  # fmt: skip


def _needs(meaning: m.Meaning) -> Iterator[Need]:
    stream = meaning.stream
    kinds = {attribute.name: attribute.kind for attribute in stream.attributes}
    lookups = {lookup.name for lookup in meaning.lookups}
    seen = set()
    if stream.key is not None:
        yield Need(stream.key, kinds.get(stream.key), "key")
    if stream.time is not None:
        yield Need(stream.time, None, "time")
    if stream.order is not None:
        yield Need(stream.order, kinds.get(stream.order), "order")
    for pattern in meaning.patterns:
        for attribute in _attributes_of(pattern.regex, stream.position, lookups):
            if attribute.name not in seen and attribute.name != stream.time:
                seen.add(attribute.name)
                kind = attribute.kind or kinds.get(attribute.name)
                yield Need(attribute.name, kind, "attribute", _asked_for(pattern, attribute))
    emitted = set(seen)
    looked_at = seen | {column for pattern in meaning.patterns for column in pattern.emit}
    if stream.clean is not None and stream.position is not None and looked_at & set(stream.position):
        # Half a position cannot be cleaned.
        for column in stream.position:
            if column not in seen:
                emitted.add(column)
                yield Need(column, "number", "attribute")
    for pattern in meaning.patterns:
        for column in pattern.emit:
            if column not in emitted:
                emitted.add(column)
                yield Need(
                    column, kinds.get(column), "emit",
                    Diagnostic(
                        "error", f"the events have no column `{column}`", pattern.source, pattern.span,
                        f"pattern `{pattern.name}` emits it",
                    ),
                )  # fmt: skip


def _asked_for(pattern: m.Pattern, attribute: m.Attribute) -> Diagnostic:
    message = f"the events have no column `{attribute.name}`"
    text = pattern.source.text[attribute.span.start : attribute.span.end].strip("`")
    if text == attribute.name:  # a definition in an included file has its span there
        return Diagnostic("error", message, pattern.source, attribute.span, f"pattern `{pattern.name}` looks at it")
    return Diagnostic("error", message, pattern.source, pattern.span, f"this pattern looks at `{attribute.name}`")


def _attributes_of(regex: m.Regex, position: tuple[str, str] | None, lookups: set[str]) -> Iterator[m.Attribute]:
    """The columns that a regex looks at: of what asks for the position, those of the position."""
    where = [m.Attribute(column, "number") for column in position or ()]
    for part in walk(regex):
        if needs(part, "position"):
            yield from where
        elif isinstance(part, m.Attribute):
            name, dot, _ = part.name.partition(".")
            if dot and name in lookups:
                yield from where
            else:
                yield part
