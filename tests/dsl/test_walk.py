"""One walk and one transform over the checked tree: every part is met once, in the order of the text, at any height."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings

from tests.strategies import HELD_ATOMS, PLAIN_ATOMS, examples, regexes
from wayeb_py import dsl
from wayeb_py.dsl import meaning as m
from wayeb_py.dsl.walk import parts_of, transform, walk

TEXT = """
stream ships { key mmsi time ts in s position lon, lat attr speed number in kn }
points port from "ports.csv"
pattern P for each p in port :=
    (distance(p) < 5 km and speed > p.limit) ; !(held(near(port, 1 km)) > 1 h and prev(speed) + 1 < 3){2,}
"""


def test_a_walk_meets_every_part_from_left_to_right() -> None:
    (pattern,) = dsl.read(TEXT).patterns
    found = [type(part).__name__ for part in walk(pattern.regex)]
    assert found == [
        "Sequence",
        *("Letter", "And", "Compare", "Distance", "Places", "Constant", "Compare", "Attribute", "PlaceColumn"),
        *("Complement", "Iteration", "Letter", "And", "Compare", "Held", "Near", "Places", "Constant"),
        *("Compare", "Arithmetic", "Previous", "Attribute", "Constant", "Constant"),
    ]


def test_a_transform_changes_what_it_is_told_to_and_keeps_the_rest_as_it_is() -> None:
    (pattern,) = dsl.read(TEXT).patterns
    faster = transform(pattern.regex, lambda part: replace(part, name="sog") if isinstance(part, m.Attribute) else part)
    assert [part.name for part in walk(faster) if isinstance(part, m.Attribute)] == ["sog", "sog"]
    assert isinstance(faster, m.Sequence)
    assert isinstance(pattern.regex, m.Sequence)
    assert [letter.text for letter in walk(faster) if isinstance(letter, m.Letter)] == [
        letter.text for letter in walk(pattern.regex) if isinstance(letter, m.Letter)
    ]
    assert transform(faster, lambda part: replace(part, name="speed") if isinstance(part, m.Attribute) else part) == (
        pattern.regex
    )


def test_what_changes_nothing_gives_the_very_same_tree() -> None:
    (pattern,) = dsl.read(TEXT).patterns
    assert transform(pattern.regex, lambda part: part) is pattern.regex


def test_innermost_parts_are_changed_first() -> None:
    value = m.Arithmetic("+", (m.Arithmetic("neg", (m.Attribute("x", "number"),)), m.Attribute("y", "number")))
    seen: list[str] = []

    def note(part: m.Value) -> m.Value:
        seen.append(getattr(part, "operator", "") or getattr(part, "name", ""))
        return part

    transform(value, note)
    assert seen.index("x") < seen.index("neg") < seen.index("+")
    assert seen.index("y") < seen.index("+")


def test_a_tree_of_any_height_is_walked_and_changed() -> None:
    regex: m.Regex = m.Letter(m.Compare(">", m.Attribute("x", "number"), m.Constant(True, "bool")))
    for _ in range(5000):
        regex = m.Complement(regex)
    renamed = transform(regex, lambda part: replace(part, name="y") if isinstance(part, m.Attribute) else part)
    assert sum(isinstance(part, m.Complement) for part in walk(renamed)) == 5000
    assert [part.name for part in walk(renamed) if isinstance(part, m.Attribute)] == ["y"]


@settings(max_examples=examples(100))
@given(regexes((*PLAIN_ATOMS, HELD_ATOMS)))
def test_a_walk_is_the_part_and_the_walks_of_its_parts(regex: m.Regex) -> None:
    def recursed(part: object) -> list[object]:
        return [part, *(inner for inside in parts_of(part) for inner in recursed(inside))]

    assert [id(part) for part in walk(regex)] == [id(part) for part in recursed(regex)]
