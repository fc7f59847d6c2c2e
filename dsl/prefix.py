"""The older prefix form of patterns becomes the tree of the same patterns in this language.

    ;(IsEventTypePredicate(A),+(GT(speed,5),TruePredicate())){partitionBy:mmsi}{window:100}{windowType:count}

reads as `(type = "A") ; ((speed > 5) | any) within 100 events`, with `mmsi` as the key. Patterns are separated by
`&`. Options stand in braces before or after a pattern; those before the first one hold for all. Such files know no
names for patterns, unless an option `{name:…}` gives one, and have no stream block: the events of that engine hold
their time in seconds in `timestamp`, and their position in `lon` and `lat`; the key is named by `partitionBy` or by
the caller. `{order:n}` was for forecasts and means nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from wayeb_py.dsl import tree as t
from wayeb_py.dsl.faults import MAX_HEIGHT, HeightFault, SyntaxFault
from wayeb_py.dsl.format import format_text
from wayeb_py.dsl.lexicon import BLANK, MAX_LITERAL
from wayeb_py.dsl.mistakes import did_you_mean, shown
from wayeb_py.dsl.parser import too_high
from wayeb_py.dsl.printer import ATOM, COMPLEMENT, enclosed
from wayeb_py.errors import Diagnostic, PatternError, Source, Span

_TIME_COLUMN, _TIME_UNIT, _LON, _LAT, _TYPE = "timestamp", "s", "lon", "lat", "type"

_TOKEN = re.compile(
    r"(?P<open>(?:[;+*!#@^|]|-(?!\d)|[^\W\d]\w*)\s*\()|(?P<close>\))|(?P<comma>,)|(?P<next>&)"
    r"|(?P<options>\{[^{}]*\})|(?P<word>\"(?:[^\"\\\n]|\\.)*\"|[^\s,(){}&]+)|(?P<stray>.)",
    re.DOTALL,
)
_NUMBER = re.compile(r"(-?)(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)", re.ASCII)


def is_prefix_form(text: str) -> bool:
    """Whether a text is in the older form: it begins with an operator, a predicate or options, never with a keyword."""
    blank = BLANK.match(text)
    start = blank.end() if blank else 0
    first = re.compile(rf"[;+*!#@^|-]\s*\(|\{{\s*(?:{'|'.join(_OPTIONS)})\s*:|(?:{'|'.join(_PREDICATES)})\s*\(")
    return first.match(text, start) is not None


def convert_prefix(text: str, name: str = "<text>") -> str:
    """The patterns of a text in the older form, written in this language; raises PatternError with its errors."""
    file, errors = parse_prefix(Source(name, text))
    if errors:
        raise PatternError(errors)
    return format_text(str(file))


def parse_prefix(source: Source) -> tuple[t.File, list[Diagnostic]]:
    """The tree of a text in the older form, and the errors of the patterns that could not be read."""
    reader = _Reader(source)
    try:
        reader.read()
    except HeightFault as fault:
        raise too_high(source, fault.span) from None
    return t.File(tuple(reader.declarations()), source), reader.errors


@dataclass(slots=True)
class _Call:
    """An operator or predicate whose parenthesis is open; words are arguments of a predicate."""

    head: str
    span: Span
    arguments: list[tuple[t.Expression, int]] = field(default_factory=list)
    words: list[tuple[str, Span]] = field(default_factory=list)
    wants_argument: bool = True


class _Reader:
    """Reads all patterns of a text; an error ends its own pattern."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.errors: list[Diagnostic] = []
        self.patterns: list[t.Pattern] = []
        self.names: set[str] = set()
        self.for_all: dict[str, tuple[str, Span]] = {}
        self.key: str | None = None
        self.uses_position = False

    def declarations(self) -> list[t.Declaration]:
        lines: list[t.StreamLine] = []
        if self.key is not None:
            lines = [t.Key(self.key), t.Time(_TIME_COLUMN, _TIME_UNIT)]
        if self.uses_position:
            lines = lines or [t.Time(_TIME_COLUMN, _TIME_UNIT)]
            lines.append(t.Position(_LON, _LAT))
        return [*([t.Stream("events", tuple(lines))] if lines else []), *self.patterns]

    def read(self) -> None:
        text = self.source.text
        start, number = 0, 1
        for end in [*self._ends(text), len(text)]:
            if text[start:end].strip() or number > 1 or end < len(text):
                try:
                    self.read_pattern(start, end, number)
                except SyntaxFault as fault:
                    self.errors.append(fault.at(self.source))
            start, number = end + 1, number + 1

    def _ends(self, text: str) -> list[int]:
        """Where `&` stands between patterns, not in a comment."""
        ends, at = [], 0
        while at < len(text):
            blank = BLANK.match(text, at)
            match = _TOKEN.match(text, blank.end() if blank else at)
            if match is None:
                break
            if match["next"]:
                ends.append(match.start())
            at = match.end()
        return ends

    def read_pattern(self, start: int, end: int, number: int) -> None:
        options: dict[str, tuple[str, Span]] = {}
        calls: list[_Call] = []
        body: t.Expression | None = None
        at, text = start, self.source.text
        first = True
        while True:
            blank = BLANK.match(text, at, end)
            at = blank.end() if blank else at
            match = _TOKEN.match(text, at, end)
            if match is None:
                break
            span, at = Span(match.start(), match.end()), match.end()
            if match["options"]:
                if calls:
                    raise SyntaxFault("options stand outside the parentheses", span, "inside a pattern")
                found = _read_options(match[0], span)
                options.update(found)
                if first and number == 1:
                    self.for_all.update(found)
                continue
            first = False
            if body is not None:
                raise SyntaxFault("a pattern ends here", span, "something follows it", "write `&` between two patterns")
            made = self.take(match, span, calls)
            if made is not None:
                body = made
        if calls:
            raise SyntaxFault("this parenthesis is never closed", calls[-1].span, "opened here, and its `)` is missing")
        if body is None:
            place = Span(max(start, at - 1), max(at, start + 1))
            raise SyntaxFault("a pattern is missing here", place, "only options, or nothing at all")
        self.patterns.append(self.pattern(body, {**self.for_all, **options}, number))

    def take(self, match: re.Match[str], span: Span, calls: list[_Call]) -> t.Expression | None:
        """Takes one token; gives the whole expression when its last parenthesis closes."""
        top = calls[-1] if calls else None
        if match["open"]:
            if top is not None and not top.wants_argument:
                raise SyntaxFault("a comma is missing here", span, "between two arguments")
            calls.append(_Call(match["open"][:-1].strip(), span))
            return None
        if top is None:
            raise SyntaxFault(
                f"`{shown(match[0])}` cannot begin a pattern",
                span,
                "an operator or a predicate is expected",
                "write for example `;(A(…),B(…))`",
            )
        if match["comma"]:
            if top.wants_argument:
                raise SyntaxFault("something is missing before this comma", span, "has nothing on its left")
            top.wants_argument = True
            return None
        if match["word"]:
            if not top.wants_argument:
                raise SyntaxFault("a comma is missing here", span, "between two arguments")
            top.words.append((match["word"], span))
            top.wants_argument = False
            return None
        if not match["close"]:
            raise SyntaxFault(f"`{shown(match[0])}` means nothing here", span, "not a sign of this form")
        if top.wants_argument and (top.arguments or top.words):
            raise SyntaxFault("something is missing after the comma", span, "closes too early")
        calls.pop()
        whole = Span(top.span.start, span.end)
        node, height = self.close(top, whole)
        if height > MAX_HEIGHT:
            raise HeightFault(Span(whole.start, min(whole.end, whole.start + 60)))
        if not calls:
            return _as_regex(node)
        calls[-1].arguments.append((node, height))
        calls[-1].wants_argument = False
        return None

    def close(self, call: _Call, span: Span) -> tuple[t.Expression, int]:
        """The expression of an operator or predicate whose parenthesis closes."""
        if call.head in _OPERATORS:
            if call.words:
                word, place = call.words[0]
                raise SyntaxFault(
                    f"`{shown(word)}` is not a predicate",
                    place,
                    "a predicate has parentheses",
                    f"write `{shown(word)}(…)`",
                )
            low, build = _OPERATORS[call.head]
            if len(call.arguments) < low or (low == 1 and len(call.arguments) > 1):
                needs = "one argument" if low == 1 else "two arguments or more"
                raise SyntaxFault(f"`{call.head}` takes {needs}", span, f"has {len(call.arguments)}")
            # Parentheses that the text of this language needs add up to three levels.
            height = 3 + max(height for _, height in call.arguments)
            return build([argument for argument, _ in call.arguments], span), height
        if call.head not in _PREDICATES:
            hint = did_you_mean(call.head, list(_PREDICATES))
            raise SyntaxFault(f"unknown predicate `{call.head}`", call.span, "not a predicate of the older form", hint)
        if call.arguments:
            raise SyntaxFault(f"`{call.head}` takes plain values", call.arguments[0][0].span, "not a value")
        n_words, usage, make = _PREDICATES[call.head]
        if len(call.words) != n_words:
            raise SyntaxFault(
                f"`{call.head}` takes {n_words} argument{'' if n_words == 1 else 's'}",
                span,
                f"has {len(call.words)}",
                f"write `{usage}`",
            )
        self.uses_position = self.uses_position or call.head in _POSITIONED
        return make(_Arguments(call.words, span)), 5

    def pattern(self, body: t.Expression, options: dict[str, tuple[str, Span]], number: int) -> t.Pattern:
        within = _window(options)
        if "partitionBy" in options:
            key, span = options["partitionBy"]
            if self.key not in (None, key):
                raise SyntaxFault(
                    "all patterns of a file are about the entities of one key", span, f"`{self.key}` before"
                )
            self.key = key
        name, span = options.get("name", (f"pattern_{number}", body.span))
        if name in self.names:
            raise SyntaxFault(f"the pattern `{name}` is declared twice", span, "a second time")
        self.names.add(name)
        return t.Pattern(name, body, None, within, None, body.span, Span(span.start, min(span.end, span.start + 40)))


# Options.

_OPTIONS = ("partitionBy", "window", "windowType", "order", "name")


def _read_options(text: str, span: Span) -> dict[str, tuple[str, Span]]:
    found: dict[str, tuple[str, Span]] = {}
    for part in text[1:-1].split(","):
        name, colon, value = (piece.strip() for piece in part.partition(":"))
        if not colon or not value:
            raise SyntaxFault(
                "an option is a name and a value", span, "not such an option", "write for example `{window:100}`"
            )
        if name not in _OPTIONS:
            raise SyntaxFault(f"unknown option `{shown(name)}`", span, "not an option", did_you_mean(name, _OPTIONS))
        if name in ("window", "order") and not (value.isascii() and value.isdecimal() and len(value) <= 18):
            raise SyntaxFault(f"`{name}` is a whole number", span, f"`{shown(value)}` is none")
        if name == "windowType" and value not in ("time", "count"):
            raise SyntaxFault("`windowType` is `time` or `count`", span, f"`{shown(value)}` is neither")
        if name == "name" and re.fullmatch(r"[^\W\d]\w*", value) is None:
            raise SyntaxFault("the name of a pattern is one word", span, f"`{shown(value)}` is none")
        if "`" in value or "\n" in value:
            raise SyntaxFault("an option is a name and a value", span, "not such a value")
        found[name] = (value, span)
    return found


def _window(options: dict[str, tuple[str, Span]]) -> t.Within | None:
    if "window" not in options:
        return None
    (value, span), (kind, _) = options["window"], options.get("windowType", ("count", Span(0, 0)))
    if kind == "time":
        return t.Within(t.Number(value, _TIME_UNIT, span), False, span)
    if int(value) == 0:
        raise SyntaxFault("a window has at least 1 event", span, "0 events")
    return t.Within(t.Number(value, None, span), True, span)


# Predicates.


@dataclass(frozen=True, slots=True)
class _Arguments:
    words: list[tuple[str, Span]]
    span: Span

    def name(self, i: int) -> t.Name:
        word, span = self.words[i]
        if "`" in word:
            raise SyntaxFault("this is not the name of an attribute", span, "not a name")
        return t.Name(word.strip('"') or "_", span)

    def text(self, i: int) -> t.Text:
        word, span = self.words[i]
        return t.Text(word[1:-1] if word.startswith('"') and len(word) > 1 else word, span)

    def number(self, i: int, unit: str | None = None) -> t.Expression:
        word, span = self.words[i]
        match = _NUMBER.fullmatch(word) if len(word) <= MAX_LITERAL else None
        if match is None or abs(_exponent(match[2])) > MAX_LITERAL:
            raise SyntaxFault(f"`{shown(word)}` is not a number", span, "a number is expected here")
        number = t.Number(match[2], unit, span)
        return t.Negative(number, span) if match[1] else number

    def value(self, i: int) -> t.Expression:
        return self.number(i) if _NUMBER.fullmatch(self.words[i][0]) else self.text(i)

    def place(self) -> t.Call:
        return t.Call(
            "distance", (t.Call("point", (self.number(0), self.number(1)), self.span, self.span),), self.span, self.span
        )


def _exponent(literal: str) -> int:
    digits = literal.lower().partition("e")[2]
    return int(digits) if digits and len(digits) < 8 else 0 if not digits else MAX_LITERAL + 1


def _comparing(sign: str) -> Callable[[_Arguments], t.Expression]:
    def make(a: _Arguments) -> t.Expression:
        value = a.value(1) if sign == "=" else a.number(1)
        return t.Compare(sign, a.name(0), value, a.span, a.span)  # type: ignore[arg-type]

    return make


_PREDICATES: dict[str, tuple[int, str, Callable[[_Arguments], t.Expression]]] = {
    "IsEventTypePredicate": (
        1,
        "IsEventTypePredicate(A)",
        lambda a: t.Compare("=", t.Name(_TYPE, a.span), a.text(0), a.span, a.span),
    ),
    "EQ": (2, "EQ(speed,5)", _comparing("=")),
    "GT": (2, "GT(speed,5)", _comparing(">")),
    "LT": (2, "LT(speed,5)", _comparing("<")),
    "GTE": (2, "GTE(speed,5)", _comparing(">=")),
    "LTE": (2, "LTE(speed,5)", _comparing("<=")),
    "BT": (3, "BT(speed,5,9)", lambda a: t.Between(a.name(0), a.number(1), a.number(2), False, a.span)),
    "EQStr": (2, "EQStr(engine,off)", lambda a: t.Compare("=", a.name(0), a.text(1), a.span, a.span)),
    "WithinCirclePredicate": (
        3,
        "WithinCirclePredicate(-4.47,48.38,5)",
        lambda a: t.Compare("<=", a.place(), a.number(2, "km"), a.span, a.span),
    ),
    "OutsideCirclePredicate": (
        3,
        "OutsideCirclePredicate(-4.47,48.38,5)",
        lambda a: t.Compare(">", a.place(), a.number(2, "km"), a.span, a.span),
    ),
    "DistanceBetweenPredicate": (
        4,
        "DistanceBetweenPredicate(-4.47,48.38,7,10)",
        lambda a: t.Between(a.place(), a.number(2), a.number(3, "km"), False, a.span),
    ),
    "TruePredicate": (0, "TruePredicate()", lambda a: t.Word("any", a.span)),
}
_POSITIONED = frozenset(["WithinCirclePredicate", "OutsideCirclePredicate", "DistanceBetweenPredicate"])


# Operators.

_Build = Callable[[list[t.Expression], Span], t.Expression]
_PREDICATE_NODES = (t.Compare, t.Between, t.Not, t.And, t.Or)


def _as_regex(node: t.Expression) -> t.Expression:
    """The expression as a part of a regex: a predicate stands in parentheses there."""
    return t.Group(node, node.span) if isinstance(node, _PREDICATE_NODES) else node


def _grouped(node: t.Expression, at_least: int) -> t.Expression:
    made = enclosed(node, at_least)
    return made if made is node else t.Group(node, node.span)


def _joined(build: Callable[..., t.Expression]) -> _Build:
    def make(parts: list[t.Expression], span: Span) -> t.Expression:
        # Nested joints keep parentheses of their own, as the older form has them.
        return build(tuple(_grouped(_as_regex(part), COMPLEMENT) for part in parts), span, (span,) * (len(parts) - 1))

    return make


def _joined_predicates(build: Callable[..., t.Expression]) -> _Build:
    def make(parts: list[t.Expression], span: Span) -> t.Expression:
        simple = (t.Compare, t.Between, t.Word, t.Not)
        operands = tuple(part if isinstance(part, simple) else t.Group(part, part.span) for part in parts)
        return build(operands, span, (span,) * (len(parts) - 1))

    return make


def _negated(parts: list[t.Expression], span: Span) -> t.Expression:
    (part,) = parts
    simple = isinstance(part, (t.Compare, t.Between, t.Word, t.Not))
    return t.Not(part if simple else t.Group(part, part.span), span, span)


_OPERATORS: dict[str, tuple[int, _Build]] = {
    ";": (2, _joined(t.Sequence)),
    "+": (2, _joined(t.Union)),
    "*": (1, lambda parts, span: t.Iteration(_grouped(_as_regex(parts[0]), ATOM), 0, None, span, span)),
    "!": (1, lambda parts, span: t.Complement(_grouped(_as_regex(parts[0]), COMPLEMENT), span, span)),
    "#": (2, lambda parts, span: t.Skip("#", tuple(map(_as_regex, parts)), span)),
    "@": (2, lambda parts, span: t.Skip("@", tuple(map(_as_regex, parts)), span)),
    "^": (2, _joined_predicates(t.And)),
    "|": (2, _joined_predicates(t.Or)),
    "-": (1, _negated),
}
