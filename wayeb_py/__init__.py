"""Recognises patterns, written as symbolic regular expressions, in streams of moving things.

    patterns = wayeb_py.compile("patterns/fleet.sre")
    patterns.recognise(table)

Names are loaded at their first use: importing the package, and reading or checking patterns, loads no compiled kernels.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "compile": ("wayeb_py.patterns", "compile_patterns"),
    "Patterns": ("wayeb_py.patterns", "Patterns"),
    "Recogniser": ("wayeb_py.engine.recogniser", "Recogniser"),
    "Disorder": ("wayeb_py.engine.arrival.tie_order", "Disorder"),
    "Detections": ("wayeb_py.engine.rows.detections", "Detections"),
    "Limits": ("wayeb_py.compiler.limits", "Limits"),
    "predicate": ("wayeb_py.functions", "predicate"),
    "function": ("wayeb_py.functions", "function"),
    "WayebError": ("wayeb_py.errors", "WayebError"),
    "PatternError": ("wayeb_py.errors", "PatternError"),
    "EventsError": ("wayeb_py.errors", "EventsError"),
    "DataError": ("wayeb_py.errors", "DataError"),
    "LimitError": ("wayeb_py.errors", "LimitError"),
}

__all__ = [
    "DataError", "Detections", "Disorder", "EventsError", "LimitError", "Limits", "PatternError", "Patterns",
    "Recogniser", "WayebError", "compile", "function", "predicate",
]  # fmt: skip

if TYPE_CHECKING:
    from wayeb_py.compiler.limits import Limits
    from wayeb_py.engine.arrival.tie_order import Disorder
    from wayeb_py.engine.recogniser import Recogniser
    from wayeb_py.engine.rows.detections import Detections
    from wayeb_py.errors import DataError, EventsError, LimitError, PatternError, WayebError
    from wayeb_py.functions import function, predicate
    from wayeb_py.patterns import Patterns
    from wayeb_py.patterns import compile_patterns as compile


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'wayeb_py' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)
