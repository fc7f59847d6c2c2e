"""How long rows are kept, to the tick: a row is needed at a clock iff brute force finds rows that complete a match.

All times of all other rows in a range that no bound leaves are tried, and the conditions tested for each, as they are
written. Both directions count: a row that is kept one tick too long is as wrong as one that is dropped one too early.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.rules.oracle_matches import Recogniser
from tests.rules.oracle_rows import Row, happened
from tests.rules.oracle_times import Times, note_times
from tests.strategies import examples
from wayeb_py import dsl
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.semantics.rules.times.differences import Moment
from wayeb_py.dsl.semantics.rules.times.distances import contradiction
from wayeb_py.dsl.semantics.rules.times.explained import times_text
from wayeb_py.dsl.semantics.rules.times.lifetimes import RuleTimes, differences_of, times_of, times_of_all
from wayeb_py.errors import SourceText

Grid = dict[tuple[str, str], npt.NDArray[np.int16]]
HOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq,
}  # fmt: skip
SOURCE = SourceText("x.sre", "…")
FURTHEST = 16  # no chain of bounds, and no delay after it, leads further away


@dataclass(frozen=True)
class Said:
    """`later - earlier COMPARATOR seconds`, as one of the forms in which a rule can say it."""

    later: tuple[str, str]
    earlier: tuple[str, str]
    comparator: str
    seconds: Fraction
    form: str

    def condition(self) -> m.Condition:
        later, earlier = (m.Of(name, m.Attribute(column, "time")) for name, column in (self.later, self.earlier))
        seconds = m.Constant(self.seconds, "number")
        comparator: Any = self.comparator
        if self.form == "difference":
            return m.Condition(m.Compare(comparator, m.Arithmetic("-", (later, earlier)), seconds))
        if self.form == "moved":
            return m.Condition(m.Compare(comparator, later, m.Arithmetic("+", (earlier, seconds))))
        turned: Any = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}[self.comparator]
        return m.Condition(m.Compare(turned, earlier, m.Arithmetic("-", (later, seconds))))

    def holds(self, grid: Grid) -> Any:
        return HOLDS[self.comparator](
            (grid[self.later] - grid[self.earlier]) * self.seconds.denominator, self.seconds.numerator
        )


def members_of(names: str) -> st.SearchStrategy[tuple[m.Member, ...]]:
    """Events, and rows that last: with or without a bound, known at once or a little later."""

    def member(name: str) -> st.SearchStrategy[m.Member]:
        delays = st.sampled_from([0, 0, 1, 2]).map(Fraction)
        return st.one_of(
            st.builds(lambda: m.Member(name, "events", "ships", lasts_s=Fraction(0), delay_s=Fraction(0))),
            st.builds(lambda delay: m.Member(name, "episodes", "P", delay_s=delay), delays),
            st.builds(lambda delay: m.Member(name, "detections", "P", lasts_s=Fraction(2), delay_s=delay), delays),
        )

    return st.tuples(*(member(name) for name in names))


FORMS = st.sampled_from(["difference", "moved", "turned"])
HALVES = [Fraction(halves, 2) for halves in range(5)]


def sayings(names: str, n: int) -> st.SearchStrategy[list[Said]]:
    """Any bounds, most of which contradict each other."""
    moments = st.tuples(st.sampled_from(names), st.sampled_from(["ts", "start_ts"]))
    seconds = st.sampled_from([*HALVES, *(-half for half in HALVES)])
    said = st.builds(Said, moments, moments, st.sampled_from(["<", "<=", ">", ">=", "="]), seconds, FORMS)
    return st.lists(said.filter(lambda one: one.later != one.earlier), min_size=1, max_size=n)


def true_sayings(names: str, times: dict[tuple[str, str], int], n: int) -> st.SearchStrategy[list[Said]]:
    """Bounds that some times satisfy."""

    def said(later: tuple[str, str], earlier: tuple[str, str], comparator: str, slack: Fraction, form: str) -> Said:
        slack = slack if comparator in ("<=", ">=") else Fraction(0) if comparator == "=" else slack + Fraction(1, 2)
        seconds = times[later] - times[earlier] + (slack if comparator in ("<", "<=") else -slack)
        return Said(later, earlier, comparator, seconds, form)

    moments = st.tuples(st.sampled_from(names), st.sampled_from(["ts", "start_ts"]))
    signs = st.sampled_from(["<", "<=", ">", ">=", "="])
    made = st.builds(said, moments, moments, signs, st.sampled_from(HALVES), FORMS)
    return st.lists(made.filter(lambda one: one.later != one.earlier), min_size=1, max_size=n)


@dataclass(frozen=True)
class Case:
    """A rule, and what it says in a form that can be tried out."""

    rule: m.Rule
    said: list[Said]
    said_unless: list[Said]

    def members(self, unless: bool) -> tuple[m.Member, ...]:
        return (*self.rule.members, *(self.rule.unless[0].members if unless and self.rule.unless else ()))

    def grid(self, unless: bool, known: dict[tuple[str, str], int]) -> Grid:
        """All times of all rows but those that are known, as arrays that broadcast against each other."""
        moments = []
        for member in self.members(unless):
            moments += [(member.name, "ts"), *([(member.name, "start_ts")] if member.lasts_s != 0 else [])]
        free = [moment for moment in moments if moment not in known]
        found: Grid = {}
        for i, moment in enumerate(free):
            shape = [1] * len(free)
            shape[i] = -1
            found[moment] = np.arange(-FURTHEST, FURTHEST + 1, dtype=np.int16).reshape(shape)
        found |= {moment: np.array(at, dtype=np.int16) for moment, at in known.items()}
        return found | {
            (member.name, "start_ts"): found[member.name, "ts"]
            for member in self.members(unless)
            if (member.name, "start_ts") not in found
        }

    def holds(self, grid: Grid, unless: bool) -> Any:
        """Where on the grid all that is said is true."""
        found: Any = np.array(True)
        for said in (*self.said, *(self.said_unless if unless else ())):
            found = found & said.holds(grid)
        members = self.members(unless)
        for one in members:
            found = found & (grid[one.name, "start_ts"] <= grid[one.name, "ts"])
            if one.lasts_s is not None:
                found = found & (grid[one.name, "ts"] - grid[one.name, "start_ts"] <= int(one.lasts_s))
            for other in members if self.rule.within_s is not None else ():
                assert self.rule.within_s is not None
                found = found & (grid[one.name, "ts"] - grid[other.name, "start_ts"] <= int(self.rule.within_s))
        return found


def n_moments(members: tuple[m.Member, ...]) -> int:
    return sum(1 if member.lasts_s == 0 else 2 for member in members)


@st.composite
def cases(draw: st.DrawFn, unless: bool = False, bounded: bool = False, consistent: bool = True) -> Case:
    """Rules of up to three members that happen, or of up to two and an `unless` of up to two."""
    names = draw(st.sampled_from(["x", "xy"] if unless else ["xy", "xy", "xyz"]))
    members = draw(members_of(names).filter(lambda made: n_moments(made) <= 4))
    others: tuple[m.Member, ...] = ()
    if unless:
        some = (members_of("u") | members_of("uv")).filter(lambda made: n_moments(made) <= 5 - n_moments(members))
        others = draw(some)
    times: dict[tuple[str, str], int] = {}
    for member in (*members, *others):
        times[member.name, "ts"] = draw(st.integers(-2, 2))
        lasts = 0 if member.lasts_s == 0 else draw(st.integers(0, 2))
        times[member.name, "start_ts"] = times[member.name, "ts"] - lasts
    span = max(times.values()) - min(times.values())
    windows = st.integers(span, span + 2).map(Fraction)
    within = draw(windows if bounded else st.none() | windows)

    def said(about: str) -> list[Said]:
        return draw(true_sayings(about, times, 3) if consistent else sayings(about, 4))

    own = said(names) if len(names) > 1 else []
    conditions = tuple(one.condition() for one in own)
    if not unless:
        return Case(m.Rule("R", members, conditions, SOURCE, within_s=within), own, [])
    more = said(names + "".join(member.name for member in others))
    absent = (m.Unless(others, tuple(one.condition() for one in more)),)
    return Case(m.Rule("R", members, conditions, SOURCE, absent, within_s=within), own, more)


def times_in_case(case: Case) -> RuleTimes:
    """What follows from conditions that some times satisfy."""
    for unless in (None, *case.rule.unless):
        assert contradiction(differences_of(case.rule, unless, {}, 1), 1) is None
    return times_of(case.rule, {}, 1)


def rows_of(member: m.Member) -> Iterator[tuple[int, int]]:
    longest = 0 if member.lasts_s == 0 else 3
    yield from ((-length, 0) for length in range(longest + 1))


@settings(max_examples=examples(150), deadline=None)
@given(cases(consistent=False))
def test_conditions_contradict_iff_no_times_satisfy_them(case: Case) -> None:
    anchor = case.rule.members[0]
    found = any(
        case.holds(case.grid(False, {(anchor.name, "ts"): end, (anchor.name, "start_ts"): start}), False).any()
        for start, end in rows_of(anchor)
    )
    # A longer row than those tried may be needed where nothing else bounds it.
    assume(found or anchor.lasts_s is not None)
    assert (contradiction(differences_of(case.rule, None, {}, 1), 1) is None) == found


@settings(max_examples=examples(200), deadline=None)
@given(cases() | cases(unless=True))
def test_a_row_is_kept_exactly_as_long_as_a_match_can_use_it(case: Case) -> None:
    times = times_in_case(case)
    own = {member.name for member in case.rule.members}
    for member in case.members(unless=True):
        unless = member.name not in own
        for start, end in rows_of(member):
            grid = case.grid(unless, {(member.name, "ts"): end, (member.name, "start_ts"): start})
            possible = case.holds(grid, unless)
            # The last clock at which a row of another member is still to come, over all ways to complete the match.
            last = -10_000
            for other in case.members(unless):
                if other.name != member.name:
                    assert other.delay_s is not None
                    known = np.where(possible, grid[other.name, "ts"] + int(other.delay_s), last)
                    last = max(last, int(known.max()))
            until = times.lifetimes[member.name].kept_until(start, end)
            if until is None:
                assert last >= FURTHEST, "the bound that there is leaves no edge of what was tried"
            else:
                assert until < FURTHEST
                assert (until == last) or (until < start and last < start), (member.name, start, end)


@settings(max_examples=examples(200), deadline=None)
@given(cases(unless=True, bounded=True), st.data())
def test_a_match_is_decided_when_the_last_row_of_an_unless_could_have_come(case: Case, data: st.DataObject) -> None:
    times = times_in_case(case)
    anchor = (case.rule.members[0].name, "ts")
    grid = case.grid(False, {anchor: 0})
    matches = np.argwhere(np.atleast_1d(case.holds(grid, False)))
    shape = np.broadcast_shapes(*(array.shape for array in grid.values()))
    chosen = tuple(matches[data.draw(st.integers(0, len(matches) - 1))])
    at = {moment: int(np.broadcast_to(array, shape)[chosen[: len(shape)]]) for moment, array in grid.items()}
    known = max(at[member.name, "ts"] for member in case.rule.members)
    with_unless = case.grid(True, at)
    possible = case.holds(with_unless, True)
    last = known
    for member in case.rule.unless[0].members:
        assert member.delay_s is not None
        comes = np.where(possible, with_unless[member.name, "ts"] + int(member.delay_s), -10_000)
        last = max(last, int(comes.max()))
    moments = {Moment(name, "end" if column == "ts" else "start"): time for (name, column), time in at.items()}
    assert times.decided(moments, known) == last
    # The oracle, which knows no shortest paths, says the same.
    rows: dict[str, Row] = {
        member.name: happened({}, at[member.name, "ts"], at[member.name, "start_ts"]) for member in case.rule.members
    }
    waits = [int(wait) for wait in Recogniser({}, 1).waits(case.rule, rows)]
    assert max([known, *waits]) == last


@settings(max_examples=examples(150), deadline=None)
@given(cases() | cases(unless=True))
def test_how_long_a_match_lasts_and_when_it_is_decided_at_the_latest(case: Case) -> None:
    times = times_in_case(case)
    known = Times()
    note_times(case.rule, known, 1)
    assert (times.lasts, times.delay) == (known.lasts["R"], known.delay["R"])
    anchor = case.rule.members[0]
    if times.lasts is not None and times.lasts < 8 and anchor.lasts_s == 0:
        grid = case.grid(False, {(anchor.name, "ts"): 0})
        longest = max(
            int(np.where(case.holds(grid, False), grid[one.name, "ts"] - grid[other.name, "start_ts"], -99).max())
            for one in case.rule.members
            for other in case.rule.members
        )
        assert times.lasts == longest


# Rules as they are written.

HEAD = """
stream ships { key id time t in s position lon, lat lateness 1 s attr speed number in kn }
stream radar { key id time t in s position lon, lat lateness 1 s attr speed number in m/s }
stream register { key id time t in s lateness 1 s attr mmsi number attr op text }
facts listed(mmsi) from changes register
pattern Call on ships := (speed < 1){3,} within 100 s
pattern Dark on ships := (speed > 9) ; silence 10 s
"""


def times_in(text: str, ticks_per_s: int = 1) -> RuleTimes:
    return times_of_all(dsl.read(HEAD + text).rules, ticks_per_s)["R"]


@pytest.mark.parametrize(
    ("condition", "kept"),
    {
        "y.ts - x.ts in 0..10 s": 9,
        "y.ts - x.ts <= 10 s and y.ts > x.ts": 10,
        "y.ts in x.ts .. x.ts + 10 s": 9,
        "abs(y.ts - x.ts) <= 10 s": 10,
        "not (y.ts - x.ts > 10 s or y.ts < x.ts)": 10,
        "x.ts = y.ts": 0,
        "y.ts - x.ts in 0.5..2.5 s": 2,
    }.items(),
)
def test_the_last_tick_at_which_a_row_is_needed(condition: str, kept: int) -> None:
    lifetime = times_in(f"rule R := x: ships, y: radar where x.id = y.id and {condition}").lifetimes["x"]
    assert lifetime.kept_until(100, 100) == 100 + kept


def test_a_row_that_becomes_known_late_is_waited_for() -> None:
    text = "rule R := x: ships, d: Dark where d.entity = x.id and d.ts - x.ts in 0..5 s"
    assert times_in(text).lifetimes["x"].kept_until(100, 100) == 114  # one at 104 s is known at 114 s
    assert times_in(text, 1000).lifetimes["x"].kept_until(100_000, 100_000) == 114_999


def test_a_row_waits_by_its_start_as_by_its_end() -> None:
    text = """rule R := c: Call, y: radar
    where y.id = c.entity and y.ts - c.start_ts < 50 s and y.ts - c.ts < 20 s and y.ts > c.start_ts"""
    lifetime = times_in(text).lifetimes["c"]
    assert lifetime.kept_until(100, 110) == 129
    assert lifetime.kept_until(100, 145) == 149
    assert lifetime.kept_until(0, 145) == -1  # no call lasts longer than its pattern's window: no match has it


def test_one_member_alone_waits_for_nothing_and_an_unless_waits_for_the_rule() -> None:
    times = times_in("rule R := x: ships unless c: Call where c.entity = x.id and x.ts - c.ts in -5..20 s")
    assert times.lifetimes["x"].kept_until(100, 100) == 99
    assert times.lifetimes["c"].kept_until(90, 100) == 119
    assert times.decided({Moment("x", "start"): 100, Moment("x", "end"): 100}, 100) == 105


def test_what_stands_is_kept_while_it_is_valid_and_a_row_can_still_come() -> None:
    text = """rule R := d: Dark, y: ships, l: listed
    where l.mmsi = d.entity and y.id = d.entity and d.ts - y.ts in 0..5 s"""
    lifetime = times_in(text).lifetimes["l"]
    assert lifetime.kept_until(0, None) is None
    assert lifetime.kept_until(0, 100) == 109  # a silence that began at 99 s is known at 109 s
    text = "rule R := every combination of x: ships, y: radar, l: listed where x.id = y.id and y.ts - x.ts in 0..5 s"
    lifetime = times_in(text).lifetimes["l"]
    assert lifetime.kept_until(0, 100) == 99  # nothing joins it: it is valid when all has happened
    text = "rule R := x: ships, n: newest of radar where n.id = x.id within 60 s"
    lifetime = times_in(text).lifetimes["n"]
    assert lifetime.kept_until(100, None) == 160  # even if no other comes
    assert lifetime.kept_until(100, 130) == 129


def test_each_bound_tells_the_conditions_that_it_follows_from() -> None:
    text = """rule R := x: ships, y: radar, c: Call
    where x.id = y.id and c.entity = x.id and y.ts - x.ts in 0..10 s and c.ts - y.ts <= 5 s and c.ts >= x.ts"""
    lifetime = times_in(text).lifetimes["x"]
    told = {wait.other: {bound.after: bound for bound in wait.bounds} for wait in lifetime.waits}
    to_c = told["c"][Moment("x", "end")]
    assert to_c.ticks == 14
    assert [one.text for one in to_c.chain] == ["`y.ts - x.ts in 0..10 s`", "`c.ts - y.ts <= 5 s`"]
    assert [one.formula for one in to_c.chain] == ["y.ts < x.ts + 10 s", "c.ts <= y.ts + 5 s"]
    assert [one.text for one in told["y"][Moment("x", "end")].chain] == ["`y.ts - x.ts in 0..10 s`"]


def test_what_is_kept_is_told_with_its_reasons() -> None:
    text = """rule R := d: Dark, y: ships, l: listed
    where l.mmsi = d.entity and y.id = d.entity and d.ts - y.ts in 0..12 h
    unless c: Call where c.entity = y.id and c.ts in y.ts .. d.ts + 5 min"""
    (rule,) = dsl.read(HEAD + text).rules
    told = times_text(rule, times_in(text), 1)
    late = "known up to 10 s after its end"
    assert [line.split(", by ")[0] for line in told] == [
        "d: until 0 s after `d.ts`, while a row of `y` may come",
        f"y: until 11 h 59 min 59 s after `y.ts`, while a row of `d` may come, {late}",
        f"l: while it is valid, and until 1 s before `l` ends, while a row of `d` may come, {late}",
        "l: while it is valid, and until 1 s before `l` ends, while a row of `y` may come",
        f"c: until 11 h 59 min 59 s after `c.ts`, while a row of `d` may come, {late}",
        "c: until 0 s after `c.ts`, while a row of `y` may come",
        "a match: until 4 min 59 s after `d.ts`, while a row of `c` may come",
    ]
    assert [line.split(", by ")[1] for line in told] == [
        "`d.ts - y.ts in 0..12 h`",
        "`d.ts - y.ts in 0..12 h`",
        "`l` is valid at `d.ts`",
        "`l` is valid at `d.ts` and `d.ts - y.ts in 0..12 h`",
        "`c.ts in y.ts .. d.ts + 5 min` and `d.ts - y.ts in 0..12 h`",
        "`c.ts in y.ts .. d.ts + 5 min`",
        "`c.ts in y.ts .. d.ts + 5 min`",
    ]


def test_rows_wait_for_matches_of_another_rule_until_these_are_decided() -> None:
    text = """
rule First := x: ships, y: ships where x.id = y.id and y.ts - x.ts in 1..4 s
    unless c: Call where c.entity = x.id and c.ts - y.ts in 0..10 s
    emit x.entity
rule R := f: First, z: radar where f.entity = z.id and z.ts - f.ts in 1..4 s"""
    times = times_of_all(dsl.read(HEAD + text).rules, 1)
    assert (times["First"].lasts, times["First"].delay) == (3, 9)
    assert times["R"].lifetimes["z"].kept_until(100, 100) == 108  # one that ends at 99 s is decided by 108 s
    assert times["R"].lifetimes["f"].kept_until(97, 100) == 103
    assert times["R"].lifetimes["f"].kept_until(96, 100) == 95  # no match of First lasts 4 s
