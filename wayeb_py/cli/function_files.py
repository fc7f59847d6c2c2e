"""Python files with predicates and functions for patterns, named on the command line.

They run with the rights of the caller, so a pattern file itself can never name one.
"""

from __future__ import annotations

import importlib.util
import traceback
from collections.abc import Sequence
from pathlib import Path

from wayeb_py.functions import UserFunction


def load_functions(paths: Sequence[Path]) -> list[UserFunction]:
    """Everything that the files define with `@predicate` and `@function`; a ValueError says what is wrong with a
    file."""
    return [function for path in paths for function in _load(path)]


def _load(path: Path) -> list[UserFunction]:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"{path}: there is no such Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{path}{_line_of(error, path)}: it cannot be run: {error}") from error
    found = [value for value in vars(module).values() if isinstance(value, UserFunction)]
    if not found:
        raise ValueError(f"{path}: there is no @predicate or @function in it")
    return found


def _line_of(error: Exception, path: Path) -> str:
    if isinstance(error, SyntaxError):  # it names its line itself
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).absolute() == path.absolute()]
    return f", line {lines[-1]}" if lines else ""
