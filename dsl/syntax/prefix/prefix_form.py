"""The older prefix form of patterns becomes the tree of the same patterns in this language.

    ;(IsEventTypePredicate(A),+(GT(speed,5),TruePredicate())){partitionBy:mmsi}{window:100}{windowType:count}

reads as `(type = "A") ; ((speed > 5) | any) within 100 events`, with `mmsi` as the key. Patterns are separated by `&`.
Options stand in braces before or after a pattern; those before the first one hold for all. Such files have no stream
block, and no names for patterns unless an option `{name:…}` gives one. Their events hold the time in seconds in
`timestamp` and the position in `lon` and `lat`; `partitionBy` or the caller names the key. `{order:n}` was for
forecasts and means nothing here, and `{window:0}` is no window.

Registers (`["x"]`, `GTAttr(speed,"x")`), which compare events of one match, and the exclusions `~(…)` of a file of
declarations have no counterpart here: a message says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.errors.syntax_error import PatternSyntaxError, TreeHeightError
from wayeb_py.dsl.syntax.lexicon import BLANK
from wayeb_py.dsl.syntax.prefix.prefix_heads import (
    BARE,
    COUNTED,
    OPERATORS,
    POSITIONED,
    PREDICATES,
    Arguments,
    as_regex,
    negated,
)
from wayeb_py.dsl.tree_height import MAX_HEIGHT, too_high
from wayeb_py.dsl.wording import did_you_mean, shown
from wayeb_py.errors import Diagnostic, PatternError, SourceText, Span

_TIME_COLUMN, _TIME_UNIT, _LON, _LAT = "timestamp", "s", "lon", "lat"

_TOKEN = re.compile(
    r"(?P<open>(?:[;+*!#@^|~-]|[^\W\d]\w*)\s*\()|(?P<close>\))|(?P<comma>,)|(?P<next>&)"
    r"|(?P<options>\{[^{}]*\})|(?P<register>\[[^\]\n]*\])|(?P<minus>-(?!\s*\d))"
    r"|(?P<word>\"(?:[^\"\\\n]|\\.)*\"|[^\s,(){}&\[]+)|(?P<stray>.)",
    re.DOTALL,
)


def begins_prefix_form(text: str, start: int) -> bool:
    """Whether an operator, a predicate or options of the older form stand at a place."""
    predicate = rf"TruePredicate\b|(?:{'|'.join(PREDICATES)}|\w+(?:Attr|AttrStr|Predicate))\s*\("
    operator = r"[;+*!#@^|~-]\s*\("
    option = rf"\{{\s*(?:{'|'.join(_OPTIONS)})\s*:"
    return re.compile(rf"(?:-\s*)*(?:{operator}|{predicate})|{option}").match(text, start) is not None


def convert_prefix(text: str) -> str:
    """The patterns of a text in the older form, written in this language; raises PatternError with its errors."""
    from wayeb_py.dsl.syntax.format import format_text  # for start-up time
    from wayeb_py.dsl.syntax.printer import print_tree  # for start-up time

    file, errors = parse_prefix(SourceText("<text>", text))
    if errors:
        raise PatternError(errors)
    return format_text(print_tree(file))


def parse_prefix(source: SourceText) -> tuple[t.File, list[Diagnostic]]:
    """The tree of a text in the older form, and the errors of the patterns that could not be read."""
    reader = _Reader(source)
    try:
        reader.read()
    except TreeHeightError as error:
        raise too_high(source, error.span) from None
    return t.File(tuple(reader.declarations()), source), reader.errors


@dataclass(slots=True)
class _Call:
    """An operator or predicate whose parenthesis is open; words are arguments of a predicate."""

    head: str
    span: Span
    arguments: list[tuple[t.Expression, int]] = field(default_factory=list)
    words: list[tuple[str, Span]] = field(default_factory=list)
    wants_argument: bool = True
    minuses: int = 0


class _Reader:
    """Reads all patterns of a text; an error ends its own pattern."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.errors: list[Diagnostic] = []
        self.patterns: list[t.Pattern] = []
        self.names: set[str] = set()
        self.for_all: dict[str, tuple[str, Span]] = {}
        self.key: str | None = None
        self.uses_position = False
        self.minuses: list[Span] = []
        self.rounds: list[Span] = []

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
                except PatternSyntaxError as error:
                    self.errors.append(error.at(self.source))
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
        self.minuses = []
        while True:
            blank = BLANK.match(text, at, end)
            at = blank.end() if blank else at
            match = _TOKEN.match(text, at, end)
            if match is None:
                break
            span, at = Span(match.start(), match.end()), match.end()
            if match["options"]:
                if calls:
                    raise PatternSyntaxError("options stand outside the parentheses", span, "inside a pattern")
                found = _read_options(match[0], span)
                options.update(found)
                if first and number == 1:
                    self.for_all.update(found)
                continue
            first = False
            if match["register"]:
                raise _no_registers(span)
            if body is not None and match["comma"] and "~" in text:
                raise _no_declarations(span)
            if body is not None:
                raise PatternSyntaxError(
                    "a pattern ends here", span, "something follows it", "write `&` between two patterns"
                )
            made = self.take(match, span, calls)
            if made is not None:
                body = made
        if calls:
            raise PatternSyntaxError(
                "this parenthesis is never closed", calls[-1].span, "opened here, and its `)` is missing"
            )
        if body is None:
            place = Span(max(start, at - 1), max(at, start + 1))
            raise PatternSyntaxError("a pattern is missing here", place, "only options, or nothing at all")
        self.patterns.append(self.pattern(body, {**self.for_all, **options}, number))

    def take(self, match: re.Match[str], span: Span, calls: list[_Call]) -> t.Expression | None:
        """Takes one token; gives the whole expression when its last parenthesis closes."""
        top = calls[-1] if calls else None
        if match["minus"]:
            self.minuses.append(span)
            return None
        if match["open"]:
            head = match["open"][:-1].strip()
            if head == "~":
                raise _no_declarations(span)
            if top is not None and not top.wants_argument:
                raise PatternSyntaxError("a comma is missing here", span, "between two arguments")
            calls.append(_Call(head, span, minuses=self.take_minuses()))
            return None
        if match["word"] == BARE:
            if top is not None and not top.wants_argument:
                raise PatternSyntaxError("a comma is missing here", span, "between two arguments")
            return self.made(t.Word("any", span=span), 5, self.take_minuses(), span, calls)
        if self.minuses:
            place = self.minuses[-1]
            raise PatternSyntaxError("`-` negates a predicate", place, "none follows", "write for example `-EQ(x,1)`")
        if top is None:
            raise PatternSyntaxError(
                f"`{shown(match[0])}` cannot begin a pattern",
                span,
                "an operator or a predicate is expected",
                "write for example `;(A(…),B(…))`",
            )
        if match["comma"]:
            if top.wants_argument:
                raise PatternSyntaxError("something is missing before this comma", span, "has nothing on its left")
            top.wants_argument = True
            return None
        if match["word"]:
            if not top.wants_argument:
                raise PatternSyntaxError("a comma is missing here", span, "between two arguments")
            top.words.append((match["word"], span))
            top.wants_argument = False
            return None
        if not match["close"]:
            raise PatternSyntaxError(f"`{shown(match[0])}` means nothing here", span, "not a sign of this form")
        if top.wants_argument and (top.arguments or top.words):
            raise PatternSyntaxError("something is missing after the comma", span, "closes too early")
        calls.pop()
        whole = Span(top.span.start, span.end)
        node, height = self.close(top, whole)
        return self.made(node, height, top.minuses, whole, calls)

    def take_minuses(self) -> int:
        """How many signs of negation stand before what begins here."""
        found, self.minuses = len(self.minuses), []
        return found

    def made(
        self, node: t.Expression, height: int, minuses: int, whole: Span, calls: list[_Call]
    ) -> t.Expression | None:
        """Hands a finished expression to the call that it is an argument of; the last one is the pattern's."""
        height += 3 * minuses
        if height > MAX_HEIGHT:
            raise TreeHeightError(Span(whole.start, min(whole.end, whole.start + 60)))
        for _ in range(minuses):
            node = negated([node], whole)
        if not calls:
            return as_regex(node)
        calls[-1].arguments.append((node, height))
        calls[-1].wants_argument = False
        return None

    def close(self, call: _Call, span: Span) -> tuple[t.Expression, int]:
        """The expression of an operator or predicate whose parenthesis closes."""
        if call.head in OPERATORS:
            if call.words:
                word, place = call.words[0]
                raise PatternSyntaxError(
                    f"`{shown(word)}` is not a predicate",
                    place,
                    "a predicate has parentheses",
                    f"write `{shown(word)}(…)`",
                )
            low, build = OPERATORS[call.head]
            if len(call.arguments) < low or (call.head in "*!-" and len(call.arguments) > 1):
                needs = "one argument" if call.head in "*!-" else f"{COUNTED[low]} or more"
                raise PatternSyntaxError(f"`{call.head}` takes {needs}", span, f"has {len(call.arguments)}")
            # Parentheses that the text of this language needs add up to three levels.
            height = 3 + max(height for _, height in call.arguments)
            if call.head in "#@" and isinstance(call.arguments[0][0], t.Iteration) and len(call.arguments) == 1:
                self.write_rounds_once(call, span)
                height += 7
            return build([argument for argument, _ in call.arguments], span), height
        if re.fullmatch(r"\w+Attr(?:Str)?", call.head):
            raise _no_registers(call.span)
        if call.head not in PREDICATES:
            hint = did_you_mean(call.head, list(PREDICATES))
            raise PatternSyntaxError(
                f"unknown predicate `{call.head}`", call.span, "not a predicate of the older form", hint
            )
        if call.arguments:
            raise PatternSyntaxError(f"`{call.head}` takes plain values", call.arguments[0][0].span, "not a value")
        n_words, usage, make = PREDICATES[call.head]
        if len(call.words) != n_words:
            raise PatternSyntaxError(
                f"`{call.head}` takes {n_words} argument{'' if n_words == 1 else 's'}",
                span,
                f"has {len(call.words)}",
                f"write `{usage}`",
            )
        self.uses_position = self.uses_position or call.head in POSITIONED
        return make(Arguments(call.words, span)), 5

    def write_rounds_once(self, call: _Call, span: Span) -> None:
        """Refuses rounds inside rounds: each writes its formula three times here, and forty levels would fill any
        memory."""
        if any(span.start < inner.start and inner.end < span.end for inner in self.rounds):
            raise PatternSyntaxError(
                f"`{call.head}` over `*` cannot stand inside another such", call.span, "one is inside this one already"
            )
        self.rounds.append(span)

    def pattern(self, body: t.Expression, options: dict[str, tuple[str, Span]], number: int) -> t.Pattern:
        within = _window(options)
        if "partitionBy" in options:
            key, span = options["partitionBy"]
            if self.key not in (None, key):
                raise PatternSyntaxError(
                    "all patterns of a file are about the entities of one key", span, f"`{self.key}` before"
                )
            self.key = key
        name, span = options.get("name", (f"pattern_{number}", body.span))
        if name in self.names:
            raise PatternSyntaxError(f"the pattern `{name}` is declared twice", span, "a second time")
        self.names.add(name)
        return t.Pattern(
            name, body, None, within, None, span=body.span, name_span=Span(span.start, min(span.end, span.start + 40))
        )


def _no_registers(span: Span) -> PatternSyntaxError:
    return PatternSyntaxError(
        "registers are not supported",
        span,
        "keeps an event of the match, or compares with one",
        "an event is compared with the one before it by `prev(x)`; other events of a match cannot be compared",
    )


def _no_declarations(span: Span) -> PatternSyntaxError:
    return PatternSyntaxError(
        "declarations such as `~(…)` are not supported",
        span,
        "belongs to a file of declarations, not of patterns",
        "nothing is lost without it: which predicates exclude each other follows from what they say",
    )


# Options.

_OPTIONS = ("partitionBy", "window", "windowType", "order", "name")


def _read_options(text: str, span: Span) -> dict[str, tuple[str, Span]]:
    found: dict[str, tuple[str, Span]] = {}
    for part in text[1:-1].split(","):
        name, colon, value = (piece.strip() for piece in part.partition(":"))
        if not colon or not value:
            raise PatternSyntaxError(
                "an option is a name and a value", span, "not such an option", "write for example `{window:100}`"
            )
        if name not in _OPTIONS:
            raise PatternSyntaxError(
                f"unknown option `{shown(name)}`", span, "not an option", did_you_mean(name, _OPTIONS)
            )
        if name in ("window", "order") and not (value.isascii() and value.isdecimal() and len(value) <= 18):
            raise PatternSyntaxError(f"`{name}` is a whole number", span, f"`{shown(value)}` is none")
        if name == "windowType" and value not in ("time", "count"):
            raise PatternSyntaxError("`windowType` is `time` or `count`", span, f"`{shown(value)}` is neither")
        if name == "name" and re.fullmatch(r"[^\W\d]\w*", value) is None:
            raise PatternSyntaxError("the name of a pattern is one word", span, f"`{shown(value)}` is none")
        if "`" in value or "\n" in value:
            raise PatternSyntaxError("an option is a name and a value", span, "not such a value")
        found[name] = (value, span)
    return found


def _window(options: dict[str, tuple[str, Span]]) -> t.Within | None:
    if "window" not in options:
        return None
    (value, span), (kind, _) = options["window"], options.get("windowType", ("count", Span(0, 0)))
    if int(value) == 0:
        return None
    if kind == "time":
        return t.Within(t.Number(value, _TIME_UNIT, span=span), False, span=span)
    return t.Within(t.Number(value, None, span=span), True, span=span)
