"""Rules and facts in the language: what each form means, what joins can use, and that it is kept as it is."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest

from wayeb_py import dsl
from wayeb_py.compiler.describe import predicate_text
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.meaning_json import read_meaning, write_meaning
from wayeb_py.dsl.semantics.rules.links import links_of
from wayeb_py.dsl.walk import walk
from wayeb_py.errors import PatternError

HEAD = """
stream vessels {
    key mmsi  time ts in s  position lon, lat  lateness 5 min  forget after 1 d
    attr mmsi number
    attr speed number in kn
    attr eta time
}
stream radar { key track time t in ms position x, y lateness 1 min attr speed number in m/s }
stream registry { key row time at in s lateness 1 min attr mmsi number attr flag text attr op text }
points port from "ports.csv"
facts owner(mmsi, company) from "owners.csv"
facts flag(mmsi, flag)     from changes registry
pattern Slow on vessels := (speed < 1){3,} within 1 h emit speed
pattern Gone on vessels := (speed > 9) ; silence 2 h
pattern Port on vessels for each p in port := (distance(p) < 5 km)
pattern Pair for each pair a in vessels, b in radar within 1 km fresh 10 min := (distance(a, b) < 200 m)
    emit a.speed, b.speed as radar_speed
"""


def rule_of(text: str) -> m.Rule:
    return dsl.read(HEAD + text).rules[-1]


def of(member: str, name: str) -> m.Of:
    return m.Of(member, m.Attribute(name, None))


def seconds(amount: int) -> m.Constant:
    return m.Constant(Fraction(amount), "number")


# In `rule R := v: vessels, s: Slow`.
CONDITIONS: dict[str, list[m.Predicate]] = {
    "v.entity = s.entity": [m.Compare("=", of("v", "entity"), of("s", "entity"))],
    "v.mmsi = s.entity": [m.Compare("=", of("v", "entity"), of("s", "entity"))],
    "v.speed > 5 m/s": [m.Compare(">", of("v", "speed"), m.Constant(Fraction(18000, 1852), "number"))],
    "v.ts - s.ts in 0..12 h": [
        m.Compare(">=", m.Arithmetic("-", (of("v", "ts"), of("s", "ts"))), seconds(0)),
        m.Compare("<", m.Arithmetic("-", (of("v", "ts"), of("s", "ts"))), seconds(43200)),
    ],
    "v.ts in s.start_ts .. s.ts": [
        m.Compare(">=", of("v", "ts"), of("s", "start_ts")),
        m.Compare("<", of("v", "ts"), of("s", "ts")),
    ],
    "v.ts < s.ts + 1 h": [m.Compare("<", of("v", "ts"), m.Arithmetic("+", (of("s", "ts"), seconds(3600))))],
    "v.ts < 2 min + s.ts": [m.Compare("<", of("v", "ts"), m.Arithmetic("+", (of("s", "ts"), seconds(120))))],
    "v.eta > s.ts": [m.Compare(">", of("v", "eta"), of("s", "ts"))],
    "not v.ts < s.ts": [m.Compare(">=", of("v", "ts"), of("s", "ts"))],
    "not (v.ts < s.ts or v.speed > 3)": [
        m.Compare(">=", of("v", "ts"), of("s", "ts")),
        m.Not(m.Compare(">", of("v", "speed"), seconds(3))),
    ],
    "not v.eta < s.ts": [m.Not(m.Compare("<", of("v", "eta"), of("s", "ts")))],  # an eta may be missing
    "distance(v, s) < 1 nmi": [m.Compare("<", m.Apart("v", "s"), m.Constant(Fraction(1852), "number"))],
    "near(v, port, 5 km)": [m.HoldsOf("v", m.Near(m.Places("port"), Fraction(5000)))],
    "distance(s, port) < 5 km": [m.Compare("<", m.Of("s", m.Distance(m.Places("port"))), seconds(5000))],
    'hour(v, "UTC") < 6': [m.Compare("<", m.Of("v", m.Hour("UTC")), seconds(6))],
    "before(s, v)": [m.Compare("<", of("s", "ts"), of("v", "start_ts"))],
    "meets(s, v)": [m.Compare("=", of("s", "ts"), of("v", "start_ts"))],
    "during(v, s)": [
        m.Compare("<", of("s", "start_ts"), of("v", "start_ts")),
        m.Compare("<", of("v", "ts"), of("s", "ts")),
    ],
    "abs(v.speed - s.speed) < 3": [
        m.Compare("<", m.Arithmetic("abs", (m.Arithmetic("-", (of("v", "speed"), of("s", "speed"))),)), seconds(3))
    ],
}


@pytest.mark.parametrize("text", CONDITIONS)
def test_a_condition_means(text: str) -> None:
    rule = rule_of(f"rule R := v: vessels, s: Slow where v.lon < s.lon and {text} within 1 d")
    assert [condition.predicate for condition in rule.conditions[1:]] == CONDITIONS[text]
    assert {condition.text for condition in rule.conditions[1:]} == {text}


def test_what_is_asked_of_members_is_written_as_it_is_read() -> None:
    for text in ("distance(v, s) < 1 km", "near(v, port, 5 km)", "v.speed < 5 kn", "distance(s, port) < 5 km"):
        rule = rule_of(f"rule R := v: vessels, s: Slow where v.mmsi = s.entity and {text} within 1 d")
        assert predicate_text(rule.conditions[1].predicate) == text


def test_members_know_their_rows() -> None:
    text = """rule First := s: Slow emit s.entity, s.speed as slow
rule Owned := o: owner, f: flag where o.mmsi = f.mmsi and o.mmsi > 5 emit o.company, f.flag
rule R := v: vessels, n: newest of radar, s: Slow, e: episode of Slow, p: Pair, g: Gone, o: owner, x: First, k: Owned
    where n.track = 3 and n.ts < v.ts and v.mmsi = s.entity and e.entity = s.entity and p.other = 7
        and p.entity = s.entity and g.entity = s.entity and o.mmsi = v.mmsi and x.entity = v.mmsi
        and k.flag = "FR" and k.company = o.company
        and p.radar_speed > x.slow and distance(v, n) < 1 km and n.speed > 3
    within 1 d"""
    rule = rule_of(text)
    told = {member.name: (member.over, member.of, member.lasts_s, member.delay_s) for member in rule.members}
    assert told == {
        "v": ("events", "vessels", 0, 0),
        "n": ("newest", "radar", 0, 0),
        "s": ("detections", "Slow", 3600, 0),
        "e": ("episodes", "Slow", None, 86400),
        "p": ("detections", "Pair", None, 0),
        "g": ("detections", "Gone", None, 7200),
        "o": ("facts", "owner", None, None),
        "x": ("matches", "First", None, None),
        "k": ("kept", "Owned", None, None),
    }
    columns = {member.name: [(c.name, c.kind, c.unit) for c in member.columns] for member in rule.members}
    where = [("lon", "number", "deg"), ("lat", "number", "deg")]
    assert columns["v"] == [("ts", "time", None), ("entity", "number", None), *where]
    assert columns["p"] == [("other", "number", None), ("entity", "number", None), ("radar_speed", "number", "m/s")]
    assert columns["k"] == [("flag", "text", None), ("company", None, None)]
    assert rule.member("v").position == ("lon", "lat")
    assert rule.member("n").position == ("x", "y")
    assert rule.member("s").position is None
    assert [member.name for member in rule.members if member.stands] == ["n", "o", "k"]
    # Metres a second against knots: the second is converted.
    speeds = next(c.predicate for c in rule.conditions if c.text == "p.radar_speed > x.slow")
    in_m_s = m.Arithmetic("*", (of("x", "slow"), m.Constant(Fraction(1852, 3600), "number")))
    assert speeds == m.Compare(">", of("p", "radar_speed"), in_m_s)


def test_tiers_are_one_more_than_what_is_read() -> None:
    rules = dsl.read(
        HEAD
        + """
pattern Again on vessels := (detected(Slow)) ; (detected(Slow))
rule Third  := s: Second, a: Again where s.entity = a.entity within 1 h
rule Events := v: vessels
rule Second := a: Again unless s: Slow where s.entity = a.entity within 1 h emit a.entity
rule Facts  := o: owner, f: flag where o.mmsi = f.mmsi"""
    ).rules
    assert {rule.name: rule.tier for rule in rules} == {"Events": 1, "Second": 3, "Third": 4, "Facts": 1}
    names = [rule.name for rule in rules]
    assert names.index("Second") < names.index("Third")
    assert [rule.name for rule in rules if rule.kept] == ["Facts"]


def test_conditions_are_told_apart_by_what_joins_can_use() -> None:
    rule = rule_of(
        """rule R := p: Pair, s: Slow, o: owner
    where s.entity in {p.entity, p.other} and o.mmsi = s.entity and distance(p, s) <= 500 m and s.speed > 3
        and s.speed + p.speed > 5 and s.ts - p.ts in 0..1 h and s.entity != p.other"""
    )
    links = links_of(rule.conditions)
    assert [(key.first, key.second, key.equal) for key in links.keys] == [
        ("s", "p", ((of("s", "entity"), of("p", "entity")), (of("s", "entity"), of("p", "other")))),
        ("o", "s", ((of("o", "mmsi"), of("s", "entity")),)),
    ]
    assert [(reach.first, reach.second, reach.distance_m, reach.strict) for reach in links.reaches] == [
        ("p", "s", Fraction(500), False)
    ]
    assert [(member, condition.text) for member, condition in links.selections] == [("s", "s.speed > 3")]
    assert [condition.text for condition in links.others] == [
        "s.speed + p.speed > 5",
        *["s.ts - p.ts in 0..1 h"] * 2,
        "s.entity != p.other",
    ]


def test_uses_tell_the_kinds_of_facts() -> None:
    meaning = dsl.read(HEAD + 'rule R := v: vessels, o: owner where o.mmsi = v.mmsi and o.company = "A"')
    owner, flag = meaning.facts
    assert [(column.name, column.kind) for column in owner.columns] == [("mmsi", "number"), ("company", "text")]
    assert [(column.name, column.kind) for column in flag.columns] == [("mmsi", "number"), ("flag", "text")]
    with pytest.raises(PatternError, match="`company` is used as text and as a number"):
        dsl.read(HEAD + 'rule R := v: vessels, o: owner where o.mmsi = v.mmsi and o.company in {"A", v.speed}')


def test_a_let_may_be_about_members() -> None:
    text = """let close = distance(v, s) < reach
let reach = 1 km
rule R := v: vessels, s: Slow where close and v.ts - s.ts in 0..1 h
rule Q := v: radar, s: Slow where close and v.ts - s.ts in 0..1 h"""
    for rule in dsl.read(HEAD + text).rules:
        assert rule.conditions[0].predicate == m.Compare("<", m.Apart("v", "s"), seconds(1000))
        assert rule.member("v").position is not None


def test_functions_of_users_take_values_of_members() -> None:
    alike = m.Signature("alike", ("text", "text"), None)
    functions = {"alike": alike, "mean": m.Signature("mean", ("number", "number"), "number")}
    text = "rule R := o: owner, f: flag where alike(o.company, f.flag) and mean(o.mmsi, f.mmsi) > 5"
    (rule,) = dsl.read(HEAD + text, functions=functions).rules
    assert [condition.predicate for condition in rule.conditions] == [
        m.PredicateCall("alike", (of("o", "company"), of("f", "flag"))),
        m.Compare(">", m.FunctionCall("mean", (of("o", "mmsi"), of("f", "mmsi")), "number"), seconds(5)),
    ]


def test_the_size_of_a_product_is_told_where_it_is_known() -> None:
    text = HEAD + "rule R := v: vessels, o: owner where v.speed > 3 and o.mmsi > 4"
    with pytest.raises(PatternError, match="every combination of their rows is a match\n") as caught:
        dsl.read(text)
    assert "×" not in str(caught.value)
    with pytest.raises(PatternError, match="a match: 20,000 × 1,500 = 30,000,000\n"):
        dsl.read(text, sizes={"vessels": 20_000, "owner": 1_500})


RULES = """
rule First := s: Slow, p: Pair where s.entity = p.entity unless v: vessels where v.mmsi = s.entity and v.speed > 3
    once for s within 1 h emit s.entity, s.speed as slow
rule R := every combination of x: First, y: First within 2 h emit x.slow, y.slow as other_slow
test First {
    of:     s  p  v
    entity: 1  1  2
    speed:  -  -  4
    at:     0  5min 1h
    ends at 2h
    detects 0 1 at 5min from 0 decided 1h
}
rule Kept := o: owner unless f: flag where o.mmsi = f.mmsi emit o.mmsi
test Kept {
    of:   o f f
    mmsi: 1 1 1
    op:   + + -
    at:   - 5 9
    detects + 0, - 0 at 5, + 0 at 9
}
"""


def test_rules_are_stored_and_come_back() -> None:
    meaning = dsl.read(HEAD + RULES)
    assert read_meaning(write_meaning(meaning)) == meaning
    assert [member.name for member in read_meaning(write_meaning(meaning)).rules[0].members] == ["s", "p"]


def test_an_example_holds_rows_and_matches() -> None:
    first, kept = dsl.read(HEAD + RULES).rule_examples
    assert first.rows == (
        m.GivenRow("s", (("entity", "1"), ("speed", None)), Fraction(0), Fraction(0)),
        m.GivenRow("p", (("entity", "1"),), Fraction(300), Fraction(300)),
        m.GivenRow("v", (("entity", "2"), ("speed", "4")), Fraction(3600), Fraction(3600)),
    )
    assert first.detects == (m.ExpectedMatch((0, 1), Fraction(300), Fraction(0), Fraction(3600)),)
    assert first.ends_s == 7200
    assert [(row.op, row.ts_s) for row in kept.rows] == [("+", None), ("+", 5), ("-", 9)]
    assert kept.detects == (
        m.ExpectedMatch((0,), op="+"),
        m.ExpectedMatch((0,), Fraction(5), op="-"),
        m.ExpectedMatch((0,), Fraction(9), op="+"),
    )


def test_a_walk_meets_the_parts_of_a_condition() -> None:
    rule = rule_of("rule R := v: vessels, s: Slow where near(v, port, 5 km) and distance(v, s) < 1 km within 1 h")
    found = [type(part).__name__ for condition in rule.conditions for part in walk(condition.predicate)]
    assert found == ["HoldsOf", "Near", "Places", "Compare", "Apart", "Constant"]


def test_a_file_of_facts_and_rules_alone_needs_no_stream() -> None:
    text = """facts follows(route, position) from "follows.csv" columns (":START_ID", ":END_ID")
facts target(position, switch) from "target.csv"
rule Broken := f: follows, t: target where f.position = t.position emit f.route, t.switch"""
    meaning = dsl.read(text)
    assert meaning.facts[0].file_columns == (":START_ID", ":END_ID")
    assert meaning.rules[0].kept


def test_the_rules_of_the_reference_are_taken_by_the_checker() -> None:
    page = (Path(__file__).parents[2] / "docs/language.md").read_text()
    blocks = [
        block for block in re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL) if "\nrule " in block
    ]
    assert blocks
    for block in blocks:
        meaning = dsl.read(block)
        assert meaning.rules
        assert meaning.rule_examples
        assert meaning.warnings == ()
