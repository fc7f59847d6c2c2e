"""Several entities in the language: what each form means, how it is written, and that it is kept as it is."""

from __future__ import annotations

from fractions import Fraction

import pytest

from wayeb_py.compiler.describe import predicate_text
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.stored import read_meaning, write_meaning
from wayeb_py.errors import Source

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
    source = Source("x.sre", "…")
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
