"""The language: the text of .sre files becomes a tree, and the tree becomes a meaning that the engine can compile.

    text → parse → tree → check → meaning

`read` does all of it for files and what they include. Everything is imported at its first use: code that needs only the
classes of `meaning` does not pay for the parser.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wayeb_py.dsl.reader import read as read
    from wayeb_py.dsl.semantics.checker import check as check
    from wayeb_py.dsl.syntax.format import format_text as format_text
    from wayeb_py.dsl.syntax.parser import parse as parse
    from wayeb_py.dsl.syntax.prefix.prefix_form import convert_prefix as convert_prefix

_HOMES = {
    "parse": "syntax.parser",
    "check": "semantics.checker",
    "read": "reader",
    "format_text": "syntax.format",
    "convert_prefix": "syntax.prefix.prefix_form",
}

__all__ = ["check", "convert_prefix", "format_text", "parse", "read"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
