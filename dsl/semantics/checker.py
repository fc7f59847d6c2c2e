"""Trees become their meaning, or a list of everything that is wrong with them.

The stages, in order: the declarations of all files are gathered by name; the stream block says what the events
hold; the `let`s are put in an order in which each needs only earlier ones; everything is resolved, and once
more if uses told the kinds of attributes that no `attr` line declares; tests are checked last, since they need the
kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.examples import check_test
from wayeb_py.dsl.semantics.letters import as_regex, written_text
from wayeb_py.dsl.semantics.names import Gathered, gather, order_lets
from wayeb_py.dsl.semantics.resolve import Resolver
from wayeb_py.dsl.semantics.results import Wrong
from wayeb_py.dsl.semantics.scope import Report, Scope
from wayeb_py.dsl.semantics.streams import read_stream
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.units import UNITS
from wayeb_py.errors import Diagnostic, PatternError, Source, Span

# The columns that every detection has.
DETECTION_COLUMNS = ("pattern", "place", "entity", "ts", "seq", "start_ts", "start_seq")


def check(
    files: t.File | Sequence[t.File],
    *,
    functions: Mapping[str, m.Signature] | None = None,
    key: str | None = None,
    time: str | None = None,
    time_unit: str | None = None,
    outside: bool = False,
    errors: Iterable[Diagnostic] = (),
) -> m.Meaning:
    """What the files mean together; raises PatternError with all that is wrong, `errors` found before included."""
    given = [files] if isinstance(files, t.File) else list(files)
    report = Report()
    gathered = gather(given, report, outside)
    stream, attributes = read_stream(gathered, report, key, time, time_unit)
    scope = Scope(
        report=report,
        functions=functions or {},
        stream=stream,
        attributes=attributes,
        has_attr_lines=bool(stream.attributes),
        stream_is_broken=gathered.has_broken_stream,
        lets=gathered.lets,
        broken=gathered.broken,
        knowledge=gathered.knowledge,
        lookups=gathered.lookups,
    )
    _check_shadowing(gathered, attributes, report)
    ordered = order_lets(gathered, report)
    before = dict(report.found)
    patterns = _resolve_all(scope, gathered, ordered)
    if scope.kinds.uses:
        # Uses told the kinds of columns that nothing declares: with them, everything is said again.
        report.found = before
        scope.kinds.settle(report)
        patterns = _resolve_all(scope, gathered, ordered)
    examples = [
        example for test, source in gathered.tests if (example := check_test(test, source, gathered, scope)) is not None
    ]
    if not gathered.patterns and not gathered.has_broken_pattern and not any(errors):
        _no_pattern(given, report)
    found = [*errors, *report.found.values()]
    position = {file.source.name: i for i, file in enumerate(given)}
    found.sort(key=lambda d: (position.get(d.source.name, -1), d.span.start))
    wrong = [diagnostic for diagnostic in found if diagnostic.severity == "error"]
    if wrong:
        raise PatternError(wrong)
    knowledge, lookups = tuple(gathered.knowledge.values()), tuple(gathered.lookups.values())
    return m.Meaning(stream, tuple(patterns), tuple(examples), knowledge, tuple(found), lookups)


def _check_shadowing(gathered: Gathered, attributes: Mapping[str, m.Attribute], report: Report) -> None:
    """A name has one meaning: no `let` and no places are called like a column of the events."""
    declared = [(let.name, let.name_span, source) for let, source in gathered.lets.values()]
    declared += [(known.name, known.span, known.source) for known in gathered.knowledge.values()]
    declared += [(lookup.name, lookup.span, lookup.source) for lookup in gathered.lookups.values()]
    for name, span, source in declared:
        if name in attributes:
            report.error(source, f"`{name}` is a column of the events already", span, "needs a name of its own")


def _no_pattern(files: Sequence[t.File], report: Report) -> None:
    if not files:
        return
    source = files[0].source
    span = Span(0, 0) if not source.text else Span(0, 1)
    report.error(
        source,
        "no pattern is declared",
        span,
        "nothing to recognise",
        "write for example `pattern Stop := (speed = 0){3,}`",
    )


def _resolve_all(scope: Scope, gathered: Gathered, ordered: Sequence[tuple[t.Let, Source]]) -> list[m.Pattern]:
    resolver = Resolver(scope)
    for let, source in ordered:
        scope.results[let.name] = resolver.resolve(let.body, source, in_regex=False)
    patterns = []
    for pattern, source in gathered.patterns.values():
        made = _pattern(resolver, pattern, source)
        if made is not None:
            patterns.append(made)
    return patterns


def _pattern(resolver: Resolver, pattern: t.Pattern, source: Source) -> m.Pattern | None:
    scope = resolver.scope
    each = _each(scope, pattern, source)
    emit = _emit(scope, pattern, source)
    result = resolver.resolve(pattern.body, source, each) if each != "wrong" else None
    regex = as_regex(resolver, result, pattern.body, None) if result is not None else None
    if regex is None or isinstance(result, Wrong):
        return None
    window = None
    if pattern.within is not None:
        amount = pattern.within.amount
        if pattern.within.events:
            window = m.Window(events=int(amount.literal))
        else:
            window = m.Window(seconds=amount.value * UNITS[amount.unit or "s"].factor)
    return m.Pattern(
        pattern.name,
        regex,
        source,
        window,
        emit,
        cast(tuple[str, str] | None, each),
        _text(pattern, source),
        span=pattern.name_span,
    )


def _text(pattern: t.Pattern, source: Source) -> str:
    """What follows the name, without the `:=`."""
    clauses = [str(clause) for clause in (pattern.within, pattern.emit) if clause is not None]
    each = [] if pattern.each is None else [f"{pattern.each}:"]
    return " ".join([*each, written_text(source, pattern.body), *clauses])


def _each(scope: Scope, pattern: t.Pattern, source: Source) -> Any:
    """(variable, places), None without `for each`, or "wrong"."""
    each = pattern.each
    if each is None:
        return None
    if each.places in scope.broken:
        return "wrong"
    if each.places not in scope.knowledge:
        hint = scope.report.suggest(each.places, list(scope.knowledge))
        hint = hint or f'declare them: `points {each.places} from "{each.places}.csv"`'
        scope.report.error(
            source,
            f"unknown places `{each.places}`",
            each.places_span,
            "no `points`, `lines` or `areas` of this name",
            hint,
        )
        return "wrong"
    if each.variable in scope.lets or each.variable in scope.knowledge:
        scope.report.error(
            source, f"`{each.variable}` has a meaning already", each.span, "the row needs a name of its own"
        )
    return (each.variable, each.places)


def _emit(scope: Scope, pattern: t.Pattern, source: Source) -> tuple[str, ...]:
    columns: list[str] = []
    for column in pattern.emit.columns if pattern.emit is not None else ():
        if column.name in columns:
            scope.report.error(source, f"`{column.name}` is emitted twice", column.span, "once before it already")
        elif column.name in DETECTION_COLUMNS:
            scope.report.error(
                source, f"every detection has a column `{column.name}` already", column.span, "leave it out"
            )
        elif scope.has_attr_lines and column.name not in scope.attributes:
            hint = scope.report.suggest(column.name, list(scope.attributes))
            if hint is None and column.name in scope.lets:
                hint = "only columns of the events can be emitted, not a `let`"
            scope.report.error(
                source, f"unknown attribute `{column.name}`", column.span, "not in the event schema", hint
            )
        columns.append(column.name)
        scope.mentioned.add(column.name)
    return tuple(columns)
