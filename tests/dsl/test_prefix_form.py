"""The older prefix form means what it means in this language."""

from __future__ import annotations

import pytest

from wayeb_py import dsl
from wayeb_py.dsl.syntax.prefix.which_form import is_prefix_form
from wayeb_py.errors import PatternError

SAME = {
    "IsEventTypePredicate(A)": '(type = "A")',
    ";(IsEventTypePredicate(A),+(EQ(x,1),EQ(x,2)))": '(type = "A") ; ((x = 1) | (x = 2))',
    "*(TruePredicate())": "any*",
    ";(GT(x,1),*(LT(x,2)),GTE(x,-3),LTE(x,4.5))": "(x > 1) ; (x < 2)* ; (x >= -3) ; (x <= 4.5)",
    "!(;(EQ(x,1),EQ(x,2)))": "!((x = 1) ; (x = 2))",
    "!(EQ(x,1))": "!(x = 1)",
    "*(!(EQ(x,1)))": "(!(x = 1))*",
    "#(EQ(x,1),EQ(x,2),EQ(x,3))": "#((x = 1), (x = 2), (x = 3))",
    "@(EQ(x,1),;(EQ(x,2),EQ(x,3)))": "@((x = 1), (x = 2) ; (x = 3))",
    "^(GT(x,1),|(LT(y,2),-(EQStr(z,off))))": '(x > 1 and (y < 2 or not z = "off"))',
    "-(^(GT(x,1),LT(x,2)))": "(not (x > 1 and x < 2))",
    "BT(x,5,9)": "(x in 5..9)",
    'EQStr(z,"two words")': '(z = "two words")',
    "EQ(z,off)": '(z = "off")',
    ";(EQ(x,1),EQ(x,2)){window:10}{windowType:count}": "(x = 1) ; (x = 2) within 10 events",
    ";(EQ(x,1),EQ(x,2)) {window:60, windowType:time}": "(x = 1) ; (x = 2) within 60 s",
    "{window:3} ; ( EQ( x , 1 ) ,\n EQ(x,2) ) // said before": "(x = 1) ; (x = 2) within 3 events",
    "{order:2}EQ(x,1)": "(x = 1)",
    # The Scala engine's policies take one formula.
    "#(;(EQ(x,1),EQ(x,2),EQ(x,3)))": "#((x = 1), (x = 2), (x = 3))",
    "@(;(EQ(x,1),;(EQ(x,2),EQ(x,3)),*(EQ(x,4))))": "@((x = 1), (x = 2) ; (x = 3), (x = 4)*)",
    "@(;(EQ(x,1),#(;(EQ(x,2),EQ(x,3)))))": "@((x = 1), #((x = 2), (x = 3)))",
    "#(*(EQ(x,1)))": "((x = 1) ; (any* ; (x = 1))*)?",
    "@(*(EQ(x,1)))": "((x = 1) ; (!(any* ; (x = 1) ; any*) ; (x = 1))*)?",
    "#(+(EQ(x,1),;(EQ(x,2),EQ(x,3))))": "(x = 1) | ((x = 2) ; (x = 3))",
    "@(!(EQ(x,1)))": "!(x = 1)",
    "#(EQ(x,1))": "(x = 1)",
    "-EQ(x,1)": "(not x = 1)",
    "- EQ(x,1)": "(not x = 1)",
    "--EQ(x,1)": "(not not x = 1)",
    "|(EQ(x,1),-EQStr(y,off))": '(x = 1 or not y = "off")',
    "-^(EQ(x,1),EQ(y,2))": "(not (x = 1 and y = 2))",
    ";(-EQ(x,1),*(-LT(x,-2)))": "(not x = 1) ; (not x < -2)*",
    "TruePredicate": "any",
    ";(TruePredicate,*(TruePredicate),-TruePredicate)": "any ; any* ; (not any)",
    "|(TruePredicate,EQ(x,1))": "(any or x = 1)",
    "EQ(x,1){order:1}{window:0}": "(x = 1)",
    "EQ(x,1){window:0}{windowType:time}": "(x = 1)",
}


@pytest.mark.parametrize(("old", "new"), SAME.items(), ids=SAME.keys())
def test_the_older_form_means(old: str, new: str) -> None:
    expected = dsl.read(f"pattern pattern_1 := {new}").patterns
    assert dsl.read(old).patterns == expected
    assert dsl.read(dsl.convert_prefix(old)).patterns == expected


CIRCLES = {
    "WithinCirclePredicate(-4.47,48.38,5)": "(distance(point(-4.47, 48.38)) <= 5 km)",
    "OutsideCirclePredicate(-4.47,48.38,5)": "(distance(point(-4.47, 48.38)) > 5 km)",
    "DistanceBetweenPredicate(-4.47,48.38,7,10)": "(distance(point(-4.47, 48.38)) in 7..10 km)",
}


@pytest.mark.parametrize(("old", "new"), CIRCLES.items(), ids=CIRCLES.keys())
def test_circles_are_distances_from_the_position(old: str, new: str) -> None:
    stream = "stream events { key mmsi time timestamp in s position lon, lat }\n"
    expected = dsl.read(f"{stream}pattern pattern_1 := {new}")
    found = dsl.read(f"{old}{{partitionBy:mmsi}}")
    assert (found.stream, found.patterns) == (expected.stream, expected.patterns)


def test_patterns_are_separated_by_an_ampersand_and_numbered() -> None:
    text = "{partitionBy:mmsi}{window:5} EQ(x,1) & EQ(x,2){name:Second} // & not here\n& EQ(x,3){window:7}"
    meaning = dsl.read(text)
    assert [(p.name, p.window.events if p.window else None) for p in meaning.patterns] == [
        ("pattern_1", 5),
        ("Second", 5),
        ("pattern_3", 7),
    ]
    assert (meaning.stream.key, meaning.stream.time, meaning.stream.time_unit) == ("mmsi", "timestamp", "s")


def test_a_converted_file_is_laid_out_as_usual() -> None:
    converted = dsl.convert_prefix(";(IsEventTypePredicate(A),*(GT(speed,5))){partitionBy:mmsi}{window:9}")
    assert converted == (
        "stream events {\n    key  mmsi\n    time timestamp in s\n}\n"
        'pattern pattern_1 := (type = "A") ; (speed > 5)* within 9 events\n'
    )
    assert dsl.format_text(converted) == converted


WRONG = {
    ";(EQ(x,1),EQ(x,2)": ("this parenthesis is never closed", 1),
    ";(EQ(x,1),)": ("something is missing after the comma", 11),
    ";(,EQ(x,1))": ("something is missing before this comma", 3),
    ";(EQ(x,1) EQ(x,2))": ("a comma is missing here", 11),
    "EQ(x,1))": ("a pattern ends here", 8),
    "EQ(x,1) EQ(x,2)": ("a pattern ends here", 9),
    "EQ(x)": ("`EQ` takes 2 arguments", 1),
    ";(EQ(x,1),B)": ("`B` is not a predicate", 11),
    "EQ(EQ(x,1),2)": ("`EQ` takes plain values", 4),
    "*(EQ(x,1),EQ(x,2))": ("`*` takes one argument", 1),
    "EQ(x,1)&&EQ(x,2)": ("a pattern is missing here", 9),
    "EQ(x,1){window:many}": ("`window` is a whole number", 8),
    "EQ(x,1){windowType:days}": ("`windowType` is `time` or `count`", 8),
    "EQ(x,1){partitionBy:a}&EQ(x,2){partitionBy:b}": ("all patterns of a file are about the entities of one key", 31),
    ';(EQ(x,1)["r"],EQ(x,2))': ("registers are not supported", 10),
    'EQ(x,1)["r"]{window:3}': ("registers are not supported", 8),
    ';(EQ(x,1),^(EQ(x,2),GTAttr(speed,"r")))': ("registers are not supported", 21),
    'EQAttrStr(name,"r")': ("registers are not supported", 1),
    "~(EQ(x,1),EQ(x,2))": ("declarations such as `~(…)` are not supported", 1),
    ";(EQ(x,1),~(EQ(x,2),EQ(x,3)))": ("declarations such as `~(…)` are not supported", 11),
    "+(EQ(x,1),EQ(x,2)),\n~(EQ(x,1),EQ(x,2))": ("declarations such as `~(…)` are not supported", 19),
    ";(EQ(x,1),-)": ("`-` negates a predicate", 11),
    ";(EQ(x,1),-B)": ("`-` negates a predicate", 11),
    "#(*(;(EQ(x,1),#(*(EQ(x,2))))))": ("`#` over `*` cannot stand inside another such", 1),
    ";(EQ(x,1) TruePredicate)": ("a comma is missing here", 11),
    "#()": ("`#` takes one argument or more", 1),
    "EQ(x,1){name:A}&EQ(x,2){name:A}": ("the pattern `A` is declared twice", 24),
}


@pytest.mark.parametrize(("text", "message", "column"), [(k, *v) for k, v in WRONG.items()], ids=WRONG.keys())
def test_mistakes_in_the_older_form_are_explained(text: str, message: str, column: int) -> None:
    with pytest.raises(PatternError) as caught:
        dsl.read(text)
    rendered = str(caught.value)
    assert rendered.startswith(message)
    assert f"<text>:1:{column}\n" in rendered


# Files of the same forms as those that the Scala engine comes with.
FILES = {
    ";(IsEventTypePredicate(K),+(IsEventTypePredicate(L),IsEventTypePredicate(M))){order:1}{window:0}\n": (
        'pattern pattern_1 := (type = "K") ; ((type = "L") | (type = "M"))'
    ),
    ";(OutsideCirclePredicate(2.10000,41.35000,3.0),WithinCirclePredicate(2.10000,41.35000,3.0))"
    "{order:0}{partitionBy:mmsi}": (
        "stream events { key mmsi time timestamp in s position lon, lat }\n"
        "pattern pattern_1 := (distance(point(2.1, 41.35)) > 3 km) ; (distance(point(2.1, 41.35)) <= 3 km)"
    ),
    ";(IsEventTypePredicate(K),IsEventTypePredicate(L)){order:2}\n&\n"
    ";(|(IsEventTypePredicate(K),-IsEventTypePredicate(L)),IsEventTypePredicate(M))"
    "{order:0}{partitionBy:someAttribute}{window:10}{windowType:count}\n": (
        "stream events { key someAttribute time timestamp in s }\n"
        'pattern pattern_1 := (type = "K") ; (type = "L")\n'
        'pattern pattern_2 := (type = "K" or not type = "L") ; (type = "M") within 10 events'
    ),
}


@pytest.mark.parametrize(("old", "new"), FILES.items())
def test_whole_files_of_the_scala_engine_s_forms(old: str, new: str) -> None:
    found, expected = dsl.read(old), dsl.read(new)
    assert (found.stream, found.patterns) == (expected.stream, expected.patterns)


@pytest.mark.parametrize("text", ["-EQ(x,1)", "TruePredicate", "- - ^(A)", "~(A)", 'GTAttr(speed,"x")'])
def test_what_the_older_form_may_begin_with(text: str) -> None:
    assert is_prefix_form(text)


@pytest.mark.parametrize(
    "text", ["pattern A := any", "", "// ;(A)\nlet x = 1", "near(port, 5 km)", "stream s { key k time t }"]
)
def test_other_texts_are_not_taken_for_the_older_form(text: str) -> None:
    assert not is_prefix_form(text)
