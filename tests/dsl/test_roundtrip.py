"""A tree prints as text that parses to the same tree; the formatter keeps the tree and every comment."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tests.dsl.random_trees import expressions, files
from tests.strategies import examples
from wayeb_py import dsl
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.lexicon import tokens_of
from wayeb_py.dsl.syntax.printer import print_tree
from wayeb_py.errors import LimitError, PatternError

ROOT = Path(__file__).parents[2]

LAID_OUT = """\
// Fleet.


// What is known of the events.
stream   v { // head
  key id // the key
   // alone
   time ts in s
  attr speed   number in km/h
  attr   engine text // of the engine
  // last
} // closing
let slow = speed > 5 // trailing

let off = // why
   speed ≤ 6 ∧
   // own line
   engine = "//" // end
pattern   P :=   (speed > 50){1,} ; slow{ 2 , 3 } | off+ ; (speed > 50 and speed < 70 and engine = "long") · slow ; off
  within 10 events // window
  emit speed
test P { // test
  speed: 1 100 3 // one
  // before
  engine: x yyy -
  detects at 1, 2 from 0 // two
}
// tail"""


@settings(deadline=None, derandomize=True, max_examples=examples(400))
@given(files)
def test_a_printed_file_parses_to_the_same_tree(file: t.File) -> None:
    assert dsl.parse(print_tree(file)) == file


@settings(deadline=None, derandomize=True, max_examples=examples(400))
@given(expressions)
def test_a_printed_expression_parses_to_the_same_tree(expression: t.Expression) -> None:
    (let,) = dsl.parse(f"let x = {print_tree(expression)}").declarations
    assert isinstance(let, t.Let)
    assert let.body == expression


@settings(deadline=None, derandomize=True, max_examples=examples(200))
@given(files)
def test_formatting_keeps_the_tree_and_is_done_once(file: t.File) -> None:
    formatted = dsl.format_text(print_tree(file))
    assert dsl.parse(formatted) == file
    assert dsl.format_text(formatted) == formatted


@settings(deadline=None, derandomize=True, max_examples=examples(300))
@given(st.data())
def test_formatting_keeps_every_comment(data: st.DataObject) -> None:
    text = print_tree(data.draw(files))
    tokens = tokens_of(text, 0, len(text))
    places = sorted(data.draw(st.sets(st.sampled_from([token.start for token in tokens]), max_size=4)), reverse=True)
    for i, place in enumerate(places):
        text = f"{text[:place]}{data.draw(st.sampled_from([' ', chr(10)]))}// c{i} “x”\n{text[place:]}"
    try:
        tree = dsl.parse(text)
    except PatternError:
        reject()  # a comment inside a unit or a call leaves no valid text
    formatted = dsl.format_text(text)
    assert dsl.parse(formatted) == tree
    assert sorted(re.findall(r"// c\d", formatted)) == sorted(re.findall(r"// c\d", text))
    assert dsl.format_text(formatted) == formatted


def test_the_layout_is_the_usual_one() -> None:
    formatted = dsl.format_text(LAID_OUT)
    assert formatted == (Path(__file__).parent / "formatted.sre").read_text(encoding="utf-8")
    assert dsl.parse(formatted) == dsl.parse(LAID_OUT)
    assert dsl.format_text(formatted) == formatted


@pytest.mark.parametrize("path", sorted(ROOT.glob("patterns/**/*.sre")), ids=lambda path: path.name)
def test_the_shipped_patterns_round_trip(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = dsl.parse(text)
    assert dsl.parse(print_tree(tree)) == tree
    assert dsl.parse(dsl.format_text(text)) == tree


def test_files_that_only_the_checker_refuses_round_trip() -> None:
    trees = {}
    for path in sorted((ROOT / "tests" / "broken").glob("*.sre")):
        with suppress(PatternError, LimitError):
            trees[path.stem] = dsl.parse(path.read_text(encoding="utf-8"))
    assert len(trees) > 50
    assert [name for name, tree in trees.items() if dsl.parse(print_tree(tree)) != tree] == []


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_line_ends_and_a_byte_order_mark_change_nothing(ending: str, start: str) -> None:
    text = start + LAID_OUT.replace("\n", ending)
    assert dsl.parse(text) == dsl.parse(LAID_OUT)
    assert dsl.format_text(text) == dsl.format_text(LAID_OUT)
