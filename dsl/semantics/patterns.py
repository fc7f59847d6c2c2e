"""Patterns become their meaning: the stream that each reads, its regex, its clauses, and what it emits.

Every stream has a scope of its own, since `speed` may be in knots in one and in m/s in another; a `let` is resolved
once for each stream whose patterns use it. A `let` about a pair is resolved in each pattern over pairs that uses it,
where `a` and `b` mean something.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Literal, cast

from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.functions import ways_to_call
from wayeb_py.dsl.semantics.calls.emitted import emitted_by
from wayeb_py.dsl.semantics.letters import as_regex, written_text
from wayeb_py.dsl.semantics.matches import registers, ways
from wayeb_py.dsl.semantics.names import DeclaredNames, names_in
from wayeb_py.dsl.semantics.pairs import pairing_of, warn_of_asymmetry
from wayeb_py.dsl.semantics.resolve import Resolver
from wayeb_py.dsl.semantics.scope import Pairing, Scope
from wayeb_py.dsl.semantics.typed_expressions import Place, Wrong
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.printer import print_tree
from wayeb_py.dsl.units import UNITS
from wayeb_py.errors import SourceText

Scopes = Mapping[str | None, Scope]


def resolve_all(
    scopes: Scopes, gathered: DeclaredNames, ordered: Sequence[tuple[t.Let, SourceText]]
) -> list[m.Pattern]:
    """The meaning of all patterns; those with an error are reported and left out."""
    of_pairs = _lets_naming(entities_of_pairs(gathered), ordered)
    of_rules = _lets_naming(members_of_rules(gathered), ordered)
    for name, scope in scopes.items():
        scope.lets_of_pairs, scope.lets_of_rules = of_pairs, of_rules
        resolver = Resolver(scope)
        used = _used_on(name, scopes, gathered)
        for let, source in ordered:
            if let.name not in of_pairs | of_rules and (used is None or let.name in used):
                scope.results[let.name] = resolver.resolve(let.body, source, in_regex=False)
    patterns = []
    clocks: set[str | None] = set()
    for pattern, source in gathered.patterns.values():
        made = _pattern(scopes, gathered, ordered, pattern, source)
        if made is not None:
            patterns.append(made)
            what = "pairs" if made.pair is not None else "the end of a word" if made.ends_word else "a silence"
            warn_of_lateness(scopes, clocks_of(made), (source, made.span), f"`{made.name}` is about {what}", clocks)
    return patterns


def _used_on(stream: str | None, scopes: Scopes, gathered: DeclaredNames) -> set[str] | None:
    """The `let`s that patterns on a stream use; None, for all, where it is the only one.

    A `let` that no pattern uses belongs to the first stream.
    """
    if len(scopes) == 1:
        return None
    streams = list(scopes)
    by_stream: dict[str | None, set[str]] = {name: set() for name in streams}
    for pattern, _ in gathered.patterns.values():
        own = None if pattern.on is None else pattern.on.stream
        if isinstance(pattern.each, t.EachPair):
            own = pattern.each.stream
        by_stream.setdefault(own, set()).update(*(lets_under(body, gathered) for body in bodies_of(pattern)))
    by_stream[streams[0]] |= gathered.lets.keys() - set().union(*by_stream.values())
    return by_stream[stream]


def bodies_of(pattern: t.Pattern) -> list[t.Expression]:
    """The expressions of a pattern: its regex, and the values that it emits."""
    items = () if pattern.emit is None else pattern.emit.columns
    return [pattern.body, *(item.value for item in items if isinstance(item, t.EmittedValue))]


def lets_under(body: t.Expression, gathered: DeclaredNames) -> set[str]:
    """The `let`s that an expression needs, and those that they need."""
    found: set[str] = set()
    waiting = [body]
    while waiting:
        for name in names_in(waiting.pop()) & gathered.lets.keys() - found:
            found.add(name)
            waiting.append(gathered.lets[name][0].body)
    return found


def entities_of_pairs(gathered: DeclaredNames) -> set[str]:
    """What patterns over pairs call their entities."""
    heads = [pattern.each for pattern, _ in gathered.patterns.values()]
    return {variable for each in heads if isinstance(each, t.EachPair) for variable in each.variables}


def members_of_rules(gathered: DeclaredNames) -> set[str]:
    """What rules call their members."""
    rules = [rule for rule, _ in gathered.rules.values()]
    every = [*(rule.members for rule in rules), *(unless.members for rule in rules for unless in rule.unless)]
    return {member.name for members in every for member in members}


def _lets_naming(variables: set[str], ordered: Sequence[tuple[t.Let, SourceText]]) -> set[str]:
    """The `let`s that name one of the `variables`, or use another such `let`."""
    found: set[str] = set()
    for let, _ in ordered if variables else ():
        if names_in(let.body) & found or any(_names_one(part, variables) for part in _expressions(let.body)):
            found.add(let.name)
    return found


def _expressions(root: t.Expression) -> Iterator[t.Expression]:
    waiting = [root]
    while waiting:
        part = waiting.pop()
        yield part
        waiting.extend(t.parts_of(part))


def _names_one(part: t.Expression, variables: set[str]) -> bool:
    if isinstance(part, t.Column):
        return part.variable in variables
    if not isinstance(part, t.Call) or not part.arguments:
        return False
    first = part.arguments[0]
    asks = any(way.whose or way.of_several for way in ways_to_call(part.function))
    return asks and isinstance(first, t.Name) and first.name in variables


def _pattern(
    scopes: Scopes,
    gathered: DeclaredNames,
    ordered: Sequence[tuple[t.Let, SourceText]],
    pattern: t.Pattern,
    source: SourceText,
) -> m.Pattern | None:
    pair = None
    if isinstance(pattern.each, t.EachPair):
        pair = pairing_of(scopes, pattern, pattern.each, source)
        scope = pair.scopes["a"] if pair is not None else None
    else:
        scope = _scope_of(scopes, pattern, source, gathered.has_broken_stream)
    if scope is None:
        return None
    resolver = Resolver(scope)
    if pair is not None:
        needed = set().union(*(lets_under(body, gathered) for body in bodies_of(pattern))) & scope.lets_of_pairs
        for let, let_source in ordered:
            if let.name in needed:
                scope.results[let.name] = resolver.resolve(let.body, let_source, in_regex=False, pair=pair)
    each = _each(scope, pattern, source)
    emitted = emitted_by(scope, pattern, source, None if each == "wrong" else each, pair)
    silence_s, silence_of = _silence_s(scope, pattern, pair, source), _silence_of(scope, pattern, pair, source)
    names = registers.names_given(pattern.body)
    result = None
    if each != "wrong":
        result = resolver.resolve(pattern.body, source, each, pair=pair, named=frozenset(names))
        registers.check_names(resolver, names, each)
    regex = as_regex(resolver, result, pattern.body, None) if result is not None else None
    if regex is None or isinstance(result, Wrong) or each == "wrong":
        return None
    made = m.Pattern(
        pattern.name,
        regex,
        source,
        _window(pattern),
        emitted.columns,
        each,
        _text(pattern, source),
        scope.stream.name,
        None if pair is None else pair.meaning,
        silence_s,
        emitted.of,
        silence_of=silence_of,
        measures=emitted.measures,
        which=_which(scope, pattern, source),
        emit_order=emitted.order if emitted.measures else (),
        service=service_of(pattern.service),
        ends_word=isinstance(pattern.silence, t.WordEnd),
        span=pattern.name_span,
    )
    ways.check_regex(scope.report, source, made)
    if pair is not None and isinstance(pattern.each, t.EachPair):
        warn_of_asymmetry(made, pattern.each, source, scope.report)
    return made


def _scope_of(scopes: Scopes, pattern: t.Pattern, source: SourceText, is_broken: bool) -> Scope | None:
    """The scope of the stream that a pattern reads; None, and a report, if it names none of them."""
    streams = [name for name in scopes if name is not None]
    first = next(iter(scopes.values()))
    if pattern.on is None:
        if len(scopes) > 1:
            first.report.error(
                source,
                f"this file has {len(scopes)} streams, and the pattern does not say which it reads",
                pattern.name_span,
                "no `on STREAM` after its name",
                f"write `pattern {pattern.name} on {streams[0]} := …`",
            )
            return None
        return first
    scope = scopes.get(pattern.on.stream)
    if scope is None and not is_broken:
        hint = first.report.suggest(pattern.on.stream, streams)
        if not streams:
            hint = f"declare it: `stream {pattern.on.stream} {{ … }}`"
        first.report.error(
            source, f"no stream is called `{pattern.on.stream}`", pattern.on.span, "not declared in this file", hint
        )
    return scope


def _window(pattern: t.Pattern) -> m.Window | None:
    if pattern.within is None:
        return None
    amount = pattern.within.amount
    if pattern.within.events:
        return m.Window(events=int(amount.literal))
    return m.Window(seconds=amount.value * UNITS[amount.unit or "s"].factor)


def _which(scope: Scope, pattern: t.Pattern, source: SourceText) -> m.WhichMatches:
    """Which matches a pattern reports; reporting every start needs a window, which bounds how long a start is kept."""
    if pattern.which is None:
        return "every end"
    words = cast(m.WhichMatches, pattern.which.words)
    if words != "without overlap" and pattern.within is None:
        scope.report.error(
            source,
            f"`{words}` needs a window",
            pattern.which.span,
            "every event may be the start of a match, and nothing says for how long",
            f"write for example `within 1 h {words}`",
        )
    return words


def _silence_s(scope: Scope, pattern: t.Pattern, pair: Pairing | None, source: SourceText) -> Fraction | None:
    """How long nothing may follow; for `$`, the end of a word, as long as the stream remembers entities."""
    if pattern.silence is None:
        return None
    is_end = isinstance(pattern.silence, t.WordEnd)
    what, said = ("be at the end of a word", "; $") if is_end else ("end in a silence", "; silence")
    if isinstance(pattern.body, t.Union | t.Intersection):
        sign = "|" if isinstance(pattern.body, t.Union) else "&"
        scope.report.error(
            source,
            f"`;` binds more tightly than `{sign}`: only the last part would {what}",
            pattern.body.operator_spans[-1],
            f"`{sign}` before `{said}`",
            f"put what comes before `{said}` in parentheses",
        )
    if isinstance(pattern.silence, t.Silence):
        return _seconds(pattern.silence.duration)
    if pair is not None:
        scope.report.error(
            source, "`$` is the end of one entity's word, and this pattern is about pairs", pattern.silence.span,
            "whose word?", "say how long nothing may come after it, as in `; silence 1 h`",
        )  # fmt: skip
    return word_end_s(scope.stream)


def word_end_s(stream: m.Stream) -> Fraction:
    """The silence that ends a word of a stream."""
    return m.NEVER_FORGOTTEN_S if stream.forget_after_s is None else stream.forget_after_s


def _silence_of(scope: Scope, pattern: t.Pattern, pair: Pairing | None, source: SourceText) -> m.Role | None:
    """Whose silence ends a pattern over pairs; None for both."""
    silence = pattern.silence
    if not isinstance(silence, t.Silence) or silence.of is None:
        return None
    if pair is None:
        scope.report.error(
            source,
            f"`of {silence.of}` says whose silence it is, and this pattern looks at one entity at a time",
            silence.of_span,
            "not needed here",
            f"write `; silence {silence.duration.text}`",
        )
    elif silence.of not in pair.roles:
        a, b = pair.meaning.variables
        scope.report.error(
            source,
            f"`{silence.of}` is not an entity of this pair",
            silence.of_span,
            "whose silence?",
            f"write `silence of {a} {silence.duration.text}` or `silence of {b} {silence.duration.text}`, "
            f"or `silence {silence.duration.text}` for both",
        )
    else:
        return pair.roles[silence.of]
    return None


def clocks_of(pattern: m.Pattern) -> tuple[str | None, ...]:
    """The streams whose clocks a pattern needs."""
    if pattern.pair is not None:
        return pattern.pair.streams
    return () if pattern.silence_s is None else (pattern.stream,)


def warn_of_lateness(
    scopes: Scopes, streams: Iterable[str | None], place: Place, who: str, known: set[str | None]
) -> None:
    """Warns of streams whose clock a pattern uses although they allow no lateness at all; once a stream."""
    for name in dict.fromkeys(streams):
        scope = scopes[name]
        if scope.stream.lateness_s or name in known:
            continue
        known.add(name)
        scope.report.warn(
            place[0],
            f"{who}, and the stream{f' `{name}`' if name else ''} has a lateness of 0",
            place[1],
            "needs a time that all entities agree on",
            "an event older than one that arrived before it, of whichever entity, is set aside: write for example "
            "`lateness 5 min` in the stream block",
            of_arrival=True,
        )


def service_of(service: t.Service | None) -> m.Service:
    """What the clauses about the quality of service say."""
    if service is None:
        return m.USUAL_SERVICE
    valid, shed = service.valid, service.shed
    return m.Service(
        "normal" if service.priority is None else service.priority.level,
        None if valid is None else _seconds(valid.duration),
        valid is not None and valid.otherwise == "drop",
        None if shed is None else _seconds(shed.duration),
    )


def _seconds(duration: t.Number) -> Fraction:
    return duration.value * UNITS[duration.unit or "s"].factor


def _text(pattern: t.Pattern, source: SourceText) -> str:
    """What follows the name, without the `:=`."""
    written = (pattern.silence, pattern.within, pattern.which, pattern.emit, pattern.service)
    clauses = [print_tree(clause) for clause in written if clause is not None]
    head = " ".join(print_tree(part) for part in (pattern.on, pattern.each) if part is not None)
    return " ".join([*([f"{head}:"] if head else []), written_text(source, pattern.body), *clauses])


def _each(scope: Scope, pattern: t.Pattern, source: SourceText) -> tuple[str, str] | Literal["wrong"] | None:
    """(variable, places), None without `for each`, or "wrong"."""
    each = pattern.each
    if not isinstance(each, t.ForEach):
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
