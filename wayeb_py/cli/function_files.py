"""Python files with predicates and functions for patterns, named on the command line.

They run with the rights of the caller, so a pattern file itself can never name one.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from wayeb_py.functions import UserFunction


def load_functions(paths: Sequence[Path]) -> list[UserFunction]:
    """All that the files define with `@predicate` and `@function`; a ValueError says what is wrong with a file."""
    return [function for path in paths for function in _load(path)]


def _load(path: Path) -> list[UserFunction]:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"{path}: there is no such Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{path}: {type(error).__name__}: {error}") from error
    found = [value for value in vars(module).values() if isinstance(value, UserFunction)]
    if not found:
        raise ValueError(f"{path}: there is no @predicate or @function in it")
    return found
