"""One record of counts: the sum over tasks is what one process counts."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import fields

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import wayeb_py
from wayeb_py.tally import Tally

COUNTERS = {each.name for each in fields(Tally) if isinstance(getattr(Tally(), each.name), Counter)}
reasons = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(1, 9)).map(Counter)
tallies = st.builds(
    Tally, **{each.name: reasons if each.name in COUNTERS else st.integers(0, 99) for each in fields(Tally)}
)


@given(tallies, tallies)
def test_every_number_of_two_tallies_is_added_up(one: Tally, other: Tally) -> None:
    total = one.copy()
    total.add(other)
    for each in fields(Tally):
        assert getattr(total, each.name) == getattr(one, each.name) + getattr(other, each.name), each.name
    assert total.set_aside == one.set_aside + other.set_aside


@given(tallies, tallies)
def test_what_came_since_is_what_was_added(one: Tally, other: Tally) -> None:
    total = one.copy()
    total.add(other)
    since = total.since(one)
    assert since.entities == total.entities  # a level
    assert since.new_entities == other.entities + other.aged_entities
    for each in fields(Tally):
        if each.name not in ("entities", "new_entities"):
            assert getattr(since, each.name) == getattr(other, each.name), each.name


@given(tallies)
def test_a_tally_travels_as_json_among_other_facts(tally: Tally) -> None:
    told = json.loads(json.dumps(tally.to_json() | {"partition": "west", "last_s": 7.5}))
    assert Tally.from_json(told) == tally
    assert Tally.from_json({"rows": 3}) == Tally(rows=3)


def test_a_copy_does_not_go_on_counting() -> None:
    tally = Tally(bad=Counter(late=1))
    before = tally.copy()
    tally.bad["late"] += 4
    assert (before.bad["late"], tally.since(before).bad["late"]) == (1, 4)


def test_a_recogniser_counts_rows_without_key_or_time_by_reason() -> None:
    patterns = wayeb_py.compile("stream s { key id time ts in s }\npattern P := (v > 5)\n")
    recogniser = wayeb_py.Recogniser(patterns)
    recogniser.feed(pa.table({"id": [1, None, 1], "ts": [1, 2, None], "v": [9.0, 9.0, 9.0]}))
    assert recogniser.counts.bad == {"missing key": 1, "missing time": 1}
    assert (recogniser.counts.without_key, recogniser.counts.without_time, recogniser.counts.set_aside) == (1, 1, 2)
