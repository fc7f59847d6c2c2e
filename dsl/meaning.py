"""What a checked file means: the tree that `check` returns and the engine compiles.

Here every name is resolved (`let` is gone), every predicate is typed, every unit is converted, `x in a..b` and `x in
{…}` are comparisons, and regexes have predicates as letters. The tree that mirrors the text is in `tree.py`; keeping
the two apart costs a translation and saves every later pass from guessing at names.

All classes are frozen and compare by meaning: spans do not count. Those that nest compare, hash and pickle without
recursion (`node.py`).

The values and predicates that letters are made of are in `predicates.py`, rules and facts in `rules.py`; both are names
of this module too, so that callers write `m.Compare`, `m.Letter` and `m.Rule` alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from fractions import Fraction
from typing import Any, Literal

from wayeb_py.dsl.node import NOWHERE as NOWHERE
from wayeb_py.dsl.node import Node, Spanned, node, record
from wayeb_py.dsl.predicates import *  # noqa: F403
from wayeb_py.dsl.predicates import Attribute, Kind, Predicate, Role, Value
from wayeb_py.dsl.rules import *  # noqa: F403
from wayeb_py.dsl.rules import USUAL_SERVICE, Facts, Rule, RuleExample, Service
from wayeb_py.dsl.walk import walk
from wayeb_py.errors import Diagnostic, SourceText

NEVER_FORGOTTEN_S = Fraction(10**12)  # the silence that ends a word where the stream forgets no entity

# Regexes.


@node
class Letter(Spanned, Node):
    """One event that satisfies a predicate; `text` is how the file writes it, with its names and units.

    `register` is the name that later letters of the match know the event by: `(R) as x`.
    """

    predicate: Predicate
    register: str | None = None
    text: str = field(default="", compare=False, repr=False)


@node
class Sequence(Spanned, Node):
    """The parts one after the other, with nothing between; no parts is the empty sequence."""

    parts: tuple[Regex, ...]


@node
class Union(Spanned, Node):
    parts: tuple[Regex, ...]


@node
class Intersection(Spanned, Node):
    parts: tuple[Regex, ...]


@node
class Complement(Spanned, Node):
    """Every sequence, the empty one included, that the body does not hold."""

    body: Regex


@node
class Iteration(Spanned, Node):
    """The body `at_least` to `at_most` times; None is without end."""

    body: Regex
    at_least: int
    at_most: int | None


@node
class SkipAny(Spanned, Node):
    """`#(R1, …, Rn)`: R1 ; any* ; R2 ; any* ; … ; Rn."""

    parts: tuple[Regex, ...]


@node
class SkipNext(Spanned, Node):
    """`@(R1, …, Rn)`: R1 ; !(any* ; R2 ; any*) ; R2 ; … ; !(any* ; Rn ; any*) ; Rn."""

    parts: tuple[Regex, ...]


Regex = Letter | Sequence | Union | Intersection | Complement | Iteration | SkipAny | SkipNext


# Declarations.


@record
class Window:
    """`within`: first and last event at most `seconds` apart, or at most `events` events; one of the two is None."""

    seconds: Fraction | None = None
    events: int | None = None


WhichMatches = Literal["every end", "without overlap", "from all starts", "once from each start"]
"""Which matches a pattern reports: at every event at which matches end one of them, the shortest or the longest; the
same without those that begin before the last reported match has ended; all of them; or the first of each start."""


@record
class Stream:
    """Where key, time and position are, how ties and lateness are treated, and the facts about the attributes.

    `time_unit` is None where the time is a timestamp. A file without a stream block has `key` and `time` None: the
    command line names them.
    """

    name: str | None = None
    key: str | None = None
    time: str | None = None
    time_unit: Literal["s", "ms", "us", "ns"] | None = None
    position: tuple[str, str] | None = None
    order: str | None = None
    lateness_s: Fraction | None = None
    forget_after_s: Fraction | None = None
    dedupe: bool = False
    clean: Literal["ais", "gps"] | None = None
    attributes: tuple[Attribute, ...] = ()
    motion: tuple[str, str] | None = None  # the attributes that are speed and course
    replaces: bool = False  # among an entity's events that wait in a live stream, only the newest stays

    def attribute(self, name: str) -> Attribute | None:
        """What an `attr` line says of a column."""
        return next((attribute for attribute in self.attributes if attribute.name == name), None)


@record
class Knowledge(Spanned):
    """`points`, `lines` or `areas` NAME from a file; the path is relative to the .sre file that declares it.

    The caller's own places (`given`) replace the file's, and may be anywhere. `name_column` is the column or property
    that is the name of a place, where the file says which, or where it was given with the file (`given_name`).
    """

    name: str
    shape: Literal["points", "lines", "areas"]
    path: str
    source: SourceText = field(compare=False, repr=False)
    given: bool = False
    name_column: str | None = None
    given_name: bool = False


@record
class Lookup(Spanned):
    """`lookup NAME from FILE`: a table by place and time, whose columns are the attributes `NAME.column`.

    An event gets a row of the nearest place, at most `nearest_m` away, that has a row in the `valid_s` seconds up to
    the event's time; among the rows of that place, the latest.
    """

    name: str
    path: str
    valid_s: Fraction
    nearest_m: Fraction
    source: SourceText = field(compare=False, repr=False)
    given: bool = False


@record
class EachPair:
    """`for each [ordered] pair a, b in vessels within 1 km fresh 10 min [projected]`.

    `streams` are those of a and of b, the same twice for a pair within one stream. An event belongs to the pair iff
    both have reported, neither longer than `fresh_s` ago, and they are at most `reach_m` apart. Unordered, a is the one
    with the smaller key; ordered, both orders are looked at.
    """

    variables: tuple[str, str]
    streams: tuple[str, str]
    reach_m: Fraction
    fresh_s: Fraction
    ordered: bool = False
    projected: bool = False


@record
class MeasuredColumn:
    """A column of detections that is computed over the match: measures, constants, and arithmetic of them."""

    name: str
    value: Value
    kind: Kind | None = field(default=None, compare=False)
    unit: str | None = field(default=None, compare=False)


@record
class Pattern(Spanned):
    """A named regex with its window and the columns that its detections carry: `emit` of the last event, `measures` of
    the whole match.

    `text` is all that follows the name, as the file writes it, without comments and on one line; `span` is that of the
    name.
    """

    name: str
    regex: Regex
    source: SourceText = field(compare=False, repr=False)
    window: Window | None = None
    emit: tuple[str, ...] = ()
    each: tuple[str, str] | None = None  # (variable, places), as in `for each p in port`
    text: str = field(default="", compare=False, repr=False)
    stream: str | None = None  # the stream whose events it reads; the stream of a, where it is over pairs
    pair: EachPair | None = None
    silence_s: Fraction | None = None  # `; silence 1 h` at the end: no event of the entity follows for this long
    emit_of: tuple[tuple[Role, str], ...] = ()  # in a pair: the entity of each emitted column, and its name there
    tier: int = 1  # one more than the highest that it reads by `detected` or `since`; 1 if it reads events alone
    silence_of: Role | None = None  # in a pair: the silent entity; None for both
    measures: tuple[MeasuredColumn, ...] = ()
    which: WhichMatches = "every end"
    emit_order: tuple[str, ...] = ()  # the names of all emitted columns as the file has them, where some are measured
    service: Service = USUAL_SERVICE
    ends_word: bool = False  # `; $`: it is a silence as long as the stream remembers its entities, or the input's end

    @property
    def emitted(self) -> tuple[str, ...]:
        """The names of all columns that it adds to its detections, in the order of the file."""
        names = (*self.emit, *(column.name for column in self.measures))
        return (*self.emit_order, *(name for name in names if name not in self.emit_order))

    @property
    def parts(self) -> Iterator[Any]:
        """All parts of its regex and of its measures: everything that it says about events."""
        yield from walk(self.regex)
        for column in self.measures:
            yield from walk(column.value)


@record
class Expected:
    """A detection that a test expects: at which event, and from which event if the test says so."""

    at: int
    start: int | None = None


@record
class Example(Spanned):
    """A `test` block: each attribute's values, one an event (None is missing), times in seconds, and detections.

    In a pair, `who` gives the entity of each event and `streams` its stream. `ends_s` is the time that the data reach
    (`ends at 3 h`): a silence that ends by then is detected.
    """

    pattern: str
    columns: tuple[tuple[str, tuple[str | None, ...]], ...]
    times_s: tuple[Fraction, ...]
    detects: tuple[Expected, ...]
    source: SourceText = field(compare=False, repr=False)
    who: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    ends_s: Fraction | None = None


@record
class Forecast(Spanned):
    """`forecast P within 30 min with 0.7`: how far to look, and how much of the wait an interval holds."""

    pattern: str
    horizon: Window
    confidence: Fraction
    text: str  # the horizon as the file writes it
    source: SourceText = field(compare=False, repr=False)


@record
class Meaning:
    """All that one or more .sre files say together, and the warnings on the way.

    `stream` is the first of its streams, and the only one of most files; `other_streams` are those declared after it.
    """

    stream: Stream
    patterns: tuple[Pattern, ...]
    examples: tuple[Example, ...] = ()
    knowledge: tuple[Knowledge, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    lookups: tuple[Lookup, ...] = ()
    other_streams: tuple[Stream, ...] = ()
    rules: tuple[Rule, ...] = ()  # each after those that it reads
    facts: tuple[Facts, ...] = ()
    rule_examples: tuple[RuleExample, ...] = ()
    forecasts: tuple[Forecast, ...] = ()

    @property
    def streams(self) -> tuple[Stream, ...]:
        return (self.stream, *self.other_streams)

    def stream_of(self, pattern: Pattern) -> Stream:
        """The stream whose events a pattern reads; for a pair, the stream of a."""
        return next((stream for stream in self.streams if stream.name == pattern.stream), self.stream)


@record
class Signature:
    """How a user's function is called from a pattern; a predicate has no result kind."""

    name: str
    operands: tuple[Kind, ...]
    result: Kind | None
