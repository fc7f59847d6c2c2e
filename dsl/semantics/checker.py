"""Trees become their meaning, or a list of everything that is wrong with them.

The stages, in order. The declarations of all files are gathered by name. The stream blocks say what the events hold.
The `let`s are put in an order in which each needs only earlier ones. Everything is resolved, and again where uses
reveal the kinds of attributes that no `attr` line declares. Patterns that read others, and rules, get their tiers.
The checker reports what the conditions of rules leave open. Tests are checked last, since they need the kinds.

What checks rules and facts is imported where a file has some, for start-up time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.matches.shedding import check_shedding
from wayeb_py.dsl.semantics.matches.validity import warn_of_validity
from wayeb_py.dsl.semantics.names import DeclaredNames, gather, order_lets
from wayeb_py.dsl.semantics.patterns import resolve_all
from wayeb_py.dsl.semantics.scope import Diagnostics, Scope
from wayeb_py.dsl.semantics.streams import read_streams
from wayeb_py.dsl.semantics.tiers import with_tiers
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.errors import Diagnostic, PatternError, SourceText, Span

_FactScopes = dict[str, tuple[m.Facts, Scope]]


def check(
    files: t.File | Sequence[t.File],
    *,
    functions: Mapping[str, m.Signature] | None = None,
    key: str | None = None,
    time: str | None = None,
    time_unit: str | None = None,
    outside: bool = False,
    errors: Iterable[Diagnostic] = (),
    sizes: Mapping[str, int] | None = None,
) -> m.Meaning:
    """What the files mean together; raises PatternError with everything that is wrong, including the `errors` found
    before.

    `sizes` are the numbers of rows of streams, patterns and facts, by name, where they are known.
    """
    given = [files] if isinstance(files, t.File) else list(files)
    report = Diagnostics()
    gathered = gather(given, report, outside)
    scopes: dict[str | None, Scope] = {}
    for stream, attributes in read_streams(gathered, report, key, time, time_unit):
        scopes[stream.name] = Scope(
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
            patterns=gathered.patterns,
            broken_patterns=gathered.broken_patterns,
            rules=gathered.rules,
        )
        _check_shadowing(gathered, attributes, report)
    ordered = order_lets(gathered, report)
    facts = _read_facts(gathered, scopes, report)
    before = dict(report.found)
    patterns = resolve_all(scopes, gathered, ordered)
    rules = _resolve_rules(scopes, facts, patterns, gathered, ordered)
    all_kinds = {id(scope.kinds): scope.kinds for scope in (*scopes.values(), *(scope for _, scope in facts.values()))}
    if any(kinds.uses for kinds in all_kinds.values()):
        # Uses revealed the kinds of columns that nothing declares: with them, everything is resolved again.
        report.found = before
        for kinds in all_kinds.values():
            kinds.settle(report)
        patterns = resolve_all(scopes, gathered, ordered)
        rules = _resolve_rules(scopes, facts, patterns, gathered, ordered)
    patterns = with_tiers(patterns, report)
    by_name = {name: scope.stream for name, scope in scopes.items()}
    check_shedding(patterns, gathered.patterns, by_name, report)
    warn_of_validity(patterns, gathered.patterns, by_name, report)
    if rules:
        from wayeb_py.dsl.semantics.rules.checker import check_rules, with_tiers_of_rules  # for start-up time

        rules = with_tiers_of_rules(rules, patterns)
        check_rules(rules, scopes, facts, patterns, sizes or {})
    examples: list[m.Example] = []
    of_patterns = [(test, source) for test, source in gathered.tests if test.pattern not in gathered.rules]
    if of_patterns:
        from wayeb_py.dsl.semantics.examples import check_test  # for start-up time

        checked = (check_test(test, source, gathered, scopes) for test, source in of_patterns)
        examples = [example for example in checked if example is not None]
    rule_examples: list[m.RuleExample] = []
    if rules:
        from wayeb_py.dsl.semantics.rules.examples import check_tests_of_rules  # for start-up time

        of_rules = [(test, source) for test, source in gathered.tests if test.pattern in gathered.rules]
        rule_examples = check_tests_of_rules(of_rules, rules, report)
    forecasts: tuple[m.Forecast, ...] = ()
    if gathered.forecasts:
        from wayeb_py.dsl.semantics.forecasts import check_forecasts  # for start-up time

        forecasts = check_forecasts(gathered, patterns, report)
    if not gathered.patterns and not gathered.rules and not gathered.has_broken_pattern and not any(errors):
        _no_pattern(given, report)
    found = [*errors, *report.found.values()]
    position = {file.source.name: i for i, file in enumerate(given)}
    found.sort(key=lambda d: (position.get(d.source.name, -1), d.span.start))
    wrong = [diagnostic for diagnostic in found if diagnostic.severity == "error"]
    if wrong:
        raise PatternError(wrong)
    knowledge, lookups = tuple(gathered.knowledge.values()), tuple(gathered.lookups.values())
    first, *others = (scope.stream for scope in scopes.values())
    return m.Meaning(
        first,
        tuple(patterns),
        tuple(examples),
        knowledge,
        tuple(found),
        lookups,
        tuple(others),
        tuple(rules),
        _with_kinds(facts),
        tuple(rule_examples),
        forecasts,
    )


def _read_facts(gathered: DeclaredNames, scopes: Mapping[str | None, Scope], report: Diagnostics) -> _FactScopes:
    if not gathered.facts:
        return {}
    from wayeb_py.dsl.semantics.rules.facts import read_facts  # for start-up time

    return read_facts(gathered, scopes, report)


def _with_kinds(facts: _FactScopes) -> tuple[m.Facts, ...]:
    if not facts:
        return ()
    from wayeb_py.dsl.semantics.rules.facts import with_kinds  # for start-up time

    return tuple(with_kinds(one, scope) for one, scope in facts.values())


def _resolve_rules(
    scopes: Mapping[str | None, Scope],
    facts: _FactScopes,
    patterns: Sequence[m.Pattern],
    gathered: DeclaredNames,
    ordered: Sequence[tuple[t.Let, SourceText]],
) -> list[m.Rule]:
    if not gathered.rules:
        return []
    from wayeb_py.dsl.semantics.rules.checker import resolve_rules  # for start-up time

    return resolve_rules(scopes, facts, patterns, gathered, ordered)


def _check_shadowing(gathered: DeclaredNames, attributes: Mapping[str, m.Attribute], report: Diagnostics) -> None:
    """A name has one meaning: no `let` and no places may have the name of a column of the events."""
    declared = [(let.name, let.name_span, source) for let, source in gathered.lets.values()]
    declared += [(known.name, known.span, known.source) for known in gathered.knowledge.values()]
    declared += [(lookup.name, lookup.span, lookup.source) for lookup in gathered.lookups.values()]
    for name, span, source in declared:
        if name in attributes:
            report.error(source, f"`{name}` is a column of the events already", span, "needs a name of its own")


def _no_pattern(files: Sequence[t.File], report: Diagnostics) -> None:
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
