"""Why a pattern that reads another was detected or not: the tier has the value that the engine gives it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import wayeb_py
from tests.engine.test_tiers import HIGH, LATER, STREAM, TIERS, events, given
from wayeb_py.why.entity_words import words_of
from wayeb_py.why.explain import Explainer, explain


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("chosen", [["High", "Both", "Soon", "Never"], ["Both"], ["Soon"], ["Never"]])
def test_the_explanation_agrees_with_the_engine(seed: int, chosen: list[str]) -> None:
    patterns = given(STREAM + LATER + HIGH, TIERS)
    table = pa.Table.from_pylist(events(seed))
    found = patterns.recognise(table).to_arrow().to_pylist()
    patterns = patterns.select(chosen)  # what they read is still needed where it is not reported
    words = words_of(patterns, table)
    for name in patterns.names:
        explainer = Explainer(patterns, words, name)
        told = [explainer.explain(row) for row in range(len(words.chunk.ts))]
        assert sorted((why.entity, int(why.ts), why.seq, why.start_seq) for why in told if why.detected) == sorted(
            (str(row["entity"]), row["ts"], row["seq"], row["start_seq"]) for row in found if row["pattern"] == name
        )


def test_the_value_of_the_tier_is_shown_and_how_to_ask_for_the_pattern() -> None:
    source = "stream s { key id  time t in s  attr x number }\n"
    patterns = wayeb_py.compile(
        source + "pattern Up := (x > 5)\npattern Soon := (not detected(Up) and since(Up) < 20 s)\n"
    )
    rows: list[dict[str, Any]] = [{"id": 1, "t": t, "x": x} for t, x in ((0, 1), (10, 9), (20, 1), (60, 1))]
    words = words_of(patterns, pa.Table.from_pylist(rows))
    found = explain(patterns, words, "Soon", "1", Fraction(20))
    assert [event.values for event in found.events] == [{"detected(Up)": "false", "since(Up)": "10 s"}]
    assert found.hints == ("Up is a pattern of its own: ask for it with `--pattern Up --entity 1 --at 20`",)
    assert repr(found).splitlines()[-1] == f"hint: {found.hints[0]}"
    late = explain(patterns, words, "Soon", "1", Fraction(60))
    assert "since(Up) was 50 s, needed since(Up) < 20 s (missed by 30 s)" in late.summary
    early = explain(patterns, words, "Soon", "1", Fraction(0))
    assert "since(Up) was missing" in early.summary
    assert explain(patterns, words, "Up", "1", Fraction(10)).hints == ()


def test_a_tier_at_a_place_is_that_of_the_same_place(tmp_path: Path) -> None:
    (tmp_path / "ports.csv").write_text("name,lon,lat\nA,0,0\nB,1,0\n")
    (tmp_path / "p.sre").write_text(
        "stream s { key id  time t in s  position lon, lat }\n"
        'points port from "ports.csv"\n'
        "pattern In for each p in port := (near(p, 1 km))\n"
        "pattern Left for each p in port := (detected(In)) ; (not detected(In))\n"
    )
    patterns = wayeb_py.compile(tmp_path / "p.sre")
    table = pa.table({"id": ["v", "v"], "t": [0, 10], "lon": [0.0, 1.0], "lat": [0.0, 0.0]})
    assert [(row["place"], row["ts"]) for row in patterns.select(["Left"]).recognise(table)] == [("A", 10)]
    words = words_of(patterns, table)
    left = explain(patterns, words, "Left", "v", Fraction(10), "A")
    assert left.detected
    assert [event.values for event in left.events] == [{"detected(In)": "true"}, {"detected(In)": "false"}]
    assert left.hints == ('In is a pattern of its own: ask for it with `--pattern In --entity v --place "A" --at 10`',)
    assert not explain(patterns, words, "Left", "v", Fraction(10), "B").detected
