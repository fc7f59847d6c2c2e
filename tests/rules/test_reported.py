"""Rules that take detections as they are reported find what they find where events are held and stepped again."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

import wayeb_py
from wayeb_py.engine.arrival.tie_order import Disorder
from wayeb_py.engine.rules.spared_events import reported_patterns

STREAM = "stream made { key id time t in s lateness 5 s attr v number attr w number }\n"
PATTERNS = """pattern Low  := (v < 3) ; (v < 5) emit w
pattern High := (v > 6)
pattern Back := (detected(High)) ; any{0,3} ; (detected(Low))
"""
RULES = """rule Both := a: Low, b: High, c: Back
    where b.entity = a.entity and c.entity != a.entity and b.ts - a.ts in 0..6 s and abs(c.ts - a.ts) < 4 s and a.w > 2
    once for a, b emit a.entity, c.entity as other_one, a.w
rule Alone := a: High unless b: Low where b.entity = a.entity and b.ts - a.ts in 0..3 s emit a.entity
rule Again := x: Both, y: Alone where y.entity = x.entity and y.ts - x.ts in -5..5 s emit x.entity
"""


def events(dice: Random, n: int, *, text: bool) -> pa.Table:
    keys = [dice.choice(("é", "b", "a", "zz") if text else (7, 3, 12, -1)) for _ in range(n)]
    times = sorted(dice.randint(0, n // 2) for _ in range(n))
    return pa.table(
        {
            "id": keys,
            "t": times,
            "v": [dice.randint(0, 9) for _ in range(n)],
            "w": [dice.randint(0, 9) for _ in range(n)],
        }
    )


def found(patterns: wayeb_py.Patterns, table: pa.Table, dice: Random, *, saves: bool) -> list[dict[str, object]]:
    recogniser = wayeb_py.Recogniser(patterns, order="sorted", saves=saves)
    rows, begin = [], 0
    while begin < len(table):
        n = dice.choice((1, 2, 5, 20))
        rows += recogniser.feed(table.slice(begin, n)).to_arrow().to_pylist()
        begin += n
    rows += recogniser.finish().to_arrow().to_pylist()
    return [row for row in rows if row["pattern"] in ("Both", "Alone", "Again")]


@pytest.mark.parametrize("seed", range(12))
def test_matches_are_the_same_and_in_the_same_order(seed: int) -> None:
    dice = Random(seed)
    patterns = wayeb_py.compile(STREAM + PATTERNS + RULES)
    assert reported_patterns(patterns, {"made": "sorted"}) == {"Low": "made", "High": "made", "Back": "made"}
    table = events(dice, 120, text=seed % 2 == 0)
    expected = found(patterns, table, dice, saves=True)
    assert {row["pattern"] for row in expected} == {"Both", "Alone", "Again"}
    assert found(patterns, table, dice, saves=False) == expected


@pytest.mark.parametrize(
    "text",
    [
        "rule R := e: made, a: Low where e.id = a.entity within 5 s",  # the events themselves
        "rule R := e: newest of made, a: Low where e.id = a.entity within 5 s",
        "pattern Gone := (v > 8) ; silence 9 s\nrule R := a: Low, b: High where b.entity = a.entity within 5 s",
    ],
)
def test_what_asks_for_more_is_found_once_more(text: str) -> None:
    assert reported_patterns(wayeb_py.compile(STREAM + PATTERNS + text), {"made": "sorted"}) == {}


def test_events_that_arrive_in_no_order_are_held() -> None:
    patterns = wayeb_py.compile(STREAM + PATTERNS + RULES)
    assert reported_patterns(patterns, {"made": "arrival"}) == {}


def test_events_that_are_not_in_the_order_of_time_are_told() -> None:
    recogniser = wayeb_py.Recogniser(wayeb_py.compile(STREAM + PATTERNS + RULES), order="sorted", saves=False)
    with pytest.raises(Disorder):
        recogniser.feed(pa.table({"id": [1, 2], "t": [5, 4], "v": [1, 1], "w": [1, 1]}))


def test_a_state_is_not_saved_where_it_was_not_to_be() -> None:
    recogniser = wayeb_py.Recogniser(wayeb_py.compile(STREAM + PATTERNS + RULES), order="sorted", saves=False)
    with pytest.raises(ValueError, match="without a state"):
        recogniser.save()
