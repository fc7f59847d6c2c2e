"""Several entities in the language: what each form means, how it is written, and that it is kept as it is."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest

import wayeb_py
from wayeb_py import dsl
from wayeb_py.compiler.describe import predicate_text
from wayeb_py.compiler.explain import explain
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.meaning_json import read_meaning, write_meaning
from wayeb_py.dsl.walk import walk
from wayeb_py.errors import SourceText

SPEED = m.Attribute("speed", "number", "kn")
PORT = m.Places("port")


def number(value: int) -> m.Constant:
    return m.Constant(Fraction(value), "number")


# In `for each pair a, b in vessels`.
OF_A_PAIR: dict[str, m.Predicate] = {
    "a.speed < 2 kn": m.Compare("<", m.Of("a", SPEED), number(2)),
    "a.speed > b.speed": m.Compare(">", m.Of("a", SPEED), m.Of("b", SPEED)),
    "prev(a.speed) > 2 kn": m.Compare(">", m.Previous(m.Of("a", SPEED), "number"), number(2)),
    "age(a) > 5 min": m.Compare(">", m.Age("a"), number(300)),
    "reports(b)": m.Reports("b"),
    "distance(a, b) < 200 m": m.Compare("<", m.Separation(), number(200)),
    "bearing(a, b) < 90 deg": m.Compare("<", m.Bearing("a", "b"), number(90)),
    "bearing(b, a) < 90 deg": m.Compare("<", m.Bearing("b", "a"), number(90)),
    "closing(a, b) > 2 m/s": m.Compare(">", m.Closing(), number(2)),
    "cpa(a, b) < 300 m": m.Compare("<", m.Cpa(), number(300)),
    "tcpa(a, b) < 15 min": m.Compare("<", m.Tcpa(), number(900)),
    "near(a, port, 5 km)": m.HoldsOf("a", m.Near(PORT, Fraction(5000))),
    "distance(b, port) < 5 km": m.Compare("<", m.Of("b", m.Distance(PORT)), number(5000)),
    "detected(a, P)": m.HoldsOf("a", m.Detected("P")),
}
# Of one entity.
OF_ONE: dict[str, m.Predicate] = {
    "detected(P)": m.Detected("P"),
    "since(P) < 1 h": m.Compare("<", m.Since("P"), number(3600)),
    "crossed(zone)": m.Crossed(m.Places("zone")),
    "passed(port, 500 m)": m.Passed(PORT, Fraction(500)),
}
FORMS = {**OF_A_PAIR, **OF_ONE}


@pytest.mark.parametrize("text", FORMS)
def test_a_form_is_written_as_it_is_read(text: str) -> None:
    assert predicate_text(FORMS[text]) == text


def test_what_several_entities_need_is_kept_with_the_patterns() -> None:
    source = SourceText("x.sre", "…")
    pair = m.EachPair(("a", "b"), ("vessels", "radar"), Fraction(1000), Fraction(600), ordered=True, projected=True)
    patterns = [
        m.Pattern(
            f"P{i}", m.Letter(predicate), source, stream="vessels", pair=pair, emit=("z",), emit_of=(("b", "y"),),
            silence_s=Fraction(3600), tier=2,
        )
        for i, predicate in enumerate(FORMS.values())
    ]  # fmt: skip
    streams = [m.Stream(name, "mmsi", "ts", "s", motion=("speed", "course")) for name in ("vessels", "radar")]
    example = m.Example("P0", (), (Fraction(0),), (), source, who=("A",), streams=("radar",), ends_s=Fraction(10800))
    meaning = m.Meaning(streams[0], tuple(patterns), (example,), other_streams=(streams[1],))
    assert read_meaning(write_meaning(meaning)) == meaning
    assert meaning.streams == tuple(streams)
    assert meaning.stream_of(patterns[0]) == streams[0]


HEAD = """
stream vessels {
    key mmsi  time ts in s  position lon, lat  motion speed, course  lateness 5 min
    attr speed number in kn
    attr course number in deg
}
stream radar { key track time t in s position x, y lateness 1 min attr speed number in m/s }
points port from "ports.csv"
areas  zone from "zones.geojson"
pattern P on vessels := (speed > 3)
"""
PAIR = "for each ordered pair a, b in vessels within 1 km fresh 10 min"


def patterns_of(text: str) -> dict[str, m.Pattern]:
    return {pattern.name: pattern for pattern in dsl.read(HEAD + text).patterns}


def letter_of(text: str) -> m.Predicate:
    regex = patterns_of(text)["X"].regex
    assert isinstance(regex, m.Letter)
    return regex.predicate


@pytest.mark.parametrize("text", OF_A_PAIR)
def test_a_form_of_a_pair_means(text: str) -> None:
    assert letter_of(f"pattern X {PAIR} := ({text})") == OF_A_PAIR[text]


@pytest.mark.parametrize("text", OF_ONE)
def test_a_form_of_one_entity_means(text: str) -> None:
    assert letter_of(f"pattern X on vessels := ({text})") == OF_ONE[text]


def test_units_are_converted_as_everywhere() -> None:
    assert letter_of(f"pattern X {PAIR} := (cpa(a, b) < 1 nmi)") == m.Compare("<", m.Cpa(), number(1852))
    assert letter_of(f"pattern X {PAIR} := (a.speed > 2 m/s)") == m.Compare(
        ">", m.Of("a", SPEED), m.Constant(Fraction(7200, 1852), "number")
    )
    pair = "for each pair a in vessels, b in radar within 1 km fresh 10 min"
    in_knots = m.Arithmetic("*", (m.Of("b", SPEED), m.Constant(Fraction(3600, 1852), "number")))
    assert letter_of(f"pattern X {pair} := (a.speed > b.speed)") == m.Compare(">", m.Of("a", SPEED), in_knots)


def test_a_question_about_places_without_an_entity_is_asked_of_both() -> None:
    of_both = m.And((m.HoldsOf("a", m.Near(PORT, Fraction(5000))), m.HoldsOf("b", m.Near(PORT, Fraction(5000)))))
    assert letter_of(f"pattern X {PAIR} := (near(port, 5 km))") == of_both
    assert letter_of(f"pattern X {PAIR} := (not near(port, 5 km))") == m.Not(of_both)


def test_the_head_of_a_pair() -> None:
    found = patterns_of(
        """
pattern A for each pair tug, tow in vessels within 500 m fresh 90 s projected := (tug.speed = tow.speed)
pattern B for each pair a in radar, b in vessels within 1 nmi fresh 1 h := (a.speed > 3)
pattern C for each ordered pair a, b in vessels within 1 km fresh 10 min := (a.speed > b.speed)
"""
    )
    assert found["A"].pair == m.EachPair(
        ("tug", "tow"), ("vessels", "vessels"), Fraction(500), Fraction(90), ordered=False, projected=True
    )
    assert found["B"].pair == m.EachPair(("a", "b"), ("radar", "vessels"), Fraction(1852), Fraction(3600))
    assert found["B"].stream == "radar"
    assert found["C"].pair == m.EachPair(
        ("a", "b"), ("vessels", "vessels"), Fraction(1000), Fraction(600), ordered=True
    )
    assert letter_of("pattern X for each pair tug, tow in vessels within 1 km fresh 1 h := (reports(tow))") == (
        m.Reports("b")
    )


def test_a_row_of_places_may_be_called_pair() -> None:
    assert patterns_of("pattern X on vessels for each pair in port := (distance(pair) < 5 km)")["X"].each == (
        "pair",
        "port",
    )


def test_a_let_may_be_about_a_pair() -> None:
    found = patterns_of(
        f"""
let near_each_other = distance(a, b) < 200 m
let meeting         = near_each_other and a.speed < 2
let reach           = 300 m
pattern X {PAIR} := meeting+ ; (cpa(a, b) < reach)
pattern Y for each pair b, a in vessels within 1 km fresh 10 min := (a.speed < 2) ; near_each_other
"""
    )
    sequence = found["X"].regex
    assert isinstance(sequence, m.Sequence)
    assert sequence.parts[1] == m.Letter(m.Compare("<", m.Cpa(), number(300)))
    assert m.Of("a", SPEED) in list(walk(sequence))
    assert m.Of("b", SPEED) in list(walk(found["Y"].regex)), "the names are those of the pattern that uses the `let`"


def test_what_a_pair_emits() -> None:
    found = patterns_of(f"pattern X {PAIR} := (reports(a)) emit a.speed, b.speed as z, a.mmsi as who")["X"]
    assert found.emit == ("speed", "z", "who")
    assert found.emit_of == (("a", "speed"), ("b", "speed"), ("a", "mmsi"))


def test_silence_is_beside_the_regex() -> None:
    found = patterns_of("pattern X on vessels := (speed < 1){3,} ; silence 90 min within 3 h emit speed")["X"]
    assert (found.silence_s, found.window, found.emit) == (
        Fraction(5400),
        m.Window(seconds=Fraction(10800)),
        ("speed",),
    )
    assert isinstance(found.regex, m.Iteration)


def test_a_let_called_silence_is_still_a_name() -> None:
    found = patterns_of("let silence = speed < 1\npattern X on vessels := (speed > 3) ; silence ; silence{2}")["X"]
    assert found.silence_s is None


def test_tiers_are_one_more_than_the_highest_that_is_read() -> None:
    found = patterns_of(
        f"""
pattern D on vessels := (detected(C) and since(P) < 1 h)
pattern C on vessels := (detected(B)) ; (detected(P))
pattern B on vessels := (since(P) > 1 h)
pattern E {PAIR}     := (detected(a, C))
"""
    )
    assert {name: pattern.tier for name, pattern in found.items()} == {"P": 1, "B": 2, "C": 3, "D": 4, "E": 4}


def test_over_the_same_places_a_pattern_is_asked_for_at_its_place() -> None:
    found = patterns_of(
        """
pattern At      on vessels for each p in port := (distance(p) < 5 km)
pattern Left    on vessels for each q in port := (detected(At)) ; (not detected(At))
pattern Some    on vessels := (detected(At))
pattern Plainly on vessels for each p in port := (detected(P) and distance(p) < 5 km)
"""
    )
    asked = {name: next(part for part in walk(pattern.regex) if isinstance(part, m.Detected)) for name, pattern in
             found.items() if name in ("Left", "Some", "Plainly")}  # fmt: skip
    assert asked == {
        "Left": m.Detected("At", each=True), "Some": m.Detected("At"), "Plainly": m.Detected("P"),
    }  # fmt: skip


def test_every_stream_has_its_own_units_and_lets_serve_them_all() -> None:
    found = patterns_of("let slow = speed < 1 kn\npattern A on vessels := slow\npattern B on radar := slow")
    assert [part.value for part in walk(found["A"].regex) if isinstance(part, m.Constant)] == [Fraction(1)]
    assert [part.value for part in walk(found["B"].regex) if isinstance(part, m.Constant)] == [Fraction(1852, 3600)]
    assert (found["A"].stream, found["B"].stream) == ("vessels", "radar")


def test_kinds_that_uses_tell_are_those_of_each_stream() -> None:
    text = """
stream u { key id time ts position lon, lat lateness 1 s }
stream v { key id time ts position lon, lat lateness 1 s }
pattern A on u := (x > 1)
pattern B on v := (x = "off")
pattern C for each pair a in u, b in v within 1 km fresh 1 h := (a.x > 1 and b.x = "on")
"""
    by_name = {pattern.name: pattern for pattern in dsl.read(text).patterns}
    kinds = [part.kind for part in walk(by_name["C"].regex) if isinstance(part, m.Attribute)]
    assert kinds == ["number", "text"]


def test_a_test_of_a_pair_says_whose_event_each_is() -> None:
    text = """
pattern A for each pair a, b in vessels within 1 km fresh 10 min := (distance(a, b) < 200 m)
pattern B for each pair a in vessels, b in radar within 1 km fresh 10 min := (distance(a, b) < 200 m)
pattern C on vessels := (speed < 1) ; silence 1 h
test A { who: X Y X lon: 1 1 1 lat: 2 2 2 detects at 1, 2 from 1 }
test B { who: X 7 on: vessels radar speed: 1 2 lon: 1 - lat: 2 - x: - 1 y: - 2 detects at 1 }
test C { speed: 0 0 at: 0 30min ends at 3h detects at 1 }
"""
    a, b, c = dsl.read(HEAD + text).examples
    assert (a.who, a.streams) == (("X", "Y", "X"), ("vessels",) * 3)
    assert a.detects == (m.Expected(1), m.Expected(2, 1))
    assert (b.who, b.streams) == (("X", "7"), ("vessels", "radar"))
    assert ("who", ("X", "Y", "X")) not in a.columns
    assert (c.ends_s, c.times_s) == (Fraction(10800), (Fraction(0), Fraction(1800)))


def test_columns_that_are_called_like_lines_of_a_test_keep_their_meaning() -> None:
    text = """
stream s { key id time ts attr who text attr on bool }
pattern A := (who = "ends" and on)
test A { who: x ends at: 0 10 on: true true detects at 1 }
"""
    (example,) = dsl.read(text).examples
    assert example.columns == (("who", ("x", "ends")), ("on", ("true", "true")))


def test_the_reference_shows_files_that_the_checker_takes() -> None:
    page = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
    section = page.partition("## Several moving things")[2].partition("\n## ")[0]
    blocks = re.findall(r"```(?:text|sre)\n(.*?)```", section, flags=re.DOTALL)
    assert [len(dsl.read(block).patterns) for block in blocks] == [8, 2]
    assert [dsl.read(block).warnings for block in blocks] == [(), ()]


def test_explain_shows_the_tiers() -> None:
    patterns = wayeb_py.compile(
        """
stream s { key id time ts in s attr v number }
pattern B := (detected(A)) ; (since(A) < 1 min)
pattern A := (v > 5)
"""
    )
    told = explain(patterns, "B")
    assert "tier 2: recognised after A" in told
    assert "detected(A)" in told
    assert "since(A) < 1 min" in told
