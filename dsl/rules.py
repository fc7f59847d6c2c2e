"""Rules and facts: which rows belong together, what must not have happened, and the tables that they are joined with.

A rule has members, each over the rows of something; conditions on them, one for each part that `and` joins; and for
each `unless` members and conditions of its own. Conditions are predicates as everywhere, in which `Of` and `HoldsOf`
name a member. What an engine joins by (equal values, times, places) follows from the conditions and is not kept beside
them: see `semantics/rules/links.py`.

A row *happens* at `ts`, after it began at `start_ts`, or it *stands*: it is valid for a while (facts, the newest row of
a key, the matches of a kept rule). Every row calls its times `ts` and `start_ts` and its key `entity`, whatever its
stream calls them.
"""

from __future__ import annotations

from dataclasses import field
from fractions import Fraction
from typing import Literal

from wayeb_py.dsl.node import Spanned, record
from wayeb_py.dsl.predicates import Attribute, Kind, Predicate
from wayeb_py.errors import SourceText

Over = Literal["events", "newest", "detections", "episodes", "matches", "kept", "facts"]
"""What a member ranges over: a stream's events or the newest of each key, a pattern's detections or episodes, the
matches of a rule, those of a kept rule while they are valid, or facts."""

Op = Literal["+", "-"]


@record
class Facts(Spanned):
    """`facts NAME(column, …) from "FILE"`, or `from changes STREAM`: a table that rules join.

    Of a file, `file_columns` are what it calls the columns, in their order. Of a stream, a row is valid from its `+` to
    its `-`, as the stream's column `op` says.
    """

    name: str
    columns: tuple[Attribute, ...]
    source: SourceText = field(compare=False, repr=False)
    path: str | None = None
    file_columns: tuple[str, ...] = ()
    stream: str | None = None
    given: bool = False


@record
class Member(Spanned):
    """`x: NAME`: one row of what NAME stands for, in every match.

    `columns` are those that the rule reads, with their kinds and units; `position` are the two of them that say where a
    row is. `lasts_s` is how far `ts` can be from `start_ts`, `delay_s` how long after `ts` a row may become known; None
    where nothing bounds it, and for `matches`, whose own rule determines both.
    """

    name: str
    over: Over
    of: str
    columns: tuple[Attribute, ...] = ()
    position: tuple[str, str] | None = None
    lasts_s: Fraction | None = None
    delay_s: Fraction | None = None

    @property
    def stands(self) -> bool:
        """Whether its rows are valid for a while, and do not happen."""
        return self.over in ("newest", "kept", "facts")

    @property
    def has_time(self) -> bool:
        """Whether its rows have `ts` and `start_ts`."""
        return self.over not in ("kept", "facts")


@record
class Condition(Spanned):
    """One of the predicates that `and` joins; `text` is the part of the file that it comes from.

    `r.ts <= i.ts` and `i.ts < p.ts` are the two conditions of `i.ts in r.ts .. p.ts`, each with all of that text.
    """

    predicate: Predicate
    text: str = field(default="", compare=False, repr=False)


@record
class Unless(Spanned):
    """`unless i: Inspection where …`: there is no choice of rows for its members for which its conditions hold."""

    members: tuple[Member, ...]
    conditions: tuple[Condition, ...] = ()


@record
class RuleColumn:
    """A column that a rule emits: its name, its member, and what the rows of that member call it."""

    name: str
    member: str
    column: str
    kind: Kind | None = field(default=None, compare=False)
    unit: str | None = field(default=None, compare=False)


Level = Literal["high", "normal", "low"]
LEVELS: tuple[Level, ...] = ("high", "normal", "low")
"""How urgent work is, the most urgent first."""


@record
class Service:
    """The quality of service of a pattern or rule in a live stream; where nothing is live it changes nothing.

    `valid_s`: a detection that leaves more than this after its last event is stale, and is `dropped` or marked; for a
    rule the time counts from the earliest of its members. `shed_s`: events that have waited longer are skipped.
    """

    level: Level = "normal"
    valid_s: Fraction | None = None
    drops_stale: bool = False
    shed_s: Fraction | None = None


USUAL_SERVICE = Service()


@record
class Rule(Spanned):
    """A choice of one row for each member for which the conditions hold and no `unless` does.

    `once_for` are members: among matches with the same rows of these, only the first that is decided counts.
    `within_s` bounds the greatest `ts` less the least `start_ts` of all rows, those of an `unless` included. A rule
    over what stands is `kept`: its matches begin and end. `text` is all that follows the name, `span` that of the name.
    """

    name: str
    members: tuple[Member, ...]
    conditions: tuple[Condition, ...]
    source: SourceText = field(compare=False, repr=False)
    unless: tuple[Unless, ...] = ()
    once_for: tuple[str, ...] = ()
    within_s: Fraction | None = None
    emit: tuple[RuleColumn, ...] = ()
    every_combination: bool = False
    kept: bool = False
    tier: int = 1
    text: str = field(default="", compare=False, repr=False)
    service: Service = USUAL_SERVICE

    def member(self, name: str) -> Member:
        """The member with this name, of the rule itself or of an `unless`."""
        every = (*self.members, *(member for unless in self.unless for member in unless.members))
        return next(member for member in every if member.name == name)


# Tests.


@record
class GivenRow:
    """A row of a test: what the member ranges over, the row's values (None is missing) and its times in seconds.

    A fact has no time before it changes: `ts_s` is None. `op` is `-` for a fact that ends.
    """

    member: str
    values: tuple[tuple[str, str | None], ...]
    ts_s: Fraction | None
    start_s: Fraction | None
    op: Op = "+"


@record
class ExpectedMatch:
    """A match that a test expects: the row of each member by its number, and the times that it says.

    Only a kept rule has an `op`.
    """

    rows: tuple[int, ...]
    ts_s: Fraction | None = None
    start_s: Fraction | None = None
    decided_s: Fraction | None = None
    op: Op | None = None


@record
class RuleExample(Spanned):
    """A `test` block of a rule: rows of several members, and the matches that they make, all of them and no others."""

    rule: str
    rows: tuple[GivenRow, ...]
    detects: tuple[ExpectedMatch, ...]
    source: SourceText = field(compare=False, repr=False)
    ends_s: Fraction | None = None
