"""Rules that tests themselves keep: each asserts, none gives up silently, and each lies where its code is."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
DATA = {"broken", "corpus", "golden"}  # folders of cases, not of code
MOST_FILES = 15
Function = ast.FunctionDef | ast.AsyncFunctionDef

pytestmark = pytest.mark.xdist_group("tests of tests")  # which parse each file once


@cache
def functions() -> list[tuple[Path, ast.FunctionDef]]:
    return [
        (path, node)
        for path in sorted(TESTS.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]


def of_tests() -> list[tuple[Path, ast.FunctionDef]]:
    return [(path, function) for path, function in functions() if function.name.startswith("test_")]


def own_parts(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a function, but not those of functions inside it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, Function | ast.Lambda):
            yield child
            yield from own_parts(child)


def called(function: ast.FunctionDef) -> set[str]:
    """The names of the functions that it calls, without what stands before the point."""
    calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    return {ast.unparse(call).rpartition(".")[2] for call in calls}


def told(path: Path, node: ast.stmt | ast.FunctionDef) -> str:
    return f"{path.relative_to(TESTS.parent)}:{node.lineno}"


def test_every_test_asserts_itself_or_by_what_it_calls() -> None:
    """Functions are followed by their names alone: a test that is found here asserts nothing for certain."""
    calls: defaultdict[str, set[str]] = defaultdict(set)
    asserting = {"raises", "fail", "warns"}  # of pytest
    for _, function in functions():
        calls[function.name] |= called(function)
        if any(isinstance(node, ast.Assert) for node in ast.walk(function)):
            asserting.add(function.name)
    while more := {name for name, names in calls.items() if names & asserting} - asserting:
        asserting |= more
    assert [told(*test) for test in of_tests() if test[1].name not in asserting] == []


def test_no_test_returns_before_its_end() -> None:
    assert [
        told(path, node)
        for path, function in of_tests()
        for node in own_parts(function)
        if isinstance(node, ast.Return)
    ] == []


def parameters(function: ast.FunctionDef) -> set[str]:
    """The names that `parametrize` gives values to."""
    names: set[str] = set()
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.parametrize":
            given = ast.literal_eval(decorator.args[0])
            names |= {given} if isinstance(given, str) else set(given)
    return names


def test_no_test_branches_on_its_own_parameter() -> None:
    assert [
        told(path, node)
        for path, function in of_tests()
        for node in own_parts(function)
        if isinstance(node, ast.If)
        and {part.id for part in ast.walk(node.test) if isinstance(part, ast.Name)} & parameters(function)
    ] == []


def test_no_folder_is_too_full_to_find_a_test_in_it() -> None:
    files: defaultdict[str, int] = defaultdict(int)
    for path in TESTS.rglob("*.py"):
        if path.name != "__init__.py":
            files[str(path.parent.relative_to(TESTS))] += 1
    assert {folder: n for folder, n in files.items() if n > MOST_FILES and folder not in DATA} == {}
