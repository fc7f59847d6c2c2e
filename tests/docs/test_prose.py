"""Docstrings and comments use the words of the glossary, and sentences whose subject does something."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("dsl", "wayeb_py", "parallel", "tools", "benchmarks", "data", "tests", "docs")
# Links inside wayeb_py/, whose files are read where they really are; what benchmarks download; and the words below.
LEFT_OUT = ("wayeb_py/dsl/", "wayeb_py/parallel/", "benchmarks/data/", "tests/docs/test_prose.py")
# Words for which the glossary has another; and subjects and verbs that hide who does what: columns are read, places
# used and values requested, not "asked for"; a parameter has its name, and is not "so many".
NOT_WORDS = r"errands?|harvests?|stretch(?:es)?|last words|ageing|outlets?|complaints?"
NOT_PROSE = (
    r"somebody|someone|whoever|whomever|nobody|anybody|ones? who|wall's clock|clock on the wall"
    r"|(?:is|are|was|were|be|been|not|can be) told|anew|afresh"
    r"|ask(?:s|ed|ing)? for|so (?:many|long|much|often)(?! (?:\w+ ){0,2}(?:that|as)\b)"
)


def files_of(folder: str) -> Iterator[Path]:
    for path in sorted((ROOT / folder).rglob("*.py")):
        inside = path.relative_to(ROOT).as_posix()
        if "__pycache__" not in inside and not inside.startswith(LEFT_OUT):
            yield path


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Every docstring and comment of a file, with its line; names in backquotes are left out."""
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, re.sub(r"`[^`]*`", "", node.value.value)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], re.sub(r"`[^`]*`", "", token.string)


def lines_of_prose(page: Path) -> Iterator[tuple[int, str]]:
    """The lines of a page outside of code and of what tools have made, without names in backquotes."""
    is_code = is_made = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        is_made = (is_made or "<!-- made by" in line) and "<!-- end of what is made" not in line
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not (is_code or is_made):
            yield number, re.sub(r"`[^`]*`", "", line)


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_and_comments_use_the_words_of_the_glossary(folder: str) -> None:
    wrong = re.compile(rf"\b(?:{NOT_WORDS}|{NOT_PROSE})\b", re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]}"
        for path in files_of(folder)
        if wrong.search(path.read_text(encoding="utf-8"))  # where no word is wrong none of the prose is
        for line, text in prose(path)
        for match in wrong.finditer(text)
    ]
    assert found == []
