"""Compiled patterns become what their writer should know: findings that need automata, which the checker does not have.

Letters that no event can satisfy are an error. Patterns that match nothing, or the empty sequence, or the same as
another, are a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from wayeb_py.compiler.alphabet import is_satisfiable
from wayeb_py.compiler.automata.regex import letters_of
from wayeb_py.compiler.automata.shortest_match import never_detected
from wayeb_py.compiler.axes import atoms_of
from wayeb_py.compiler.for_each import why_written_out
from wayeb_py.compiler.limits import Limits
from wayeb_py.compiler.pattern import CompiledPattern
from wayeb_py.dsl import meaning as m
from wayeb_py.errors import Diagnostic, Note, PatternError

Sense = tuple[str, str | None, str | None, m.EachPair | None, Fraction | None, m.Role | None, bool]


def sense_of(pattern: m.Pattern, compiled: CompiledPattern) -> Sense:
    """What patterns that detect the same have in common: a fingerprint, what they are detected for, and when."""
    places = None if pattern.each is None else pattern.each[1]
    pair = None if pattern.pair is None else replace(pattern.pair, variables=("a", "b"))
    return compiled.fingerprint, places, pattern.stream, pair, pattern.silence_s, pattern.silence_of, pattern.ends_word


def refuse_unsatisfiable_letters(meaning: m.Meaning, limits: Limits) -> None:
    """Raises PatternError with every letter whose conditions exclude each other."""
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


def review(meaning: m.Meaning, compiled: tuple[CompiledPattern, ...]) -> Iterator[Diagnostic]:
    """Warnings about patterns whose meaning is hardly the intended one."""
    first: dict[Sense, m.Pattern] = {}
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
        other = first.setdefault(sense_of(pattern, result), pattern)
        if other is not pattern and not result.is_empty:
            yield Diagnostic(
                "warning", f"patterns `{other.name}` and `{pattern.name}` are equivalent", pattern.source, pattern.span,
                "they are detected at the same events", note=Note(other.source, other.span, "the other one is here"),
            )  # fmt: skip
