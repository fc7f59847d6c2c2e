"""A rule of the tree becomes its meaning: its members, its conditions and those of each `unless`, and what it emits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.names import DeclaredNames
from wayeb_py.dsl.semantics.patterns import lets_under, service_of
from wayeb_py.dsl.semantics.rules.conditions import conditions_of
from wayeb_py.dsl.semantics.rules.context import has_column
from wayeb_py.dsl.semantics.rules.resolve import RuleResolver
from wayeb_py.dsl.semantics.rules.rows import Inputs, Rows
from wayeb_py.dsl.semantics.scope import Diagnostics, Scope
from wayeb_py.dsl.semantics.typed_expressions import Valued
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.printer import rule_lines
from wayeb_py.dsl.units import UNITS
from wayeb_py.errors import Note, SourceText, Span

# The columns that every match has by itself; `entity`, `other` and `place` are missing unless it emits them.
COLUMNS_OF_A_MATCH = ("pattern", "ts", "seq", "start_ts", "start_seq", "decided_ts", "op")

Lets = Sequence[tuple[t.Let, SourceText]]


@dataclass(slots=True)
class _Names:
    """The members of a rule and of its `unless`es, as they are found."""

    rule: dict[str, Rows]
    unless: list[dict[str, Rows]]
    places: dict[str, tuple[SourceText, Span]]


def resolve_rule(
    rule: t.Rule, source: SourceText, inputs: Inputs, gathered: DeclaredNames, ordered: Lets
) -> m.Rule | None:
    """The meaning of a rule; None, and a report, if something is wrong with it."""
    report = inputs.report
    n_before = sum(one.severity == "error" for one in report.found.values())
    scope = _scope(inputs)
    names = _members(rule, source, inputs, scope)
    if names is None:
        return None
    kept = _is_kept(rule, names, source, report)
    resolvers = [_resolver(scope, names, None)]
    resolvers += [_resolver(scope, names, i) for i in range(len(rule.unless))]
    wheres = [rule.where, *(unless.where for unless in rule.unless)]
    conditions = []
    for resolver, where in zip(resolvers, wheres, strict=True):
        _resolve_lets(resolver, where, gathered, ordered, Note(source, rule.name_span, "in this rule"))
        conditions.append(tuple(conditions_of(resolver, where, source)))
    emit = _emit(resolvers[0], rule, source)
    once_for = _once_for(rule, names, kept, source, report)
    if sum(one.severity == "error" for one in report.found.values()) > n_before or kept is None:
        return None
    asked = _asked(resolvers)
    unless = tuple(
        m.Unless(_made(part.members, rows, asked), found, span=part.span)
        for part, rows, found in zip(rule.unless, names.unless, conditions[1:], strict=True)
    )
    return m.Rule(
        rule.name,
        _made(rule.members, names.rule, asked),
        conditions[0],
        source,
        unless,
        once_for,
        None if rule.within is None else rule.within.amount.value * UNITS[rule.within.amount.unit or "s"].factor,
        emit,
        rule.every_combination,
        kept,
        text=" ".join(rule_lines(rule)[1:]),
        service=_service(rule, source, inputs),
        span=rule.name_span,
    )


def _service(rule: t.Rule, source: SourceText, inputs: Inputs) -> m.Service:
    shed = None if rule.service is None else rule.service.shed
    if shed is not None:
        next(iter(inputs.scopes.values())).report.error(
            source,
            "`shed after` skips events of a pattern, and a rule joins what patterns find",
            shed.span,
            "a rule has no events of its own",
            "write it on the patterns that the rule reads",
        )
    return service_of(rule.service)


def _scope(inputs: Inputs) -> Scope:
    """What names mean in a rule besides its members: `let`s, places, functions."""
    like = next(iter(inputs.scopes.values()))
    return replace(like, stream=m.Stream(), attributes={}, has_attr_lines=True, results={}, lets_of_pairs=set())


def _members(rule: t.Rule, source: SourceText, inputs: Inputs, scope: Scope) -> _Names | None:
    """What all members range over; None, and reports, if one ranges over nothing or two have the same name."""
    report = inputs.report
    places: dict[str, tuple[SourceText, Span]] = {}
    found: list[dict[str, Rows]] = []
    is_wrong = False
    for members in (rule.members, *(unless.members for unless in rule.unless)):
        own: dict[str, Rows] = {}
        for member in members:
            if member.name in places:
                note = Note(*places[member.name], "the first is here")
                message = f"two members are called `{member.name}`"
                report.error(source, message, member.name_span, "needs a name of its own", note=note)
                is_wrong = True
                continue
            if member.name in scope.lets or member.name in scope.knowledge or member.name in scope.lookups:
                message = f"`{member.name}` has a meaning already"
                report.error(source, message, member.name_span, "the member needs a name of its own")
                is_wrong = True
            places[member.name] = (source, member.name_span)
            rows = inputs.rows(member, source)
            if rows is None:
                is_wrong = True
            else:
                own[member.name] = rows
        found.append(own)
    return None if is_wrong else _Names(found[0], found[1:], places)


def _is_kept(rule: t.Rule, names: _Names, source: SourceText, report: Diagnostics) -> bool | None:
    """Whether a rule is over facts alone; None, and a report, where it has other members and none of them happens."""
    over = {rows.over for rows in names.rule.values()}
    if over - {"facts", "kept", "newest"}:
        return False
    if "newest" in over:
        newest = next(member for member in rule.members if names.rule[member.name].over == "newest")
        report.error(
            source,
            "nothing happens in this rule: a newest row is joined by what happens while it is the newest",
            newest.span,
            "stands until the next of its key",
            f"write `{newest.name}: {newest.of}` if each of its events counts",
        )
        return None
    for unless, own in zip(rule.unless, names.unless, strict=True):
        for member in unless.members:
            if own[member.name].over not in ("facts", "kept"):
                report.error(
                    source,
                    f"a rule over facts alone has no time at which `{member.name}` could have happened",
                    member.span,
                    "not facts",
                    "add a member that happens, such as an event or a detection",
                )
                return None
    if rule.within is not None:
        report.error(source, "a rule over facts alone has no times", rule.within.span, "nothing to be within")
        return None
    return True


def _resolver(scope: Scope, names: _Names, unless: int | None) -> RuleResolver:
    """The resolver of the rule's own conditions, or of those of an `unless`."""
    visible = names.rule if unless is None else {**names.rule, **names.unless[unless]}
    others = {name: place for name, place in names.places.items() if name not in visible}
    return RuleResolver(replace(scope, results={}), visible, others, of_unless=unless is not None)


def _resolve_lets(
    resolver: RuleResolver, where: t.Expression | None, gathered: DeclaredNames, ordered: Lets, used_in: Note
) -> None:
    """What the `let`s of a condition mean for these members."""
    needed = lets_under(where, gathered) if where is not None else set()
    resolver.used_in = used_in
    for let, source in ordered:
        if let.name in needed:
            resolver.scope.results[let.name] = resolver.resolve(let.body, source, in_regex=False)
    resolver.used_in = None


def _asked(resolvers: Sequence[RuleResolver]) -> dict[str, dict[str, m.Attribute]]:
    """The columns that conditions read, by member, in the order of the text."""
    found: dict[str, dict[str, m.Attribute]] = {}
    for resolver in resolvers:
        for member, columns in resolver.asked.items():
            known = found.setdefault(member, {})
            for name, column in columns.items():
                known.setdefault(name, column)
    return found


def _made(
    members: Sequence[t.Member], rows: Mapping[str, Rows], asked: Mapping[str, Mapping[str, m.Attribute]]
) -> tuple[m.Member, ...]:
    made = []
    for member in members:
        own = rows[member.name]
        position = own.scope.stream.position
        columns = asked.get(member.name, {})
        where = position if position is not None and set(position) <= columns.keys() else None
        asked_for = tuple(columns.values())
        times = own.lasts_s, own.delay_s
        made.append(m.Member(member.name, own.over, own.of, asked_for, where, *times, span=member.span))
    return tuple(made)


def _once_for(
    rule: t.Rule, names: _Names, kept: bool | None, source: SourceText, report: Diagnostics
) -> tuple[str, ...]:
    if rule.once_for is None:
        return ()
    for name in rule.once_for.members:
        if name.name not in names.rule:
            hint = report.suggest(name.name, list(names.rule))
            label = f"its members are {', '.join(f'`{member}`' for member in names.rule)}"
            message = f"no member of this rule is called `{name.name}`"
            if name.name in names.places:
                message = f"`{name.name}` belongs to an `unless`, and of its rows a match has none"
            report.error(source, message, name.span, label, hint)
    if kept:
        report.error(
            source,
            "a rule over facts alone keeps all its matches, and none of them is the first",
            rule.once_for.span,
            "asks for the first match",
            "leave it out",
        )
    return tuple(name.name for name in rule.once_for.members)


def _emit(resolver: RuleResolver, rule: t.Rule, source: SourceText) -> tuple[m.RuleColumn, ...]:
    report = resolver.report
    resolver.source = source
    found: dict[str, m.RuleColumn] = {}
    for item in rule.emit.columns if rule.emit is not None else ():
        assert not isinstance(item, t.EmittedValue)  # the grammar of rules has none
        if isinstance(item, t.Name) or item.variable is None:
            column = item.name if isinstance(item, t.Name) else item.column
            example = next((name for name, rows in resolver.members.items() if has_column(rows, column)), "x")
            message = f"`{column}` stands alone, and a rule has members"
            report.error(source, message, item.span, f"whose `{column}`?", f"write `emit {example}.{column}`")
            continue
        value = resolver.column(t.Column(item.variable, item.column, span=_span_of_column(item)))
        name = item.column if item.name is None else item.name
        other = f"`emit {item.variable}.{item.column} as {item.column}_{item.variable}`"
        if name in found:
            label, hint = "once before it already", f"give it another name: {other}"
            report.error(source, f"two columns are called `{name}`", item.span, label, hint)
        elif name in COLUMNS_OF_A_MATCH:
            message = f"every match has a column `{name}` already"
            report.error(source, message, item.span, "needs another name", f"write {other}")
        elif isinstance(value, Valued):
            assert isinstance(value.value, m.Of)
            attribute = value.value.operand
            assert isinstance(attribute, m.Attribute)
            found[name] = m.RuleColumn(name, item.variable, attribute.name, value.kind, attribute.unit)
    return tuple(found.values())


def _span_of_column(item: t.Emitted) -> Span:
    """The place of `r.other` in `r.other as partner`."""
    return Span(item.span.start, item.sign_span.end + len(item.column))
