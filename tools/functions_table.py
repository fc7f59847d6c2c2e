"""The functions of the language become a table of its reference.

    python -m tools.functions_table            # writes it into docs/language.md

The table stands between two marks of the page, which is committed so that it can be read beside the code; a test
compares it with what this would write. It is made from `dsl/functions.py`, where a function is declared once.
"""

from __future__ import annotations

from pathlib import Path

from wayeb_py.dsl.functions import FUNCTIONS, OF_NAMED_EVENTS, Function
from wayeb_py.dsl.units import UNITS

PAGE = Path(__file__).parent.parent / "docs" / "language.md"
BEGIN = "<!-- made by python -m tools.functions_table -->"
END = "<!-- end of what is made -->"

_GIVES = {"number": "a number", "same": "as x", "predicate": "true or false", "time": "a time", "places": "a place"}


def render_table() -> str:
    """The rows of all functions."""
    head = ["| function | gives | meaning | needs |", "| --- | --- | --- | --- |"]
    return "\n".join([*head, *map(_row, (*FUNCTIONS, *OF_NAMED_EVENTS))])


def _row(function: Function) -> str:
    unit = next((name for name, unit in UNITS.items() if unit == function.unit), None)
    gives = _GIVES[function.gives] if unit is None else f"a number in {unit}"
    return f"| `{function.usage}` | {gives} | {function.says} | {', '.join(function.needs)} |"


def page_with_table(page: str) -> str:
    """The page with the table as it is now."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no `{BEGIN}` with an `{END}` after it")
    return f"{before}{BEGIN}\n\n{render_table()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text()))
