"""Any text whatever gives messages or a tree, and quickly: no traceback, no endless work."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.strategies import examples
from wayeb_py import dsl
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.printer import print_tree
from wayeb_py.errors import DataError, LimitError, PatternError

VALID = """\
stream vehicles {
    key      vehicle_id
    time     ts in s
    position lon, lat
    attr     engine text
    attr     speed  number in km/h
    lateness 10 min
}
points port from "ports.csv"
areas  city from "cities.geojson"
let off = engine = "off" and elapsed() > 30 min
let fast = speed in 5..9 or speed > 10 m/s and not (engine in {"on", "idle"})
pattern Route := off ; fast+ ; (prev(speed) * 2 - 1 > 3 and hour("Europe/Athens") < 6){2,5} within 2 h emit speed, lon
pattern Near for each p in port := @((near(port, 5 km)), !(any* ; off), #(off, any?)) | (distance(p) < p.limit * 1 m)
test Route {
    speed:  60 0 - 7.5
    engine: off "on \\"x\\"" - off
    at:     0 10min 20min 1h
    detects at 1, 3 from 0
}
"""
PREFIX = (
    ";(IsEventTypePredicate(A),+(GT(speed,5),^(EQ(x,1),-(LT(y,-2)))),*(TruePredicate())){window:10}\n&\nBT(x,1,2)\n"
)
SIGNS = [
    *"(){}[]!;&|#@,'\"`\\/=:.-+*?é≤∧·$°“",
    "#(",
    "@(",
    "//",
    ":=",
    "..",
    "1e9",
    "in",
    "not",
    "any",
    "pattern",
    "test",
]
PIECES = [*VALID.split(), *SIGNS, "\n", "\t", "\ufeff", "\x00", "\u2028"]


def told(use: Callable[[str], object], text: str) -> Exception | None:
    """The error that the writer of a text sees; any other error is a failure of the test."""
    try:
        use(text)
    except (PatternError, LimitError, DataError) as error:
        return error
    return None


def takes(text: str) -> None:
    """Reads a text every way there is."""
    for use in (dsl.read, dsl.parse, dsl.format_text, dsl.convert_prefix):
        error = told(use, text)
        if error is not None:
            assert str(pickle.loads(pickle.dumps(error))) == str(error) != ""


@settings(deadline=None, derandomize=True, max_examples=examples(600))
@given(st.text(max_size=60))
@example('include "\x00"')
@example("pattern A := (x > 1" + "0" * 5000 + ")")
@example("pattern A := (x > 1){" + "9" * 5000 + "}")
@example("test A { x: 1 at: " + "9" * 5000 + "h detects at " + "9" * 5000 + " }")
@example("pattern A := any within 1e400 h")
@example('pattern A := (hour("' + "../" * 50 + '") > 3)')
def test_any_text_gives_messages_or_a_tree(text: str) -> None:
    takes(text)


@settings(deadline=None, derandomize=True, max_examples=examples(600))
@given(st.lists(st.sampled_from(PIECES), max_size=40), st.sampled_from([" ", ""]))
def test_any_words_in_any_order_give_messages_or_a_tree(words: list[str], joint: str) -> None:
    takes(joint.join(words))
    takes(f"pattern P := {joint.join(words)}")


@settings(deadline=None, derandomize=True, max_examples=examples(600))
@given(st.sampled_from([VALID, PREFIX]), st.data())
def test_a_damaged_file_gives_messages_or_a_tree(text: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(text)))
        end = min(len(text), place + data.draw(st.integers(0, 6)))
        text = text[:place] + data.draw(st.sampled_from(["", *PIECES])) + text[end:]
    takes(text)


def test_the_undamaged_files_have_no_errors() -> None:
    assert [pattern.name for pattern in dsl.read(VALID).patterns] == ["Route", "Near"]
    assert [pattern.name for pattern in dsl.read(PREFIX).patterns] == ["pattern_1", "pattern_2"]


DEEP = {
    "5,000 parentheses": "(" * 5000 + "x > 1" + ")" * 5000,
    "20,000 complements": "!" * 20_000 + "(x > 1)",
    "20,000 negations": "(" + "not " * 20_000 + "x > 1)",
    "20,000 signs": "(" + "-" * 20_000 + "x > 1)",
    "5,000 calls": "(" + "abs(" * 5000 + "x" + ")" * 5000 + " > 1)",
    "5,000 iterations": "(x > 1)" + "*" * 5000,
    "5,000 bounds": "(x > 1)" + "{2}" * 5000,
    "5,000 policies": "#(" * 5000 + "any" + ")" * 5000,
    "a sum of 5,000": "(" + " - ".join(["x"] * 5000) + " > 1)",
}


@pytest.mark.parametrize("body", DEEP.values(), ids=DEEP.keys())
def test_what_nests_too_deeply_is_a_limit_error_with_its_place(body: str) -> None:
    for use in (dsl.read, dsl.parse):
        with pytest.raises(LimitError) as caught:
            use(f"pattern P := {body}")
        assert caught.value.limit == 500
        assert caught.value.diagnostic is not None
        assert "<text>:1:" in str(caught.value)


def test_a_prefix_form_that_nests_too_deeply_is_a_limit_error() -> None:
    with pytest.raises(LimitError, match="nests deeper"):
        dsl.read("!(" * 5000 + "EQ(x,1)" + ")" * 5000)


def test_lets_that_add_up_to_too_many_levels_are_a_limit_error() -> None:
    lets = ["let a0 = x > 1", *(f"let a{i} = not a{i - 1}" for i in range(1, 700))]
    with pytest.raises(LimitError) as caught:
        dsl.read("\n".join([*lets, "pattern P := a699"]))
    assert caught.value.limit == 500


def test_lets_that_double_each_other_do_not_hang() -> None:
    lets = ["let a0 = x > 1", *(f"let a{i} = a{i - 1} and a{i - 1}" for i in range(1, 60))]
    with pytest.raises(LimitError, match="too large"):  # written out it would be larger than any memory
        dsl.read("\n".join([*lets, "pattern P := a59"]))


@pytest.mark.parametrize(("joint", "n_letters"), [(" ; ", 20_000), (" | ", 5_000), (" & ", 5_000)])
def test_thousands_of_letters_in_one_regex_are_fine(joint: str, n_letters: int) -> None:
    """Twenty times as many as Python lets calls nest, and for the joints that are read in the same loop five times."""
    meaning = dsl.read("pattern P := " + joint.join(["(x > 1)"] * n_letters))
    assert len(meaning.patterns[0].regex.parts) == n_letters  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("opening", "closing"),
    [("!", ""), ("(", ")"), ("#(any, ", ")"), ("((x > 2) | ", ")")],
    ids=["complement", "group", "policy", "union"],
)
def test_trees_of_the_allowed_height_compare_hash_print_and_pickle(opening: str, closing: str) -> None:
    levels = 240 if opening.startswith("((") else 497
    text = "pattern P := " + opening * levels + "any" + closing * levels
    tree, again = dsl.parse(text), dsl.parse(text)
    assert tree == again
    assert hash(tree) == hash(again)
    assert repr(tree) == repr(again)
    assert dsl.parse(print_tree(tree)) == tree
    assert pickle.loads(pickle.dumps(tree)) == tree
    assert dsl.parse(dsl.format_text(text)) == tree
    meaning = dsl.read(text)
    assert meaning.patterns == dsl.read(text).patterns
    assert hash(meaning.patterns) == hash(dsl.read(text).patterns)
    assert repr(meaning.patterns[0].regex)
    assert pickle.loads(pickle.dumps(meaning)) == meaning


def test_a_tree_differs_from_one_that_differs_at_the_bottom() -> None:
    tall = [dsl.parse("pattern P := " + "!" * 400 + f"(x > {n})") for n in (1, 2)]
    assert tall[0] != tall[1]
    assert isinstance(tall[0], t.File)


def test_a_thousand_patterns_are_read() -> None:
    body = '(speed > {0} and engine = "off") ; ((speed < {0} or fuel >= 0.2)+ | off){{2,5}} ; @(off, off*)'
    text = 'let off = engine = "off"\n' + "\n".join(f"pattern P{i} := {body.format(i)}" for i in range(1000))
    assert len(dsl.read(text).patterns) == 1000
