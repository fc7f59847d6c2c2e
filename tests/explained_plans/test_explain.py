"""What `wayeb explain` says of rules before they run: exact texts of small files, and what is drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

import wayeb_py
from tests.cli.ended_command import Ended, Wayeb
from wayeb_py.errors import UsageError
from wayeb_py.explained_plans.plan_text import placement_text
from wayeb_py.explained_plans.plans import plan_rules, read_plans

SHIPS = """\
stream vessels {
    key      mmsi
    time     ts in s
    lateness 5 min
    attr     mmsi  number
    attr     speed number in kn
}
facts owner(mmsi, company) from "owners.csv"

pattern Stop := (speed < 1){2} within 1 h
pattern Inspection := (speed < 0.1){3} within 1 h

rule Handover :=
    a: Stop, v: vessels, o: owner
    where v.speed > 5 kn and o.mmsi = a.entity and a.entity != v.entity and v.ts - a.ts in 0..2 h
    unless i: Inspection where i.entity = v.entity and i.ts in v.ts .. v.ts + 1 h
    once for a
    emit a.entity, o.company

rule Again :=
    x: Stop, h: Handover
    where h.entity = x.entity and h.ts - x.ts in 0..1 h
    emit x.entity
"""
OWNERS = "mmsi,company\n1,ACME\n2,Bolt\n3,ACME\n"

HANDOVER = """\
rule Handover

  tier 2: reads Stop, vessels, owner, Inspection
  plan: a o v i
    antijoin with i on 0 s <= i.ts - v.ts <= 59 min 59 s and v.entity = i.entity, once the clock has passed  (about 90)
    ├─ join on 0 s <= v.ts - a.ts <= 1 h 59 min 59 s, where a.entity != v.entity  (about 100)
    │  ├─ join on a.entity = o.mmsi  (about 3)
    │  │  ├─ a: detections of Stop  (about 1,000)
    │  │  └─ o: facts owner  (about 3)
    │  └─ v: events of vessels where v.speed > 5 kn  (about 1,000)
    └─ i: detections of Inspection  (about 1,000)
  sizes: tuples at a time, by guesses and the files of facts
  shared
    a: with Again
  on Spark: in one task, since nothing says that `a` and `v` have the same entity
  kept
    a: until 1 h 59 min 59 s after `a.ts`, while a row of `v` may come, by `v.ts - a.ts in 0..2 h`
    v: until 0 s after `v.ts`, while a row of `a` may come, by `v.ts - a.ts in 0..2 h`
    o: all the time, as its file does not change
    i: until 0 s after `i.ts`, while a row of `a` may come, by `i.ts in v.ts .. v.ts + 1 h` and `v.ts - a.ts in 0..2 h`
    i: until 0 s after `i.ts`, while a row of `v` may come, by `i.ts in v.ts .. v.ts + 1 h`
    a match: until 2 h 59 min 58 s after `a.ts` or 59 min 59 s after `v.ts`, while a row of `i` may come, by \
`v.ts - a.ts in 0..2 h` and `i.ts in v.ts .. v.ts + 1 h`
    that a had a match: as long as another can come
"""

KEPT = """\
facts follows(route, position) from "owners.csv" columns ("mmsi", "company")
facts target(position, switch) from "owners.csv" columns ("company", "mmsi")
rule Kept := f: follows, t: target where f.position = t.position unless u: follows where u.route = t.switch
"""

KEPT_TEXT = """\
rule Kept

  tier 1: reads follows, target, kept: its matches begin and end
  plan: f (t u)
    join on f.position = t.position  (about 0.25)
    ├─ f: facts follows  (about 3)
    └─ antijoin with u on t.switch = u.route  (about 0.15)
       ├─ t: facts target  (about 3)
       └─ u: facts follows  (about 3)
  sizes: tuples at a time, by guesses and the files of facts
  on Spark: in one task, since it is kept
  kept
    f: all the time, as its file does not change
    t: all the time, as its file does not change
    u: all the time, as its file does not change
"""


BERTHS = """\
stream a { key id time t in s attr berth text }
stream b { key id time t in s attr berth text position lon, lat }
pattern Meet for each pair x, y in b within 1 km fresh 1 min := any emit x.berth as berth
rule Same := p: a, q: b where p.berth = q.berth and q.ts - p.ts in 0..9 s emit p.berth
rule Paired := m: Meet, q: b where q.berth = m.berth and q.ts - m.ts in 0..9 s emit m.berth
"""


def test_a_rule_with_a_key_says_where_it_goes_by_it(tmp_path: Path) -> None:
    (tmp_path / "berths.sre").write_text(BERTHS)
    told = [placement_text(one) for one in plan_rules(wayeb_py.compile(tmp_path / "berths.sre"))]
    assert told == [
        (
            "in one task, since nothing says that `p` and `q` have the same entity; where events are many, or a stream "
            "has several workers, in parts by p.berth = q.berth"
        ),
        "in one task, since `m` is a pair; where events are many, in parts by m.berth = q.berth",
    ]


@pytest.fixture
def ships(wayeb: Wayeb) -> Wayeb:
    """A folder with the file."""
    Path("ships.sre").write_text(SHIPS)
    Path("owners.csv").write_text(OWNERS)
    return wayeb


def test_a_rule_is_told_with_its_plan_and_how_long_it_keeps_rows(ships: Wayeb) -> None:
    assert ships("explain", "ships.sre", "--pattern", "Handover") == Ended(0, HANDOVER, "")


def test_patterns_come_first_and_rules_after_them(ships: Wayeb) -> None:
    told = ships("explain", "ships.sre").out
    heads = [line for line in told.splitlines() if line.startswith(("pattern ", "rule "))]
    assert heads == ["pattern Stop", "pattern Inspection", "rule Handover", "rule Again"]
    assert ships("explain", "ships.sre", "--plan").out == told[told.index("rule Handover") :]
    assert wayeb_py.compile("ships.sre").explain() + "\n" == told


def test_a_plan_may_stand_before_the_file(ships: Wayeb) -> None:
    assert ships("explain", "--plan", "ships.sre") == ships("explain", "ships.sre", "--plan")


def test_a_rule_over_facts_is_planned_by_its_files(wayeb: Wayeb) -> None:
    Path("kept.sre").write_text(KEPT)
    Path("owners.csv").write_text(OWNERS)
    ended = wayeb("explain", "kept.sre")
    assert ended == Ended(0, KEPT_TEXT, "")


def test_an_order_that_is_forced_is_the_one_that_is_shown(ships: Wayeb) -> None:
    told = ships("explain", "ships.sre", "--plan", "Handover: (a v) o i", "--pattern", "Handover").out
    assert "  plan: a v o i\n" in told
    assert told.index("join on a.entity = o.mmsi") < told.index("join on 0 s <= v.ts - a.ts")


def test_dot_has_every_node_once_and_every_arrow(ships: Wayeb) -> None:
    assert (
        ships("explain", "ships.sre", "--plan", "--format", "dot").out
        == """\
digraph rules {
  rankdir=BT; node [shape=box];
  n0 [label="a: detections of Stop\\nabout 1,000"];
  n1 [label="o: facts owner\\nabout 3"];
  n2 [label="join on a.entity = o.mmsi\\nabout 3"];
  n3 [label="v: events of vessels where v.speed > 5 kn\\nabout 1,000"];
  n4 [label="join on 0 s <= v.ts - a.ts <= 1 h 59 min 59 s, where a.entity != v.entity\\nabout 100"];
  n5 [label="i: detections of Inspection\\nabout 1,000"];
  n6 [label="antijoin with i on 0 s <= i.ts - v.ts <= 59 min 59 s and v.entity = i.entity, once the clock has passed\\n\
about 90"];
  rule_Handover [label="rule Handover", shape=ellipse];
  n8 [label="h: matches of Handover\\nabout 90"];
  n9 [label="join on x.entity = h.entity and 0 s <= h.ts - x.ts <= 59 min 59 s\\nabout 9"];
  rule_Again [label="rule Again", shape=ellipse];
  n0 -> n2;
  n1 -> n2;
  n2 -> n4;
  n3 -> n4;
  n4 -> n6;
  n5 -> n6;
  n6 -> rule_Handover;
  n0 -> n9;
  n8 -> n9;
  n9 -> rule_Again;
  rule_Handover -> n8;
}
"""
    )


def test_mermaid_has_the_same_nodes_and_arrows(ships: Wayeb) -> None:
    dot = ships("explain", "ships.sre", "--plan", "--format", "dot").out
    mermaid = ships("explain", "ships.sre", "--plan", "--format", "mermaid").out
    assert mermaid.startswith("flowchart BT\n")
    assert [line.replace(" -> ", " --> ").rstrip(";") for line in dot.splitlines() if " -> " in line] == [
        line for line in mermaid.splitlines() if " --> " in line
    ]
    assert '  n2["join on a.entity = o.mmsi<br/>about 3"]' in mermaid
    assert '  rule_Again(["rule Again"])' in mermaid
    assert "#lt;= v.ts - a.ts #lt;=" in mermaid  # so that no reader takes it for markup


def test_what_two_rules_ask_alike_is_shared(tmp_path: Path) -> None:
    both = SHIPS + "rule Other := p: Stop, q: owner where q.mmsi = p.entity emit q.company\n"
    (tmp_path / "owners.csv").write_text(OWNERS)
    (tmp_path / "both.sre").write_text(both)
    told = wayeb_py.compile(tmp_path / "both.sre").explain("Other")
    assert "  shared\n    p q: with Handover\n" in told
    rules = plan_rules(wayeb_py.compile(tmp_path / "both.sre"))
    by_name = {one.rule.name: one for one in rules}
    other = by_name["Other"]
    assert other.sharing(other.plan.root, rules) == ["Handover"]
    assert by_name["Again"].sharing(by_name["Again"].plan.root, rules) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Handover", "does not say in which order a rule joins its members"),
        ("Handover:", "does not say in which order a rule joins its members"),
        ("Handovr: a b", "did you mean `Handover`?"),
    ],
)
def test_plans_of_another_form_are_refused(text: str, told: str) -> None:
    with pytest.raises(UsageError, match="--plan") as caught:
        read_plans([text], ["Handover", "Again"])
    assert told in str(caught.value)


def test_a_plan_that_does_not_fit_is_an_error_of_usage(ships: Wayeb) -> None:
    for order, told in (
        ("a v", "the plan `a v` does not fit Handover: it does not join o\n"),
        ("a b v", "`b` is no member of it"),
    ):
        ended = ships("explain", "ships.sre", "--plan", f"Handover: {order}")
        assert (ended.code, ended.out) == (2, "")
        assert told in ended.err
    ended = ships("explain", "ships.sre", "--plan", "Again: x h", "--plan", "Again: h x")
    assert (ended.code, ended.err.splitlines()[0]) == (2, "there are two plans of the rule `Again`")


def test_what_is_for_rules_alone_says_so(wayeb: Wayeb) -> None:
    assert wayeb("explain", "fleet.sre", "--plan") == Ended(2, "", "--plan is for rules, and there is none\n")
    assert wayeb("explain", "fleet.sre", "--rate", "vehicles=1/s").err == "--rate is for rules, and there is none\n"


def test_check_counts_rules_and_fmt_lays_them_out(ships: Wayeb) -> None:
    assert ships("check", "ships.sre").out == "2 patterns and 2 rules in 1 file: no errors\n"
    Path("kept.sre").write_text(KEPT)
    assert ships("check", "kept.sre").out == "1 rule in 1 file: no errors\n"
    assert ships("fmt", "kept.sre").out == "changed kept.sre\n"
    laid_out = """\
rule Kept :=
    f: follows, t: target
    where f.position = t.position
    unless u: follows where u.route = t.switch
"""
    assert Path("kept.sre").read_text().endswith(laid_out)
    assert ships("fmt", "--check", "kept.sre").code == 0


LEVELS = """\
stream vessels { key mmsi time ts in s replace }
pattern Overboard := (beacon > 0) priority high valid for 90 s else drop
pattern Turning := (turn > 5)
pattern Slow := (speed < 3)
pattern Drifting := (speed < 1){20,} priority low valid for 2 min shed after 500 ms
"""


def test_levels_are_told_in_their_order() -> None:
    told = """\
levels, as a live stream serves them
  high    Overboard: valid for 90 s, else dropped
  normal  Turning
          Slow
  low     Drifting: valid for 2 min, else marked as stale, events are shed after 500 ms
  in `vessels` a newer event of an entity takes the place of one that waits"""
    patterns = wayeb_py.compile(LEVELS)
    assert patterns.explain().endswith("\n\n" + told)
    assert patterns.explain("Slow").endswith(
        "  normal  Slow\n  in `vessels` a newer event of an entity takes the place of one that waits"
    )
    assert "levels" not in patterns.explain(form="dot")
    assert "levels" not in wayeb_py.compile(SHIPS.partition("facts")[0] + "pattern P := (speed < 1)\n").explain()
