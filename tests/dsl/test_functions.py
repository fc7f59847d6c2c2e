"""A function of the language is declared once, and everything that needs to know it asks the declaration."""

from __future__ import annotations

import dataclasses

import pytest

from tools.functions_table import PAGE, page_with_table
from wayeb_py.dsl.functions import FUNCTIONS, USAGE, Function, function_of, needs, ways_to_call
from wayeb_py.dsl.semantics.calls.one_entity import CHECKS
from wayeb_py.dsl.syntax import tree as t
from wayeb_py.dsl.syntax.parser import parse
from wayeb_py.engine.values import EVALUATED

PARTS_OF_ARITHMETIC = {"abs", "min", "max", "angle"}
WORKED_OUT = {"point", "time", "missing"}  # constants, places, and a cell of every axis


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.usage)
def test_a_usage_is_a_call_with_the_declared_arguments(function: Function) -> None:
    (let,) = parse(f"let x = {function.usage}\n").declarations
    assert isinstance(let, t.Let)
    assert isinstance(let.body, t.Call)
    assert let.body.function == function.name
    assert function.accepts(len(let.body.arguments))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.usage)
def test_what_has_arguments_is_checked(function: Function) -> None:
    of_entities = all(takes == "entity" for takes in function.takes) and function.becomes is not None
    of_members = "members of a rule" in function.needs  # whose conditions are checked by `semantics/rules/calls`
    assert function.name in CHECKS or of_entities or of_members


def test_nothing_is_checked_or_evaluated_that_is_not_declared() -> None:
    assert set(CHECKS) | set(EVALUATED) <= set(USAGE)


def test_every_function_of_one_entity_is_evaluated() -> None:
    of_one = {function.name for function in FUNCTIONS if not function.of_several}
    assert of_one - PARTS_OF_ARITHMETIC - WORKED_OUT <= set(EVALUATED)


def test_a_part_of_the_tree_leads_to_its_function() -> None:
    for function in FUNCTIONS:
        if function.becomes is not None and not dataclasses.fields(function.becomes):
            part = function.becomes()
            assert function_of(part) == function
            assert all(needs(part, need) for need in function.needs)


def test_ways_to_call_are_told_apart_by_the_number_of_their_arguments_or_by_what_they_take() -> None:
    for name in USAGE:
        takes = [way.takes for way in ways_to_call(name)]
        assert len(set(takes)) == len(takes)


def test_the_table_of_the_reference_is_current() -> None:
    page = PAGE.read_text()
    assert page == page_with_table(page), "python -m tools.functions_table writes it anew"
